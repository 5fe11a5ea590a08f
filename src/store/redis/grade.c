/* What the server keeps, and for how long: the grade of the store.
 *
 *     appendfsync always, or sync=yes of the URL   POWER
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
#include "store/redis/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_ROOM = 64, TEXT_ROOM = 400 };

typedef struct facts {
    int informed; /* INFO was answered */
    unsigned major, minor;
    int valkey;
    int aof;                 /* 0: off, 1: on, -1: not known */
    char fsync[VALUE_ROOM];  /* "" if CONFIG is hidden */
    char policy[VALUE_ROOM]; /* "" if not known */
    int replicas;
    int cluster;
    char role[VALUE_ROOM];
    char denied[TEXT_ROOM]; /* a command that the user may not call, and why; "": none */
} facts;

/* A line of INFO, "name:value". */
static int info_line(char out[VALUE_ROOM], const char *info, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = info; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, name, len) == 0 && at[len] == ':') {
            (void)snprintf(out, VALUE_ROOM, "%.*s", (int)strcspn(at + len + 1, "\r\n"),
                           at + len + 1);
            return 1;
        }
    }
    out[0] = 0;
    return 0;
}

static int info_number(const char *info, const char *name, int fallback)
{
    char value[VALUE_ROOM];
    return info_line(value, info, name) ? (int)strtol(value, NULL, 10) : fallback;
}

static void read_info(facts *out, const redisReply *reply)
{
    char version[VALUE_ROOM], *end = NULL;
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

/* An array of name and value; an error where CONFIG is hidden. */
static void read_config(facts *out, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
        reply->element[1]->type == REDIS_REPLY_STRING)
        (void)snprintf(out->fsync, sizeof out->fsync, "%s", reply->element[1]->str);
}

/* While it reads its append-only file the server says that it has none. */
static int is_loading(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING && info_number(reply->str, "loading", 0) != 0;
}

static semel_status ask_server(facts *out, redis_store *store, semel_error *err)
{
    redis_request r = {.doing = "asking the server about itself"};
    redis_answer answer;
    redis_begin(&r, 1);
    redis_word_z(&r, "INFO");
    redis_begin(&r, 3);
    redis_word_z(&r, "CONFIG");
    redis_word_z(&r, "GET");
    redis_word_z(&r, "appendfsync");
    semel_status status = redis_exchange(store, &r, &answer, err);
    if (status)
        return status;
    if (redis_is_error(answer.replies[0], "NOAUTH"))
        status = redis_fail(answer.replies[0], r.doing, err);
    else if (is_loading(answer.replies[0]))
        status = semel_fail(err, SEMEL_EUNAVAILABLE,
                            "redis: the server has just been started, and is loading its data");
    read_info(out, answer.replies[0]);
    read_config(out, answer.replies[1]);
    redis_answer_free(&answer);
    return status;
}

/* A replica, a full memory or a full disk refuses writes, too: that may pass. */
static int is_passing(const char *error)
{
    static const char *const codes[] = {"READONLY ", "OOM ", "MISCONF ", "NOREPLICAS ",
                                        "MASTERDOWN "};
    error += error[0] == '-'; /* of a script, in Redis 6.2 */
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (strncmp(error, codes[i], strlen(codes[i])) == 0)
            return 1;
    return 0;
}

static semel_status ask_rights(facts *out, redis_store *store, semel_error *err)
{
    redis_request r = {.doing = "looking at rights", .script = &store->scripts[SCRIPT_RIGHTS]};
    redis_answer answer;
    semel_bytes space = {"never there", 11};
    redis_word_number(&r, 1);
    redis_index_word(store, &r, space);
    semel_status status = redis_exchange(store, &r, &answer, err);
    if (status)
        return status == SEMEL_EUNAVAILABLE && out->informed ? SEMEL_OK : status;
    const redisReply *reply = answer.replies[0];
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
        reply->element[0]->type == REDIS_REPLY_STRING &&
        reply->element[1]->type == REDIS_REPLY_STRING && !is_passing(reply->element[1]->str))
        (void)snprintf(out->denied, sizeof out->denied, "%.32s: %.300s", reply->element[0]->str,
                       reply->element[1]->str);
    redis_answer_free(&answer);
    return SEMEL_OK;
}

static semel_status look(facts *out, redis_store *store, semel_error *err)
{
    memset(out, 0, sizeof *out);
    semel_status status = ask_server(out, store, err);
    store->cluster = out->cluster; /* before a script, whose keys are then redirected */
    return status ? status : ask_rights(out, store, err);
}

/* --- what follows from it --------------------------------------------------------------------- */

static int evicts(const facts *f)
{
    return strncmp(f->policy, "allkeys", 7) == 0;
}

static int has_waitaof(const facts *f)
{
    return f->major > 7 || (f->major == 7 && f->minor >= 2);
}

static semel_durability grade_of(const redis_address *at, const facts *f)
{
    if (evicts(f))
        return SEMEL_DURABLE_NOT;
    if (at->word)
        return at->word;
    if (f->aof <= 0)
        return SEMEL_DURABLE_NOT;
    if ((f->replicas || f->cluster) && !at->replicas)
        return SEMEL_DURABLE_PROCESS;
    return at->sync || strcmp(f->fsync, "always") == 0 ? SEMEL_DURABLE_POWER
                                                       : SEMEL_DURABLE_PROCESS;
}

/* A sentence about the worst of it; 0: nothing is wrong. */
static int say_loss(char out[TEXT_ROOM], const redis_address *at, const facts *f)
{
    if (evicts(f))
        return snprintf(out, TEXT_ROOM,
                        "the server's maxmemory-policy is %s: it forgets markers when its memory "
                        "is full, and then messages are handled twice; set it to noeviction",
                        f->policy);
    if (!at->word && f->aof == 0)
        return snprintf(out, TEXT_ROOM,
                        "the server keeps no append-only file: after a restart it may have "
                        "forgotten what was committed; set appendonly yes, or say with durable= "
                        "what the service's contract promises");
    if (!at->word && f->aof < 0)
        return snprintf(out, TEXT_ROOM,
                        "the server does not show INFO, so it is not known what it keeps; say it "
                        "with durable=power, process or not");
    return 0;
}

static semel_status check_version(const redis_address *at, const facts *f, semel_error *err)
{
    if (f->informed && (f->major < 6 || (f->major == 6 && f->minor < 2)))
        return semel_fail(err, SEMEL_EUNSUPPORTED,
                          "redis: the server is version %u.%u; semel needs 6.2 or later, or Valkey",
                          f->major, f->minor);
    if (at->sync && f->informed && !has_waitaof(f))
        return semel_fail(err, SEMEL_EUNSUPPORTED,
                          "redis: sync=yes needs WAITAOF, which Redis has from 7.2 on, and this "
                          "server is version %u.%u; set appendfsync always there instead",
                          f->major, f->minor);
    if (at->sync && f->aof == 0)
        return semel_fail(err, SEMEL_EINVAL, "redis: sync=yes needs a server with appendonly yes");
    return SEMEL_OK;
}

semel_status redis_grade(redis_store *store, semel_error *err)
{
    facts f;
    char loss[TEXT_ROOM];
    semel_status status = look(&f, store, err);
    if (!status)
        status = check_version(&store->at, &f, err);
    if (!status && f.denied[0])
        status = semel_fail(err, SEMEL_ESTORE,
                            "redis: the user lacks a right that semel needs: %s; docs/REDIS.md "
                            "lists them",
                            f.denied);
    if (!status && !store->at.allow_loss && say_loss(loss, &store->at, &f))
        status = semel_fail(err, SEMEL_EINVAL, "redis: %s (loss=warn accepts that)", loss);
    if (!status)
        store->grade = grade_of(&store->at, &f);
    return status;
}

/* --- for people ------------------------------------------------------------------------------- */

typedef struct report {
    semel_finding_visitor *visitor;
    void *context;
    semel_error *err;
    semel_status status;
} report;

static void tell(report *to, semel_severity severity, const char *subject, const char *text,
                 const char *fix)
{
    semel_finding finding = {sizeof finding, severity, subject, text, fix};
    if (!to->status)
        to->status = to->visitor(&finding, to->context, to->err);
}

static void tell_version(report *to, const facts *f)
{
    char text[TEXT_ROOM];
    (void)snprintf(text, sizeof text, "%s, protocol of Redis %u.%u%s",
                   f->valkey ? "Valkey" : "Redis", f->major, f->minor,
                   f->cluster ? ", a cluster" : "");
    tell(to, f->informed ? SEMEL_SEVERITY_OK : SEMEL_SEVERITY_WARNING, "version",
         f->informed ? text : "the server does not show INFO", "");
    if (strcmp(f->role, "slave") == 0)
        tell(to, SEMEL_SEVERITY_ERROR, "version", "it is a replica, which takes no writes",
             "give the address of the primary");
}

static void tell_rights(report *to, const facts *f)
{
    if (f->denied[0])
        tell(to, SEMEL_SEVERITY_ERROR, "rights", f->denied, "docs/REDIS.md lists the rights");
    else
        tell(to, SEMEL_SEVERITY_OK, "rights", "all commands that semel needs may be called", "");
}

static void tell_durability(report *to, const redis_store *store, const facts *f)
{
    static const char *const grades[] = {"", "nothing that is committed survives a restart",
                                         "commits survive kill -9, not power loss",
                                         "commits survive power loss"};
    char text[TEXT_ROOM];
    semel_durability grade = grade_of(&store->at, f);
    if (say_loss(text, &store->at, f))
        tell(to, SEMEL_SEVERITY_ERROR, "durability", text, "");
    (void)snprintf(text, sizeof text, "append-only file %s, appendfsync %s: %s",
                   f->aof > 0 ? "on"
                   : f->aof   ? "not shown"
                              : "off",
                   f->fsync[0] ? f->fsync : "not shown", grades[grade]);
    tell(to, SEMEL_SEVERITY_OK, "durability", text, "");
    if (f->aof > 0 && strcmp(f->fsync, "everysec") == 0 && !store->at.sync)
        tell(to, SEMEL_SEVERITY_WARNING, "durability",
             "appendfsync everysec: while the disk is slow to sync, kill -9 of the server loses "
             "commits of the last two seconds",
             "appendfsync always, or sync=yes in the URL (Redis 7.2 and later)");
    if (f->replicas && !store->at.replicas) {
        (void)snprintf(text, sizeof text,
                       "%d replicas: a failover may lose commits of the last moments", f->replicas);
        tell(to, SEMEL_SEVERITY_WARNING, "durability", text,
             "replicas=1 in the URL waits for a replica at each commit");
    }
}

semel_status redis_inspect(void *state, semel_finding_visitor *visitor, void *context,
                           semel_error *err)
{
    redis_store *store = state;
    facts f;
    report to = {visitor, context, err, SEMEL_OK};
    semel_status status = look(&f, store, err);
    if (status)
        return status;
    tell_version(&to, &f);
    tell_rights(&to, &f);
    tell_durability(&to, store, &f);
    return to.status;
}
