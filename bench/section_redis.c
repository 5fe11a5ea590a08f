/* Redis, against scripts by hand: a record for each message, written if it is not there, and the
 * effect in the same script; or a claim with a token, and its end. As in the other sections the
 * loop by hand writes the same as semel: a hash, and an index by which records are listed and
 * swept. The bare scripts have no index and no more than a key that expires; what they forget they
 * forget without a trace. Everybody calls EVALSHA, on connections of the same number, on a server
 * that syncs each write.
 *
 * One call at a time, by 1, 4 and 8 connections; and many at a time: a pipeline of 100 by hand, a
 * batch of 100 of semel's. */
#include "server.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

enum { PIPELINE = 100, PLACE_TEXT = 128 };

/* KEYS: marker, effects, index. ARGV: key, body. */
#define QUEUED_SCRIPT                                        \
    "local t = redis.call('TIME') "                          \
    "if redis.call('HGET', KEYS[1], 'h') then return 0 end " \
    "redis.call('RPUSH', KEYS[2], ARGV[2]) "                 \
    "redis.call('HSET', KEYS[1], 'h', 'done', 'd', t[1]) "   \
    "redis.call('ZADD', KEYS[3], 0, ARGV[1]) return 1"

/* KEYS: marker, index. ARGV: key, token, lease. */
#define CLAIM_SCRIPT                                                           \
    "local t = redis.call('TIME') "                                            \
    "local old = redis.call('HGET', KEYS[1], 'h') if old then return old end " \
    "redis.call('HSET', KEYS[1], 'h', ARGV[2], 'd', t[1] + ARGV[3]) "          \
    "redis.call('ZADD', KEYS[2], 0, ARGV[1]) return ARGV[2]"

/* KEYS: marker. ARGV: token. */
#define FINISH_SCRIPT                                                   \
    "local t = redis.call('TIME') "                                     \
    "if redis.call('HGET', KEYS[1], 'h') ~= ARGV[1] then return 0 end " \
    "redis.call('HSET', KEYS[1], 'h', 'done', 'd', t[1]) return 1"

/* KEYS: marker, effects. ARGV: retention, body. */
#define BARE_QUEUED_SCRIPT                                                              \
    "if not redis.call('SET', KEYS[1], 'done', 'NX', 'PX', ARGV[1]) then return 0 end " \
    "redis.call('RPUSH', KEYS[2], ARGV[2]) return 1"

/* KEYS: marker. ARGV: token, lease. */
#define BARE_CLAIM_SCRIPT                                                \
    "local old = redis.call('GET', KEYS[1]) if old then return old end " \
    "redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return ARGV[1]"

/* KEYS: marker. ARGV: token, retention. */
#define BARE_FINISH_SCRIPT                                        \
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end " \
    "redis.call('SET', KEYS[1], 'done', 'PX', ARGV[2]) return 1"

typedef enum redis_mode { BY_QUEUE, BY_CLAIM, COPIES, IN_BATCHES, MODES } redis_mode;

/* --- by hand ---------------------------------------------------------------------------------- */

typedef struct by_hand {
    redis_mode mode;
    int bare;
    size_t workers;
    redisContext *connections[THREADS_MAX];
    char sha[3][41];
    char prefix[64];
} by_hand;

static redisReply *must_reply(redisContext *on, redisReply *reply)
{
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        die("redis: %s", reply ? reply->str : on->errstr);
    return reply;
}

/* redis://user:password@host:port/0, as dev/servers writes it. */
static redisContext *connect_by_hand(const char *url)
{
    char password[PLACE_TEXT] = "", host[PLACE_TEXT] = "";
    int port = 0;
    if (sscanf(url, "redis://%*[^:]:%127[^@]@%127[^:]:%d", password, host, &port) != 3)
        die("--redis takes redis://user:password@host:port/0");
    redisContext *on = redisConnect(host, port);
    if (!on || on->err)
        die("redis: %s", on ? on->errstr : "no memory");
    freeReplyObject(must_reply(on, redisCommand(on, "AUTH %s", password)));
    return on;
}

static void by_hand_open(by_hand *h, const char *url)
{
    static const char *const scripts[][3] = {
        {QUEUED_SCRIPT, CLAIM_SCRIPT, FINISH_SCRIPT},
        {BARE_QUEUED_SCRIPT, BARE_CLAIM_SCRIPT, BARE_FINISH_SCRIPT}};
    snprintf(h->prefix, sizeof h->prefix, "{bench_%s_%d}", h->bare ? "bare" : "hand", (int)h->mode);
    for (size_t i = 0; i < h->workers; i++)
        h->connections[i] = connect_by_hand(url);
    for (size_t i = 0; i < 3; i++) {
        redisReply *reply =
            must_reply(h->connections[0],
                       redisCommand(h->connections[0], "SCRIPT LOAD %s", scripts[h->bare][i]));
        snprintf(h->sha[i], sizeof h->sha[i], "%s", reply->str);
        freeReplyObject(reply);
    }
}

static void by_hand_close(by_hand *h)
{
    for (size_t i = 0; i < h->workers; i++)
        redisFree(h->connections[i]);
}

static void append_queued(const by_hand *h, redisContext *on, const semel_message *m)
{
    if (h->bare)
        redisAppendCommand(on, "EVALSHA %s 2 %sm:%b %seffects 604800000 %b", h->sha[0], h->prefix,
                           m->id.data, m->id.len, h->prefix, m->body.data, m->body.len);
    else
        redisAppendCommand(on, "EVALSHA %s 3 %sm:%b %seffects %sm %b %b", h->sha[0], h->prefix,
                           m->id.data, m->id.len, h->prefix, h->prefix, m->id.data, m->id.len,
                           m->body.data, m->body.len);
}

static void take_reply(redisContext *on)
{
    void *reply = NULL;
    if (redisGetReply(on, &reply) != REDIS_OK)
        die("redis: %s", on->errstr);
    freeReplyObject(must_reply(on, reply));
}

static void claim_by_hand(const by_hand *h, redisContext *on, const semel_message *m)
{
    if (h->bare)
        redisAppendCommand(on, "EVALSHA %s 1 %sm:%b token-%b 30000", h->sha[1], h->prefix,
                           m->id.data, m->id.len, m->id.data, m->id.len);
    else
        redisAppendCommand(on, "EVALSHA %s 2 %sm:%b %sm %b token-%b 30000", h->sha[1], h->prefix,
                           m->id.data, m->id.len, h->prefix, m->id.data, m->id.len, m->id.data,
                           m->id.len);
    take_reply(on);
    redisAppendCommand(on, "EVALSHA %s 1 %sm:%b token-%b 604800000", h->sha[2], h->prefix,
                       m->id.data, m->id.len, m->id.data, m->id.len);
    take_reply(on);
}

static void by_hand_job(void *context, size_t worker, const semel_message *const messages[],
                        size_t count)
{
    by_hand *h = context;
    redisContext *on = h->connections[worker];
    if (h->mode == BY_CLAIM) {
        claim_by_hand(h, on, messages[0]);
        return;
    }
    for (size_t i = 0; i < count; i++)
        append_queued(h, on, messages[i]);
    for (size_t i = 0; i < count; i++)
        take_reply(on);
}

static void by_hand_run(void *context, const message_set *set)
{
    by_hand *h = context;
    threads_run(h->workers, h->mode == IN_BATCHES ? PIPELINE : 1, set, by_hand_job, h);
    if (h->mode == COPIES)
        threads_run(h->workers, 1, set, by_hand_job, h);
}

/* --- through semel ---------------------------------------------------------------------------- */

typedef struct by_semel {
    redis_mode mode;
    size_t workers;
    semel_store *store;
    semel_inbox *inbox;
    char command[64];
} by_semel;

static void by_semel_open(by_semel *s, const char *url)
{
    char with_name[1024];
    semel_error err;
    semel_inbox_options inbox = {.size = sizeof inbox,
                                 .mode = s->mode == BY_CLAIM ? SEMEL_CLAIM : SEMEL_QUEUED};
    snprintf(with_name, sizeof with_name, "%s?namespace=bench_semel_%d&pool=%d", url, (int)s->mode,
             THREADS_MAX);
    snprintf(s->command, sizeof s->command, "RPUSH {bench_semel_%d}effects ?", (int)s->mode);
    must(semel_store_open(&s->store, with_name, NULL, &err), &err);
    must(semel_store_migrate(s->store, &err), &err);
    must(semel_inbox_open(&s->inbox, s->store, "bench", &inbox, &err), &err);
}

static void by_semel_close(by_semel *s)
{
    semel_inbox_close(s->inbox);
    semel_store_close(s->store);
}

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    const by_semel *s = context;
    semel_value body = semel_blob(message->body);
    return s->mode == BY_CLAIM ? SEMEL_OK : semel_unit_queue(unit, s->command, &body, 1, err);
}

static void by_semel_job(void *context, size_t worker, const semel_message *const messages[],
                         size_t count)
{
    by_semel *s = context;
    semel_error err;
    semel_outcome outcomes[PIPELINE];
    (void)worker;
    if (count == 1)
        must(semel_inbox_receive(outcomes, s->inbox, messages[0], handle, s, &err), &err);
    else
        must(semel_inbox_receive_batch(outcomes, s->inbox, messages, count, handle, s, &err), &err);
    for (size_t i = 0; i < count; i++)
        if (outcomes[i] != SEMEL_PROCESSED && outcomes[i] != SEMEL_DUPLICATE)
            die("an outcome is \"%s\"", semel_outcome_name(outcomes[i]));
}

static void by_semel_run(void *context, const message_set *set)
{
    by_semel *s = context;
    threads_run(s->workers, s->mode == IN_BATCHES ? PIPELINE : 1, set, by_semel_job, s);
    if (s->mode == COPIES)
        threads_run(s->workers, 1, set, by_semel_job, s);
}

/* --- the section ------------------------------------------------------------------------------ */

static void remove_all(const char *url)
{
    redisContext *on = connect_by_hand(url);
    freeReplyObject(must_reply(
        on, redisCommand(on, "EVAL %s 0",
                         "local cursor = '0' repeat local page = redis.call('SCAN', cursor, "
                         "'MATCH', '{bench_*', 'COUNT', 1000) cursor = page[1] for _, key in "
                         "ipairs(page[2]) do redis.call('UNLINK', key) end until cursor == '0'")));
    redisFree(on);
}

static void measure(redis_mode mode, size_t workers, bench_aim aim)
{
    static const char *const names[MODES] = {"queued with its effect", "claim and finish",
                                             "first copy and second", "100 at a time"};
    comparison d;
    key_source keys;
    char label[100];
    by_hand hand = {.mode = mode, .workers = workers};
    by_hand bare = {.mode = mode, .bare = 1, .workers = workers};
    by_semel semel = {.mode = mode, .workers = workers};
    const char *url = redis_url();
    size_t batch = mode == IN_BATCHES ? PIPELINE : 1;
    by_hand_open(&hand, url);
    by_hand_open(&bare, url);
    by_semel_open(&semel, url);
    const contender contenders[] = {
        {&hand, by_hand_run}, {&semel, by_semel_run}, {&bare, by_hand_run}};
    snprintf(label, sizeof label, "%s, %zu connection%s", names[mode], workers,
             workers == 1 ? "" : "s");
    keys_begin(&keys, KEYS_RANDOM);
    comparison_run(&d, contenders, 3, &keys, batch,
                   choose(4000, 1000) / (mode == IN_BATCHES ? 20 : 1), choose(9, 5), label);
    report_comparison(label, &d, 1, 0, aim);
    snprintf(label, sizeof label, "    by bare scripts");
    report_comparison(label, &d, 1, 2, NO_AIM);
    by_hand_close(&hand);
    by_hand_close(&bare);
    by_semel_close(&semel);
    remove_all(url);
}

void section_redis(void)
{
    static const size_t workers[] = {1, 4, 8};
    if (redis_is_off())
        return;
    report_section("redis", "Redis: against scripts by hand", "raw/s", "semel/s");
    for (int mode = BY_QUEUE; mode < MODES; mode++)
        for (size_t i = 0; i < sizeof workers / sizeof *workers; i++)
            measure((redis_mode)mode, workers[i], AT_LEAST(0.8));
    report_note("round trips: queued 1, claim 1 + 1, a copy 1 (tests/store/redis/test_redis_lost)");
}
