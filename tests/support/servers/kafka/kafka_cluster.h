/* Topics, records and offsets of a cluster of Kafka, for tests: made and looked at with librdkafka
 * alone, so that what a test sees owes nothing to the library. `servers` is "host:port", of a real
 * broker or of the mock.
 *
 * Each call has a client of its own and ends it, as server_run() does. All of it aborts with a
 * message when it cannot. */
#ifndef SEMEL_TESTS_KAFKA_CLUSTER_H
#define SEMEL_TESTS_KAFKA_CLUSTER_H

#include <semel/message.h>
#include <stddef.h>
#include <stdint.h>

enum { KAFKA_NAME_ROOM = 64, KAFKA_PARTITIONS_MAX = 16 };

/* A name that nothing else has: for a topic or a group. */
void kafka_cluster_name(char name[KAFKA_NAME_ROOM]);

/* Makes a topic, and returns when all of its partitions have a leader. */
void kafka_cluster_make(const char *servers, const char *topic, int partitions);
/* The same with settings: names and values in turn, and NULL at the end. */
void kafka_cluster_make_as(const char *servers, const char *topic, int partitions,
                           const char *const settings[]);
void kafka_cluster_remove(const char *servers, const char *topic);

/* A record as any producer may write it. */
typedef struct kafka_cluster_record {
    const char *key; /* NULL: none */
    const char *value;
    const semel_header *headers;
    size_t header_count;
    int partition; /* -1: by its key */
} kafka_cluster_record;

/* Returns when the brokers have confirmed all of them. */
void kafka_cluster_produce(const char *servers, const char *topic,
                           const kafka_cluster_record records[], size_t count);

/* The offset behind the last record of each partition. */
void kafka_cluster_ends(int64_t ends[], const char *servers, const char *topic, int partitions);

/* What the group has committed, for each partition; -1: nothing. */
void kafka_cluster_committed(int64_t offsets[], const char *servers, const char *group,
                             const char *topic, int partitions);

/* The sum of either; what is not committed counts as 0. */
int64_t kafka_cluster_end(const char *servers, const char *topic, int partitions);
int64_t kafka_cluster_progress(const char *servers, const char *group, const char *topic,
                               int partitions);

#endif
