/* Waking relays in other processes by NOTIFY.
 *
 * A NOTIFY inside the business transaction would make all such commits queue behind one lock of the server. So it is
 * sent after the commit, by itself, without waiting for its answer, and at most once in NOTIFY_EVERY_MS by a
 * process: it says "look", not what there is. What is committed within that time after a notification is found
 * because a listener that was woken looks once more a little later; and whoever misses one (a reconnect, a
 * crash in between) finds it at the next poll.
 *
 * The listener is a thread with a connection of its own. It is stopped through a pipe. */
#include "store/postgres/postgres.h"

#include "base/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NOTIFY_EVERY_MS = 50, ECHO_MS = 60, RETRY_FIRST_MS = 100, RETRY_MAX_MS = 5000 };

typedef struct listener {
    postgres_store *store;
    void (*wake)(void *context);
    void *context;
    pthread_t thread;
    int stop[2]; /* a pipe: closed for writing when it is over */
} listener;

void notify_after_commit(postgres_store *store, connection *on)
{
    int64_t now = wait_clock_ms();
    pthread_mutex_lock(&store->lock);
    int due = now - store->notified_ms >= NOTIFY_EVERY_MS;
    if (due)
        store->notified_ms = now;
    pthread_mutex_unlock(&store->lock);
    if (!due)
        return;
    query q = pg_start(on, ST_NOTIFY);
    pg_text(&q, store->channel);
    pg_send(&q);
    connection_push(on);
}

/* --- the listener --------------------------------------------------------------------------------------- */

/* Until something is to be read from the connection, or timeout_ms (-1: none) is over. 0 when it is time to stop. */
static int wait_for(const listener *l, int fd, int timeout_ms)
{
    struct pollfd ends[2] = {{.fd = l->stop[0], .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    while (poll(ends, fd < 0 ? 1 : 2, timeout_ms) < 0 && errno == EINTR)
        continue;
    return !ends[0].revents;
}

static int start_listening(const listener *l, connection *on)
{
    char command[96];
    (void)snprintf(command, sizeof command, "LISTEN \"%s\"", l->store->channel);
    PGresult *result = PQexec(on->pg, command);
    int listening = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    return listening;
}

static int take_notifications(connection *on)
{
    int any = 0;
    for (PGnotify *notify; (notify = PQnotifies(on->pg)); any = 1)
        PQfreemem(notify);
    return any;
}

/* Until the connection is lost (1) or it is time to stop (0). */
static int listen_on(const listener *l, connection *on)
{
    int echo = 1; /* what was sent before we listened */
    while (wait_for(l, PQsocket(on->pg), echo ? ECHO_MS : -1)) {
        if (!PQconsumeInput(on->pg) || PQstatus(on->pg) != CONNECTION_OK)
            return 1;
        int heard = take_notifications(on);
        if (heard || echo)
            l->wake(l->context);
        echo = heard;
    }
    return 0;
}

static void *listen_for_ever(void *context)
{
    const listener *l = context;
    uint32_t pause = RETRY_FIRST_MS;
    int going = 1;
    while (going) {
        connection *on = NULL;
        if (!store_connect(&on, l->store, RETRY_MAX_MS, NULL)) {
            if (start_listening(l, on)) {
                pause = RETRY_FIRST_MS;
                going = listen_on(l, on);
            }
            connection_close(on);
        }
        if (going)
            going = wait_for(l, -1, (int)pause);
        pause = pause * 2 < RETRY_MAX_MS ? pause * 2 : RETRY_MAX_MS;
    }
    return NULL;
}

/* --- starting and stopping ------------------------------------------------------------------------------ */

static void listener_free(listener *l)
{
    close(l->stop[0]);
    close(l->stop[1]);
    mem_free(l);
}

semel_status postgres_watch(void *state, void (*wake)(void *context), void *context,
                            semel_error *err)
{
    postgres_store *store = state;
    if (!store->at.notify)
        return SEMEL_OK;
    listener *l = mem_alloc(sizeof *l);
    if (!l)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a listener");
    *l = (listener){.store = store, .wake = wake, .context = context};
    if (pipe2(l->stop, O_CLOEXEC) != 0) {
        mem_free(l);
        return semel_fail(err, SEMEL_ESTORE, "no pipe for a listener: %s", strerror(errno));
    }
    int error = pthread_create(&l->thread, NULL, listen_for_ever, l);
    if (error) {
        listener_free(l);
        return semel_fail(err, SEMEL_ESTORE, "no thread for a listener: %s", strerror(error));
    }
    store->listener = l;
    return SEMEL_OK;
}

void postgres_unwatch(void *state)
{
    postgres_store *store = state;
    listener *l = store->listener;
    if (!l)
        return;
    store->listener = NULL;
    char over = 0;
    while (write(l->stop[1], &over, 1) < 0 && errno == EINTR)
        continue;
    pthread_join(l->thread, NULL);
    listener_free(l);
}
