/* Waking relays in other processes by NOTIFY.
 *
 * A NOTIFY inside the business transaction would make all such commits queue behind one lock of
 * the server. So it is sent after the commit, by itself, without waiting for its answer, and at
 * most once in NOTIFY_EVERY_MS by a process: it says "look", not what there is, nor in which
 * outbox, because one that is left out may be about another outbox than the one before it. What
 * is committed within that time after a notification is found because a relay that was woken
 * looks once more a little later; and a relay that misses one (a reconnect, a crash in between)
 * finds it at the next poll.
 *
 * The listener is a connection of its own, whose socket the core waits on together with its own
 * pipe: no thread. When it is lost, the next relay that waits makes it anew, with a pause that
 * grows. A pooler may give its session to another client after each transaction, which would
 * then get the notifications: behind a pooler the store listens only if the URL asks for it. */
#include "store/postgres/postgres.h"

#include "base/wait.h"

#include <stdio.h>

enum {
    NOTIFY_EVERY_MS = 50,
    CONNECT_MS = 2000,
    RETRY_FIRST_MS = 100,
    RETRY_MAX_MS = 10000,
    RETRY_SOON_MS = 1000
};

void pg_notify_after_commit(postgres_store *store, pg_connection *on)
{
    int64_t now = wait_clock_ms();
    pthread_mutex_lock(&store->lock);
    int due = now - store->notified_ms >= NOTIFY_EVERY_MS;
    if (due)
        store->notified_ms = now;
    pthread_mutex_unlock(&store->lock);
    if (!due)
        return;
    pg_query q = pg_start(on, ST_NOTIFY);
    pg_text(&q, store->channel);
    pg_enqueue(&q);
    pg_connection_push(on);
}

/* --- the listener ----------------------------------------------------------------------------- */

static int start_listening(const postgres_store *store, pg_connection *on)
{
    char command[96];
    (void)snprintf(command, sizeof command, "LISTEN \"%s\"", store->channel);
    return !pg_execute_text(on, command, 0, "listening", NULL);
}

/* A relay finds by a query what was sent while the store did not listen, so it has to look once
 * more: see postgres_watch(). */
static void try_to_listen(postgres_store *store)
{
    pg_connection *on = NULL;
    if (!pg_store_connect(&on, store, CONNECT_MS, NULL) && !start_listening(store, on)) {
        pg_connection_close(on);
        on = NULL;
    }
    store->listener = on;
    uint32_t pause = store->listen_pause_ms ? store->listen_pause_ms * 2 : RETRY_FIRST_MS;
    store->listen_pause_ms = on ? 0 : pause < RETRY_MAX_MS ? pause : RETRY_MAX_MS;
    store->listen_again_ms = wait_clock_ms() + store->listen_pause_ms;
}

static int may_listen(const postgres_store *store)
{
    return store->at.notify && (store->direct || store->at.notify_asked) &&
           !pool_is_inherited(&store->connections);
}

int postgres_watch(void *state)
{
    postgres_store *store = state;
    if (!may_listen(store))
        return -1;
    if (store->listener && PQstatus(store->listener->pg) != CONNECTION_OK)
        postgres_unwatch(store);
    if (store->listener)
        return PQsocket(store->listener->pg);
    if (wait_clock_ms() >= store->listen_again_ms)
        try_to_listen(store);
    return store->listen_pause_ms <= RETRY_SOON_MS ? SEMEL_WATCH_LATER : -1; /* it may never work */
}

int postgres_heard(void *state)
{
    postgres_store *store = state;
    int any = 0;
    if (!store->listener)
        return 0;
    if (!PQconsumeInput(store->listener->pg) || PQstatus(store->listener->pg) != CONNECTION_OK) {
        postgres_unwatch(store);
        return 1;
    }
    for (PGnotify *notify; (notify = PQnotifies(store->listener->pg)); any = 1)
        PQfreemem(notify);
    return any;
}

void postgres_unwatch(void *state)
{
    postgres_store *store = state;
    if (store->listener && !pool_is_inherited(&store->connections))
        pg_connection_close(store->listener);
    store->listener = NULL;
}
