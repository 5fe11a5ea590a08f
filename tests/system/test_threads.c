/* P5: many threads on one store. However the copies of a message race each other, the body of the
 * handler runs once per key: it does not merely commit once.
 *
 * Every test is run on the memory store and on SQLite, in transaction mode and in claim mode. */
#include "support/fixture/shop.h"
#include "support/inspect/inspect.h"
#include "support/process/process.h"
#include "support/process/threads.h"

#include <setjmp.h>
#include <stdarg.h>
/* cmocka needs the first two. */
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum {
    THREADS = 64,
    BATCHERS = 8,
    KEYS = 200 / SANITIZER_SLOWDOWN,
    BATCH_KEYS = 100,
    BATCH_SIZE = 20,
    BATCHES = 80 / SANITIZER_SLOWDOWN,
    FAILERS = 16,
    DEADLINE_MS = 60000
};

/* What a test is run on. */
typedef struct backend {
    int sqlite;
    semel_mode mode;
} backend;

typedef struct race {
    shop s;
    store_place place;
    shop_tally tally;
    unsigned keys;
    atomic_uint started; /* threads that have called receive, or are about to */
    atomic_uint outcomes[SEMEL_DEAD + 1];
    atomic_uint draws; /* of failing handlers */
} race;

static race *race_open(const backend *on, unsigned keys, const semel_inbox_options *given)
{
    race *r = calloc(1, sizeof *r);
    semel_inbox_options options = {.size = sizeof options};
    assert_non_null(r);
    if (given)
        options = *given;
    options.mode = on->mode;
    options.wait_ms = DEADLINE_MS; /* one that is kept from working has the key meanwhile */
    store_place_open(&r->place, on->sqlite ? PLACE_SQLITE : PLACE_MEMORY);
    if (on->sqlite)
        shop_build(&r->place);
    shop_open(&r->s, &r->place, &options, &r->tally);
    r->keys = keys;
    return r;
}

static void race_close(race *r)
{
    shop_close(&r->s);
    store_place_close(&r->place);
    free(r);
}

static unsigned count_of(race *r, semel_outcome outcome)
{
    return atomic_load(&r->outcomes[outcome]);
}

static void note(race *r, semel_outcome outcome)
{
    atomic_fetch_add(&r->outcomes[outcome], 1);
}

/* Effects once per key, by the handlers' own count and by the rows that they wrote. */
static void check_effects(race *r, const backend *on)
{
    semel_counters counters;
    for (unsigned key = 0; key < r->keys; key++)
        assert_int_equal(atomic_load(&r->tally.effects[key]), 1);
    assert_int_equal(semel_store_counters(&counters, sizeof counters, r->s.base.store, NULL),
                     SEMEL_OK);
    assert_int_equal(counters.processed, r->keys);
    assert_int_equal(counters.unsent, r->keys);
    assert_int_equal(counters.captured, r->keys);
    if (!on->sqlite)
        return;
    if (on->mode == SEMEL_TRANSACTION) {
        assert_int_equal(inspect_number(r->place.url, "SELECT count(*) FROM effect"), r->keys);
        assert_int_equal(inspect_number(r->place.url, "SELECT count(DISTINCT item) FROM effect"),
                         r->keys);
    }
    assert_int_equal(
        inspect_number(r->place.url, "SELECT count(*) FROM semel_marker WHERE state = 0"), r->keys);
}

static void check_runs(race *r)
{
    for (unsigned key = 0; key < r->keys; key++)
        assert_int_equal(atomic_load(&r->tally.runs[key]), 1);
}

/* Every thread got an answer, one of them that it was processed, the others that it had been. */
static void check_outcomes(race *r, unsigned copies)
{
    semel_counters counters;
    assert_int_equal(count_of(r, SEMEL_PROCESSED), r->keys);
    assert_int_equal(count_of(r, SEMEL_DUPLICATE), r->keys * (copies - 1));
    assert_int_equal(semel_store_counters(&counters, sizeof counters, r->s.base.store, NULL),
                     SEMEL_OK);
    assert_int_equal(counters.duplicates, r->keys * (copies - 1));
}

/* --- one key ---------------------------------------------------------------------------------- */

/* The handler goes on when all copies are on their way. */
static semel_status wait_for_all(semel_unit *unit, unsigned key, void *context, semel_error *err)
{
    race *r = context;
    int64_t deadline = process_now_ms() + DEADLINE_MS;
    (void)unit;
    (void)key;
    while (atomic_load(&r->started) < THREADS) {
        if (process_now_ms() > deadline)
            return semel_fail(err, SEMEL_EHANDLER, "the other copies do not come");
        process_nap();
    }
    return SEMEL_OK;
}

static void receive_one_key(test_thread *member)
{
    race *r = member->context;
    semel_status status;
    uint32_t delivery = 1 + member->index % 2; /* a redelivery waits as a first delivery does */
    atomic_fetch_add(&r->started, 1);
    note(r, shop_receive(&r->s, 0, delivery, &status));
}

static void one_key_in_64_threads_runs_once(void **state)
{
    const backend *on = *state;
    race *r = race_open(on, 1, NULL);
    r->s.during = wait_for_all;
    r->s.context = r;
    assert_true(threads_run(THREADS, receive_one_key, r));
    check_runs(r);
    check_outcomes(r, THREADS);
    check_effects(r, on);
    race_close(r);
}

/* --- many keys -------------------------------------------------------------------------------- */

static void receive_all_keys(test_thread *member)
{
    race *r = member->context;
    unsigned order[KEYS];
    uint32_t seed = member->index + 1;
    semel_status status;
    for (unsigned i = 0; i < KEYS; i++)
        order[i] = i;
    shop_shuffle(order, KEYS, &seed);
    for (unsigned i = 0; i < KEYS; i++)
        note(r, shop_receive(&r->s, order[i], 1, &status));
}

static void many_keys_in_64_threads_run_once_each(void **state)
{
    const backend *on = *state;
    race *r = race_open(on, KEYS, NULL);
    assert_true(threads_run(THREADS, receive_all_keys, r));
    check_runs(r);
    check_outcomes(r, THREADS);
    check_effects(r, on);
    race_close(r);
}

/* --- batches ---------------------------------------------------------------------------------- */

typedef struct batch_case {
    char texts[BATCH_SIZE][SHOP_TEXT];
    semel_message messages[BATCH_SIZE];
    const semel_message *list[BATCH_SIZE];
} batch_case;

/* In any order, and some of them twice. */
static void draw_batch(batch_case *h, uint32_t *seed)
{
    for (unsigned i = 0; i < BATCH_SIZE; i++) {
        h->messages[i] = shop_message(h->texts[i], shop_random(seed, BATCH_KEYS));
        h->list[i] = &h->messages[i];
    }
}

static void receive_batches(test_thread *member)
{
    race *r = member->context;
    uint32_t seed = member->index + 100;
    semel_outcome outcomes[BATCH_SIZE];
    batch_case h;
    for (unsigned i = 0; i < BATCHES; i++) {
        draw_batch(&h, &seed);
        semel_status status = semel_inbox_receive_batch(outcomes, r->s.inbox, h.list, BATCH_SIZE,
                                                        shop_handler, &r->s, NULL);
        PROCESS_REQUIRE(status == SEMEL_OK);
        for (unsigned j = 0; j < BATCH_SIZE; j++)
            note(r, outcomes[j]);
    }
}

static void receive_every_batch_key(race *r)
{
    semel_status status;
    for (unsigned key = 0; key < BATCH_KEYS; key++)
        note(r, shop_receive(&r->s, key, 1, &status));
}

static void overlapping_batches_in_8_threads_run_each_key_once(void **state)
{
    const backend *on = *state;
    race *r = race_open(on, BATCH_KEYS, NULL);
    unsigned deliveries = BATCHERS * BATCHES * BATCH_SIZE + BATCH_KEYS;
    assert_true(threads_run(BATCHERS, receive_batches, r));
    receive_every_batch_key(r); /* whichever no batch had drawn */
    check_runs(r);
    assert_int_equal(count_of(r, SEMEL_PROCESSED), BATCH_KEYS);
    assert_int_equal(count_of(r, SEMEL_DUPLICATE), deliveries - BATCH_KEYS);
    check_effects(r, on);
    race_close(r);
}

/* --- failures --------------------------------------------------------------------------------- */

static semel_status fail_now_and_then(semel_unit *unit, unsigned key, void *context,
                                      semel_error *err)
{
    race *r = context;
    (void)unit;
    uint32_t seed = atomic_fetch_add(&r->draws, 1) * 2654435761u + key;
    return shop_random(&seed, 3) ? SEMEL_OK : semel_fail(err, SEMEL_EHANDLER, "unlucky");
}

static void receive_until_settled(test_thread *member)
{
    race *r = member->context;
    unsigned order[KEYS];
    uint32_t seed = member->index + 7;
    for (unsigned i = 0; i < KEYS; i++)
        order[i] = i;
    shop_shuffle(order, KEYS, &seed);
    for (unsigned i = 0; i < KEYS; i++) {
        semel_status status;
        semel_outcome outcome;
        uint32_t delivery = 1;
        while (!semel_outcome_settled(outcome = shop_receive(&r->s, order[i], delivery++, &status)))
            PROCESS_REQUIRE(status == SEMEL_EHANDLER);
        note(r, outcome);
    }
}

static void handlers_that_fail_at_random_take_effect_once(void **state)
{
    const backend *on = *state;
    semel_inbox_options options = {.size = sizeof options, .attempts_max = 1000000};
    race *r = race_open(on, KEYS, &options);
    r->s.during = fail_now_and_then;
    r->s.context = r;
    assert_true(threads_run(FAILERS, receive_until_settled, r));
    check_outcomes(r, FAILERS);
    check_effects(r, on);
    race_close(r);
}

/* --- the list --------------------------------------------------------------------------------- */

static backend on_memory = {0, SEMEL_TRANSACTION}, on_memory_claims = {0, SEMEL_CLAIM};
static backend on_sqlite = {1, SEMEL_TRANSACTION}, on_sqlite_claims = {1, SEMEL_CLAIM};

#define ON_ALL(test)                                                      \
    {#test " (memory)", test, NULL, NULL, &on_memory},                    \
        {#test " (memory, claims)", test, NULL, NULL, &on_memory_claims}, \
        {#test " (sqlite)", test, NULL, NULL, &on_sqlite},                \
    {                                                                     \
#test " (sqlite, claims)", test, NULL, NULL, &on_sqlite_claims    \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_ALL(one_key_in_64_threads_runs_once),
        ON_ALL(many_keys_in_64_threads_run_once_each),
        ON_ALL(overlapping_batches_in_8_threads_run_each_key_once),
        ON_ALL(handlers_that_fail_at_random_take_effect_once),
    };
    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
