/* The operations of oom_operations.c that tools for operators use. */
#include "support/scenario/oom.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
/* cmocka needs the first two. */
#include <cmocka.h>
#include <semel/operate.h>
#include <semel/queue.h>
#include <string.h>

enum { DELAY_MS = 86400000 };

static semel_status see_row(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    (void)err;
    *(int64_t *)context = outgoing->seq;
    return SEMEL_OK;
}

/* --- messages that wait ----------------------------------------------------------------------- */

void oom_prepare_delayed(oom_world *w)
{
    semel_error err;
    semel_message message = oom_message("one");
    message.group = "group";
    message.delay_ms = DELAY_MS;
    oom_must(semel_outbox_send(w->box, &message, &err), &err);
}

/* It is skipped once, however often that is asked for. */
semel_status oom_skip(oom_world *w, semel_error *err)
{
    int64_t seq = 0, letter = 0;
    semel_status status = semel_outbox_list(w->box, NULL, see_row, &seq, err);
    return status || !seq ? status
                          : semel_outbox_skip(&letter, w->box, seq, semel_str(""), "stuck", err);
}

static semel_status wake(oom_world *w, int64_t seq, semel_error *err)
{
    semel_stats found = {0};
    semel_status status = semel_outbox_wake(w->box, seq, semel_str(""), err);
    if (!status)
        status = semel_outbox_stats(&found, sizeof found, w->box, DELAY_MS, err);
    return status || found.due == 1 ? status : semel_fail(err, SEMEL_ESTORE, "it is not due");
}

/* It is skipped then, since no message may be left in the end. */
semel_status oom_wake_and_skip(oom_world *w, semel_error *err)
{
    int64_t seq = 0;
    semel_status status = semel_outbox_list(w->box, NULL, see_row, &seq, err);
    if (!status && seq)
        status = wake(w, seq, err);
    return status ? status : oom_skip(w, err);
}

void oom_check_skipped(oom_world *w)
{
    int64_t seq = 0;
    semel_error err;
    oom_must(semel_outbox_list(w->box, NULL, see_row, &seq, &err), &err);
    assert_int_equal(seq, 0);
    assert_int_equal(oom_letters(w), 1);
}

semel_status oom_empty_queue(oom_world *w, semel_error *err)
{
    size_t removed = 1;
    semel_status status = SEMEL_OK;
    while (!status && removed)
        status = semel_queue_purge(&removed, w->queue, 0, 0, 2, err);
    return status;
}

void oom_check_emptied(oom_world *w)
{
    int64_t seq = 0;
    semel_error err;
    oom_must(semel_queue_list(w->queue, NULL, see_row, &seq, &err), &err);
    assert_int_equal(seq, 0);
}

/* --- what is known ---------------------------------------------------------------------------- */

typedef struct seen {
    unsigned names, groups, entries, processes;
} seen;

static semel_status see_name(const semel_name *name, void *context, semel_error *err)
{
    seen *s = context;
    s->names++;
    return strncmp(name->definition, "key=", 4) == 0
               ? SEMEL_OK
               : semel_fail(err, SEMEL_ESTORE, "the definition is \"%s\"", name->definition);
}

static semel_status see_group(const semel_dead_group *group, void *context, semel_error *err)
{
    seen *s = context;
    s->groups += group->letters == 1 && strcmp(group->text, "it fails, as it should") == 0;
    (void)err;
    return SEMEL_OK;
}

static semel_status see_entry(const semel_audit *entry, void *context, semel_error *err)
{
    seen *s = context;
    s->entries += strcmp(entry->who, "ops") == 0;
    (void)err;
    return SEMEL_OK;
}

static semel_status see_process(const semel_process *process, void *context, semel_error *err)
{
    seen *s = context;
    s->processes += strcmp(process->data, "{}") == 0;
    (void)err;
    return SEMEL_OK;
}

static semel_status read_all(seen *s, oom_world *w, semel_error *err)
{
    semel_status status = semel_store_names(w->store, SEMEL_NAME_INBOX, see_name, s, err);
    if (!status)
        status = semel_dead_groups(w->store, NULL, see_group, s, err);
    if (!status)
        status = semel_audit_list(w->store, NULL, see_entry, s, err);
    return status ? status : semel_process_list(w->store, see_process, s, err);
}

/* An entry may be there although the call failed behind its commit: then there is one more. */
semel_status oom_keep_books(oom_world *w, semel_error *err)
{
    semel_audit entry = {.size = sizeof entry, .who = "ops", .what = "look"};
    semel_process process = {.size = sizeof process, .id = "p", .host = "h", .data = "{}"};
    seen s = {0};
    semel_status status = semel_audit_write(&entry, w->store, err);
    entry.result = "seen";
    if (!status)
        status = semel_audit_write(&entry, w->store, err);
    if (!status)
        status = semel_process_write(&process, w->store, err);
    if (!status)
        status = read_all(&s, w, err);
    if (!status && !(s.names && s.groups == 1 && s.entries && s.processes == 1))
        status = semel_fail(err, SEMEL_ESTORE, "%u names, %u groups, %u entries, %u processes",
                            s.names, s.groups, s.entries, s.processes);
    return status ? status : semel_process_remove(w->store, "p", 0, err);
}

semel_status oom_take_retry(oom_world *w, semel_error *err)
{
    static const semel_retry states[] = {SEMEL_RETRY_NONE, SEMEL_RETRY_ASKED, SEMEL_RETRY_BEGUN,
                                         SEMEL_RETRY_NONE};
    semel_status status = SEMEL_OK;
    for (int i = 0; !status && i < 3; i++)
        status = semel_dead_set_retry(w->store, w->letter, states[i], states[i + 1], NULL, err);
    return status;
}
