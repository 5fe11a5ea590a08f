/* Many statements as one: BEGIN NOT ATOMIC ...; COMMIT; END.
 *
 * In a text of several statements the server sends an answer for each, and the client wakes for
 * each. A compound statement has one answer for all, and stops at the first that fails; but it does
 * not tell which. Where that must be known at once, @semel_at is set whenever the kind of
 * statements changes, and asked for afterwards. Queued mode finds out in another way
 * (marker_assume.c), and so has nothing in its block but what has to be done. */
#include "store/mariadb/mariadb.h"

#include <mysqld_error.h>
#include <stdio.h>
#include <string.h>

enum { PLACES = 8, NUMBER_TEXT = 32, WORTH_IT = 6 };

/* --- writing it ------------------------------------------------------------------------------- */

/* Which statements are told apart. ROW_COUNT() asks for the one right before it, so nothing comes
 * between those. */
static unsigned place_of(maria_step_kind kind)
{
    return kind == STEP_EXPECT ? STEP_PLAIN : kind;
}

static void append_place(text_buffer *to, uint64_t block, unsigned place)
{
    char text[NUMBER_TEXT];
    unsigned long long at = block * PLACES + place;
    int len = snprintf(text, sizeof text, "%llu", at);
    text_append_z(to, "SET @semel_at = ");
    text_append(to, text, (size_t)len);
    text_append_z(to, ";");
}

static void append_step(text_buffer *to, const maria_script *s, size_t index)
{
    size_t start = s->steps[index].start;
    text_append(to, s->text.bytes + start, maria_script_end(s, index) - start);
    text_append_z(to, ";");
}

static void append_steps(text_buffer *to, const mariadb_unit *unit, size_t first)
{
    const maria_script *s = &unit->on->out;
    unsigned place = PLACES;
    for (size_t i = first; i < s->count; i++) {
        if (!unit->assumed && place_of(s->steps[i].kind) != place)
            append_place(to, unit->block, place = place_of(s->steps[i].kind));
        append_step(to, s, i);
    }
}

/* --- whether, and from where ------------------------------------------------------------------ */

/* The first statement that goes into it: the session's mode stays outside. */
static size_t first_of(const mariadb_unit *unit)
{
    return unit->moded ? 1 : 0;
}

static int is_possible(const mariadb_unit *unit)
{
    const maria_script *s = &unit->on->out;
    size_t first = first_of(unit);
    if (unit->joined || unit->watched || !unit->on->blocks || s->failed || first >= s->count)
        return 0;
    for (size_t i = first; i < s->count; i++)
        if (s->steps[i].open_ended)
            return 0;
    return unit->assumed ? s->steps[first].kind == STEP_ASSUME : s->count - first >= WORTH_IT;
}

void maria_compound(mariadb_unit *unit)
{
    maria_connection *on = unit->on;
    maria_script *s = &on->out;
    text_buffer *to = &on->spare;
    if (!is_possible(unit))
        return;
    size_t first = first_of(unit);
    unit->block = atomic_fetch_add_explicit(&unit->store->blocks, 1, memory_order_relaxed) + 1;
    to->len = 0;
    to->failed = 0;
    text_append(to, s->text.bytes, s->steps[first].start);
    text_append_z(to, "BEGIN NOT ATOMIC ");
    append_steps(to, unit, first);
    text_append_z(to, "END");
    unit->block_steps = s->count;
    unit->block_from = first;
    unit->block_first = s->steps[first];
    text_buffer whole = *to;
    on->spare = s->text;
    s->text = whole;
    s->failed = whole.failed;
    s->count = first + 1;
    s->steps[first] =
        (maria_step){.start = unit->block_first.start, .kind = STEP_BLOCK, .open_ended = 1};
}

/* The steps behind the first are where they were, and so is their text. */
void maria_compound_undo(mariadb_unit *unit)
{
    maria_connection *on = unit->on;
    text_buffer block = on->out.text;
    on->out.text = on->spare;
    on->spare = block;
    on->out.steps[unit->block_from] = unit->block_first;
    on->out.count = unit->block_steps;
}

/* --- where it failed -------------------------------------------------------------------------- */

static semel_status keep_place(const maria_row *r, void *context, semel_error *err)
{
    (void)err;
    *(uint64_t *)context = maria_column_uint(r, 0);
    return SEMEL_OK;
}

/* If it has not come to the first place, it was not even understood: for that an application's
 * statement is to blame, since ours are always the same. */
semel_status maria_compound_locate_failure(mariadb_unit *unit, maria_failure *failed,
                                           semel_error *err)
{
    uint64_t place = 0;
    maria_connection *on = unit->on;
    maria_query q = maria_enqueue(on, ST_WHERE);
    maria_step *s = maria_end(&q);
    s->call = keep_place;
    s->context = &place;
    maria_enqueue_plain(on, ST_ROLLBACK);
    semel_status status = maria_flush(on, NULL, "looking where it failed", err);
    failed->unknown = status != SEMEL_OK;
    if (status)
        return status;
    unit->sent = 0;
    failed->kind = place / PLACES == unit->block ? (maria_step_kind)(place % PLACES) : STEP_QUEUED;
    if (failed->kind == STEP_PLAIN && failed->number == ER_DATA_OUT_OF_RANGE)
        failed->kind = STEP_EXPECT;
    failed->unknown = failed->kind == STEP_COMMIT && !maria_is_conflict(failed->number);
    return SEMEL_OK;
}
