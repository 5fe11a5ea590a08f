/* Lists of an outbox: what waits, with the reason for which it waits, and what was sent. */
#include "support/conformance/conformance_store.h"

#include <stdio.h>
#include <string.h>

enum { ROWS_MAX = 16 };

typedef struct rows {
    size_t count;
    struct row {
        semel_outgoing shown;
        semel_message *message;
        char error[400];
    } all[ROWS_MAX];
    char ids[256]; /* each followed by a space */
} rows;

static semel_status keep_row(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    rows *out = context;
    size_t used = strlen(out->ids);
    assert_true(out->count < ROWS_MAX);
    struct row *row = &out->all[out->count++];
    row->shown = *outgoing;
    (void)snprintf(row->error, sizeof row->error, "%s", outgoing->error);
    (void)snprintf(out->ids + used, sizeof out->ids - used, "%.*s ", (int)outgoing->message->id.len,
                   (const char *)outgoing->message->id.data);
    return semel_message_copy(&row->message, outgoing->message, err);
}

static void free_rows(rows *all)
{
    while (all->count)
        semel_message_free(all->all[--all->count].message);
    all->ids[0] = 0;
}

static void list_rows(rows *out, semel_outbox *outbox, const semel_outgoing_filter *filter)
{
    free_rows(out);
    OK(semel_outbox_list(outbox, filter, keep_row, out, &last_error));
}

static void list_sent(rows *out, semel_outbox *outbox, const semel_sent_filter *filter)
{
    free_rows(out);
    OK(semel_outbox_list_sent(outbox, filter, keep_row, out, &last_error));
}

static void send_id(semel_outbox *outbox, const char *id, const char *group)
{
    semel_message message = text_message(id, "paid");
    message.group = group;
    message.topic = id;
    OK(semel_outbox_send(outbox, &message, &last_error));
}

/* --- what waits ------------------------------------------------------------------------------- */

static void what_waits_is_listed(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail"), *other = open_outbox(f, "other");
    semel_message delayed = text_message("later", "paid");
    semel_outgoing_filter whole = {.size = sizeof whole, .contents = 1};
    rows all = {.count = 0};
    list_rows(&all, outbox, NULL);
    assert_int_equal(all.count, 0);
    int64_t now = now_of(f);
    delayed.delay_ms = grains(f, 10);
    OK(semel_outbox_send(outbox, full_message(), &last_error));
    OK(semel_outbox_send(outbox, &delayed, &last_error));
    send_id(other, "z", NULL);
    list_rows(&all, outbox, NULL);
    assert_int_equal(all.count, 2);
    const struct row *first = &all.all[0];
    assert_string_equal(first->message->topic, full_message()->topic);
    assert_int_equal(first->message->body.len, 0);
    assert_int_equal(first->message->header_count, 0);
    assert_int_equal(first->shown.attempts, 0);
    assert_int_equal(first->shown.leased, 0);
    assert_string_equal(first->error, "");
    assert_int_equal(first->shown.sent_ms, 0);
    STORED_AT(now, f, first->shown.captured_ms);
    STORED_AT(now, f, first->shown.due_ms);
    STORED_AT(now + delayed.delay_ms, f, all.all[1].shown.due_ms);
    list_rows(&all, outbox, &whole);
    MESSAGE_EQUAL(full_message(), all.all[0].message);
    free_rows(&all);
}

static void what_waits_is_listed_by_pages(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_outgoing_filter filter = {.size = sizeof filter, .limit = 2};
    rows all = {.count = 0};
    for (int i = 0; i < 5; i++)
        send_id(outbox, (char[]){(char)('a' + i), 0}, i & 1 ? "group" : NULL);
    list_rows(&all, outbox, &filter);
    assert_string_equal(all.ids, "a b ");
    filter.after_seq = all.all[1].shown.seq;
    list_rows(&all, outbox, &filter);
    assert_string_equal(all.ids, "c d ");
    filter.after_seq = all.all[1].shown.seq;
    list_rows(&all, outbox, &filter);
    assert_string_equal(all.ids, "e ");
    filter.after_seq = all.all[0].shown.seq;
    list_rows(&all, outbox, &filter);
    assert_int_equal(all.count, 0);
    filter.limit = SEMEL_PAGE_MAX + 1;
    FAILS(SEMEL_ELIMIT, semel_outbox_list(outbox, &filter, keep_row, &all, &last_error));
}

/* The message is leased while its handler runs, and the handler may look. */
typedef struct looker {
    semel_outbox *outbox;
    rows *seen;
} looker;

static semel_status look_and_fail(semel_unit *unit, const semel_message *message, void *context,
                                  semel_error *err)
{
    looker *self = context;
    (void)unit;
    (void)message;
    semel_status status = semel_outbox_list(self->outbox, NULL, keep_row, self->seen, err);
    return status ? status : semel_fail(err, SEMEL_EHANDLER, "out of stamps");
}

static void a_local_failure_is_kept_with_the_message(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    rows seen = {.count = 0}, all = {.count = 0};
    looker self = {outbox, &seen};
    semel_relay *relay = fixture_local_relay(&f->base, outbox, inbox, look_and_fail, &self, NULL);
    send_id(outbox, "a", NULL);
    assert_int_equal(relay_once(relay), 0);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.all[0].shown.leased, 1);
    assert_int_equal(seen.all[0].shown.attempts, 1);
    list_rows(&all, outbox, NULL);
    assert_int_equal(all.all[0].shown.leased, 0);
    assert_string_equal(all.all[0].error, "out of stamps");
    free_rows(&seen);
    free_rows(&all);
}

static void the_last_error_of_a_broker_is_kept(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay_options options = {
        .size = sizeof options, .backoff_ms = grains(f, 100), .backoff_max_ms = grains(f, 100)};
    semel_relay *relay = open_relay(f, outbox, broker, &options);
    rows all = {.count = 0};
    send_id(outbox, "bad", "group");
    send_id(outbox, "worse", NULL);
    send_id(outbox, "good", NULL);
    semel_test_recorder_answer(broker, "bad", SEMEL_PUBLISH_REFUSED, 1);
    semel_test_recorder_answer(broker, "worse", SEMEL_PUBLISH_UNROUTABLE, 1);
    int64_t now = now_of(f);
    assert_int_equal(relay_once(relay), 1);
    list_rows(&all, outbox, NULL);
    assert_string_equal(all.ids, "bad worse ");
    assert_string_equal(all.all[0].error, "the broker refused it");
    assert_int_equal(all.all[0].shown.refusals, 1);
    assert_int_equal(all.all[0].shown.attempts, 1);
    assert_true(all.all[0].shown.due_ms + f->passed_ms > now);
    assert_string_equal(all.all[1].error, "the broker has no queue for its topic");
    assert_int_equal(all.all[1].shown.refusals, 0);
    free_rows(&all);
}

/* --- what was sent ---------------------------------------------------------------------------- */

static void what_was_sent_is_listed(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay_options options = {
        .size = sizeof options, .keep_sent_ms = grains(f, 1000), .attempts_max = 1};
    semel_relay *relay = open_relay(f, outbox, broker, &options);
    semel_sent_filter back = {.size = sizeof back, .newest_first = 1, .limit = 2};
    rows all = {.count = 0};
    semel_message message = *full_message();
    OK(semel_outbox_send(outbox, &message, &last_error));
    send_id(outbox, "dead", NULL);
    semel_test_recorder_answer(broker, "dead", SEMEL_PUBLISH_REFUSED, 1);
    int64_t now = now_of(f);
    assert_int_equal(relay_once(relay), 1);
    list_sent(&all, outbox, NULL);
    assert_int_equal(all.count, 1);
    STORED_AT(now, f, all.all[0].shown.sent_ms);
    assert_int_equal(all.all[0].shown.attempts, 1);
    BYTES_EQUAL(message.id, all.all[0].message->id);
    BYTES_EQUAL(message.correlation_id, all.all[0].message->correlation_id);
    assert_string_equal(message.type, all.all[0].message->type);
    assert_string_equal(message.topic, all.all[0].message->topic);
    assert_string_equal(message.group, all.all[0].message->group);
    pass_ms(f, grains(f, 1));
    send_id(outbox, "b", NULL);
    assert_int_equal(relay_once(relay), 1);
    pass_ms(f, grains(f, 1));
    send_id(outbox, "c", NULL);
    assert_int_equal(relay_once(relay), 1);
    list_sent(&all, outbox, &back);
    assert_string_equal(all.ids, "c b ");
    back.after_ms = all.all[1].shown.sent_ms;
    back.after_seq = all.all[1].shown.seq;
    list_sent(&all, outbox, &back);
    assert_int_equal(all.count, 1);
    free_rows(&all);
}

/* The relay looks for old rows at least once a minute. */
static void what_was_sent_is_forgotten_in_time(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail"), *other = open_outbox(f, "other");
    semel_transport *broker = open_recorder(f);
    uint32_t half_ms = grains(f, 10) + 120000;
    semel_relay_options options = {.size = sizeof options, .keep_sent_ms = 2 * (uint64_t)half_ms};
    semel_relay *relay = open_relay(f, outbox, broker, &options);
    semel_relay *second = open_relay(f, other, broker, &options);
    rows all = {.count = 0};
    send_id(outbox, "a", NULL);
    send_id(other, "o", NULL);
    assert_int_equal(relay_once(relay), 1);
    assert_int_equal(relay_once(second), 1);
    pass_almost(f, half_ms);
    send_id(outbox, "b", NULL);
    assert_int_equal(relay_once(relay), 1);
    list_sent(&all, outbox, NULL);
    assert_string_equal(all.ids, "a b ");
    pass_ms(f, half_ms + 2 * f->grain_ms);
    assert_int_equal(relay_once(relay), 0);
    list_sent(&all, outbox, NULL);
    assert_string_equal(all.ids, "b ");
    list_sent(&all, other, NULL);
    assert_string_equal(all.ids, "o ");
    free_rows(&all);
}

static void without_the_option_nothing_is_kept(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_relay *relay = open_relay(f, outbox, open_recorder(f), NULL);
    rows all = {.count = 0};
    send_id(outbox, "a", NULL);
    assert_int_equal(relay_once(relay), 1);
    list_sent(&all, outbox, NULL);
    assert_int_equal(all.count, 0);
}

static void a_local_hand_off_is_listed_too(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_relay_options options = {.size = sizeof options, .keep_sent_ms = grains(f, 1000)};
    scripted_handler script = {.failures = 1, .failure = SEMEL_EGIVEUP, .only = "dead"};
    semel_relay *relay = open_local_relay(f, outbox, inbox, &script, &options);
    rows all = {.count = 0};
    send_id(outbox, "a", NULL);
    send_id(outbox, "dead", NULL);
    (void)relay_all(relay);
    list_sent(&all, outbox, NULL);
    assert_string_equal(all.ids, "a ");
    free_rows(&all);
}

/* Numbers of rows may be used again, even in one millisecond. */
static void each_message_has_its_own_row(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_relay_options options = {.size = sizeof options, .keep_sent_ms = grains(f, 1000)};
    semel_relay *relay = open_relay(f, outbox, open_recorder(f), &options);
    rows all = {.count = 0};
    for (int i = 0; i < 5; i++) {
        send_id(outbox, (char[]){(char)('a' + i), 0}, NULL);
        assert_int_equal(relay_once(relay), 1);
    }
    list_sent(&all, outbox, NULL);
    assert_string_equal(all.ids, "a b c d e ");
    free_rows(&all);
}

static void a_history_that_cannot_be_kept_is_refused(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_relay_options options = {.size = sizeof options, .keep_sent_ms = 1000};
    semel_relay *relay = NULL;
    if (store_has(f, LACKS_SENT))
        return;
    FAILS(SEMEL_EUNSUPPORTED,
          semel_relay_open(&relay, outbox, open_recorder(f), &options, &last_error));
    FAILS(SEMEL_EUNSUPPORTED, semel_outbox_list_sent(outbox, NULL, keep_row, NULL, &last_error));
}

const store_test store_list_tests[] = {
    STORE_TEST_WITH(what_waits_is_listed, IN_ANY_MODE),
    STORE_TEST_WITH(what_waits_is_listed_by_pages, IN_ANY_MODE),
    STORE_TEST_WITH(a_local_failure_is_kept_with_the_message, IN_TRANSACTION_MODE),
    STORE_TEST_WITH(the_last_error_of_a_broker_is_kept, IN_ANY_MODE),
    STORE_TEST_WITH(what_was_sent_is_listed, IN_ANY_MODE | NEEDS_SENT),
    STORE_TEST_WITH(what_was_sent_is_forgotten_in_time, IN_ANY_MODE | NEEDS_SENT),
    STORE_TEST_WITH(without_the_option_nothing_is_kept, IN_ANY_MODE | NEEDS_SENT),
    STORE_TEST_WITH(a_local_hand_off_is_listed_too, IN_TRANSACTION_MODE | NEEDS_SENT),
    STORE_TEST_WITH(each_message_has_its_own_row, IN_ANY_MODE | NEEDS_SENT),
    STORE_TEST_WITH(a_history_that_cannot_be_kept_is_refused, IN_ANY_MODE),
    {NULL, NULL, 0},
};
