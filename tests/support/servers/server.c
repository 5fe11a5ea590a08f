/* What dev/servers started, seen from a test. It knows where they are from the file that
 * dev/servers wrote, and does nothing by itself that the script can do. Each look finds a session
 * as if it were its own, and leaves none in a transaction: so none is used over a fork, and none is
 * in the way of a crash. See server.h. */
#include "support/servers/server.h"

#include "support/process/process.h"
#include "support/servers/server_internal.h"

#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SCRIPT_DEADLINE_MS = 120000, LET_GO_MS = 15000 };

_Noreturn void server_die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fputs("server: ", stderr);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
    abort();
}

void server_print(char *out, size_t room, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(out, room, format, arguments);
    va_end(arguments);
    if (len < 0 || (size_t)len >= room)
        server_die("no room for \"%s\"", format);
}

/* --- kinds ------------------------------------------------------------------------------------ */

static const server_type rabbitmq = {.name = "rabbitmq", .scheme = "amqp", .prefix = "RABBITMQ"};
static const server_type nats = {.name = "nats", .scheme = "nats", .prefix = "NATS"};

static const server_type *const types[SERVER_KINDS] = {
    [SERVER_POSTGRES] = &server_postgres, [SERVER_MARIADB] = &server_mariadb,
    [SERVER_REDIS] = &server_redis,       [SERVER_DYNAMODB] = &server_dynamodb,
    [SERVER_RABBITMQ] = &rabbitmq,        [SERVER_NATS] = &nats};

/* --- URLs ------------------------------------------------------------------------------------- */

void server_parameter(char out[SERVER_NAME_ROOM], const char *url, const char *name,
                      const char *fallback)
{
    const char *found = strchr(url, '?');
    size_t len = strlen(name);
    while (found && (strncmp(found + 1, name, len) != 0 || found[1 + len] != '='))
        found = strchr(found + 1, '&');
    const char *value = found ? found + 1 + len + 1 : fallback;
    server_print(out, SERVER_NAME_ROOM, "%.*s", (int)strcspn(value, "&"), value);
}

server_kind server_kind_of(const char *url)
{
    for (server_kind kind = SERVER_POSTGRES; kind < SERVER_KINDS; kind++)
        if (strncmp(url, types[kind]->scheme, strlen(types[kind]->scheme)) == 0)
            return kind;
    server_die("there is no server for %s", url);
}

const char *server_name(server_kind kind)
{
    return types[kind]->name;
}

int server_has_sql(server_kind kind)
{
    return types[kind]->print_aging != NULL;
}

/* dynamodb://TABLE?region=...&endpoint=http://host:port */
static int parse_endpoint(server_target *out, const char *url)
{
    const char *endpoint = strstr(url, "endpoint=http://");
    return sscanf(url, "%*[a-z]://%63[^?]", out->database) == 1 && endpoint &&
           sscanf(endpoint, "endpoint=http://%63[^:/]:%u", out->host, &out->port) == 2;
}

int64_t server_clock_ms(server_kind kind)
{
    return types[kind]->clock_ms;
}

int server_is_wanted(server_kind kind)
{
    const char *only = getenv("SEMEL_TEST_SERVER");
    if (!only || strcmp(only, types[kind]->name) == 0)
        return 1;
    for (server_kind other = SERVER_POSTGRES; other < SERVER_KINDS; other++)
        if (strcmp(only, types[other]->name) == 0)
            return 0;
    server_die("SEMEL_TEST_SERVER=%s: there is no such server", only);
}

static void parse(server_target *out, const char *url)
{
    char scheme[SERVER_NAME_ROOM];
    *out = (server_target){.kind = server_kind_of(url)};
    if (out->kind == SERVER_DYNAMODB) {
        if (!parse_endpoint(out, url))
            server_die("%s is not like dynamodb://table?endpoint=http://host:port", url);
        return;
    }
    if (sscanf(url, "%63[a-z]://%63[^@]@%63[^:/]:%u/%63[^?]", scheme, out->user, out->host,
               &out->port, out->database) != 5)
        server_die("%s is not like scheme://user@host:port/database", url);
    server_parameter(out->schema, url, "schema", "public");
    server_parameter(out->prefix, url, "prefix", "semel_");
}

void server_address(const char *url, char host[SERVER_HOST_ROOM], unsigned *port)
{
    server_target at;
    parse(&at, url);
    server_print(host, SERVER_HOST_ROOM, "%s", at.host);
    *port = at.port;
}

/* --- SQL -------------------------------------------------------------------------------------- */

void server_each(const char *url, const char *sql, server_row *row, void *context)
{
    server_target at;
    parse(&at, url);
    if (!types[at.kind]->each)
        server_die("%s has no SQL, or is not built in: %s", types[at.kind]->name, sql);
    types[at.kind]->each(&at, sql, row, context);
}

void server_run(const char *url, const char *sql)
{
    server_each(url, sql, NULL, NULL);
}

static void keep_number(const char *text, void *context)
{
    int64_t **next = context;
    if (*next)
        **next = text ? strtoll(text, NULL, 10) : 0;
    *next = NULL;
}

int64_t server_number(const char *url, const char *sql)
{
    int64_t number = 0, *next = &number;
    server_each(url, sql, keep_number, &next);
    return number;
}

/* --- where they are --------------------------------------------------------------------------- */

void server_entry(char *out, size_t room, const server_place *where, const char *name)
{
    char line[SERVER_URL_ROOM + SERVER_NAME_ROOM], wanted[SERVER_NAME_ROOM];
    FILE *file = fopen(where->state, "re");
    if (!file)
        server_die("no %s: ctest starts the servers, or: dev/servers start %s postgres mariadb "
                   "redis dynamodb rabbitmq nats",
                   where->state, where->state);
    server_print(wanted, sizeof wanted, "%s_%s=", types[where->kind]->prefix, name);
    while (fgets(line, sizeof line, file) && strncmp(line, wanted, strlen(wanted)) != 0)
        line[0] = 0;
    (void)fclose(file);
    if (strncmp(line, wanted, strlen(wanted)) != 0)
        server_die("%s does not say %s", where->state, wanted);
    line[strcspn(line, "\n")] = 0;
    server_print(out, room, "%s", line + strlen(wanted));
}

static void read_place(server_place *out, server_kind kind, const char *path)
{
    *out = (server_place){.kind = kind};
    server_print(out->state, sizeof out->state, "%s", path);
    server_entry(out->url, sizeof out->url, out, "URL");
    server_entry(out->directory, sizeof out->directory, out, "DIR");
    server_entry(out->pid_file, sizeof out->pid_file, out, "PID_FILE");
    if (types[kind]->socket)
        server_entry(out->socket, sizeof out->socket, out, types[kind]->socket);
    server_address(out->url, out->host, &out->port);
}

void server_find(server_place *out, server_kind kind)
{
    const char *path = getenv("SEMEL_TEST_SERVERS");
    read_place(out, kind, path && *path ? path : SEMEL_BINARY_DIR "/servers.env");
}

/* --- stores ----------------------------------------------------------------------------------- */

void server_invent_name(char name[SERVER_NAME_ROOM])
{
    static atomic_uint count;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    server_print(name, SERVER_NAME_ROOM, "t%x_%llx%08lx_%u", (unsigned)getpid(),
                 (unsigned long long)now.tv_sec, (unsigned long)now.tv_nsec,
                 atomic_fetch_add(&count, 1));
}

void server_fresh(char url[SERVER_URL_ROOM], const server_place *where)
{
    char name[SERVER_NAME_ROOM];
    server_invent_name(name);
    types[where->kind]->fresh(url, where, name);
}

void server_fresh_postgres(char url[SERVER_URL_ROOM])
{
    server_place shared;
    server_find(&shared, SERVER_POSTGRES);
    server_fresh(url, &shared);
}

void server_fresh_mariadb(char url[SERVER_URL_ROOM])
{
    server_place shared;
    server_find(&shared, SERVER_MARIADB);
    server_fresh(url, &shared);
}

void server_fresh_redis(char url[SERVER_URL_ROOM])
{
    server_place shared;
    server_find(&shared, SERVER_REDIS);
    server_fresh(url, &shared);
}

void server_fresh_dynamodb(char url[SERVER_URL_ROOM])
{
    server_place shared;
    server_find(&shared, SERVER_DYNAMODB);
    server_fresh(url, &shared);
}

void server_drop(const char *url)
{
    server_target at;
    parse(&at, url);
    types[at.kind]->drop(url, &at);
}

/* --- stores that are used again --------------------------------------------------------------- */

void server_store_name(char name[SERVER_NAME_ROOM], const char *url)
{
    server_target at;
    parse(&at, url);
    server_print(name, SERVER_NAME_ROOM, "%s",
                 at.kind == SERVER_POSTGRES ? at.schema : at.database);
}

static void keep_text(const char *text, void *context)
{
    char *out = context;
    server_print(out, SERVER_DIGEST_ROOM, "%s", text ? text : "");
}

void server_digest(char out[SERVER_DIGEST_ROOM], const char *url)
{
    server_target at;
    char sql[4 * SERVER_SQL_ROOM];
    parse(&at, url);
    out[0] = 0;
    if (!types[at.kind]->print_digest)
        return;
    types[at.kind]->print_digest(sql, sizeof sql, &at);
    server_each(url, sql, keep_text, out);
}

int server_empty(const char *url, const char *digest)
{
    server_target at;
    char sql[4 * SERVER_SQL_ROOM];
    parse(&at, url);
    if (!types[at.kind]->print_empty)
        return 0;
    types[at.kind]->print_empty(sql, sizeof sql, &at, digest);
    return server_number(url, sql) == 1;
}

/* --- time ------------------------------------------------------------------------------------- */

static const server_aging agings[] = {
    {"marker",
     {"at_ms", "lease_until_ms", "first_ms"},
     "inbox, `key`",
     "inbox = r.inbox AND `key` = r.`key`",
     NULL},
    {"outbox", {"wake_ms", "captured_ms", NULL}, "seq", "seq = r.seq", NULL},
    {"dead", {"at_ms", "first_ms", NULL}, "dead_id", "dead_id = r.dead_id", NULL},
    {"group", {"due_ms", NULL, NULL}, "outbox, grp", "outbox = r.outbox AND grp = r.grp", NULL},
    /* What was forgotten and when a sweep is due are times, the horizon is none. */
    {"note",
     {"number", NULL, NULL},
     "inbox, note",
     "inbox = r.inbox AND note = r.note",
     "note IN (2, 4) AND number > 0"},
    {"sent",
     {"sent_ms", "captured_ms", NULL},
     "outbox, sent_ms, seq",
     "outbox = r.outbox AND sent_ms = r.sent_ms AND seq = r.seq",
     NULL},
    {"audit", {"at_ms", NULL, NULL}, "id", "id = r.id", NULL},
    {"process", {"started_ms", "seen_ms", NULL}, "id", "id = r.id", NULL}};

void server_print_changes(char *out, size_t room, const server_aging *one, int64_t ms)
{
    size_t used = 0;
    if (one->only) {
        const char *time = one->times[0];
        server_print(out, room, "%s = CASE WHEN %s THEN %s - %lld ELSE %s END", time, one->only,
                     time, (long long)ms, time);
        return;
    }
    for (size_t i = 0; i < SERVER_AGING_TIMES && one->times[i]; i++) {
        server_print(out + used, room - used, "%s%s = %s - %lld", i ? ", " : "", one->times[i],
                     one->times[i], (long long)ms);
        used = strlen(out);
    }
}

static int64_t count_locked(const char *url, const server_target *at)
{
    char sql[SERVER_SQL_ROOM];
    size_t used = 0;
    for (size_t i = 0; i < sizeof agings / sizeof *agings; i++) {
        const char *prefix = at->prefix, *table = agings[i].table;
        server_print(sql + used, sizeof sql - used,
                     "%s (SELECT count(*) FROM %s%s) - (SELECT count(*) FROM"
                     " (SELECT 1 AS one FROM %s%s FOR UPDATE SKIP LOCKED) AS free_%s)",
                     i ? " +" : types[at->kind]->select_unlocked, prefix, table, prefix, table,
                     table);
        used = strlen(sql);
    }
    return server_number(url, sql);
}

/* A server may be late to carry out a ROLLBACK that no client waits for, and until then the row
 * does not age. */
void server_pass_ms(const char *url, int64_t ms)
{
    server_target at;
    int64_t deadline = process_now_ms() + LET_GO_MS;
    parse(&at, url);
    while (!types[at.kind]->pass && count_locked(url, &at) && process_now_ms() < deadline)
        process_nap();
    server_pass_unlocked_ms(url, ms);
}

/* All in one session, and in PostgreSQL one transaction: it waits for no lock, so it delays no
 * other session. */
void server_pass_unlocked_ms(const char *url, int64_t ms)
{
    server_target at;
    char one[SERVER_SQL_ROOM], all[sizeof agings / sizeof *agings * SERVER_SQL_ROOM] = "";
    parse(&at, url);
    if (types[at.kind]->pass) {
        types[at.kind]->pass(url, ms);
        return;
    }
    for (size_t i = 0; i < sizeof agings / sizeof *agings; i++) {
        size_t used = strlen(all);
        types[at.kind]->print_aging(one, sizeof one, &at, &agings[i], ms);
        server_print(all + used, sizeof all - used, "%s%s", i ? "; " : "", one);
    }
    server_run(url, all);
}

/* --- a server of the test's own --------------------------------------------------------------- */

/* arguments: ends with NULL; the path of the script goes before it. */
static void run_script(const char *const *arguments)
{
    static const char script[] = SEMEL_SOURCE_DIR "/dev/servers";
    const char *all[8] = {script};
    pid_t pid;
    for (size_t i = 0; arguments[i]; i++)
        all[i + 1] = arguments[i];
    int code = posix_spawn(&pid, script, NULL, NULL, (char *const *)(uintptr_t)all, environ);
    if (code)
        server_die("cannot run %s: %s", script, strerror(code));
    if (process_wait(pid, SCRIPT_DEADLINE_MS) != 0)
        server_die("%s %s failed", script, arguments[0]);
}

static void command(const server_own *own, const char *verb)
{
    run_script((const char *const[]){verb, own->state, types[own->at.kind]->name, NULL});
}

void server_own_start(server_own *own, server_kind kind)
{
    scratch_open(&own->directory);
    scratch_file(own->state, &own->directory, "servers.env");
    run_script((const char *const[]){"start", "--watch", own->state, types[kind]->name, NULL});
    read_place(&own->at, kind, own->state);
}

void server_own_crash(server_own *own)
{
    command(own, "crash");
}

void server_own_halt(server_own *own)
{
    command(own, "halt");
}

void server_own_restart(server_own *own)
{
    command(own, "restart");
}

void server_own_stop(server_own *own)
{
    run_script((const char *const[]){"stop", own->state, NULL});
    scratch_close(&own->directory);
}
