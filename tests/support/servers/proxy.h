/* Between a client and a server, for tests of what gets lost on the way: connections that are cut,
 * answers that never come, requests that never arrive. It runs in a thread of the test's process,
 * on a free port of the loopback, and knows no protocol: it sees bytes and their direction.
 *
 *     proxy *between = proxy_open(url);
 *     proxy_url(through, between, url);
 *     ... open the store at `through` ...
 *     proxy_lose_answer(between, "COMMIT");
 *
 * All functions may be called from any thread, and what they ask for is done when they return. They
 * abort when they cannot. */
#ifndef SEMEL_TESTS_PROXY_H
#define SEMEL_TESTS_PROXY_H

#include "support/servers/server.h"

#include <stdint.h>

enum { PROXY_PATTERN_MAX = 64 };

typedef struct proxy proxy;

/* To the server that the URL names. It need not run yet, or any more. */
proxy *proxy_open(const char *url);
void proxy_close(proxy *p); /* and all connections; NULL is a no-op */

unsigned proxy_port(const proxy *p);

/* The same URL by way of the proxy; returns out. */
char *proxy_url(char out[SERVER_URL_ROOM], const proxy *p, const char *url);

/* --- trouble ---------------------------------------------------------------------------------- */

/* Closes all connections, now, on both sides. */
void proxy_cut(proxy *p);

/* The proxy stops listening: new connections are refused. Connections that are there stay. */
void proxy_refuse(proxy *p, int on);

/* What the server says is kept back until it is switched off; requests still go through. */
void proxy_hold(proxy *p, int on);

/* The server's answers come so much later, 0 for at once: a client that waits for each answer never
 * gets more of them in a time, however the test's own threads are scheduled. */
void proxy_delay(proxy *p, int ms);

/* Until the server has said something that is kept back; 0 if the time is over. */
int proxy_wait_held(proxy *p, uint32_t deadline_ms);

/* The next request that has these bytes is carried out, and its answer is lost: when the client
 * sees the end of the connection, the server has done all that it was sent, and its session is
 * over. One plan at a time; NULL clears it. */
void proxy_lose_answer(proxy *p, const char *pattern);

/* The same, but the request does not arrive (nor what was sent in one piece with it). */
void proxy_lose_request(proxy *p, const char *pattern);

/* --- what went through ------------------------------------------------------------------------ */

typedef struct proxy_counts {
    uint64_t connections;   /* accepted */
    uint64_t open;          /* of them, now */
    uint64_t request_bytes; /* from clients, also those that were lost */
    uint64_t answer_bytes;  /* to clients */
    /* how often a client that had been answered sent again. One that sends on while answers come in
     * makes several of it: ask for exact numbers only where the client waits for its answers */
    uint64_t round_trips;
    uint64_t lost; /* plans that were carried out */
    uint64_t held; /* bytes that are kept back now */
} proxy_counts;

proxy_counts proxy_count(proxy *p);
void proxy_forget(proxy *p); /* counts from zero again, but for `open` and `held` */

#endif
