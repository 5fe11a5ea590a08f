/* The grade of the store: what the server says of itself (redis/facts.c), and whether the user has
 * the rights that the scripts need. */
#include "redis/facts.h"
#include "store/redis/redis.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_ROOM = REDIS_LOSS_ROOM };

typedef struct facts {
    redis_facts server;
    char denied[TEXT_ROOM]; /* a command that the user may not call, and why; "": none */
} facts;

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
    semel_status status = redis_exchange(&store->client, &r, &answer, err);
    if (status)
        return status == SEMEL_EUNAVAILABLE && out->server.informed ? SEMEL_OK : status;
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
    semel_status status = redis_facts_ask(&out->server, &store->client, err);
    store->cluster = out->server.cluster; /* before a script, whose keys are then redirected */
    return status ? status : ask_rights(out, store, err);
}

semel_status redis_grade(redis_store *store, semel_error *err)
{
    facts f;
    semel_status status = look(&f, store, err);
    if (!status)
        status = redis_facts_check(&f.server, &store->client, err);
    if (!status && f.denied[0])
        status = semel_fail(err, SEMEL_ESTORE,
                            "redis: the user lacks a right that semel needs: %s; docs/REDIS.md "
                            "lists them",
                            f.denied);
    if (!status)
        status = redis_facts_refuse(&f.server, &store->client, err);
    if (!status)
        store->grade = redis_facts_grade(&f.server, &store->at.server);
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

static void tell_version(report *to, const redis_facts *f)
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

static void tell_durability(report *to, const redis_store *store, const redis_facts *f)
{
    static const char *const grades[] = {"", "nothing that is committed survives a restart",
                                         "commits survive kill -9, not power loss",
                                         "commits survive power loss"};
    char text[TEXT_ROOM];
    semel_durability grade = redis_facts_grade(f, &store->at.server);
    if (redis_facts_loss(text, f, &store->client))
        tell(to, SEMEL_SEVERITY_ERROR, "durability", text, "");
    (void)snprintf(text, sizeof text, "append-only file %s, appendfsync %s: %s",
                   f->aof > 0 ? "on"
                   : f->aof   ? "not shown"
                              : "off",
                   f->fsync[0] ? f->fsync : "not shown", grades[grade]);
    tell(to, SEMEL_SEVERITY_OK, "durability", text, "");
    if (f->aof > 0 && strcmp(f->fsync, "everysec") == 0 && !store->at.server.sync)
        tell(to, SEMEL_SEVERITY_WARNING, "durability",
             "appendfsync everysec: while the disk is slow to sync, kill -9 of the server loses "
             "commits of the last two seconds",
             "appendfsync always, or sync=yes in the URL (Redis 7.2 and later)");
    if (f->replicas && !store->at.server.replicas) {
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
    tell_version(&to, &f.server);
    tell_rights(&to, &f);
    tell_durability(&to, store, &f.server);
    return to.status;
}
