/* P5, P13 on servers: eight processes with eight threads each on a thousand hot keys. All threads
 * go through the keys in the same order, so that the copies of a key are received at the same
 * moment from everywhere. Each key is handled once; a copy waits and is a duplicate; every call
 * ends in an outcome or in an error that passes. */
#include "support/base/check.h"
#include "support/fixture/shop.h"
#include "support/inspect/inspect.h"
#include "support/process/process.h"
#include "support/process/threads.h"
#include "support/servers/server_each.h"

#include <stdio.h>
#include <string.h>

enum {
    PROCESSES = 8,
    THREADS = 8,
    BATCH = 20,
    KEYS = 1000 / SANITIZER_SLOWDOWN / BATCH * BATCH,
    COPIES = 8, /* of each key */
    EVERY = PROCESSES * THREADS / COPIES,
    DEADLINE_MS = 120000
};

typedef struct race race;

typedef struct variant {
    semel_mode mode;
    int queued; /* effects are queued statements */
    unsigned pool;
    void (*receive)(race *r, shop *s, unsigned thread);
} variant;

struct race {
    const variant *how;
    store_place bare;  /* as the server was asked for it */
    store_place place; /* the same, with a limit of connections in its URL */
    unsigned index;    /* of the process that is started next */
    struct shared {
        shop_tally tally;
        atomic_uint ready;
        atomic_uint outcomes[SEMEL_DEAD + 1];
        atomic_uint troubles[SEMEL_EHANDLER + 1]; /* what was tried again, by status */
    } * shared;
};

/* --- the threads ------------------------------------------------------------------------------ */

static void wait_for_the_others(struct shared *shared)
{
    int64_t deadline = process_now_ms() + DEADLINE_MS;
    atomic_fetch_add(&shared->ready, 1);
    while (atomic_load(&shared->ready) < PROCESSES * THREADS) {
        PROCESS_REQUIRE(process_now_ms() < deadline);
        process_nap();
    }
}

static void note(race *r, semel_outcome outcome)
{
    PROCESS_REQUIRE(outcome == SEMEL_PROCESSED || outcome == SEMEL_DUPLICATE);
    atomic_fetch_add(&r->shared->outcomes[outcome], 1);
}

/* A conflict that is left when semel's own tries are used up passes, too, but it is one too
 * many. */
static void try_again(race *r, semel_status status, const semel_error *err)
{
    if (status != SEMEL_EBUSY && status != SEMEL_ECONFLICT)
        process_give_up(__FILE__, __LINE__, err->text);
    PROCESS_REQUIRE(err->retryable);
    atomic_fetch_add(&r->shared->troubles[status], 1);
}

static void receive_one(race *r, shop *s, const semel_message *message)
{
    semel_outcome outcome;
    semel_error err;
    semel_status status;
    while ((status = semel_inbox_receive(&outcome, s->inbox, message, shop_handler, s, &err)))
        try_again(r, status, &err);
    note(r, outcome);
}

static void one_by_one(race *r, shop *s, unsigned thread)
{
    char text[SHOP_TEXT];
    for (unsigned key = 0; key < KEYS; key++)
        if (key % EVERY == thread % EVERY) {
            semel_message message = shop_message(text, key);
            receive_one(r, s, &message);
        }
}

/* Batches of different threads overlap, each in an order of its own: without an order of semel's
 * they would lock each other up. */
static void draw_batch(semel_message messages[], char texts[][SHOP_TEXT], unsigned first,
                       uint32_t *seed)
{
    unsigned keys[BATCH];
    for (unsigned i = 0; i < BATCH; i++)
        keys[i] = (first + i) % KEYS;
    shop_shuffle(keys, BATCH, seed);
    for (unsigned i = 0; i < BATCH; i++)
        messages[i] = shop_message(texts[i], keys[i]);
}

static void in_batches(race *r, shop *s, unsigned thread)
{
    char texts[BATCH][SHOP_TEXT];
    semel_message messages[BATCH];
    const semel_message *list[BATCH];
    semel_outcome outcomes[BATCH];
    semel_error err;
    semel_status status;
    uint32_t seed = thread + 1;
    for (unsigned first = thread % EVERY * BATCH; first < KEYS; first += EVERY * BATCH) {
        draw_batch(messages, texts, first + thread / EVERY * (BATCH / COPIES), &seed);
        for (unsigned i = 0; i < BATCH; i++)
            list[i] = &messages[i];
        while ((status = semel_inbox_receive_batch(outcomes, s->inbox, list, BATCH, shop_handler, s,
                                                   &err)))
            try_again(r, status, &err);
        for (unsigned i = 0; i < BATCH; i++)
            note(r, outcomes[i]);
    }
}

typedef struct post {
    race *r;
    shop s;
} post;

static void work(test_thread *member)
{
    post *p = member->context;
    wait_for_the_others(p->r->shared);
    p->r->how->receive(p->r, &p->s, p->r->index * THREADS + member->index);
}

static int compete(void *context)
{
    static post p; /* threads that hang outlive this function */
    p.r = context;
    semel_inbox_options options = {
        .size = sizeof options, .mode = p.r->how->mode, .wait_ms = DEADLINE_MS};
    shop_open(&p.s, &p.r->place, &options, &p.r->shared->tally);
    p.s.queued = p.r->how->queued;
    PROCESS_REQUIRE(threads_run(THREADS, work, &p));
    shop_close(&p.s);
    return PROCESS_OK;
}

/* --- the races -------------------------------------------------------------------------------- */

static void check_counts(const race *r)
{
    static const char *const counts[] = {
        "SELECT count(*) FROM effect",       "SELECT count(DISTINCT item) FROM effect",
        "SELECT count(*) FROM semel_outbox", "SELECT count(DISTINCT body) FROM semel_outbox",
        "SELECT count(*) FROM semel_marker", "SELECT count(*) FROM semel_marker WHERE state = 0",
    };
    enum { COUNTS = sizeof counts / sizeof *counts };
    int64_t n[COUNTS];
    inspect_numbers(n, r->bare.url, counts, COUNTS);
    for (int i = 0; i < COUNTS; i++)
        if (n[i] != KEYS)
            fail_msg("%s: %lld, not %d", counts[i], (long long)n[i], KEYS);
}

/* In queued mode a handler may be called for a copy, whose work is thrown away. */
static void check_once_per_key(race *r)
{
    struct shared *shared = r->shared;
    for (unsigned key = 0; key < KEYS; key++) {
        unsigned runs = atomic_load(&shared->tally.runs[key]);
        if (r->how->mode == SEMEL_QUEUED ? runs < 1 : runs != 1)
            fail_msg("the handler of key %u has run %u times", key, runs);
    }
    assert_int_equal(atomic_load(&shared->outcomes[SEMEL_PROCESSED]), KEYS);
    assert_int_equal(atomic_load(&shared->outcomes[SEMEL_DUPLICATE]), KEYS * (COPIES - 1));
    assert_int_equal(atomic_load(&shared->troubles[SEMEL_ECONFLICT]), 0);
    check_counts(r);
}

static void set_pool(race *r)
{
    char *url = r->place.url;
    r->place = r->bare;
    size_t len = strlen(url);
    (void)snprintf(url + len, sizeof r->place.url - len, "%cpool=%u", strchr(url, '?') ? '&' : '?',
                   r->how->pool);
}

static int build(void *context)
{
    const race *r = context;
    shop_build(&r->bare);
    return PROCESS_OK;
}

static void run(void **state, const variant *how)
{
    race r = {.how = how};
    pid_t pids[PROCESSES];
    store_place_open_shared(&r.bare, kind_of_state(state));
    r.shared = process_share(sizeof *r.shared);
    assert_int_equal(process_run(build, &r), PROCESS_OK);
    set_pool(&r);
    for (r.index = 0; r.index < PROCESSES; r.index++)
        pids[r.index] = process_start(compete, &r);
    for (unsigned i = 0; i < PROCESSES; i++)
        assert_int_equal(process_wait(pids[i], DEADLINE_MS), PROCESS_OK);
    check_once_per_key(&r);
    process_unshare(r.shared, sizeof *r.shared);
    store_place_close(&r.bare);
}

static void hot_keys_are_handled_once(void **state)
{
    run(state, &(variant){SEMEL_TRANSACTION, 0, THREADS, one_by_one});
}

static void hot_keys_in_queued_mode_are_handled_once(void **state)
{
    run(state, &(variant){SEMEL_QUEUED, 1, THREADS, one_by_one});
}

static void hot_keys_are_handled_once_with_fewer_connections_than_threads(void **state)
{
    run(state, &(variant){SEMEL_TRANSACTION, 1, 3, one_by_one});
}

static void hot_batches_are_handled_once_and_do_not_lock_each_other_up(void **state)
{
    run(state, &(variant){SEMEL_TRANSACTION, 0, 3, in_batches});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EACH(hot_keys_are_handled_once, NULL, NULL),
        ON_EACH(hot_keys_in_queued_mode_are_handled_once, NULL, NULL),
        ON_EACH(hot_keys_are_handled_once_with_fewer_connections_than_threads, NULL, NULL),
        ON_EACH(hot_batches_are_handled_once_and_do_not_lock_each_other_up, NULL, NULL),
    };
    return cmocka_run_group_tests_name("hot keys on servers", tests, NULL, NULL);
}
