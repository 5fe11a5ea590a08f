/* Waking relays in other processes: the script of apply() publishes when it has written something
 * that is ready to be sent, and the store subscribes to that on a connection of its own, whose
 * socket the core waits on together with its own pipe: no thread. A message says "look", not what
 * there is; a relay that misses one (a reconnect, a user without the right to publish) finds it at
 * the next poll. */
#include "store/redis/redis.h"

#include "base/wait.h"

#include <stdio.h>

enum { CONNECT_MS = 2000, RETRY_FIRST_MS = 100, RETRY_MAX_MS = 10000, RETRY_SOON_MS = 1000 };

static semel_status subscribe(redis_store *store, redis_link *link)
{
    char channel[REDIS_NAMESPACE_MAX + 16];
    redis_request r = {.doing = "subscribing"};
    redis_answer answer;
    (void)snprintf(channel, sizeof channel, "%sready", store->prefix);
    redis_begin(&r, 2);
    redis_word_z(&r, "SUBSCRIBE");
    redis_word_z(&r, channel);
    semel_status status = redis_talk(&store->client, link, &r, &answer, NULL);
    mem_free(r.bytes.bytes);
    if (status)
        return status;
    if (answer.replies[0]->type == REDIS_REPLY_ERROR)
        status = redis_fail(&store->client, answer.replies[0], r.doing, NULL);
    redis_answer_free(&answer);
    return status;
}

static void try_to_listen(redis_store *store)
{
    char host[256];
    uint32_t port;
    redis_link *link = NULL;
    (void)redis_place(&store->client, host, &port);
    if (!redis_link_open(&link, &store->client, host, port, wait_clock_ms() + CONNECT_MS, NULL) &&
        subscribe(store, link)) {
        redis_link_close(link);
        link = NULL;
    }
    store->listener = link;
    uint32_t pause = store->listen_pause_ms ? store->listen_pause_ms * 2 : RETRY_FIRST_MS;
    store->listen_pause_ms = link ? 0 : pause < RETRY_MAX_MS ? pause : RETRY_MAX_MS;
    store->listen_again_ms = wait_clock_ms() + store->listen_pause_ms;
}

int redis_watch(void *state)
{
    redis_store *store = state;
    if (pool_is_inherited(&store->connections))
        return -1;
    if (store->listener)
        return store->listener->socket.fd;
    if (wait_clock_ms() >= store->listen_again_ms)
        try_to_listen(store);
    return store->listen_pause_ms <= RETRY_SOON_MS ? SEMEL_WATCH_LATER : -1; /* it may never work */
}

/* A reader that has half a message keeps it. */
int redis_heard(void *state)
{
    redis_store *store = state;
    redis_link *link = store->listener;
    char bytes[4096];
    void *reply = NULL;
    int any = 0, garbled = 0;
    long got = link ? -1 : 0;
    while (link && !garbled &&
           (got = redis_socket_receive(&link->socket, bytes, sizeof bytes, 0)) > 0) {
        garbled = redisReaderFeed(link->reader, bytes, (size_t)got) != REDIS_OK;
        while (!garbled && !(garbled = redisReaderGetReply(link->reader, &reply) != REDIS_OK) &&
               reply) {
            freeReplyObject(reply);
            any = 1;
        }
    }
    if (!link || (got < 0 && !garbled))
        return any;
    redis_unwatch(store);
    return 1;
}

void redis_unwatch(void *state)
{
    redis_store *store = state;
    if (store->listener && !pool_is_inherited(&store->connections))
        redis_link_close(store->listener);
    store->listener = NULL;
}
