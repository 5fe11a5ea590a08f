/* Clients of the gateway; see section_gateway.c. */
#ifndef SEMEL_BENCH_GATEWAY_LOAD_H
#define SEMEL_BENCH_GATEWAY_LOAD_H

#include "run.h"

#include <stdlib.h>

enum { LOAD_CLIENTS = 32, LOAD_STORED = 1000 };

typedef struct load {
    int port;
    int clients[LOAD_CLIENTS];
    size_t stored; /* keys whose answers are to be replayed; 0: each request has a new key */
    char keys[LOAD_STORED][ID_TEXT + 1];
    atomic_size_t next;
} load;

int load_free_port(void);
void load_open(load *l, int port);
void load_close(load *l);
void load_run(void *load, const message_set *set);
/* Sends these for the first time; from now on they are repeated. */
void load_store(load *l, const message_set *set);

#endif
