/* A consumer on a queue in the store of its inbox: a batch is handled and leaves the queue in one
 * transaction. What cannot be done so is settled in the ordinary way. */
#include "support/base/check.h"
#include "support/base/scratch.h"
#include "support/fixture/scripted_handler.h"
#include "support/process/deadline.h"

#include <semel/consumer.h>
#include <semel/queue.h>
#include <semel/sqlite.h>
#include <semel/sys/transport.h>
#include <semel/test.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

enum { LEASE_MS = 10000, BATCH = 5, MIDDLE = 2 };

static const char *const ids[BATCH] = {"a", "b", "c", "d", "e"};
static const size_t positions[] = {0, MIDDLE, BATCH - 1};
enum { POSITIONS = sizeof positions / sizeof *positions };

typedef struct fixture {
    scratch dir;
    char url[SCRATCH_PATH], other_url[SCRATCH_PATH];
    semel_test_seam *seam;
    semel_store *store, *other;
    semel_transport *queue;
    semel_inbox *inbox, *second;
    semel_consumer *consumer;
    scripted_handler work;
} fixture;

static semel_store *open_store(fixture *f, const char *url)
{
    semel_store *store = NULL;
    semel_store_options options = {.size = sizeof options, .seam = semel_test_seam_get(f->seam)};
    OK(semel_store_open(&store, url, &options, &last_error));
    OK(semel_store_migrate(store, &last_error));
    return store;
}

/* *state: "sqlite" or "memory". */
static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    int memory = strcmp(*state, "memory") == 0;
    semel_queue_options options = {.size = sizeof options, .lease_ms = LEASE_MS};
    if (!f)
        return -1;
    *state = f;
    deadline_begin();
    scratch_open(&f->dir);
    OK(semel_test_seam_open(&f->seam, 1, &last_error));
    scratch_sqlite(f->url, &f->dir, "store.db");
    scratch_sqlite(f->other_url, &f->dir, "other.db");
    f->store = open_store(f, memory ? "memory:" : f->url);
    f->other = open_store(f, memory ? "memory:" : f->other_url);
    OK(semel_queue_open(&f->queue, f->store, "orders", &options, &last_error));
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    semel_consumer_close(f->consumer);
    semel_transport_close(f->queue);
    semel_inbox_close(f->inbox);
    semel_inbox_close(f->second);
    semel_store_close(f->store);
    semel_store_close(f->other);
    semel_test_seam_close(f->seam);
    scratch_close(&f->dir);
    free(f);
    deadline_end();
    return 0;
}

/* --- tools ------------------------------------------------------------------------------------ */

static void publish(fixture *f, const char *id, const char *group)
{
    semel_message message = text_message(id, "10 EUR");
    const semel_message *pointer = &message;
    semel_publish_result result;
    message.group = group;
    OK(semel_transport_publish(&result, f->queue, &pointer, 1, 1000, &last_error));
}

static void publish_batch(fixture *f)
{
    for (int i = 0; i < BATCH; i++)
        publish(f, ids[i], NULL);
}

static void open_consumer(fixture *f, semel_store *inbox_in, semel_mode mode,
                          const semel_consumer_options *given)
{
    semel_inbox_options inbox = {.size = sizeof inbox, .mode = mode};
    semel_consumer_options options = given ? *given : (semel_consumer_options){0};
    options.size = sizeof options;
    options.batch = options.batch ? options.batch : BATCH;
    OK(semel_inbox_open(&f->inbox, inbox_in, "inbox", &inbox, &last_error));
    const semel_route route = {
        .pattern = "*", .inbox = f->inbox, .handler = scripted_handler_run, .context = &f->work};
    OK(semel_consumer_open(&f->consumer, f->queue, &route, 1, &options, &last_error));
}

static size_t step(fixture *f)
{
    size_t settled = 99;
    OK(semel_consumer_step(&settled, f->consumer, 0, &last_error));
    return settled;
}

/* In how many units deliveries were settled by themselves; and by the commit of their work. */
static uint32_t apart(const fixture *f)
{
    return semel_test_passed(f->seam, "settle.stored");
}

static uint32_t together(const fixture *f)
{
    return semel_test_passed(f->seam, "batch.settled");
}

static semel_status count_message(const semel_outgoing *item, void *context, semel_error *err)
{
    (void)item, (void)err;
    ++*(size_t *)context;
    return SEMEL_OK;
}

static size_t queued(fixture *f)
{
    size_t count = 0;
    semel_outgoing_filter filter = {.size = sizeof filter};
    OK(semel_queue_list(f->queue, &filter, count_message, &count, &last_error));
    return count;
}

static void expect_done_once(fixture *f, unsigned runs)
{
    semel_counters counters;
    semel_inbox_counters(&counters, sizeof counters, f->inbox);
    assert_int_equal(counters.processed, BATCH);
    assert_int_equal(f->work.runs, runs);
    assert_int_equal(queued(f), 0);
}

/* --- together --------------------------------------------------------------------------------- */

static void a_batch_is_settled_by_its_commit(void **state)
{
    fixture *f = *state;
    open_consumer(f, f->store, SEMEL_TRANSACTION, NULL);
    publish_batch(f);
    assert_int_equal(step(f), BATCH);
    assert_int_equal(together(f), 1);
    assert_int_equal(apart(f), 0);
    expect_done_once(f, BATCH);
    assert_int_equal(step(f), 0);
}

static void a_failure_fails_one_delivery(void **state)
{
    for (size_t i = 0; i < POSITIONS; i++) {
        fixture *f = *state;
        f->work = (scripted_handler){.failures = 1, .only = ids[positions[i]]};
        open_consumer(f, f->store, SEMEL_TRANSACTION, NULL);
        publish_batch(f);
        assert_int_equal(step(f), BATCH - 1);
        assert_int_equal(together(f), i + 1);
        assert_int_equal(queued(f), 1);
        semel_test_advance_ms(f->seam, 60000);
        assert_int_equal(step(f), 1);
        assert_int_equal(f->work.attempt, 2);
        expect_done_once(f, BATCH + 1);
        semel_consumer_close(f->consumer);
        for (int k = 0; k < BATCH; k++) {
            semel_message message = text_message(ids[k], "10 EUR");
            OK(semel_inbox_forget(f->inbox, &message, &last_error));
        }
        semel_inbox_close(f->inbox);
    }
    fixture *f = *state;
    f->consumer = NULL;
    f->inbox = NULL;
}

/* The next of a group is received when the one before it is gone. */
static void a_group_goes_on_after_the_commit(void **state)
{
    fixture *f = *state;
    semel_consumer_options options = {.order = SEMEL_ORDER_GROUP};
    open_consumer(f, f->store, SEMEL_TRANSACTION, &options);
    publish(f, "a", "g");
    publish(f, "b", "g");
    publish(f, "c", "h");
    publish(f, "d", NULL);
    publish(f, "e", NULL);
    size_t settled = 0;
    for (int i = 0; i < 4; i++)
        settled += step(f);
    assert_int_equal(settled, BATCH);
    assert_true(strstr(f->work.ids, "a ") < strstr(f->work.ids, "b "));
    expect_done_once(f, BATCH);
}

static semel_status count_letter(const semel_dead *dead, void *context, semel_error *err)
{
    (void)dead, (void)err;
    ++*(size_t *)context;
    return SEMEL_OK;
}

static size_t count_letters(fixture *f, semel_dead_origin origin)
{
    size_t count = 0;
    semel_dead_filter filter = {.size = sizeof filter, .origin = origin};
    OK(semel_dead_list(f->store, &filter, count_letter, &count, &last_error));
    return count;
}

/* The inbox's letter and the queue's are written by the same commit. */
static void what_is_given_up_on_is_rejected_with_the_commit(void **state)
{
    fixture *f = *state;
    semel_consumer_options options = {.reject_dead = 1};
    f->work = (scripted_handler){.failures = 1, .failure = SEMEL_EGIVEUP, .only = "c"};
    open_consumer(f, f->store, SEMEL_TRANSACTION, &options);
    publish_batch(f);
    assert_int_equal(step(f), BATCH - 1);
    assert_int_equal(apart(f), 0);
    assert_int_equal(queued(f), 0);
    assert_int_equal(count_letters(f, SEMEL_DEAD_INBOX), 1);
    assert_int_equal(count_letters(f, SEMEL_DEAD_QUEUE), 1);
}

/* --- in the ordinary way ---------------------------------------------------------------------- */

static void an_inbox_in_another_store_is_settled_after_its_commit(void **state)
{
    fixture *f = *state;
    open_consumer(f, f->other, SEMEL_TRANSACTION, NULL);
    publish_batch(f);
    assert_int_equal(step(f), BATCH);
    assert_int_equal(together(f), 0);
    assert_int_equal(apart(f), 1);
    expect_done_once(f, BATCH);
}

static void claims_are_settled_after_their_work(void **state)
{
    fixture *f = *state;
    open_consumer(f, f->store, SEMEL_CLAIM, NULL);
    publish_batch(f);
    assert_int_equal(step(f), BATCH);
    assert_int_equal(together(f), 0);
    assert_int_equal(apart(f), 1);
    expect_done_once(f, BATCH);
}

/* A delivery that two inboxes take is done when both are. */
static void what_two_inboxes_take_is_settled_after_both(void **state)
{
    fixture *f = *state;
    scripted_handler also = {0};
    semel_consumer_options options = {.size = sizeof options, .batch = BATCH};
    OK(semel_inbox_open(&f->inbox, f->store, "inbox", NULL, &last_error));
    OK(semel_inbox_open(&f->second, f->store, "second", NULL, &last_error));
    const semel_route routes[] = {
        {.pattern = "*", .inbox = f->inbox, .handler = scripted_handler_run, .context = &f->work},
        {.pattern = "*", .inbox = f->second, .handler = scripted_handler_run, .context = &also}};
    OK(semel_consumer_open(&f->consumer, f->queue, routes, 2, &options, &last_error));
    publish_batch(f);
    assert_int_equal(step(f), BATCH);
    assert_int_equal(together(f), 0);
    assert_int_equal(also.runs, BATCH);
    expect_done_once(f, BATCH);
}

/* --- in trouble ------------------------------------------------------------------------------- */

static void a_batch_that_fails_before_its_commit_is_done_again(void **state)
{
    fixture *f = *state;
    size_t settled;
    open_consumer(f, f->store, SEMEL_TRANSACTION, NULL);
    publish_batch(f);
    semel_test_fault(f->seam, "batch.settled", 1, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE, semel_consumer_step(&settled, f->consumer, 0, &last_error));
    assert_int_equal(queued(f), BATCH);
    semel_test_advance_ms(f->seam, 60000);
    assert_int_equal(step(f), BATCH);
    expect_done_once(f, 2 * BATCH);
}

/* Nothing is assumed: the deliveries stay in flight, and are found to be done and gone. */
static void an_unknown_end_is_found_out_later(void **state)
{
    fixture *f = *state;
    size_t settled;
    open_consumer(f, f->store, SEMEL_TRANSACTION, NULL);
    publish_batch(f);
    semel_test_fault(f->seam, "batch.committed", 1, SEMEL_EUNKNOWN);
    FAILS(SEMEL_EUNKNOWN, semel_consumer_step(&settled, f->consumer, 0, &last_error));
    semel_test_advance_ms(f->seam, 60000);
    (void)semel_consumer_step(&settled, f->consumer, 0, &last_error);
    assert_int_equal(f->work.runs, BATCH);
    assert_int_equal(queued(f), 0);
    assert_int_equal(step(f), 0);
}

/* The first handler changes the token of the middle one, once, in the transaction. */
typedef struct thief {
    fixture *f;
    int stolen;
} thief;

static semel_status steal_once(semel_unit *unit, const semel_message *message, void *context,
                               semel_error *err)
{
    thief *self = context;
    if (!self->stolen++)
        assert_int_equal(
            sqlite3_exec(semel_unit_sqlite(unit),
                         "UPDATE semel_outbox SET token = 1 WHERE CAST(id AS TEXT) = 'c'", NULL,
                         NULL, NULL),
            SQLITE_OK);
    return scripted_handler_run(unit, message, &self->f->work, err);
}

/* The transaction is undone, and all are received in the ordinary way. */
static void a_lost_delivery_undoes_the_batch(void **state)
{
    fixture *f = *state;
    thief self = {.f = f};
    semel_consumer_options options = {.size = sizeof options, .batch = BATCH};
    OK(semel_inbox_open(&f->inbox, f->store, "inbox", NULL, &last_error));
    const semel_route route = {
        .pattern = "*", .inbox = f->inbox, .handler = steal_once, .context = &self};
    OK(semel_consumer_open(&f->consumer, f->queue, &route, 1, &options, &last_error));
    publish_batch(f);
    assert_int_equal(step(f), BATCH);
    assert_int_equal(together(f), 0);
    expect_done_once(f, 2 * BATCH);
}

/* clang-format off */
#define ON(test, kind) {#test ", " kind, test, setup, teardown, (void *)(uintptr_t)(kind)}
#define ON_BOTH(test) ON(test, "sqlite"), ON(test, "memory")
/* clang-format on */

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH(a_batch_is_settled_by_its_commit),
        ON_BOTH(a_failure_fails_one_delivery),
        ON_BOTH(a_group_goes_on_after_the_commit),
        ON_BOTH(what_is_given_up_on_is_rejected_with_the_commit),
        ON_BOTH(an_inbox_in_another_store_is_settled_after_its_commit),
        ON_BOTH(claims_are_settled_after_their_work),
        ON_BOTH(what_two_inboxes_take_is_settled_after_both),
        ON_BOTH(a_batch_that_fails_before_its_commit_is_done_again),
        ON_BOTH(an_unknown_end_is_found_out_later),
        ON(a_lost_delivery_undoes_the_batch, "sqlite"),
    };
    return cmocka_run_group_tests_name("queue: consume", tests, NULL, NULL);
}
