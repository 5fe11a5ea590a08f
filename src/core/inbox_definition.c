/* What an inbox is: its key expression, its mode and what it compares of two messages with the
 * same key.
 *
 * Markers that were made with another key expression do not recognize the messages of this one:
 * each would be handled again. So the definition is kept with the name of the inbox, and opening
 * the inbox with another one is refused, unless the caller accepts the change. Queued mode
 * counts as transaction mode: both write the same markers.
 *
 * An inbox that remembers positions has no key, and its definition says just that.
 *
 * The horizon is the smallest age at which markers of the inbox may have been removed. It only
 * ever becomes smaller: what a shorter retention has removed, a longer one does not bring back. */
#include "core/unit.h"

#include <stdio.h>
#include <string.h>

#define POSITIONS "remember positions" /* the definition of an inbox without keys */

static const char *mode_name(semel_mode mode)
{
    return mode == SEMEL_CLAIM ? "claim" : "transaction";
}

static void describe(semel_note_value *out, const semel_inbox *inbox)
{
    const semel_inbox_options *options = &inbox->options;
    if (options->remember == SEMEL_REMEMBER_POSITIONS) {
        memcpy(out->text, POSITIONS, sizeof POSITIONS);
        return;
    }
    const char *key = options->key_function ? "function" : options->key ? options->key : "id";
    (void)snprintf(out->text, sizeof out->text, "key %s, mode %s, fingerprint %s", key,
                   mode_name(options->mode), options->fingerprint);
}

/* The last occurrence: a key expression may contain anything. */
static const char *find_last(const char *text, const char *part)
{
    const char *found = NULL;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
        found = at;
    return found;
}

static int show_with_mode(semel_note_value *note, semel_mode mode)
{
    char between[64], whole[sizeof note->text];
    size_t key = strlen("key ");
    (void)snprintf(between, sizeof between, ", mode %s, fingerprint ", mode_name(mode));
    const char *at = find_last(note->text, between);
    if (!at || strncmp(note->text, "key ", key) != 0)
        return 0;
    (void)snprintf(whole, sizeof whole, "key=%.*s mode=%s fingerprint=%s",
                   (int)(at - note->text - (ptrdiff_t)key), note->text + key, mode_name(mode),
                   at + strlen(between));
    memcpy(note->text, whole, strlen(whole) + 1);
    return 1;
}

void inbox_definition_show(semel_note_value *note)
{
    if (strcmp(note->text, POSITIONS) == 0)
        note->text[strlen("remember")] = '=';
    if (!show_with_mode(note, SEMEL_TRANSACTION))
        (void)show_with_mode(note, SEMEL_CLAIM);
}

/* Where to begin showing two definitions that differ: both are cut at the end, and the difference
 * must be seen. */
static size_t shown_from(const char *before, const char *now)
{
    enum { SHOWN_BEFORE = 40, SHOWN_WHOLE = 100 };
    size_t same = 0;
    while (before[same] && before[same] == now[same])
        same++;
    return same < SHOWN_WHOLE ? 0 : same - SHOWN_BEFORE;
}

static semel_status refuse_change(const semel_inbox *inbox, const char *before, const char *now,
                                  semel_error *err)
{
    size_t from = shown_from(before, now);
    const char *dots = from ? "... " : "";
    return semel_fail(err, SEMEL_EINVAL,
                      "inbox \"%.80s\" is defined as \"%s%.120s\", and is opened now as "
                      "\"%s%.120s\": open it as before, use another name, or set accept_changes",
                      inbox->name, dots, before + from, dots, now + from);
}

/* With a letter that expires, a marker is removed, too. */
/* The keys of dead letters are forgotten with the letters. */
static uint64_t own_horizon(const semel_inbox *inbox)
{
    uint64_t markers = inbox->options.retention_ms, letters = inbox->options.dead_retention_ms;
    uint64_t shorter = letters < markers ? letters : markers;
    int none = markers == SEMEL_RETENTION_NONE || letters == SEMEL_RETENTION_NONE;
    return none ? 0 : shorter;
}

/* Numbers of notes have a sign. */
static int64_t horizon_number(uint64_t horizon_ms)
{
    return horizon_ms > INT64_MAX ? INT64_MAX : (int64_t)horizon_ms;
}

/* Several threads may learn of it at once, and one of them from an older note: the lowest
 * stays. */
static void keep_horizon(semel_inbox *inbox, int64_t number)
{
    uint64_t now = number == INT64_MAX ? SEMEL_RETENTION_FOREVER : (uint64_t)number;
    uint64_t before = atomic_load(&inbox->horizon_ms);
    while (now < before && !atomic_compare_exchange_weak(&inbox->horizon_ms, &before, now))
        continue;
}

static semel_status read_note(work_unit *unit, semel_note note, semel_note_lock lock,
                              semel_note_value *out, semel_error *err)
{
    return unit->store->driver->notes->read(unit->state, unit->item.inbox->scope, note, lock, out,
                                            err);
}

static semel_status write_note(work_unit *unit, semel_note note, const semel_note_value *value,
                               semel_error *err)
{
    return unit->store->driver->notes->write(unit->state, unit->item.inbox->scope, note, value,
                                             err);
}

/* What the inbox is opened with, and what its notes say. */
typedef struct registration {
    semel_inbox *inbox;
    semel_note_lock lock; /* EXCLUSIVE, if notes are to be written */
    int64_t horizon;      /* the smallest age at which it removes markers */
    int missing;          /* a note is not as it has to be */
} registration;

static semel_status define(work_unit *unit, registration *r, semel_error *err)
{
    semel_note_value before, now = {0};
    describe(&now, r->inbox);
    semel_status status = read_note(unit, SEMEL_NOTE_DEFINITION, r->lock, &before, err);
    if (status || strcmp(before.text, now.text) == 0)
        return status;
    if (before.text[0] && !r->inbox->options.accept_changes)
        return refuse_change(r->inbox, before.text, now.text, err);
    r->missing = 1;
    return r->lock ? write_note(unit, SEMEL_NOTE_DEFINITION, &now, err) : SEMEL_OK;
}

/* A new note is 0, which is also the horizon of an inbox that forgets at every sweep: a text
 * tells them apart. */
static semel_status lower_horizon(work_unit *unit, registration *r, semel_error *err)
{
    semel_note_value known;
    semel_status status = read_note(unit, SEMEL_NOTE_HORIZON, r->lock, &known, err);
    if (status)
        return status;
    int is_new = !known.text[0];
    keep_horizon(r->inbox, is_new || r->horizon < known.number ? r->horizon : known.number);
    if (!is_new && known.number <= r->horizon)
        return SEMEL_OK;
    r->missing = 1;
    known.number = r->horizon;
    memcpy(known.text, "ms", sizeof "ms");
    return r->lock ? write_note(unit, SEMEL_NOTE_HORIZON, &known, err) : SEMEL_OK;
}

semel_status inbox_learn_horizon(work_unit *unit, semel_inbox *inbox, semel_error *err)
{
    semel_note_value known;
    semel_status status = unit->store->driver->notes->read(
        unit->state, inbox->scope, SEMEL_NOTE_HORIZON, SEMEL_NOTE_UNLOCKED, &known, err);
    if (!status && known.text[0])
        keep_horizon(inbox, known.number);
    return status;
}

static semel_status lower_in_unit(work_unit *unit, void *context, semel_error *err)
{
    registration *r = context;
    unit->item.inbox = r->inbox;
    semel_status status = lower_horizon(unit, r, err);
    unit->item.inbox = NULL;
    return status ? status : store_fault(unit->store, "purge.stored", err);
}

semel_status inbox_lower_horizon(semel_inbox *inbox, uint64_t age_ms, semel_error *err)
{
    uint32_t tries = 0;
    semel_status status;
    registration to = {inbox, SEMEL_NOTE_EXCLUSIVE, horizon_number(age_ms), 0};
    do
        status = store_transact(inbox->store, SEMEL_BEGIN_DURABLE, lower_in_unit, &to, err);
    while (store_retry_after_pause(inbox->store, status, NULL, &tries));
    return status ? status : store_fault(inbox->store, "purge.committed", err);
}

/* The note that old messages will lock has to be there before their transactions begin. */
static semel_status create_forgotten(work_unit *unit, registration *r, semel_error *err)
{
    semel_note_value found;
    semel_status status = read_note(unit, SEMEL_NOTE_FORGOTTEN, r->lock, &found, err);
    r->missing = r->missing || (!status && !found.now_ms);
    return status;
}

static semel_status register_inbox(work_unit *unit, void *context, semel_error *err)
{
    registration *r = context;
    unit->item.inbox = r->inbox;
    r->missing = 0;
    semel_status status = define(unit, r, err);
    if (!status)
        status = lower_horizon(unit, r, err);
    if (!status)
        status = create_forgotten(unit, r, err);
    unit->item.inbox = NULL;
    return status;
}

static semel_status register_retrying(registration *r, semel_error *err)
{
    uint32_t tries = 0;
    semel_status status;
    do
        status = store_transact(r->inbox->store, SEMEL_BEGIN_RELAXED, register_inbox, r, err);
    while (store_retry_after_pause(r->inbox->store, status, NULL, &tries));
    return status;
}

/* Without locks at first: most inboxes are known already, and the units of other processes that
 * handle old messages hold a note for as long as they take. */
semel_status inbox_register(semel_inbox *inbox, semel_error *err)
{
    registration r = {.inbox = inbox, .horizon = horizon_number(own_horizon(inbox))};
    atomic_store(&inbox->horizon_ms, own_horizon(inbox));
    if (!inbox->store->driver->notes)
        return SEMEL_OK;
    semel_status status = register_retrying(&r, err);
    if (status || !r.missing)
        return status;
    r.lock = SEMEL_NOTE_EXCLUSIVE;
    return register_retrying(&r, err);
}
