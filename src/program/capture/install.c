/* Making the triggers. See capture.h, and layout*.c for the statements.
 *
 * It has a store of its own, for its settings: on PostgreSQL the transaction must see what was
 * committed while it waited for the table, so it is READ COMMITTED, whatever the URL or the role
 * asks for; and the rows of a large table take longer than other answers do. On MariaDB one
 * connection must hold the lock, and the lock ends with it. */
#include "program/capture/capture.h"
#include "program/capture/rows.h"
#include "program/support/url_text.h"

#include <string.h>

enum { PATIENCE_MS = 24 * 60 * 60 * 1000 };

/* --- what is to be done ----------------------------------------------------------------------- */

typedef struct installing {
    region memory;
    const config *all;
    semel_store *store;
} installing;

static void note_role(const char *const values[ROWS_COLUMNS_MAX], void *context)
{
    *(int *)context = values[0] != NULL;
}

/* One by one on the connection of a unit, which is rolled back: MariaDB has committed. */
static semel_status run_on_mariadb(installing *in, const capture_layout *layout, capture_how how,
                                   semel_error *err)
{
    semel_unit *unit = NULL;
    const char *statements[CAPTURE_STATEMENTS_MAX];
    semel_status status = semel_unit_begin(&unit, in->store, err);
    if (!status)
        status =
            rows_ask(unit, layout->kind, "SELECT CURRENT_ROLE()", note_role, &how.as_role, err);
    size_t count = capture_statements(&in->memory, layout, how, statements);
    for (size_t i = 0; !status && i < count; i++)
        status = rows_ask(unit, layout->kind, statements[i], NULL, NULL, err);
    semel_unit_rollback(unit);
    return status;
}

/* One transaction. The statement that creates a trigger has others inside. */
static semel_status run_on_sqlite(installing *in, const capture_layout *layout, capture_how how,
                                  semel_error *err)
{
    semel_unit *unit = NULL;
    const char *statements[CAPTURE_STATEMENTS_MAX];
    size_t count = capture_statements(&in->memory, layout, how, statements);
    semel_status status = semel_unit_begin(&unit, in->store, err);
    for (size_t i = 0; !status && i < count; i++)
        status = rows_ask(unit, layout->kind, statements[i], NULL, NULL, err);
    if (!status)
        return semel_unit_commit(unit, err);
    semel_unit_rollback(unit);
    return status;
}

static semel_status run(installing *in, const capture_layout *layout, capture_how how,
                        semel_error *err)
{
    const char *statements[CAPTURE_STATEMENTS_MAX];
    if (layout->kind == SQL_KIND_MARIADB)
        return run_on_mariadb(in, layout, how, err);
    if (layout->kind == SQL_KIND_SQLITE)
        return run_on_sqlite(in, layout, how, err);
    size_t count = capture_statements(&in->memory, layout, how, statements);
    return semel_store_run(in->store, statements, count, NULL, err);
}

/* A trigger that is there as it should be is left alone; on MariaDB rows may wait behind it. */
static semel_status install(installing *in, const capture_finding *found, semel_error *err)
{
    const capture_layout layout = capture_layout_of(&in->memory, in->all, found->outbox);
    int is_mariadb = layout.kind == SQL_KIND_MARIADB;
    const char *release = is_mariadb ? capture_release(&in->memory, &layout) : NULL;
    if (found->state == CAPTURE_DIFFERS && is_mariadb)
        return semel_fail(err, SEMEL_EREJECTED, "%s; %s", found->text, found->fix);
    if (found->state != CAPTURE_AS_WANTED)
        return run(in, &layout, (capture_how){.has_rowid = found->has_rowid}, err);
    return release ? semel_store_run(in->store, &release, 1, NULL, err) : SEMEL_OK;
}

/* --- all -------------------------------------------------------------------------------------- */

typedef struct wanted {
    installing *in;
    capture_finding *found;
    size_t count;
} wanted;

/* Kept, since the unit of the look is open. */
static void keep_wanted(const capture_finding *found, void *context)
{
    wanted *w = context;
    if (!found->outbox)
        return;
    capture_finding *kept = &w->found[w->count++];
    *kept = *found;
    kept->text = region_printf(&w->in->memory, "%s", found->text);
    kept->fix = region_printf(&w->in->memory, "%s", found->fix);
}

static size_t count_tables(const config *all)
{
    size_t count = 0;
    for (size_t i = 0; i < all->outbox_count; i++)
        count += all->outboxes[i].table.name != NULL;
    return count;
}

static semel_status install_all(installing *in, semel_error *err)
{
    wanted w = {.in = in};
    w.found = region_alloc(&in->memory, (in->all->outbox_count + 1) * sizeof *w.found);
    semel_status status = capture_look(in->all, in->store, keep_wanted, &w, err);
    if (!status && w.count < count_tables(in->all))
        status = semel_fail(err, SEMEL_EINVAL, "a table of an outbox is not there (any more)");
    for (size_t i = 0; !status && i < w.count; i++)
        status = install(in, &w.found[i], err);
    return status;
}

semel_status capture_install(const config *all, semel_error *err)
{
    installing in = {.all = all};
    semel_store_options options = all->store;
    const char *url = all->store_url;
    if (!capture_is_wanted(all) || !sql_kind_of(url))
        return SEMEL_OK;
    options.answer_ms = PATIENCE_MS;
    if (sql_kind_of(url) == SQL_KIND_POSTGRES)
        url = url_with_parameter(&in.memory, url, "isolation", "read-committed");
    semel_status status = semel_store_open(&in.store, url, &options, err);
    if (!status)
        status = install_all(&in, err);
    semel_store_close(in.store);
    region_free(&in.memory);
    return status;
}

/* --- for a database administrator ------------------------------------------------------------- */

void capture_script(buffer *to, const config *all, const outbox_config *outbox, int has_rowid)
{
    region memory = {0};
    const char *statements[CAPTURE_STATEMENTS_MAX];
    const capture_layout layout = capture_layout_of(&memory, all, outbox);
    size_t count = capture_statements(
        &memory, &layout, (capture_how){.replaces = 1, .has_rowid = has_rowid}, statements);
    const char *begin = layout.kind == SQL_KIND_SQLITE ? "BEGIN IMMEDIATE;\n"
                        : layout.kind == SQL_KIND_POSTGRES
                            ? "BEGIN ISOLATION LEVEL READ COMMITTED;\n"
                            : "";
    buffer_text(to, begin);
    for (size_t i = 0; i < count; i++)
        buffer_printf(to, "%s;\n", statements[i]);
    if (*begin)
        buffer_text(to, "COMMIT;\n");
    region_free(&memory);
}
