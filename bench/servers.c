/* The servers that are measured: those of the URLs that were given, or else started by dev/servers
 * on the disk, when a section first asks for one, and removed again when the program ends, however
 * it ends. */
#include "broker.h"
#include "server.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

enum { BROKER = 2, REDIS, SERVERS, URL_ROOM = 512 };

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

#ifdef SEMEL_WITH_RABBITMQ
#define WITH_RABBITMQ 1
#else
#define WITH_RABBITMQ 0
#endif

#ifdef SEMEL_WITH_REDIS
#define WITH_REDIS 1
#else
#define WITH_REDIS 0
#endif

/* The SQL databases, then the broker, then Redis. */
static struct wanted {
    const char *name; /* as dev/servers calls it */
    const char *variable;
    const char **option;
    const server *on;   /* NULL: not built in, or no SQL database */
    char url[URL_ROOM]; /* "" until it is known */
    char state_file[512];
} servers[SERVERS] = {
    {"postgres", "POSTGRES_URL=", &options.postgres, POSTGRES, "", ""},
    {"mariadb", "MARIADB_URL=", &options.mariadb, MARIADB, "", ""},
    [BROKER] = {"rabbitmq", "RABBITMQ_URL=", &options.rabbitmq, NULL, "", ""},
    [REDIS] = {"redis", "REDIS_URL=", &options.redis, NULL, "", ""},
};

/* --- dev/servers ------------------------------------------------------------------------------ */

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
    for (size_t i = 0; i < SERVERS; i++) {
        char *const arguments[] = {script, stop, servers[i].state_file, NULL};
        if (servers[i].state_file[0])
            (void)run_script(arguments);
    }
}

static int is_off(const struct wanted *w)
{
    return *w->option && strcmp(*w->option, "off") == 0;
}

static int is_built_in(const struct wanted *w)
{
    return w->on || (WITH_RABBITMQ && w == &servers[BROKER]) ||
           (WITH_REDIS && w == &servers[REDIS]);
}

static void read_state(struct wanted *w)
{
    char line[URL_ROOM + 32];
    size_t len = strlen(w->variable);
    FILE *state = fopen(w->state_file, "re");
    if (!state)
        die("dev/servers left no %s", w->state_file);
    while (fgets(line, sizeof line, state))
        if (strncmp(line, w->variable, len) == 0) {
            line[strcspn(line, "\n")] = 0;
            snprintf(w->url, URL_ROOM, "%s", line + len);
        }
    fclose(state);
}

static void start_server(struct wanted *w)
{
    static int will_be_stopped;
    char script[] = SEMEL_BENCH_SERVERS, start[] = "start", disk[] = "--disk", watch[] = "--watch";
    char name[16];
    char *const arguments[] = {script, start, disk, watch, w->state_file, name, NULL};
    snprintf(name, sizeof name, "%s", w->name);
    progress("starting servers", 0, 1);
    setenv("SEMEL_SERVERS_DIR", options.directory, 1);
    scratch_path(w->state_file, w->name);
    if (!will_be_stopped)
        atexit(stop_servers);
    will_be_stopped = 1;
    int status = run_script(arguments);
    stop_if_asked();
    if (status != 0)
        die("%s cannot start %s; dev/setup servers installs it, --%s names another", script, name,
            name);
    read_state(w);
}

static const char *url_of(struct wanted *w)
{
    if (!is_built_in(w))
        die("%s is not built in; \"--%s off\" leaves it out", w->name, w->name);
    if (!w->url[0] && *w->option)
        snprintf(w->url, URL_ROOM, "%s", *w->option);
    if (!w->url[0])
        start_server(w);
    return w->url;
}

void one_server(const char *name, void (*measure)(const server *on, const char *url))
{
    for (size_t i = 0; i < BROKER; i++)
        if (!is_off(&servers[i]) && strcmp(servers[i].name, name) == 0)
            measure(servers[i].on, url_of(&servers[i]));
}

void each_server(void (*measure)(const server *on, const char *url))
{
    for (size_t i = 0; i < BROKER; i++)
        one_server(servers[i].name, measure);
}

int broker_is_off(void)
{
    return is_off(&servers[BROKER]);
}

const char *broker_url(void)
{
    return url_of(&servers[BROKER]);
}

int redis_is_off(void)
{
    return is_off(&servers[REDIS]);
}

const char *redis_url(void)
{
    return url_of(&servers[REDIS]);
}

const char *server_title(char out[100], const server *on, const char *what)
{
    static char versions[BROKER][32];
    size_t i = 0;
    while (servers[i].on != on)
        i++;
    if (!versions[i][0]) {
        raw_connection *h = on->open(servers[i].url, NULL);
        on->version(h, versions[i]);
        on->close(h);
    }
    snprintf(out, 100, "%s %s: %s", on->name, versions[i], what);
    return out;
}

/* --- rooms ------------------------------------------------------------------------------------ */

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
    raw_connection *h = on->open(url, NULL);
    on->remove_room(h, room);
    on->close(h);
}

void room_make(const server *on, const char *url, const char *room)
{
    char with_room[1024], sql[SQL_TEXT], table[100];
    semel_error err;
    semel_store *store;
    raw_connection *h = on->open(url, NULL);
    on->remove_room(h, room);
    must(semel_store_open(&store, room_url(with_room, on, url, room), NULL, &err), &err);
    must(semel_store_migrate(store, &err), &err);
    semel_store_close(store);
    snprintf(sql, sizeof sql, "CREATE TABLE %s (id %s PRIMARY KEY, body %s NOT NULL)",
             room_table(table, on, room, "effect"), on->id_type, on->body_type);
    on->run(h, sql);
    on->close(h);
}
