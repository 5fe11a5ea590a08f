/* Requests as bytes, and what is the same in all answers. */
#include "redis/client.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void write_count(text_buffer *out, char mark, size_t count)
{
    char line[32];
    size_t at = sizeof line;
    line[--at] = '\n';
    line[--at] = '\r';
    do
        line[--at] = (char)('0' + count % 10);
    while (count /= 10);
    line[--at] = mark;
    text_append(out, line + at, sizeof line - at);
}

void redis_begin(redis_request *r, size_t arguments)
{
    write_count(&r->bytes, '*', arguments);
    r->replies++;
}

void redis_word_len(redis_request *r, size_t len)
{
    write_count(&r->bytes, '$', len);
    r->arguments++;
}

void redis_word_part(redis_request *r, const void *data, size_t len)
{
    text_append(&r->bytes, data, len);
}

void redis_word_end(redis_request *r)
{
    text_append(&r->bytes, "\r\n", 2);
}

void redis_word(redis_request *r, const void *data, size_t len)
{
    redis_word_len(r, len);
    redis_word_part(r, data, len);
    redis_word_end(r);
}

void redis_word_z(redis_request *r, const char *text)
{
    redis_word(r, text, strlen(text));
}

void redis_word_number(redis_request *r, int64_t number)
{
    char digits[32];
    int len = snprintf(digits, sizeof digits, "%" PRId64, number);
    redis_word(r, digits, (size_t)len);
}

semel_bytes redis_reply_bytes(const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_STRING)
        return (semel_bytes){NULL, 0};
    return (semel_bytes){reply->str, reply->len};
}

/* The answer of WAIT is a number of replicas, that of WAITAOF has "on this server's disk" before
 * it. */
semel_status redis_check_wait(const redis_client *client, const redisReply *reply, semel_error *err)
{
    const char *title = client->role->title;
    long long here = 1, replicas = 0;
    if (reply->type == REDIS_REPLY_ERROR)
        return semel_fail(err, SEMEL_EUNKNOWN,
                          "%s, writing: written, but it cannot be waited for: %.*s", title,
                          (int)strcspn(reply->str, "\r\n"), reply->str);
    if (reply->type == REDIS_REPLY_INTEGER) {
        replicas = reply->integer;
    } else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2) {
        here = reply->element[0]->integer;
        replicas = reply->element[1]->integer;
    }
    if (here >= 1 && replicas >= (long long)client->at->replicas)
        return SEMEL_OK;
    return semel_fail(
        err, SEMEL_EUNKNOWN,
        "%s, writing: written, but not stored in time: %s, and %lld of %u replicas have it", title,
        here ? "it is on the server's disk" : "it is not on the server's disk", replicas,
        client->at->replicas);
}
