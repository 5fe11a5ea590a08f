/* The transport of Redis Streams: one stream, and one group of consumers that reads it.
 * docs/REDIS_STREAMS.md says what it promises and what it may lose. The connection is in src/redis.
 *
 *     address.c  the URL                 entry.c       a message as fields of an entry
 *     script.c   the scripts             group.c       the group: making, checking, counting
 *     publish.c  XADD                    receive.c     XREADGROUP and XAUTOCLAIM
 *     settle.c   verdicts, extending     deliveries.c  those that are out
 *     streams.c  opening, connections, the table
 *
 * An entry that was delivered is pending in its group: Redis keeps who has it, since when, and how
 * often it was delivered. One that is idle for claim_ms goes to whoever asks for it. So the pair
 * of consumer and number of deliveries names a delivery: every change of a pending entry checks
 * both in the script that makes it, and a consumer that was too late changes nothing. */
#ifndef SEMEL_TRANSPORT_REDIS_STREAMS_H
#define SEMEL_TRANSPORT_REDIS_STREAMS_H

#include "redis/client.h"
#include "transport/common/deliveries.h"
#include "transport/redis/address.h"

#include <semel/sys/transport.h>

enum {
    STREAM_ENTRY_ROOM = 48,     /* of an entry's id: two numbers of 64 bits */
    STREAM_CONSUMER_ROOM = 128, /* of a consumer's name */
    STREAM_LOSSES_ROOM = 1024,
    STREAM_IDLE_LINKS = 8 /* connections that are kept for the next call */
};

typedef enum stream_script {
    STREAM_PUBLISH,
    STREAM_CLAIM,
    STREAM_NEXT,
    STREAM_SETTLE,
    STREAM_LOOK,
    STREAM_DEPTH,
    STREAM_CLEAN,
    STREAM_SCRIPTS
} stream_script;

typedef struct streams {
    redis_client client;
    stream_address at;
    mem_arena arena; /* of the address */
    const semel_seam *seam;
    redis_script scripts[STREAM_SCRIPTS];
    char consumer[STREAM_CONSUMER_ROOM];
    char losses[STREAM_LOSSES_ROOM];
    semel_durability grade;
    int has_lock;

    pthread_mutex_t lock; /* for what follows; never held while the server is asked */
    redis_link *idle;
    unsigned idle_count;
    int closing; /* no connection is made any more */
    delivery_table table;
    delivery_list out;
    int64_t claim_due_ms;           /* when to look for idle entries, by wait_clock_ms() */
    char cursor[STREAM_ENTRY_ROOM]; /* where that goes on */
} streams;

semel_status stream_scripts_prepare(streams *self, semel_error *err);

/* A request of the script, whose keys are the stream and, where it is wanted, the dead one. */
redis_request stream_request(const streams *self, stream_script script, const char *doing);

/* --- deliveries.c ----------------------------------------------------------------------------- */

typedef struct stream_delivery {
    delivery_node node;
    char entry[STREAM_ENTRY_ROOM];
    uint64_t count;        /* of deliveries, this one included */
    int64_t held_until_ms; /* by the seam's steady clock */
    int gone;              /* given back, or delivered anew since: it is only to be read */
    redisReply *fields;    /* what the message points to */
    semel_message message;
    char *id; /* if the entry has none */
    semel_header headers[];
} stream_delivery;

/* Takes `fields` over if it succeeds. NULL: out of memory. */
stream_delivery *stream_delivery_new(const streams *self, const char *entry, uint64_t count,
                                     redisReply *fields);
void stream_delivery_free(stream_delivery *delivery);

/* Under the lock. */
int stream_delivery_add(streams *self, stream_delivery *delivery); /* 0: out of memory */
stream_delivery *stream_delivery_find(const streams *self, uint64_t tag);
stream_delivery *stream_delivery_of_entry(const streams *self, const char *entry);
void stream_delivery_remove(streams *self, stream_delivery *delivery);
size_t stream_deliveries_held(const streams *self); /* that are not gone */
void stream_deliveries_free(streams *self);

/* --- group.c ---------------------------------------------------------------------------------- */

/* Makes the group if the URL says so, else looks whether it is there; writes `losses`. */
semel_status stream_group_open(streams *self, semel_error *err);
semel_status stream_group_declare(streams *self, semel_error *err);

/* Names the first command that the user may not call. ETRANSPORT. */
semel_status stream_check_rights(streams *self, semel_error *err);

/* Removes the names of consumers that have nothing: this one's when it closes, and of others that
 * have not been heard of for long. */
void stream_group_clean(streams *self, int closing);

semel_status stream_depth(void *transport, uint64_t *ready, semel_error *err);

/* --- members ---------------------------------------------------------------------------------- */

semel_status stream_publish(void *transport, semel_publish_result results[],
                            const semel_message *const messages[], size_t count, uint32_t wait_ms,
                            semel_error *err);
semel_status stream_publish_while(void *transport, semel_publish_result results[],
                                  const semel_message *const messages[], size_t count,
                                  uint32_t wait_ms, semel_meanwhile *meanwhile, void *context,
                                  semel_error *err);
semel_status stream_receive(void *transport, semel_delivery deliveries[], size_t max, size_t *count,
                            uint32_t wait_ms, semel_error *err);
semel_status stream_settle(void *transport, const semel_delivery_settlement settles[], size_t count,
                           semel_error *err);
semel_status stream_extend(void *transport, const uint64_t tags[], size_t count, uint32_t *hold_ms,
                           semel_error *err);
void stream_give_back(void *transport);
int stream_revoked(void *transport, uint64_t tag);

/* Lost answers are outages to a transport: what was not done comes again. */
semel_status stream_outage(semel_status status, semel_error *err);

/* SEMEL_EMISUSE if nothing can be received. */
semel_status stream_need_group(const stream_address *at, semel_error *err);

#endif
