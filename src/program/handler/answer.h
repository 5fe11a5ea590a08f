/* What a handler outside semel answers: an exec handler with `output: answer` on stdout, a worker
 * on each line, an http handler in its response.
 *
 *     {"status": "done", "result": {"invoice": 17},
 *      "send": [{"to": "shipping", "type": "order.paid", "body": {"order": 1042}}]}
 *
 *     status  done (the default), retry, or dead: no further attempt. SUCCESS, RETRY and DROP mean
 *             the same
 *     error   why, for retry and dead: a text
 *     result  any JSON value, which is stored with the key as it is written; null: none
 *     send    a list of messages, which are sent if and only if the completion commits:
 *               to        a queue that has an outbox of the same name
 *               type      of the message
 *               id        default: made from the received message and the place in the list, so
 *                         that a repetition of the work has the same
 *               topic     default: that of the queue (topic.h)
 *               group, source, correlation_id, content_type
 *               headers   an object of texts
 *               body      any JSON value, sent as it is written; or body_text, or body_base64
 *     id      of the message that is answered, as it was in the request: an answer with another id
 *             is refused. A worker should repeat it
 *
 * An unknown member, or the same one twice, is an error: a typing mistake must not lose a message.
 * Errors name members and never show what is in them. */
#ifndef SEMEL_PROGRAM_HANDLER_ANSWER_H
#define SEMEL_PROGRAM_HANDLER_ANSWER_H

#include "program/config/config.h"
#include "program/support/memory.h"

enum { ANSWER_DEPTH_MAX = 64, ANSWER_SENDS_MAX = 1000, ANSWER_ERROR_MAX = 300 };

typedef enum answer_status { ANSWER_DONE = 0, ANSWER_RETRY, ANSWER_DEAD } answer_status;

typedef struct answer_send {
    const char *to;
    semel_message message; /* id and topic may be missing */
} answer_send;

typedef struct answer {
    region memory; /* of what is below; the result and bodies in JSON are pieces of the text */
    answer_status status;
    const char *error; /* in one line, escaped; NULL: none */
    semel_bytes result;
    const char *id; /* NULL: not said */
    answer_send *sends;
    size_t send_count;
} answer;

/* The text, whose size the caller has bounded, must outlive the answer. SEMEL_EHANDLER if it is no
 * answer. The caller frees an answer that was read. */
semel_status answer_parse(answer *out, semel_bytes text, semel_error *err);
void answer_free(answer *a);

/* Does what the answer says: queues its messages and stores its result for SEMEL_OK; SEMEL_EHANDLER
 * for retry, SEMEL_EGIVEUP for dead. The result is the handler's. A message to a queue that has no
 * outbox is SEMEL_EHANDLER: nothing of the answer is kept, and another attempt may find it
 * repaired. */
semel_status answer_apply(const answer *a, semel_unit *unit, const config *all, semel_error *err);

#endif
