/* The part of a URL that names the server and the account there: user:password@host:port/path, with
 * %-escapes in each. An error names the wrong part and never shows it: it may be a password. */
#ifndef SEMEL_BASE_AUTHORITY_H
#define SEMEL_BASE_AUTHORITY_H

#include "base/mem.h"

#include <semel/error.h>
#include <stddef.h>
#include <stdint.h>

/* Texts that are not given are NULL, a port 0. */
typedef struct authority {
    const char *user;
    const char *password;
    const char *host; /* an IPv6 address without its brackets */
    uint32_t port;
    const char *path; /* behind the first slash; "" if there is none */
} authority;

/* Of url.rest, which begins behind the "//". `path_name` is for errors: what the path is. */
semel_status authority_read(authority *out, mem_arena *arena, const char *rest,
                            const char *path_name, semel_error *err);

/* The digits of a port from 1 on; whatever else is there is EINVAL. */
semel_status authority_port(uint32_t *out, const char *from, size_t len, semel_error *err);

/* Of a host without its escapes: an @ in it means that user and password are there, too, and a host
 * is shown. */
semel_status authority_check_host(const char *host, size_t len, semel_error *err);

/* A copy without escapes; NULL stays NULL. `what` is for the error. */
semel_status authority_decode(const char **out, mem_arena *arena, const char *what,
                              const char *from, size_t len, semel_error *err);

#endif
