/* The processes that run a configuration, as the rows in its store name them, or the sockets on
 * this host; and questions to them (run/socket.c). */
#ifndef SEMEL_PROGRAM_WATCH_PEERS_H
#define SEMEL_PROGRAM_WATCH_PEERS_H

#include "program/support/memory.h"

#include <semel/operate.h>

struct json_object;

typedef enum peer_reach {
    PEER_LOCAL = 1, /* its socket can be asked */
    PEER_REMOTE,    /* on another host */
    PEER_CLOSED     /* on this host, but its socket cannot be used: another user's, or none */
} peer_reach;

typedef struct peer {
    const char *id;
    const char *host;
    int64_t pid;
    int64_t started_ms, seen_ms; /* by the store's clock */
    const char *socket;
    const char *data; /* JSON, of its row; "" if it was found by its socket */
    peer_reach reach;
} peer;

typedef struct peers {
    peer *items;
    size_t count, room;
    region memory;
} peers;

/* Those that are running as far as the store knows: their rows are fresh, or they answer. Those of
 * this host that are gone are left out. */
semel_status peers_in_store(peers *out, semel_store *store, semel_error *err);

/* Those of this host that this user can find without the store, whatever they run. */
void peers_on_host(peers *out);

void peers_free(peers *all);
size_t peers_count(const peers *all, peer_reach reach);

/* "vm pid 812", neutralised, for people. */
void peer_name(buffer *to, const peer *p);

/* Asks and waits for the answer, one line. NULL, or why there is none: a constant. The caller frees
 * *out with json_object_put(). */
const char *peer_ask(struct json_object **out, const peer *p, const char *question,
                     int64_t timeout_ms);

/* Sends a question whose answer has many lines: the descriptor, which does not block, or -1. */
int peer_begin(const peer *p, const char *question);

#endif
