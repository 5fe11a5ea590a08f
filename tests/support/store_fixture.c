/* The tools of the store suite: opening what a test needs, asking what it found. See
 * conformance_store.h. */
#include "support/conformance_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- opening and closing -------------------------------------------------------------------------- */

semel_store *open_second_handle(store_fixture *f)
{
    semel_store_options options = {
        .size = sizeof options, .busy_ms = 2000, .seam = semel_test_seam_get(f->seam)};
    semel_store *store = NULL;
    assert_true(f->store_count < FIXTURE_STORES);
    OK(semel_store_open(&store, f->url, &options, &last_error));
    f->stores[f->store_count++] = store;
    return store;
}

semel_inbox *open_inbox_on(store_fixture *f, semel_store *store, const char *name,
                           const semel_inbox_options *options)
{
    semel_inbox_options chosen = {.size = sizeof chosen};
    semel_inbox *inbox = NULL;
    assert_true(f->inbox_count < FIXTURE_HANDLES);
    if (options)
        chosen = *options;
    chosen.mode = f->mode;
    OK(semel_inbox_open(&inbox, store, name, &chosen, &last_error));
    f->inboxes[f->inbox_count++] = inbox;
    return inbox;
}

semel_inbox *open_inbox(store_fixture *f, const char *name, const semel_inbox_options *options)
{
    return open_inbox_on(f, f->store, name, options);
}

semel_outbox *open_outbox(store_fixture *f, const char *name)
{
    semel_outbox *outbox = NULL;
    assert_true(f->outbox_count < FIXTURE_HANDLES);
    OK(semel_outbox_open(&outbox, f->store, name, &last_error));
    f->outboxes[f->outbox_count++] = outbox;
    return outbox;
}

semel_transport *open_recorder(store_fixture *f)
{
    semel_transport *recorder = NULL;
    assert_true(f->transport_count < FIXTURE_HANDLES);
    OK(semel_test_recorder_open(&recorder, &last_error));
    f->transports[f->transport_count++] = recorder;
    return recorder;
}

semel_relay *open_relay(store_fixture *f, semel_outbox *outbox, semel_transport *transport,
                        const semel_relay_options *options)
{
    semel_relay *relay = NULL;
    assert_true(f->relay_count < FIXTURE_HANDLES);
    OK(semel_relay_open(&relay, outbox, transport, options, &last_error));
    f->relays[f->relay_count++] = relay;
    return relay;
}

semel_relay *open_local_relay(store_fixture *f, semel_outbox *outbox, semel_inbox *inbox,
                              work *context, const semel_relay_options *options)
{
    semel_relay *relay = NULL;
    assert_true(f->relay_count < FIXTURE_HANDLES);
    OK(semel_relay_open_local(&relay, outbox, inbox, work_do, context, options, &last_error));
    f->relays[f->relay_count++] = relay;
    return relay;
}

/* Also after a test that failed half way, with whatever it had opened by then. */
void close_all(store_fixture *f)
{
    while (f->relay_count)
        semel_relay_close(f->relays[--f->relay_count]);
    while (f->transport_count)
        semel_transport_close(f->transports[--f->transport_count]);
    while (f->inbox_count)
        semel_inbox_close(f->inboxes[--f->inbox_count]);
    while (f->outbox_count)
        semel_outbox_close(f->outboxes[--f->outbox_count]);
    while (f->store_count)
        semel_store_close(f->stores[--f->store_count]);
}

void reopen(store_fixture *f)
{
    close_all(f);
    f->store = open_second_handle(f);
}

/* --- time and counts ------------------------------------------------------------------------------ */

void pass_ms(store_fixture *f, int64_t ms)
{
    if (f->quirks->pass_ms)
        f->quirks->pass_ms(f, ms);
    else
        semel_test_advance_ms(f->seam, ms);
}

semel_counters counters_of(store_fixture *f)
{
    semel_counters counters = {0};
    OK(semel_store_counters(&counters, sizeof counters, f->store, &last_error));
    return counters;
}

/* --- receiving ------------------------------------------------------------------------------------ */

static semel_status status_of(semel_outcome outcome, const work *context)
{
    switch (outcome) {
    case SEMEL_FAILED:
        return context->failure ? context->failure : SEMEL_EHANDLER;
    case SEMEL_IN_PROGRESS:
        return SEMEL_EBUSY;
    case SEMEL_MISMATCH:
    case SEMEL_STALE:
    case SEMEL_MISSING_KEY:
        return SEMEL_EREJECTED;
    default:
        return SEMEL_OK;
    }
}

void check_receive(semel_outcome expected, semel_inbox *inbox, const semel_message *message,
                   work *context, const char *file, int line)
{
    semel_outcome outcome = SEMEL_UNDECIDED;
    check_forget();
    semel_status status =
        semel_inbox_receive(&outcome, inbox, message, work_do, context, &last_error);
    if (outcome != expected) {
        print_error("the outcome is %s, not %s (%s: %s)\n", semel_outcome_name(outcome),
                    semel_outcome_name(expected), semel_status_name(status), last_error.text);
        _fail(file, line);
    }
    check_status(status_of(expected, context), status, "semel_inbox_receive", file, line);
}

void check_receive_id(semel_outcome expected, semel_inbox *inbox, const char *id, work *context,
                      const char *file, int line)
{
    semel_message message = text_message(id, "10 EUR");
    check_receive(expected, inbox, &message, context, file, line);
}

semel_unit *claim_message(store_fixture *f, semel_inbox *inbox, const semel_message *message)
{
    semel_unit *unit = NULL;
    semel_outcome outcome = SEMEL_UNDECIDED;
    OK(semel_unit_begin(&unit, f->store, &last_error));
    OK(semel_unit_claim(&outcome, unit, inbox, message, &last_error));
    assert_int_equal(outcome, SEMEL_CLAIMED);
    return unit;
}

void abandon_claim(store_fixture *f, semel_inbox *inbox, const semel_message *message)
{
    semel_outcome outcome = SEMEL_UNDECIDED;
    work unused = {0};
    semel_test_fault(f->seam, "claim.committed", 1, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE,
          semel_inbox_receive(&outcome, inbox, message, work_do, &unused, &last_error));
    assert_int_equal(outcome, SEMEL_UNDECIDED);
    assert_int_equal(unused.runs, 0);
}

/* --- sending -------------------------------------------------------------------------------------- */

size_t relay_once(semel_relay *relay)
{
    size_t sent = 0;
    OK(semel_relay_step(&sent, relay, 0, &last_error));
    return sent;
}

size_t relay_all(semel_relay *relay)
{
    size_t total = 0;
    for (size_t sent; (sent = relay_once(relay)) > 0;)
        total += sent;
    return total;
}

void recorded_ids(char *text, size_t size, const semel_transport *recorder)
{
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < semel_test_recorder_count(recorder); i++) {
        semel_bytes id = semel_test_recorder_message(recorder, i)->id;
        int len = snprintf(text + used, size - used, "%s%.*s", i ? " " : "", (int)id.len,
                           (const char *)id.data);
        assert_true(len >= 0 && used + (size_t)len < size);
        used += (size_t)len;
    }
}

/* --- dead letters --------------------------------------------------------------------------------- */

static semel_status keep(const semel_dead *dead, void *context, semel_error *err)
{
    letters *all = context;
    if (all->count == sizeof all->all / sizeof *all->all)
        return semel_fail(err, SEMEL_ELIMIT, "more dead letters than a test expects");
    struct letter *one = &all->all[all->count];
    *one = (struct letter){.id = dead->id,
                           .origin = dead->origin,
                           .key_len = dead->key.len,
                           .attempts = dead->attempts,
                           .at_ms = dead->at_ms};
    (void)snprintf(one->name, sizeof one->name, "%s", dead->name);
    (void)snprintf(one->error, sizeof one->error, "%s", dead->error);
    if (dead->key.len > sizeof one->key)
        return semel_fail(err, SEMEL_ELIMIT, "the key of a dead letter has %zu bytes",
                          dead->key.len);
    memcpy(one->key, dead->key.data, dead->key.len);
    semel_status status =
        dead->message ? semel_message_copy(&one->message, dead->message, err) : SEMEL_OK;
    all->count += !status;
    return status;
}

void letters_read(letters *out, semel_store *store, const semel_dead_filter *filter)
{
    out->count = 0;
    OK(semel_dead_list(store, filter, keep, out, &last_error));
}

void letters_free(letters *all)
{
    while (all->count)
        semel_message_free(all->all[--all->count].message);
}

size_t count_letters(store_fixture *f)
{
    letters found;
    letters_read(&found, f->store, NULL);
    size_t count = found.count;
    letters_free(&found);
    return count;
}

int64_t only_letter(store_fixture *f)
{
    letters found;
    letters_read(&found, f->store, NULL);
    size_t count = found.count;
    int64_t id = found.all[0].id;
    letters_free(&found);
    assert_int_equal(count, 1);
    return id;
}
