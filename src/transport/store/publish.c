/* Publishing: one unit for all, so that all or none is in the queue. Only a store that limits the
 * changes of a unit has them in several, in their order, up to the first that fails. */
#include "transport/store/queue.h"

#include "base/due.h"
#include "base/message.h"
#include "base/uuid.h"

#include <string.h>

typedef struct queue_batch {
    const semel_message *const *messages;
    size_t count;
} queue_batch;

static semel_status put_batch(store_queue *queue, work_unit *unit, void *context, semel_error *err)
{
    const queue_batch *batch = context;
    const semel_store_outbox *outbox = queue->store->driver->outbox;
    semel_status status = SEMEL_OK;
    if (outbox->put_many)
        return outbox->put_many(unit->state, queue->scope, batch->messages, batch->count, err);
    for (size_t i = 0; !status && i < batch->count; i++)
        status = outbox->put(unit->state, queue->scope, batch->messages[i], err);
    return status;
}

static semel_status publish_unit(store_queue *queue, semel_publish_result results[],
                                 const semel_message *const messages[], size_t count,
                                 semel_error *err)
{
    static const queue_step step = {put_batch, SEMEL_BEGIN_DURABLE, "publish.stored",
                                    "publish.committed"};
    queue_batch batch = {messages, count};
    semel_status status = queue_transact(queue, &step, &batch, err);
    for (size_t i = 0; !status && i < count; i++)
        results[i] = SEMEL_PUBLISH_CONFIRMED;
    return status;
}

static int same_group(const semel_message *a, const semel_message *b)
{
    return a->group && *a->group && b->group && strcmp(a->group, b->group) == 0;
}

/* 1 if a message of its group was refused before it: what follows must not overtake it. */
static int follows_refused(const semel_publish_result results[],
                           const semel_message *const messages[], size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (results[i] == SEMEL_PUBLISH_REFUSED && same_group(messages[i], messages[at]))
            return 1;
    return 0;
}

/* One of them is more than the store takes, and the others shall not suffer for it. */
static semel_status publish_each(store_queue *queue, semel_publish_result results[],
                                 const semel_message *const messages[], size_t count,
                                 semel_error *err)
{
    int passed_over = 0;
    semel_error limit = {0};
    for (size_t i = 0; i < count; i++) {
        if (follows_refused(results, messages, i)) {
            passed_over = 1;
            continue;
        }
        semel_status status = publish_unit(queue, &results[i], &messages[i], 1, &limit);
        if (status && status != SEMEL_ELIMIT)
            return semel_fail(err, status, "%s", limit.text);
        if (status)
            results[i] = SEMEL_PUBLISH_REFUSED;
    }
    return passed_over ? semel_fail(err, SEMEL_ELIMIT, "%s", limit.text) : SEMEL_OK;
}

static semel_status publish_all(store_queue *queue, semel_publish_result results[],
                                const semel_message *const messages[], size_t count,
                                semel_error *err)
{
    uint32_t max = queue->store->driver->changes_max;
    semel_status status = SEMEL_OK;
    for (size_t at = 0, some; !status && at < count; at += some) {
        some = max && count - at > max ? max : count - at;
        status = publish_unit(queue, results + at, messages + at, some, err);
        if (status == SEMEL_ELIMIT)
            return publish_each(queue, results + at, messages + at, count - at, err);
    }
    return status;
}

static semel_status add_id(semel_message *message, mem_arena *arena, const semel_seam *seam,
                           semel_error *err)
{
    unsigned char noise[10];
    char *id = arena_alloc(arena, UUID_TEXT + 1);
    if (!id)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a message id");
    seam->random(seam->context, noise, sizeof noise);
    uuid_v7(id, seam_wall_ms(seam), noise);
    message->id = (semel_bytes){id, UUID_TEXT};
    return SEMEL_OK;
}

/* As in an outbox: a message needs an id to be kept, and the age of a delayed one counts from its
 * due time. */
static semel_status complete_message(const semel_message **out, mem_arena *arena,
                                     const semel_seam *seam, const semel_message *message,
                                     semel_error *err)
{
    semel_status status = message_check(message, err);
    *out = message;
    if (status || (message->id.len && !message->delay_ms))
        return status;
    semel_message *copy = arena_alloc(arena, sizeof *copy);
    if (!copy)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a message to publish");
    *copy = *message;
    if (copy->delay_ms)
        status = due_set(copy, arena, seam_wall_ms(seam) + copy->delay_ms, err);
    if (!status && !copy->id.len)
        status = add_id(copy, arena, seam, err);
    *out = copy;
    return status;
}

static semel_status complete_all(const semel_message *out[], store_queue *queue, mem_arena *arena,
                                 const semel_message *const messages[], size_t count,
                                 semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < count; i++)
        status = complete_message(&out[i], arena, &queue->store->seam, messages[i], err);
    return status;
}

semel_status queue_publish(void *transport, semel_publish_result results[],
                           const semel_message *const messages[], size_t count, uint32_t wait_ms,
                           semel_error *err)
{
    store_queue *queue = transport;
    mem_arena arena = {0};
    (void)wait_ms; /* the store has its own bounds: busy_ms and answer_ms */
    if (!count)
        return SEMEL_OK;
    const semel_message **complete = arena_alloc(&arena, count * sizeof *complete);
    semel_status status = complete ? complete_all(complete, queue, &arena, messages, count, err)
                                   : semel_fail(err, SEMEL_ENOMEM, "out of memory publishing");
    if (!status) {
        status = publish_all(queue, results, complete, count, err);
        store_wake_scope(queue->store, queue->scope);
    }
    arena_free(&arena);
    return status;
}
