/* A Redis store without the layer above it, for tests of the driver alone. */
#ifndef SEMEL_TESTS_REDIS_KIT_H
#define SEMEL_TESTS_REDIS_KIT_H

#include "store/redis/redis.h"
#include "support/base/check.h"
#include "support/keyed/adapter_suite.h"
#include "support/servers/proxy.h"
#include "support/servers/server.h"

typedef struct redis_case {
    server_place server;
    semel_seam seam;
    semel_store_settings settings;
    char url[SERVER_URL_ROOM];
    redis_store *store;
} redis_case;

/* On the shared server, or on this one; a namespace of its own. */
void redis_case_open(redis_case *c, const server_place *at);
void redis_case_close(redis_case *c);

/* Another client, by this URL; NULL: the case's. The caller closes it. */
semel_status redis_case_connect(redis_store **out, redis_case *c, const char *url);
void redis_case_disconnect(redis_store *store);

/* The case's URL with more parameters. */
char *redis_case_url(char out[SERVER_URL_ROOM], const redis_case *c, const char *more);

semel_status redis_case_write(redis_store *store, const char *key);  /* a record that is new */
semel_status redis_case_remove(redis_store *store, const char *key); /* with any version */
int redis_case_has(redis_store *store, const char *key);

#endif
