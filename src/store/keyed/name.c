/* Names and their numbers.
 *
 * A number is a hash of kind and name, so that processes which meet a name at the same time choose
 * the same one, without a counter that all of them would write. Two records are written together:
 * the name with its number, and the number with its name. If the number is another name's, the next
 * one is tried. Where apply() takes one change, the number is written first; a second name with the
 * same hash is refused there. */
#include "store/keyed/name.h"

#include "base/hash.h"

#include <string.h>

enum { FIELD_NUMBER = 1, FIELD_NAME = 1, COLLISIONS_MAX = 64 };

/* Zero of a name with 62 bits would be no number. */
static int64_t number_of(semel_scope kind, const char *name)
{
    static const hash_key key = {0x73656d656c206b65U, 0x79656420206e616dU};
    unsigned char byte = (unsigned char)kind;
    hash_state state;
    hash_begin(&state, key);
    hash_add(&state, &byte, 1);
    hash_add(&state, name, strlen(name));
    int64_t number = (int64_t)(hash_end(&state) >> 2);
    return number ? number : 1;
}

int64_t keyed_name_number(const semel_keyed_record *record)
{
    fields_reader reader = {.rest = record->value};
    while (fields_next(&reader))
        if (reader.field == FIELD_NUMBER)
            return fields_int_of(&reader);
    return 0;
}

semel_bytes keyed_name_text(const semel_keyed_record *record)
{
    fields_reader reader = {.rest = record->value};
    while (fields_next(&reader))
        if (reader.field == FIELD_NAME)
            return reader.bytes;
    return (semel_bytes){NULL, 0};
}

/* One name on its way. */
typedef struct naming {
    keyed_store *store;
    const char *name;
    keyed_space names, numbers;
    unsigned char key[KEYED_NUMBER_LEN];
    int64_t number;
    mem_arena arena;
    semel_keyed_change changes[2]; /* number -> name, name -> number */
} naming;

static semel_status plan(naming *n, semel_error *err)
{
    fields_writer number = {.arena = &n->arena}, name = {.arena = &n->arena};
    semel_keyed_record of_number = {.space = keyed_space_bytes(&n->numbers),
                                    .key = {n->key, sizeof n->key}};
    semel_keyed_record of_name = {.space = keyed_space_bytes(&n->names), .key = semel_str(n->name)};
    keyed_number_write(n->key, n->number);
    fields_int(&number, FIELD_NUMBER, n->number);
    fields_text(&name, FIELD_NAME, n->name);
    if (!fields_end(&of_name.value, &number) || !fields_end(&of_number.value, &name))
        return keyed_out_of_memory(err);
    n->changes[0] = keyed_write_of(n->store, NULL, &of_number, 0);
    n->changes[1] = keyed_write_of(n->store, NULL, &of_name, 0);
    return SEMEL_OK;
}

static semel_status assign_together(naming *n, semel_error *err)
{
    semel_status status = SEMEL_ECONFLICT;
    for (int tries = 0; tries < COLLISIONS_MAX && status == SEMEL_ECONFLICT; tries++) {
        keyed_rows there = {.arena = &n->arena};
        status = plan(n, err);
        if (!status)
            status = keyed_apply_now(n->store, n->changes, 2, SEMEL_BEGIN_DURABLE, &there, err);
        if (status != SEMEL_ECONFLICT)
            break;
        const keyed_row *row =
            keyed_rows_find(&there, n->changes[1].record.space, n->changes[1].record.key);
        if (n->changes[1].refused && row) {
            n->number = keyed_name_number(&row->record);
            return SEMEL_OK;
        }
        n->number += n->changes[0].refused && !n->changes[1].refused;
    }
    return status;
}

/* The number may be there already: of this name, if a process died between the two writes. */
static semel_status assign_one_by_one(naming *n, semel_error *err)
{
    keyed_rows there = {.arena = &n->arena};
    semel_status status = plan(n, err);
    if (!status)
        status = keyed_apply_now(n->store, &n->changes[0], 1, SEMEL_BEGIN_DURABLE, &there, err);
    if (status == SEMEL_ECONFLICT && there.first) {
        if (!keyed_same(keyed_name_text(&there.first->record), semel_str(n->name)))
            return semel_fail(err, SEMEL_ESTORE,
                              "the name \"%.80s\" has the same number as another one: use another "
                              "name",
                              n->name);
        status = SEMEL_OK;
    }
    if (!status)
        status = keyed_apply_now(n->store, &n->changes[1], 1, SEMEL_BEGIN_DURABLE, NULL, err);
    return status == SEMEL_ECONFLICT && n->changes[1].refused ? SEMEL_OK : status;
}

static semel_status assign(naming *n, semel_error *err)
{
    keyed_row *row = NULL;
    semel_status status = keyed_get(&row, n->store, &n->arena, keyed_space_bytes(&n->names),
                                    semel_str(n->name), 0, err);
    if (status)
        return status;
    if (row) {
        n->number = keyed_name_number(&row->record);
        return SEMEL_OK;
    }
    return n->store->driver->abilities & SEMEL_KEYED_MANY ? assign_together(n, err)
                                                          : assign_one_by_one(n, err);
}

/* EUNKNOWN: whether it was assigned or not, the next call gives the same number. */
semel_status keyed_scope(void *store, semel_scope kind, const char *name, int64_t *out,
                         semel_error *err)
{
    keyed_store *self = store;
    semel_status status = keyed_check_process(self, err);
    if (status)
        return status;
    if (strlen(name) > SEMEL_KEYED_KEY_MAX)
        return semel_fail(err, SEMEL_ELIMIT, "a name is longer than %zu bytes",
                          SEMEL_KEYED_KEY_MAX);
    status = keyed_check_layout(self, err);
    if (status)
        return status;
    naming n = {.store = self,
                .name = name,
                .names = keyed_space_of('n', kind),
                .numbers = keyed_space_of('N', kind),
                .number = number_of(kind, name)};
    status = assign(&n, err);
    if (status == SEMEL_EUNKNOWN)
        status = semel_fail(err, SEMEL_EUNAVAILABLE,
                            "the answer of the store was lost while a name was registered");
    if (!status)
        *out = n.number;
    arena_free(&n.arena);
    return status;
}
