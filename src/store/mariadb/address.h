/* What the URL says: the server, the account there, and semel's own parameters. */
#ifndef SEMEL_MARIADB_ADDRESS_H
#define SEMEL_MARIADB_ADDRESS_H

#include "base/mem.h"

#include <semel/error.h>

typedef enum maria_isolation {
    ISOLATION_USUAL = 0, /* whatever the server is set to */
    ISOLATION_READ_COMMITTED,
    ISOLATION_REPEATABLE_READ,
    ISOLATION_SERIALIZABLE,
    ISOLATION_READ_UNCOMMITTED /* a server may be set to it; no URL can ask for it */
} maria_isolation;

typedef enum maria_tls_mode { TLS_OFF, TLS_ON, TLS_VERIFY } maria_tls_mode;

/* Texts that are not given are NULL, numbers 0. */
typedef struct maria_address {
    const char *user;
    const char *password;
    const char *host;
    uint32_t port;
    const char *database;
    const char *prefix; /* checked: an identifier */
    uint32_t pool;
    maria_isolation level;
    const char *socket;
    const char *options; /* group of option files */
    uint32_t connect_s;
    uint32_t read_s;
    uint32_t write_s;
    maria_tls_mode tls;
    const char *tls_ca;
    const char *tls_cert;
    const char *tls_key;
} maria_address;

/* All texts go to the arena. What is wrong is said without repeating the URL, which may hold a
 * password. */
semel_status maria_address_read(maria_address *out, mem_arena *arena, const char *url,
                                semel_error *err);

#endif
