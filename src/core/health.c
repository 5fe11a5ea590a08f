/* The health of a store, a consumer and a relay.
 *
 * A running loop notes each change of its state, and when a message was settled. The thread that
 * asks reads the notes, and asks the store what is due, within a deadline. */
#include "core/health.h"

#include "base/wait.h"
#include "core/inbox.h"

#include <stdio.h>
#include <string.h>

enum { DEADLINE_DEFAULT_MS = 1000, STALLED_DEFAULT_MS = 60000 };

/* --- notes ------------------------------------------------------------------------------------ */

void health_init(health_log *log)
{
    pthread_mutex_init(&log->lock, NULL);
    log->part.state = SEMEL_HEALTH_STOPPED;
}

void health_destroy(health_log *log)
{
    pthread_mutex_destroy(&log->lock);
}

void health_enter(health_log *log, const semel_seam *seam, semel_health_state state,
                  const semel_error *why)
{
    pthread_mutex_lock(&log->lock);
    if (state != log->part.state) {
        if (log->part.state == SEMEL_HEALTH_STOPPED || log->part.state == SEMEL_HEALTH_FAILED) {
            log->moved_at_ms = wait_clock_ms();
            log->part.moved_ms = 0;
        }
        log->part.state = state;
        log->part.since_ms = seam_wall_ms(seam);
        (void)snprintf(log->part.error, sizeof log->part.error, "%.255s", why ? why->text : "");
    }
    pthread_mutex_unlock(&log->lock);
}

void health_moved(health_log *log, const semel_seam *seam)
{
    pthread_mutex_lock(&log->lock);
    log->part.moved_ms = seam_wall_ms(seam);
    log->moved_at_ms = wait_clock_ms();
    pthread_mutex_unlock(&log->lock);
}

static void note_stall(semel_health_part *part, int64_t since_ms)
{
    part->state = SEMEL_HEALTH_STALLED;
    if (part->moved_ms > part->since_ms)
        part->since_ms = part->moved_ms;
    (void)snprintf(part->error, sizeof part->error,
                   "%llu wait, and nothing has moved for %lld seconds",
                   (unsigned long long)part->waiting, (long long)(since_ms / 1000));
}

semel_health_part health_read(health_log *log, uint64_t waiting, int64_t busy_since_ms,
                              uint32_t stalled_after_ms)
{
    pthread_mutex_lock(&log->lock);
    semel_health_part part = log->part;
    int64_t moved_at = log->moved_at_ms > busy_since_ms ? log->moved_at_ms : busy_since_ms;
    pthread_mutex_unlock(&log->lock);
    int64_t still_ms = wait_clock_ms() - moved_at;
    part.waiting = waiting;
    if (part.state <= SEMEL_HEALTH_STOPPED && busy_since_ms && still_ms > stalled_after_ms)
        note_stall(&part, still_ms);
    return part;
}

/* --- the question ----------------------------------------------------------------------------- */

const char *semel_health_name(semel_health_state state)
{
    static const char *const names[] = {"not asked", "ok",      "stopped",
                                        "stalled",   "waiting", "failed"};
    return (size_t)state < sizeof names / sizeof *names ? names[state] : "unknown";
}

semel_health_part store_health(semel_store *store, uint32_t deadline_ms)
{
    semel_stats ignored;
    semel_error why = {0};
    int64_t now;
    semel_status status =
        store->driver->stats ? semel_store_stats(&ignored, sizeof ignored, store, deadline_ms, &why)
                             : semel_store_now(&now, store, &why);
    health_enter(&store->health, &store->seam, status ? SEMEL_HEALTH_WAITING : SEMEL_HEALTH_OK,
                 status ? &why : NULL);
    return health_read(&store->health, 0, 0, 0);
}

/* Without an answer nothing is known to be due. */
static semel_health_part ask_relay(const semel_health_query *query)
{
    semel_stats due = {0};
    semel_error ignored;
    semel_outbox *outbox = relay_outbox(query->relay);
    (void)semel_outbox_stats(&due, sizeof due, outbox, query->deadline_ms, &ignored);
    return relay_health(query->relay, &due, query->stalled_after_ms);
}

static void add_part(semel_health *out, semel_health_part *to, semel_health_part part)
{
    *to = part;
    if (part.state > out->state)
        out->state = part.state;
}

semel_status health_query_read(semel_health_query *out, const semel_health_query *given,
                               semel_error *err)
{
    semel_status status = options_read(out, sizeof *out, given, "semel_health_query", err);
    if (!out->deadline_ms)
        out->deadline_ms = DEADLINE_DEFAULT_MS;
    if (!out->stalled_after_ms)
        out->stalled_after_ms = STALLED_DEFAULT_MS;
    return status;
}

semel_status semel_health_check(semel_health *out, size_t size, const semel_health_query *query,
                                semel_error *err)
{
    semel_health_query q;
    semel_health now = {0};
    semel_status status = health_query_read(&q, query, err);
    if (status)
        return status;
    semel_store *store = q.store ? q.store : q.relay ? relay_outbox(q.relay)->store : NULL;
    if (store)
        add_part(&now, &now.store, store_health(store, q.deadline_ms));
    if (q.consumer)
        add_part(&now, &now.consumer, consumer_health(q.consumer, q.stalled_after_ms));
    if (q.relay)
        add_part(&now, &now.relay, ask_relay(&q));
    memcpy(out, &now, size < sizeof now ? size : sizeof now);
    return SEMEL_OK;
}
