/* See stream_kit.h. */
#include "stream_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the client ------------------------------------------------------------------------------- */

void kit_reconnect(stream_kit *kit)
{
    redisFree(kit->other);
    kit->other = redisConnect(kit->server.host, (int)kit->server.port);
    assert_true(kit->other && !kit->other->err);
    freeReplyObject(redisCommand(kit->other, "AUTH semel"));
}

static redisReply *ask(stream_kit *kit, const char *format, va_list words)
{
    redisReply *reply = redisvCommand(kit->other, format, words);
    if (!reply)
        fail_msg("%s: %s", format, kit->other->errstr);
    return reply;
}

redisReply *kit_ask(stream_kit *kit, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    redisReply *reply = ask(kit, format, words);
    va_end(words);
    return reply;
}

long long kit_number(stream_kit *kit, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    redisReply *reply = ask(kit, format, words);
    va_end(words);
    if (reply->type != REDIS_REPLY_INTEGER)
        fail_msg("%s: %s", format, reply->str ? reply->str : "no number");
    long long number = reply->integer;
    freeReplyObject(reply);
    return number;
}

void kit_do(stream_kit *kit, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    redisReply *reply = ask(kit, format, words);
    va_end(words);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", format, reply->str);
    freeReplyObject(reply);
}

long long kit_length(stream_kit *kit)
{
    return kit_number(kit, "XLEN %s", kit->stream);
}

long long kit_dead(stream_kit *kit)
{
    return kit_number(kit, "XLEN {%s}:dead", kit->stream);
}

long long kit_pending(stream_kit *kit)
{
    redisReply *reply = kit_ask(kit, "XPENDING %s g", kit->stream);
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    long long count = reply->element[0]->integer;
    freeReplyObject(reply);
    return count;
}

void kit_pass_ms(stream_kit *kit, int64_t ms)
{
    static const char script[] =
        "for _, g in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do"
        " for _, p in ipairs(redis.call('XPENDING', KEYS[1], g[2], '-', '+', 10000)) do"
        "  redis.call('XCLAIM', KEYS[1], g[2], p[2], 0, p[1], 'IDLE', p[3] + ARGV[1], 'JUSTID')"
        " end end";
    char digits[32];
    (void)snprintf(digits, sizeof digits, "%lld", (long long)ms);
    kit_do(kit, "EVAL %s 1 %s %s", script, kit->stream, digits);
}

/* --- the stream ------------------------------------------------------------------------------- */

char *kit_url(char out[SERVER_URL_ROOM], const stream_kit *kit, const char *parameters)
{
    int len = snprintf(out, SERVER_URL_ROOM, "%s?stream=%s%s%s", kit->server.url, kit->stream,
                       *parameters ? "&" : "", parameters);
    assert_in_range(len, 1, SERVER_URL_ROOM - 1);
    return out;
}

semel_transport *kit_connect(const stream_kit *kit, const char *parameters)
{
    char url[SERVER_URL_ROOM];
    semel_transport *transport = NULL;
    OK(semel_transport_open(&transport, kit_url(url, kit, parameters), NULL, &last_error));
    return transport;
}

void kit_open(stream_kit *kit, const server_place *at, const char *parameters)
{
    static unsigned number;
    *kit = (stream_kit){0};
    if (at)
        kit->server = *at;
    else
        server_find(&kit->server, SERVER_REDIS);
    (void)snprintf(kit->stream, sizeof kit->stream, "stream-%ld-%u", (long)getpid(), ++number);
    kit_reconnect(kit);
    if (!parameters)
        return;
    kit_url(kit->url, kit, parameters);
    OK(semel_transport_open(&kit->transport, kit->url, NULL, &last_error));
}

void kit_close(stream_kit *kit)
{
    semel_transport_close(kit->transport);
    kit_do(kit, "DEL %s", kit->stream);
    kit_do(kit, "DEL {%s}:dead", kit->stream);
    redisFree(kit->other);
}

/* --- messages --------------------------------------------------------------------------------- */

void kit_send(stream_kit *kit, const char *id)
{
    semel_message message = text_message(id, "10 EUR");
    const semel_message *pointer = &message;
    semel_publish_result result = SEMEL_PUBLISH_UNKNOWN;
    OK(semel_transport_publish(&result, kit->transport, &pointer, 1, KIT_WAIT_MS, &last_error));
    assert_int_equal(result, SEMEL_PUBLISH_CONFIRMED);
}

semel_delivery kit_take(semel_transport *transport, const char *id)
{
    semel_delivery one;
    size_t got = 0;
    OK(semel_transport_receive(transport, &one, 1, &got, KIT_WAIT_MS, &last_error));
    assert_int_equal(got, 1);
    BYTES_EQUAL(semel_str(id), one.message->id);
    return one;
}

void kit_expect_nothing(semel_transport *transport)
{
    semel_delivery one;
    size_t got = 9;
    OK(semel_transport_receive(transport, &one, 1, &got, KIT_GONE_MS, &last_error));
    assert_int_equal(got, 0);
}

semel_status kit_settle(semel_transport *transport, semel_delivery one, semel_verdict verdict,
                        uint32_t delay_ms)
{
    semel_delivery_settlement settle = {one.tag, verdict, delay_ms};
    return semel_transport_settle(transport, &settle, 1, &last_error);
}

const semel_transport_driver *kit_driver(semel_transport *transport, void **state)
{
    const semel_transport_driver *driver = semel_transport_driver_of(transport);
    *state = semel_transport_state(transport, driver);
    return driver;
}
