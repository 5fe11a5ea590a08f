/* The transport suite on queues in PostgreSQL and in MariaDB. */
#include "support/conformance/conformance_transport.h"
#include "support/servers/server.h"

#include <stdio.h>
#include <string.h>

/* Room for "store:" before the store's URL and the queue's name behind it. */
static void make_url(char url[TRANSPORT_URL_ROOM], const char *store)
{
    int len = snprintf(url, TRANSPORT_URL_ROOM, "store:%s#orders", store);
    assert_in_range(len, 1, TRANSPORT_URL_ROOM - 1);
}

static void make_postgres(char url[TRANSPORT_URL_ROOM])
{
    char store[SERVER_URL_ROOM];
    server_fresh_postgres(store);
    make_url(url, store);
}

static void make_mariadb(char url[TRANSPORT_URL_ROOM])
{
    char store[SERVER_URL_ROOM];
    server_fresh_mariadb(store);
    make_url(url, store);
}

static const char *store_of(char out[TRANSPORT_URL_ROOM], const char *url)
{
    (void)snprintf(out, TRANSPORT_URL_ROOM, "%s", url + strlen("store:"));
    *strrchr(out, '#') = 0;
    return out;
}

static void drop_store(const char *url)
{
    char store[TRANSPORT_URL_ROOM];
    server_drop(store_of(store, url));
}

static void pass_ms(transport_fixture *f, int64_t ms)
{
    char store[TRANSPORT_URL_ROOM];
    semel_test_advance_ms(f->seam, ms);
    server_pass_ms(store_of(store, f->url), ms);
}

#define QUIRKS(name_, make_)                                                              \
    {                                                                                     \
        .name = (name_), .flags = TRANSPORT_KEEPS, .make = (make_), .remove = drop_store, \
        .pass_ms = pass_ms, .durability = SEMEL_DURABLE_POWER, .lapse_ms = 30000,         \
        .grain_ms = 20000                                                                 \
    }

int main(void)
{
    static const transport_quirks postgres = QUIRKS("queue in PostgreSQL", make_postgres);
    static const transport_quirks mariadb = QUIRKS("queue in MariaDB", make_mariadb);
    return conformance_transport(&postgres) + conformance_transport(&mariadb);
}
