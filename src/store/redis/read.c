/* get(), scan() and count(): one round trip each. */
#include "store/redis/redis.h"

#include <string.h>

static semel_status damaged(const char *doing, semel_error *err)
{
    return semel_fail(err, SEMEL_ESTORE, "redis, %s: an answer that does not fit the question",
                      doing);
}

/* head, value and, if wanted, body */
static semel_status show(semel_bytes space, semel_bytes key, redisReply *const fields[], int bodies,
                         semel_keyed_sink *sink, void *context, semel_error *err)
{
    semel_keyed_record record = {.space = space, .key = key};
    semel_status status = redis_head_read(&record, fields[0], err);
    if (status)
        return status;
    record.value = redis_reply_bytes(fields[1]);
    if (bodies)
        record.body = redis_reply_bytes(fields[2]);
    return sink(&record, context, err);
}

/* --- by keys ---------------------------------------------------------------------------------- */

static void write_get(redis_request *r, redis_store *store, semel_bytes space, semel_bytes key,
                      int bodies)
{
    redis_begin(r, bodies ? 5 : 4);
    redis_word_z(r, "HMGET");
    redis_record_word(store, r, space, key);
    redis_word_z(r, "h");
    redis_word_z(r, "d");
    if (bodies)
        redis_word_z(r, "b");
}

static semel_status show_found(const redis_store *store, semel_bytes space,
                               const semel_bytes keys[], const redis_answer *answer, int bodies,
                               semel_keyed_sink *sink, void *context, semel_error *err)
{
    semel_status status = SEMEL_OK;
    size_t fields = bodies ? 3 : 2;
    for (size_t i = 0; !status && i < answer->count; i++) {
        const redisReply *reply = answer->replies[i];
        if (reply->type == REDIS_REPLY_ERROR)
            status = redis_fail(&store->client, reply, "reading", err);
        else if (reply->type != REDIS_REPLY_ARRAY || reply->elements != fields)
            status = damaged("reading", err);
        else if (reply->element[0]->type != REDIS_REPLY_NIL)
            status = show(space, keys[i], reply->element, bodies, sink, context, err);
    }
    return status;
}

semel_status redis_get(void *state, semel_bytes space, const semel_bytes keys[], size_t count,
                       int bodies, semel_keyed_sink *sink, void *context, semel_error *err)
{
    redis_store *store = state;
    redis_request r = {.doing = "reading"};
    redis_answer answer;
    if (!count)
        return SEMEL_OK;
    for (size_t i = 0; i < count; i++)
        write_get(&r, store, space, keys[i], bodies);
    semel_status status = redis_exchange(&store->client, &r, &answer, err);
    if (status)
        return status;
    status = show_found(store, space, keys, &answer, bodies, sink, context, err);
    redis_answer_free(&answer);
    return status;
}

/* --- in order --------------------------------------------------------------------------------- */

/* A bound that is not included; "-" or "+" where there is none. */
static void write_bound(redis_request *r, semel_bytes bound, const char *without)
{
    if (!bound.len) {
        redis_word_z(r, without);
        return;
    }
    redis_word_len(r, bound.len + 1);
    redis_word_part(r, "(", 1);
    redis_word_part(r, bound.data, bound.len);
    redis_word_end(r);
}

static void write_scan(redis_request *r, redis_store *store, const semel_keyed_range *range)
{
    redis_word_number(r, 1);
    redis_index_word(store, r, range->space);
    redis_word_z(r, range->descending ? "d" : "a");
    write_bound(r, range->after, range->descending ? "+" : "-");
    write_bound(r, range->until, range->descending ? "-" : "+");
    redis_word_number(r, range->limit);
    redis_word_z(r, range->bodies ? "1" : "0");
}

static semel_status show_page(const semel_keyed_range *range, const redisReply *reply,
                              semel_keyed_sink *sink, void *context, semel_error *err)
{
    semel_status status = SEMEL_OK;
    size_t fields = range->bodies ? 4 : 3;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 ||
        (reply->elements - 2) % fields != 0)
        return damaged("reading a range", err);
    for (size_t i = 2; !status && i < reply->elements; i += fields)
        status = show(range->space, redis_reply_bytes(reply->element[i]), reply->element + i + 1,
                      range->bodies, sink, context, err);
    return status;
}

semel_status redis_scan(void *state, const semel_keyed_range *range, semel_keyed_sink *sink,
                        void *context, semel_error *err)
{
    redis_store *store = state;
    redis_request r = {.doing = "reading a range", .script = &store->scripts[SCRIPT_SCAN]};
    redis_answer answer;
    write_scan(&r, store, range);
    semel_status status = redis_exchange(&store->client, &r, &answer, err);
    if (status)
        return status;
    redis_learn_time(store, &answer, answer.replies[0]);
    status = show_page(range, answer.replies[0], sink, context, err);
    redis_answer_free(&answer);
    return status;
}

semel_status redis_count(void *state, semel_bytes space, uint64_t *out, semel_error *err)
{
    redis_store *store = state;
    redis_request r = {.doing = "counting"};
    redis_answer answer;
    redis_begin(&r, 2);
    redis_word_z(&r, "ZCARD");
    redis_index_word(store, &r, space);
    semel_status status = redis_exchange(&store->client, &r, &answer, err);
    if (status)
        return status;
    const redisReply *reply = answer.replies[0];
    if (reply->type == REDIS_REPLY_INTEGER)
        *out = (uint64_t)reply->integer;
    else
        status = reply->type == REDIS_REPLY_ERROR
                     ? redis_fail(&store->client, reply, "counting", err)
                     : damaged("counting", err);
    redis_answer_free(&answer);
    return status;
}
