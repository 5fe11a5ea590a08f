/* Stores that have their tables already, on a server where making and removing these takes longer
 * than most tests: one test gives its store back, emptied, and the next one of the same program
 * gets it. A store whose tables, functions or identity are no longer as the library made them is
 * removed instead. See server.h. */
#include "support/servers/server.h"
#include "support/servers/server_internal.h"

#include <semel/semel.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEPT_MAX = 8 };

typedef struct kept_store {
    char url[SERVER_URL_ROOM]; /* "": the entry is free */
    char state[SCRATCH_PATH];  /* of the server */
    char name[SERVER_NAME_ROOM];
    char as_made[SERVER_DIGEST_ROOM];
    int in_use;
    pid_t owner; /* a child of the test has a copy of this table */
} kept_store;

static kept_store kept[KEPT_MAX];

static void drop(kept_store *one)
{
    server_drop(one->url);
    one->url[0] = 0;
}

/* Also one that a test which failed did not give back. */
static void drop_all(void)
{
    for (size_t i = 0; i < KEPT_MAX; i++)
        if (kept[i].url[0] && kept[i].owner == getpid() && access(kept[i].state, R_OK) == 0)
            drop(&kept[i]);
}

static kept_store *find_idle(const server_place *where)
{
    for (size_t i = 0; i < KEPT_MAX; i++)
        if (kept[i].url[0] && !kept[i].in_use && kept[i].owner == getpid() &&
            server_kind_of(kept[i].url) == where->kind && strcmp(kept[i].state, where->state) == 0)
            return &kept[i];
    return NULL;
}

static kept_store *find_free(void)
{
    for (size_t i = 0; i < KEPT_MAX; i++)
        if (!kept[i].url[0])
            return &kept[i];
    return NULL;
}

static void make_tables(const char *url)
{
    semel_error err = {0};
    semel_store *store = NULL;
    semel_status status = semel_store_open(&store, url, NULL, &err);
    if (!status)
        status = semel_store_migrate(store, &err);
    if (status)
        server_die("no tables in %s: %s", url, err.text);
    semel_store_close(store);
}

static kept_store *make_one(const server_place *where)
{
    static int registered;
    kept_store *one = find_free();
    if (!one)
        server_die("more than %d stores are in use at once", KEPT_MAX);
    if (!registered && atexit(drop_all) != 0)
        server_die("no room for atexit()");
    registered = 1;
    server_fresh(one->url, where);
    make_tables(one->url);
    server_print(one->state, sizeof one->state, "%s", where->state);
    server_store_name(one->name, one->url);
    server_digest(one->as_made, one->url);
    one->owner = getpid();
    return one;
}

void server_ready(char url[SERVER_URL_ROOM], const server_place *where)
{
    kept_store *one = find_idle(where);
    if (!one)
        one = make_one(where);
    one->in_use = 1;
    memcpy(url, one->url, sizeof one->url);
}

void server_ready_postgres(char url[SERVER_URL_ROOM])
{
    server_place shared;
    server_find(&shared, SERVER_POSTGRES);
    server_ready(url, &shared);
}

void server_ready_mariadb(char url[SERVER_URL_ROOM])
{
    server_place shared;
    server_find(&shared, SERVER_MARIADB);
    server_ready(url, &shared);
}

void server_give_back(const char *url)
{
    char name[SERVER_NAME_ROOM];
    server_store_name(name, url);
    for (size_t i = 0; i < KEPT_MAX; i++) {
        kept_store *one = &kept[i];
        if (!one->url[0] || one->owner != getpid() || strcmp(one->name, name) != 0)
            continue;
        one->in_use = 0;
        if (!server_empty(one->url, one->as_made))
            drop(one);
        return;
    }
    server_drop(url);
}
