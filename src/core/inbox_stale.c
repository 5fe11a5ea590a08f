/* Stale messages: those that may have been handled before, since the inbox has forgotten markers
 * of their time.
 *
 * That is a fact, not a guess. The transaction that sweeps markers also raises the note
 * SEMEL_NOTE_FORGOTTEN to the time of the newest marker that it removes. A message was made
 * before it was handled. So a message without a marker that was made after that time, by more
 * than clocks may differ, is certainly a first copy, however long it has waited.
 *
 * Only old messages need the look-up: those whose age reaches the horizon, which is the smallest
 * age at which markers may have been removed. The look-up comes after the key was claimed, in
 * the same transaction. If a sweep is just removing the marker of the key, the claim waits for
 * the sweep to commit; so the note that is read afterwards tells of it. The read has to lock the
 * note, because a plain one might return the note from before that commit, at an isolation level
 * at which the transaction keeps its view of the database.
 *
 * Whether a message is old is asked after the key was claimed, too: a message that was young when
 * the claim began to wait may have been old enough for the sweep that it waited for. Queued mode
 * claims the key with the commit and cannot ask afterwards: it asks right before, and counts a
 * message as old that may become old while the claim waits.
 *
 * Ages are compared, not times: the age of a message is measured by the wall clock, since a wall
 * clock gave the message its time, and the age of the note by the store's clock. */
#include "core/unit.h"

#include "base/due.h"
#include "base/uuid.h"

static int64_t made_at_ms(const semel_inbox *inbox, const semel_message *message)
{
    semel_age age = inbox->options.age;
    int64_t time = message->time_ms;
    if (inbox->options.on_stale == SEMEL_STALE_PROCESS || age == SEMEL_AGE_IGNORE)
        return 0;
    if (!time && (age == SEMEL_AGE_UUID || age == SEMEL_AGE_ULID))
        time = uuid_v7_time(message->id.data, message->id.len);
    if (!time && age == SEMEL_AGE_ULID)
        time = ulid_time(message->id.data, message->id.len);
    return time;
}

/* The age of the message, by its time alone and by the moment in its header; -1 if it is not
 * known. */
static int64_t age_ms(const semel_inbox *inbox, const semel_message *message, int with_header)
{
    int64_t made = made_at_ms(inbox, message);
    int64_t due = made > 0 && with_header ? due_get(message) : 0;
    if (made <= 0)
        return -1;
    int64_t since = due > made ? due : made;
    int64_t now = seam_wall_ms(&inbox->store->seam);
    return now > since ? now - since : 0;
}

static int reaches(const semel_inbox *inbox, int64_t age, uint64_t horizon_ms)
{
    return age >= 0 && (uint64_t)age + inbox->options.clock_margin_ms >= horizon_ms;
}

/* The header makes a message younger, never older: only that of an old one is read. */
static int is_old_in(const semel_inbox *inbox, const semel_message *message, uint32_t wait_ms)
{
    uint64_t horizon = atomic_load_explicit(&inbox->horizon_ms, memory_order_relaxed);
    if (horizon == SEMEL_RETENTION_FOREVER)
        return 0;
    horizon = horizon > wait_ms ? horizon - wait_ms : 0;
    return reaches(inbox, age_ms(inbox, message, 0), horizon) &&
           reaches(inbox, age_ms(inbox, message, 1), horizon);
}

int inbox_is_old(const semel_inbox *inbox, const semel_message *message)
{
    return is_old_in(inbox, message, 0);
}

int inbox_is_old_soon(const semel_inbox *inbox, const semel_message *message)
{
    return is_old_in(inbox, message, inbox->options.wait_ms);
}

/* A store without notes does not know, and may have forgotten everything that is older than the
 * retention. */
semel_status inbox_forgotten_age(uint64_t *out_ms, work_unit *unit, const semel_inbox *inbox,
                                 semel_error *err)
{
    semel_note_value note;
    const semel_store_notes *notes = unit->store->driver->notes;
    *out_ms = atomic_load_explicit(&inbox->horizon_ms, memory_order_relaxed);
    if (!notes)
        return SEMEL_OK;
    semel_status status =
        notes->read(unit->state, inbox->scope, SEMEL_NOTE_FORGOTTEN, SEMEL_NOTE_SHARED, &note, err);
    if (status)
        return status;
    int64_t age = note.now_ms > note.number ? note.now_ms - note.number : 0;
    *out_ms = note.number ? (uint64_t)age : UINT64_MAX;
    return SEMEL_OK;
}

int inbox_is_forgotten(const semel_inbox *inbox, const semel_message *message,
                       uint64_t forgotten_ms)
{
    return reaches(inbox, age_ms(inbox, message, 1), forgotten_ms);
}

semel_status inbox_fail_stale(const semel_inbox *inbox, semel_error *err)
{
    return semel_fail(err, SEMEL_EREJECTED,
                      "inbox \"%s\": the message may have been handled before: the inbox has "
                      "forgotten keys that are as old as the message (retention_ms)",
                      inbox->name);
}
