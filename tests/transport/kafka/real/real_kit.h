/* A topic of the real broker for one test, with a group; records in it, and how far the group is.
 * Records are CloudEvents of a foreign producer: record n of key k has the id "k-n" and the body
 * "k n", and lies in the partition of its key. */
#ifndef SEMEL_TESTS_KAFKA_REAL_KIT_H
#define SEMEL_TESTS_KAFKA_REAL_KIT_H

#include "support/servers/kafka/kafka_cluster.h"
#include "support/servers/server.h"

#include <semel/sys/transport.h>
#include <stdatomic.h>

/* The least that the broker of dev/servers takes is 1000. */
enum { REAL_SESSION_MS = 2000, REAL_PATIENCE_MS = 90000, REAL_KEYS_MAX = 64 };

typedef struct real_topic {
    char servers[SERVER_HOST_ROOM + 16];
    char topic[KAFKA_NAME_ROOM];
    char group[KAFKA_NAME_ROOM];
    int partitions;
    unsigned keys;
    unsigned produced[REAL_KEYS_MAX]; /* records of each key */
} real_topic;

/* On the broker that all tests share, or on one of the test's own. */
void real_topic_open(real_topic *t, int partitions, unsigned keys);
void real_topic_open_on(real_topic *t, const server_place *where, int partitions, unsigned keys);
void real_topic_close(real_topic *t);

/* The URL of a member of the group whose session ends after REAL_SESSION_MS, with these parameters:
 * "assignment=cooperative". */
void real_topic_url(char url[SERVER_URL_ROOM], const real_topic *t, const char *parameters);

/* So many records more, of all keys in turn. */
void real_topic_fill(real_topic *t, unsigned count);
unsigned real_topic_total(const real_topic *t);

/* So many were written by somebody else, in the same way. */
void real_topic_note(real_topic *t, unsigned count);

/* One more of a key whose type is "order.poison", and which is not counted. */
void real_topic_poison(real_topic *t, unsigned key);

/* By the broker's word: the offsets that the group has committed, together. */
int64_t real_topic_progress(const real_topic *t);

/* Until it is so far. For members that are alive: one that leaves tells the broker what it can
 * within a moment, and the rest comes again. */
void real_topic_wait(const real_topic *t, int64_t progress);

/* Kafka's driver, whose receive() raises SIGSTOP when it has deliveries and `wanted` is set, which
 * it then clears: the process holds deliveries that it has not begun to handle. `held` counts
 * these. One for each process. */
semel_status real_stopping_open(semel_transport **out, const char *url, atomic_int *wanted,
                                atomic_uint *held, semel_error *err);

#endif
