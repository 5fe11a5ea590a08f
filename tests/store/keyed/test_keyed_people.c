/* What people ask a keyed store for: lists, letters, history, statistics, findings. When memory
 * runs out anywhere in them nothing is lost and nothing is half written; and a record that was
 * damaged hides no other. */
#include "keyed_case.h"
#include "store/keyed/outbox.h"
#include "support/keyed/outbox_invariants.h"

#include <semel/look.h>
#include <semel/operate.h>
#include <stdlib.h>
#include <string.h>

/* --- visitors --------------------------------------------------------------------------------- */

typedef struct seen {
    unsigned count;
    unsigned damaged;
    int64_t id;
} seen;

static semel_status see_letter(const semel_dead *dead, void *context, semel_error *err)
{
    seen *s = context;
    (void)err;
    s->count++;
    s->damaged += !dead->message;
    s->id = dead->id;
    return SEMEL_OK;
}

static semel_status see_outgoing(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    seen *s = context;
    (void)err;
    s->count++;
    s->damaged += !outgoing->message;
    s->id = outgoing->seq;
    return SEMEL_OK;
}

static semel_status see_history(const semel_history *row, void *context, semel_error *err)
{
    seen *s = context;
    (void)err;
    s->count++;
    s->damaged += row->damage != NULL;
    s->id = row->id;
    return SEMEL_OK;
}

static semel_status see_audit(const semel_audit *entry, void *context, semel_error *err)
{
    (void)err;
    ((seen *)context)->id = entry->id;
    ((seen *)context)->count++;
    return SEMEL_OK;
}

static semel_status see_process(const semel_process *process, void *context, semel_error *err)
{
    (void)process, (void)err;
    ((seen *)context)->count++;
    return SEMEL_OK;
}

static semel_status see_marker(const semel_marker *marker, void *context, semel_error *err)
{
    (void)marker, (void)err;
    ((seen *)context)->count++;
    return SEMEL_OK;
}

static semel_status see_name(const semel_name *name, void *context, semel_error *err)
{
    (void)name, (void)err;
    ((seen *)context)->count++;
    return SEMEL_OK;
}

static semel_status see_finding(const semel_finding *finding, void *context, semel_error *err)
{
    (void)err;
    ((seen *)context)->count++;
    ((seen *)context)->damaged += finding->severity == SEMEL_SEVERITY_ERROR;
    return SEMEL_OK;
}

static semel_status see_step(const semel_schema_step *step, void *context, semel_error *err)
{
    (void)err;
    ((seen *)context)->count++;
    ((seen *)context)->id = step->applied_ms;
    return SEMEL_OK;
}

/* --- acts ------------------------------------------------------------------------------------- */

typedef semel_status act(keyed_case *c);

static semel_status send_one(keyed_case *c)
{
    semel_message message = text_message("one", "paid");
    message.group = "g";
    return semel_outbox_send(c->outbox, &message, &last_error);
}

/* The first message of each turn is refused for good, and becomes a letter. */
static semel_status relay(keyed_case *c)
{
    semel_transport *broker = NULL;
    semel_relay *relay = NULL;
    semel_relay_options options = {
        .size = sizeof options, .attempts_max = 1, .keep_sent_ms = 60000, .lease_ms = 5000};
    size_t sent = 0;
    semel_status status = semel_test_recorder_open(&broker, &last_error);
    if (!status)
        semel_test_recorder_answer(broker, NULL, SEMEL_PUBLISH_REFUSED, 1);
    if (!status)
        status = semel_relay_open(&relay, c->outbox, broker, &options, &last_error);
    if (!status)
        status = semel_relay_step(&sent, relay, 0, &last_error);
    semel_relay_close(relay);
    semel_transport_close(broker);
    semel_test_advance_ms(c->seam, 20000);
    return status;
}

static semel_status list_letters(keyed_case *c)
{
    semel_dead_filter filter = {.size = sizeof filter, .name = "mail"};
    seen s = {0};
    return semel_dead_list(c->store, &filter, see_letter, &s, &last_error);
}

static semel_status retry_letter(keyed_case *c)
{
    seen s = {0};
    semel_status status = semel_dead_list(c->store, NULL, see_letter, &s, &last_error);
    if (status || !s.count)
        return status;
    return semel_dead_set_retry(c->store, s.id, SEMEL_RETRY_NONE, SEMEL_RETRY_ASKED, NULL,
                                &last_error);
}

static semel_status replay_letter(keyed_case *c)
{
    seen s = {0};
    semel_status status = semel_dead_list(c->store, NULL, see_letter, &s, &last_error);
    return status || !s.count ? status : semel_outbox_replay(c->outbox, s.id, &last_error);
}

static semel_status list_messages(keyed_case *c)
{
    semel_outgoing_filter filter = {.size = sizeof filter, .contents = 1};
    seen s = {0};
    semel_status status = semel_outbox_list(c->outbox, &filter, see_outgoing, &s, &last_error);
    return status ? status : semel_outbox_list_sent(c->outbox, NULL, see_outgoing, &s, &last_error);
}

static semel_status skip_message(keyed_case *c)
{
    seen s = {0};
    int64_t became;
    semel_status status = semel_outbox_list(c->outbox, NULL, see_outgoing, &s, &last_error);
    if (!status && s.count)
        status = semel_outbox_wake(c->outbox, s.id, semel_str("one"), &last_error);
    return status || !s.count ? status
                              : semel_outbox_skip(&became, c->outbox, s.id, semel_str("one"),
                                                  "not wanted", &last_error);
}

static semel_status write_history(keyed_case *c)
{
    semel_message message = text_message("one", "paid");
    semel_history rows[100];
    seen s = {0};
    semel_history_filter filter = {.size = sizeof filter, .contents = 1, .limit = 5};
    for (size_t i = 0; i < 100; i++)
        rows[i] = (semel_history){.size = sizeof rows[i],
                                  .at_ms = 1 + (int64_t)i,
                                  .kind = SEMEL_HISTORY_RECEIVED,
                                  .name = "orders",
                                  .key = semel_str("k"),
                                  .message_id = message.id,
                                  .message = &message};
    semel_status status = semel_history_write(c->store, rows, 100, &last_error);
    if (!status)
        status = semel_history_list(c->store, &filter, see_history, &s, &last_error);
    return status ? status : semel_history_trim(NULL, NULL, c->store, 30, 0, 1000, &last_error);
}

static semel_status keep_audit(keyed_case *c)
{
    semel_audit entry = {.size = sizeof entry, .who = "ops", .what = "looks"};
    seen s = {0};
    semel_status status = semel_audit_write(&entry, c->store, &last_error);
    entry.result = "done";
    if (!status)
        status = semel_audit_write(&entry, c->store, &last_error);
    return status ? status : semel_audit_list(c->store, NULL, see_audit, &s, &last_error);
}

static semel_status keep_process(keyed_case *c)
{
    semel_process process = {.size = sizeof process, .id = "p", .host = "h", .data = "{}"};
    seen s = {0};
    semel_status status = semel_process_write(&process, c->store, &last_error);
    if (!status)
        status = semel_process_list(c->store, see_process, &s, &last_error);
    return status ? status : semel_process_remove(c->store, "p", 1, &last_error);
}

static semel_status count(keyed_case *c)
{
    semel_stats stats;
    seen s = {0};
    semel_status status = semel_store_stats(&stats, sizeof stats, c->store, 1000, &last_error);
    if (!status)
        status = semel_outbox_stats(&stats, sizeof stats, c->outbox, 1000, &last_error);
    if (!status)
        status = semel_inbox_stats(&stats, sizeof stats, c->inbox, 1000, &last_error);
    if (!status)
        status = semel_store_names(c->store, SEMEL_NAME_OUTBOX, see_name, &s, &last_error);
    if (!status)
        status = semel_inbox_list(c->inbox, NULL, see_marker, &s, &last_error);
    return status ? status : semel_store_inspect(c->store, see_finding, &s, &last_error);
}

/* --- memory ----------------------------------------------------------------------------------- */

static act *const acts[] = {send_one,     relay,         list_letters,  retry_letter,  send_one,
                            send_one,     relay,         list_messages, replay_letter, relay,
                            send_one,     list_messages, skip_message,  write_history, keep_audit,
                            keep_process, count};

/* 1 if an allocation of this act failed. */
static int run_without(size_t which, long nth)
{
    keyed_case c;
    char text[256];
    keyed_case_open(&c, SEMEL_TRANSACTION, NULL);
    for (size_t i = 0; i < which; i++)
        OK(acts[i](&c));
    mem_fail_at(nth);
    semel_status status = acts[which](&c);
    mem_fail_at(0);
    if (status && status != SEMEL_ENOMEM)
        fail_msg("act %zu, allocation %ld: %s", which, nth, last_error.text);
    if (!outbox_invariants_hold(c.memory, NULL, text, sizeof text))
        fail_msg("act %zu, allocation %ld: %s", which, nth, text);
    semel_test_advance_ms(c.seam, 60000);
    for (size_t i = which; i < sizeof acts / sizeof *acts; i++)
        OK(acts[i](&c));
    keyed_case_close(&c);
    return status == SEMEL_ENOMEM;
}

static void running_out_of_memory_does_no_harm(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        int failed = 0;
        for (long nth = 1; nth < 40; nth++)
            failed += run_without(i, nth);
        assert_true(failed > 0);
    }
}

/* --- damage ----------------------------------------------------------------------------------- */

/* The value of the first record of this space loses its end, and its body, too. */
static void damage(keyed_case *c, semel_bytes space)
{
    keyed_store *store = keyed_case_store(c->store);
    mem_arena arena = {NULL, NULL};
    keyed_rows rows = {.arena = &arena};
    semel_keyed_range range = {.space = space, .limit = 1, .bodies = 1};
    OK(keyed_scan(&rows, store, &range, &last_error));
    assert_non_null(rows.first);
    semel_keyed_record now = rows.first->record;
    if (now.body.len > 2)
        now.body.len -= 2;
    now.value.len -= 1;
    semel_keyed_change change = keyed_write_of(store, &rows.first->record, &now, 0);
    OK(keyed_apply_now(store, &change, 1, SEMEL_BEGIN_DURABLE, NULL, &last_error));
    arena_free(&arena);
}

static void damage_plain(keyed_case *c, char kind)
{
    keyed_space space = keyed_space_plain(kind);
    damage(c, keyed_space_bytes(&space));
}

static void a_damaged_letter_is_shown_as_one(void **state)
{
    keyed_case c;
    seen s = {0};
    (void)state;
    keyed_case_open(&c, SEMEL_TRANSACTION, NULL);
    for (int i = 0; i < 2; i++) {
        OK(send_one(&c));
        OK(relay(&c));
    }
    damage_plain(&c, 'd');
    OK(semel_dead_list(c.store, NULL, see_letter, &s, &last_error));
    assert_int_equal(s.count, 2);
    assert_int_equal(s.damaged, 1);
    keyed_case_close(&c);
}

static void a_damaged_message_is_shown_as_one(void **state)
{
    keyed_case c;
    seen s = {0};
    int64_t scope;
    (void)state;
    keyed_case_open(&c, SEMEL_TRANSACTION, NULL);
    OK(send_one(&c));
    OK(send_one(&c));
    OK(keyed_scope(keyed_case_store(c.store), SEMEL_SCOPE_OUTBOX, "mail", &scope, &last_error));
    keyed_space space = keyed_space_of('o', scope);
    damage(&c, keyed_space_bytes(&space));
    OK(semel_outbox_list(c.outbox, NULL, see_outgoing, &s, &last_error));
    assert_int_equal(s.count, 2);
    assert_int_equal(s.damaged, 1);
    OK(relay(&c));
    assert_int_equal(keyed_case_unsent(&c), 2); /* it stays, and stops its group */
    keyed_case_close(&c);
}

static void a_damaged_pack_of_history_hides_no_other(void **state)
{
    keyed_case c;
    seen s = {0};
    semel_history_filter filter = {.size = sizeof filter, .contents = 1, .limit = 1000};
    (void)state;
    keyed_case_open(&c, SEMEL_TRANSACTION, NULL);
    OK(write_history(&c));
    OK(semel_history_list(c.store, &filter, see_history, &s, &last_error));
    assert_int_equal(s.count, 30);
    OK(write_history(&c));
    damage_plain(&c, 'h');
    s = (seen){0};
    OK(semel_history_list(c.store, &filter, see_history, &s, &last_error));
    assert_true(s.count >= 29 && s.count <= 30);
    keyed_case_close(&c);
}

/* --- schema and findings ---------------------------------------------------------------------- */

static void the_layout_is_the_only_step(void **state)
{
    keyed_case c;
    seen s = {0};
    (void)state;
    keyed_case_open(&c, SEMEL_TRANSACTION, NULL);
    OK(semel_store_schema(c.store, see_step, &s, &last_error));
    assert_int_equal(s.count, 1);
    assert_true(s.id > 0);
    OK(semel_store_migrate_to(c.store, KEYED_LAYOUT, &last_error));
    FAILS(SEMEL_EINVAL, semel_store_migrate_to(c.store, KEYED_LAYOUT + 1, &last_error));
    s = (seen){0};
    OK(semel_store_inspect(c.store, see_finding, &s, &last_error));
    assert_true(s.count >= 4);
    assert_int_equal(s.damaged, 0);
    keyed_case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(running_out_of_memory_does_no_harm),
        cmocka_unit_test(a_damaged_letter_is_shown_as_one),
        cmocka_unit_test(a_damaged_message_is_shown_as_one),
        cmocka_unit_test(a_damaged_pack_of_history_hides_no_other),
        cmocka_unit_test(the_layout_is_the_only_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
