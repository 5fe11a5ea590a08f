/* See migrate_tables.h. A table that is not there yet counts as one without a trigger: its script
 * is for when it is. */
#include "program/command/migrate_tables.h"

#include "program/capture/capture.h"
#include "program/operate/table.h"

#include <stdio.h>

typedef struct known_table {
    int is_good;
    int has_rowid;
} known_table;

typedef struct known_tables {
    const config *all;
    known_table *items; /* one for each outbox */
} known_tables;

static void keep_state(const capture_finding *found, void *context)
{
    known_tables *known = context;
    if (found->outbox)
        known->items[found->outbox - known->all->outboxes] =
            (known_table){found->state == CAPTURE_AS_WANTED, found->has_rowid};
}

static const char *locks_of(region *memory, const outbox_config *outbox, sql_kind kind)
{
    if (kind == SQL_KIND_SQLITE)
        return "the file, while the rows of the table are read";
    return region_printf(memory, "%s%s, while its rows are read",
                         kind == SQL_KIND_POSTGRES ? "writers of " : "semel's outbox and ",
                         outbox->table.name);
}

static const char *rights_of(sql_kind kind)
{
    return kind == SQL_KIND_POSTGRES  ? "the owner of the table"
           : kind == SQL_KIND_MARIADB ? "SELECT and TRIGGER on the table, LOCK TABLES on the "
                                        "database, and the rights of semel_run (docs/RIGHTS.md)"
                                      : "to write the file";
}

static const table_column columns[] = {{NULL, "version", 0, 0},
                                       {NULL, "contents", 0, 0},
                                       {NULL, "locks", 0, 0},
                                       {NULL, "sql", 0, 0},
                                       {0}};

static void print_json(const char *contents, const char *locks, const char *sql)
{
    table row = {.columns = columns, .json = 1};
    table_text(&row, NULL);
    table_text(&row, contents);
    table_text(&row, locks);
    table_text(&row, sql);
    table_end_row(&row);
    table_print(&row, stdout);
}

static void print_table(const tool *t, const outbox_config *outbox, int has_rowid)
{
    region memory = {0};
    buffer sql = {0};
    sql_kind kind = sql_kind_of(t->all->store_url);
    const char *locks = locks_of(&memory, outbox, kind);
    const char *contents = region_printf(&memory, "trigger of the table %s for the outbox %s",
                                         outbox->table.name, outbox->name);
    capture_script(&sql, t->all, outbox, has_rowid);
    if (t->options->json)
        print_json(contents, locks, sql.data);
    else
        (void)printf("-- semel %s, %s; safe to run twice\n-- locks: %s\n-- needs: %s\n%s\n",
                     semel_version(), contents, locks, rights_of(kind), sql.data);
    buffer_free(&sql);
    region_free(&memory);
}

size_t migrate_print_tables(const tool *t, int is_there)
{
    size_t count = 0;
    region memory = {0};
    semel_error why = {0};
    if (!t->all || !capture_is_wanted(t->all) || !sql_kind_of(t->all->store_url))
        return 0;
    known_tables known = {t->all,
                          region_alloc(&memory, t->all->outbox_count * sizeof(known_table))};
    if (is_there && capture_look(t->all, t->store, keep_state, &known, &why))
        tool_say(t,
                 "warning: the triggers of the tables cannot be read, so they are printed as if "
                 "none were there: %s",
                 why.text);
    for (size_t i = 0; i < t->all->outbox_count; i++)
        if (t->all->outboxes[i].table.name && !known.items[i].is_good) {
            print_table(t, &t->all->outboxes[i], known.items[i].has_rowid);
            count++;
        }
    region_free(&memory);
    return count;
}
