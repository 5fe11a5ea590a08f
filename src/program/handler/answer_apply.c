/* See answer.h: doing what an answer says. Messages and result are only queued in the unit; they
 * are stored by the transaction that completes the claim, and if the process dies before, none of
 * them exists and the handler is called again. */
#include "program/handler/answer.h"

#include "program/handler/topic.h"

#include <semel/semel.h>
#include <string.h>

/* Not the form of the ids that the `send` of a configuration makes: an inbox may have both. */
static semel_status default_id(semel_bytes *out, region *memory, const semel_unit *unit,
                               size_t number, semel_error *err)
{
    char key[SEMEL_IDEMPOTENCY_KEY_SIZE];
    semel_status status = semel_unit_idempotency_key(key, unit, err);
    if (status == SEMEL_ENOTFOUND)
        return SEMEL_OK; /* without a key nothing is recognized anyway: it gets a new id */
    if (!status)
        *out = semel_str(region_printf(memory, "%s-answer-%zu", key, number));
    return status;
}

static semel_status send_one(const answer_send *one, size_t number, region *memory,
                             semel_unit *unit, const config *all, semel_error *err)
{
    semel_message message = one->message;
    semel_outbox *outbox = semel_unit_outbox(unit, one->to);
    if (!outbox)
        return semel_fail(err, SEMEL_EHANDLER,
                          "the answer sends message %zu to a queue that has no outbox", number);
    if (!message.topic)
        message.topic = topic_of_queue(memory, all, one->to);
    if (!message.topic)
        message.topic = message.type;
    semel_status status =
        message.id.len ? SEMEL_OK : default_id(&message.id, memory, unit, number, err);
    return status ? status : semel_unit_send(unit, outbox, &message, err);
}

static semel_status complete(const answer *a, semel_unit *unit, const config *all, semel_error *err)
{
    region memory = {0};
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < a->send_count; i++)
        status = send_one(&a->sends[i], i + 1, &memory, unit, all, err);
    if (!status && a->result.data)
        status = semel_unit_set_result(unit, a->result.data, a->result.len, err);
    region_free(&memory);
    return status;
}

semel_status answer_apply(const answer *a, semel_unit *unit, const config *all, semel_error *err)
{
    switch (a->status) {
    case ANSWER_RETRY:
        return semel_fail(err, SEMEL_EHANDLER, "%s", a->error ? a->error : "asked for a retry");
    case ANSWER_DEAD:
        return semel_fail(err, SEMEL_EGIVEUP, "%s",
                          a->error ? a->error : "asked to be called no more");
    case ANSWER_DONE:
        break;
    }
    return complete(a, unit, all, err);
}
