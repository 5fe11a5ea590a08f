/* The Redis store: opening, its clock, and the tables. */
#include "store/redis/redis.h"

#include "base/wait.h"
#include "store/keyed/keyed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLOCK_ERROR_MAX_MS = 250 }; /* beyond that the server is asked */

/* --- connections ------------------------------------------------------------------------------ */

static semel_status connect_for_pool(void **out, void *context, uint32_t wait_ms, semel_error *err)
{
    redis_link *link = NULL;
    semel_status status = redis_link_open_here(&link, context, wait_clock_ms() + wait_ms, err);
    *out = link;
    return status;
}

static int is_alive(void *connection)
{
    return redis_link_is_alive(connection);
}

static void close_for_pool(void *connection)
{
    redis_link_close(connection);
}

static const pool_calls calls = {connect_for_pool, is_alive, close_for_pool};

/* The client is the store's first member. */
static semel_status take_link(redis_link **out, redis_client *client, semel_error *err)
{
    redis_store *store = (redis_store *)client;
    void *taken = NULL;
    semel_status status = pool_take(&taken, &store->connections, client->busy_ms, err);
    *out = taken;
    return status;
}

static void give_link(redis_client *client, redis_link *link, int usable)
{
    redis_store *store = (redis_store *)client;
    pool_give(&store->connections, link, usable);
}

static const redis_links links = {take_link, give_link};

static const redis_role role = {
    .title = "redis",
    .broken = SEMEL_ESTORE,
    .page = "docs/REDIS.md",
    .wrong_type = "; does another program use this namespace?",
    .evicts = "it forgets markers when its memory is full, and then messages are handled twice",
    .forgets = "what was committed",
};

/* --- opening ---------------------------------------------------------------------------------- */

static void close_redis(void *state)
{
    redis_store *store = state;
    redis_unwatch(store);
    pool_destroy(&store->connections);
    redis_client_free(&store->client);
    arena_free(&store->arena);
}

static semel_status start(redis_store *store, const char *url, semel_error *err)
{
    semel_status status = redis_store_address_read(&store->at, &store->arena, url, err);
    if (!status)
        status = redis_client_init(&store->client, &role, &links, &store->at.server, err);
    if (!status)
        status = redis_scripts_prepare(store, err);
    if (status)
        return status;
    (void)snprintf(store->prefix, sizeof store->prefix, "{%s}/", store->at.name);
    store->prefix_len = strlen(store->prefix);
    status = pool_init(&store->connections, &calls, &store->client, store->at.pool, err);
    return status ? status : redis_grade(store, err);
}

static semel_status open_redis(void *state, const void *argument,
                               const semel_store_settings *settings, semel_error *err)
{
    redis_store *store = state;
    store->settings = settings;
    store->client.busy_ms = settings->busy_ms;
    store->client.answer_ms = settings->answer_ms;
    semel_status status = start(store, argument, err);
    if (status)
        close_redis(store);
    return status;
}

/* --- time ------------------------------------------------------------------------------------- */

void redis_learn_time(redis_store *store, const redis_answer *answer, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[1]->type != REDIS_REPLY_STRING)
        return;
    int64_t us = strtoll(reply->element[0]->str, NULL, 10) * 1000000 +
                 strtoll(reply->element[1]->str, NULL, 10);
    pthread_mutex_lock(&store->client.lock);
    semel_keyed_clock_learn(&store->clock, answer->sent_us, answer->heard_us, us, us + 1);
    pthread_mutex_unlock(&store->client.lock);
}

static semel_status ask_time(redis_store *store, semel_error *err)
{
    redis_request r = {.doing = "asking for the time"};
    redis_answer answer;
    redis_begin(&r, 1);
    redis_word_z(&r, "TIME");
    semel_status status = redis_exchange(&store->client, &r, &answer, err);
    if (status)
        return status;
    if (answer.replies[0]->type == REDIS_REPLY_ERROR)
        status = redis_fail(&store->client, answer.replies[0], r.doing, err);
    else
        redis_learn_time(store, &answer, answer.replies[0]);
    redis_answer_free(&answer);
    return status;
}

static int read_clock(redis_store *store, int64_t *out_ms, uint32_t *error_ms)
{
    pthread_mutex_lock(&store->client.lock);
    int known = semel_keyed_clock_read(&store->clock, redis_steady_us(), out_ms, error_ms);
    pthread_mutex_unlock(&store->client.lock);
    return known;
}

static semel_status redis_now(void *state, int64_t *out_ms, uint32_t *error_ms, semel_error *err)
{
    redis_store *store = state;
    if (read_clock(store, out_ms, error_ms) && *error_ms <= CLOCK_ERROR_MAX_MS)
        return SEMEL_OK;
    semel_status status = ask_time(store, err);
    if (status)
        return status;
    return read_clock(store, out_ms, error_ms)
               ? SEMEL_OK
               : semel_fail(err, SEMEL_ESTORE, "redis: the server does not tell the time");
}

static semel_durability redis_durability(const void *state)
{
    const redis_store *store = state;
    return store->grade;
}

/* --- the tables ------------------------------------------------------------------------------- */

static const semel_store_watch watch = {redis_watch, redis_heard, redis_unwatch};

const semel_keyed_driver redis_keyed_driver = {
    .version = SEMEL_KEYED_DRIVER_VERSION,
    .abilities = SEMEL_KEYED_MANY | SEMEL_KEYED_SHARED | SEMEL_KEYED_DISTANT,
    .scheme = "redis",
    .store_size = sizeof(redis_store),
    .open = open_redis,
    .close = close_redis,
    .now = redis_now,
    .durability = redis_durability,
    .get = redis_get,
    .apply = redis_apply,
    .scan = redis_scan,
    .count = redis_count,
    .queue = redis_queue,
    .watch = &watch,
    .inspect = redis_inspect,
};

static semel_status redis_check_url(const char *text, semel_error *err)
{
    redis_store_address address;
    mem_arena arena = {0};
    semel_status status = redis_store_address_read(&address, &arena, text, err);
    arena_free(&arena);
    return status;
}

static semel_status open_store(void *store, const void *url, const semel_store_settings *settings,
                               semel_error *err)
{
    return keyed_open(store, &redis_keyed_driver, url, settings, err);
}

const semel_store_driver redis_store_driver =
    KEYED_STORE_DRIVER("redis", open_store, redis_check_url, &keyed_watch, SEMEL_STORE_SHARED, 0);
