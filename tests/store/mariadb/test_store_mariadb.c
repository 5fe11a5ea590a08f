/* The store suite on MariaDB: a database of its own in the server that all tests share. */
#include "support/conformance/conformance_store.h"
#include "support/servers/server.h"

_Static_assert(URL_ROOM >= (int)SERVER_URL_ROOM, "server_fresh_mariadb() writes that much");

int main(void)
{
    static const store_quirks mariadb = {.name = "mariadb",
                                         .make = server_fresh_mariadb,
                                         .make_ready = server_ready_mariadb,
                                         .remove = server_give_back,
                                         .pass_ms = server_pass_ms,
                                         .durability = SEMEL_DURABLE_POWER,
                                         .flags = STORE_KEEPS | STORE_SHARED | STORE_MIGRATES |
                                                  STORE_SERVER_CLOCK};
    return conformance_store(&mariadb);
}
