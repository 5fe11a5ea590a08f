/* What a unit sends and queues.
 *
 * Where the store is at hand, it is stored at once. While no transaction is open (claim and
 * queued mode), and where the store is a round trip away, it is kept here, copied, and stored
 * shortly before the commit: if the process dies before that, none of it has happened. */
#include "base/due.h"
#include "base/message.h"
#include "base/trace.h"
#include "base/uuid.h"
#include "core/unit.h"

#include <string.h>

/* --- what waits ------------------------------------------------------------------------------- */

void unit_drop_pending(work_unit *unit)
{
    unit->pending_first = unit->pending_last = NULL;
    unit->statement_first = unit->statement_last = NULL;
}

void unit_count_captured(work_unit *unit)
{
    for (const unit_capture *at = unit->captures; at; at = at->before)
        outbox_add(at->outbox, TALLY_CAPTURED, 1);
    if (unit->captures)
        store_wake(unit->store, &unit->sent_to);
}

void unit_drop_captured(work_unit *unit)
{
    unit->captured = 0;
    unit->captures = NULL;
    unit->sent_to.count = 0;
}

unit_bookmark unit_bookmark_set(const work_unit *unit)
{
    return (unit_bookmark){unit->captures, unit->pending_last, unit->statement_last,
                           unit->captured};
}

void unit_bookmark_return(work_unit *unit, unit_bookmark to)
{
    unit->pending_last = to.pending;
    unit->statement_last = to.statement;
    unit->captured = to.captured;
    unit->captures = to.captures;
    if (to.pending)
        to.pending->next = NULL;
    else
        unit->pending_first = NULL;
    if (to.statement)
        to.statement->next = NULL;
    else
        unit->statement_first = NULL;
}

/* --- sending ---------------------------------------------------------------------------------- */

/* Fills in what a message must have to leave: an id that stays the same however often it is sent,
 * and the time. The id goes to the unit's arena. */
static semel_status complete_message(semel_message *out, work_unit *unit,
                                     const semel_message *message, semel_error *err)
{
    const semel_seam *seam = &unit->store->seam;
    unsigned char noise[10];
    semel_status status = message_check(message, err);
    if (status)
        return status;
    *out = (semel_message){.size = sizeof *out};
    memcpy(out, message, message->size < sizeof *out ? message->size : sizeof *out);
    if (!out->time_ms)
        out->time_ms = seam_wall_ms(seam);
    if (unit->item.message)
        status = trace_inherit(out, &unit->arena, unit->item.message, unit->item.traceparent, err);
    if (!status && out->delay_ms)
        status = due_set(out, &unit->arena, seam_wall_ms(seam) + out->delay_ms, err);
    if (status || out->id.len)
        return status;
    char *id = arena_alloc(&unit->arena, UUID_TEXT + 1);
    if (!id)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a message id");
    seam->random(seam->context, noise, sizeof noise);
    uuid_v7(id, seam_wall_ms(seam), noise);
    out->id = (semel_bytes){id, UUID_TEXT};
    return SEMEL_OK;
}

/* What is sent and queued is kept here while no transaction is open, and where the store is a round
 * trip away: then it travels with the commit. */
static int unit_defers(const work_unit *unit)
{
    return unit->phase != UNIT_OPEN || unit->store->driver->abilities & SEMEL_STORE_DISTANT;
}

static semel_status keep_pending(work_unit *unit, semel_outbox *outbox,
                                 const semel_message *message, semel_error *err)
{
    unit_pending *pending = arena_alloc(&unit->arena, sizeof *pending);
    if (pending)
        *pending = (unit_pending){NULL, outbox, message_copy_into(&unit->arena, message)};
    if (!pending || !pending->message)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for an outgoing message");
    if (unit->pending_last)
        unit->pending_last->next = pending;
    else
        unit->pending_first = pending;
    unit->pending_last = pending;
    return SEMEL_OK;
}

/* For each key there is room for a dead letter, too. */
static semel_status check_room(work_unit *unit, semel_error *err)
{
    uint32_t max = unit->store->driver->changes_max;
    size_t marks = unit->marks ? unit->marks : unit->item.mark.inbox != 0;
    if (!max || 2 * marks + unit->captured < max)
        return SEMEL_OK;
    unit->full = 1;
    return semel_fail(err, SEMEL_ELIMIT,
                      "a transaction of a %s: store takes %u changes: send fewer messages in one",
                      unit->store->driver->scheme, (unsigned)max);
}

semel_status unit_send(work_unit *unit, semel_outbox *outbox, const semel_message *message,
                       semel_error *err)
{
    semel_message complete;
    if (!outbox)
        return semel_fail(
            err, SEMEL_EINVAL,
            "semel_unit_send: the outbox is NULL; semel_unit_outbox() returns that if "
            "no outbox of this name is open in the store of the unit");
    if (outbox->store != unit->store)
        return semel_fail(err, SEMEL_EINVAL, "outbox \"%s\" is in another store than the unit",
                          outbox->name);
    semel_status status = complete_message(&complete, unit, message, err);
    if (!status)
        status = check_room(unit, err);
    unit_capture *capture = status ? NULL : arena_alloc(&unit->arena, sizeof *capture);
    if (!status && !capture)
        status = semel_fail(err, SEMEL_ENOMEM, "out of memory for an outgoing message");
    if (status)
        return status;
    status = unit_defers(unit)
                 ? keep_pending(unit, outbox, &complete, err)
                 : unit->store->driver->outbox->put(unit->state, outbox->scope, &complete, err);
    if (status)
        return status;
    *capture = (unit_capture){unit->captures, outbox};
    unit->captures = capture;
    unit->captured++;
    store_scopes_add(&unit->sent_to, outbox->scope);
    return store_fault(unit->store, "send.stored", err);
}

/* --- queueing --------------------------------------------------------------------------------- */

static int is_bytes(const semel_value *value)
{
    return value->kind == SEMEL_VALUE_TEXT || value->kind == SEMEL_VALUE_BYTES;
}

static semel_status check_values(const semel_value values[], size_t count, semel_error *err)
{
    if (!values && count)
        return semel_fail(err, SEMEL_EINVAL, "a queued statement with %zu values that are NULL",
                          count);
    for (size_t i = 0; i < count; i++)
        if (is_bytes(&values[i]) && !values[i].bytes.data && values[i].bytes.len)
            return semel_fail(err, SEMEL_EINVAL,
                              "value %zu of a queued statement has a length of %zu and no data",
                              i + 1, values[i].bytes.len);
    return SEMEL_OK;
}

static semel_status copy_values(semel_value *out, mem_arena *arena, const semel_value values[],
                                size_t count, semel_error *err)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = values[i];
        if (!is_bytes(&values[i]))
            continue;
        out[i].bytes.data = arena_copy(arena, values[i].bytes.data, values[i].bytes.len);
        if (!out[i].bytes.data)
            return semel_fail(err, SEMEL_ENOMEM, "out of memory for a queued statement");
    }
    return SEMEL_OK;
}

static semel_status keep_statement(work_unit *unit, const char *sql, const semel_value values[],
                                   size_t count, semel_error *err)
{
    mem_arena *arena = &unit->arena;
    unit_statement *kept = arena_alloc(arena, sizeof *kept);
    semel_value *copies = arena_alloc(arena, (count + 1) * sizeof *copies);
    const char *text = arena_copy(arena, sql, strlen(sql) + 1);
    if (!kept || !copies || !text)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a queued statement");
    semel_status status = copy_values(copies, arena, values, count, err);
    if (status)
        return status;
    *kept = (unit_statement){NULL, text, copies, count};
    if (unit->statement_last)
        unit->statement_last->next = kept;
    else
        unit->statement_first = kept;
    unit->statement_last = kept;
    return SEMEL_OK;
}

semel_status unit_queue(work_unit *unit, const char *sql, const semel_value values[], size_t count,
                        semel_error *err)
{
    const semel_store_driver *driver = unit->store->driver;
    if (!driver->units->queue)
        return semel_fail(err, SEMEL_EUNSUPPORTED, "a %s: store takes no statements to be queued",
                          driver->scheme);
    if (count > SEMEL_VALUES_MAX || strlen(sql) > SEMEL_SQL_MAX)
        return semel_fail(err, SEMEL_ELIMIT,
                          "a statement of %zu bytes with %zu values; SEMEL_SQL_MAX is %zu, "
                          "SEMEL_VALUES_MAX %zu",
                          strlen(sql), count, SEMEL_SQL_MAX, SEMEL_VALUES_MAX);
    semel_status status = check_values(values, count, err);
    if (status)
        return status;
    return unit_defers(unit) ? keep_statement(unit, sql, values, count, err)
                             : driver->units->queue(unit->state, sql, values, count, err);
}

/* --- storing what waits ----------------------------------------------------------------------- */

/* As many as follow each other into one outbox, together. */
static semel_status put_pending(work_unit *unit, unit_pending **at, semel_error *err)
{
    const semel_store_driver *driver = unit->store->driver;
    enum { TOGETHER_MAX = 256 };
    const semel_message *messages[TOGETHER_MAX];
    const semel_outbox *outbox = (*at)->outbox;
    size_t count = 0;
    if (!driver->outbox->put_many) {
        const semel_message *one = (*at)->message;
        *at = (*at)->next;
        return driver->outbox->put(unit->state, outbox->scope, one, err);
    }
    for (; *at && (*at)->outbox == outbox && count < TOGETHER_MAX; *at = (*at)->next)
        messages[count++] = (*at)->message;
    return driver->outbox->put_many(unit->state, outbox->scope, messages, count, err);
}

semel_status unit_flush_pending(work_unit *unit, semel_error *err)
{
    const semel_store_driver *driver = unit->store->driver;
    semel_status status = SEMEL_OK;
    for (unit_statement *at = unit->statement_first; !status && at; at = at->next)
        status = driver->units->queue(unit->state, at->sql, at->values, at->count, err);
    for (unit_pending *at = unit->pending_first; !status && at;)
        status = put_pending(unit, &at, err);
    return status;
}
