/* A nats:// or natss:// URL, read: where the servers are, which stream and consumer are used, and
 * how they must be set up. docs/NATS.md describes every parameter. */
#ifndef SEMEL_TRANSPORT_NATS_ADDRESS_H
#define SEMEL_TRANSPORT_NATS_ADDRESS_H

#include <semel/error.h>
#include <stddef.h>
#include <stdint.h>

typedef enum jet_declare {
    JET_CHECK = 0, /* it must be there, and as the URL says */
    JET_DECLARE,   /* made where it is missing; it must be as the URL says */
    JET_TRUST      /* nothing is looked at */
} jet_declare;

/* Each 0 where the URL does not say it. */
typedef enum jet_storage { JET_STORAGE_FILE = 1, JET_STORAGE_MEMORY } jet_storage;
typedef enum jet_retention {
    JET_RETENTION_LIMITS = 1,
    JET_RETENTION_INTEREST,
    JET_RETENTION_WORKQUEUE
} jet_retention;

enum { JET_NAME_ROOM = 256, JET_PATH_ROOM = 1024 };

typedef struct jet_address {
    char host[JET_NAME_ROOM]; /* localhost */
    uint32_t port;            /* 4222 */
    char user[JET_NAME_ROOM]; /* without a password it is a token */
    char password[JET_NAME_ROOM];
    char servers[JET_PATH_ROOM];     /* others of the cluster, host:port between commas; "" */
    char credentials[JET_PATH_ROOM]; /* a file with a JWT and its seed */

    int tls;
    int verify; /* certificate and host name; 1 unless verify=no */
    char ca[JET_PATH_ROOM];
    char certificate[JET_PATH_ROOM]; /* the client's own, with ... */
    char key[JET_PATH_ROOM];         /* ... its key */

    char stream[JET_NAME_ROOM];   /* "": not known, and nothing is received */
    char consumer[JET_NAME_ROOM]; /* "": nothing is received */
    char subject[JET_NAME_ROOM];  /* stands before every topic; "": a topic is a whole subject */
    char dead[JET_NAME_ROOM];     /* where rejected messages are copied to; "": nowhere */

    jet_declare declare;
    /* What the stream takes, between commas; "" is the subject and all below it. */
    char subjects[JET_PATH_ROOM];
    jet_storage storage;
    jet_retention retention;
    uint32_t replicas;          /* 0: not given */
    uint32_t duplicates_ms;     /* 0: not given */
    char filter[JET_NAME_ROOM]; /* of the consumer; "": not given */
    uint32_t ack_ms;            /* 0: not given */
    int64_t max_deliver;        /* 0: not given; -1: no limit */
    int64_t max_ack_pending;    /* 0: not given; -1: no limit */

    int sync_always;          /* sync=always: the servers write to the disk before they answer */
    int message_ids;          /* Nats-Msg-Id is sent; 1 unless msg_id=no */
    int allow_loss;           /* loss=warn; else refuse */
    uint32_t heartbeat_s;     /* 1..3600, default 30 */
    uint32_t connect_ms;      /* for the whole of connecting, default 5000 */
    char name[JET_NAME_ROOM]; /* of the connection, in the server's tools; "semel" */
} jet_address;

enum { JET_ACK_DEFAULT_MS = 30000 };

/* SEMEL_EINVAL says which part is wrong and what is possible; never repeats a password. */
semel_status jet_address_read(jet_address *out, const char *url, semel_error *err);

#endif
