/* The servers that are measured: those of the URLs that were given, or else started by dev/servers
 * on the disk, when a section first asks for one, and removed again when the program ends, however
 * it ends. */
#include "broker.h"
#include "server.h"

#include <ctype.h>
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

enum { DATABASES = 2, SERVERS_MAX = SERVER_OPTIONS_MAX, URL_ROOM = 512 };

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

/* The SQL databases, then Redis and the servers of the brokers. */
static struct wanted {
    const char *name;   /* as dev/servers calls it, and the option */
    const server *on;   /* NULL: not built in, or no SQL database */
    const char *given;  /* a URL, or "off"; NULL: one is started */
    char url[URL_ROOM]; /* "" until it is known */
    char state_file[512];
} servers[SERVERS_MAX] = {
    {.name = "postgres", .on = POSTGRES}, {.name = "mariadb", .on = MARIADB}, {.name = "redis"}};

static struct wanted *wanted_of(const char *name)
{
    size_t i = 0;
    while (i < SERVERS_MAX && servers[i].name && strcmp(servers[i].name, name) != 0)
        i++;
    if (i == SERVERS_MAX)
        die("no room for the server %s", name);
    servers[i].name = name;
    return &servers[i];
}

size_t server_options(struct option *out, int value)
{
    size_t count = 0;
    for (const broker_kind *const *each = brokers; *each; each++)
        (void)wanted_of((*each)->server);
    for (; count < SERVERS_MAX && servers[count].name; count++)
        out[count] = (struct option){servers[count].name, required_argument, NULL, value};
    return count;
}

void server_given(const char *name, const char *url)
{
    wanted_of(name)->given = url;
}

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
    for (size_t i = 0; i < SERVERS_MAX; i++) {
        char *const arguments[] = {script, stop, servers[i].state_file, NULL};
        if (servers[i].state_file[0])
            (void)run_script(arguments);
    }
}

static int is_off(const struct wanted *w)
{
    return w->given && strcmp(w->given, "off") == 0;
}

/* "POSTGRES_URL=" in the file of dev/servers. */
static void print_variable(char out[32], const char *name)
{
    size_t len = 0;
    for (; name[len] && len < 24; len++)
        out[len] = (char)toupper((unsigned char)name[len]);
    snprintf(out + len, 32 - len, "_URL=");
}

static void read_state(struct wanted *w)
{
    char line[URL_ROOM + 32], variable[32];
    print_variable(variable, w->name);
    size_t len = strlen(variable);
    FILE *state = fopen(w->state_file, "re");
    if (!state)
        die("dev/servers left no %s", w->state_file);
    while (fgets(line, sizeof line, state))
        if (strncmp(line, variable, len) == 0) {
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
        die("%s cannot start %s; dev/setup servers (or kafka) installs it, --%s names another",
            script, name, name);
    read_state(w);
}

static const char *url_of(struct wanted *w)
{
    if (!w->url[0] && w->given)
        snprintf(w->url, URL_ROOM, "%s", w->given);
    if (!w->url[0])
        start_server(w);
    return w->url;
}

void one_server(const char *name, void (*measure)(const server *on, const char *url))
{
    struct wanted *w = wanted_of(name);
    if (is_off(w))
        return;
    if (!w->on)
        die("%s is not built in; \"--%s off\" leaves it out", name, name);
    measure(w->on, url_of(w));
}

void each_server(void (*measure)(const server *on, const char *url))
{
    for (size_t i = 0; i < DATABASES; i++)
        one_server(servers[i].name, measure);
}

int broker_is_off(const broker_kind *kind)
{
    return is_off(wanted_of(kind->server));
}

int broker_is_given(const broker_kind *kind)
{
    return wanted_of(kind->server)->given != NULL && !broker_is_off(kind);
}

const char *broker_url(const broker_kind *kind)
{
    return url_of(wanted_of(kind->server));
}

int redis_is_off(void)
{
    return is_off(wanted_of("redis"));
}

const char *redis_url(void)
{
    return url_of(wanted_of("redis"));
}

const char *server_title(char out[100], const server *on, const char *what)
{
    static char versions[DATABASES][32];
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
