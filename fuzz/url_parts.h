/* The readers of addresses, each in a file of its own, since two of them have types of one name.
 * Each returns the status and fills `err`; on success it has checked what it read. */
#ifndef SEMEL_FUZZ_URL_PARTS_H
#define SEMEL_FUZZ_URL_PARTS_H

#include <semel/error.h>
#include <string.h>

/* The word that is looked for. */
#define SECRET "s3cret"

/* The word is not in a part that may be shown; `secret` says whether it was in passwords only. */
static inline int keeps(int secret, const char *part)
{
    return !secret || !part || !strstr(part, SECRET);
}

/* The build names those that are built in: FUZZ_BACKENDS is X(postgres)X(mariadb)… */
#define X(name) semel_status check_##name##_address(const char *url, int secret, semel_error *err);
FUZZ_BACKENDS
#undef X

#endif
