/* P5: eight processes on one SQLite file. Each opens the store after the fork, receives every
 * key in an order of its own, and counts in memory that all share: the body of the handler runs
 * once per key. */
#include "support/fixture/shop.h"
#include "support/inspect/inspect.h"
#include "support/process/process.h"

#include <setjmp.h>
#include <stdarg.h>
/* cmocka needs the first two. */
#include <cmocka.h>
#include <string.h>
#include <sys/types.h>

enum { PROCESSES = 8, KEYS = 200, BATCH = 25, DEADLINE_MS = 60000 };

typedef struct race {
    store_place place;
    semel_mode mode;
    unsigned keys;
    unsigned index; /* of the process that is started next */
    void (*receive)(struct race *r, shop *s, const unsigned order[]);
    struct shared {
        shop_tally tally;
        atomic_uint ready;
        atomic_uint outcomes[SEMEL_DEAD + 1];
    } * shared;
} race;

/* --- the processes ---------------------------------------------------------------------------- */

static void wait_for_the_others(struct shared *shared)
{
    int64_t deadline = process_now_ms() + DEADLINE_MS;
    atomic_fetch_add(&shared->ready, 1);
    while (atomic_load(&shared->ready) < PROCESSES) {
        PROCESS_REQUIRE(process_now_ms() < deadline);
        process_nap();
    }
}

static int compete(void *context)
{
    race *r = context;
    unsigned order[KEYS];
    uint32_t seed = r->index + 1;
    shop s;
    semel_inbox_options options = {.size = sizeof options, .mode = r->mode, .wait_ms = DEADLINE_MS};
    shop_open(&s, &r->place, &options, &r->shared->tally);
    for (unsigned i = 0; i < r->keys; i++)
        order[i] = i;
    shop_shuffle(order, r->keys, &seed);
    wait_for_the_others(r->shared);
    r->receive(r, &s, order);
    shop_close(&s);
    return PROCESS_OK;
}

static void note(race *r, semel_outcome outcome)
{
    atomic_fetch_add(&r->shared->outcomes[outcome], 1);
}

static void one_by_one(race *r, shop *s, const unsigned order[])
{
    semel_status status;
    for (unsigned i = 0; i < r->keys; i++)
        note(r, shop_receive(s, order[i], 1, &status));
}

static void in_batches(race *r, shop *s, const unsigned order[])
{
    char texts[BATCH][SHOP_TEXT];
    semel_message messages[BATCH];
    const semel_message *list[BATCH];
    semel_outcome outcomes[BATCH];
    for (unsigned first = 0; first + BATCH <= r->keys; first += BATCH) {
        for (unsigned i = 0; i < BATCH; i++) {
            messages[i] = shop_message(texts[i], order[first + i]);
            list[i] = &messages[i];
        }
        semel_status status;
        do
            status =
                semel_inbox_receive_batch(outcomes, s->inbox, list, BATCH, shop_handler, s, NULL);
        while (status == SEMEL_EBUSY);
        PROCESS_REQUIRE(status == SEMEL_OK);
        for (unsigned i = 0; i < BATCH; i++)
            note(r, outcomes[i]);
    }
}

static int build(void *context)
{
    race *r = context;
    shop_build(&r->place);
    return PROCESS_OK;
}

/* --- the races -------------------------------------------------------------------------------- */

static void check_once_per_key(race *r)
{
    struct shared *shared = r->shared;
    for (unsigned key = 0; key < r->keys; key++)
        assert_int_equal(atomic_load(&shared->tally.runs[key]), 1);
    assert_int_equal(atomic_load(&shared->outcomes[SEMEL_PROCESSED]), r->keys);
    assert_int_equal(atomic_load(&shared->outcomes[SEMEL_DUPLICATE]), r->keys * (PROCESSES - 1));
    int64_t effects = inspect_number(r->place.url, "SELECT count(DISTINCT item) FROM effect");
    assert_int_equal(effects, r->mode == SEMEL_CLAIM ? 0 : r->keys);
    assert_int_equal(inspect_number(r->place.url, "SELECT count(*) FROM effect"), effects);
    assert_int_equal(
        inspect_number(r->place.url, "SELECT count(*) FROM semel_marker WHERE state = 0"), r->keys);
    assert_int_equal(inspect_number(r->place.url, "SELECT count(DISTINCT body) FROM semel_outbox"),
                     r->keys);
    assert_int_equal(inspect_number(r->place.url, "SELECT count(*) FROM semel_outbox"), r->keys);
}

static void run(semel_mode mode, unsigned keys,
                void (*receive)(race *r, shop *s, const unsigned order[]))
{
    race r = {.mode = mode, .keys = keys, .receive = receive};
    pid_t pids[PROCESSES];
    store_place_open(&r.place, PLACE_SQLITE);
    r.shared = process_share(sizeof *r.shared);
    assert_int_equal(process_run(build, &r), PROCESS_OK);
    for (r.index = 0; r.index < PROCESSES; r.index++)
        pids[r.index] = process_start(compete, &r);
    for (unsigned i = 0; i < PROCESSES; i++)
        assert_int_equal(process_wait(pids[i], DEADLINE_MS), PROCESS_OK);
    check_once_per_key(&r);
    process_unshare(r.shared, sizeof *r.shared);
    store_place_close(&r.place);
}

static void one_key_in_8_processes_runs_once(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++)
        run(SEMEL_TRANSACTION, 1, one_by_one);
}

static void one_claim_in_8_processes_runs_once(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++)
        run(SEMEL_CLAIM, 1, one_by_one);
}

static void keys_200_in_8_processes_run_once_each(void **state)
{
    (void)state;
    run(SEMEL_TRANSACTION, KEYS, one_by_one);
}

static void claims_200_in_8_processes_run_once_each(void **state)
{
    (void)state;
    run(SEMEL_CLAIM, KEYS, one_by_one);
}

static void batches_in_8_processes_run_each_key_once(void **state)
{
    (void)state;
    run(SEMEL_TRANSACTION, KEYS, in_batches);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_key_in_8_processes_runs_once),
        cmocka_unit_test(one_claim_in_8_processes_runs_once),
        cmocka_unit_test(keys_200_in_8_processes_run_once_each),
        cmocka_unit_test(claims_200_in_8_processes_run_once_each),
        cmocka_unit_test(batches_in_8_processes_run_each_key_once),
    };
    return cmocka_run_group_tests_name("processes", tests, NULL, NULL);
}
