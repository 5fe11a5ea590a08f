/* What the brokers tell about a topic and a group, without joining it: when a transport is opened,
 * and for its depth. */
#ifndef SEMEL_TRANSPORT_KAFKA_INSPECT_H
#define SEMEL_TRANSPORT_KAFKA_INSPECT_H

#include "transport/kafka/receiver.h"

enum { KAFKA_WARNINGS_ROOM = 2048 };

typedef struct kafka_facts {
    int replicas;          /* the fewest that a partition has; 0: not known */
    int is_configured;     /* the rest is known */
    int64_t least_in_sync; /* min.insync.replicas */
    int64_t flush_messages;
    int64_t retention_ms; /* -1: for ever */
    int64_t retention_bytes;
    int is_compacted;
    int is_unclean; /* unclean.leader.election.enable */
} kafka_facts;

/* Connects, and looks at the topics that the URL names: one to receive from, and one for dead
 * letters, must be there. */
semel_status kafka_inspect(kafka_facts *out, const kafka_address *address, semel_error *err);

semel_durability kafka_facts_durability(const kafka_facts *facts);

/* A sentence per line for every way in which messages may get lost; *refuse is set if one of them
 * is not to be accepted silently. */
void kafka_facts_warnings(char out[KAFKA_WARNINGS_ROOM], int *refuse, const kafka_facts *facts,
                          const kafka_address *address);

/* How many messages no consumer has; of other consumers' partitions, what is not settled. */
semel_status kafka_depth(const kafka_address *address, kafka_receiver *receiver, uint64_t *ready,
                         semel_error *err);

#endif
