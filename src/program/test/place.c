/* See place.h. Each call has a connection of its own and leaves none open: the processes that are
 * killed are forked from this one. */
#include "program/test/place.h"

#include "program/run/sample.h"
#include "program/support/temporary.h"
#include "program/support/url_text.h"
#include "program/test/place_query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

struct test_place {
    region memory;
    sql_kind kind;
    char *directory;        /* SQLite; NULL: beside the user's file */
    unsigned number;        /* SQLite: of the store in the directory */
    const char *server_url; /* as it was given; NULL: none was */
    const char *name;       /* of the schema or database, or the path of the file */
    const char *url;        /* of the store */
};

/* --- opening ---------------------------------------------------------------------------------- */

static const char *make_name(region *memory, const char *purpose)
{
    unsigned number = 0;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number)
        number = (unsigned)getpid();
    return region_printf(memory, "semel_%s_%d_%08x", purpose, (int)getpid(), number);
}

/* The search_path comes last: of two, the last one counts. */
static const char *postgres_url(test_place *p)
{
    const char *others = url_parameter(&p->memory, p->server_url, "options");
    const char *options =
        region_printf(&p->memory, "%s -c search_path=%s", others ? others : "", p->name);
    const char *url = url_with_parameter(&p->memory, p->server_url, "schema", p->name);
    return url_with_parameter(&p->memory, url, "options", options);
}

/* The parameters stay: they say how durable a commit is. */
static const char *sqlite_url(test_place *p)
{
    const char *file = p->server_url + strlen("sqlite:");
    size_t len = strcspn(file, "?");
    p->name = region_printf(&p->memory, "%.*s.%s", (int)len, file, p->name);
    return region_printf(&p->memory, "sqlite:%s%s", p->name, file + len);
}

static semel_status open_beside(test_place *p, const char *purpose, const char *url,
                                semel_error *err)
{
    p->kind = sql_kind_of(url);
    p->server_url = region_copy(&p->memory, url, strlen(url));
    p->name = make_name(&p->memory, purpose);
    if (p->kind == SQL_KIND_POSTGRES)
        p->url = postgres_url(p);
    else if (p->kind == SQL_KIND_MARIADB)
        p->url = url_with_path(&p->memory, url, p->name);
    else if (p->kind == SQL_KIND_SQLITE)
        p->url = sqlite_url(p);
    else
        return semel_fail(err, SEMEL_EINVAL,
                          "the store has no SQL; use SQLite, PostgreSQL or "
                          "MariaDB");
    return SEMEL_OK;
}

semel_status place_open(test_place **out, const char *purpose, const char *url, semel_error *err)
{
    test_place *p = must_alloc(sizeof *p);
    semel_status status = SEMEL_OK;
    p->kind = SQL_KIND_SQLITE;
    if (url)
        status = open_beside(p, purpose, url, err);
    else if (!(p->directory = temporary_directory()))
        status = semel_fail(err, SEMEL_ESTORE, "no temporary directory: %s", strerror(errno));
    if (status) {
        region_free(&p->memory);
        free(p);
    } else {
        *out = p;
    }
    return status;
}

/* --- statements ------------------------------------------------------------------------------- */

static semel_status run_all(const char *url, const char *const statements[], size_t count,
                            semel_error *err)
{
    semel_store *store = NULL;
    semel_store_options options = {.size = sizeof options};
    semel_status status = semel_store_open(&store, url, &options, err);
    if (!status)
        status = semel_store_run(store, statements, count, NULL, err);
    semel_store_close(store);
    return status;
}

/* A schema is dropped on a connection to its database, a database on one to another. */
static const char *outside_url(const test_place *p)
{
    return p->kind == SQL_KIND_MARIADB ? p->server_url : p->url;
}

static const char *drop_text(region *memory, const test_place *p)
{
    return p->kind == SQL_KIND_MARIADB
               ? region_printf(memory, "DROP DATABASE IF EXISTS %s", p->name)
               : region_printf(memory, "DROP SCHEMA IF EXISTS %s CASCADE", p->name);
}

static void remove_files(const test_place *p)
{
    static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
    region memory = {0};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        (void)unlink(region_printf(&memory, "%s%s", p->name, endings[i]));
    region_free(&memory);
}

semel_status place_fresh(test_place *p, semel_error *err)
{
    if (p->directory) {
        p->url = region_printf(&p->memory, "sqlite:%s/%u.db?synchronous=normal", p->directory,
                               ++p->number);
        return SEMEL_OK;
    }
    if (p->kind == SQL_KIND_SQLITE) {
        remove_files(p);
        return SEMEL_OK;
    }
    const char *kind = p->kind == SQL_KIND_MARIADB ? "DATABASE" : "SCHEMA";
    const char *const statements[] = {drop_text(&p->memory, p),
                                      region_printf(&p->memory, "CREATE %s %s", kind, p->name)};
    return run_all(outside_url(p), statements, 2, err);
}

const char *place_url(const test_place *p)
{
    return p->url;
}

/* What the tables are called. */
static const char *table(region *memory, const test_place *p, const char *name)
{
    const char *prefix = url_parameter(memory, p->server_url, "prefix");
    return p->kind == SQL_KIND_MARIADB
               ? region_printf(memory, "%s%s", prefix ? prefix : "semel_", name)
               : region_printf(memory, "%s.semel_%s", p->name, name);
}

semel_status place_pass(const test_place *p, int64_t ms, semel_error *err)
{
    static const char *const times[][2] = {
        {"marker", "lease_until_ms"}, {"outbox", "wake_ms"}, {"group", "due_ms"}};
    enum { TIMES = sizeof times / sizeof *times };
    const char *statements[TIMES];
    region memory = {0};
    if (p->kind == SQL_KIND_SQLITE)
        return SEMEL_OK;
    for (size_t i = 0; i < TIMES; i++)
        statements[i] = region_printf(&memory, "UPDATE %s SET %s = %s - %lld WHERE %s > 0",
                                      table(&memory, p, times[i][0]), times[i][1], times[i][1],
                                      (long long)ms, times[i][1]);
    semel_status status = run_all(p->url, statements, TIMES, err);
    region_free(&memory);
    return status;
}

semel_status place_query(const test_place *p, buffer *out, const char *sql, semel_error *err)
{
    buffer_text(out, "");
    return query_first(out, p->kind, p->url, sql, err);
}

/* --- the end ---------------------------------------------------------------------------------- */

void place_describe(buffer *to, const test_place *p)
{
    if (p->directory) {
        buffer_text(to, "temporary SQLite store");
        return;
    }
    buffer_printf(to, "temporary %s ",
                  p->kind == SQL_KIND_SQLITE    ? "file beside"
                  : p->kind == SQL_KIND_MARIADB ? "database in"
                                                : "schema in");
    sample_url(to, p->server_url);
}

void place_removal(buffer *to, const test_place *p)
{
    region memory = {0};
    if (p->kind == SQL_KIND_SQLITE)
        buffer_printf(to, "rm %s*", p->name ? p->name : p->directory);
    else
        buffer_text(to, drop_text(&memory, p));
    region_free(&memory);
}

semel_status place_close(test_place *p, semel_error *err)
{
    semel_status status = SEMEL_OK;
    if (!p)
        return SEMEL_OK;
    temporary_remove(p->directory);
    if (p->kind == SQL_KIND_SQLITE && p->name) {
        remove_files(p);
    } else if (p->name) {
        const char *drop = drop_text(&p->memory, p);
        status = run_all(outside_url(p), &drop, 1, err);
    }
    region_free(&p->memory);
    free(p);
    return status;
}
