/* Receiving: a member of a group, and a thread that looks after it.
 *
 * The lock protects everything but the client, which belongs to the thread. So the client is served
 * whatever the handlers do, and no slow handler loses its partitions.
 *
 * receiver.c   starts and ends the thread; hands deliveries out; takes verdicts
 * fetch.c      the thread's loop: takes records from librdkafka, within the bounds
 * rebalance.c  partitions come and go
 * commit.c     what the broker is told about progress, and what it knew before
 * dead.c       what is rejected, on its way to the topic for it */
#ifndef SEMEL_TRANSPORT_KAFKA_RECEIVER_H
#define SEMEL_TRANSPORT_KAFKA_RECEIVER_H

#include "transport/common/deliveries.h"
#include "transport/kafka/client.h"
#include "transport/kafka/progress.h"
#include "transport/kafka/topics.h"

#include <pthread.h>
#include <semel/sys/transport.h>

/* Of a partition: with too many unsettled messages, positions or bytes. */
enum { KAFKA_FULL_UNSETTLED = 1, KAFKA_FULL_AHEAD = 2, KAFKA_FULL_BYTES = 4 };

typedef struct kafka_partition {
    int32_t id;
    const char *name;   /* "topic/3" */
    const char *origin; /* the cluster's id; "": not known */
    /* The number of the assignment by which it is ours; 0: it is not. A partition that comes back
     * has another one, so what was handed out before is not taken for what is now. */
    uint64_t assignment;
    rd_kafka_queue_t *queue; /* what librdkafka has fetched of it; the thread's. NULL: not ours */
    kafka_window window;
    size_t ready_bytes;    /* of what has come and was not handed out */
    int64_t handed;        /* behind the last position that was handed out; -1: none was */
    int has_settled;       /* something, since the last commit */
    kafka_progress before; /* what the broker knew when the partition became ours */
    int64_t committed;     /* the prefix that the broker knows; -1: none */
    int64_t reserved;      /* the broker knows that positions before this one may be handed out */
    uint64_t commit;       /* the number of the commit under way; 0: none is */
    int64_t commit_prefix; /* what it says */
    int64_t commit_reserved;
    unsigned full; /* the bounds that were reached: nothing more is taken from the queue */
} kafka_partition;

typedef struct kafka_delivery {
    delivery_node node; /* its tag while it is out; in a list while it is rejected */
    kafka_partition *partition;
    uint64_t assignment;
    int64_t offset;
    semel_message *message;
    int is_sent;     /* a rejected one: its report is awaited */
    mem_arena arena; /* holds the message */
} kafka_delivery;

typedef struct kafka_receiver {
    const kafka_address *address;
    pthread_mutex_t lock;
    pthread_cond_t changed;

    kafka_client client;
    rd_kafka_queue_t *queue; /* the client's; records do not come by it */
    int wake_fd; /* an eventfd that the thread waits for; librdkafka writes to it, too */
    pthread_t thread;
    int is_running; /* there is a thread */
    int is_ending;  /* it is to end, and one caller waits for that */
    int has_failed; /* the thread has ended by itself: `trouble` says why */

    kafka_partition **partitions; /* by their number; NULL where it was never ours */
    size_t partition_count;
    size_t turn; /* the partition to begin with */
    uint64_t assignments;
    mem_arena names; /* of partitions and clusters */

    delivery_table out;
    delivery_node *spare; /* by same_bucket */

    uint64_t commits;        /* numbers given so far */
    uint64_t commit_open;    /* the one under way; 0: none is ... */
    int64_t commit_until_ms; /* ... and this is how long its answer is waited for */
    int commit_hurries;      /* as soon as possible */
    int64_t commit_at_ms;    /* the next one at the latest */
    int64_t commit_not_before_ms;

    kafka_client dead_client; /* for what is rejected; the thread's */
    delivery_list rejected;
    size_t rejected_sent;
    int rejected_alone;   /* one was not taken: one at a time, until one is */
    int64_t reject_at_ms; /* not before */

    semel_error trouble; /* for the next receive that has nothing else; SEMEL_OK: none */
    int is_down;         /* no broker can be reached: every receive says so */
    int64_t probe_at_ms;
} kafka_receiver;

semel_status kafka_receiver_init(kafka_receiver *receiver, const kafka_address *address,
                                 semel_error *err);
void kafka_receiver_close(kafka_receiver *receiver);

semel_status kafka_receiver_receive(kafka_receiver *receiver, semel_delivery deliveries[],
                                    size_t max, size_t *count, uint32_t wait_ms, semel_error *err);
semel_status kafka_receiver_settle(kafka_receiver *receiver,
                                   const semel_delivery_settlement settles[], size_t count,
                                   semel_error *err);
int kafka_receiver_revoked(kafka_receiver *receiver, uint64_t tag);

/* Leaves the group; the next receive joins it again. */
void kafka_receiver_give_back(kafka_receiver *receiver);

/* If the partition is this receiver's: how many positions from `end` down nobody has. 0 if it is
 * not. */
int kafka_receiver_ready(kafka_receiver *receiver, int32_t partition, int64_t end, uint64_t *ready);

/* --- between the files of the receiver -------------------------------------------------------- */

void *kafka_receiver_run(void *receiver); /* the thread */
void kafka_receiver_wake(kafka_receiver *receiver);
/* What comes to the queue wakes the thread; until kafka_receiver_forget(), which destroys it. */
void kafka_receiver_watch(kafka_receiver *receiver, rd_kafka_queue_t *queue);
void kafka_receiver_forget(rd_kafka_queue_t **queue); /* may be NULL, and is then */

/* With the lock held. */
void kafka_receiver_note(kafka_receiver *receiver, rd_kafka_resp_err_t code, const char *doing,
                         const char *text);
int kafka_delivery_is_revoked(const kafka_delivery *delivery);
int kafka_partition_has_room(const kafka_receiver *receiver, const kafka_partition *partition);
/* As if the partition had gone and come back, and no consumer had ever received from it. */
void kafka_receiver_begin_anew(kafka_receiver *receiver, kafka_partition *partition);
kafka_delivery *kafka_delivery_new(kafka_receiver *receiver); /* NULL: out of memory */
void kafka_delivery_free(kafka_receiver *receiver, kafka_delivery *delivery);

/* Without the lock, by the thread. */
void kafka_receiver_rebalanced(void *receiver, rd_kafka_resp_err_t what,
                               rd_kafka_topic_partition_list_t *partitions);
void kafka_receiver_drop_all(kafka_receiver *receiver); /* nothing is ours any more */
/* offsets.c: puts the offset at which each partition begins into the list, and the metadata of the
 * commit if there is one. */
rd_kafka_resp_err_t kafka_receiver_find_offsets(kafka_receiver *receiver,
                                                rd_kafka_topic_partition_list_t *list);
void kafka_receiver_commit(kafka_receiver *receiver); /* if it is time */
/* Waits for the answer, up to `wait_ms`; the last commit is not missed if it has none. */
rd_kafka_resp_err_t kafka_commit_and_wait(rd_kafka_t *handle,
                                          const rd_kafka_topic_partition_list_t *list, int wait_ms);
void kafka_receiver_commit_last(kafka_receiver *receiver,
                                const rd_kafka_topic_partition_list_t *partitions, int wait_ms);
void kafka_receiver_send_rejected(kafka_receiver *receiver);
void kafka_receiver_end_rejected(kafka_receiver *receiver, int wait_ms);

static inline kafka_delivery *kafka_delivery_of(delivery_node *node)
{
    return (kafka_delivery *)node; /* its first member; NULL stays NULL */
}

#endif
