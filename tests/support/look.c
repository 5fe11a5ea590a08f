/* See look.h. */
#include "support/look.h"

#include "support/peek.h"
#include "support/process.h"
#include "support/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUIET_MS = 20000 };

#define SQLITE "sqlite:"

int look_is_server(const char *url)
{
    return strncmp(url, SQLITE, strlen(SQLITE)) != 0;
}

int look_is_postgres(const char *url)
{
    return url[0] == 'p';
}

static const char *path_of(const char *url)
{
    return url + strlen(SQLITE);
}

void look_run(const char *url, const char *sql)
{
    if (look_is_server(url))
        server_run(url, sql);
    else
        peek_run(path_of(url), sql);
}

int64_t look_number(const char *url, const char *sql)
{
    return look_is_server(url) ? server_number(url, sql) : peek_number(path_of(url), sql);
}

void look_each(const char *url, const char *sql, void (*row)(const char *text, void *context),
               void *context)
{
    if (look_is_server(url))
        server_each(url, sql, row, context);
    else
        peek_each(path_of(url), sql, row, context);
}

static void keep_next(const char *text, void *context)
{
    int64_t **next = context;
    *(*next)++ = text ? strtoll(text, NULL, 10) : 0;
}

/* UNION ALL promises no order, so each row says where it belongs. */
void look_numbers(int64_t out[], const char *url, const char *const sqls[], size_t count)
{
    char all[2048] = "SELECT number FROM (";
    int64_t *next = out;
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(all);
        (void)snprintf(all + len, sizeof all - len, "%sSELECT %zu AS place, (%s) AS number",
                       i ? " UNION ALL " : "", i, sqls[i]);
    }
    strcat(all, ") AS every_one ORDER BY place");
    look_each(url, all, keep_next, &next);
}

void look_pass_ms(const char *url, int64_t ms)
{
    if (look_is_server(url))
        server_pass_ms(url, ms);
}

void look_wait_quiet(const char *url)
{
    static const char postgres[] =
        "SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation"
        " WHERE c.relnamespace = to_regnamespace(current_schema()::text)"
        " AND l.pid <> pg_backend_pid()";
    static const char mariadb[] = "SELECT count(*) FROM information_schema.processlist"
                                  " WHERE db = database() AND id <> connection_id()";
    int64_t deadline = process_now_ms() + QUIET_MS;
    if (!look_is_server(url))
        return;
    while (server_number(url, look_is_postgres(url) ? postgres : mariadb)) {
        if (process_now_ms() > deadline) {
            (void)fprintf(stderr, "look: somebody holds something in %s\n", url);
            abort();
        }
        process_nap();
    }
}
