/* Redis as a server of tests: a store is a namespace. See server_internal.h. Its "SQL" is a command
 * of Redis, in words that are separated by single spaces; a session of its own for each. */
#include "support/process/process.h"
#include "support/servers/server_internal.h"

#ifdef SEMEL_WITH_REDIS
#include "support/keyed/keyed_skew.h"

#include <hiredis/hiredis.h>
#include <string.h>

static redisReply *ask(redisContext *on, const char *command)
{
    redisReply *reply = redisCommand(on, command); /* not a format: no test has a % in it */
    if (!reply)
        server_die("redis: %s: %s", command, on->errstr);
    return reply;
}

static redisContext *connect_redis(const server_target *at)
{
    char password[SERVER_NAME_ROOM] = "AUTH ", *colon = strchr(at->user, ':');
    int64_t deadline = process_now_ms() + SERVER_CONNECT_S * 1000;
    redisContext *on = redisConnect(at->host, (int)at->port);
    while (!on || on->err) {
        if (process_now_ms() > deadline)
            server_die("redis: %s", on ? on->errstr : "no memory");
        redisFree(on);
        process_nap();
        on = redisConnect(at->host, (int)at->port);
    }
    server_print(password, sizeof password, "AUTH %s", colon ? colon + 1 : "");
    freeReplyObject(ask(on, password));
    return on;
}

static void show(const redisReply *reply, server_row *row, void *context)
{
    char digits[32];
    if (reply->type == REDIS_REPLY_INTEGER) {
        server_print(digits, sizeof digits, "%lld", reply->integer);
        row(digits, context);
    } else if (reply->type == REDIS_REPLY_ARRAY) {
        for (size_t i = 0; i < reply->elements; i++)
            show(reply->element[i], row, context);
    } else {
        row(reply->type == REDIS_REPLY_NIL ? NULL : reply->str, context);
    }
}

static void each_redis(const server_target *at, const char *command, server_row *row, void *context)
{
    redisContext *on = connect_redis(at);
    redisReply *reply = ask(on, command);
    if (reply->type == REDIS_REPLY_ERROR)
        server_die("redis: %s: %s", command, reply->str);
    if (row)
        show(reply, row, context);
    freeReplyObject(reply);
    redisFree(on);
}

static void fresh_redis(char url[SERVER_URL_ROOM], const server_place *where, const char *name)
{
    server_print(url, SERVER_URL_ROOM, "%s?namespace=%s", where->url, name);
}

/* Bytes of keys may be anything, so they are removed where they are. */
static void drop_redis(const char *url, const server_target *at)
{
    char name[SERVER_NAME_ROOM], command[SERVER_SQL_ROOM];
    server_parameter(name, url, "namespace", "semel");
    redisContext *on = connect_redis(at);
    server_print(command, sizeof command, "{%s}*", name);
    redisReply *reply = redisCommand(
        on, "EVAL %s 0 %s",
        "local cursor = '0' repeat local page = redis.call('SCAN', cursor, 'MATCH', ARGV[1],"
        " 'COUNT', 1000) cursor = page[1] for _, key in ipairs(page[2]) do"
        " redis.call('UNLINK', key) end until cursor == '0'",
        command);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        server_die("redis: %s", reply ? reply->str : on->errstr);
    freeReplyObject(reply);
    redisFree(on);
}

/* A lease is over for others when it is over by every clock that may be right. */
static void pass_redis(const char *url, int64_t ms)
{
    enum { CLOCK_ERROR_MS = 300 };
    (void)url;
    keyed_skew_pass(ms + CLOCK_ERROR_MS);
}
#else
#define each_redis  NULL
#define fresh_redis NULL
#define drop_redis  NULL
#define pass_redis  NULL
#endif

const server_type server_redis = {
    .name = "redis",
    .scheme = "redis",
    .prefix = "REDIS",
    .socket = "SOCKET",
    .each = each_redis,
    .fresh = fresh_redis,
    .drop = drop_redis,
    .pass = pass_redis,
};
