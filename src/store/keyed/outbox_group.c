/* The record of a group, and what this process remembers of groups.
 *
 * The memory saves a read before a message is put, and before the last one of a group leaves. It
 * may be wrong at any time, because other processes write the same records. That costs a try: a
 * change that rests on it expects the version that it remembers, is refused, and is built again
 * from what is there. It is a table of fixed size in which a group replaces another that has its
 * place.
 *
 * Whether a group that has been written to has become empty since, its relay knows, which may be
 * another process. Two cases are common: the relay keeps up, and each message finds the group
 * empty; or it does not, and none does. So the guess is that it is as it was the last time. */
#include "store/keyed/outbox.h"

#include <string.h>

enum { PLACES = 4096, FIELD_FIRST = 1, FIELD_LAST = 2 };

typedef struct known_group {
    int64_t scope;
    unsigned char *name; /* NULL: the place is free */
    size_t len;
    outbox_group group;
    int was_empty; /* when it was read last */
    int was_read;  /* it is as the database had it; else a commit that was under way makes it so */
} known_group;

struct keyed_group_cache {
    known_group places[PLACES];
};

void keyed_groups_free(keyed_store *store)
{
    keyed_group_cache *cache = store->groups;
    for (size_t i = 0; cache && i < PLACES; i++)
        mem_free(cache->places[i].name);
    mem_free(cache);
    store->groups = NULL;
}

/* With the lock. */
static known_group *place_of(const keyed_store *store, int64_t scope, semel_bytes name)
{
    hash_state state;
    if (!store->groups)
        return NULL;
    hash_begin(&state, store->hash);
    hash_add(&state, &scope, sizeof scope);
    hash_add(&state, name.data, name.len);
    return &store->groups->places[hash_end(&state) % PLACES];
}

static int is_of(const known_group *at, int64_t scope, semel_bytes name)
{
    return at && at->name && at->scope == scope &&
           keyed_same((semel_bytes){at->name, at->len}, name);
}

static int find(outbox_group *out, keyed_store *store, int64_t scope, semel_bytes name,
                int is_guess)
{
    pthread_mutex_lock(&store->lock);
    const known_group *at = place_of(store, scope, name);
    int known = is_of(at, scope, name) ? 1 + at->was_read : 0;
    if (known)
        *out = is_guess && at->was_empty ? (outbox_group){0} : at->group;
    pthread_mutex_unlock(&store->lock);
    return known;
}

int outbox_group_known(outbox_group *out, keyed_store *store, int64_t scope, semel_bytes name)
{
    return find(out, store, scope, name, 0);
}

int outbox_group_guess(outbox_group *out, keyed_store *store, int64_t scope, semel_bytes name)
{
    return find(out, store, scope, name, 1);
}

/* Without memory nothing is remembered. */
static int take_place(known_group *at, int64_t scope, semel_bytes name)
{
    unsigned char *copy = mem_alloc(name.len);
    if (!copy)
        return 0;
    memcpy(copy, name.data, name.len);
    mem_free(at->name);
    *at = (known_group){.scope = scope, .name = copy, .len = name.len};
    return 1;
}

void outbox_group_keep(keyed_store *store, int64_t scope, semel_bytes name,
                       const outbox_group *group, int found)
{
    pthread_mutex_lock(&store->lock);
    if (!store->groups)
        store->groups = mem_alloc(sizeof *store->groups);
    known_group *at = place_of(store, scope, name);
    if (at && (is_of(at, scope, name) || take_place(at, scope, name))) {
        at->group = *group;
        at->was_read = found;
        if (found)
            at->was_empty = !group->there;
    }
    pthread_mutex_unlock(&store->lock);
}

semel_status outbox_group_read(outbox_group *out, const semel_keyed_record *record,
                               semel_error *err)
{
    fields_reader reader = {.rest = record->value};
    *out = (outbox_group){.there = 1};
    memcpy(out->version, record->version, sizeof out->version);
    while (fields_next(&reader)) {
        if (reader.field == FIELD_FIRST)
            out->first = fields_int_of(&reader);
        if (reader.field == FIELD_LAST)
            out->last = fields_int_of(&reader);
    }
    return reader.damaged
               ? semel_fail(err, SEMEL_ESTORE, "the record of a group in the outbox is damaged")
               : SEMEL_OK;
}

int outbox_group_value(semel_bytes *out, mem_arena *arena, const outbox_group *group)
{
    fields_writer writer = {.arena = arena};
    fields_int(&writer, FIELD_FIRST, group->first);
    fields_int(&writer, FIELD_LAST, group->last);
    return fields_end(out, &writer);
}
