/* What the server keeps, and for how long.
 *
 *     appendfsync always, or sync=yes of the URL   POWER; always with no-appendfsync-on-rewrite
 *                                                  syncs nothing during a rewrite: PROCESS
 *     AOF with everysec or no                      PROCESS: written before the answer, not synced;
 *                                                  but with everysec, while a sync of a slow disk
 *                                                  is under way, Redis answers up to two seconds
 *                                                  before it writes, and kill -9 loses that
 *     no AOF                                       NOT, and refused without loss=warn
 *     replicas or a cluster                        PROCESS at most, unless replicas= waits
 *     an eviction policy of allkeys-...            NOT, and refused without loss=warn
 *
 * Policies of volatile-... take only keys that expire, and semel's never do. Services that hide
 * CONFIG still show INFO; what neither shows, durable= of the URL says. */
#include "redis/facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line of INFO, "name:value". */
static int info_line(char out[REDIS_VALUE_ROOM], const char *info, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = info; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, name, len) == 0 && at[len] == ':') {
            (void)snprintf(out, REDIS_VALUE_ROOM, "%.*s", (int)strcspn(at + len + 1, "\r\n"),
                           at + len + 1);
            return 1;
        }
    }
    out[0] = 0;
    return 0;
}

static int info_number(const char *info, const char *name, int fallback)
{
    char value[REDIS_VALUE_ROOM];
    return info_line(value, info, name) ? (int)strtol(value, NULL, 10) : fallback;
}

static void read_info(redis_facts *out, const redisReply *reply)
{
    char version[REDIS_VALUE_ROOM], *end = NULL;
    out->aof = -1;
    if (reply->type != REDIS_REPLY_STRING)
        return;
    out->informed = info_line(version, reply->str, "redis_version");
    out->major = (unsigned)strtoul(version, &end, 10);
    out->minor = end && *end == '.' ? (unsigned)strtoul(end + 1, NULL, 10) : 0;
    out->valkey = info_line(version, reply->str, "valkey_version");
    out->aof = info_number(reply->str, "aof_enabled", -1);
    out->replicas = info_number(reply->str, "connected_slaves", 0);
    out->cluster = info_number(reply->str, "cluster_enabled", 0) != 0;
    (void)info_line(out->policy, reply->str, "maxmemory_policy");
    (void)info_line(out->role, reply->str, "role");
}

/* An array of names and values; an error where CONFIG is hidden. */
static void read_config(redis_facts *out, const redisReply *reply)
{
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2) {
        const redisReply *name = reply->element[i], *value = reply->element[i + 1];
        if (name->type != REDIS_REPLY_STRING || value->type != REDIS_REPLY_STRING)
            continue;
        if (strcmp(name->str, "appendfsync") == 0)
            (void)snprintf(out->fsync, sizeof out->fsync, "%s", value->str);
        else if (strcmp(name->str, "no-appendfsync-on-rewrite") == 0)
            out->pauses = strcmp(value->str, "no") != 0;
    }
}

void redis_facts_read(redis_facts *out, const redisReply *info, const redisReply *config)
{
    memset(out, 0, sizeof *out);
    read_info(out, info);
    read_config(out, config);
}

/* While it reads its append-only file the server says that it has none. */
static int is_loading(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING && info_number(reply->str, "loading", 0) != 0;
}

semel_status redis_facts_ask(redis_facts *out, redis_client *client, semel_error *err)
{
    redis_request r = {.doing = "asking the server about itself"};
    redis_answer answer;
    redis_begin(&r, 1);
    redis_word_z(&r, "INFO");
    redis_begin(&r, 3);
    redis_word_z(&r, "CONFIG");
    redis_word_z(&r, "GET");
    redis_word_z(&r, "*appendfsync*");
    semel_status status = redis_exchange(client, &r, &answer, err);
    if (status)
        return status;
    if (redis_is_error(answer.replies[0], "NOAUTH"))
        status = redis_fail(client, answer.replies[0], r.doing, err);
    else if (is_loading(answer.replies[0]))
        status = semel_fail(err, SEMEL_EUNAVAILABLE,
                            "redis: the server has just been started, and is loading its data");
    redis_facts_read(out, answer.replies[0], answer.replies[1]);
    redis_answer_free(&answer);
    return status;
}

/* --- what follows from it --------------------------------------------------------------------- */

static int evicts(const redis_facts *f)
{
    return strncmp(f->policy, "allkeys", 7) == 0;
}

static int has_waitaof(const redis_facts *f)
{
    return f->major > 7 || (f->major == 7 && f->minor >= 2);
}

semel_durability redis_facts_grade(const redis_facts *f, const redis_address *at)
{
    if (evicts(f))
        return SEMEL_DURABLE_NOT;
    if (at->word)
        return at->word;
    if (f->aof <= 0)
        return SEMEL_DURABLE_NOT;
    if ((f->replicas || f->cluster) && !at->replicas)
        return SEMEL_DURABLE_PROCESS;
    return at->sync || (strcmp(f->fsync, "always") == 0 && !f->pauses) ? SEMEL_DURABLE_POWER
                                                                       : SEMEL_DURABLE_PROCESS;
}

int redis_facts_loss(char out[REDIS_LOSS_ROOM], const redis_facts *f, const redis_client *client)
{
    const redis_address *at = client->at;
    if (evicts(f))
        return snprintf(out, REDIS_LOSS_ROOM,
                        "the server's maxmemory-policy is %s: %s; set it to noeviction", f->policy,
                        client->role->evicts);
    if (!at->word && f->aof == 0)
        return snprintf(out, REDIS_LOSS_ROOM,
                        "the server keeps no append-only file: after a restart it may have "
                        "forgotten %s; set appendonly yes, or say with durable= what the "
                        "service's contract promises",
                        client->role->forgets);
    if (!at->word && f->aof < 0)
        return snprintf(out, REDIS_LOSS_ROOM,
                        "the server does not show INFO, so it is not known what it keeps; say it "
                        "with durable=power, process or not");
    return 0;
}

semel_status redis_facts_refuse(const redis_facts *f, const redis_client *client, semel_error *err)
{
    char loss[REDIS_LOSS_ROOM];
    if (client->at->allow_loss || !redis_facts_loss(loss, f, client))
        return SEMEL_OK;
    return semel_fail(err, SEMEL_EINVAL, "%s: %s (loss=warn accepts that)", client->role->title,
                      loss);
}

semel_status redis_facts_check(const redis_facts *f, const redis_client *client, semel_error *err)
{
    const redis_address *at = client->at;
    const char *title = client->role->title;
    if (f->informed && (f->major < 6 || (f->major == 6 && f->minor < 2)))
        return semel_fail(err, SEMEL_EUNSUPPORTED,
                          "%s: the server is version %u.%u; semel needs 6.2 or later, or Valkey",
                          title, f->major, f->minor);
    if (at->sync && f->informed && !has_waitaof(f))
        return semel_fail(err, SEMEL_EUNSUPPORTED,
                          "%s: sync=yes needs WAITAOF, which Redis has from 7.2 on, and this "
                          "server is version %u.%u; set appendfsync always there instead",
                          title, f->major, f->minor);
    if (at->sync && f->aof == 0)
        return semel_fail(err, SEMEL_EINVAL, "%s: sync=yes needs a server with appendonly yes",
                          title);
    return SEMEL_OK;
}
