/* librdkafka's mock cluster, as a child of the test: semel-mock-kafka (mock_kafka.c). It has no
 * disk, and a group needs some seconds to form, whatever a test does: MOCK_SESSION makes that as
 * short as it can be. All of it aborts with a message when it cannot. */
#ifndef SEMEL_TESTS_KAFKA_MOCK_H
#define SEMEL_TESTS_KAFKA_MOCK_H

#include <stdio.h>
#include <sys/types.h>

/* For the URL of a consumer. */
#define MOCK_SESSION "X.session.timeout.ms=4000&X.heartbeat.interval.ms=300"

enum { MOCK_SERVERS_ROOM = 128, MOCK_URL_ROOM = 512 };

typedef struct kafka_mock {
    pid_t pid;
    FILE *to, *from;
    char servers[MOCK_SERVERS_ROOM]; /* host:port,host:port */
} kafka_mock;

void kafka_mock_start(kafka_mock *mock, int brokers);
void kafka_mock_end(kafka_mock *mock);

/* A command of mock_kafka.c, which must succeed. */
void kafka_mock_do(kafka_mock *mock, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The URL of a fresh topic with so many partitions, and a group of the same name; `parameters` may
 * be "". */
void kafka_mock_fresh(char url[MOCK_URL_ROOM], kafka_mock *mock, int partitions,
                      const char *parameters);

/* The topic in such a URL. */
void kafka_mock_topic(char topic[MOCK_SERVERS_ROOM], const char *url);

#endif
