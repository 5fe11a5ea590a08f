/* A run in its transaction: begin, lock the row, the handlers, move the row, commit.
 *
 * There are no savepoints, which would cost more than the row itself. So what fails, fails as a
 * whole, and positions.c decides what is tried without it. If the process dies before the commit,
 * neither the work nor the move has happened; after it, both have, and the messages are duplicates
 * when they come again. Another owner of the partition cannot come in between: it waits for the
 * row, or its commit is a conflict. */
#include "core/positions.h"

#include <string.h>

/* --- the message that the unit works for ------------------------------------------------------ */

static semel_bytes key_at(position_run *r, size_t index)
{
    char digits[POSITION_DIGITS];
    size_t count = 0;
    for (uint64_t left = (uint64_t)r->positions[index]; left || !count; left /= 10)
        digits[count++] = (char)('0' + left % 10);
    char *at = r->key + r->key_prefix;
    for (size_t i = count; i > 0; i--)
        *at++ = digits[i - 1];
    return (semel_bytes){r->key, r->key_prefix + count};
}

semel_bytes run_key(position_run *r, size_t index)
{
    return key_at(r, index);
}

/* It has a key, for letters and for other services, but none that a marker is kept for. */
void run_enter(position_run *r, size_t index, uint32_t attempt)
{
    semel_bytes key = key_at(r, index);
    r->unit->item = (unit_item){.inbox = r->inbox,
                                .message = r->messages[index],
                                .whole_key = key,
                                .mark.key = key,
                                .attempt = attempt};
}

void run_decide(position_run *r, size_t end, semel_outcome outcome)
{
    while (r->at < end)
        r->out[r->at++] = outcome;
}

/* --- the handlers ----------------------------------------------------------------------------- */

static void note_seen(position_run *r, size_t index, size_t captured_before)
{
    const work_unit *unit = r->unit;
    if (r->seen)
        r->seen[index] = (run_seen){.handler_ns = unit->item.handler_ns,
                                    .started_ns = unit->item.started_ns,
                                    .captured = (uint32_t)(unit->captured - captured_before),
                                    .attempt = unit->item.attempt};
}

/* By its own fault, or is the transaction not what it was? */
static semel_status handler_failed(position_run *r, size_t index, semel_status failure,
                                   const semel_error *why, semel_error *err)
{
    semel_error found = *why;
    semel_status truth =
        failure == SEMEL_ECONFLICT ? SEMEL_ECONFLICT : unit_verify(r->unit, &found);
    *err = found;
    if (truth)
        return truth;
    if (failure == SEMEL_ESTOPPED)
        return failure;
    r->failed = index;
    r->full = r->unit->full;
    r->why = *why;
    return failure;
}

static semel_status handle_one(position_run *r, size_t index, semel_error *err)
{
    semel_error why; /* written by whatever fails */
    size_t captured = r->unit->captured;
    run_enter(r, index, r->attempt ? r->attempt : 1);
    r->begun = 1;
    semel_status status = unit_run(r->unit, r->handler, r->messages[index], r->context, &why);
    note_seen(r, index, captured);
    if (!status)
        status = store_fault(r->inbox->store, "run.handled", &why);
    return status ? handler_failed(r, index, status, &why, err) : SEMEL_OK;
}

static semel_status handle_all(position_run *r, semel_error *err)
{
    for (r->done = r->at; r->done < r->end;) {
        semel_status status = handle_one(r, r->done, err);
        if (status)
            return status;
        r->done++;
        if (r->done < r->end && pace_is_over(r->terms))
            r->end = r->done;
    }
    return SEMEL_OK;
}

/* --- the transaction -------------------------------------------------------------------------- */

/* The row speaks of starts that are not this call's: these messages are not for one transaction. */
static int is_begun_elsewhere(const position_run *r, const position_row *row)
{
    return row->through >= r->positions[r->at] && !r->announced && !r->attempt;
}

static semel_status begin_run(position_run *r, position_row *row, semel_error *err)
{
    r->begun = r->stranger = r->full = 0;
    r->failed = RUN_NONE;
    pace_restart(r->terms);
    unit_drop_captured(r->unit); /* the announcement of a letter before it is counted */
    r->unit->marks = 1;          /* the row, in place of a key */
    r->unit->full = 0;
    r->unit->operation = SEMEL_OPERATION_RECEIVE;
    semel_status status = unit_tx_begin(r->unit, SEMEL_BEGIN_DURABLE, err);
    if (!status)
        status = run_read_row(r, row, err);
    return status ? status : store_fault(r->inbox->store, "run.read", err);
}

static semel_status commit_run(position_run *r, position_row *row, semel_error *err)
{
    semel_store *store = r->inbox->store;
    if (r->announced)
        row->through = POSITION_NONE; /* nothing of the rest is under way any more */
    run_move_row(row, r, r->done);
    semel_status status = position_write(r->unit, r->partition, row, err);
    if (!status)
        status = store_fault(store, "run.moved", err);
    if (!status)
        status = unit_flush_pending(r->unit, err);
    if (!status)
        status = unit_tx_commit(r->unit, err);
    if (status)
        return status;
    unit_count_captured(r->unit);
    run_decide(r, r->done, SEMEL_PROCESSED);
    int calm = row->through == POSITION_NONE && atomic_load(&r->partition->careful) < row->next;
    atomic_store(&r->partition->warm, calm);
    return store_fault(store, "run.committed", err);
}

semel_status run_transact(position_run *r, semel_error *err)
{
    position_row row;
    semel_status status = r->at < r->end ? begin_run(r, &row, err) : SEMEL_OK;
    if (status || r->at >= r->end)
        return status;
    r->stranger = is_begun_elsewhere(r, &row);
    if (r->stranger)
        return SEMEL_OK;
    status = handle_all(r, err);
    return status ? status : commit_run(r, &row, err);
}
