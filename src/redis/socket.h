/* A connection's bytes: TCP, a socket of this host, or TLS, all with deadlines. */
#ifndef SEMEL_REDIS_SOCKET_H
#define SEMEL_REDIS_SOCKET_H

#include "redis/address.h"

#include <openssl/ssl.h>
#include <sys/uio.h>

/* Zeroed and with fd -1 it is closed. */
typedef struct redis_socket {
    int fd;
    SSL *tls;      /* NULL: plain */
    char why[128]; /* what happened to it */
} redis_socket;

/* What TLS needs, read once. NULL in *out if the URL asks for none. */
semel_status redis_tls_prepare(SSL_CTX **out, const redis_address *at, semel_error *err);

/* EUNAVAILABLE: worth another attempt. The role's `broken`: the certificate is not to be trusted. */
typedef struct redis_client redis_client;
semel_status redis_socket_open(redis_socket *out, const redis_client *client, const char *host,
                               uint32_t port, int64_t until_ms, semel_error *err);
void redis_socket_close(redis_socket *s);

/* All of it: 1. 0: not all of it went out, so the server cannot carry out the last command. *left:
 * how many bytes did not. */
int redis_socket_send(redis_socket *s, const struct iovec parts[], int count, int64_t until_ms,
                      size_t *left);

/* What is there, but at least a byte. 0: the end, an error, or the time is over. With until_ms 0
 * it does not wait, and returns -1 if there is nothing yet. */
long redis_socket_receive(redis_socket *s, void *out, size_t room, int64_t until_ms);

/* Without a round trip: 0 if the server has closed it, or has said what nobody asked for. */
int redis_socket_is_quiet(redis_socket *s);

#endif
