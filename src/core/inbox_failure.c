/* When the work failed: count it, or give up and keep a dead letter.
 *
 * The dead letter and the dead marker are written in one transaction, so there is one letter per
 * key however often the message comes, and a later copy is not handled behind the letter's back. If
 * the process dies before that commit, nothing is recorded and the next delivery decides again. */
#include "core/dead.h"

#include "base/hash.h"

#include <stdio.h>
#include <string.h>

/* What is kept of the message: all of it, or what the store takes (see drop_body). */
static const semel_message *kept_message(semel_message *room, const work_unit *unit)
{
    if (!unit->item.bodiless)
        return unit->item.message;
    static const semel_header bodiless = {LETTER_BODILESS, {"1", 1}};
    *room = (semel_message){.size = sizeof *room,
                            .headers = &bodiless,
                            .header_count = 1,
                            .id = unit->item.message->id,
                            .source = unit->item.message->source,
                            .type = unit->item.message->type,
                            .topic = unit->item.message->topic,
                            .correlation_id = unit->item.message->correlation_id,
                            .group = unit->item.message->group,
                            .time_ms = unit->item.message->time_ms,
                            .delivery = unit->item.message->delivery};
    return room;
}

enum { CONTENT_TEXT = 24 };

static size_t write_content(char out[CONTENT_TEXT], const semel_message *message)
{
    return (size_t)snprintf(out, CONTENT_TEXT, "#%016llx",
                            (unsigned long long)key_fingerprint(message));
}

/* A key and the content under it, as one identity. Without the content, two messages that differ
 * under one key (or have none) would be one letter; without any identity, every redelivery would be
 * one more. */
static semel_status with_content(semel_bytes *out, work_unit *unit, semel_bytes key,
                                 semel_error *err)
{
    char *identity = arena_alloc(&unit->arena, key.len + CONTENT_TEXT);
    if (!identity)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a dead letter");
    if (key.len)
        memcpy(identity, key.data, key.len);
    size_t len = write_content(identity + key.len, unit->item.message);
    *out = (semel_bytes){identity, key.len + len};
    return SEMEL_OK;
}

semel_bytes letter_key(semel_bytes key, const semel_message *message)
{
    char content[CONTENT_TEXT];
    return letter_has_marker(key, message)
               ? key
               : (semel_bytes){key.data, key.len - write_content(content, message)};
}

int letter_has_marker(semel_bytes key, const semel_message *message)
{
    char content[CONTENT_TEXT];
    size_t len = message ? write_content(content, message) : 0;
    return !message || key.len < len ||
           memcmp((const char *)key.data + key.len - len, content, len) != 0;
}

static semel_status put_letter(work_unit *unit, const char *name, semel_bytes key, const char *why,
                               semel_error *err)
{
    semel_message room;
    semel_dead dead = {.size = sizeof dead,
                       .origin = SEMEL_DEAD_INBOX,
                       .name = name,
                       .key = key,
                       .message = kept_message(&room, unit),
                       .attempts = unit->item.attempt,
                       .error = why,
                       .first_ms = unit->item.mark.first_ms};
    semel_status status = unit_put_letter(unit, &dead, err);
    unit->item.letter = dead.id;
    return status;
}

/* The row then knows when the first attempt began, which the letter tells, too. */
static semel_status bury_marker(work_unit *unit, const char *why, semel_error *err)
{
    const semel_store_markers *markers = unit->store->driver->markers;
    semel_mark buried = unit->item.mark;
    buried.keep_ms = SEMEL_RETENTION_FOREVER; /* as long as the letter */
    semel_status status = markers->bury(unit->state, &buried, why, err);
    if (!status)
        status = markers->look(unit->state, &buried, err);
    if (!status) {
        unit->item.mark.first_ms = buried.first_ms;
        unit->item.mark.changed_ms = buried.changed_ms;
    }
    return status;
}

semel_status unit_note_failure(work_unit *unit, int dead, const char *why, semel_error *err)
{
    const semel_store_driver *driver = unit->store->driver;
    semel_bytes key = unit->item.mark.key;
    semel_status status = SEMEL_OK;
    unit->item.mark.attempts = unit->item.attempt;
    if (!dead)
        return unit->item.mark.inbox
                   ? driver->markers->fail(unit->state, &unit->item.mark, why, err)
                   : SEMEL_OK;
    if (unit->item.mark.inbox)
        status = bury_marker(unit, why, err);
    else
        status = with_content(&key, unit, key, err);
    if (!status)
        status = put_letter(unit, unit->item.inbox->name, key, why, err);
    return status ? status : unit_announce_fault(unit, (semel_bytes){NULL, 0}, why, err);
}

typedef struct failure_record {
    int dead;
    const char *why;
    unit_work *first; /* in the same transaction, before it; NULL: nothing */
    void *context;
} failure_record;

static semel_status store_failure(work_unit *unit, void *context, semel_error *err)
{
    const failure_record *record = context;
    semel_status status = record->first ? record->first(unit, record->context, err) : SEMEL_OK;
    if (!status)
        status = unit_note_failure(unit, record->dead, record->why, err);
    if (!status)
        status = unit_flush_pending(unit, err);
    return status ? status
                  : store_fault(unit->store, record->dead ? "bury.stored" : "fail.stored", err);
}

static semel_status record_once(work_unit *unit, failure_record *record, semel_error *err)
{
    semel_store *store = unit->store;
    semel_begin durability = record->dead ? SEMEL_BEGIN_DURABLE : SEMEL_BEGIN_RELAXED;
    unit_drop_captured(unit);
    unit_drop_pending(unit); /* what the failed work would have sent */
    semel_status status = unit_transact(unit, durability, store_failure, record, err);
    unit_drop_pending(unit);
    if (!status)
        status = store_fault(store, record->dead ? "bury.committed" : "fail.committed", err);
    if (!status)
        unit_count_captured(unit);
    return status;
}

/* A letter that is more than the store takes in one piece (MariaDB's max_allowed_packet) would be
 * tried for ever, and its message with it: so it is kept without body and headers, and says so. */
static const char *drop_body(semel_error *room, work_unit *unit, const char *why)
{
    unit->item.bodiless = 1;
    semel_fail(room, SEMEL_ELIMIT, "%.300s (its body of %zu bytes is more than the store takes)",
               why, unit->item.message->body.len);
    return room->text;
}

static semel_status record_failure(work_unit *unit, failure_record record, semel_error *err)
{
    semel_error room;
    semel_status status = record_once(unit, &record, err);
    if (!record.dead || status != SEMEL_ELIMIT)
        return status;
    record.why = drop_body(&room, unit, record.why);
    status = record_once(unit, &record, err);
    unit->item.bodiless = 0;
    return status;
}

semel_status unit_bury(work_unit *unit, const char *why, unit_work *first, void *context,
                       semel_error *err)
{
    uint32_t tries = 0;
    semel_status status;
    do
        status = record_failure(unit, (failure_record){1, why, first, context}, err);
    while (store_retry_after_pause(unit->store, status, NULL, &tries));
    return status;
}

semel_status unit_record_failure(semel_outcome *out, work_unit *unit, const semel_error *why,
                                 semel_error *err)
{
    int dead = unit_gives_up(unit, why->status);
    *out = SEMEL_FAILED;
    unit->item.failure = observe_text(unit->store, &unit->arena, why->text);
    if (!dead && !unit->item.mark.inbox)
        return SEMEL_OK; /* without a key there is nothing to count it under */
    semel_status status = record_failure(unit, (failure_record){dead, why->text, NULL, NULL}, err);
    if (status == SEMEL_ELOST)
        return SEMEL_OK; /* another copy got further meanwhile: its word counts, not this failure */
    unit->item.buried = !status && dead;
    if (unit->item.buried)
        *out = SEMEL_DEAD;
    return status;
}

/* At once: a server that is just being restarted must not look as if it had been there all the
 * time. */
semel_status unit_record_limit(semel_outcome *out, work_unit *unit, const semel_error *why,
                               semel_error *err)
{
    int64_t ignored;
    semel_error local, said;
    unit->at_once = 1;
    semel_fail(&said, SEMEL_EHANDLER,
               "the store answers others, but not this message's work: %.400s", why->text);
    semel_status status = unit->item.mark.inbox
                              ? SEMEL_OK
                              : unit->store->driver->now(unit->store->state, &ignored, &local);
    if (!status)
        status = unit_record_failure(out, unit, &said, &local);
    unit->at_once = 0;
    if (err)
        *err = status ? *why : said;
    return status;
}

/* --- refused by a policy ---------------------------------------------------------------------- */

enum { REFUSAL_ID = 48 };

static semel_bytes refusal_id(char id[REFUSAL_ID], const semel_inbox *inbox, semel_bytes identity)
{
    static const hash_key first = {1, 0}, second = {2, 0};
    hash_state state;
    uint64_t sums[2];
    for (int i = 0; i < 2; i++) {
        hash_begin(&state, i ? second : first);
        hash_add(&state, inbox->name, strlen(inbox->name) + 1);
        hash_add(&state, identity.data, identity.len);
        sums[i] = hash_end(&state);
    }
    int len = snprintf(id, REFUSAL_ID, "refused-%016llx%016llx", (unsigned long long)sums[0],
                       (unsigned long long)sums[1]);
    return (semel_bytes){id, (size_t)len};
}

typedef struct refusal {
    const char *name; /* under which it is kept */
    semel_bytes identity;
    const char *why;
} refusal;

static semel_status store_refusal(work_unit *unit, void *context, semel_error *err)
{
    char id[REFUSAL_ID];
    const refusal *r = context;
    semel_inbox *inbox = unit->item.inbox;
    semel_status status = put_letter(unit, r->name, r->identity, r->why, err);
    if (!status)
        status = unit_announce_fault(unit, refusal_id(id, inbox, r->identity), r->why, err);
    if (!status)
        status = unit_flush_pending(unit, err);
    return status ? status : store_fault(inbox->store, "bury.stored", err);
}

static semel_status keep_refused(work_unit *unit, refusal *r, semel_error *err)
{
    unit_drop_captured(unit);
    semel_status status = unit_transact(unit, SEMEL_BEGIN_DURABLE, store_refusal, r, err);
    unit_drop_pending(unit);
    return status;
}

semel_status inbox_bury_refused(semel_inbox *inbox, const char *name, const semel_message *message,
                                semel_outcome refused, const char *why, semel_error *err)
{
    int missing;
    refusal r = {.name = name, .why = why};
    work_unit *unit = NULL;
    semel_error room;
    semel_status status = unit_new(&unit, inbox->store, err);
    if (status)
        return status;
    status = unit_identify(&missing, unit, inbox, message, err);
    unit->item.attempt = 1;
    /* An inbox that remembers positions knows no keys, and letters of equal content are several. */
    int by_id = inbox->positions && message->id.len <= SEMEL_KEY_MAX;
    semel_bytes key = by_id ? message->id : unit->item.mark.key;
    if (!status)
        status = with_content(&r.identity, unit, key, err);
    if (!status)
        status = keep_refused(unit, &r, err);
    if (status == SEMEL_ELIMIT) {
        r.why = drop_body(&room, unit, why);
        status = keep_refused(unit, &r, err);
    }
    if (!status) {
        unit->item.attempt = 0; /* no handler saw it */
        unit->item.failure = r.why;
        unit->item.refused = refused;
        unit->item.kept_as = name;
        unit_count_captured(unit);
        unit_report(unit, inbox, SEMEL_DEAD, NULL);
    }
    unit_free(unit);
    return status;
}

int outcome_is_refusal(semel_outcome outcome)
{
    return outcome == SEMEL_MISSING_KEY || outcome == SEMEL_MISMATCH || outcome == SEMEL_STALE;
}

semel_status semel_inbox_bury_refused(semel_inbox *inbox, const semel_message *message,
                                      semel_outcome refused, semel_error *err)
{
    semel_error why;
    semel_status status = store_can_keep_dead(inbox->store, err);
    if (status)
        return status;
    if (!outcome_is_refusal(refused))
        return semel_fail(err, SEMEL_EINVAL, "\"%s\" is no refusal of an inbox",
                          semel_outcome_name(refused));
    semel_fail(&why, SEMEL_EREJECTED, "refused by the inbox: %s", semel_outcome_name(refused));
    return inbox_bury_refused(inbox, inbox->name, message, refused, why.text, err);
}
