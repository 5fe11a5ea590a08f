/* A client of a Redis server: what the store and the transport share. hiredis reads the protocol;
 * connections, TLS and deadlines are semel's own.
 *
 *     address.c   the URL           socket.c   bytes, TLS          link.c   a connection, replies
 *     request.c   requests          exchange.c their answers: redirections, what an error means
 *     facts.c     what the server says of itself, and what follows from it
 *
 * A backend has a redis_client as a part of its state, and keeps the connections: `links` says how
 * to get one. */
#ifndef SEMEL_REDIS_CLIENT_H
#define SEMEL_REDIS_CLIENT_H

#include "base/text.h"
#include "redis/socket.h"

#include <hiredis/hiredis.h>
#include <pthread.h>

/* --- a connection ----------------------------------------------------------------------------- */

typedef struct redis_link {
    redis_client *client;
    redis_socket socket;
    redisReader *reader;
    uint64_t place; /* redis_client.place when it was made */
    struct redis_link *next;
} redis_link;

/* Connected, logged in, and in its database. EUNAVAILABLE: worth another attempt. */
semel_status redis_link_open(redis_link **out, redis_client *client, const char *host,
                             uint32_t port, int64_t until_ms, semel_error *err);
void redis_link_close(redis_link *link); /* NULL is a no-op */

/* To where the slot is, as far as it is known. If that cannot be reached the URL's server is asked
 * the next time. */
semel_status redis_link_open_here(redis_link **out, redis_client *client, int64_t until_ms,
                                  semel_error *err);
int redis_link_is_alive(redis_link *link); /* and to where the slot is; without a round trip */

/* The next reply, to be freed with freeReplyObject(). 0: none came; socket.why says why. */
int redis_link_reply(redis_link *link, redisReply **out, int64_t until_ms);

/* --- requests --------------------------------------------------------------------------------- */

enum { REDIS_SHA_LEN = 40 };

typedef struct redis_script {
    const char *text;
    char sha[REDIS_SHA_LEN + 1];
} redis_script;

semel_status redis_script_prepare(redis_script *script, const char *text, semel_error *err);

/* Starts as {0}. With a script: what follows EVALSHA and the hash. Without: whole commands. */
typedef struct redis_request {
    const char *doing; /* for errors: "writing" */
    const redis_script *script;
    text_buffer bytes;
    size_t arguments;   /* of the script, the number of keys included */
    size_t replies;     /* of the commands */
    int writes;         /* if its answer is lost, it may have been carried out */
    int durable;        /* the URL's sync and replicas are waited for */
    uint32_t answer_ms; /* 0: as the client's */

    /* called once, when it has been sent and before its answer is waited for; NULL: nothing to do,
     * or done */
    void (*meanwhile)(void *context);
    void *context;
} redis_request;

void redis_begin(redis_request *r, size_t arguments); /* a command of so many words */
void redis_word(redis_request *r, const void *data, size_t len);
void redis_word_z(redis_request *r, const char *text);
void redis_word_number(redis_request *r, int64_t number);

/* A word in pieces: its length, then all of it. */
void redis_word_len(redis_request *r, size_t len);
void redis_word_part(redis_request *r, const void *data, size_t len);
void redis_word_end(redis_request *r);

typedef struct redis_answer {
    redisReply **replies;
    size_t count;
    int64_t sent_us, heard_us; /* by the steady clock */
} redis_answer;

/* Sends the request, again where that is safe, and frees its bytes. OK: `count` replies, none of
 * which is an error unless it has come to a command without a script. They are to be freed. */
semel_status redis_exchange(redis_client *client, redis_request *r, redis_answer *out,
                            semel_error *err);
void redis_answer_free(redis_answer *answer);

/* The same on one connection, once: nothing is repeated, and errors stay in the replies. */
semel_status redis_talk(redis_client *client, redis_link *link, redis_request *r, redis_answer *out,
                        semel_error *err);

/* What an error reply means, by its first word. */
semel_status redis_fail(const redis_client *client, const redisReply *reply, const char *doing,
                        semel_error *err);
int redis_is_error(const redisReply *reply, const char *code);

/* Of a durable request: is it where sync= and replicas= want it? EUNKNOWN if not; OK if the URL has
 * neither. */
int redis_waits(const redis_client *client);
semel_status redis_check_wait(const redis_client *client, const redisReply *reply,
                              semel_error *err);

semel_bytes redis_reply_bytes(const redisReply *reply);
int64_t redis_steady_us(void);

/* --- the client ------------------------------------------------------------------------------- */

/* Who uses it: how its errors sound. */
typedef struct redis_role {
    const char *title;      /* what an error begins with: "redis" */
    semel_status broken;    /* of errors that do not pass: ESTORE or ETRANSPORT */
    const char *page;       /* of the documentation, which lists the rights */
    const char *wrong_type; /* advice where a key has another type */
    const char *evicts;     /* what happens when the server evicts keys */
    const char *forgets;    /* what it may have forgotten after a restart without a file */
} redis_role;

typedef struct redis_links {
    semel_status (*take)(redis_link **out, redis_client *client, semel_error *err);
    void (*give)(redis_client *client, redis_link *link, int usable);
} redis_links;

struct redis_client {
    const redis_role *role;
    const redis_links *links;
    const redis_address *at;
    SSL_CTX *tls;
    uint32_t busy_ms;   /* while the server asks to come again later */
    uint32_t answer_ms; /* for an answer */
    int ready;          /* there is a lock */

    pthread_mutex_t lock; /* for what follows */
    char host[256];       /* of the node that has our slot */
    uint32_t port;
    uint64_t place; /* changes with them */
};

/* `at` must outlive it. Connects to nothing. */
semel_status redis_client_init(redis_client *client, const redis_role *role,
                               const redis_links *links, const redis_address *at, semel_error *err);
void redis_client_free(redis_client *client); /* one that is zero is a no-op */

/* redis_client.host and port, for a new connection. */
uint64_t redis_place(redis_client *client, char host[256], uint32_t *port);
void redis_place_move(redis_client *client, const char *host, uint32_t port);
void redis_place_reset(redis_client *client); /* to the URL's */

#endif
