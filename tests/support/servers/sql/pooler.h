/* PgBouncer between a store and PostgreSQL: a child of the test, at a socket in a directory of its
 * own; it dies with the test. One at a time. In an URL it is named by the parameters host and port,
 * which count more than what stands before the question mark: so all of the tests' own looks, which
 * go by that, are at the server itself. */
#ifndef SEMEL_TESTS_SUPPORT_POOLER_H
#define SEMEL_TESTS_SUPPORT_POOLER_H

#include "support/servers/server.h"

typedef struct pooler_settings {
    const char *mode;    /* session, transaction */
    const char *ignored; /* startup parameters that are dropped, not refused; "": none */
    const char *path;    /* search_path of its sessions: clients cannot set it through the pooler */
    unsigned port;       /* of the server */
} pooler_settings;

/* Its sessions with the server are used in turn: two transactions have the same one by chance
 * only. */
void pooler_start(const pooler_settings *settings);
void pooler_end(void); /* fine if none runs */

/* The same store by way of the pooler. It takes no parameter but the schema. */
void pooler_url(char out[SERVER_URL_ROOM], const char *url);

#endif
