/* A server that is there and does not answer: all of its processes are stopped, and go on later.
 * Its sockets stay open, and the kernel takes what is sent to them. */
#ifndef SEMEL_TESTS_SERVER_FREEZE_H
#define SEMEL_TESTS_SERVER_FREEZE_H

#include "support/servers/server.h"

/* Returns when all of them have stopped. */
void server_own_freeze(const server_own *own);
void server_own_thaw(const server_own *own);

#endif
