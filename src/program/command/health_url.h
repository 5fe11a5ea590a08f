/* `semel health --url`: asks an admin server. */
#ifndef SEMEL_PROGRAM_COMMAND_HEALTH_URL_H
#define SEMEL_PROGRAM_COMMAND_HEALTH_URL_H

#include <stdint.h>

/* Prints its checks and returns the exit status. A process that drains is healthy, and not ready.
 * 0 ms: the default. */
int health_ask_url(const char *url, int ready, int64_t timeout_ms);

#endif
