/* The errors for a URL whose scheme has no backend in this library. */
#ifndef SEMEL_BASE_SCHEME_H
#define SEMEL_BASE_SCHEME_H

#include <semel/error.h>
#include <stddef.h>

/* `given` has `len` characters; `what` is "store" or "transport"; `known` are the schemes that are
 * built in. SEMEL_EINVAL names them all, and the one that was probably meant. */
semel_status scheme_unknown(const char *what, const char *given, size_t len,
                            const char *const known[], size_t count, semel_error *err);

/* The scheme is one of semel's, but its backend was left out: SEMEL_EUNSUPPORTED. */
semel_status scheme_left_out(const char *scheme, const char *const known[], size_t count,
                             semel_error *err);

#endif
