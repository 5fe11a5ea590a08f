/* The same work by hand on hiredis, as a careful programmer writes it: XADD in a pipeline,
 * XREADGROUP with a count, XACK and XDEL. A connection that asks one command at a time would wait
 * for the disk each time. What is refused ends the program.
 *
 * A place is a stream of its name, with a group of the same name. There is no feeding of one stream
 * by another. */
#include "broker.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

enum { HOST_ROOM = 128, PATIENCE_S = 60 };

struct broker {
    redisContext *on;
    char place[64]; /* that is consumed */
    redisReply *reply;
    size_t taken, room;
    semel_message *messages;
    const semel_message **pointers;
    const char **entries; /* their ids */
};

static redisReply *must_answer(broker *b, void *reply)
{
    redisReply *answer = reply;
    if (!answer)
        die("redis: %s", b->on->errstr);
    if (answer->type == REDIS_REPLY_ERROR)
        die("redis: %s", answer->str);
    return answer;
}

static redisReply *next_answer(broker *b)
{
    void *reply = NULL;
    if (redisGetReply(b->on, &reply) != REDIS_OK)
        die("redis: %s", b->on->errstr);
    return must_answer(b, reply);
}

/* --- connection ------------------------------------------------------------------------------- */

/* redis://user:password@host:port/database */
static broker *redis_open(const char *url)
{
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    char password[HOST_ROOM] = "", host[HOST_ROOM] = "";
    unsigned port = 0;
    broker *b = must_alloc(sizeof *b);
    if (sscanf(url, "%*[^:]://%*[^:]:%127[^@]@%127[^:]:%u", password, host, &port) != 3)
        die("redis: this URL has no user, password, host and port");
    b->on = redisConnectWithTimeout(host, (int)port, patience);
    if (!b->on || b->on->err)
        die("redis: %s", b->on ? b->on->errstr : "out of memory");
    freeReplyObject(must_answer(b, redisCommand(b->on, "AUTH %s", password)));
    return b;
}

static void redis_close(broker *b)
{
    freeReplyObject(b->reply);
    redisFree(b->on);
    free(b->messages);
    free((void *)b->pointers);
    free((void *)b->entries);
    free(b);
}

static void redis_version(broker *b, char out[32])
{
    redisReply *reply = must_answer(b, redisCommand(b->on, "INFO server"));
    const char *at = strstr(reply->str, "redis_version:");
    if (at)
        snprintf(out, 32, "%.*s", (int)strcspn(at + 14, "\r\n"), at + 14);
    freeReplyObject(reply);
}

/* --- places ----------------------------------------------------------------------------------- */

static void redis_remove(broker *b, const char *place)
{
    freeReplyObject(must_answer(b, redisCommand(b->on, "DEL %s", place)));
}

static void redis_make(broker *b, const char *place, const char *queue)
{
    (void)queue;
    redis_remove(b, place);
    freeReplyObject(
        must_answer(b, redisCommand(b->on, "XGROUP CREATE %s %s 0 MKSTREAM", place, place)));
}

static void redis_empty(broker *b, const char *place)
{
    redis_make(b, place, "");
}

static void redis_place_url(char out[1024], const char *server_url, const char *place,
                            const char *queue, size_t prefetch)
{
    (void)queue;
    int len = snprintf(out, 1024, "%s?stream=%s", server_url, place);
    if (prefetch && len > 0 && len < 1024)
        snprintf(out + len, 1024 - (size_t)len, "&group=%s", place);
}

/* --- publishing ------------------------------------------------------------------------------- */

static void publish(broker *b, const char *place, const semel_message *message)
{
    if (redisAppendCommand(
            b->on, "XADD %s NOMKSTREAM * id %b type %s subject %s time_ms %lld data %b", place,
            message->id.data, message->id.len, message->type, message->topic,
            (long long)message->time_ms, message->body.data, message->body.len) != REDIS_OK)
        die("redis: %s", b->on->errstr);
}

static void confirm(broker *b)
{
    redisReply *reply = next_answer(b);
    if (reply->type != REDIS_REPLY_STRING)
        die("redis: an entry was not added");
    freeReplyObject(reply);
}

/* hiredis writes all that is there before it waits for an answer. */
static void publish_window(broker *b, const char *place, const semel_message *const messages[],
                           size_t count, size_t outstanding)
{
    size_t sent = 0;
    for (size_t confirmed = 0; confirmed < count; confirmed++) {
        while (sent < count && sent - confirmed < outstanding)
            publish(b, place, messages[sent++]);
        confirm(b);
    }
}

static void publish_batches(broker *b, const char *place, const semel_message *const messages[],
                            size_t count, size_t outstanding)
{
    for (size_t i = 0; i < count;) {
        size_t from = i;
        for (; i < count && i < from + outstanding; i++)
            publish(b, place, messages[i]);
        for (; from < i; from++)
            confirm(b);
    }
}

/* --- consuming -------------------------------------------------------------------------------- */

static void redis_consume(broker *b, const char *place, size_t prefetch)
{
    (void)prefetch;
    snprintf(b->place, sizeof b->place, "%s", place);
}

static void reserve(broker *b, size_t count)
{
    free(b->messages);
    free((void *)b->pointers);
    free((void *)b->entries);
    b->messages = must_alloc(count * sizeof *b->messages);
    b->pointers = must_alloc(count * sizeof(semel_message *));
    b->entries = must_alloc((count + 3) * sizeof(char *));
    b->room = count;
}

static void keep(broker *b, const redisReply *entry)
{
    const redisReply *fields = entry->element[1];
    semel_message *message = &b->messages[b->taken];
    *message = (semel_message){.size = sizeof *message};
    for (size_t i = 0; i + 1 < fields->elements; i += 2) {
        const redisReply *value = fields->element[i + 1];
        semel_bytes bytes = {value->str, value->len};
        if (strcmp(fields->element[i]->str, "id") == 0)
            message->id = bytes;
        else if (strcmp(fields->element[i]->str, "data") == 0)
            message->body = bytes;
    }
    b->entries[b->taken] = entry->element[0]->str;
    b->pointers[b->taken++] = message;
}

/* All of them in one answer: they are published before. */
static const semel_message *const *redis_take(broker *b, size_t count)
{
    if (b->taken)
        die("redis: the last deliveries are not acknowledged yet");
    if (count > b->room)
        reserve(b, count);
    b->reply = must_answer(
        b, redisCommand(b->on, "XREADGROUP GROUP %s by-hand COUNT %lu BLOCK %d STREAMS %s >",
                        b->place, (unsigned long)count, PATIENCE_S * 500, b->place));
    if (b->reply->type != REDIS_REPLY_ARRAY)
        die("redis: nothing comes");
    const redisReply *entries = b->reply->element[0]->element[1];
    if (entries->elements != count)
        die("redis: %zu entries in place of %zu", entries->elements, count);
    for (size_t i = 0; i < count; i++)
        keep(b, entries->element[i]);
    return b->pointers;
}

static void forget_taken(broker *b)
{
    freeReplyObject(b->reply);
    b->reply = NULL;
    b->taken = 0;
}

/* In a pipeline, as a library would that acknowledges in the background. */
static void ack_each(broker *b)
{
    for (size_t i = 0; i < b->taken; i++) {
        redisAppendCommand(b->on, "XACK %s %s %s", b->place, b->place, b->entries[i]);
        redisAppendCommand(b->on, "XDEL %s %s", b->place, b->entries[i]);
    }
    for (size_t i = 0; i < 2 * b->taken; i++)
        freeReplyObject(next_answer(b));
    forget_taken(b);
}

static void ask_for_all(broker *b, const char *const head[], size_t words)
{
    const char **all = must_alloc((b->taken + words) * sizeof(char *));
    memcpy((void *)all, (const void *)head, words * sizeof(char *));
    memcpy((void *)(all + words), (const void *)b->entries, b->taken * sizeof(char *));
    redisAppendCommandArgv(b->on, (int)(b->taken + words), all, NULL);
    free((void *)all);
}

static void ack_together(broker *b)
{
    ask_for_all(b, (const char *const[]){"XACK", b->place, b->place}, 3);
    ask_for_all(b, (const char *const[]){"XDEL", b->place}, 2);
    freeReplyObject(next_answer(b));
    freeReplyObject(next_answer(b));
    forget_taken(b);
}

/* --- the table -------------------------------------------------------------------------------- */

static const char *const queues[] = {"", NULL};

const broker_kind redis_broker = {.name = "Redis Streams",
                                  .server = "redis",
                                  .queues = queues,
                                  .open = redis_open,
                                  .close = redis_close,
                                  .version = redis_version,
                                  .make = redis_make,
                                  .empty = redis_empty,
                                  .remove = redis_remove,
                                  .url = redis_place_url,
                                  .publish_window = publish_window,
                                  .publish_batches = publish_batches,
                                  .consume = redis_consume,
                                  .take = redis_take,
                                  .ack_each = ack_each,
                                  .ack_together = ack_together};
