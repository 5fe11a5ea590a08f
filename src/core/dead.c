/* Dead letters: storing, discarding, expiring. Listing is in dead_list.c.
 *
 * A dead marker lives as long as its letter. So whatever removes a letter also decides what becomes
 * of its marker, in the same transaction: the key stays dead (the marker then falls under the
 * retention of the inbox), or it is forgotten. If the process dies before the commit, both are
 * there; after it, both are gone.
 *
 * The letter is read first, in a transaction of its own, because the number of its inbox cannot be
 * asked for inside a unit. Neither name nor key of a letter ever change. */
#include "core/dead.h"

#include "base/message.h"

#include <string.h>

/* --- storing one ------------------------------------------------------------------------------ */

static semel_status note_id(const semel_dead *found, void *context, semel_error *err)
{
    (void)err;
    *(int64_t *)context = found->id;
    return SEMEL_OK;
}

/* The driver has chosen the number, or kept that of a letter with the same key. It is for the
 * observer, and without one the letter is not looked for. */
static semel_status find_id(work_unit *unit, semel_dead *dead, semel_error *err)
{
    semel_dead_filter its = {.size = sizeof its,
                             .origin = dead->origin,
                             .name = dead->name,
                             .key = dead->key,
                             .brief = 1,
                             .limit = 1};
    return unit->store->observer && dead->key.len
               ? unit->store->driver->dead->list(unit->state, &its, note_id, &dead->id, err)
               : SEMEL_OK;
}

semel_status unit_put_letter(work_unit *unit, semel_dead *dead, semel_error *err)
{
    dead->cause = semel_cause(dead->name, dead->error);
    semel_status status = unit->store->driver->dead->put(unit->state, dead, err);
    return status ? status : find_id(unit, dead, err);
}

/* --- finding one ------------------------------------------------------------------------------ */

static semel_dead_filter filter_for(semel_dead_origin origin, const char *name, int64_t id)
{
    return (semel_dead_filter){.size = sizeof(semel_dead_filter),
                               .origin = origin,
                               .name = name,
                               .after_id = id > 0 ? id - 1 : 0,
                               .limit = 1};
}

static semel_status keep_letter(const semel_dead *dead, void *context, semel_error *err)
{
    letter *found = context;
    if (dead->id != found->id)
        return SEMEL_OK;
    if (!dead->message)
        return semel_fail(err, SEMEL_ESTORE, "dead letter %lld is damaged: %s", (long long)dead->id,
                          dead->error);
    found->key = (semel_bytes){arena_copy(&found->unit->arena, dead->key.data, dead->key.len),
                               dead->key.len};
    found->message = message_copy_into(&found->unit->arena, dead->message);
    found->attempts = dead->attempts;
    found->error = arena_copy(&found->unit->arena, dead->error, strlen(dead->error) + 1);
    return found->message && found->key.data && found->error
               ? SEMEL_OK
               : semel_fail(err, SEMEL_ENOMEM, "out of memory for a dead letter");
}

semel_status letter_find(letter *out, work_unit *unit, semel_dead_origin origin, const char *name,
                         int64_t id, semel_error *err)
{
    letter found = {.unit = unit, .id = id};
    semel_dead_filter filter = filter_for(origin, name, id);
    semel_status status =
        unit->store->driver->dead->list(unit->state, &filter, keep_letter, &found, err);
    if (!status && !found.message)
        status = semel_fail(err, SEMEL_ENOTFOUND, "\"%s\" has no dead letter %lld (any more)", name,
                            (long long)id);
    if (!status)
        *out = found;
    return status;
}

semel_status letter_check_body(const letter *found, semel_error *err)
{
    const semel_message *message = found->message;
    int bodiless = !message->body.len && message->header_count &&
                   strcmp(message->headers[0].name, LETTER_BODILESS) == 0;
    return bodiless ? semel_fail(err, SEMEL_EREJECTED,
                                 "dead letter %lld was kept without its body, which was more than "
                                 "the store takes: there is nothing to handle",
                                 (long long)found->id)
                    : SEMEL_OK;
}

/* --- dropping one ----------------------------------------------------------------------------- */

static semel_status drop_letter(work_unit *unit, void *context, semel_error *err)
{
    const int64_t *id = context;
    return unit->store->driver->dead->drop(unit->state, *id, err);
}

semel_status dead_drop(semel_store *store, int64_t id, semel_error *err)
{
    semel_status status = store_transact(store, SEMEL_BEGIN_DURABLE, drop_letter, &id, err);
    return status == SEMEL_ENOTFOUND ? SEMEL_OK : status;
}

/* --- removing one, with its marker ------------------------------------------------------------ */

enum { EXPIRED = SEMEL_DISCARD_FORGET_KEY + 1 };

typedef struct removal {
    int64_t id;
    int how;          /* a semel_discard, or EXPIRED */
    int64_t until_ms; /* EXPIRED: only if semel gave up on it before this time */
    int found;
    int64_t at_ms;
    char name[SEMEL_NAME_MAX + 1]; /* empty: there is no marker */
    int64_t inbox;
    size_t key_len;
    unsigned char key[SEMEL_KEY_MAX];
} removal;

static semel_status note_identity(const semel_dead *dead, void *context, semel_error *err)
{
    removal *r = context;
    (void)err;
    if (dead->id != r->id)
        return SEMEL_OK;
    r->found = 1;
    r->at_ms = dead->at_ms;
    if (dead->origin != SEMEL_DEAD_INBOX || !dead->key.len || dead->key.len > sizeof r->key ||
        strlen(dead->name) > SEMEL_NAME_MAX || !letter_has_marker(dead->key, dead->message))
        return SEMEL_OK;
    memcpy(r->name, dead->name, strlen(dead->name) + 1);
    memcpy(r->key, dead->key.data, dead->key.len);
    r->key_len = dead->key.len;
    return SEMEL_OK;
}

static semel_status read_identity(work_unit *unit, void *context, semel_error *err)
{
    removal *r = context;
    semel_dead_filter filter = filter_for(SEMEL_DEAD_ANY, NULL, r->id);
    filter.until_ms = r->until_ms;
    r->found = 0;
    semel_status status =
        unit->store->driver->dead->list(unit->state, &filter, note_identity, r, err);
    if (!status && !r->found)
        status = semel_fail(err, SEMEL_ENOTFOUND, "there is no dead letter %lld (any more)",
                            (long long)r->id);
    return status;
}

/* The inbox must not forget a key without knowing that it did: see inbox_stale.c. Markers come
 * first and the note comes last, as in a sweep and in a unit that receives. */
static semel_status note_forgotten(work_unit *unit, const removal *r, int64_t changed_ms,
                                   semel_error *err)
{
    const semel_store_notes *notes = unit->store->driver->notes;
    int64_t newest = changed_ms > r->at_ms ? changed_ms : r->at_ms;
    semel_note_value note;
    if (!notes)
        return SEMEL_OK;
    semel_status status =
        notes->read(unit->state, r->inbox, SEMEL_NOTE_FORGOTTEN, SEMEL_NOTE_EXCLUSIVE, &note, err);
    if (status || note.number >= newest)
        return status;
    note.number = newest;
    return notes->write(unit->state, r->inbox, SEMEL_NOTE_FORGOTTEN, &note, err);
}

static semel_status end_marker(work_unit *unit, const removal *r, semel_error *err)
{
    const semel_store_markers *markers = unit->store->driver->markers;
    semel_mark mark = {
        .inbox = r->inbox, .key = {r->key, r->key_len}, .keep_ms = SEMEL_RETENTION_FOREVER};
    semel_status status = markers->look(unit->state, &mark, err);
    if (!status && r->how == EXPIRED && mark.state == SEMEL_MARK_HELD)
        return semel_fail(err, SEMEL_EBUSY, "dead letter %lld is being replayed", (long long)r->id);
    if (status || mark.state != SEMEL_MARK_DEAD)
        return status;
    if (r->how != SEMEL_DISCARD_KEEP_DEAD)
        status = markers->forget(unit->state, &mark, err);
    else if (markers->letter_gone)
        status = markers->letter_gone(unit->state, &mark, err);
    if (!status && r->how == EXPIRED)
        status = note_forgotten(unit, r, mark.changed_ms, err);
    return status == SEMEL_ENOTFOUND ? SEMEL_OK : status;
}

/* The marker first: a unit that buries the message anew needs it, and waits. Then the letter is
 * read again, because it may have been replaced by a younger one meanwhile. */
static semel_status remove_letter(work_unit *unit, void *context, semel_error *err)
{
    removal *r = context;
    semel_store *store = unit->store;
    semel_status status = r->name[0] ? end_marker(unit, r, err) : SEMEL_OK;
    if (!status && r->how == EXPIRED)
        status = read_identity(unit, r, err);
    if (!status)
        status = store->driver->dead->drop(unit->state, r->id, err);
    return status ? status : store_fault(store, "discard.stored", err);
}

static semel_status find_and_remove(semel_store *store, removal *r, semel_error *err)
{
    const semel_store_driver *driver = store->driver;
    semel_begin durability = r->how == EXPIRED ? SEMEL_BEGIN_RELAXED : SEMEL_BEGIN_DURABLE;
    uint32_t tries = 0;
    semel_status status = store_transact(store, SEMEL_BEGIN_RELAXED, read_identity, r, err);
    if (!status && !driver->markers)
        r->name[0] = 0;
    if (!status && r->name[0])
        status = driver->scope(store->state, SEMEL_SCOPE_INBOX, r->name, &r->inbox, err);
    if (status)
        return status;
    do
        status = store_transact(store, durability, remove_letter, r, err);
    while (store_retry_after_pause(store, status, NULL, &tries));
    return status ? status : store_fault(store, "discard.committed", err);
}

semel_status semel_dead_discard(semel_store *store, int64_t id, semel_discard key, semel_error *err)
{
    removal r = {.id = id, .how = (int)key};
    if ((unsigned)key > SEMEL_DISCARD_FORGET_KEY)
        return semel_fail(err, SEMEL_EINVAL, "semel_discard: there is no choice %d", (int)key);
    semel_status status = store_can_keep_dead(store, err);
    return status ? status : find_and_remove(store, &r, err);
}

/* --- retention -------------------------------------------------------------------------------- */

typedef struct expired {
    int64_t *ids;
    uint32_t count;
} expired;

static semel_status note_expired(const semel_dead *dead, void *context, semel_error *err)
{
    expired *e = context;
    (void)err;
    e->ids[e->count++] = dead->id;
    return SEMEL_OK;
}

static semel_status remove_expired(size_t *removed, semel_store *store, const expired *e,
                                   int64_t until_ms, semel_error *err)
{
    for (uint32_t i = 0; i < e->count; i++) {
        removal r = {.id = e->ids[i], .how = EXPIRED, .until_ms = until_ms};
        semel_status status = find_and_remove(store, &r, err);
        if (!status)
            ++*removed;
        else if (status != SEMEL_ENOTFOUND && status != SEMEL_EBUSY)
            return status;
    }
    return SEMEL_OK;
}

static semel_status sweep_before(size_t *removed, int *more, semel_store *store,
                                 semel_dead_filter *filter, semel_error *err)
{
    size_t gone = 0;
    expired e = {.ids = mem_alloc(filter->limit * sizeof *e.ids)};
    if (!e.ids)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for %u letters", filter->limit);
    filter->brief = 1;
    semel_status status = semel_dead_list(store, filter, note_expired, &e, err);
    if (!status)
        status = remove_expired(&gone, store, &e, filter->until_ms, err);
    if (!status) {
        *removed = gone;
        *more = gone && e.count == filter->limit; /* letters in use are not waited for */
    }
    mem_free(e.ids);
    return status;
}

semel_status semel_dead_sweep(size_t *removed, int *more, semel_store *store,
                              const semel_dead_filter *filter, uint64_t older_than_ms,
                              uint32_t rows, semel_error *err)
{
    int64_t now;
    semel_dead_filter wanted;
    semel_status status = dead_filter_read(&wanted, filter, err);
    if (!status)
        status = store_can_keep_dead(store, err);
    if (!status)
        status = semel_store_now(&now, store, err);
    if (status)
        return status;
    int64_t cutoff_ms = retention_cutoff_ms(now, older_than_ms);
    if (!wanted.until_ms || wanted.until_ms > cutoff_ms)
        wanted.until_ms = cutoff_ms;
    wanted.limit = rows ? rows : SEMEL_DEAD_SWEEP_BATCH;
    if (wanted.limit > SEMEL_BATCH_MAX)
        wanted.limit = (uint32_t)SEMEL_BATCH_MAX;
    *removed = 0;
    *more = 0;
    return cutoff_ms == INT64_MIN ? SEMEL_OK : sweep_before(removed, more, store, &wanted, err);
}

semel_status inbox_sweep_letters(size_t *removed, int *more, semel_inbox *inbox, uint32_t rows,
                                 semel_error *err)
{
    semel_dead_filter filter = {
        .size = sizeof filter, .origin = SEMEL_DEAD_INBOX, .name = inbox->name};
    *removed = 0;
    *more = 0;
    if (!inbox->store->driver->dead || inbox->options.dead_retention_ms == SEMEL_RETENTION_FOREVER)
        return SEMEL_OK;
    return semel_dead_sweep(removed, more, inbox->store, &filter, inbox->options.dead_retention_ms,
                            rows, err);
}
