/* The functions for SQL (docs/SQL.md): which the server has, and whether they are this library's.
 *
 * A function says in its comment which text made it: the digest of its file in sql/mariadb. The
 * server shows the comment of a function to accounts that may execute it. Of one that it does not
 * show, a call is prepared, which the server refuses by number: there is no such function, or this
 * account may not execute it. */
#include "generated/mariadb_migrations.h"
#include "store/mariadb/mariadb.h"

#include <mysqld_error.h>
#include <stdio.h>
#include <string.h>

/* --- those of this library -------------------------------------------------------------------- */

static maria_function *find_function(maria_functions *all, const char *name)
{
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->all[i].name, name) == 0)
            return &all->all[i];
    return NULL;
}

/* A later step may create it anew. */
static void expect_function(maria_functions *all, const char *name, const char *comment, int step)
{
    maria_function *found = find_function(all, name);
    if (!found && all->count == FUNCTIONS_MAX)
        return;
    found = found ? found : &all->all[all->count++];
    *found = (maria_function){.step = step};
    (void)snprintf(found->name, sizeof found->name, "%s", name);
    (void)snprintf(found->comment, sizeof found->comment, "%s", comment);
}

/* What stands behind `open`, up to the quote, if that is before `end`; else "". */
static void read_quoted(char out[FUNCTION_COMMENT], const char *text, const char *end,
                        const char *open, char quote)
{
    const char *at = strstr(text, open), *close = NULL;
    if (at && end && at < end) {
        at += strlen(open);
        close = strchr(at, quote);
    }
    (void)snprintf(out, FUNCTION_COMMENT, "%.*s", close ? (int)(close - at) : 0, at ? at : "");
}

static void expect_step(maria_functions *all, const char *prefix, const sql_migration *step)
{
    const char *at = step->sql;
    while ((at = strstr(at, MARIA_CREATE_FUNCTION " `{}"))) {
        char name[FUNCTION_COMMENT], full[FUNCTION_NAME], comment[FUNCTION_COMMENT];
        const char *end = strstr(at, MARIA_FUNCTION_END);
        read_quoted(name, at, end, "`{}", '`');
        read_quoted(comment, at, end, "COMMENT '", '\'');
        (void)snprintf(full, sizeof full, "%s%s", prefix, name);
        expect_function(all, full, comment, step->version);
        at++;
    }
}

/* --- those of the server ---------------------------------------------------------------------- */

static semel_status read_function(const maria_row *r, void *context, semel_error *err)
{
    (void)err;
    const char *name = maria_column_text(r, 0), *comment = maria_column_text(r, 1);
    maria_function *found = name ? find_function(context, name) : NULL;
    if (found)
        found->state = strcmp(comment ? comment : "", found->comment) == 0 ? FUNCTION_CURRENT
                                                                           : FUNCTION_OUTDATED;
    return SEMEL_OK;
}

static semel_status read_functions(maria_functions *all, mariadb_store *store, maria_connection *on,
                                   semel_error *err)
{
    maria_query q = maria_enqueue(on, ST_SCHEMA_FUNCTIONS);
    maria_text(&q, store->at.database);
    maria_text(&q, store->at.prefix);
    maria_text(&q, store->at.prefix);
    maria_step *s = maria_end(&q);
    s->call = read_function;
    s->context = all;
    return maria_flush(on, NULL, "looking for functions", err);
}

/* HIDDEN or MISSING. */
static semel_status ask_for(maria_function *one, mariadb_store *store, maria_connection *on,
                            semel_error *err)
{
    char call[256];
    semel_error why = {0};
    (void)snprintf(call, sizeof call, "SELECT `%s`.`%s`()", store->at.database, one->name);
    semel_status status = maria_check_text(on, call, 0, &why);
    if (status && on->lost) {
        if (err)
            *err = why;
        return status;
    }
    if (status && why.native == ER_SP_DOES_NOT_EXIST)
        one->state = FUNCTION_MISSING;
    return SEMEL_OK;
}

/* If none is shown, the first one speaks for all of them. */
static semel_status ask_for_hidden(maria_functions *all, mariadb_store *store, maria_connection *on,
                                   semel_error *err)
{
    size_t hidden = maria_functions_count(all, FUNCTION_HIDDEN);
    semel_status status = SEMEL_OK;
    if (hidden && hidden == all->count) {
        status = ask_for(&all->all[0], store, on, err);
        for (size_t i = 1; i < all->count; i++)
            all->all[i].state = all->all[0].state;
        return status;
    }
    for (size_t i = 0; !status && i < all->count; i++)
        if (all->all[i].state == FUNCTION_HIDDEN)
            status = ask_for(&all->all[i], store, on, err);
    return status;
}

semel_status maria_functions_look(maria_functions *out, mariadb_store *store, maria_connection *on,
                                  int64_t version, semel_error *err)
{
    out->count = 0;
    for (const sql_migration *at = mariadb_migrations; at->version && at->version <= version; at++)
        expect_step(out, store->at.prefix, at);
    if (!out->count)
        return SEMEL_OK;
    semel_status status = read_functions(out, store, on, err);
    return status ? status : ask_for_hidden(out, store, on, err);
}

size_t maria_functions_count(const maria_functions *all, maria_function_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < all->count; i++)
        count += all->all[i].state == state;
    return count;
}
