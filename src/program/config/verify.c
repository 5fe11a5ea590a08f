/* See verify.h. */
#include "program/config/verify.h"

#include "program/config/definition.h"
#include "program/config/tree.h"
#include "program/handler/sql.h"

#include <string.h>

/* --- statements ------------------------------------------------------------------------------- */

/* One statement need not be a list. */
static const config_node *statement_node(const inbox_config *inbox, size_t number)
{
    const config_node *sql = tree_find(inbox->at, "sql");
    if (!sql)
        return inbox->at;
    return sql->kind == NODE_LIST && number < sql->count ? sql->items[number] : sql;
}

static void add_mistake(diagnostics *found, const inbox_config *inbox, const sql_mistake *wrong)
{
    const config_node *node = statement_node(inbox, wrong->statement);
    region memory = {0};
    place at = wrong->has_place ? tree_part(node, wrong->what.offset, wrong->what.len) : node->at;
    const char *path = tree_path(&memory, tree_find(inbox->at, "sql"));
    diagnostic *added = diagnostic_add(found, LEVEL_ERROR, "rejected-by-store", at, path,
                                       "rejected by the store: %s", wrong->what.text);
    if (wrong->what.help)
        diagnostic_help(found, added, "%s", wrong->what.help);
    region_free(&memory);
}

/* One by one, so that each that is wrong is reported, also behind one that cannot be checked. */
static semel_status verify_inbox(diagnostics *found, const config *all, const inbox_config *inbox,
                                 semel_store *store, int with_setup, semel_error *err)
{
    semel_status unchecked = SEMEL_OK;
    for (size_t i = 0; i < inbox->sql.count; i++) {
        const config_list one = {&inbox->sql.items[i], 1};
        sql_mistake wrong = {0};
        semel_error why = {0};
        semel_status status =
            sql_check(store, all->store_url, with_setup ? &all->setup : NULL, &one, &wrong, &why);
        wrong.statement = i;
        if (status == SEMEL_EINVAL)
            add_mistake(found, inbox, &wrong);
        else if (status && err)
            *err = why;
        if (status == SEMEL_EUNSUPPORTED)
            unchecked = status;
        else if (status && status != SEMEL_EINVAL)
            return status;
    }
    return unchecked;
}

semel_status verify_sql(diagnostics *found, const config *all, semel_store *store, int with_setup,
                        semel_error *err)
{
    semel_status unchecked = SEMEL_OK;
    for (size_t i = 0; i < all->inbox_count; i++) {
        if (all->inboxes[i].handler != HANDLER_SQL)
            continue;
        semel_status status = verify_inbox(found, all, &all->inboxes[i], store, with_setup, err);
        if (status && status != SEMEL_EUNSUPPORTED)
            return status;
        unchecked = status ? status : unchecked;
    }
    return unchecked;
}

/* --- definitions ------------------------------------------------------------------------------ */

typedef struct comparing {
    diagnostics *found;
    const config_list *accept;
} comparing;

static void add_change(void *context, const definition_change *change)
{
    const comparing *c = context;
    const inbox_config *inbox = change->inbox;
    region memory = {0};
    for (size_t i = 0; i < c->accept->count; i++)
        if (definition_is_named(inbox, c->accept->items[i]))
            return;
    diagnostic *added =
        diagnostic_add(c->found, LEVEL_ERROR, "definition", tree_name_place(inbox->at),
                       tree_path(&memory, inbox->at), DEFINITION_TEXT, change->option,
                       change->before, change->now);
    diagnostic_help(c->found, added, "%s", definition_fix(&memory, inbox));
    region_free(&memory);
}

semel_status verify_definitions(diagnostics *found, const config *all, semel_store *store,
                                const config_list *accept, semel_error *err)
{
    return definition_compare(all, store, add_change, &(comparing){found, accept}, err);
}

/* --- opening ---------------------------------------------------------------------------------- */

const char *verify_part(const char **text, region *memory, const semel_error *why)
{
    static const char *const kinds[] = {"queue", "inbox", "outbox", "store"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t len = strlen(kinds[i]);
        const char *name = why->text + len + 2, *end = NULL;
        if (strncmp(why->text, kinds[i], len) == 0 && strncmp(why->text + len, " \"", 2) == 0)
            end = strstr(name, "\": ");
        if (!end)
            continue;
        *text = end + 3;
        return region_printf(memory, "%s %.*s", kinds[i], (int)(end - name), name);
    }
    return NULL;
}

/* `inbox "NAME": ...`, as the pipeline begins its errors. */
static const config_node *named(const config *all, const char *text)
{
    for (size_t i = 0; i < all->inbox_count; i++) {
        size_t len = strlen(all->inboxes[i].name);
        if (strncmp(text, "inbox \"", 7) == 0 &&
            strncmp(text + 7, all->inboxes[i].name, len) == 0 && text[7 + len] == '"')
            return all->inboxes[i].at;
    }
    for (size_t i = 0; i < all->queue_count; i++) {
        size_t len = strlen(all->queues[i].name);
        if (strncmp(text, "queue \"", 7) == 0 && strncmp(text + 7, all->queues[i].name, len) == 0 &&
            text[7 + len] == '"')
            return all->queues[i].at;
    }
    return NULL;
}

int verify_opening(diagnostics *found, const config *all, const semel_error *why)
{
    const config_node *node = named(all, why->text);
    const char *text = strstr(why->text, "\": ");
    if (!node || !text || (why->status != SEMEL_EINVAL && why->status != SEMEL_EUNSUPPORTED))
        return 0;
    region memory = {0};
    const char *path = tree_path(&memory, node);
    diagnostic_add(found, LEVEL_ERROR, "cannot-be-opened", tree_name_place(node), path, "%s",
                   text + 3);
    region_free(&memory);
    return 1;
}
