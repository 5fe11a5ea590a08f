/* Notes about an inbox. A unit owns the note that it has read with EXCLUSIVE, until it ends;
 * other units that want a lock wait for it, and readers without a lock see the note as it was. A
 * sweep changes a note and removes markers under one lock of the store, so a shared lock needs
 * no owner. */
#include "base/mem.h"
#include "store/memory/memory_internal.h"

#include <string.h>

static void undo_lock(memory_unit *unit, const memory_record *record)
{
    (void)unit;
    record->note.note->owner = NULL;
}

static void commit_lock(memory_unit *unit, const memory_record *record, int64_t now_ms)
{
    (void)now_ms;
    undo_lock(unit, record);
}

static void undo_write(memory_unit *unit, const memory_record *record)
{
    (void)unit;
    mem_free(record->note.note->text);
    *record->note.note = record->note.before;
}

static void commit_write(memory_unit *unit, const memory_record *record, int64_t now_ms)
{
    (void)unit;
    (void)now_ms;
    mem_free(record->note.before.text);
}

static const memory_change change_lock = {undo_lock, commit_lock};
static const memory_change change_write = {undo_write, commit_write};

/* NULL if there is no such inbox; `err` then says so. */
static memory_note *find_note(memory_unit *unit, int64_t inbox, semel_note note, semel_error *err)
{
    memory_inbox *found = memory_inbox_get(unit->store, inbox, err);
    return found ? &found->notes[note] : NULL;
}

static semel_status record_change(memory_unit *unit, memory_note *note, const memory_change *change,
                                  semel_error *err)
{
    memory_record *record = memory_journal_next(unit);
    if (!record)
        return memory_out_of_memory(err);
    *record = (memory_record){.change = change, .note = {.note = note, .before = *note}};
    unit->count++;
    return SEMEL_OK;
}

static semel_status lock_note(memory_unit *unit, memory_note *note, semel_note_lock lock,
                              semel_error *err)
{
    memory_wait wait = {.wait_ms = unit->store->busy_ms};
    while (note->owner && note->owner != unit)
        if (!memory_wait_for_others(unit->store, &wait))
            return semel_fail(err, SEMEL_EBUSY, "another unit changes this note of the inbox");
    if (lock != SEMEL_NOTE_EXCLUSIVE || note->owner)
        return SEMEL_OK;
    semel_status status = record_change(unit, note, &change_lock, err);
    if (!status)
        note->owner = unit;
    return status;
}

/* What another unit has written and not committed is undone by the first of its records for the
 * note. */
static const memory_note *committed_note(const memory_unit *reader, const memory_note *note)
{
    const memory_unit *owner = note->owner;
    for (uint32_t i = 0; owner && owner != reader && i < owner->count; i++)
        if (owner->records[i].change == &change_write && owner->records[i].note.note == note)
            return &owner->records[i].note.before;
    return note;
}

semel_status memory_note_read(void *unit_state, int64_t inbox, semel_note which,
                              semel_note_lock lock, semel_note_value *out, semel_error *err)
{
    memory_unit *unit = unit_state;
    pthread_mutex_lock(&unit->store->lock);
    memory_note *note = find_note(unit, inbox, which, err);
    semel_status status = !note ? SEMEL_EINVAL : lock ? lock_note(unit, note, lock, err) : SEMEL_OK;
    if (!status) {
        const memory_note *seen = committed_note(unit, note);
        *out = (semel_note_value){.number = seen->number, .now_ms = memory_now_ms(unit->store)};
        if (seen->text)
            memcpy(out->text, seen->text, strlen(seen->text) + 1);
    }
    pthread_mutex_unlock(&unit->store->lock);
    return status;
}

static semel_status replace_note(memory_unit *unit, memory_note *note,
                                 const semel_note_value *value, semel_error *err)
{
    size_t size = strlen(value->text) + 1;
    char *text = mem_alloc(size);
    if (!text)
        return memory_out_of_memory(err);
    semel_status status = record_change(unit, note, &change_write, err);
    if (status) {
        mem_free(text);
        return status;
    }
    memcpy(text, value->text, size);
    note->number = value->number;
    note->text = text;
    return SEMEL_OK;
}

/* Each write has a record of its own, which keeps the text before it until the unit ends. */
semel_status memory_note_write(void *unit_state, int64_t inbox, semel_note which,
                               const semel_note_value *value, semel_error *err)
{
    memory_unit *unit = unit_state;
    pthread_mutex_lock(&unit->store->lock);
    memory_note *note = find_note(unit, inbox, which, err);
    semel_status status = note ? SEMEL_OK : SEMEL_EINVAL;
    if (!status && note->owner != unit)
        status = semel_fail(err, SEMEL_EMISUSE, "a unit writes a note that it has not locked");
    if (!status)
        status = replace_note(unit, note, value, err);
    pthread_mutex_unlock(&unit->store->lock);
    return status;
}

void memory_notes_free(memory_inbox *inbox)
{
    for (int i = 0; i < NOTE_END; i++)
        mem_free(inbox->notes[i].text);
}
