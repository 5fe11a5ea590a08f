/* How a connection begins, is used and ends.
 *
 * nats.c tells a loss from a thread of its own, by a callback that comes once for each connection
 * and last of all; a subscription says by another one when its thread has ended. Only when all of
 * these have come is the connection destroyed, because each of them is about to use the link. */
#include "transport/nats/link.h"

#include "base/seam.h"
#include "base/sigpipe.h"
#include "base/wait.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { BACKOFF_MS = 50, BACKOFF_MAX_MS = 5000, STEADY_MS = 10000 };

/* --- beginning and end ------------------------------------------------------------------------ */

semel_status jet_link_init(jet_link *link, const jet_address *address, const semel_seam *seam,
                           jet_connected *connected, void *owner, semel_error *err)
{
    link->address = address;
    link->seam = seam;
    link->connected = connected;
    link->owner = owner;
    int error = pthread_mutex_init(&link->lock, NULL);
    if (!error && (error = wait_condition_init(&link->changed)) != 0)
        pthread_mutex_destroy(&link->lock);
    if (error)
        return semel_fail(err, SEMEL_ETRANSPORT, "no mutex for a connection: %s", strerror(error));
    return SEMEL_OK;
}

/* With the lock held, which is given up: nats.c joins threads that may wait for it. */
static void destroy_connection(jet_link *link)
{
    natsConnection *connection = link->connection;
    sigpipe_guard guard;
    link->connection = NULL;
    pthread_mutex_unlock(&link->lock);
    sigpipe_guard_up(&guard, link->address->tls);
    natsConnection_Close(connection);
    sigpipe_guard_down(&guard);
    pthread_mutex_lock(&link->lock);
    while (link->callbacks) /* each is short, and certain to come */
        pthread_cond_wait(&link->changed, &link->lock);
    pthread_mutex_unlock(&link->lock);
    natsConnection_Destroy(connection);
    pthread_mutex_lock(&link->lock);
}

void jet_link_close(jet_link *link)
{
    pthread_mutex_lock(&link->lock);
    if (link->connection)
        destroy_connection(link);
    pthread_mutex_unlock(&link->lock);
    pthread_cond_destroy(&link->changed);
    pthread_mutex_destroy(&link->lock);
}

/* --- losing ----------------------------------------------------------------------------------- */

static void mark_lost(jet_link *link)
{
    link->up = 0;
    link->epoch++;
    link->retry_at_ms = wait_clock_ms();
    if (wait_clock_ms() - link->up_since_ms < STEADY_MS) { /* as if it had failed */
        link->failures++;
        link->retry_at_ms +=
            seam_backoff_ms(link->seam, BACKOFF_MS, BACKOFF_MAX_MS, link->failures);
    }
    pthread_cond_broadcast(&link->changed);
}

void jet_link_lose(jet_link *link, const char *format, ...)
{
    char why[256];
    va_list arguments;
    if (!link->up)
        return;
    va_start(arguments, format);
    (void)vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    semel_fail(&link->trouble, SEMEL_EUNAVAILABLE, "%s:%u: %s", link->address->host,
               (unsigned)link->address->port, why);
    link->trouble.retryable = 1;
    mark_lost(link);
}

/* --- connecting ------------------------------------------------------------------------------- */

/* A server that refuses a login or has no such stream any more has let us in once: that may be
 * mended, as an outage is. */
static semel_status keep_trouble(jet_link *link, semel_status status)
{
    link->failures++;
    link->retry_at_ms =
        wait_clock_ms() + seam_backoff_ms(link->seam, BACKOFF_MS, BACKOFF_MAX_MS, link->failures);
    if (link->was_up && status != SEMEL_ENOMEM)
        link->trouble.status = SEMEL_EUNAVAILABLE;
    link->trouble.retryable |= link->trouble.status == SEMEL_EUNAVAILABLE;
    return link->trouble.status;
}

static semel_status set_up(jet_link *link, natsConnection *connection)
{
    semel_status status = link->connected(link->owner, connection, &link->trouble);
    pthread_mutex_lock(&link->lock);
    link->connection = connection;
    if (status)
        destroy_connection(link);
    pthread_mutex_unlock(&link->lock);
    return status;
}

/* Without the lock; `connecting` keeps others out. */
static semel_status connect_now(jet_link *link)
{
    natsConnection *connection = NULL;
    sigpipe_guard guard;
    sigpipe_guard_up(&guard, link->address->tls);
    semel_status status = jet_connect(&connection, link, &link->trouble);
    if (!status)
        status = set_up(link, connection);
    sigpipe_guard_down(&guard);
    return status;
}

static semel_status make_connection(jet_link *link)
{
    link->connecting = 1; /* before the lock is given up in destroy_connection() */
    if (link->connection)
        destroy_connection(link);
    pthread_mutex_unlock(&link->lock);
    semel_status status = connect_now(link);
    pthread_mutex_lock(&link->lock);
    link->connecting = 0;
    pthread_cond_broadcast(&link->changed);
    if (!status && natsConnection_IsClosed(link->connection))
        status = semel_fail(&link->trouble, SEMEL_EUNAVAILABLE,
                            "%s:%u: the connection was lost as soon as it was there",
                            link->address->host, (unsigned)link->address->port);
    if (status)
        return keep_trouble(link, status);
    link->up = link->was_up = 1;
    link->up_since_ms = wait_clock_ms();
    link->complaint = NATS_OK;
    return SEMEL_OK;
}

static semel_status report_trouble(const jet_link *link, semel_error *err)
{
    if (err)
        *err = link->trouble;
    return link->trouble.status;
}

semel_status jet_link_use(jet_link *link, semel_error *err)
{
    while (link->connecting) /* that has an end */
        pthread_cond_wait(&link->changed, &link->lock);
    if (!link->up) {
        if (link->users || (link->failures && wait_clock_ms() < link->retry_at_ms))
            return report_trouble(link, err);
        if (make_connection(link))
            return report_trouble(link, err);
    }
    link->users++;
    return SEMEL_OK;
}

void jet_link_done(jet_link *link)
{
    link->users--;
    if (link->up && wait_clock_ms() - link->up_since_ms >= STEADY_MS)
        link->failures = 0;
}

void jet_link_wait(jet_link *link, int64_t until_ms)
{
    struct timespec until = wait_until(until_ms);
    (void)pthread_cond_timedwait(&link->changed, &link->lock, &until); /* the caller looks again */
}

/* --- subscriptions ---------------------------------------------------------------------------- */

static void on_complete(void *closure)
{
    jet_subscription *one = closure;
    jet_link *link = one->link;
    pthread_mutex_lock(&link->lock);
    one->running = 0;
    link->callbacks--;
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
}

semel_status jet_link_subscribe(jet_link *link, natsConnection *connection, jet_subscription *out,
                                const char *subject, natsMsgHandler handler, void *closure,
                                semel_error *err)
{
    natsSubscription *made = NULL;
    out->link = link;
    natsStatus code = natsConnection_Subscribe(&made, connection, subject, handler, closure);
    if (code == NATS_OK)
        code = natsSubscription_SetPendingLimits(made, -1, -1);
    pthread_mutex_lock(&link->lock);
    if (code == NATS_OK)
        code = natsSubscription_SetOnCompleteCB(made, on_complete, out);
    if (code == NATS_OK) {
        out->subscription = made;
        out->running = 1;
        link->callbacks++;
    }
    pthread_mutex_unlock(&link->lock);
    if (code == NATS_OK)
        return SEMEL_OK;
    natsSubscription_Destroy(made);
    return jet_fail(link->address, code, "subscribing to an inbox", err);
}

void jet_link_unsubscribe(jet_link *link, jet_subscription *one, int drain, int64_t until_ms)
{
    natsSubscription *subscription = one->subscription;
    sigpipe_guard guard;
    one->subscription = NULL;
    if (!subscription)
        return;
    pthread_mutex_unlock(&link->lock);
    sigpipe_guard_up(&guard, link->address->tls);
    /* What fails here fails because the connection is gone, which ends the thread as well. */
    (void)(drain ? natsSubscription_Drain(subscription)
                 : natsSubscription_Unsubscribe(subscription));
    sigpipe_guard_down(&guard);
    pthread_mutex_lock(&link->lock);
    while (one->running && (!drain || wait_clock_ms() < until_ms))
        jet_link_wait(link, drain ? until_ms : wait_clock_ms() + STEADY_MS);
    pthread_mutex_unlock(&link->lock);
    natsSubscription_Destroy(subscription);
    pthread_mutex_lock(&link->lock);
    while (one->running) /* it was not drained in time; now it ends at once */
        pthread_cond_wait(&link->changed, &link->lock);
}

/* --- errors ----------------------------------------------------------------------------------- */

int jet_flush(natsConnection *connection, int64_t until_ms)
{
    int64_t left = until_ms - wait_clock_ms();
    return natsConnection_FlushTimeout(connection, left > 1 ? left : 1) == NATS_OK;
}

semel_status jet_fail(const jet_address *address, natsStatus code, const char *doing,
                      semel_error *err)
{
    semel_status status = code == NATS_NO_MEMORY ? SEMEL_ENOMEM : SEMEL_EUNAVAILABLE;
    semel_fail(err, status, "%s:%u, %s: %s", address->host, (unsigned)address->port, doing,
               natsStatus_GetText(code));
    if (err)
        err->native = (int32_t)code;
    return status;
}
