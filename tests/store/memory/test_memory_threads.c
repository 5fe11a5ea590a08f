/* The memory store by itself: several units at once. */
#include "memory_kit.h"
#include "support/process/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 64, PATIENCE_MS = 60000 };

static int64_t real_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Unlike assert, this may be used in any thread. */
static void must(int condition)
{
    if (!condition)
        abort();
}

/* --- one waits for the other ------------------------------------------------------------------ */

typedef struct waiter {
    rig *r;
    pthread_t thread;
    void *unit;
    semel_mark mark;
    atomic_int id; /* of the thread */
    atomic_int done;
} waiter;

static void *wait_for_key(void *context)
{
    waiter *w = context;
    semel_error err;
    atomic_store(&w->id, (int)syscall(SYS_gettid));
    w->unit = calloc(1, driver->unit_size);
    must(driver->units->begin(w->r->store, w->unit, SEMEL_BEGIN_DURABLE, 0, &err) == SEMEL_OK);
    must(driver->markers->mark(w->unit, &w->mark, 1, PATIENCE_MS, &err) == SEMEL_OK);
    atomic_store(&w->done, 1);
    return NULL;
}

static void start_waiter(waiter *w, rig *r, const char *key)
{
    *w = (waiter){.r = r, .mark = key_of(r, key)};
    assert_int_equal(pthread_create(&w->thread, NULL, wait_for_key, w), 0);
    while (!atomic_load(&w->id))
        process_nap();
    assert_true(process_wait_asleep(atomic_load(&w->id), PATIENCE_MS));
    assert_false(atomic_load(&w->done));
}

static semel_mark_state join_waiter(waiter *w)
{
    int64_t start = real_ms();
    pthread_join(w->thread, NULL);
    assert_true(real_ms() - start < PATIENCE_MS / 2);
    rollback(w->unit);
    return w->mark.state;
}

static void a_copy_waits_and_sees_what_became_of_the_first(void **state)
{
    rig *r = *state;
    waiter w;
    void *unit = begin(r);
    assert_int_equal(mark_key(r, unit, "a").state, SEMEL_MARK_TAKEN);
    start_waiter(&w, r, "a");
    commit(r, unit);
    assert_int_equal(join_waiter(&w), SEMEL_MARK_DONE);

    unit = begin(r);
    assert_int_equal(mark_key(r, unit, "b").state, SEMEL_MARK_TAKEN);
    start_waiter(&w, r, "b");
    rollback(unit);
    assert_int_equal(join_waiter(&w), SEMEL_MARK_TAKEN);

    unit = begin(r);
    assert_int_equal(driver->units->savepoint(unit, &r->err), SEMEL_OK);
    assert_int_equal(mark_key(r, unit, "c").state, SEMEL_MARK_TAKEN);
    start_waiter(&w, r, "c");
    assert_int_equal(driver->units->undo(unit, &r->err), SEMEL_OK);
    assert_int_equal(join_waiter(&w), SEMEL_MARK_TAKEN);
    rollback(unit);
}

static void the_wait_ends_in_time_even_if_something_else_happens(void **state)
{
    rig *r = *state;
    void *holder = begin(r);
    semel_mark marks[2] = {key_of(r, "a"), key_of(r, "b")};
    assert_int_equal(driver->markers->mark(holder, marks, 2, 0, &r->err), SEMEL_OK);
    void *unit = begin(r);
    int64_t start = real_ms();
    assert_int_equal(driver->markers->mark(unit, marks, 2, 100, &r->err), SEMEL_OK);
    int64_t took = real_ms() - start;
    assert_int_equal(marks[0].state, SEMEL_MARK_HELD);
    assert_int_equal(marks[1].state, SEMEL_MARK_HELD);
    assert_true(took >= 99 && took < PATIENCE_MS); /* for both together */
    rollback(unit);
    rollback(holder);
}

static void a_verb_with_a_token_waits_as_for_a_lock(void **state)
{
    rig *r = *state;
    semel_mark mine = make_claimed(r, "a", 100000);
    void *renewing = begin(r);
    assert_int_equal(driver->markers->renew(renewing, &mine, 200000, &r->err), SEMEL_OK);
    void *unit = begin(r);
    assert_int_equal(driver->markers->finish(unit, &mine, &r->err),
                     SEMEL_EBUSY); /* after busy_ms */
    rollback(unit);
    commit(r, renewing);
    unit = begin(r);
    assert_int_equal(driver->markers->finish(unit, &mine, &r->err), SEMEL_OK);
    commit(r, unit);
}

/* --- many ------------------------------------------------------------------------------------- */

typedef struct thread_case {
    rig *r;
    int keys;
    atomic_int handled[256];
    atomic_uint random;
} thread_case;

static uint32_t chance(thread_case *c, uint32_t bound)
{
    uint32_t x = atomic_fetch_add(&c->random, 0x9e3779b9U);
    x = (x ^ x >> 16) * 0x45d9f3bU;
    return (x ^ x >> 16) % bound;
}

/* A handler that fails half of the time; and each failure is rolled back. */
static int handle(thread_case *c, int key)
{
    char text[16];
    semel_error err;
    (void)snprintf(text, sizeof text, "%d", key);
    semel_mark mark = key_of(c->r, text);
    void *unit = calloc(1, driver->unit_size);
    must(driver->units->begin(c->r->store, unit, SEMEL_BEGIN_DURABLE, 0, &err) == SEMEL_OK);
    must(driver->markers->mark(unit, &mark, 1, PATIENCE_MS, &err) == SEMEL_OK);
    must(mark.state == SEMEL_MARK_TAKEN || mark.state == SEMEL_MARK_DONE);
    int fails = mark.state == SEMEL_MARK_TAKEN && chance(c, 2);
    if (mark.state == SEMEL_MARK_TAKEN && !fails)
        atomic_fetch_add(&c->handled[key], 1);
    if (fails)
        driver->units->rollback(unit);
    else
        must(driver->units->commit(unit, &err) == SEMEL_OK);
    free(unit);
    return !fails;
}

static void *handle_all(void *context)
{
    thread_case *c = context;
    for (int key = 0; key < c->keys; key++)
        while (!handle(c, key))
            continue;
    return NULL;
}

static void run_threads(rig *r, int keys)
{
    pthread_t threads[THREADS];
    thread_case *c = calloc(1, sizeof *c);
    c->r = r;
    c->keys = keys;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, handle_all, c), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < keys; i++)
        assert_int_equal(atomic_load(&c->handled[i]), 1);
    free(c);
}

static void sixty_four_threads_on_one_key_handle_it_once(void **state)
{
    run_threads(*state, 1);
}

static void sixty_four_threads_on_many_keys_handle_each_once(void **state)
{
    run_threads(*state, 200);
}

/* --- everything at once ----------------------------------------------------------------------- */

typedef struct traffic {
    rig *r;
    atomic_int stop;
    atomic_long put;
    atomic_long sent;
} traffic;

static void *produce(void *context)
{
    traffic *t = context;
    semel_error err;
    void *unit = calloc(1, driver->unit_size);
    for (int i = 0; i < 2000; i++) {
        char key[24];
        (void)snprintf(key, sizeof key, "%p-%d", (void *)&key, i);
        semel_mark mark = key_of(t->r, key);
        semel_message message = {
            .size = sizeof message, .id = semel_str(key), .group = i % 3 ? "g" : NULL};
        memset(unit, 0, driver->unit_size);
        must(driver->units->begin(t->r->store, unit, SEMEL_BEGIN_DURABLE, 0, &err) == SEMEL_OK);
        must(driver->markers->mark(unit, &mark, 1, PATIENCE_MS, &err) == SEMEL_OK);
        must(driver->outbox->put(unit, t->r->outbox, &message, &err) == SEMEL_OK);
        if (i % 5 == 0) {
            driver->units->rollback(unit);
            continue;
        }
        must(driver->units->commit(unit, &err) == SEMEL_OK);
        atomic_fetch_add(&t->put, 1);
    }
    free(unit);
    return NULL;
}

typedef struct load {
    size_t count;
    semel_item_settlement settlements[16];
} load;

static semel_status collect(const semel_item *item, void *context, semel_error *err)
{
    load *l = context;
    (void)err;
    must(item->message->id.len > 0);
    l->settlements[l->count++] = (semel_item_settlement){
        .seq = item->seq, .token = item->token, .verdict = SEMEL_VERDICT_ACK};
    return SEMEL_OK;
}

static void relay_once(traffic *t, void *unit)
{
    semel_error err;
    load l = {.count = 0};
    memset(unit, 0, driver->unit_size);
    must(driver->units->begin(t->r->store, unit, SEMEL_BEGIN_RELAXED, 0, &err) == SEMEL_OK);
    must(driver->outbox->lease(unit, t->r->outbox, 16, 100000, collect, &l, &err) == SEMEL_OK);
    must(driver->units->commit(unit, &err) == SEMEL_OK);
    memset(unit, 0, driver->unit_size);
    must(driver->units->begin(t->r->store, unit, SEMEL_BEGIN_RELAXED, 0, &err) == SEMEL_OK);
    must(driver->outbox->settle(unit, t->r->outbox, l.settlements, l.count, &err) == SEMEL_OK);
    must(driver->units->commit(unit, &err) == SEMEL_OK);
    for (size_t i = 0; i < l.count; i++)
        must(!l.settlements[i].lost);
    atomic_fetch_add(&t->sent, (long)l.count);
}

static void *relay(void *context)
{
    traffic *t = context;
    void *unit = calloc(1, driver->unit_size);
    while (!atomic_load(&t->stop) || atomic_load(&t->sent) < atomic_load(&t->put))
        relay_once(t, unit);
    free(unit);
    return NULL;
}

static void *sweep_on(void *context)
{
    traffic *t = context;
    semel_error err;
    semel_sweep_position position = {0};
    while (!atomic_load(&t->stop)) {
        size_t swept = 0;
        must(driver->markers->sweep(t->r->store, t->r->inbox, INT64_MAX, 50, &position, &swept,
                                    &err) == SEMEL_OK);
    }
    return NULL;
}

static void producers_relays_and_sweepers_get_on(void **state)
{
    traffic t = {.r = *state};
    pthread_t producers[4], relays[3], sweepers[2];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&relays[i], NULL, relay, &t), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&sweepers[i], NULL, sweep_on, &t), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&producers[i], NULL, produce, &t), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(producers[i], NULL);
    atomic_store(&t.stop, 1);
    for (int i = 0; i < 3; i++)
        pthread_join(relays[i], NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(sweepers[i], NULL);
    assert_int_equal(atomic_load(&t.put), 4 * 1600);
    assert_int_equal(atomic_load(&t.sent), 4 * 1600);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_copy_waits_and_sees_what_became_of_the_first),
        TEST(the_wait_ends_in_time_even_if_something_else_happens),
        TEST(a_verb_with_a_token_waits_as_for_a_lock),
        TEST(sixty_four_threads_on_one_key_handle_it_once),
        TEST(sixty_four_threads_on_many_keys_handle_each_once),
        TEST(producers_relays_and_sweepers_get_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
