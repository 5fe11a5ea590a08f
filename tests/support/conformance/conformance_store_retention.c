/* Retention that runs by itself, in running consumers and relays, and the one-off purge.
 *
 * The consumers' and relays' own timers go by the seam's clock, which the tests advance while none
 * of them is in a step of retention: a step that seems to have taken long is followed by a pause
 * that is many times as long. So each advance is followed by messages, one after the other, between
 * which the consumer or relay comes by its retention (come_by()). On a
 * server the note that says when the next round is due goes by the server's clock, so the intervals
 * here are short, or so long that they are never over. */
#include "support/conformance/conformance_store.h"
#include "support/process/process.h"
#include "support/process/threads.h"

#include <semel/consumer.h>
#include <semel/relay.h>
#include <stdio.h>

enum { SOON_MS = 60000, OFTEN_MS = 100, RARELY_MS = 3600000, LOOK_MS = 120000, OLD = 30 };

/* Longer than all that the tests let pass for the timers. */
#define RETENTION_MS INT64_C(2592000000)

static void receive_many(semel_inbox *inbox, int from, int count)
{
    scripted_handler done = {0};
    for (int i = from; i < from + count; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%d", i);
        RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, id, &done);
    }
}

static semel_inbox *open_swept(store_fixture *f, semel_store *store, const char *name,
                               uint32_t every_ms)
{
    semel_inbox_options options = {.size = sizeof options,
                                   .retention_ms = (uint64_t)RETENTION_MS,
                                   .wait_ms = SOON_MS,
                                   .sweep_every_ms = every_ms};
    return open_inbox_on(f, store, name, &options);
}

static size_t swept_of(semel_store *store)
{
    semel_counters counters = {0};
    OK(semel_store_counters(&counters, sizeof counters, store, &last_error));
    return counters.swept;
}

/* --- running ---------------------------------------------------------------------------------- */

typedef struct runner {
    semel_store *store; /* of the inboxes */
    size_t routes;
    const char *id; /* of the first message, whose copies come later */
    semel_transport *transport;
    semel_consumer *consumer;
    semel_relay *relay;
    semel_outbox *outbox; /* the relay's */
    scripted_handler done;
    test_thread thread;
    semel_status status;
    semel_error err;
} runner;

static semel_status do_nothing(semel_unit *unit, const semel_message *message, void *context,
                               semel_error *err)
{
    (void)unit, (void)message, (void)context, (void)err;
    return SEMEL_OK;
}

static void run(test_thread *thread)
{
    runner *r = thread->context;
    r->status =
        r->relay ? semel_relay_run(r->relay, &r->err) : semel_consumer_run(r->consumer, &r->err);
}

static void stop_runner(runner *r)
{
    if (r->relay)
        semel_relay_stop(r->relay);
    else
        semel_consumer_stop(r->consumer);
    assert_true(test_thread_join(&r->thread, SOON_MS));
    assert_int_equal(r->status, SEMEL_OK);
    semel_consumer_close(r->consumer);
    semel_transport_close(r->transport);
}

/* What has an outcome is committed. A handler that was called is not, for a while. */
static uint64_t outcomes_of(semel_store *store)
{
    semel_counters counters = {0};
    OK(semel_store_counters(&counters, sizeof counters, store, &last_error));
    return counters.processed + counters.duplicates + counters.stale;
}

static void publish(runner *r, semel_message message)
{
    const semel_message *one = &message;
    semel_publish_result result;
    message.type = "order";
    if (r->relay)
        OK(semel_outbox_send(r->outbox, &message, &last_error));
    else
        OK(semel_transport_publish(&result, r->transport, &one, 1, 0, &last_error));
}

/* Through the consumer or relay: the message has its outcome in each inbox when the call returns.
 */
static void deliver(runner *r, semel_message message)
{
    uint64_t wanted = outcomes_of(r->store) + r->routes;
    publish(r, message);
    for (int64_t end = process_now_ms() + SOON_MS;
         outcomes_of(r->store) < wanted && process_now_ms() < end;)
        process_nap();
    assert_int_equal(outcomes_of(r->store), wanted);
}

/* A step of retention that is due, or under way, has ended when the call returns: it comes before
 * the second copy at the latest. */
static void come_by(runner *r)
{
    for (int i = 0; i < 3; i++)
        deliver(r, text_message(r->id, "10 EUR"));
}

/* Its timers are set when the call returns: it has handled a message of this name. */
static void start_consumer(runner *r, store_fixture *f, semel_store *store,
                           semel_inbox *const inboxes[], size_t count, const char *name)
{
    semel_transport_options options = {.size = sizeof options, .seam = &f->store_seam};
    semel_route routes[4];
    *r = (runner){.store = store, .routes = count, .id = name};
    OK(semel_transport_open(&r->transport, "memory:", &options, &last_error));
    for (size_t i = 0; i < count; i++)
        routes[i] = (semel_route){"*", inboxes[i], do_nothing, NULL};
    OK(semel_consumer_open(&r->consumer, r->transport, routes, count, NULL, &last_error));
    test_thread_start(&r->thread, run, r);
    deliver(r, text_message(name, "10 EUR"));
}

/* Time passes for the timers, for one step at a time, until so many markers were swept. */
static void wait_until_swept(store_fixture *f, runner *r, size_t count)
{
    for (int64_t end = process_now_ms() + SOON_MS;
         swept_of(f->base.store) < count && process_now_ms() < end;) {
        semel_test_advance_ms(f->base.seam, (int64_t)2 * OFTEN_MS);
        come_by(r);
    }
    assert_int_equal(swept_of(f->base.store), count);
}

/* --- by itself -------------------------------------------------------------------------------- */

static void a_running_consumer_sweeps_by_itself_again_and_again(void **state)
{
    store_fixture *f = *state;
    runner r;
    scripted_handler done = {0};
    semel_inbox *inbox = open_swept(f, f->base.store, "orders", OFTEN_MS);
    receive_many(inbox, 0, OLD);
    pass_ms(f, RETENTION_MS + f->grain_ms);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "fresh", &done);
    start_consumer(&r, f, f->base.store, &inbox, 1, "first");
    wait_until_swept(f, &r, OLD);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "fresh", &done);
    receive_many(inbox, OLD, OLD);
    pass_ms(f, RETENTION_MS + f->grain_ms);
    wait_until_swept(f, &r, 2 * OLD + 2); /* "fresh" and "first", too */
    stop_runner(&r);
}

static void a_running_relay_sweeps_by_itself(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_swept(f, f->base.store, "orders", OFTEN_MS);
    semel_relay_options options = {.size = sizeof options, .poll_ms = 10};
    runner r = {
        .store = f->base.store, .routes = 1, .id = "first", .outbox = open_outbox(f, "out")};
    r.relay = open_local_relay(f, r.outbox, inbox, &r.done, &options);
    receive_many(inbox, 0, OLD);
    pass_ms(f, RETENTION_MS + f->grain_ms);
    test_thread_start(&r.thread, run, &r);
    wait_until_swept(f, &r, OLD);
    stop_runner(&r);
}

static void an_inbox_whose_sweep_is_off_keeps_its_markers(void **state)
{
    store_fixture *f = *state;
    runner r;
    semel_inbox *inboxes[] = {open_swept(f, f->base.store, "off", SEMEL_SWEEP_OFF),
                              open_swept(f, f->base.store, "on", OFTEN_MS)};
    scripted_handler done = {0};
    receive_many(inboxes[0], 0, OLD);
    receive_many(inboxes[1], 0, OLD);
    pass_ms(f, RETENTION_MS + f->grain_ms);
    start_consumer(&r, f, f->base.store, inboxes, 2, "first");
    wait_until_swept(f, &r, OLD);
    receive_many(inboxes[1], 0, OLD);
    pass_ms(f, RETENTION_MS + f->grain_ms);
    wait_until_swept(f, &r, 2 * OLD + 1); /* "first", too */
    for (int i = 0; i < 3; i++) {
        semel_test_advance_ms(f->base.seam, LOOK_MS);
        come_by(&r);
    }
    stop_runner(&r);
    assert_int_equal(swept_of(f->base.store), 2 * OLD + 1);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inboxes[0], "0", &done);
}

/* A round that is not due yet belongs to no process. */
static void one_process_of_two_makes_the_round(void **state)
{
    store_fixture *f = *state;
    runner one, other;
    semel_store *second = open_second_handle(f);
    semel_inbox *here = open_swept(f, f->base.store, "orders", RARELY_MS);
    semel_inbox *there = open_swept(f, second, "orders", RARELY_MS);
    receive_many(here, 0, OLD);
    pass_ms(f, RETENTION_MS + f->grain_ms);
    start_consumer(&one, f, f->base.store, &here, 1, "one");
    start_consumer(&other, f, second, &there, 1, "other");
    for (int i = 0; i < 5; i++) {
        semel_test_advance_ms(f->base.seam, LOOK_MS);
        come_by(&one);
        come_by(&other);
    }
    stop_runner(&one);
    stop_runner(&other);
    assert_int_equal(swept_of(f->base.store) + swept_of(second), OLD);
    assert_int_equal(semel_test_passed(f->base.seam, "round.committed"), 1);
}

/* --- purging ---------------------------------------------------------------------------------- */

static size_t purge(semel_inbox *inbox, uint64_t age_ms)
{
    size_t removed = 0;
    OK(semel_inbox_purge(&removed, inbox, age_ms, &last_error));
    return removed;
}

static void a_purge_removes_what_is_older_than_it_says(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL), *other = open_inbox(f, "other", NULL);
    scripted_handler done = {0};
    receive_many(inbox, 0, OLD);
    receive_many(other, 0, 1);
    pass_ms(f, grains(f, 20));
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "fresh", &done);
    assert_int_equal(purge(inbox, grains(f, 100)), 0);
    assert_int_equal(purge(inbox, SEMEL_RETENTION_NONE), 0); /* an age that no marker has */
    assert_int_equal(purge(inbox, grains(f, 10)), OLD);
    assert_int_equal(counters_of(f).swept, OLD);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "fresh", &done);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, other, "0", &done);
    assert_int_equal(purge(inbox, 0), 1);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "fresh", &done);
}

/* --- by tools that do not know what the inbox is ---------------------------------------------- */

static void a_tool_purges_step_by_step(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL), *tool = NULL;
    scripted_handler done = {0};
    size_t all = 0, steps = 0;
    int more = 1;
    receive_many(inbox, 0, OLD);
    pass_ms(f, grains(f, 20));
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "fresh", &done);
    OK(semel_inbox_open_known(&tool, f->base.store, "orders", &last_error));
    for (; more; steps++) {
        size_t removed = 0;
        OK(semel_inbox_purge_step(&removed, &more, tool, grains(f, 10), OLD / 3, &last_error));
        assert_in_range(removed, 0, OLD / 3);
        all += removed;
    }
    assert_int_equal(all, OLD);
    assert_in_range(steps, 3, OLD);
    semel_inbox_close(tool);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "fresh", &done);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "0", &done);
}

/* Another key and mode than a default inbox has: it stays what it is. */
static void a_tool_forgets_a_key_and_defines_nothing(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .key = "type+id"};
    semel_inbox *inbox = open_inbox(f, "typed", &options), *tool = NULL;
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler done = {0};
    semel_marker *marker = NULL;
    message.type = "paid";
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &done);
    OK(semel_inbox_open_known(&tool, f->base.store, "typed", &last_error));
    OK(semel_inbox_look_key(&marker, tool, semel_str("4:paid,3:m-1,"), &last_error));
    assert_int_equal(marker->state, SEMEL_MARKER_DONE);
    OK(semel_inbox_forget_key(tool, marker->key, &last_error));
    FAILS(SEMEL_ENOTFOUND, semel_inbox_forget_key(tool, marker->key, &last_error));
    FAILS(SEMEL_EINVAL, semel_inbox_forget_key(tool, semel_str(""), &last_error));
    semel_marker_free(marker);
    semel_inbox_close(tool);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, open_inbox(f, "typed", &options), &message, &done);
}

static void a_purge_keeps_a_live_claim(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler done = {0};
    semel_unit *unit = claim_message(f, inbox, &message);
    pass_ms(f, grains(f, 1));
    assert_int_equal(purge(inbox, 0), 0);
    OK(semel_unit_commit(unit, &last_error));
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &done);
}

/* Far below the retention: who opens the inbox later must know, too. */
static void a_copy_of_what_was_purged_is_stale(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_message dated = text_message("dated", "10 EUR"), late = text_message("late", "10 EUR");
    scripted_handler done = {0};
    dated.time_ms = wall_of(f);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &dated, &done);
    pass_ms(f, 2 * RARELY_MS);
    late.time_ms = wall_of(f);
    assert_int_equal(purge(inbox, RARELY_MS), 1);
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &dated, &done);
    pass_ms(f, RARELY_MS);
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &dated, &done);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &late, &done); /* nothing so young was forgotten */
    if (!(f->quirks->flags & STORE_KEEPS))
        return;
    reopen(f);
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, open_inbox(f, "orders", NULL), &dated, &done);
}

static void a_running_consumer_learns_of_a_purge_elsewhere(void **state)
{
    store_fixture *f = *state;
    runner r;
    semel_store *second = open_second_handle(f);
    semel_inbox *here = open_inbox(f, "orders", NULL);
    semel_inbox *there = open_swept(f, second, "orders", SEMEL_SWEEP_OFF);
    semel_message dated = text_message("dated", "10 EUR");
    scripted_handler done = {0};
    semel_counters counters = {0};
    dated.time_ms = wall_of(f);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, here, &dated, &done);
    start_consumer(&r, f, second, &there, 1, "first");
    pass_ms(f, 2 * RARELY_MS);
    assert_int_equal(purge(here, RARELY_MS), 2); /* and "first" */
    come_by(&r);
    semel_test_advance_ms(f->base.seam, LOOK_MS);
    come_by(&r);
    deliver(&r, dated);
    stop_runner(&r);
    OK(semel_store_counters(&counters, sizeof counters, second, &last_error));
    assert_int_equal(counters.stale, 1);
    assert_int_equal(counters.processed, 2); /* "first", before the purge and after it */
}

/* The one that has begun a round keeps others from doing the same work, but not from doing
 * more. */
static void a_purge_does_not_leave_its_work_to_a_sweep(void **state)
{
    store_fixture *f = *state;
    semel_inbox *here = open_inbox(f, "orders", NULL);
    semel_inbox *there = open_inbox_on(f, open_second_handle(f), "orders", NULL);
    size_t swept = 0;
    int more = 0;
    receive_many(here, 0, 200);
    pass_ms(f, grains(f, 20));
    OK(semel_inbox_sweep(&swept, &more, here, 1, &last_error));
    assert_true(more && !swept);
    assert_int_equal(purge(there, grains(f, 10)), 200);
    for (int i = 0; more && i < 1000; i++)
        OK(semel_inbox_sweep(&swept, &more, here, 1, &last_error));
    assert_true(!more && !swept);
}

const store_test store_retention_tests[] = {
    STORE_TEST(a_running_consumer_sweeps_by_itself_again_and_again),
    STORE_TEST_WITH(a_running_relay_sweeps_by_itself, IN_TRANSACTION_MODE | NEEDS_OUTBOX),
    STORE_TEST_WITH(an_inbox_whose_sweep_is_off_keeps_its_markers, IN_ANY_MODE),
    STORE_TEST_WITH(one_process_of_two_makes_the_round, IN_ANY_MODE | NEEDS_SHARED),
    STORE_TEST(a_purge_removes_what_is_older_than_it_says),
    STORE_TEST(a_tool_purges_step_by_step),
    STORE_TEST(a_tool_forgets_a_key_and_defines_nothing),
    STORE_TEST_WITH(a_purge_keeps_a_live_claim, IN_CLAIM_MODE),
    STORE_TEST(a_copy_of_what_was_purged_is_stale),
    STORE_TEST_WITH(a_running_consumer_learns_of_a_purge_elsewhere, IN_ANY_MODE | NEEDS_SHARED),
    STORE_TEST_WITH(a_purge_does_not_leave_its_work_to_a_sweep, IN_ANY_MODE | NEEDS_SHARED),
    {NULL, NULL, 0}};
