/* An amqp:// or amqps:// URL, read: where the broker is, what of it is used, and how it must be set
 * up. docs/RABBITMQ.md describes every parameter. */
#ifndef SEMEL_TRANSPORT_RABBITMQ_ADDRESS_H
#define SEMEL_TRANSPORT_RABBITMQ_ADDRESS_H

#include <semel/error.h>
#include <stddef.h>
#include <stdint.h>

typedef enum rabbit_declare {
    RABBIT_CHECK = 0, /* it must be there, and as the URL says */
    RABBIT_DECLARE,   /* made where it is missing; it must be as the URL says */
    RABBIT_TRUST      /* it must be there; how it is set up is not looked at */
} rabbit_declare;

enum { RABBIT_NAME_ROOM = 256, RABBIT_PATH_ROOM = 1024, RABBIT_LIMIT_UNSET = -2 };

typedef struct rabbit_address {
    char host[RABBIT_NAME_ROOM]; /* localhost */
    uint32_t port;               /* 5672, with TLS 5671 */
    char user[RABBIT_NAME_ROOM]; /* guest, with that password, if the URL names neither */
    char password[RABBIT_NAME_ROOM];
    char vhost[RABBIT_NAME_ROOM]; /* "/" if the path is empty; "%2F" is "/", too */

    int tls;
    int verify; /* certificate and host name; 1 unless verify=no */
    char ca[RABBIT_PATH_ROOM];
    char certificate[RABBIT_PATH_ROOM]; /* the client's own, with ... */
    char key[RABBIT_PATH_ROOM];         /* ... its key */

    char exchange[RABBIT_NAME_ROOM]; /* "": the default exchange, where a topic is a queue's name */
    char exchange_type[RABBIT_NAME_ROOM]; /* topic */
    char queue[RABBIT_NAME_ROOM];         /* "": nothing is received */
    /* patterns, each with a NUL behind, ended by an empty one; for declare=yes with exchange and
     * queue, "#" unless bind= says else */
    char bindings[RABBIT_PATH_ROOM];
    rabbit_declare declare;
    int quorum;  /* type=quorum (default) or classic */
    int durable; /* 1 unless durable=no */
    int single_active;
    int64_t delivery_limit; /* RABBIT_LIMIT_UNSET; -1: none; a classic queue's is always unset */
    int has_dead_letter;
    char dead_letter[RABBIT_NAME_ROOM]; /* an exchange; "": the default one, then there is a key */
    char dead_letter_key[RABBIT_NAME_ROOM];

    int persistent;              /* 1 unless persistent=no */
    int cloudevents;             /* envelope=cloudevents */
    int allow_loss;              /* loss=warn; else refuse */
    uint32_t prefetch;           /* 1..65535, default 200 */
    uint32_t heartbeat_s;        /* 0..3600, default 30 */
    uint32_t connect_ms;         /* for the whole of connecting, default 5000 */
    char name[RABBIT_NAME_ROOM]; /* of the connection, in the broker's tools; "semel" */
} rabbit_address;

/* SEMEL_EINVAL says which part is wrong and what is possible; never repeats a password. */
semel_status rabbit_address_read(rabbit_address *out, const char *url, semel_error *err);

/* Writes a sentence per line for every way in which messages may get lost by what the URL says of a
 * broker of this major version; "" if there is none. Cut at `room`, at the end of a line. */
void rabbit_address_losses(char *out, size_t room, const rabbit_address *address,
                           unsigned broker_major);

#endif
