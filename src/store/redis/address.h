/* A redis:// or rediss:// URL, read. docs/REDIS.md describes every parameter. */
#ifndef SEMEL_STORE_REDIS_ADDRESS_H
#define SEMEL_STORE_REDIS_ADDRESS_H

#include "base/mem.h"

#include <semel/store.h>

enum { REDIS_NAMESPACE_MAX = 64 };

/* Texts that are not given are NULL. */
typedef struct redis_address {
    const char *user;
    const char *password;
    const char *host; /* 127.0.0.1 unless the URL names one */
    uint32_t port;    /* 6379 */
    uint32_t database;
    const char *socket;    /* a path, in place of host and port */
    const char *name;      /* the namespace: "semel" */
    uint32_t pool;         /* connections at most */
    uint32_t connect_ms;   /* for the whole of connecting */
    uint32_t replicas;     /* how many must have a commit before it is one */
    int sync;              /* a commit waits until it is on the disk (WAITAOF) */
    int allow_loss;        /* loss=warn; else refuse */
    semel_durability word; /* durable=: what the service's contract says; 0: ask the server */

    int tls;
    int verify; /* certificate and host name */
    const char *ca, *certificate, *key;
} redis_address;

/* All texts go to the arena. What is wrong is said without repeating the URL, which may hold a
 * password. */
semel_status redis_address_read(redis_address *out, mem_arena *arena, const char *url,
                                semel_error *err);

#endif
