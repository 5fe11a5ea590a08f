/* Notes about an inbox, one record each: number and text.
 *
 * Nothing is locked. Who reads a note to change it (EXCLUSIVE) expects at commit that it is still
 * as it was; else the commit is ECONFLICT, and the core does the unit again. A note that is not
 * there is written then, so that later readers find one. A shared reader needs no lock: its hold or
 * claim was written before it reads, and a sweep removes markers and raises FORGOTTEN in one
 * apply(), or raises the note first. So whoever finds a key absent because a sweep removed it reads
 * the note as that sweep wrote it.
 *
 * Where the database removes records by itself, at the earliest EXTRA_MS after their retention is
 * over, everything that is older than that may be forgotten, whatever the note says. */
#include "store/keyed/marker.h"

#include <string.h>

enum { FIELD_NUMBER = 1, FIELD_TEXT };

#define EXTRA_MS ((int64_t)7 * 24 * 3600 * 1000)

static semel_status decode(semel_note_value *out, const semel_keyed_record *record,
                           semel_error *err)
{
    fields_reader reader = {.rest = record->value};
    while (fields_next(&reader)) {
        if (reader.field == FIELD_NUMBER)
            out->number = fields_int_of(&reader);
        if (reader.field == FIELD_TEXT && reader.bytes.len < sizeof out->text)
            memcpy(out->text, reader.bytes.data, reader.bytes.len);
    }
    return reader.damaged ? semel_fail(err, SEMEL_ESTORE, "a note of the inbox is damaged")
                          : SEMEL_OK;
}

int keyed_note_encode(semel_bytes *out, mem_arena *arena, int64_t number, const char *text)
{
    fields_writer to = {.arena = arena};
    fields_int(&to, FIELD_NUMBER, number);
    fields_text(&to, FIELD_TEXT, text);
    return fields_end(out, &to);
}

int64_t keyed_note_number(const semel_keyed_record *record)
{
    semel_note_value value = {0};
    (void)decode(&value, record, NULL);
    return value.number;
}

static semel_status get_note(keyed_row **out, keyed_unit *unit, int64_t inbox, semel_note note,
                             semel_error *err)
{
    keyed_space space = keyed_space_of('t', inbox);
    unsigned char key = (unsigned char)note;
    return keyed_unit_get(out, unit, keyed_space_bytes(&space), (semel_bytes){&key, 1}, 0, err);
}

/* --- reading ---------------------------------------------------------------------------------- */

static semel_status create_note(keyed_unit *unit, int64_t inbox, semel_note note, semel_error *err)
{
    keyed_space space = keyed_space_of('t', inbox);
    unsigned char key = (unsigned char)note;
    semel_keyed_record record = {
        .space = keyed_space_bytes(&space), .key = {&key, 1}, .value = {"", 0}};
    return keyed_unit_write(unit, KEYED_FIXED, NULL, &record, 0, err);
}

/* Expected at commit, as it was read. */
static semel_status expect_note(keyed_unit *unit, const semel_keyed_record *found, semel_error *err)
{
    if (keyed_unit_find(unit, found->space, found->key))
        return SEMEL_OK;
    keyed_change *change = keyed_unit_change(unit, found->space, found->key);
    if (!change)
        return keyed_out_of_memory(err);
    change->change.kind = SEMEL_KEYED_CHECK;
    change->change.expect = SEMEL_EXPECT_VERSION;
    memcpy(change->change.expected_version, found->version, sizeof found->version);
    return SEMEL_OK;
}

static semel_status lock_note(keyed_unit *unit, int64_t inbox, semel_note note,
                              const keyed_row *row, semel_note_lock lock, semel_error *err)
{
    if (lock != SEMEL_NOTE_EXCLUSIVE)
        return SEMEL_OK;
    return row ? expect_note(unit, &row->record, err) : create_note(unit, inbox, note, err);
}

/* See the top. An inbox without a horizon, or with one of "forever", has no marker that expires. */
static semel_status count_expired(semel_note_value *out, keyed_unit *unit, int64_t inbox,
                                  semel_error *err)
{
    keyed_row *row = NULL;
    semel_note_value horizon = {0};
    semel_status status = get_note(&row, unit, inbox, SEMEL_NOTE_HORIZON, err);
    if (!status && row)
        status = decode(&horizon, &row->record, err);
    if (status || !row || !horizon.text[0] || horizon.number < 0 ||
        horizon.number > out->now_ms - EXTRA_MS)
        return status;
    int64_t expired_ms = out->now_ms - horizon.number - EXTRA_MS;
    if (expired_ms > out->number)
        out->number = expired_ms;
    return SEMEL_OK;
}

static semel_status note_read(void *unit, int64_t inbox, semel_note note, semel_note_lock lock,
                              semel_note_value *out, semel_error *err)
{
    keyed_unit *self = unit;
    keyed_row *row = NULL;
    semel_note_value found = {0};
    int64_t now_ms;
    semel_status status = keyed_now(self->store, &now_ms, NULL, err);
    if (!status)
        status = get_note(&row, self, inbox, note, err);
    if (!status && row)
        status = decode(&found, &row->record, err);
    if (!status)
        status = lock_note(self, inbox, note, row, lock, err);
    if (status)
        return status;
    found.now_ms = row || lock == SEMEL_NOTE_EXCLUSIVE ? now_ms : 0;
    if (row && note == SEMEL_NOTE_FORGOTTEN && lock == SEMEL_NOTE_SHARED &&
        self->store->driver->abilities & SEMEL_KEYED_EXPIRES)
        status = count_expired(&found, self, inbox, err);
    if (!status)
        *out = found;
    return status;
}

/* --- writing ---------------------------------------------------------------------------------- */

static semel_status note_write(void *unit, int64_t inbox, semel_note note,
                               const semel_note_value *value, semel_error *err)
{
    keyed_unit *self = unit;
    keyed_space space = keyed_space_of('t', inbox);
    unsigned char key = (unsigned char)note;
    semel_bytes encoded;
    if (!keyed_unit_find(self, keyed_space_bytes(&space), (semel_bytes){&key, 1}))
        return semel_fail(err, SEMEL_EMISUSE, "a unit writes a note that it has not locked");
    keyed_change *change =
        keyed_unit_change(self, keyed_space_bytes(&space), (semel_bytes){&key, 1});
    if (!change || !keyed_note_encode(&encoded, &self->arena, value->number, value->text))
        return keyed_out_of_memory(err);
    change->change.kind = SEMEL_KEYED_WRITE;
    change->change.record.value = encoded;
    keyed_new_version(self->store, change->change.record.version);
    return SEMEL_OK;
}

const semel_store_notes keyed_notes = {.read = note_read, .write = note_write};
