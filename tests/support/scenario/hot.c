/* See hot.h. Where the place has no SQL the messages of both outboxes are counted by what a relay
 * brings out of them, and markers are not seen: the outcomes show that each key has one. */
#include "support/scenario/hot.h"

#include "support/base/check.h"
#include "support/fixture/shop.h"
#include "support/inspect/inspect.h"
#include "support/inspect/inspect_store.h"
#include "support/process/process.h"
#include "support/process/threads.h"

#include <stdio.h>
#include <string.h>

enum {
    PROCESSES = 8,
    THREADS = HOT_THREADS,
    COPIES = 8, /* of each key */
    EVERY = PROCESSES * THREADS / COPIES,
    DEADLINE_MS = 120000
};

typedef struct race race;

struct race {
    const hot_variant *how;
    unsigned keys;
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
    for (unsigned key = 0; key < r->keys; key++)
        if (key % EVERY == thread % EVERY) {
            semel_message message = shop_message(text, key);
            receive_one(r, s, &message);
        }
}

/* Batches of different threads overlap, each in an order of its own: without an order of semel's
 * they would lock each other up. */
static void draw_batch(const race *r, semel_message messages[], char texts[][SHOP_TEXT],
                       unsigned first, uint32_t *seed)
{
    unsigned keys[HOT_BATCH];
    for (unsigned i = 0; i < HOT_BATCH; i++)
        keys[i] = (first + i) % r->keys;
    shop_shuffle(keys, HOT_BATCH, seed);
    for (unsigned i = 0; i < HOT_BATCH; i++)
        messages[i] = shop_message(texts[i], keys[i]);
}

static void in_batches(race *r, shop *s, unsigned thread)
{
    char texts[HOT_BATCH][SHOP_TEXT];
    semel_message messages[HOT_BATCH];
    const semel_message *list[HOT_BATCH];
    semel_outcome outcomes[HOT_BATCH];
    semel_error err;
    semel_status status;
    uint32_t seed = thread + 1;
    for (unsigned first = thread % EVERY * HOT_BATCH; first < r->keys; first += EVERY * HOT_BATCH) {
        draw_batch(r, messages, texts, first + thread / EVERY * (HOT_BATCH / COPIES), &seed);
        for (unsigned i = 0; i < HOT_BATCH; i++)
            list[i] = &messages[i];
        while ((status = semel_inbox_receive_batch(outcomes, s->inbox, list, HOT_BATCH,
                                                   shop_handler, s, &err)))
            try_again(r, status, &err);
        for (unsigned i = 0; i < HOT_BATCH; i++)
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
    unsigned thread = p->r->index * THREADS + member->index;
    if (p->r->how->batches)
        in_batches(p->r, &p->s, thread);
    else
        one_by_one(p->r, &p->s, thread);
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

static void is_as_many(const race *r, const char *what, int64_t number)
{
    if (number != r->keys)
        fail_msg("%s: %lld, not %u", what, (long long)number, r->keys);
}

static void check_rows(const race *r)
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
        is_as_many(r, counts[i], n[i]);
}

static void check_messages(const race *r)
{
    static const char *const outboxes[] = {"effect", "out", NULL};
    assert_int_equal(inspect_store(&r->bare, outboxes).unsent, 0);
    for (const char *const *name = outboxes; *name; name++) {
        effect_numbers n = effect_count(&r->bare, *name);
        is_as_many(r, *name, n.all);
        is_as_many(r, *name, n.different);
    }
}

/* In queued mode a handler may be called for a copy, whose work is thrown away. */
static void check_once_per_key(race *r)
{
    struct shared *shared = r->shared;
    for (unsigned key = 0; key < r->keys; key++) {
        unsigned runs = atomic_load(&shared->tally.runs[key]);
        if (r->how->mode == SEMEL_QUEUED ? runs < 1 : runs != 1)
            fail_msg("the handler of key %u has run %u times", key, runs);
    }
    assert_int_equal(atomic_load(&shared->outcomes[SEMEL_PROCESSED]), r->keys);
    assert_int_equal(atomic_load(&shared->outcomes[SEMEL_DUPLICATE]), r->keys * (COPIES - 1));
    assert_int_equal(atomic_load(&shared->troubles[SEMEL_ECONFLICT]), 0);
    if (r->bare.has_sql)
        check_rows(r);
    else
        check_messages(r);
}

static void set_pool(race *r)
{
    char *url = r->place.url;
    r->place = r->bare;
    if (!r->how->pool)
        return;
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

void hot_race(const hot_variant *how, server_kind kind, unsigned keys)
{
    race r = {.how = how, .keys = keys};
    pid_t pids[PROCESSES];
    assert_true(keys % HOT_BATCH == 0 && keys <= SHOP_KEYS_MAX);
    store_place_open_shared(&r.bare, kind);
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
