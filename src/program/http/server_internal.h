/* The HTTP server as its parts share it.
 *
 * Threads: libmicrohttpd's (receives and sends; owns a request until a handler has it and after it
 * was answered), the workers (call the handler), the keeper (ends connections whose time is over).
 * Deadlines are the keeper's affair altogether: those of libmicrohttpd begin anew with every byte,
 * so a client that sends a byte now and then would stay forever. */
#ifndef SEMEL_PROGRAM_HTTP_SERVER_INTERNAL_H
#define SEMEL_PROGRAM_HTTP_SERVER_INTERNAL_H

#include "program/http/server.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

enum { HTTP_ADDRESS_SIZE = 160, HTTP_NS_PER_MS = 1000000 };

/* A client's connection; the keeper may shut it down, libmicrohttpd alone closes it. */
typedef struct http_connection {
    struct http_connection *next, *before;
    int fd;
    _Atomic int64_t deadline_ns; /* by the steady clock; 0: none */
    char peer[INET6_ADDRSTRLEN];
} http_connection;

typedef enum request_state {
    REQUEST_NEW = 0,
    REQUEST_ARRIVES,  /* its body */
    REQUEST_HANDLED,  /* with a worker, or with whom the handler gave it to; suspended */
    REQUEST_ANSWERED, /* the answer is there, and not sent yet */
} request_state;

struct http_request {
    http_server *server;
    struct MHD_Connection *client;
    http_connection *connection;
    http_request *next; /* in the queue of the workers */
    region memory;
    const char *method;
    int is_old; /* HTTP/1.0 */
    const char *target;
    const char *path;
    http_header *headers;
    size_t header_count;
    http_header *query;
    size_t query_count;
    char *body;
    size_t len, room; /* the room is counted as memory of the server */
    uint64_t limit;
    request_state state;
    int must_close;              /* the connection, after the answer */
    const http_problem *refusal; /* what the client gets when its body was read; NULL: nothing */
    struct MHD_Response *response;
    unsigned status;
    size_t answer_len;
    void *kept; /* the handler's */
    http_answered *answered;
};

typedef struct keeper keeper;

struct http_server {
    http_server_options options;
    char address[HTTP_ADDRESS_SIZE];
    char *socket_path; /* of a unix socket; NULL: none */
    struct MHD_Daemon *daemon;
    keeper *keeper;
    pthread_t *workers;
    uint32_t worker_count; /* that were started */
    atomic_size_t memory_used;
    pthread_mutex_t lock; /* over what follows */
    pthread_cond_t work;  /* there is a request for a worker, or they are to end */
    pthread_cond_t quiet; /* a request was answered, or its answer sent */
    http_request *first, *last;
    size_t pending;  /* requests that a handler has */
    size_t unsent;   /* answers that are not sent yet */
    int is_retired;  /* no connections any more */
    int is_draining; /* no requests any more */
    int workers_end;
};

/* server_listen.c: a listening socket, close-on-exec, or -1 with the error filled. Writes the
 * address as it was bound, and the path of a unix socket (to be freed), or NULL. */
int http_listen(char address[HTTP_ADDRESS_SIZE], char **path, const char *listen, semel_error *err);

/* server_target.c: fills target, path and query. 0 if it is none that a server understands. */
int http_target_parse(http_request *r, const char *target);

/* server_check.c: reads the headers. What is wrong with them, or NULL. */
const http_problem *http_check_headers(http_request *r);
/* What its Content-Length says; 0 if it has none. */
uint64_t http_declared_length(const http_request *r);
int http_has_body(const http_request *r);

/* server_receive.c: the callbacks of libmicrohttpd. */
void *http_receive_begin(void *context, const char *uri, struct MHD_Connection *client);
enum MHD_Result http_receive(void *context, struct MHD_Connection *client, const char *url,
                             const char *method, const char *version, const char *data, size_t *len,
                             void **request);
void http_receive_end(void *context, struct MHD_Connection *client, void **request,
                      enum MHD_RequestTerminationCode how);

/* server_respond.c */
struct MHD_Response *http_make_response(const http_request *r, const http_response *response);
struct MHD_Response *http_make_problem(const http_request *r, const http_problem *problem);
void http_free_body(http_request *r);

/* server_keeper.c: NULL if there can be none. */
keeper *keeper_open(http_server *server);
void keeper_close(keeper *k);
void keeper_notice(void *context, struct MHD_Connection *client, void **connection,
                   enum MHD_ConnectionNotificationCode what);
void http_connection_limit(http_connection *c, uint64_t ms); /* from now on */
void http_connection_wait(http_connection *c);               /* without a limit */
/* The connection is to be closed before all of the request was read: what comes is thrown away for
 * a while, since a client that is still sending would else lose the answer. */
void keeper_linger(keeper *k, const http_connection *c);

/* server_threads.c */
int http_workers_open(http_server *s); /* 0, or an errno */
void http_workers_close(http_server *s);
/* 0: the server takes no requests any more. Else it is counted, and must be queued. */
int http_take_request(http_server *s);
void http_queue_request(http_server *s, http_request *r);

#endif
