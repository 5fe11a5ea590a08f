/* Tests that are run once for each server that is built in: *state is a server_kind. */
#ifndef SEMEL_TESTS_SERVER_EACH_H
#define SEMEL_TESTS_SERVER_EACH_H

#include "support/servers/server.h"

#include <stdint.h>

#ifdef SEMEL_WITH_POSTGRES
enum { SERVER_FIRST = SERVER_POSTGRES };
#else
enum { SERVER_FIRST = SERVER_MARIADB };
#endif
#ifdef SEMEL_WITH_MARIADB
enum { SERVER_LAST = SERVER_MARIADB };
#else
enum { SERVER_LAST = SERVER_POSTGRES };
#endif

static inline server_kind kind_of_state(void **state)
{
    return (server_kind)(uintptr_t)*state;
}

/* clang-format off */
#define ON_POSTGRES(function, before, after) \
    {#function ", postgres", function, before, after, (void *)(uintptr_t)SERVER_POSTGRES}
#define ON_MARIADB(function, before, after) \
    {#function ", mariadb", function, before, after, (void *)(uintptr_t)SERVER_MARIADB}
#if defined SEMEL_WITH_POSTGRES && defined SEMEL_WITH_MARIADB
#define ON_EACH(function, before, after) \
    ON_POSTGRES(function, before, after), ON_MARIADB(function, before, after)
#elif defined SEMEL_WITH_POSTGRES
#define ON_EACH(function, before, after) ON_POSTGRES(function, before, after)
#else
#define ON_EACH(function, before, after) ON_MARIADB(function, before, after)
#endif
/* clang-format on */

#endif
