/* See names.h. */
#include "program/operate/names.h"

#include "program/cli.h"
#include "program/support/nearest.h"

#include <stdlib.h>
#include <string.h>

const known_name *names_find(const known_names *all, const char *name)
{
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->items[i].name, name) == 0)
            return &all->items[i];
    return NULL;
}

void names_free(known_names *all)
{
    free(all->items);
    *all = (known_names){0};
}

static void add(known_names *to, known_name new)
{
    if (to->count == to->room) {
        to->room = to->room ? 2 * to->room : 16;
        to->items = must_realloc(to->items, to->room * sizeof *to->items);
    }
    to->items[to->count++] = new;
}

static void add_configured(known_names *to, const config *all, semel_name_kind kind)
{
    size_t count = kind == SEMEL_NAME_INBOX    ? all->inbox_count
                   : kind == SEMEL_NAME_OUTBOX ? all->outbox_count
                                               : all->queue_count;
    for (size_t i = 0; i < count; i++) {
        const char *name = kind == SEMEL_NAME_INBOX    ? all->inboxes[i].name
                           : kind == SEMEL_NAME_OUTBOX ? all->outboxes[i].name
                                                       : all->queues[i].name;
        add(to, (known_name){.name = name, .definition = "", .in_config = 1});
    }
}

typedef struct reading {
    known_names *to;
    region *memory;
} reading;

static semel_status add_stored(const semel_name *name, void *context, semel_error *err)
{
    reading *r = context;
    known_name *known = (known_name *)names_find(r->to, name->name);
    (void)err;
    if (!known) {
        add(r->to, (known_name){.name = region_copy(r->memory, name->name, strlen(name->name))});
        known = &r->to->items[r->to->count - 1];
    }
    known->definition = region_copy(r->memory, name->definition, strlen(name->definition));
    known->in_store = 1;
    return SEMEL_OK;
}

int names_read(known_names *out, tool *t, semel_name_kind kind)
{
    semel_error why = {0};
    reading r = {out, &t->memory};
    *out = (known_names){0};
    if (t->all)
        add_configured(out, t->all, kind);
    return semel_store_names(t->store, kind, add_stored, &r, &why) ? tool_failed(t, &why) : CLI_OK;
}

static semel_name_kind kind_of(const char *word)
{
    return strcmp(word, "inbox") == 0    ? SEMEL_NAME_INBOX
           : strcmp(word, "outbox") == 0 ? SEMEL_NAME_OUTBOX
                                         : SEMEL_NAME_QUEUE;
}

int tool_no_such_name(tool *t, const char *kind, const char *name)
{
    known_names all;
    nearest meant = {.typed = name};
    int status = names_read(&all, t, kind_of(kind));
    if (!status) {
        for (size_t i = 0; i < all.count; i++)
            nearest_offer(&meant, all.items[i].name);
        status = meant.name ? tool_refuse(t, CLI_NOT_FOUND,
                                          "%s \"%s\" does not exist; did you mean \"%s\"?", kind,
                                          name, meant.name)
                            : tool_refuse(t, CLI_NOT_FOUND, "%s \"%s\" does not exist", kind, name);
    }
    names_free(&all);
    return status;
}
