/* Tables and their columns. See capture.h. */
#include "program/capture/capture.h"
#include "program/capture/rows.h"
#include "program/config/options.h"
#include "program/config/read.h"
#include "program/handler/sql.h"
#include "program/support/nearest.h"

#include <string.h>
#include <strings.h>

/* --- asking ----------------------------------------------------------------------------------- */

static const char *columns_query(region *memory, const capture_layout *l)
{
    if (l->kind == SQL_KIND_POSTGRES)
        return region_printf(memory,
                             "SELECT a.attname, (a.atttypid = 'bytea'::regtype)::int, "
                             "c.oid::regclass, 0 FROM pg_class c JOIN pg_attribute a ON "
                             "a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
                             "WHERE c.oid = to_regclass('%s') ORDER BY a.attnum",
                             l->table);
    if (l->kind == SQL_KIND_MARIADB)
        return region_printf(memory,
                             "SELECT column_name, 0, table_name, 0 FROM information_schema.columns "
                             "WHERE table_schema = DATABASE() AND table_name = '%s' "
                             "ORDER BY ordinal_position",
                             l->table);
    return region_printf(memory,
                         "SELECT c.name, 0, t.name, t.sql NOT LIKE '%%WITHOUT%%ROWID%%' FROM "
                         "sqlite_master t JOIN pragma_table_xinfo(t.name) c WHERE t.type = 'table' "
                         "AND t.name = '%s' COLLATE NOCASE ORDER BY c.cid",
                         l->table);
}

typedef struct reading_table {
    capture_table *out;
    region *memory;
    capture_column **end;
} reading_table;

static void keep_column(const char *const values[ROWS_COLUMNS_MAX], void *context)
{
    reading_table *r = context;
    capture_column *added = region_alloc(r->memory, sizeof *added);
    added->name = region_printf(r->memory, "%s", values[0] ? values[0] : "");
    added->is_bytes = values[1] && strcmp(values[1], "1") == 0;
    *r->end = added;
    r->end = &added->next;
    if (!r->out->shown)
        r->out->shown = region_printf(r->memory, "%s", values[2] ? values[2] : "");
    r->out->has_rowid = values[3] && strcmp(values[3], "1") == 0;
}

semel_status capture_ask_table(capture_table *out, region *memory, semel_unit *unit,
                               const capture_layout *layout, semel_error *err)
{
    *out = (capture_table){0};
    reading_table r = {out, memory, &out->columns};
    return rows_ask(unit, layout->kind, columns_query(memory, layout), keep_column, &r, err);
}

const capture_column *capture_find_column(const capture_table *in, sql_kind kind, const char *name)
{
    int (*compare)(const char *, const char *) = kind == SQL_KIND_POSTGRES ? strcmp : strcasecmp;
    for (const capture_column *c = in->columns; c; c = c->next)
        if (compare(c->name, name) == 0)
            return c;
    return NULL;
}

/* --- reporting -------------------------------------------------------------------------------- */

typedef struct verifying {
    diagnostics *found;
    const config *all;
    const outbox_config *outbox;
    const capture_layout *layout;
    const capture_table *table;
} verifying;

/* Where an option stands, or the table, if the preset says it. */
static const config_node *node_of(const verifying *v, const char *name)
{
    const config_node *table =
        read_find(&section_outbox, tree_find(tree_find(v->all->root, "outboxes"), v->outbox->name),
                  option_find(&section_outbox, "table"));
    const config_node *node =
        table ? read_find(&section_table, table, option_find(&section_table, name)) : NULL;
    return node ? node : table ? table : v->outbox->at;
}

static void verify_column(const verifying *v, const char *option_name, const char *name)
{
    nearest best = {.typed = name};
    if (!*name || capture_find_column(v->table, v->layout->kind, name))
        return;
    for (const capture_column *c = v->table->columns; c; c = c->next)
        nearest_offer(&best, c->name);
    const config_node *node = node_of(v, option_name);
    if (best.name)
        diagnostic_at(v->found, "unknown-column", node,
                      "the table %s has no column \"%s\" (%s); did you mean \"%s\"?",
                      v->layout->table, name, option_name, best.name);
    else
        diagnostic_at(v->found, "unknown-column", node, "the table %s has no column \"%s\" (%s)",
                      v->layout->table, name, option_name);
}

static void verify_columns(const verifying *v)
{
    const capture_layout *l = v->layout;
    if (!v->table->shown) {
        diagnostic_at(v->found, "unknown-table", node_of(v, "name"),
                      "the store has no table \"%s\"; create it, in setup for example%s", l->table,
                      l->kind == SQL_KIND_MARIADB ? ", or GRANT SELECT, TRIGGER on it" : "");
        return;
    }
    verify_column(v, "id", l->id);
    verify_column(v, "type", l->type);
    verify_column(v, "group", l->group);
    verify_column(v, "topic", l->topic);
    verify_column(v, "body", l->body);
}

static semel_status verify_in_unit(diagnostics *found, const config *all, semel_unit *unit,
                                   region *memory, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < all->outbox_count; i++) {
        if (!all->outboxes[i].table.name)
            continue;
        capture_table table;
        const capture_layout layout = capture_layout_of(memory, all, &all->outboxes[i]);
        status = capture_ask_table(&table, memory, unit, &layout, err);
        if (!status)
            verify_columns(&(verifying){found, all, &all->outboxes[i], &layout, &table});
    }
    return status;
}

int capture_is_wanted(const config *all)
{
    for (size_t i = 0; i < all->outbox_count; i++)
        if (all->outboxes[i].table.name)
            return 1;
    return 0;
}

/* A statement that the database checks makes it run those of `setup`, which were queued. */
semel_status capture_verify(diagnostics *found, const config *all, semel_store *store,
                            int with_setup, semel_error *err)
{
    region memory = {0};
    semel_unit *unit = NULL;
    if (!capture_is_wanted(all) || !sql_kind_of(all->store_url))
        return SEMEL_OK;
    semel_status status = semel_unit_begin(&unit, store, err);
    if (!status && with_setup)
        status = sql_queue_setup(unit, all->store_url, &all->setup, err);
    if (!status)
        status = semel_unit_check(unit, "SELECT 1", 0, NULL, err);
    if (!status)
        status = verify_in_unit(found, all, unit, &memory, err);
    semel_unit_rollback(unit);
    region_free(&memory);
    return status;
}
