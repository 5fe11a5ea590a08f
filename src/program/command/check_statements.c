/* See check_statements.h.
 *
 * The store itself is asked, in transactions that are rolled back. A SQLite store that is not there
 * yet is not made: a throw-away one in a temporary directory, on which `setup` was run, takes its
 * place. So it does for a file that is not in WAL mode: to open it as a store would change that. If
 * the process dies here, the directory stays behind. */
#include "program/command/check_statements.h"

#include "program/capture/capture.h"
#include "program/config/store_url.h"
#include "program/config/verify.h"
#include "program/handler/sql.h"
#include "program/handler/value_sql.h"
#include "program/support/sqlite_file.h"
#include "program/support/temporary.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const inbox_config *first_with_sql(const config *all)
{
    for (size_t i = 0; i < all->inbox_count; i++)
        if (all->inboxes[i].handler == HANDLER_SQL)
            return &all->inboxes[i];
    return NULL;
}

/* --- which store ------------------------------------------------------------------------------ */

/* A file that is no store yet may have the application's tables already. */
static int has_file(const char *store_url)
{
    region memory = {0};
    const char *file = store_url_file(&memory, store_url);
    int found = file && access(file, F_OK) == 0;
    region_free(&memory);
    return found;
}

static int is_there(const char *store_url)
{
    region memory = {0};
    const char *path = store_url + strlen("sqlite:");
    int found =
        sqlite_file_look(region_copy(&memory, path, strcspn(path, "?"))) == SQLITE_FILE_IN_USE;
    region_free(&memory);
    return found;
}

/* --- what is wrong ---------------------------------------------------------------------------- */

static void rejected_setup(diagnostics *found, const config *all, size_t number,
                           const semel_error *why)
{
    const config_node *setup = tree_find(all->root, "setup");
    const config_node *at =
        setup->kind == NODE_LIST && number < setup->count ? setup->items[number] : setup;
    diagnostic_add(found, LEVEL_ERROR, "rejected-by-store", at->at, "setup",
                   "rejected by the store: %s", why->text);
}

typedef struct looking {
    diagnostics *found;
    const config *all;
} looking;

static void add_trigger(const capture_finding *trigger, void *context)
{
    const looking *k = context;
    region memory = {0};
    if (trigger->state == CAPTURE_AS_WANTED)
        return;
    const config_node *node = trigger->outbox ? tree_find(trigger->outbox->at, "table") : NULL;
    node = node ? node : tree_find(k->all->root, "outboxes");
    diagnostic *added = diagnostic_add(
        k->found, trigger->severity == SEMEL_SEVERITY_ERROR ? LEVEL_ERROR : LEVEL_WARNING,
        "trigger", node->at, tree_path(&memory, node), "%s", trigger->text);
    diagnostic_help(k->found, added, "%s", trigger->fix);
    region_free(&memory);
}

/* --- asking ----------------------------------------------------------------------------------- */

static semel_status ask_store(diagnostics *found, const config *all, semel_error *err)
{
    semel_store *store = NULL;
    semel_status status = semel_store_open(&store, all->store_url, &all->store, err);
    if (!status)
        status = verify_sql(found, all, store, 1, err);
    if (!status)
        status = capture_verify(found, all, store, 1, err);
    if (!status && capture_is_wanted(all))
        status = capture_look(all, store, add_trigger, &(looking){found, all}, err);
    semel_store_close(store);
    if (status != SEMEL_EHANDLER)
        return status;
    rejected_setup(found, all, all->setup.count, err); /* which of them is not known */
    return SEMEL_OK;
}

static semel_status ask_new_store(diagnostics *found, const config *all, const char *directory,
                                  semel_error *err)
{
    region memory = {0};
    semel_store *store = NULL;
    size_t failed = 0;
    const char *url = region_printf(&memory, "sqlite:%s/check.db", directory);
    semel_status status = semel_store_open(&store, url, NULL, err);
    if (!status && sql_setup(store, &all->setup, &failed, err))
        rejected_setup(found, all, failed, err);
    else if (!status)
        status = verify_sql(found, all, store, 0, err);
    if (!status && !found->errors && !has_file(all->store_url))
        status = capture_verify(found, all, store, 0, err);
    semel_store_close(store);
    region_free(&memory);
    return status;
}

static semel_status ask_throw_away(diagnostics *found, const config *all, semel_error *err)
{
    char *directory = temporary_directory();
    semel_status status =
        directory ? ask_new_store(found, all, directory, err)
                  : semel_fail(err, SEMEL_ESTORE, "no temporary directory: %s", strerror(errno));
    temporary_remove(directory);
    return status;
}

void check_statements(diagnostics *found, buffer *unchecked, const config *all, const char *offline)
{
    const inbox_config *first = first_with_sql(all);
    sql_kind kind = statement_kind_of(all->store_url);
    semel_error why = {0};
    if (!first && !capture_is_wanted(all))
        return;
    int is_new = kind == SQL_KIND_SQLITE && (offline || !is_there(all->store_url));
    if (!kind && first)
        diagnostic_at(
            found, "no-sql", tree_find(first->at, "sql"),
            "the store has no SQL; use sqlite:, postgres:, mariadb: or, for its own commands, "
            "redis:");
    else if (!kind)
        return;
    else if (is_new && !all->setup.count)
        buffer_printf(unchecked, "%s, and there is no setup",
                      offline ? offline : "the store does not exist yet");
    else if (offline && !is_new)
        buffer_text(unchecked, offline);
    else if (is_new ? ask_throw_away(found, all, &why) : ask_store(found, all, &why))
        buffer_text(unchecked, why.text);
}
