/* An application's own session on the server of a case, in the same schema or database: it has transactions of its
 * own, which units may join. What cannot fail in a healthy world ends the process when it does. */
#ifndef SEMEL_TESTS_SERVER_GUEST_H
#define SEMEL_TESTS_SERVER_GUEST_H

#include "support/servers/sql/server_case.h"

typedef struct server_guest server_guest;

server_guest *guest_open(const server_case *c);
void guest_close(server_guest *g);
void guest_run(server_guest *g, const char *sql);

/* A unit of the case's store inside the guest's transaction. */
semel_status guest_join(semel_unit **out, server_case *c, server_guest *g, semel_error *err);

#endif
