/* Names and their numbers, as open.c writes them: n/KIND leads from a name to its number, N/KIND
 * from a number to its name. */
#include "store/keyed/names.h"

#include "store/keyed/name.h"
#include "store/keyed/set.h"

#include <string.h>

struct keyed_known_name {
    struct keyed_known_name *next;
    int64_t number;
    const char *name; /* NULL: it has none */
};

static semel_status read_name(const char **out, keyed_names *names, int64_t number,
                              semel_error *err)
{
    keyed_space space = keyed_space_of('N', (int64_t)names->kind);
    unsigned char key[KEYED_NUMBER_LEN];
    keyed_row *row = NULL;
    keyed_number_write(key, number);
    semel_status status = keyed_get(&row, names->store, &names->arena, keyed_space_bytes(&space),
                                    (semel_bytes){key, sizeof key}, 0, err);
    if (status || !row)
        return status;
    semel_bytes text = keyed_name_text(&row->record);
    *out = arena_copy(&names->arena, text.data, text.len);
    return *out ? SEMEL_OK : keyed_out_of_memory(err);
}

semel_status keyed_names_find(const char **out, keyed_names *names, int64_t number,
                              semel_error *err)
{
    struct keyed_known_name *at = names->known;
    *out = NULL;
    if (!number)
        return SEMEL_OK;
    while (at && at->number != number)
        at = at->next;
    if (at) {
        *out = at->name;
        return SEMEL_OK;
    }
    semel_status status = read_name(out, names, number, err);
    at = status ? NULL : arena_alloc(&names->arena, sizeof *at);
    if (!at)
        return status ? status : keyed_out_of_memory(err);
    *at = (struct keyed_known_name){names->known, number, *out};
    names->known = at;
    return SEMEL_OK;
}

void keyed_names_free(keyed_names *names)
{
    arena_free(&names->arena);
}

typedef struct name_list {
    keyed_name_visit *visit;
    void *context;
} name_list;

static semel_status visit_name(const semel_keyed_record *record, void *context, uint32_t *left,
                               semel_error *err)
{
    const name_list *list = context;
    char name[SEMEL_KEYED_KEY_MAX + 1];
    if (record->key.len >= sizeof name || memchr(record->key.data, 0, record->key.len))
        return SEMEL_OK; /* no name of semel's */
    memcpy(name, record->key.data, record->key.len);
    name[record->key.len] = 0;
    --*left;
    return list->visit(name, keyed_name_number(record), list->context, err);
}

semel_status keyed_names_each(keyed_store *store, semel_scope kind, const char *after,
                              uint32_t limit, keyed_name_visit *visit, void *context,
                              semel_error *err)
{
    keyed_space space = keyed_space_of('n', (int64_t)kind);
    name_list list = {visit, context};
    semel_keyed_range range = {
        .space = keyed_space_bytes(&space), .after = semel_str(after), .limit = limit};
    return keyed_list(store, NULL, &range, visit_name, &list, err);
}
