/* Local hand-off in batches: sent, received and done in one transaction, and a failure fails one
 * message, wherever it stands. */
#include "core/relay.h"
#include "support/conformance/conformance_store.h"

#include <string.h>

enum { BATCH = 5, MIDDLE = 2 };

static const char *const ids[BATCH] = {"a", "b", "c", "d", "e"};
static const size_t positions[] = {0, MIDDLE, BATCH - 1};
enum { POSITIONS = sizeof positions / sizeof *positions };

/* An outbox and an inbox of their own for each round of a test. */
typedef struct handing {
    store_fixture *f;
    semel_outbox *outbox, *mail;
    semel_inbox *inbox;
    semel_relay *relay;
    scripted_handler work;
    semel_message sends;
    uint32_t committed; /* batches, before it began */
    int taken_over;
} handing;

static void send_id(semel_outbox *outbox, const char *id, const char *group)
{
    semel_message message = text_message(id, "10 EUR");
    message.group = group;
    OK(semel_outbox_send(outbox, &message, &last_error));
}

static void handing_open(handing *h, store_fixture *f, size_t round,
                         const semel_relay_options *options)
{
    const char names[][2] = {"0", "1", "2", "3"};
    *h = (handing){.f = f, .sends = text_message("", "paid")};
    h->outbox = open_outbox(f, names[round]);
    h->inbox = open_inbox(f, names[round], NULL);
    h->mail = open_outbox(f, "mail");
    h->work.outbox = h->mail;
    h->work.sends = &h->sends;
    h->relay = open_local_relay(f, h->outbox, h->inbox, &h->work, options);
    h->committed = semel_test_passed(f->base.seam, "batch.committed");
}

static void send_batch(handing *h)
{
    for (int i = 0; i < BATCH; i++)
        send_id(h->outbox, ids[i], NULL);
}

static uint32_t batches_of(const handing *h)
{
    return semel_test_passed(h->f->base.seam, "batch.committed") - h->committed;
}

/* 1 if the driver can undo one message of a transaction: otherwise each has its own. */
static uint32_t in_batches(const handing *h)
{
    return store_has(h->f, LACKS_SAVEPOINTS) != 0;
}

static void a_batch_is_one_transaction(void **state)
{
    handing h;
    handing_open(&h, *state, 0, NULL);
    send_batch(&h);
    assert_int_equal(relay_once(h.relay), BATCH);
    assert_int_equal(h.work.runs, BATCH);
    assert_int_equal(h.work.attempt, 1);
    assert_string_equal(h.work.ids, "a b c d e ");
    assert_int_equal(batches_of(&h), in_batches(&h));
    assert_int_equal(counters_of(h.f).processed, BATCH);
    assert_int_equal(counters_of(h.f).sent, BATCH);
    assert_int_equal(counters_of(h.f).unsent, BATCH); /* the mail */
    assert_int_equal(relay_once(h.relay), 0);
}

/* By itself, it is counted in the outbox, and leaves nothing in the inbox. */
static void a_failure_fails_one_message(void **state)
{
    for (size_t i = 0; i < POSITIONS; i++) {
        handing h;
        handing_open(&h, *state, i, NULL);
        semel_message failing = text_message(ids[positions[i]], "10 EUR");
        h.work.failures = 1;
        h.work.only = ids[positions[i]];
        send_batch(&h);
        uint64_t sent = counters_of(h.f).captured;
        assert_int_equal(relay_once(h.relay), BATCH - 1);
        assert_int_equal(batches_of(&h), in_batches(&h));
        assert_int_equal(counters_of(h.f).captured - sent, BATCH - 1);
        FAILS(SEMEL_ENOTFOUND, semel_inbox_forget(h.inbox, &failing, &last_error));
        pass_ms(h.f, 60000);
        assert_int_equal(relay_once(h.relay), 1);
        assert_int_equal(h.work.runs, BATCH + 1);
        assert_int_equal(h.work.attempt, 2);
        assert_int_equal(counters_of(h.f).captured - sent, BATCH);
    }
    assert_int_equal(counters_of(*state).failed, POSITIONS);
}

static void what_is_given_up_on_is_a_letter_of_the_same_transaction(void **state)
{
    for (size_t i = 0; i < POSITIONS; i++) {
        handing h;
        handing_open(&h, *state, i, NULL);
        h.work.failures = 1;
        h.work.failure = SEMEL_EGIVEUP;
        h.work.only = ids[positions[i]];
        send_batch(&h);
        assert_int_equal(relay_once(h.relay), BATCH);
        assert_int_equal(batches_of(&h), in_batches(&h));
        assert_int_equal(count_letters(h.f), i + 1);
        semel_message copy = text_message(ids[positions[i]], "10 EUR");
        RECEIVES(SEMEL_OK, SEMEL_DEAD, h.inbox, &copy, &h.work);
        assert_int_equal(relay_once(h.relay), 0);
        assert_int_equal(h.work.runs, BATCH);
    }
    letters found;
    store_fixture *f = *state;
    letters_read(&found, f->base.store, NULL);
    for (size_t i = 0; i < found.count; i++)
        assert_int_equal(found.all[i].attempts, 1);
    letters_free(&found);
}

/* What was before it is done; it and what is behind it stay, uncounted. */
static void a_handler_that_stops_leaves_the_rest_in_the_outbox(void **state)
{
    for (size_t i = 0; i < POSITIONS; i++) {
        handing h;
        handing_open(&h, *state, i, NULL);
        h.work.failures = 1;
        h.work.failure = SEMEL_ESTOPPED;
        h.work.only = ids[positions[i]];
        send_batch(&h);
        assert_int_equal(relay_once(h.relay), positions[i]);
        assert_int_equal(h.work.runs, positions[i] + 1);
        pass_ms(h.f, 60000); /* a relay that was not asked to stop waits */
        assert_int_equal(relay_all(h.relay), BATCH - positions[i]);
        assert_int_equal(h.work.attempt, 1);
    }
    assert_int_equal(counters_of(*state).failed, 0);
    assert_int_equal(counters_of(*state).resent, 0);
}

/* a2 fails: a3 does not run before it. The other group goes on. */
static void the_order_of_a_group_is_kept_in_a_batch(void **state)
{
    static const char *const order[] = {"a1", "b1", "a2", "b2", "a3"};
    handing h;
    handing_open(&h, *state, 0, NULL);
    h.work.failures = 1;
    h.work.only = "a2";
    for (int i = 0; i < BATCH; i++)
        send_id(h.outbox, order[i], order[i][0] == 'a' ? "a" : "b");
    size_t sent = relay_once(h.relay);
    pass_ms(h.f, 60000);
    sent += relay_all(h.relay);
    assert_int_equal(sent, BATCH);
    const char *a1 = strstr(h.work.ids, "a1 "), *a2 = strstr(h.work.ids, "a2 ");
    const char *a3 = strstr(h.work.ids, "a3 ");
    assert_non_null(a1);
    assert_non_null(a2);
    assert_non_null(a3);
    const char *again = strstr(a2 + 1, "a2 ");
    assert_non_null(again);
    assert_true(a1 < a2 && again < a3);
    assert_null(strstr(a3 + 1, "a"));
    assert_int_equal(counters_of(h.f).resent, 1); /* what waited behind it was not counted */
}

/* Known ones leave; what comes twice runs once; other content is a letter. */
static void what_the_inbox_knows_leaves_with_the_batch(void **state)
{
    handing h;
    handing_open(&h, *state, 0, NULL);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, h.inbox, "b", &h.work);
    send_batch(&h);
    send_id(h.outbox, "c", NULL);
    semel_message other = text_message("d", "other content");
    OK(semel_outbox_send(h.outbox, &other, &last_error));
    assert_int_equal(relay_once(h.relay), BATCH + 2);
    assert_int_equal(h.work.runs, BATCH);
    assert_int_equal(counters_of(h.f).duplicates, 2);
    assert_int_equal(counters_of(h.f).mismatched, 1);
    assert_int_equal(count_letters(h.f), 1);
    assert_int_equal(relay_once(h.relay), 0);
}

/* The commit got no answer, but took place: nothing is assumed, and nothing runs again. */
static void an_unknown_end_is_found_out_later(void **state)
{
    size_t sent;
    handing h;
    handing_open(&h, *state, 0, NULL);
    send_batch(&h);
    semel_test_fault(h.f->base.seam, "batch.committed", 1, SEMEL_EUNKNOWN);
    FAILS(SEMEL_EUNKNOWN, semel_relay_step(&sent, h.relay, 0, &last_error));
    pass_ms(h.f, 60000);
    assert_int_equal(relay_all(h.relay), 0); /* their rows have left with the commit */
    assert_int_equal(h.work.runs, BATCH);
    assert_int_equal(counters_of(h.f).unsent, BATCH); /* the mail */
}

/* Before the commit nothing has happened, and no attempt is used up. */
static void a_batch_that_fails_before_its_commit_is_done_again(void **state)
{
    static const char *const points[] = {"batch.marked", "batch.settled"};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        size_t sent;
        handing h;
        handing_open(&h, *state, i, NULL);
        send_batch(&h);
        uint64_t captured = counters_of(h.f).captured;
        semel_test_fault(h.f->base.seam, points[i], 1, SEMEL_ENOMEM);
        FAILS(SEMEL_ENOMEM, semel_relay_step(&sent, h.relay, 0, &last_error));
        assert_int_equal(counters_of(h.f).captured, captured);
        assert_int_equal(relay_all(h.relay), BATCH);
        assert_int_equal(counters_of(h.f).captured - captured, BATCH);
        assert_int_equal(h.work.attempt, 1);
    }
    assert_int_equal(counters_of(*state).resent, 0);
}

static semel_status count_row(const semel_outgoing *row, void *context, semel_error *err)
{
    (void)row, (void)err;
    ++*(size_t *)context;
    return SEMEL_OK;
}

/* A message that became a letter was not sent. */
static void the_history_is_written_with_the_batch(void **state)
{
    handing h;
    size_t rows = 0;
    semel_sent_filter filter = {.size = sizeof filter};
    semel_relay_options options = {.size = sizeof options, .keep_sent_ms = 3600000};
    handing_open(&h, *state, 0, &options);
    h.work.failures = 1;
    h.work.failure = SEMEL_EGIVEUP;
    h.work.only = ids[MIDDLE];
    send_batch(&h);
    assert_int_equal(relay_once(h.relay), BATCH);
    OK(semel_outbox_list_sent(h.outbox, &filter, count_row, &rows, &last_error));
    assert_int_equal(rows, BATCH - 1);
}

/* --- a lease that is lost in the middle ------------------------------------------------------- */

static semel_status ignore_item(const semel_item *item, void *context, semel_error *err)
{
    (void)item, (void)context, (void)err;
    return SEMEL_OK;
}

static semel_status give_middle_back(work_unit *unit, void *context, semel_error *err)
{
    const handing *h = context;
    const relay_item *item = &h->relay->now->items[MIDDLE];
    semel_item_settlement back = {
        .seq = item->seq, .token = item->token, .verdict = SEMEL_VERDICT_RELEASE};
    return unit->store->driver->outbox->settle(unit->state, h->outbox->scope, &back, 1, err);
}

static semel_status lease_one(work_unit *unit, void *context, semel_error *err)
{
    const handing *h = context;
    return unit->store->driver->outbox->lease(unit->state, h->outbox->scope, 1, 30000, ignore_item,
                                              NULL, err);
}

/* As if the lease had ended, between it and the transaction, and another relay had it now. */
static void take_over_when_leased(store_fixture *f, const char *point)
{
    handing *h = f->passing_context;
    if (!h || strcmp(point, "relay.taken") != 0)
        return;
    f->passing_context = NULL;
    semel_store *store = h->relay->store;
    h->taken_over = !store_transact(store, SEMEL_BEGIN_RELAXED, give_middle_back, h, NULL) &&
                    !store_transact(store, SEMEL_BEGIN_RELAXED, lease_one, h, NULL);
}

static void a_lost_lease_commits_nothing_of_its_message(void **state)
{
    handing h;
    semel_message lost = text_message(ids[MIDDLE], "10 EUR");
    handing_open(&h, *state, 0, NULL);
    send_batch(&h);
    h.f->passing_context = &h;
    h.f->passing = take_over_when_leased;
    assert_int_equal(relay_once(h.relay), BATCH - 1);
    assert_true(h.taken_over);
    FAILS(SEMEL_ENOTFOUND, semel_inbox_forget(h.inbox, &lost, &last_error));
    assert_int_equal(counters_of(h.f).processed, BATCH - 1);
    assert_int_equal(counters_of(h.f).unsent, BATCH); /* the mail of four, and the lost one */
    pass_ms(h.f, 60000);
    assert_int_equal(relay_all(h.relay), 1);
    assert_int_equal(h.work.attempt, 2);
    assert_int_equal(counters_of(h.f).unsent, BATCH);
}

const store_test store_handoff_batch_tests[] = {
    STORE_TEST_WITH(a_batch_is_one_transaction, IN_TRANSACTION_MODE),
    STORE_TEST_WITH(a_failure_fails_one_message, IN_TRANSACTION_MODE),
    STORE_TEST_WITH(what_is_given_up_on_is_a_letter_of_the_same_transaction, IN_TRANSACTION_MODE),
    STORE_TEST_WITH(a_handler_that_stops_leaves_the_rest_in_the_outbox, IN_TRANSACTION_MODE),
    STORE_TEST_WITH(the_order_of_a_group_is_kept_in_a_batch, IN_TRANSACTION_MODE),
    STORE_TEST_WITH(what_the_inbox_knows_leaves_with_the_batch, IN_TRANSACTION_MODE),
    STORE_TEST_WITH(an_unknown_end_is_found_out_later, IN_TRANSACTION_MODE | NEEDS_SAVEPOINTS),
    STORE_TEST_WITH(a_batch_that_fails_before_its_commit_is_done_again,
                    IN_TRANSACTION_MODE | NEEDS_SAVEPOINTS),
    STORE_TEST_WITH(the_history_is_written_with_the_batch, IN_TRANSACTION_MODE | NEEDS_SENT),
    STORE_TEST_WITH(a_lost_lease_commits_nothing_of_its_message, IN_TRANSACTION_MODE),
    {NULL, NULL, 0}};
