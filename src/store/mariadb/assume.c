/* Queued mode: a key that is assumed to be free, and all that depends on it, in one round trip.
 *
 * On a connection of our own all of the unit becomes one compound statement,
 *
 *     BEGIN NOT ATOMIC
 *         INSERT the marker, or tell what is there;
 *         IF it was inserted THEN the statements; COMMIT;
 *         ELSE SELECT what is there; ROLLBACK; END IF;
 *     END
 *
 * which has one answer for a first copy and one for a duplicate, and is cheaper than the same statements one by one,
 * each of which has an answer of its own. @semel_at tells afterwards which of them failed. The column that tells what
 * is there has a name that nobody can guess, so no result of the application's is taken for it.
 *
 * On a caller's connection, or where a procedure is called, the statements are said one by one, the marker as a plain
 * INSERT whose failure keeps the server from going on.
 *
 * The marker does not wait for other units: who finds the key locked does not know, and the message is received in
 * the ordinary way, which waits. */
#include "store/mariadb/mariadb.h"

#include <mysqld_error.h>
#include <stdio.h>
#include <string.h>

enum { PLACES = 8, NUMBER_TEXT = 32 };

semel_status mariadb_assume(void *unit_state, semel_mark *mark, uint32_t wait_ms, semel_error *err)
{
    mariadb_unit *unit = unit_state;
    int known = 0;
    (void)wait_ms;
    semel_status status = maria_look_first(unit, mark, &known, err);
    if (status)
        return status;
    if (known)
        return semel_fail(err, SEMEL_EREJECTED, "the key is not free");
    query q = maria_unit_say(unit, ST_ASSUME, (bound){IMPATIENT, 0});
    maria_int(&q, mark->inbox);
    maria_bytes(&q, mark->key);
    maria_int_or_null(&q, (int64_t)mark->fingerprint);
    maria_end(&q)->kind = STEP_ASSUME;
    unit->assumed = mark;
    unit->wrote = unit->marked = 1;
    return SEMEL_OK;
}

/* --- as a block --------------------------------------------------------------------------------------------- */

/* Which statements are told apart. ROW_COUNT() asks for the one right before it, so nothing comes between those. */
static unsigned place_of(step_kind kind)
{
    return kind == STEP_EXPECT ? STEP_PLAIN : kind;
}

static void append_place(text_buffer *to, uint64_t block, unsigned place)
{
    char text[NUMBER_TEXT];
    int len = snprintf(text, sizeof text, "%llu", (unsigned long long)(block * PLACES + place));
    text_append_z(to, "SET @semel_at = ");
    text_append(to, text, (size_t)len);
    text_append_z(to, ";");
}

static void append_step(text_buffer *to, const script *s, size_t index)
{
    size_t start = s->steps[index].start;
    text_append(to, s->text.bytes + start, maria_script_end(s, index) - start);
}

static void append_block(text_buffer *to, const mariadb_unit *unit, size_t first)
{
    const script *s = &unit->on->out;
    unsigned place = STEP_ASSUME;
    text_append_z(to, "BEGIN NOT ATOMIC ");
    append_place(to, unit->block, place);
    append_step(to, s, first);
    text_append_z(to, maria_or_tell);
    text_append_z(to, ";IF ROW_COUNT() = 1 THEN ");
    for (size_t i = first + 1; i < s->count; i++) {
        if (place_of(s->steps[i].kind) != place)
            append_place(to, unit->block, place = place_of(s->steps[i].kind));
        append_step(to, s, i);
        text_append_z(to, ";");
    }
    text_append_z(to, "ELSE SELECT LAST_INSERT_ID() AS ");
    text_append_z(to, unit->store->tag);
    text_append_z(to, ";ROLLBACK;END IF;END");
}

static semel_status note_told(const row *r, void *context, semel_error *err)
{
    mariadb_unit *unit = context;
    (void)err;
    unit->told = maria_column_uint(r, 0);
    return SEMEL_OK;
}

/* Where the marker stands: the first, or behind the session's mode. s->count if there can be no block. */
static size_t find_marker(const mariadb_unit *unit)
{
    const script *s = &unit->on->out;
    size_t first = 0;
    while (first < s->count && s->steps[first].kind != STEP_ASSUME)
        first++;
    for (size_t i = 0; i < s->count; i++)
        if (s->steps[i].open_ended)
            return s->count;
    return unit->joined || unit->shared || !unit->on->blocks || s->failed ? s->count : first;
}

void maria_assumed_block(mariadb_unit *unit)
{
    connection *on = unit->on;
    script *s = &on->out;
    size_t first = find_marker(unit);
    if (first >= s->count)
        return;
    unit->block = atomic_fetch_add_explicit(&unit->store->blocks, 1, memory_order_relaxed) + 1;
    on->spare.len = 0;
    on->spare.failed = 0;
    text_append(&on->spare, s->text.bytes, s->steps[first].start);
    append_block(&on->spare, unit, first);
    text_buffer whole = on->spare;
    on->spare = s->text;
    s->text = whole;
    s->failed = whole.failed;
    s->count = first + 1;
    s->steps[first] = (step){.start = s->steps[first].start,
                             .kind = STEP_BLOCK,
                             .open_ended = 1,
                             .call = note_told,
                             .context = unit,
                             .tag = unit->store->tag};
}

static semel_status keep_place(const row *r, void *context, semel_error *err)
{
    (void)err;
    *(uint64_t *)context = maria_column_uint(r, 0);
    return SEMEL_OK;
}

static void ask_place(connection *on, uint64_t *place)
{
    query q = maria_query(on, ST_WHERE);
    step *s = maria_end(&q);
    s->call = keep_place;
    s->context = place;
    maria_say(on, ST_ROLLBACK);
}

/* If it has not come to the first place, it was not even understood: for that an application's statement is to
 * blame, since ours are always the same. */
semel_status maria_assumed_where(mariadb_unit *unit, failure *failed, semel_error *err)
{
    uint64_t place = 0;
    int is_conflict = maria_is_conflict(failed->number);
    if (is_conflict && failed->number != ER_LOCK_WAIT_TIMEOUT)
        return SEMEL_OK;
    ask_place(unit->on, &place);
    semel_status status = maria_run(unit->on, NULL, "looking where it failed", err);
    failed->unknown = status != SEMEL_OK;
    if (status)
        return status;
    unit->spoken = 0; /* it is rolled back */
    failed->kind = place / PLACES == unit->block ? (step_kind)(place % PLACES) : STEP_QUEUED;
    if (failed->kind == STEP_PLAIN && failed->number == ER_DATA_OUT_OF_RANGE)
        failed->kind = STEP_EXPECT;
    failed->unknown = failed->kind == STEP_COMMIT && !is_conflict;
    return SEMEL_OK;
}

/* --- the answer ------------------------------------------------------------------------------------------------ */

/* The row was there. If it is not simply done, it is looked at; a free one is not known, and is marked then. */
static semel_status reject(mariadb_unit *unit, semel_error *err)
{
    marker_row found;
    semel_mark *mark = unit->assumed;
    mark->state = (semel_mark_state)0;
    semel_status status = maria_look(&found, unit, ST_LOOK, mark, err);
    if (status)
        return status;
    if (found.found && !maria_is_free(&found))
        maria_report(mark, &found);
    return semel_fail(err, SEMEL_EREJECTED, "the key is not free");
}

/* By a block: all is rolled back. */
semel_status maria_assumed_told(mariadb_unit *unit, semel_error *err)
{
    unit->wrote = unit->locks = unit->spoken = 0;
    if (maria_report_done(unit->assumed, unit->told))
        return semel_fail(err, SEMEL_EREJECTED, "the key is not free");
    return reject(unit, err);
}

/* By a failure: a duplicate key, or a row that is locked. */
semel_status maria_assumed_answer(mariadb_unit *unit, const failure *failed, semel_status status,
                                  semel_error *err)
{
    if (failed->number != ER_DUP_ENTRY && !maria_waited(failed))
        return status;
    if (maria_waited(failed)) {
        unit->assumed->state = (semel_mark_state)0;
        return semel_fail(err, SEMEL_EREJECTED, "the key is in the hands of another unit");
    }
    query q = maria_unit_say(unit, unit->joined ? ST_JOIN_ROLLBACK : ST_ROLLBACK,
                             (bound){PATIENT, 0}); /* to look afresh */
    (void)maria_end(&q);
    unit->wrote = unit->locks = 0;
    return reject(unit, err);
}
