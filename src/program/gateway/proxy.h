/* The idempotent proxy, as its parts share it.
 *
 * A key is in one of these states: unknown to the inbox (the request is sent), claimed (it was
 * sent; copies wait), done with an answer that is replayed, or done with a note that its outcome is
 * unknown. Only the claim decides who sends. What is in memory here (flights) spares the store
 * copies that arrive together, and decides nothing: without it each copy would ask the store.
 *
 * An answer is given to nobody before it is durable. If the process dies before the claim is
 * stored, nothing has happened; after that, the next copy finds an attempt that did not end. It may
 * have reached the upstream, so its outcome is unknown, and never "not run". */
#ifndef SEMEL_PROGRAM_GATEWAY_PROXY_H
#define SEMEL_PROGRAM_GATEWAY_PROXY_H

#include "program/gateway/route.h"
#include "program/handler/http_transfer.h"
#include "program/support/digest.h"

/* --- keys: proxy_key.c ------------------------------------------------------------------------ */

enum { PROXY_KEY_MAX = 255 };

typedef enum key_finding { KEY_FOUND, KEY_MISSING, KEY_BAD } key_finding;

typedef struct proxy_key {
    const char *text; /* IDENTITY:KEY, the id of the message in the inbox */
    size_t len;
    char fingerprint[DIGEST_HEX_SIZE]; /* of method, target, content type and body */
} proxy_key;

/* The value of an Idempotency-Key, quoted (a string of RFC 8941) or bare, into `out`. */
key_finding proxy_key_parse(char out[PROXY_KEY_MAX + 1], const char *header);

/* All of it is in the memory of the request. `why` says what is wrong with a bad one. */
key_finding proxy_key_read(proxy_key *out, const route_config *route, http_request *request,
                           const char **why);

/* --- answers: proxy_answer.c ------------------------------------------------------------------ */

typedef enum answer_kind {
    ANSWER_KEPT = 0, /* of the upstream */
    ANSWER_UNKNOWN,  /* the upstream may have handled the request; the body says why */
    ANSWER_TOO_LARGE /* the upstream has answered with this status, and more than was kept */
} answer_kind;

/* What is stored with a key. Texts belong to whoever made it. */
typedef struct proxy_answer {
    answer_kind kind;
    unsigned status;
    const http_header *headers; /* the last one has no name */
    semel_bytes body;
    char fingerprint[DIGEST_HEX_SIZE];
} proxy_answer;

/* The answer is for every content: which one an attempt had that did not end is not known. */
void proxy_answer_fits_all(proxy_answer *answer);
int proxy_answer_fits(const proxy_answer *answer, const proxy_key *key);

/* As text, for people who look at the key with `semel inbox show`. */
void proxy_answer_write(buffer *to, const proxy_answer *answer);
/* 0 if it is none; the memory has what it points to, the bytes must stay. */
int proxy_answer_read(proxy_answer *out, region *memory, semel_bytes stored);

/* Whether a header of an answer is kept. */
int proxy_header_is_kept(const route_config *route, const char *name);

/* --- the upstream: proxy_upstream.c ----------------------------------------------------------- */

typedef enum upstream_end {
    UPSTREAM_ANSWERED = 0,
    UPSTREAM_TOO_LARGE, /* it has answered, with more than is taken */
    UPSTREAM_UNREACHED, /* it has certainly not got the request */
    UPSTREAM_UNKNOWN    /* it may have got it, and there is no answer */
} upstream_end;

typedef struct upstream_call {
    /* set by the caller */
    const route_config *route;
    http_request *request;
    http_pool *pool;
    semel_unit *unit; /* NULL: unprotected */
    /* what became of it */
    upstream_end end;
    unsigned status;
    http_header *headers; /* end-to-end, in the memory of the request; the last one has no name */
    buffer body;          /* the caller frees it */
    semel_error why;
} upstream_call;

void upstream_run(upstream_call *call);

/* --- copies that the inbox does not see: proxy_copy.c ----------------------------------------- */

/* What everyone who waits gets. */
typedef struct flight_end {
    const proxy_answer *answer;  /* NULL: the problem below */
    const http_problem *problem; /* with members, as route_problem() has them */
    route_outcome outcome;
} flight_end;

/* The request as the inbox of the route gets it, in the memory of both. */
semel_message proxy_message(const gateway_route *route, const http_request *request,
                            const proxy_key *key);

/* What a copy becomes that gets this end. SEMEL_UNDECIDED: nothing was decided about its key. */
semel_outcome proxy_copy_outcome(const proxy_key *key, const flight_end *end);

/* Tells the observer of the store of a copy, before it is answered. */
void proxy_tell_copy(const gateway_route *route, const http_request *request, const proxy_key *key,
                     semel_outcome outcome);

/* --- the route's own: proxy.c ----------------------------------------------------------------- */

typedef struct flights flights;

typedef struct proxy_state {
    region memory;
    const char *inbox_name;
    semel_inbox *inbox;
    http_pool pool;
    flights *flights;
    unsigned char replays[600]; /* by status */
    atomic_uint new_keys;       /* in a row: after some of them nothing is looked up any more */
} proxy_state;

/* Which statuses the list names: 2xx, 404. 0 if an item is none. The class 4xx is without 408, 425
 * and 429, which say themselves that the request is to come again. */
int proxy_replays_parse(unsigned char out[600], const config_list *list);

/* --- flights: proxy_flights.c ----------------------------------------------------------------- */

/* Keys that this process works on or waits for, and the copies that wait for the answer without a
 * worker. */
typedef struct flight flight;

typedef enum flight_part {
    FLIGHT_LEADS,    /* this request decides what becomes of the key, and ends the flight */
    FLIGHT_WAITS,    /* the request is answered with the others */
    FLIGHT_REPORTED, /* answered: another copy is in flight (409) */
    FLIGHT_DIFFERS   /* answered: another content is in flight (422) */
} flight_part;

flights *flights_open(gateway_route *route);
void flights_close(flights *all); /* no request is in it */

flight_part flights_enter(flight **out, flights *all, const proxy_key *key, http_request *request,
                          int64_t began_ns);
/* The key is claimed, and the request about to be sent. */
void flight_claimed(flight *f);
/* Another process has the key: the leader waits with the others, until the store has the answer.
 * `is_told`: the inbox has reported that it is being handled. */
void flight_elsewhere(flight *f, const proxy_key *key, http_request *request, int64_t began_ns,
                      int is_told);

void flight_land(flight *f, const flight_end *end);

void flights_visit(flights *all, gateway_flight_visitor *visit, void *context);

/* --- answering: proxy_respond.c --------------------------------------------------------------- */

/* The answer of the upstream to the request that was sent. */
void proxy_respond_first(gateway_route *route, const upstream_call *call, int64_t began_ns);
/* A stored answer, or a problem, to a copy. The key is the copy's own: another fingerprint is
 * 422. */
void proxy_respond_copy(gateway_route *route, http_request *request, const proxy_key *key,
                        const flight_end *end, int64_t began_ns);
void proxy_respond_in_flight(gateway_route *route, http_request *request, int64_t began_ns);
void proxy_respond_mismatch(gateway_route *route, http_request *request, int64_t began_ns);
void proxy_respond_too_large(gateway_route *route, http_request *request,
                             const proxy_answer *answer, int replayed, int64_t began_ns);
/* The outcome is unknown; `why` may be NULL. */
void proxy_respond_unknown(gateway_route *route, http_request *request, const proxy_key *key,
                           const char *why, int replayed, int64_t began_ns);

#endif
