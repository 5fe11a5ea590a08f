/* Redis Streams in the soak.
 *
 *     stream "ordered"  group "ordered"             of the foreign client
 *     stream "free"     group "free"
 *     stream "out"      groups "second", "foreign"  of the relays: both read all of it
 *
 * Of the processes of "ordered" and "second" one at a time has entries. The foreign client is
 * hiredis. */
#include "brokers.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_S = 20, NAME = 80, MOST = 128 };

static const char *const streams[SOAK_ROLES] = {
    [SOAK_ORDERED] = "ordered", [SOAK_FREE] = "free", [SOAK_RELAY] = "out", [SOAK_SECOND] = "out"};

static void redis_url(char url[SOAK_URL], const soak_run *run, soak_role role, int declare)
{
    char group[SOAK_URL / 2] = "";
    if (role != SOAK_RELAY)
        soak_print(group, sizeof group,
                   "&group=%s&claim_ms=%lld&poll_ms=200&declare=%s&single_active=%s",
                   role == SOAK_SECOND ? "second" : streams[role], (long long)run->hold_ms,
                   declare ? "yes" : "check", role == SOAK_FREE ? "no" : "yes");
    soak_print(url, SOAK_URL, "%s?stream=%s.%s%s", run->servers->broker.at.url,
               soak_store_name(run->store), streams[role], group);
}

/* --- a connection ----------------------------------------------------------------------------- */

typedef struct client {
    redisContext *on;
    char store[NAME], out[NAME];
    int fresh; /* all that was pending has been read */
    redisReply *received;
    size_t count;
} client;

/* NULL: the connection is lost. */
static redisReply *ask(client *c, int count, const char *const words[])
{
    return redisCommandArgv(c->on, count, (const char **)(uintptr_t)words, NULL);
}

/* 1 if there was an answer, be it an error: groups may be there already. */
static int told(client *c, int count, const char *const words[])
{
    redisReply *reply = ask(c, count, words);
    int answered = reply != NULL;
    freeReplyObject(reply);
    return answered;
}

static int log_in(client *c, const char *url)
{
    char password[NAME];
    const char *colon = strchr(strstr(url, "://") + 3, ':'), *at = strchr(url, '@');
    soak_print(password, sizeof password, "%.*s", (int)(at - colon - 1), colon + 1);
    return told(c, 2, (const char *const[]){"AUTH", password});
}

static int make_group(client *c, const char *group)
{
    return told(c, 6, (const char *const[]){"XGROUP", "CREATE", c->out, group, "0", "MKSTREAM"});
}

static void close_client(void *context)
{
    client *c = context;
    freeReplyObject(c->received);
    redisFree(c->on);
    free(c);
}

static void *open_client(const char *url, const char *store, int receives)
{
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    char host[SERVER_HOST_ROOM];
    unsigned port;
    client *c = calloc(1, sizeof *c);
    if (!c)
        soak_die("out of memory");
    soak_print(c->store, sizeof c->store, "%s", store);
    soak_print(c->out, sizeof c->out, "%s.out", store);
    server_address(url, host, &port);
    c->on = redisConnectWithTimeout(host, (int)port, patience);
    if (c->on && !c->on->err && redisSetTimeout(c->on, patience) == REDIS_OK && log_in(c, url) &&
        (!receives || make_group(c, "foreign")))
        return c;
    close_client(c);
    return NULL;
}

/* --- publishing ------------------------------------------------------------------------------- */

static int publish(void *context, const soak_item items[], size_t count, int confirmed[])
{
    client *c = context;
    for (size_t i = 0; i < count; i++)
        if (redisAppendCommand(c->on,
                               "XADD %s.%s NOMKSTREAM * id %s type %s subject %s partitionkey %s "
                               "datacontenttype text/plain data %s",
                               c->store, items[i].queue, items[i].id, items[i].type, items[i].group,
                               items[i].group, items[i].body) != REDIS_OK)
            return 0;
    for (size_t i = 0; i < count; i++) {
        void *reply = NULL;
        if (redisGetReply(c->on, &reply) != REDIS_OK)
            return 0;
        confirmed[i] = ((redisReply *)reply)->type == REDIS_REPLY_STRING;
        freeReplyObject(reply);
    }
    return 1;
}

/* --- receiving -------------------------------------------------------------------------------- */

static const char *field(const redisReply *fields, const char *name)
{
    for (size_t i = 0; i + 1 < fields->elements; i += 2)
        if (strcmp(fields->element[i]->str, name) == 0)
            return fields->element[i + 1]->str;
    soak_die("an entry without %s", name);
}

/* First what is pending, which a process that was killed has not acknowledged. */
static int receive(void *context, soak_item items[], size_t max, unsigned wait_ms)
{
    client *c = context;
    char count[16], wait[16];
    soak_print(count, sizeof count, "%zu", max < MOST ? max : MOST);
    soak_print(wait, sizeof wait, "%u", wait_ms);
    freeReplyObject(c->received);
    c->count = 0;
    c->received =
        ask(c, 11,
            (const char *const[]){"XREADGROUP", "GROUP", "foreign", "foreign", "COUNT", count,
                                  "BLOCK", wait, "STREAMS", c->out, c->fresh ? ">" : "0"});
    if (!c->received || c->received->type == REDIS_REPLY_ERROR)
        return -1;
    if (c->received->type == REDIS_REPLY_NIL)
        return 0;
    const redisReply *entries = c->received->element[0]->element[1];
    c->fresh |= entries->elements == 0;
    for (; c->count < entries->elements; c->count++) {
        const redisReply *fields = entries->element[c->count]->element[1];
        items[c->count] = (soak_item){.id = field(fields, "id"), .body = field(fields, "data")};
    }
    return (int)c->count;
}

static int acknowledge(void *context)
{
    client *c = context;
    const char *words[MOST + 3] = {"XACK", c->out, "foreign"};
    for (size_t i = 0; i < c->count; i++)
        words[i + 3] = c->received->element[0]->element[1]->element[i]->element[0]->str;
    return told(c, (int)c->count + 3, words);
}

/* --- counting --------------------------------------------------------------------------------- */

/* Not read, and read and not acknowledged. Redis keeps what "out" has, since two groups read it. */
static int64_t in_group(const soak_run *run, const char *stream, const char *group)
{
    static const char script[] =
        "local n = redis.call('XPENDING', KEYS[1], ARGV[1])[1] "
        "for _, g in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do local m = {} "
        "for i = 1, #g, 2 do m[g[i]] = g[i + 1] end "
        "if m.name == ARGV[1] then n = n + #redis.call('XRANGE', KEYS[1], '(' .. "
        "m['last-delivered-id'], '+') end end return n";
    const char *store = soak_store_name(run->store);
    char key[NAME];
    client *c = open_client(run->servers->broker.at.url, store, 0);
    if (!c)
        return -1;
    soak_print(key, sizeof key, "%s.%s", store, stream);
    redisReply *reply = ask(c, 5, (const char *const[]){"EVAL", script, "1", key, group});
    int64_t count = reply && reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
    freeReplyObject(reply);
    close_client(c);
    return count;
}

static int64_t redis_queued(const soak_run *run)
{
    static const struct {
        const char *stream, *group;
    } all[] = {{"ordered", "ordered"}, {"free", "free"}, {"out", "second"}, {"out", "foreign"}};
    int64_t sum = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int64_t count = in_group(run, all[i].stream, all[i].group);
        if (count < 0)
            return -1;
        sum += count;
    }
    return sum;
}

/* Before the relays publish: what one group alone reads is removed when it is acknowledged. */
static void redis_declared(const soak_run *run)
{
    client *c = open_client(run->servers->broker.at.url, soak_store_name(run->store), 1);
    if (!c)
        soak_die("the group of the foreign client cannot be made");
    close_client(c);
}

static const soak_client by_hand = {open_client, close_client, publish, receive, acknowledge};

const soak_broker soak_redis = {.name = "redis",
                                .server = SERVER_REDIS,
                                .url = redis_url,
                                .queued = redis_queued,
                                .declared = redis_declared,
                                .client = &by_hand};
