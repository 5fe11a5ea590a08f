/* The URL of a store that is an argument or a variable of the environment, and stands in no
 * configuration. */
#ifndef SEMEL_PROGRAM_CONFIG_STORE_URL_H
#define SEMEL_PROGRAM_CONFIG_STORE_URL_H

#include "program/support/memory.h"

#include <stdint.h>

/* Replaces ${NAME} and ${file:PATH}. `name` is "--store" or that of the variable; a password in an
 * argument is refused, because other users of the host can read it. Returns NULL after saying what
 * is wrong. */
const char *store_url_read(region *memory, const char *name, const char *text);

/* The file of a sqlite: URL, without its parameters; NULL if it is another kind of store. */
const char *store_url_file(region *memory, const char *url);

/* The URL of a server with so many connections at most, unless it says itself how many. */
const char *store_url_pooled(region *memory, const char *url, uint32_t connections);

#endif
