/* Waiting, reading, and the end of a connection. connect.c makes one.
 *
 * A lost link is only marked. Its socket is shut down, so that the thread that watches it wakes;
 * its descriptor is closed when the next connection is made and no thread watches it any more. */
#include "transport/rabbitmq/link.h"

#include "base/seam.h"
#include "base/wait.h"
#include "transport/rabbitmq/connect.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BACKOFF_MS = 100,
    BACKOFF_MAX_MS = 3000,
    WATCH_MS = 250,
    GOODBYE_S = 1,
    SHORT_LIFE_MS = 2000,
    BEAT_MS = 5000
};

/* --- opening and closing ---------------------------------------------------------------------- */

semel_status rabbit_link_init(rabbit_link *link, const rabbit_address *address,
                              const semel_seam *seam, const rabbit_owner *calls, void *owner,
                              semel_error *err)
{
    link->address = address;
    link->seam = seam;
    link->calls = calls;
    link->owner = owner;
    link->fd = -1;
    int error = pthread_mutex_init(&link->lock, NULL);
    if (!error && (error = pthread_mutex_init(&link->fd_lock, NULL)) != 0)
        pthread_mutex_destroy(&link->lock);
    if (!error && (error = wait_condition_init(&link->changed)) != 0) {
        pthread_mutex_destroy(&link->fd_lock);
        pthread_mutex_destroy(&link->lock);
    }
    if (error)
        return semel_fail(err, SEMEL_ETRANSPORT, "no mutex for a connection: %s", strerror(error));
    return SEMEL_OK;
}

/* A number of our own for the socket, because rabbitmq-c closes its one when it likes. */
static semel_status open_fd(rabbit_link *link, semel_error *err)
{
    int fd = fcntl(amqp_get_sockfd(link->connection), F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return semel_fail(err, SEMEL_EUNAVAILABLE, "no file descriptor for a connection: %s",
                          strerror(errno));
    pthread_mutex_lock(&link->fd_lock);
    link->fd = fd;
    pthread_mutex_unlock(&link->fd_lock);
    return SEMEL_OK;
}

static void close_fd(rabbit_link *link)
{
    pthread_mutex_lock(&link->fd_lock);
    if (link->fd >= 0)
        (void)close(link->fd); /* nothing was written by it */
    link->fd = -1;
    pthread_mutex_unlock(&link->fd_lock);
}

static void destroy_connection(rabbit_link *link)
{
    close_fd(link);
    if (link->connection)
        (void)amqp_destroy_connection(link->connection); /* it has nothing to say but OK */
    link->connection = NULL;
}

/* rabbitmq-c waits without end for room to write: a write must not begin where no other thread
 * could cut it off. */
int rabbit_link_has_room(const rabbit_link *link)
{
    struct pollfd one = {.fd = link->fd, .events = POLLOUT};
    return poll(&one, 1, 0) == 1 && (one.revents & POLLOUT);
}

/* A socket that is closed with something unread in it takes along what we wrote last, such as an
 * acknowledgement. So the broker is asked, and given a moment to answer. */
static void say_goodbye(rabbit_link *link)
{
    struct timeval patience = {GOODBYE_S, 0};
    if (link->up && rabbit_link_has_room(link) &&
        amqp_set_rpc_timeout(link->connection, &patience) == AMQP_STATUS_OK)
        (void)amqp_connection_close(link->connection, AMQP_REPLY_SUCCESS); /* gone either way */
}

void rabbit_link_close(rabbit_link *link)
{
    say_goodbye(link);
    destroy_connection(link);
    pthread_cond_destroy(&link->changed);
    pthread_mutex_destroy(&link->fd_lock);
    pthread_mutex_destroy(&link->lock);
}

void rabbit_link_leave(rabbit_link *link, const char *why)
{
    if (!link->up)
        return; /* and its backoff stays */
    say_goodbye(link);
    rabbit_link_lose(link, "%s", why);
    link->failures = 0;
    link->retry_at_ms = 0;
}

/* --- losing ----------------------------------------------------------------------------------- */

static void cut(rabbit_link *link)
{
    pthread_mutex_lock(&link->fd_lock);
    if (link->fd >= 0)
        (void)shutdown(link->fd, SHUT_RDWR); /* it may be cut already */
    pthread_mutex_unlock(&link->fd_lock);
}

/* The thread that writes holds the lock, so the connection is still the one that it writes to. */
static void cut_if_stuck(rabbit_link *link)
{
    pthread_mutex_lock(&link->fd_lock);
    int64_t write_until = atomic_load(&link->write_until_ms);
    if (link->fd >= 0 && write_until && wait_clock_ms() > write_until)
        (void)shutdown(link->fd, SHUT_RDWR);
    pthread_mutex_unlock(&link->fd_lock);
}

/* The first reconnection is tried at once. If connections keep being closed soon after they were
 * made, the next ones wait for the backoff. */
static void plan_retry(rabbit_link *link)
{
    int64_t now = wait_clock_ms();
    link->failures = now - link->up_since_ms < SHORT_LIFE_MS ? link->failures + 1 : 0;
    link->retry_at_ms = now;
    if (link->failures)
        link->retry_at_ms +=
            seam_backoff_ms(link->seam, BACKOFF_MS, BACKOFF_MAX_MS, link->failures);
}

void rabbit_link_lose(rabbit_link *link, const char *format, ...)
{
    char text[sizeof link->trouble.text];
    va_list arguments;
    if (!link->up)
        return; /* the first reason is the one to tell */
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    semel_fail(&link->trouble, SEMEL_EUNAVAILABLE, "%s", text);
    link->up = 0;
    link->blocked[0] = 0;
    plan_retry(link);
    cut(link);
    link->calls->lost(link->owner);
    pthread_cond_broadcast(&link->changed);
}

void rabbit_link_broke(rabbit_link *link, int code, const char *doing)
{
    const char *why = code == AMQP_STATUS_HEARTBEAT_TIMEOUT ? "the broker has gone silent"
                      : code == AMQP_STATUS_SOCKET_ERROR    ? "the broker or the network is gone"
                                                            : amqp_error_string2(code);
    if (link->blocked[0])
        rabbit_link_lose(link, "the broker at %s:%u takes no messages at present: %s",
                         link->address->host, (unsigned)link->address->port, link->blocked);
    rabbit_link_lose(link, "the connection to %s:%u was lost while %s: %s", link->address->host,
                     (unsigned)link->address->port, doing, why);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void lose_to_broker(rabbit_link *link, unsigned code, amqp_bytes_t text)
{
    rabbit_link_lose(link, "the broker at %s:%u closed the connection: %u %.*s",
                     link->address->host, (unsigned)link->address->port, code, (int)text.len,
                     (const char *)text.bytes);
}

static void handle_connection_frame(rabbit_link *link, const amqp_method_t *method)
{
    if (method->id == AMQP_CONNECTION_CLOSE_METHOD) {
        const amqp_connection_close_t *closed = method->decoded;
        lose_to_broker(link, closed->reply_code, closed->reply_text);
    } else if (method->id == AMQP_CONNECTION_BLOCKED_METHOD) {
        amqp_bytes_t reason = ((const amqp_connection_blocked_t *)method->decoded)->reason;
        (void)snprintf(link->blocked, sizeof link->blocked, "%.*s", (int)reason.len,
                       (const char *)reason.bytes);
        if (!link->blocked[0])
            (void)snprintf(link->blocked, sizeof link->blocked, "no reason given");
    } else if (method->id == AMQP_CONNECTION_UNBLOCKED_METHOD) {
        link->blocked[0] = 0;
    }
}

static void handle_frame(rabbit_link *link, const amqp_frame_t *frame)
{
    int is_method = frame->frame_type == AMQP_FRAME_METHOD;
    if (frame->channel == 0) {
        if (is_method)
            handle_connection_frame(link, &frame->payload.method);
    } else if (is_method && frame->payload.method.id == AMQP_CHANNEL_CLOSE_METHOD) {
        const amqp_channel_close_t *closed = frame->payload.method.decoded;
        link->closed_by = closed->reply_code;
        lose_to_broker(link, closed->reply_code, closed->reply_text);
    } else {
        link->calls->frame(link->owner, link, frame);
    }
}

/* What has come is read in one go; only TLS may hold back something that the socket does not
 * show. */
static int may_have_more(const rabbit_link *link)
{
    return link->address->tls || amqp_data_in_buffer(link->connection) ||
           amqp_frames_enqueued(link->connection);
}

static void pump(rabbit_link *link)
{
    while (link->up) {
        struct timeval no_time = {0, 0};
        amqp_frame_t frame;
        int code = amqp_simple_wait_frame_noblock(link->connection, &frame, &no_time);
        if (code == AMQP_STATUS_TIMEOUT)
            return;
        if (code != AMQP_STATUS_OK) {
            rabbit_link_broke(link, code, "reading");
            return;
        }
        handle_frame(link, &frame);
        if (link->up && !link->calls->keeps(link->owner))
            amqp_maybe_release_buffers(link->connection);
        if (link->up && !may_have_more(link))
            return;
    }
}

/* A heartbeat may be due, and writing it may hang. */
void rabbit_link_pump(rabbit_link *link)
{
    int64_t no_write = 0;
    int first =
        atomic_compare_exchange_strong(&link->write_until_ms, &no_write, wait_clock_ms() + BEAT_MS);
    pump(link);
    if (first)
        rabbit_link_write_end(link);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static void wait_for_change(rabbit_link *link, int64_t until_ms)
{
    struct timespec until = wait_until(until_ms);
    (void)pthread_cond_timedwait(&link->changed, &link->lock, &until); /* the caller looks again */
}

/* Watches the socket without the lock: no thread closes it while link->watched is set. */
static void watch(rabbit_link *link, int64_t until_ms)
{
    int64_t left = until_ms - wait_clock_ms();
    struct pollfd one = {.fd = link->fd, .events = POLLIN};
    if (left > WATCH_MS) /* now and then for the heartbeat's sake */
        left = WATCH_MS;
    link->watched = 1;
    pthread_mutex_unlock(&link->lock);
    (void)poll(&one, 1, left > 0 ? (int)left : 0); /* interrupted or not, the pump finds out */
    pthread_mutex_lock(&link->lock);
    link->watched = 0;
    rabbit_link_pump(link);
    pthread_cond_broadcast(&link->changed);
}

void rabbit_link_wait(rabbit_link *link, int64_t until_ms)
{
    if (link->watched)
        wait_for_change(link, until_ms);
    else if (link->up)
        watch(link, until_ms);
}

/* --- connecting ------------------------------------------------------------------------------- */

static void note_failure(rabbit_link *link, const semel_error *why)
{
    link->failures++;
    link->retry_at_ms =
        wait_clock_ms() + seam_backoff_ms(link->seam, BACKOFF_MS, BACKOFF_MAX_MS, link->failures);
    link->trouble = *why;
    if (!link->patient || why->retryable)
        return;
    link->trouble.status = SEMEL_EUNAVAILABLE; /* it was good once, and may be so again */
    link->trouble.retryable = 1;
}

static void connect_now(rabbit_link *link)
{
    semel_error why = {.status = SEMEL_OK};
    destroy_connection(link);
    semel_status status = rabbit_connect(link, &why);
    if (!status)
        status = open_fd(link, &why);
    if (!status) {
        link->up = 1; /* what the owner does may find out that it is not */
        status = link->calls->connected(link->owner, link, &why);
    }
    if (status) {
        link->up = 0;
        destroy_connection(link);
        note_failure(link, &why);
        link->calls->lost(link->owner);
        return;
    }
    link->patient = 1;
    link->closed_by = 0;
    link->up_since_ms = wait_clock_ms();
}

/* One attempt, when it is time for it. A caller that waits longer calls again, and can be stopped
 * in between. */
semel_status rabbit_link_need(rabbit_link *link, int64_t until_ms, semel_error *err)
{
    while (!link->up) {
        int64_t now = wait_clock_ms();
        if (!link->watched && now >= link->retry_at_ms) {
            connect_now(link);
            break;
        }
        if (now >= until_ms)
            break;
        int64_t next = link->watched ? now + 10 : link->retry_at_ms;
        wait_for_change(link, next < until_ms ? next : until_ms);
    }
    if (link->up)
        return SEMEL_OK;
    if (err)
        *err = link->trouble;
    return link->trouble.status;
}

/* --- tending ---------------------------------------------------------------------------------- */

void rabbit_link_write_begin(rabbit_link *link, int64_t until_ms)
{
    atomic_store(&link->write_until_ms, until_ms);
}

void rabbit_link_write_end(rabbit_link *link)
{
    atomic_store(&link->write_until_ms, 0);
}

/* A thread that has the lock reads, or will, and so keeps the heartbeat; or it writes, and must not
 * do so for ever. */
void rabbit_link_tend(rabbit_link *link)
{
    cut_if_stuck(link);
    if (pthread_mutex_trylock(&link->lock) != 0)
        return;
    /* A thread that watches must not miss what comes. And this thread is the one that cuts a write
     * that hangs. */
    if (!link->watched && link->up && rabbit_link_has_room(link)) {
        rabbit_link_pump(link);
        pthread_cond_broadcast(&link->changed);
    }
    pthread_mutex_unlock(&link->lock);
}
