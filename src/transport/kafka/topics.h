/* Which topics there are, as far as a producer has asked. A topic that is there is remembered as
 * long as the producer lives; one that is missing is asked for again in the next publish. */
#ifndef SEMEL_TRANSPORT_KAFKA_TOPICS_H
#define SEMEL_TRANSPORT_KAFKA_TOPICS_H

#include "transport/kafka/client.h"

typedef struct kafka_topics {
    mem_arena arena;
    struct kafka_topic_note *first;
    uint64_t round;
} kafka_topics;

/* What was missing may be there now. */
void kafka_topics_next_round(kafka_topics *topics);
void kafka_topics_forget(kafka_topics *topics);

/* NO_ERROR if the topic is there, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART if it is not, else why
 * that is not known. Brokers that make topics when they are asked for are not tempted. */
rd_kafka_resp_err_t kafka_topics_look(kafka_topics *topics, const kafka_client *client,
                                      const char *name, int wait_ms);

/* Asks for one topic; *partitions and *replicas, the fewest that a partition has, may be NULL. */
rd_kafka_resp_err_t kafka_topic_ask(rd_kafka_t *handle, const char *name, int wait_ms,
                                    int *partitions, int *replicas);

#endif
