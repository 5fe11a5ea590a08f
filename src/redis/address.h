/* What every redis:// URL says of the server and of what semel may expect from it. A backend adds
 * parameters of its own: docs/REDIS.md and docs/REDIS_STREAMS.md describe them. */
#ifndef SEMEL_REDIS_ADDRESS_H
#define SEMEL_REDIS_ADDRESS_H

#include "base/mem.h"

#include <semel/store.h>

/* The parameters that redis_address_read() takes itself, for url_only(). */
#define REDIS_PARAMETERS "connect_ms,socket,sync,replicas,loss,durable,ca,certificate,key,verify"

/* Texts that are not given are NULL. */
typedef struct redis_address {
    const char *user;
    const char *password;
    const char *host; /* 127.0.0.1 unless the URL names one */
    uint32_t port;    /* 6379 */
    uint32_t database;
    const char *socket;    /* a path, in place of host and port */
    uint32_t connect_ms;   /* for the whole of connecting */
    uint32_t replicas;     /* how many must have a commit before it is one */
    int sync;              /* a commit waits until it is on the disk (WAITAOF) */
    int allow_loss;        /* loss=warn; else refuse */
    semel_durability word; /* durable=: what the service's contract says; 0: ask the server */

    int tls;
    int verify; /* certificate and host name */
    const char *ca, *certificate, *key;
} redis_address;

struct url; /* base/url.h */

/* Parses the text, refuses parameters that are not in `names`, and reads what is the same for all.
 * All texts of *out go to the arena; the caller reads its own parameters from *parsed. What is
 * wrong is said without repeating the URL, which may hold a password. */
semel_status redis_address_read(redis_address *out, struct url *parsed, mem_arena *arena,
                                const char *text, const char *names, semel_error *err);

#endif
