/* A slot is empty, or holds an idle connection, or is out: its owner has the connection, or is
 * connecting or closing in it. Only slots that are not out are handed over, so there are never more
 * connections than slots.
 *
 * The threads that wait form a queue, each with a condition of its own, so that a connection given
 * back wakes one thread and not all. Whatever changes (something is given back, an attempt ends,
 * the first one leaves) the first thread is woken and looks for itself; when it has got something,
 * it wakes the next. A thread that comes while another waits goes to the end; a thread that has to
 * come back (the connection was dead, the attempt failed) keeps its number and so its place.
 *
 * Connecting, closing and looking whether a connection is alive are done without the lock. */
#include "store/sql/pool.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/wait.h"
#include "store/sql/process.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

typedef enum slot_state { SLOT_EMPTY = 0, SLOT_IDLE, SLOT_OUT } slot_state;

struct pool_slot {
    slot_state state;
    uint64_t owner;   /* OUT: the number of a thread */
    void *connection; /* NULL while its owner connects */
};

struct pool_waiter {
    pool_waiter *next;
    uint64_t number;
    pthread_cond_t turn;
};

/* One call of pool_take(). */
typedef struct request {
    uint64_t number; /* 0: not yet */
    uint32_t wait_ms;
    int64_t deadline_ms;
    uint32_t failures; /* the pool's when the attempt to connect began */
} request;

semel_status pool_init(pool *p, const pool_calls *calls, void *context, uint32_t limit,
                       semel_error *err)
{
    memset(p, 0, sizeof *p);
    p->calls = calls;
    p->context = context;
    p->limit = limit;
    p->pid = getpid();
    int error = pthread_mutex_init(&p->lock, NULL);
    if (error)
        return semel_fail(err, SEMEL_ENOMEM, "no lock for the pool: %s", strerror(error));
    p->slots = mem_alloc(limit * sizeof *p->slots);
    if (p->slots)
        return SEMEL_OK;
    pthread_mutex_destroy(&p->lock);
    return semel_fail(err, SEMEL_ENOMEM, "out of memory for a pool of %u connections", limit);
}

int pool_is_inherited(const pool *p)
{
    return p->pid != getpid();
}

semel_status pool_check_process(const pool *p, semel_error *err)
{
    return sql_check_process(p->pid, err);
}

void pool_destroy(pool *p)
{
    if (!p->slots)
        return;
    if (!pool_is_inherited(p)) {
        for (uint32_t i = 0; i < p->limit; i++)
            if (p->slots[i].connection)
                p->calls->close(p->slots[i].connection);
        pthread_mutex_destroy(&p->lock);
    }
    mem_free(p->slots);
    p->slots = NULL;
}

/* --- slots (under the lock) ------------------------------------------------------------------- */

static pool_slot *find(const pool *p, slot_state state)
{
    for (uint32_t i = 0; i < p->limit; i++)
        if (p->slots[i].state == state)
            return &p->slots[i];
    return NULL;
}

static int may_connect(const pool *p)
{
    return !p->failures || (!p->connecting && wait_clock_ms() >= p->next_attempt_ms);
}

static pool_slot *find_usable(const pool *p)
{
    pool_slot *idle = find(p, SLOT_IDLE);
    if (idle)
        return idle;
    pool_slot *empty = find(p, SLOT_EMPTY);
    return empty && may_connect(p) ? empty : NULL;
}

/* Not pthread_self(): a thread may end while its connection is out, and the next one get its
 * name. */
static uint64_t this_thread(void)
{
    static atomic_uint_fast64_t threads;
    static _Thread_local uint64_t number;
    if (!number)
        number = atomic_fetch_add(&threads, 1) + 1;
    return number;
}

static void hold(pool_slot *slot)
{
    slot->state = SLOT_OUT;
    slot->owner = this_thread();
}

static int is_all_mine(const pool *p)
{
    for (uint32_t i = 0; i < p->limit; i++)
        if (p->slots[i].state != SLOT_OUT || p->slots[i].owner != this_thread())
            return 0;
    return 1;
}

/* --- the line (under the lock) ---------------------------------------------------------------- */

static void wake_first(pool *p)
{
    if (p->first)
        pthread_cond_signal(&p->first->turn);
}

static void line_up(pool *p, pool_waiter *me)
{
    pool_waiter **at = &p->first;
    while (*at && (*at)->number < me->number)
        at = &(*at)->next;
    me->next = *at;
    *at = me;
}

static void step_out(pool *p, pool_waiter *me)
{
    pool_waiter **at = &p->first;
    while (*at != me)
        at = &(*at)->next;
    *at = me->next;
}

/* The first in line is not woken when the pause between two attempts is over: it must look by
 * itself. */
static struct timespec sleep_until(const pool *p, const pool_waiter *me, int64_t deadline_ms)
{
    int pausing = p->failures && !p->connecting && find(p, SLOT_EMPTY);
    if (p->first == me && pausing && p->next_attempt_ms < deadline_ms)
        deadline_ms = p->next_attempt_ms;
    return wait_until(deadline_ms);
}

/* NULL if the time is over. */
static pool_slot *wait_for_slot(pool *p, pool_waiter *me, int64_t deadline_ms)
{
    pool_slot *slot;
    line_up(p, me);
    while (!(slot = p->first == me ? find_usable(p) : NULL) && wait_clock_ms() < deadline_ms) {
        struct timespec until = sleep_until(p, me, deadline_ms);
        (void)pthread_cond_timedwait(&me->turn, &p->lock, &until); /* the loop looks at the clock */
    }
    step_out(p, me);
    return slot;
}

/* Being connected to is not being in use: then it is the server that keeps us waiting. */
static semel_status time_is_over(const pool *p, uint32_t wait_ms, semel_error *err)
{
    int unconnected = 0;
    for (uint32_t i = 0; i < p->limit; i++)
        unconnected |= !p->slots[i].connection;
    if (p->failures && unconnected) {
        if (err)
            *err = p->last_error;
        return SEMEL_EUNAVAILABLE;
    }
    return semel_fail(err, SEMEL_EBUSY,
                      "all %u connections of the pool were in use for %u ms; make the pool larger, "
                      "shorten the transactions, or raise busy_ms",
                      p->limit, wait_ms);
}

static semel_status stand_in_line(pool_slot **out, pool *p, const request *r, semel_error *err)
{
    pool_waiter me = {.number = r->number};
    if (is_all_mine(p))
        return semel_fail(
            err, SEMEL_EMISUSE,
            "this thread already has all %u connections of the pool, in units that are "
            "open: end one first, or use it",
            p->limit);
    int error = wait_condition_init(&me.turn);
    if (error)
        return semel_fail(err, SEMEL_ENOMEM, "no condition to wait for a connection: %s",
                          strerror(error));
    *out = wait_for_slot(p, &me, r->deadline_ms);
    pthread_cond_destroy(&me.turn);
    return *out ? SEMEL_OK : time_is_over(p, r->wait_ms, err);
}

/* A slot to hold: with an idle connection, or empty and with leave to connect. */
static semel_status take_slot(pool_slot **out, pool *p, request *r, semel_error *err)
{
    semel_status status = SEMEL_OK;
    pthread_mutex_lock(&p->lock);
    if (!r->number)
        r->number = ++p->asked;
    int my_turn = !p->first || p->first->number > r->number;
    pool_slot *slot = my_turn ? find_usable(p) : NULL;
    if (!slot)
        status = stand_in_line(&slot, p, r, err);
    if (slot) {
        hold(slot);
        p->connecting += !slot->connection;
        r->failures = p->failures;
        *out = slot;
    }
    wake_first(p); /* there may be more, and the first one may be another now */
    pthread_mutex_unlock(&p->lock);
    return status;
}

/* --- connecting ------------------------------------------------------------------------------- */

/* Between half and all of a pause that doubles: processes that lost the same server do not return
 * in step. */
static int64_t pause_ms(uint32_t failures, int64_t now_ms)
{
    int64_t longest = POOL_BACKOFF_FIRST_MS;
    for (uint32_t i = 1; i < failures && longest < POOL_BACKOFF_MAX_MS; i++)
        longest *= 2;
    if (longest > POOL_BACKOFF_MAX_MS)
        longest = POOL_BACKOFF_MAX_MS;
    hash_key key = {(uint64_t)getpid(), failures};
    uint64_t noise = hash_bytes(key, &now_ms, sizeof now_ms);
    return longest - (int64_t)(noise % (uint64_t)(longest / 2 + 1));
}

/* Several that began together and fail together are one failure; one that comes after a success is
 * none. */
static void note_failure(pool *p, uint32_t failures_before, const semel_error *why)
{
    p->last_error = *why;
    if (p->failures != failures_before)
        return;
    int64_t now = wait_clock_ms();
    p->failures++;
    p->next_attempt_ms = now + pause_ms(p->failures, now);
}

static void end_attempt(pool *p, pool_slot *slot, const request *r, void *connection,
                        const semel_error *why)
{
    pthread_mutex_lock(&p->lock);
    p->connecting--;
    slot->connection = connection;
    if (connection) {
        p->failures = 0;
    } else {
        slot->state = SLOT_EMPTY;
        if (why->status == SEMEL_EUNAVAILABLE)
            note_failure(p, r->failures, why);
    }
    wake_first(p);
    pthread_mutex_unlock(&p->lock);
}

static semel_status connect_in(void **out, pool *p, pool_slot *slot, const request *r,
                               semel_error *err)
{
    int64_t left = r->deadline_ms - wait_clock_ms();
    if (left < POOL_ATTEMPT_MIN_MS)
        left = POOL_ATTEMPT_MIN_MS;
    void *connection = NULL;
    semel_error why = {0};
    semel_status status = p->calls->connect(&connection, p->context, (uint32_t)left, &why);
    why.status = status;
    end_attempt(p, slot, r, status ? NULL : connection, &why);
    if (!status)
        *out = connection;
    else if (err)
        *err = why;
    return status;
}

/* Closes first and frees then, so that the server never sees more than `limit`. */
static void empty(pool *p, pool_slot *slot, void *connection)
{
    p->calls->close(connection);
    pthread_mutex_lock(&p->lock);
    slot->connection = NULL;
    slot->state = SLOT_EMPTY;
    wake_first(p);
    pthread_mutex_unlock(&p->lock);
}

/* --- taking and giving ------------------------------------------------------------------------ */

semel_status pool_take(void **out, pool *p, uint32_t wait_ms, semel_error *err)
{
    request r = {.wait_ms = wait_ms, .deadline_ms = wait_clock_ms() + wait_ms};
    semel_status status = pool_check_process(p, err);
    if (status)
        return status;
    for (;;) {
        pool_slot *slot = NULL;
        status = take_slot(&slot, p, &r, err);
        if (status)
            return status;
        void *connection = slot->connection; /* ours alone while the slot is out */
        if (!connection) {
            status = connect_in(out, p, slot, &r, err);
            if (status != SEMEL_EUNAVAILABLE || wait_clock_ms() >= r.deadline_ms)
                return status;
        } else if (p->calls->is_alive(connection)) {
            *out = connection;
            return SEMEL_OK;
        } else {
            empty(p, slot, connection);
        }
    }
}

static pool_slot *slot_of(const pool *p, const void *connection)
{
    for (uint32_t i = 0; i < p->limit; i++)
        if (p->slots[i].connection == connection)
            return &p->slots[i];
    return NULL;
}

void pool_give(pool *p, void *connection, int usable)
{
    if (pool_is_inherited(p))
        return;
    pthread_mutex_lock(&p->lock);
    pool_slot *slot = slot_of(p, connection);
    if (slot && usable) {
        slot->state = SLOT_IDLE;
        wake_first(p);
    }
    pthread_mutex_unlock(&p->lock);
    if (slot && !usable)
        empty(p, slot, connection);
}
