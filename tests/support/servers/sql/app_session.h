/* An application's own session on the server of a case, in the same schema or database: it has
 * transactions of its own, which units may join. What cannot fail in a healthy world ends the
 * process when it does. */
#ifndef SEMEL_TESTS_APP_SESSION_H
#define SEMEL_TESTS_APP_SESSION_H

#include "support/servers/sql/server_case.h"

typedef struct app_session app_session;

app_session *app_session_open(const server_case *c);
void app_session_close(app_session *g);
void app_session_run(app_session *g, const char *sql);

/* A unit of the case's store inside the session's transaction. */
semel_status app_session_join(semel_unit **out, server_case *c, app_session *g, semel_error *err);

#endif
