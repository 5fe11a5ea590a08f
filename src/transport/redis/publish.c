/* Publishing: one script adds the messages of a call, in their order, or none of them. So a
 * message that failed is followed by no other of its group. A call that is too large for one script
 * is cut; the next part is sent when the one before it was confirmed.
 *
 * What is no message by the rules of message.h is refused; what stands behind it in the call was
 * not tried, as behind any other failure.
 *
 * If the process dies, or the answer is lost, the messages are in the stream or not: the results
 * stay UNKNOWN, the relay sends them again, and the inbox knows copies. */
#include "base/message.h"
#include "base/wait.h"
#include "transport/redis/entry.h"
#include "transport/redis/streams.h"

enum { PART_MESSAGES = 1000, PART_BYTES = 8 << 20 };

typedef struct publishing {
    streams *self;
    semel_publish_result *results;
    const semel_message *const *messages;
    size_t count;
    int64_t until_ms;
    semel_meanwhile *meanwhile; /* NULL: nothing to do, or done */
    void *context;
} publishing;

/* 0: the first of them is no message. */
static size_t part_size(const publishing *p, size_t from)
{
    size_t size = 0, at = from;
    while (at < p->count && at - from < PART_MESSAGES && !message_check(p->messages[at], NULL)) {
        size += stream_entry_size(p->messages[at]);
        if (size > PART_BYTES && at > from)
            break;
        at++;
    }
    return at - from;
}

/* From 0 on so many were added; the script stops at the first that no stream takes. */
static semel_status read_answer(publishing *p, size_t from, size_t size, const redis_answer *answer,
                                semel_error *err)
{
    const redisReply *reply = answer->replies[0];
    semel_publish_result rest = SEMEL_PUBLISH_NACKED;
    if (reply->type != REDIS_REPLY_INTEGER || reply->integer > (long long)size)
        return semel_fail(err, SEMEL_ETRANSPORT,
                          "redis stream, publishing: an answer that no script of semel gives");
    size_t added = reply->integer > 0 ? (size_t)reply->integer : 0;
    if (reply->integer < 0)
        rest = SEMEL_PUBLISH_UNROUTABLE;
    if (added && answer->count > 1) {
        semel_status status = redis_check_wait(&p->self->client, answer->replies[1], err);
        if (status)
            return status;
    }
    for (size_t i = 0; i < size; i++)
        p->results[from + i] = i < added ? SEMEL_PUBLISH_CONFIRMED : rest;
    return SEMEL_OK;
}

static semel_status send_part(publishing *p, size_t from, size_t size, semel_error *err)
{
    redis_request r = stream_request(p->self, STREAM_PUBLISH, "publishing");
    redis_answer answer;
    int64_t left_ms = p->until_ms - wait_clock_ms();
    for (size_t i = 0; i < size; i++)
        stream_entry_write(&r, p->messages[from + i]);
    r.writes = 1;
    r.durable = 1;
    r.answer_ms = left_ms > 1 ? (uint32_t)left_ms : 1;
    r.meanwhile = p->meanwhile;
    r.context = p->context;
    semel_status status = redis_exchange(&p->self->client, &r, &answer, err);
    p->meanwhile = r.meanwhile;
    if (status)
        return status;
    status = read_answer(p, from, size, &answer, err);
    redis_answer_free(&answer);
    return status;
}

static int is_confirmed(const publishing *p, size_t from, size_t size)
{
    return p->results[from + size - 1] == SEMEL_PUBLISH_CONFIRMED;
}

/* What follows a failure was not tried. */
static void give_up(publishing *p, size_t from, semel_publish_result result)
{
    for (size_t i = from; i < p->count; i++)
        p->results[i] = result;
}

static semel_status send_all(publishing *p, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t from = 0, size; !status && from < p->count; from += size) {
        size = part_size(p, from);
        if (!size) {
            p->results[from] = SEMEL_PUBLISH_REFUSED;
            give_up(p, from + 1, SEMEL_PUBLISH_NACKED);
            break;
        }
        status = send_part(p, from, size, err);
        if (!status && !is_confirmed(p, from, size)) { /* without a queue there is none for all */
            give_up(p, from + size, p->results[from + size - 1]);
            break;
        }
    }
    return status;
}

semel_status stream_publish_while(void *transport, semel_publish_result results[],
                                  const semel_message *const messages[], size_t count,
                                  uint32_t wait_ms, semel_meanwhile *meanwhile, void *context,
                                  semel_error *err)
{
    publishing p = {.self = transport,
                    .results = results,
                    .messages = messages,
                    .count = count,
                    .until_ms = wait_clock_ms() + wait_ms,
                    .meanwhile = meanwhile,
                    .context = context};
    for (size_t i = 0; i < count; i++)
        results[i] = SEMEL_PUBLISH_UNKNOWN;
    semel_status status = send_all(&p, err);
    if (p.meanwhile)
        p.meanwhile(context);
    return stream_outage(status, err);
}

semel_status stream_publish(void *transport, semel_publish_result results[],
                            const semel_message *const messages[], size_t count, uint32_t wait_ms,
                            semel_error *err)
{
    return stream_publish_while(transport, results, messages, count, wait_ms, NULL, NULL, err);
}
