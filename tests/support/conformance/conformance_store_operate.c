/* What a store knows for operators: its names, the audit, the processes that are running. */
#include "support/conformance/conformance_store.h"

#include <semel/operate.h>
#include <semel/queue.h>
#include <stdio.h>
#include <string.h>

/* What a visitor has seen, each followed by a space; it may use the store. */
typedef struct seen {
    semel_store *store;
    char text[512];
    semel_status answer; /* to the first row */
} seen;

static semel_status add(seen *s, const char *text, semel_error *err)
{
    int64_t now;
    size_t used = strlen(s->text);
    (void)snprintf(s->text + used, sizeof s->text - used, "%s ", text);
    return s->answer ? semel_fail(err, s->answer, "enough") : semel_store_now(&now, s->store, err);
}

/* --- names ------------------------------------------------------------------------------------ */

static semel_status see_name(const semel_name *name, void *context, semel_error *err)
{
    char text[300];
    (void)snprintf(text, sizeof text, "%d:%s%s%s", (int)name->kind, name->name,
                   *name->definition ? "=" : "", name->definition);
    return add(context, text, err);
}

static void expect_names(store_fixture *f, semel_name_kind kind, const char *expected)
{
    seen s = {.store = f->base.store};
    OK(semel_store_names(f->base.store, kind, see_name, &s, &last_error));
    assert_string_equal(s.text, expected);
}

static void names_are_listed_by_kind_and_in_order(void **state)
{
    store_fixture *f = *state;
    semel_transport *queue = NULL;
    expect_names(f, SEMEL_NAME_OUTBOX, "");
    open_outbox(f, "b.mail");
    open_outbox(f, "a");
    open_outbox(f, "Z-1");
    open_outbox(f, "a_2");
    OK(semel_queue_open(&queue, f->base.store, "work", NULL, &last_error));
    fixture_keep_transport(&f->base, queue);
    expect_names(f, SEMEL_NAME_OUTBOX, "2:Z-1 2:a 2:a_2 2:b.mail ");
    expect_names(f, SEMEL_NAME_QUEUE, "3:work ");
    expect_names(f, SEMEL_NAME_INBOX, "");
    FAILS(SEMEL_EINVAL,
          semel_store_names(f->base.store, (semel_name_kind)4, see_name, NULL, &last_error));
}

/* As it was opened last, in words that are the same for both modes that write such markers. */
static void an_inbox_is_listed_with_its_definition(void **state)
{
    store_fixture *f = *state;
    char expected[256];
    const char *mode = f->mode == SEMEL_CLAIM ? "claim" : "transaction";
    semel_inbox_options options = {.size = sizeof options,
                                   .key = "json:/order, mode claim, fingerprint x",
                                   .fingerprint = "none"};
    open_inbox(f, "orders", &options);
    options.key = "json:/id";
    open_inbox(f, "bills", &options);
    options.key = "json:/bill";
    options.accept_changes = 1;
    open_inbox(f, "bills", &options);
    (void)snprintf(expected, sizeof expected,
                   "1:bills=key=json:/bill mode=%s fingerprint=none "
                   "1:orders=key=json:/order, mode claim, fingerprint x mode=%s fingerprint=none ",
                   mode, mode);
    expect_names(f, SEMEL_NAME_INBOX, expected);
}

static void a_visitor_ends_the_list_of_names(void **state)
{
    store_fixture *f = *state;
    seen s = {.store = f->base.store, .answer = SEMEL_ESTOPPED};
    open_outbox(f, "a");
    open_outbox(f, "b");
    FAILS(SEMEL_ESTOPPED,
          semel_store_names(f->base.store, SEMEL_NAME_OUTBOX, see_name, &s, &last_error));
    assert_string_equal(s.text, "2:a ");
}

/* --- the audit -------------------------------------------------------------------------------- */

static semel_status see_entry(const semel_audit *entry, void *context, semel_error *err)
{
    char text[200];
    (void)snprintf(text, sizeof text, "%.20s/%.20s/%.20s/%llu", entry->who, entry->what,
                   entry->result, (unsigned long long)entry->count);
    return add(context, text, err);
}

static void expect_audit(store_fixture *f, const semel_audit_filter *filter, const char *expected)
{
    seen s = {.store = f->base.store};
    OK(semel_audit_list(f->base.store, filter, see_entry, &s, &last_error));
    assert_string_equal(s.text, expected);
}

static semel_audit write_entry(store_fixture *f, const char *who, const char *what)
{
    semel_audit entry = {.size = sizeof entry, .who = who, .what = what};
    OK(semel_audit_write(&entry, f->base.store, &last_error));
    assert_true(entry.id > 0);
    return entry;
}

static void an_entry_of_the_audit_gets_its_result_later(void **state)
{
    store_fixture *f = *state;
    int64_t now = now_of(f);
    semel_audit first = write_entry(f, "ops@a", "retry");
    STORED_AT(now, f, first.at_ms);
    write_entry(f, "ops@b", "drop");
    expect_audit(f, NULL, "ops@a/retry//0 ops@b/drop//0 ");
    first.result = "317 processed";
    first.count = 317;
    first.who = "another"; /* is not read */
    OK(semel_audit_write(&first, f->base.store, &last_error));
    expect_audit(f, NULL, "ops@a/retry/317 processed/317 ops@b/drop//0 ");
    first.id = INT64_MAX;
    FAILS(SEMEL_ENOTFOUND, semel_audit_write(&first, f->base.store, &last_error));
}

static void the_audit_is_listed_by_pages_persons_and_times(void **state)
{
    store_fixture *f = *state;
    semel_audit_filter filter = {.size = sizeof filter, .limit = 2};
    semel_audit second, third;
    write_entry(f, "a", "1");
    second = write_entry(f, "b", "2");
    pass_ms(f, grains(f, 100));
    third = write_entry(f, "a", "3");
    assert_true(second.id < third.id);
    expect_audit(f, &filter, "a/1//0 b/2//0 ");
    filter.after_id = second.id;
    expect_audit(f, &filter, "a/3//0 ");
    filter = (semel_audit_filter){.size = sizeof filter, .who = "a"};
    expect_audit(f, &filter, "a/1//0 a/3//0 ");
    filter = (semel_audit_filter){.size = sizeof filter, .since_ms = third.at_ms};
    expect_audit(f, &filter, "a/3//0 ");
    filter = (semel_audit_filter){.size = sizeof filter, .until_ms = third.at_ms};
    expect_audit(f, &filter, "a/1//0 b/2//0 ");
    filter = (semel_audit_filter){.size = sizeof filter, .limit = SEMEL_PAGE_MAX + 1};
    FAILS(SEMEL_ELIMIT, semel_audit_list(f->base.store, &filter, see_entry, NULL, &last_error));
}

/* An entry is written whatever a person has typed. */
static void the_audit_takes_any_text(void **state)
{
    store_fixture *f = *state;
    char what[SEMEL_AUDIT_TEXT_MAX + 100];
    memset(what, 'x', sizeof what);
    what[sizeof what - 1] = 0;
    write_entry(f, "bad \xff utf-8", what);
    expect_audit(f, NULL, "bad ? utf-8/xxxxxxxxxxxxxxxxxxxx//0 ");
}

static void the_audit_is_there_after_a_restart(void **state)
{
    store_fixture *f = *state;
    semel_audit first = write_entry(f, "a", "1");
    reopen(f);
    expect_audit(f, NULL, "a/1//0 ");
    pass_ms(f, 1); /* a process begins later than the one before it ended */
    assert_true(write_entry(f, "a", "2").id > first.id);
}

/* --- processes -------------------------------------------------------------------------------- */

static semel_status see_process(const semel_process *process, void *context, semel_error *err)
{
    char text[200];
    (void)snprintf(text, sizeof text, "%s/%s/%lld/%s/%s", process->id, process->host,
                   (long long)process->pid, process->socket, process->data);
    return add(context, text, err);
}

static void expect_processes(store_fixture *f, const char *expected)
{
    seen s = {.store = f->base.store};
    OK(semel_process_list(f->base.store, see_process, &s, &last_error));
    assert_string_equal(s.text, expected);
}

static void write_process(store_fixture *f, const char *id, int64_t pid)
{
    semel_process process = {.size = sizeof process,
                             .id = id,
                             .host = "host-1",
                             .pid = pid,
                             .started_ms = 1,
                             .socket = "/run/s",
                             .data = "{}"};
    OK(semel_process_write(&process, f->base.store, &last_error));
}

static void a_process_has_one_row_and_takes_it_along(void **state)
{
    store_fixture *f = *state;
    write_process(f, "b", 1);
    write_process(f, "a", 2);
    write_process(f, "b", 3);
    expect_processes(f, "a/host-1/2//run/s/{} b/host-1/3//run/s/{} ");
    OK(semel_process_remove(f->base.store, "b", UINT64_MAX, &last_error));
    expect_processes(f, "a/host-1/2//run/s/{} ");
    OK(semel_process_remove(f->base.store, "b", UINT64_MAX, &last_error));
    OK(semel_process_remove(f->base.store, NULL, UINT64_MAX, &last_error));
    expect_processes(f, "a/host-1/2//run/s/{} ");
}

static semel_status see_times(const semel_process *process, void *context, semel_error *err)
{
    int64_t *times = context;
    (void)err;
    times[0] = process->started_ms;
    times[1] = process->seen_ms;
    return SEMEL_OK;
}

static void processes_that_are_not_written_any_more_are_removed(void **state)
{
    store_fixture *f = *state;
    int64_t times[2] = {0, 0}, now;
    write_process(f, "old", 1);
    pass_ms(f, grains(f, 100));
    now = now_of(f);
    write_process(f, "new", 2);
    OK(semel_process_remove(f->base.store, "", grains(f, 50), &last_error));
    expect_processes(f, "new/host-1/2//run/s/{} ");
    OK(semel_process_list(f->base.store, see_times, times, &last_error));
    assert_int_equal(times[0], 1);
    STORED_AT(now, f, times[1]);
}

static void the_row_of_a_process_has_its_limits(void **state)
{
    static char data[SEMEL_PROCESS_DATA_MAX + 2];
    store_fixture *f = *state;
    semel_process process = {.size = sizeof process, .id = "", .data = data};
    FAILS(SEMEL_EINVAL, semel_process_write(&process, f->base.store, &last_error));
    process.id = "p";
    memset(data, 'x', sizeof data - 1);
    FAILS(SEMEL_ELIMIT, semel_process_write(&process, f->base.store, &last_error));
    data[SEMEL_PROCESS_DATA_MAX] = 0;
    OK(semel_process_write(&process, f->base.store, &last_error));
    memset(data, 0, sizeof data);
    data[0] = '\xff';
    FAILS(SEMEL_EINVAL, semel_process_write(&process, f->base.store, &last_error));
}

const store_test store_operate_tests[] = {
    STORE_TEST_WITH(names_are_listed_by_kind_and_in_order, IN_ANY_MODE | NEEDS_OUTBOX),
    STORE_TEST_WITH(an_inbox_is_listed_with_its_definition, NEEDS_NOTES),
    STORE_TEST_WITH(a_visitor_ends_the_list_of_names, IN_ANY_MODE | NEEDS_OUTBOX),
    STORE_TEST_WITH(an_entry_of_the_audit_gets_its_result_later, IN_ANY_MODE),
    STORE_TEST_WITH(the_audit_is_listed_by_pages_persons_and_times, IN_ANY_MODE),
    STORE_TEST_WITH(the_audit_takes_any_text, IN_ANY_MODE),
    STORE_TEST_WITH(the_audit_is_there_after_a_restart, IN_ANY_MODE | NEEDS_KEEPS),
    STORE_TEST_WITH(a_process_has_one_row_and_takes_it_along, IN_ANY_MODE),
    STORE_TEST_WITH(processes_that_are_not_written_any_more_are_removed, IN_ANY_MODE),
    STORE_TEST_WITH(the_row_of_a_process_has_its_limits, IN_ANY_MODE),
    {NULL, NULL, 0}};
