/* Keys in flight, and the copies that wait for their answers.
 *
 * A copy that waits has no worker: it stands in the list of its key until the request that leads
 * the flight has the answer, or its time is over. If another process has the key, nobody leads
 * here: one thread of the route asks the store from time to time, less often the longer it takes.
 * The same thread ends the waits whose time is over. While the store does not answer it, they end
 * later. */
#include "program/gateway/proxy.h"
#include "program/handler/drain.h"
#include "program/support/show.h"
#include "program/support/thread.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BUCKETS = 1024, TICK_MS = 20, POLL_FIRST_MS = 20, POLL_MOST_MS = 320 };
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

typedef struct waiter {
    struct waiter *next;
    http_request *request;
    proxy_key key;
    int64_t began_ns, until_ns;
    int is_told; /* the inbox has reported that the request waits */
} waiter;

struct flight {
    flight *next;
    flights *all;
    char *key;
    size_t len;
    char fingerprint[DIGEST_HEX_SIZE];
    int is_claimed;   /* here: so this fingerprint is the one that counts */
    int is_elsewhere; /* the thread ends it */
    int64_t since_ms;
    int64_t poll_ns, pause_ms;
    waiter *waiters;
    size_t waiting;
};

struct flights {
    gateway_route *route;
    pthread_mutex_t lock;
    pthread_cond_t some; /* somebody waits, or all is closed */
    flight *buckets[BUCKETS];
    size_t waiting;
    pthread_t thread;
    int is_closed;
    int frees_itself; /* the thread has closed it */
};

/* --- the table -------------------------------------------------------------------------------- */

static size_t bucket_of(const proxy_key *key)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < key->len; i++)
        hash = (hash ^ (unsigned char)key->text[i]) * UINT64_C(0x100000001b3);
    return (hash ^ hash >> 32) % BUCKETS;
}

static flight *find(flights *all, const proxy_key *key)
{
    flight *at = all->buckets[bucket_of(key)];
    while (at && (at->len != key->len || memcmp(at->key, key->text, key->len) != 0))
        at = at->next;
    return at;
}

static flight *add(flights *all, const proxy_key *key)
{
    flight *f = must_alloc(sizeof *f);
    flight **first = &all->buckets[bucket_of(key)];
    f->all = all;
    f->key = must_copy(key->text);
    f->len = key->len;
    f->since_ms = wall_clock_ms();
    memcpy(f->fingerprint, key->fingerprint, sizeof f->fingerprint);
    f->next = *first;
    *first = f;
    return f;
}

static void take_out(flight *f)
{
    const proxy_key key = {.text = f->key, .len = f->len};
    flight **at = &f->all->buckets[bucket_of(&key)];
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    f->all->waiting -= f->waiting;
}

static void free_flight(flight *f)
{
    free(f->key);
    free(f);
}

/* --- entering --------------------------------------------------------------------------------- */

/* The key is in the memory of the request, which stays until it is answered. */
static void add_waiter(flight *f, const proxy_key *key, http_request *request, int64_t began_ns,
                       int is_told)
{
    waiter *w = must_alloc(sizeof *w);
    flights *all = f->all;
    *w = (waiter){.request = request,
                  .key = *key,
                  .began_ns = began_ns,
                  .until_ns = began_ns + all->route->config->wait_ms * NS_PER_MS,
                  .is_told = is_told,
                  .next = f->waiters};
    f->waiters = w;
    f->waiting++;
    if (all->waiting++ == 0)
        pthread_cond_signal(&all->some);
}

flight_part flights_enter(flight **out, flights *all, const proxy_key *key, http_request *request,
                          int64_t began_ns)
{
    gateway_route *route = all->route;
    flight_part part = FLIGHT_LEADS;
    pthread_mutex_lock(&all->lock);
    flight *f = find(all, key);
    if (!f)
        *out = add(all, key);
    else if (f->is_claimed && strcmp(f->fingerprint, key->fingerprint) != 0)
        part = FLIGHT_DIFFERS;
    else if (route->config->on_in_flight == SEMEL_IN_FLIGHT_REPORT)
        part = FLIGHT_REPORTED;
    else
        part = FLIGHT_WAITS;
    if (part == FLIGHT_WAITS) {
        route_keep(route);
        add_waiter(f, key, request, began_ns, 0);
    }
    pthread_mutex_unlock(&all->lock);
    if (part == FLIGHT_DIFFERS) {
        proxy_tell_copy(route, request, key, SEMEL_MISMATCH);
        proxy_respond_mismatch(route, request, began_ns);
    } else if (part == FLIGHT_REPORTED) {
        proxy_tell_copy(route, request, key, SEMEL_IN_PROGRESS);
        proxy_respond_in_flight(route, request, began_ns);
    }
    return part;
}

void flight_claimed(flight *f)
{
    pthread_mutex_lock(&f->all->lock);
    f->is_claimed = 1;
    pthread_mutex_unlock(&f->all->lock);
}

void flight_elsewhere(flight *f, const proxy_key *key, http_request *request, int64_t began_ns,
                      int is_told)
{
    flights *all = f->all;
    route_keep(all->route);
    pthread_mutex_lock(&all->lock);
    f->is_elsewhere = 1;
    f->is_claimed = 0;
    f->pause_ms = POLL_FIRST_MS;
    f->poll_ns = steady_clock_ns() + f->pause_ms * NS_PER_MS;
    add_waiter(f, key, request, began_ns, is_told);
    pthread_mutex_unlock(&all->lock);
}

/* --- landing ---------------------------------------------------------------------------------- */

/* That a copy waits is told once. */
static void tell_of(const gateway_route *route, const waiter *w, const flight_end *end)
{
    semel_outcome outcome = proxy_copy_outcome(&w->key, end);
    if (!w->is_told || outcome != SEMEL_IN_PROGRESS)
        proxy_tell_copy(route, w->request, &w->key, outcome);
}

static void answer_all(gateway_route *route, waiter *first, const flight_end *end)
{
    for (waiter *at = first, *next; at; at = next) {
        next = at->next;
        tell_of(route, at, end);
        proxy_respond_copy(route, at->request, &at->key, end, at->began_ns);
        free(at);
        route_release(route);
    }
}

void flight_land(flight *f, const flight_end *end)
{
    flights *all = f->all;
    gateway_route *route = all->route;
    pthread_mutex_lock(&all->lock);
    take_out(f);
    pthread_mutex_unlock(&all->lock);
    waiter *first = f->waiters;
    free_flight(f);
    answer_all(route, first, end);
}

/* --- the thread ------------------------------------------------------------------------------- */

/* With the lock: moves the waiters of a flight whose time is over to a list. */
static void take_expired(waiter **out, flight *f, int64_t now_ns, int all_of_them)
{
    for (waiter **at = &f->waiters; *at;) {
        waiter *w = *at;
        if (!all_of_them && w->until_ns > now_ns) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        w->next = *out;
        *out = w;
        f->waiting--;
        f->all->waiting--;
    }
}

/* With the lock: a flight whose answer the store may have by now, or one that nobody waits for. */
static int is_due(const flight *f, int64_t now_ns)
{
    return f->is_elsewhere && (f->poll_ns <= now_ns || !f->waiters);
}

/* With the lock. Returns the flight that has been due for the longest time; the others come with
 * the next looks. */
static flight *look_through(flights *all, waiter **expired, int64_t now_ns)
{
    flight *due = NULL;
    int is_over = drain_is_over();
    for (size_t i = 0; i < BUCKETS; i++)
        for (flight *f = all->buckets[i]; f; f = f->next) {
            take_expired(expired, f, now_ns, is_over);
            if (is_due(f, now_ns) && (!due || f->poll_ns < due->poll_ns))
                due = f;
        }
    return due;
}

static const http_problem still_running = {
    .status = 409,
    .type = "in-flight",
    .title = "A request with this key is being handled",
    .detail = "Send the same request again later: it will get the answer of the first.",
    .retry_after_s = 1};

static const flight_end in_flight = {.problem = &still_running, .outcome = ROUTE_CONFLICT};

/* 0: nobody waits. */
static int poll_later(flight *f)
{
    pthread_mutex_lock(&f->all->lock);
    int is_awaited = f->waiters != NULL;
    f->pause_ms = f->pause_ms * 2 < POLL_MOST_MS ? f->pause_ms * 2 : POLL_MOST_MS;
    f->poll_ns = steady_clock_ns() + f->pause_ms * NS_PER_MS;
    pthread_mutex_unlock(&f->all->lock);
    return is_awaited;
}

/* A key that is free again was given back, or its process has died: the next copy finds out, with
 * a worker of its own. */
static void poll(flight *f)
{
    const proxy_state *state = f->all->route->state;
    semel_marker *marker = NULL;
    region memory = {0};
    proxy_answer answer;
    semel_status status =
        semel_inbox_look_key(&marker, state->inbox, (semel_bytes){f->key, f->len}, NULL);
    if ((status || marker->state == SEMEL_MARKER_CLAIMED) && poll_later(f)) {
        /* as long as somebody waits */
    } else if (!status && marker->state == SEMEL_MARKER_DONE &&
               proxy_answer_read(&answer, &memory, marker->result)) {
        flight_land(f, &(flight_end){.answer = &answer, .outcome = ROUTE_REPLAYED});
    } else {
        flight_land(f, &in_flight);
    }
    semel_marker_free(marker);
    region_free(&memory);
}

static void wait_for_tick(flights *all)
{
    struct timespec at;
    if (!all->waiting) {
        pthread_cond_wait(&all->some, &all->lock);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += TICK_MS * NS_PER_MS;
    at.tv_sec += at.tv_nsec / NS_PER_S;
    at.tv_nsec %= NS_PER_S;
    (void)pthread_cond_timedwait(&all->some, &all->lock, &at);
}

/* Flights that are left have no waiters. */
static void free_flights(flights *all)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (flight *f = all->buckets[i], *next; f; f = next) {
            next = f->next;
            free_flight(f);
        }
    pthread_cond_destroy(&all->some);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

/* It rests when nothing is due. Answering the last request of a route that is left closes the
 * route, here in this thread. */
static void *watch(void *context)
{
    flights *all = context;
    gateway_route *route = all->route;
    flight *due = NULL;
    pthread_mutex_lock(&all->lock);
    while (!all->is_closed) {
        waiter *expired = NULL;
        if (!due)
            wait_for_tick(all);
        due = look_through(all, &expired, steady_clock_ns());
        pthread_mutex_unlock(&all->lock);
        if (due)
            poll(due);
        answer_all(route, expired, &in_flight);
        pthread_mutex_lock(&all->lock);
    }
    int is_mine = all->frees_itself;
    pthread_mutex_unlock(&all->lock);
    if (is_mine)
        free_flights(all);
    return NULL;
}

/* --- opening and closing ---------------------------------------------------------------------- */

flights *flights_open(gateway_route *route)
{
    flights *all = must_alloc(sizeof *all);
    pthread_condattr_t steady;
    all->route = route;
    pthread_mutex_init(&all->lock, NULL);
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&all->some, &steady);
    pthread_condattr_destroy(&steady);
    if (start_thread(&all->thread, watch, all) == 0)
        return all;
    free_flights(all);
    return NULL;
}

void flights_close(flights *all)
{
    int is_own = pthread_equal(pthread_self(), all->thread);
    pthread_mutex_lock(&all->lock);
    all->is_closed = 1;
    all->frees_itself = is_own;
    pthread_cond_signal(&all->some);
    pthread_mutex_unlock(&all->lock);
    if (is_own) {
        (void)pthread_detach(all->thread);
        return;
    }
    (void)pthread_join(all->thread, NULL);
    free_flights(all);
}

void flights_visit(flights *all, gateway_flight_visitor *visit, void *context)
{
    pthread_mutex_lock(&all->lock);
    for (size_t i = 0; i < BUCKETS; i++)
        for (const flight *f = all->buckets[i]; f; f = f->next)
            visit(context, &(gateway_flight){.route = all->route->config->name,
                                             .key = {f->key, f->len},
                                             .since_ms = f->since_ms,
                                             .waiting = f->waiting});
    pthread_mutex_unlock(&all->lock);
}
