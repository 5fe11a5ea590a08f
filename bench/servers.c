/* The servers that are measured: those of the URLs that were given, or else both, started by dev/servers on the
 * disk and removed again when the program ends, however it ends. */
#include "server.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

enum { SERVERS = 2, URL_ROOM = 512 };

#ifdef SEMEL_WITH_POSTGRES
#define POSTGRES &postgres_server
#else
#define POSTGRES NULL
#endif
#ifdef SEMEL_WITH_MARIADB
#define MARIADB &mariadb_server
#else
#define MARIADB NULL
#endif

static struct wanted {
    const char *name; /* as dev/servers calls it */
    const char *variable;
    const char **option;
    const server *on;   /* NULL: not built in */
    char url[URL_ROOM]; /* "" until it is known */
} servers[SERVERS] = {
    {"postgres", "POSTGRES_URL=", &options.postgres, POSTGRES, ""},
    {"mariadb", "MARIADB_URL=", &options.mariadb, MARIADB, ""},
};

static char state_file[512];

/* --- dev/servers --------------------------------------------------------------------------------------- */

static int run_script(char *const arguments[])
{
    pid_t child;
    int status = 0;
    if (posix_spawn(&child, arguments[0], NULL, NULL, arguments, environ) != 0)
        return -1;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

static void stop_servers(void)
{
    char script[] = SEMEL_BENCH_SERVERS, stop[] = "stop";
    char *const arguments[] = {script, stop, state_file, NULL};
    (void)run_script(arguments);
}

static int is_off(const struct wanted *w)
{
    return *w->option && strcmp(*w->option, "off") == 0;
}

static void read_state(void)
{
    char line[URL_ROOM + 32];
    FILE *state = fopen(state_file, "re");
    if (!state)
        die("dev/servers left no %s", state_file);
    while (fgets(line, sizeof line, state))
        for (size_t i = 0; i < SERVERS; i++) {
            size_t len = strlen(servers[i].variable);
            if (strncmp(line, servers[i].variable, len) != 0)
                continue;
            line[strcspn(line, "\n")] = 0;
            snprintf(servers[i].url, URL_ROOM, "%s", line + len);
        }
    fclose(state);
}

static void start_servers(void)
{
    char script[] = SEMEL_BENCH_SERVERS, start[] = "start", disk[] = "--disk", watch[] = "--watch";
    char names[SERVERS][16];
    char *arguments[5 + SERVERS + 1] = {script, start, disk, watch, state_file};
    size_t count = 5;
    for (size_t i = 0; i < SERVERS; i++)
        if (!*servers[i].option) {
            snprintf(names[i], sizeof names[i], "%s", servers[i].name);
            arguments[count++] = names[i];
        }
    if (count == 5)
        return;
    progress("starting servers", 0, 1);
    setenv("SEMEL_SERVERS_DIR", options.directory, 1);
    scratch_path(state_file, "servers");
    atexit(stop_servers);
    int status = run_script(arguments);
    stop_if_asked();
    if (status != 0)
        die("%s cannot start the servers; dev/setup servers installs them, --postgres and "
            "--mariadb name others",
            script);
    read_state();
}

static void find_servers(void)
{
    static int found;
    if (found)
        return;
    found = 1;
    for (size_t i = 0; i < SERVERS; i++) {
        if (!is_off(&servers[i]) && !servers[i].on)
            die("the %s store is not built in; \"--%s off\" leaves it out", servers[i].name,
                servers[i].name);
        if (*servers[i].option)
            snprintf(servers[i].url, URL_ROOM, "%s", *servers[i].option);
    }
    start_servers();
}

void each_server(void (*measure)(const server *on, const char *url))
{
    find_servers();
    for (size_t i = 0; i < SERVERS; i++)
        if (!is_off(&servers[i]))
            measure(servers[i].on, servers[i].url);
}

const char *server_title(char out[100], const server *on, const char *what)
{
    static char versions[SERVERS][32];
    size_t i = 0;
    while (servers[i].on != on)
        i++;
    if (!versions[i][0]) {
        hand *h = on->open(servers[i].url, NULL);
        on->version(h, versions[i]);
        on->close(h);
    }
    snprintf(out, 100, "%s %s: %s", on->name, versions[i], what);
    return out;
}

/* --- rooms --------------------------------------------------------------------------------------------- */

const char *room_url(char out[1024], const server *on, const char *url, const char *room)
{
    char value[ROOM_NAME];
    snprintf(value, sizeof value, on->room_format, room);
    snprintf(out, 1024, "%s%c%s=%s", url, strchr(url, '?') ? '&' : '?', on->room_parameter, value);
    return out;
}

const char *room_table(char out[100], const server *on, const char *room, const char *name)
{
    snprintf(out, 100, on->table_format, room, name);
    return out;
}

const char *room_semel_table(char out[100], const server *on, const char *room, const char *name)
{
    snprintf(out, 100, on->semel_format, room, name);
    return out;
}

void room_remove(const server *on, const char *url, const char *room)
{
    hand *h = on->open(url, NULL);
    on->remove_room(h, room);
    on->close(h);
}

void room_make(const server *on, const char *url, const char *room)
{
    char with_room[1024], sql[SQL_TEXT], table[100];
    semel_error err;
    semel_store *store;
    hand *h = on->open(url, NULL);
    on->remove_room(h, room);
    must(semel_store_open(&store, room_url(with_room, on, url, room), NULL, &err), &err);
    must(semel_store_migrate(store, &err), &err);
    semel_store_close(store);
    snprintf(sql, sizeof sql, "CREATE TABLE %s (id %s PRIMARY KEY, body %s NOT NULL)",
             room_table(table, on, room, "effect"), on->id_type, on->body_type);
    on->run(h, sql);
    on->close(h);
}
