/* The group: made or looked for when the transport is opened, cleaned up, and counted.
 *
 * A group that is made begins at the beginning of the stream, so that nothing that was published
 * before is passed over. Making it twice does nothing. */
#include "transport/redis/streams.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A consumer of this name that has nothing and was not heard of for so long is removed. */
enum { FORGOTTEN_MS = 3600000, RIGHTS_WORDS = 9 };

enum { NOT_FOUND = 404 }; /* the number of an error that Redis has no number for: AMQP's */

/* --- rights ----------------------------------------------------------------------------------- */

/* Calls that change nothing: S is the stream, D the dead one, G the group, C a consumer's name.
 * Anything but NOPERM is as good as a success. */
typedef struct right {
    int of_group; /* needed to receive; 2: with single_active only */
    const char *words[RIGHTS_WORDS];
} right;

static const right rights[] = {
    {0, {"EVAL", "return 0", "1", "S"}},
    {0, {"XINFO", "GROUPS", "S"}},
    {0, {"XADD", "S", "NOMKSTREAM", "0-0", "f", "v"}},
    {1, {"XADD", "D", "NOMKSTREAM", "0-0", "f", "v"}},
    {1, {"XREADGROUP", "GROUP", "G", "C", "COUNT", "1", "STREAMS", "S", "0"}},
    {1, {"XAUTOCLAIM", "S", "G", "C", "31536000000", "0-0", "COUNT", "1"}},
    {1, {"XCLAIM", "S", "G", "C", "31536000000", "0-0", "JUSTID"}},
    {1, {"XPENDING", "S", "G"}},
    {2, {"XREAD", "COUNT", "1", "STREAMS", "S", "$"}},
    {1, {"XRANGE", "S", "0-0", "0-0"}},
    {1, {"XLEN", "S"}},
    {1, {"XACK", "S", "G", "0-0"}},
    {1, {"XDEL", "S", "0-0"}}};
enum { RIGHTS = sizeof rights / sizeof *rights };

static const char *word_of(const streams *self, const char *word)
{
    if (!word[0] || word[1])
        return word;
    switch (word[0]) {
    case 'S':
        return self->at.stream;
    case 'D':
        return self->at.dead;
    case 'G':
        return self->at.group;
    case 'C':
        return self->consumer;
    default:
        return word;
    }
}

static void write_right(redis_request *r, const streams *self, const right *one)
{
    size_t count = 0;
    while (count < RIGHTS_WORDS && one->words[count])
        count++;
    redis_begin(r, count);
    for (size_t i = 0; i < count; i++)
        redis_word_z(r, word_of(self, one->words[i]));
}

semel_status stream_check_rights(streams *self, semel_error *err)
{
    redis_request r = {.doing = "looking at rights"};
    redis_answer answer;
    for (size_t i = 0; i < RIGHTS; i++)
        if (!rights[i].of_group ||
            (self->at.group && rights[i].of_group <= 1 + self->at.single_active))
            write_right(&r, self, &rights[i]);
    semel_status status = redis_exchange(&self->client, &r, &answer, err);
    if (status)
        return status;
    for (size_t i = 0; !status && i < answer.count; i++)
        if (redis_is_error(answer.replies[i], "NOPERM"))
            status = redis_fail(&self->client, answer.replies[i], r.doing, err);
    redis_answer_free(&answer);
    return status;
}

/* --- making and looking ----------------------------------------------------------------------- */

semel_status stream_group_declare(streams *self, semel_error *err)
{
    redis_request r = {.doing = "making the group", .durable = 1};
    redis_answer answer;
    redis_begin(&r, 6);
    redis_word_z(&r, "XGROUP");
    redis_word_z(&r, "CREATE");
    redis_word_z(&r, self->at.stream);
    redis_word_z(&r, self->at.group);
    redis_word_z(&r, "0");
    redis_word_z(&r, "MKSTREAM");
    semel_status status = redis_exchange(&self->client, &r, &answer, err);
    if (status)
        return status;
    const redisReply *reply = answer.replies[0];
    if (reply->type == REDIS_REPLY_ERROR && !redis_is_error(reply, "BUSYGROUP"))
        status = redis_fail(&self->client, reply, r.doing, err);
    else if (answer.count > 1)
        status = redis_check_wait(&self->client, answer.replies[1], err);
    redis_answer_free(&answer);
    return status;
}

typedef struct look {
    long long groups; /* -1: there is no stream */
    int found;
    long long removed; /* entries that the group never saw */
} look;

static semel_status look_at(look *out, streams *self, semel_error *err)
{
    redis_request r = stream_request(self, STREAM_LOOK, "looking at the stream");
    redis_answer answer;
    redis_word_z(&r, self->at.group);
    semel_status status = redis_exchange(&self->client, &r, &answer, err);
    if (status)
        return status;
    const redisReply *reply = answer.replies[0];
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3)
        status = semel_fail(err, SEMEL_ETRANSPORT,
                            "redis stream, %s: an answer that no script of semel gives", r.doing);
    else
        *out = (look){reply->element[0]->integer, reply->element[1]->integer == 1,
                      reply->element[2]->integer};
    redis_answer_free(&answer);
    return status;
}

static void add_loss(streams *self, const char *sentence)
{
    size_t len = strlen(self->losses);
    (void)snprintf(self->losses + len, sizeof self->losses - len, "%s%s", len ? "\n" : "",
                   sentence);
}

static void write_losses(streams *self, const look *seen)
{
    char text[STREAM_LOSSES_ROOM / 2];
    if (seen->removed > 0) {
        (void)snprintf(text, sizeof text,
                       "stream %s: %lld entries were removed before group %s has read them; does "
                       "another program trim it (MAXLEN, XTRIM)?",
                       self->at.stream, seen->removed, self->at.group);
        add_loss(self, text);
    }
    if (seen->groups > 1 && self->at.keep == STREAM_KEEP_NONE) {
        (void)snprintf(text, sizeof text,
                       "stream %s: keep=no: what group %s acknowledges is removed, though %lld "
                       "other groups may not have read it; keep=auto removes nothing then",
                       self->at.stream, self->at.group, seen->groups - 1);
        add_loss(self, text);
    }
}

static semel_status fail_missing(const streams *self, const look *seen, semel_error *err)
{
    int no_stream = seen->groups < 0;
    (void)semel_fail(err, SEMEL_ETRANSPORT,
                     "redis stream: %s %s, so there is nothing to receive from; declare=yes makes "
                     "it",
                     no_stream ? "there is no stream" : "the stream has no group",
                     no_stream ? self->at.stream : self->at.group);
    if (err)
        err->native = NOT_FOUND;
    return SEMEL_ETRANSPORT;
}

semel_status stream_group_open(streams *self, semel_error *err)
{
    look seen = {0};
    semel_status status = self->at.declare ? stream_group_declare(self, err) : SEMEL_OK;
    if (!status)
        status = look_at(&seen, self, err);
    if (status)
        return status;
    if (!seen.found)
        return fail_missing(self, &seen, err);
    write_losses(self, &seen);
    return SEMEL_OK;
}

void stream_group_clean(streams *self, int closing)
{
    redis_request r = stream_request(self, STREAM_CLEAN, "removing old names");
    redis_answer answer;
    redis_word_z(&r, self->at.group);
    redis_word_z(&r, closing ? self->consumer : "");
    redis_word_z(&r, "semel-");
    redis_word_number(&r, FORGOTTEN_MS);
    if (!redis_exchange(&self->client, &r, &answer, NULL))
        redis_answer_free(&answer);
}

/* --- counting --------------------------------------------------------------------------------- */

semel_status stream_depth(void *transport, uint64_t *ready, semel_error *err)
{
    streams *self = transport;
    redis_answer answer;
    if (!self->at.group)
        return semel_fail(err, SEMEL_EMISUSE,
                          "this URL names no group=, so there is nothing to count");
    redis_request r = stream_request(self, STREAM_DEPTH, "counting");
    redis_word_z(&r, self->at.group);
    redis_word_number(&r, self->at.claim_ms);
    semel_status status = redis_exchange(&self->client, &r, &answer, err);
    if (status)
        return stream_outage(status, err);
    const redisReply *reply = answer.replies[0];
    if (reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0)
        *ready = (uint64_t)reply->integer;
    else
        status = semel_fail(err, SEMEL_ETRANSPORT, "redis stream: group %s is no longer there",
                            self->at.group);
    redis_answer_free(&answer);
    return status;
}
