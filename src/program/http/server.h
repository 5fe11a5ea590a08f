/* An HTTP/1.1 server for the gateway and for operators, on libmicrohttpd.
 *
 * One thread receives requests and sends answers, by epoll; a request is complete, in memory and
 * within its limits before a worker sees it, and a worker is free again as soon as it has handed
 * over the answer. So a slow client holds no worker, and a handler never waits for a client.
 *
 * The handler is called by a worker. It answers by http_respond(), once, before it returns or
 * later and from any thread: a request that waits for something else needs no worker meanwhile.
 *
 * What is refused before a handler sees it: a body that is too large (413, by its Content-Length
 * before it is read), headers that are too large (431), more bodies than there is memory for
 * (503), too many connections, a request that does not arrive in time (the connection is closed), a
 * message whose length is ambiguous (400). Errors are problem documents (RFC 9457). */
#ifndef SEMEL_PROGRAM_HTTP_SERVER_H
#define SEMEL_PROGRAM_HTTP_SERVER_H

#include "program/support/memory.h"

#include <semel/error.h>
#include <semel/message.h>

typedef struct http_server http_server;
typedef struct http_request http_request;

typedef void http_serve(http_request *request, void *context);

/* The largest body that a request may have: called when the headers are there, before the body is
 * received. 0: the server's limit. Must not wait. */
typedef uint64_t http_body_limit(const http_request *request, void *context);

typedef struct http_server_options {
    const char *listen; /* 127.0.0.1:8480, [::1]:8480, localhost:8480, unix:PATH (mode 0600) */
    uint32_t workers;
    uint32_t connections;
    uint32_t connections_per_client; /* 0: not limited */
    uint64_t body_bytes;
    uint64_t header_bytes;
    uint64_t memory_bytes;
    uint32_t request_ms;
    uint32_t idle_ms;
    /* a server at the same address, whose listening socket is shared: no connection is refused
     * while one follows the other. The caller retires and closes that one. NULL: none */
    http_server *follows;
    http_serve *handle;
    http_body_limit *body_limit; /* NULL: body_bytes for all */
    void *context;
    const struct http_header *headers; /* of every answer that has no such header; may be NULL */
} http_server_options;

/* Binds and listens; port 0 is any free one. SEMEL_EUNAVAILABLE (retryable) if the address is in
 * use, SEMEL_EINVAL if it is none. The error says what to do. */
semel_status http_server_open(http_server **out, const http_server_options *options,
                              semel_error *err);

/* Who can reach an address to listen on. */
typedef enum http_reach {
    HTTP_REACH_NONE = 0, /* it is no address */
    HTTP_REACH_HOST,     /* the loopback, a unix socket */
    HTTP_REACH_NETWORK,  /* one address of this host, or a name */
    HTTP_REACH_EVERYONE  /* all of its addresses */
} http_reach;
http_reach http_reach_of(const char *listen);

/* "127.0.0.1:8480", as it was bound. */
const char *http_server_address(const http_server *server);

/* No new connections and no new requests: requests that come get 503 with Connection: close. */
void http_server_drain(http_server *server);

/* No new connections. Requests that come on those that are there are handled, and each connection
 * is closed after its next answer. Before the server is drained or closed. */
void http_server_retire(http_server *server);

/* Connections of clients, with a request or without. */
size_t http_server_connections(const http_server *server);

/* Requests that a handler has and has not answered. */
size_t http_server_pending(const http_server *server);

/* Every request must have been answered, or is answered by a handler that still runs: waits for
 * those. NULL is a no-op. */
void http_server_close(http_server *server);

/* --- requests: valid until they are answered -------------------------------------------------- */

const char *http_request_method(const http_request *request);
const char *http_request_path(const http_request *request);   /* decoded, begins with / */
const char *http_request_target(const http_request *request); /* as it was sent, with the query */
semel_bytes http_request_body(const http_request *request);
const char *http_request_peer(const http_request *request); /* "127.0.0.1", "unix" */
void *http_request_context(const http_request *request);    /* the server's */

/* The value of a header; NULL: there is none. Of one that was sent several times, the first. */
const char *http_request_header(const http_request *request, const char *name);
size_t http_request_header_count(const http_request *request, const char *name);
/* A decoded parameter of the query; NULL: there is none. */
const char *http_request_query(const http_request *request, const char *name);

typedef void http_pair_visitor(void *context, const char *name, const char *value);
void http_request_headers(const http_request *request, http_pair_visitor *visit, void *context);

/* Memory that lives as long as the request. */
region *http_request_memory(http_request *request);

/* --- answers ---------------------------------------------------------------------------------- */

typedef struct http_header {
    const char *name;
    const char *value;
} http_header;

typedef struct http_response {
    unsigned status;
    const http_header *headers; /* the last one has no name; may be NULL */
    const void *body;           /* copied, unless it is static */
    size_t len;
    int is_static; /* the body outlives the server */
} http_response;

/* Once for each request. Everything is copied; the request is gone when this returns. */
void http_respond(http_request *request, const http_response *response);

/* application/problem+json: {"type": "urn:semel:problem:TYPE", "title": ..., "status": ...,
 * "detail": ...}; retry_after_s > 0 adds Retry-After. The detail may be NULL. */
typedef struct http_problem {
    unsigned status;
    const char *type; /* a stable word: "missing-key" */
    const char *title;
    const char *detail;
    uint32_t retry_after_s;
} http_problem;
void http_respond_problem(http_request *request, const http_problem *problem);

/* Something of the handler's that goes with the request, and a function that is called when it is
 * answered: by the thread that answers, while request and answer are still there. Once at most. */
typedef void http_answered(void *kept, const http_request *request, const http_response *response);
void http_request_keep(http_request *request, void *kept, http_answered *answered);
void *http_request_kept(const http_request *request); /* NULL: nothing */

#endif
