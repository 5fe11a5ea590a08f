/* Details with the marker: the type and the source of a message, as numbers, and when it was
 * received.
 *
 * The number of a name never changes, so an inbox asks the store for it once and remembers it.
 * It asks before the transaction of the message begins: a store with one writer could not answer
 * inside it. If the process dies in between, the name has a number that no marker uses, which
 * does no harm. The memory has room for a bounded number of names: a field that is different in
 * each message must fill neither it nor the store. */
#include "base/hash.h"
#include "base/utf8.h"
#include "core/unit.h"

#include <string.h>

enum { KINDS = 2, SLOTS = 2048 };

_Static_assert(SLOTS >= 2 * SEMEL_DETAIL_NAMES_MAX, "a search ends at a free slot");

typedef struct detail_name {
    int64_t number;
    char text[];
} detail_name;

typedef struct detail_names {
    semel_scope kind;
    size_t count;
    detail_name *slots[SLOTS];
} detail_names;

struct inbox_details {
    pthread_mutex_t lock;
    detail_names names[KINDS];
};

semel_status inbox_details_open(semel_inbox *inbox, semel_error *err)
{
    if (!inbox->options.keep_details)
        return SEMEL_OK;
    struct inbox_details *details = mem_alloc(sizeof *details);
    if (!details)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory opening an inbox");
    pthread_mutex_init(&details->lock, NULL);
    details->names[0].kind = SEMEL_SCOPE_TYPE;
    details->names[1].kind = SEMEL_SCOPE_SOURCE;
    inbox->details = details;
    return SEMEL_OK;
}

void inbox_details_close(semel_inbox *inbox)
{
    struct inbox_details *details = inbox->details;
    if (!details)
        return;
    for (size_t kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i < SLOTS; i++)
            mem_free(details->names[kind].slots[i]);
    pthread_mutex_destroy(&details->lock);
    mem_free(details);
}

/* The slot of the name, or the free one where it belongs. */
static detail_name **find_slot(detail_names *names, const char *text)
{
    static const hash_key constant = {1, 2}; /* the table is bounded, whatever collides */
    size_t at = hash_bytes(constant, text, strlen(text)) % SLOTS;
    while (names->slots[at] && strcmp(names->slots[at]->text, text) != 0)
        at = (at + 1) % SLOTS;
    return &names->slots[at];
}

/* 0: not known. *full is 1 if there is no room for one more. */
static int64_t known_number(struct inbox_details *details, detail_names *names, const char *text,
                            int *full)
{
    pthread_mutex_lock(&details->lock);
    const detail_name *found = *find_slot(names, text);
    *full = names->count >= SEMEL_DETAIL_NAMES_MAX;
    pthread_mutex_unlock(&details->lock);
    return found ? found->number : 0;
}

/* A name that finds no memory is asked for again next time. */
static void remember(struct inbox_details *details, detail_names *names, const char *text,
                     int64_t number)
{
    size_t size = strlen(text) + 1;
    pthread_mutex_lock(&details->lock);
    detail_name **slot = find_slot(names, text);
    detail_name *added =
        *slot || names->count >= SEMEL_DETAIL_NAMES_MAX ? NULL : mem_alloc(sizeof *added + size);
    if (added) {
        added->number = number;
        memcpy(added->text, text, size);
        *slot = added;
        names->count++;
    }
    pthread_mutex_unlock(&details->lock);
}

static int may_ask(work_unit *unit)
{
    return unit->phase != UNIT_OPEN ||
           (!unit->joined && !store_unit_used(unit->store, unit->state));
}

static semel_status add_name(int64_t *out, work_unit *unit, detail_names *names, const char *text,
                             semel_error *err)
{
    struct inbox_details *details = unit->item.inbox->details;
    semel_store *store = unit->store;
    size_t len = text ? strlen(text) : 0;
    int full;
    if (!len || len > SEMEL_NAME_MAX || !utf8_valid(text, len))
        return SEMEL_OK;
    *out = known_number(details, names, text, &full);
    if (*out || full || !may_ask(unit))
        return SEMEL_OK;
    unit_tx_rollback(unit);
    semel_status status = store->driver->scope(store->state, names->kind, text, out, err);
    if (!status)
        remember(details, names, text, *out);
    return status;
}

semel_status unit_add_details(work_unit *unit, semel_error *err)
{
    struct inbox_details *details = unit->item.inbox->details;
    semel_mark *mark = &unit->item.mark;
    const semel_message *message = unit->item.message;
    if (!details || !mark->inbox)
        return SEMEL_OK;
    mark->received_ms = seam_wall_ms(&unit->store->seam);
    semel_status status = add_name(&mark->type, unit, &details->names[0], message->type, err);
    return status ? status
                  : add_name(&mark->source, unit, &details->names[1], message->source, err);
}
