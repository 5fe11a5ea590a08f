/* The URL of a queue in Redis, read. docs/REDIS_STREAMS.md describes every parameter. */
#ifndef SEMEL_TRANSPORT_REDIS_ADDRESS_H
#define SEMEL_TRANSPORT_REDIS_ADDRESS_H

#include "redis/address.h"

enum { STREAM_NAME_MAX = 255 };

/* What becomes of an entry that is acknowledged. */
typedef enum stream_keep {
    STREAM_KEEP_AUTO = 0, /* removed if no other group reads the stream */
    STREAM_KEEP_ALL,      /* keep=yes */
    STREAM_KEEP_NONE      /* keep=no */
} stream_keep;

typedef struct stream_address {
    redis_address server;
    const char *stream;
    const char *group; /* NULL: nothing is received */
    const char *dead;  /* the stream of what is rejected: {STREAM}:dead */
    int declare;       /* the group is made if it is missing */
    int keep;          /* a stream_keep */
    uint32_t claim_ms; /* a delivery that is not settled or extended goes to another after ... */
    uint32_t poll_ms;  /* how often to look for those */
    int single_active; /* one consumer at a time has entries, and none before older ones */
} stream_address;

/* All texts go to the arena. What is wrong is said without repeating the URL. */
semel_status stream_address_read(stream_address *out, mem_arena *arena, const char *url,
                                 semel_error *err);

/* 1 if both names are in one slot of a cluster, whatever their hash. */
int stream_same_slot(const char *one, const char *other);

#endif
