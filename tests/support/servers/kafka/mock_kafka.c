/* librdkafka's mock cluster as a process of its own: `semel-mock-kafka [BROKERS [NUMBER]]`. Those
 * of a test have different numbers, and so different ids of their clusters.
 *
 * The first line of its output is the list of bootstrap servers. Then it takes commands, a line
 * each, and answers every one of them with a line "ok" or "error: ...". It ends with its standard
 * input.
 *
 *   topic NAME PARTITIONS         creates a topic
 *   error APIKEY CODE COUNT       the next COUNT requests of this kind fail (0 Produce, 1 Fetch,
 *                                 3 Metadata, 8 OffsetCommit, 9 OffsetFetch, 11 JoinGroup, ...)
 *   topic-error NAME CODE         what metadata says about a topic; 0: nothing is wrong
 *   down BROKER, up BROKER        brokers are numbered from 1
 *   rtt BROKER MS                 how long a broker takes to answer
 *   leader NAME PARTITION BROKER  moves a partition
 *   coordinator GROUP BROKER      moves a group */
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { METADATA = 3 }; /* a kind of request */
enum { BROKERS_DEFAULT = 3, BROKERS_MAX = 16, ERRORS_MAX = 1000, LINE_ROOM = 512, NAME_ROOM = 256 };

static rd_kafka_resp_err_t push_errors(rd_kafka_mock_cluster_t *cluster, int key, int code,
                                       int count)
{
    static rd_kafka_resp_err_t codes[ERRORS_MAX];
    if (count < 0 || count > ERRORS_MAX)
        return RD_KAFKA_RESP_ERR__INVALID_ARG;
    for (int i = 0; i < count; i++)
        codes[i] = (rd_kafka_resp_err_t)code;
    rd_kafka_mock_clear_request_errors(cluster, (int16_t)key);
    if (count)
        rd_kafka_mock_push_request_errors_array(cluster, (int16_t)key, (size_t)count, codes);
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static rd_kafka_resp_err_t obey(rd_kafka_mock_cluster_t *cluster, const char *line)
{
    char name[NAME_ROOM];
    int a, b, c;
    if (sscanf(line, "topic %255s %d", name, &a) == 2)
        return rd_kafka_mock_topic_create(cluster, name, a, 1);
    if (sscanf(line, "error %d %d %d", &a, &b, &c) == 3)
        return push_errors(cluster, a, b, c);
    if (sscanf(line, "topic-error %255s %d", name, &a) == 2) {
        rd_kafka_mock_topic_set_error(cluster, name, (rd_kafka_resp_err_t)a);
        return RD_KAFKA_RESP_ERR_NO_ERROR;
    }
    if (sscanf(line, "down %d", &a) == 1)
        return rd_kafka_mock_broker_set_down(cluster, a);
    if (sscanf(line, "up %d", &a) == 1)
        return rd_kafka_mock_broker_set_up(cluster, a);
    if (sscanf(line, "rtt %d %d", &a, &b) == 2)
        return rd_kafka_mock_broker_set_rtt(cluster, a, b);
    if (sscanf(line, "leader %255s %d %d", name, &a, &b) == 3)
        return rd_kafka_mock_partition_set_leader(cluster, name, a, b);
    if (sscanf(line, "coordinator %255s %d", name, &a) == 2)
        return rd_kafka_mock_coordinator_set(cluster, "group", name, a);
    return RD_KAFKA_RESP_ERR__INVALID_ARG;
}

static void obey_all(rd_kafka_mock_cluster_t *cluster)
{
    char line[LINE_ROOM];
    while (fgets(line, sizeof line, stdin)) {
        rd_kafka_resp_err_t code = obey(cluster, line);
        if (code)
            printf("error: %s\n", rd_kafka_err2str(code));
        else
            printf("ok\n");
        (void)fflush(stdout);
    }
}

/* librdkafka makes the id of a cluster of its address, and the address sanitizer gives all
 * processes the same ones. So as many others are made before it as the number says. */
static rd_kafka_mock_cluster_t *new_cluster(rd_kafka_t *client, int brokers, long number)
{
    for (; number > 0; number--)
        (void)rd_kafka_mock_cluster_new(client, 1);
    return rd_kafka_mock_cluster_new(client, brokers);
}

int main(int argc, char **argv)
{
    char text[LINE_ROOM];
    int brokers = argc > 1 ? (int)strtol(argv[1], NULL, 10) : BROKERS_DEFAULT;
    long number = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_log_cb(conf, NULL);
    rd_kafka_t *client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
    rd_kafka_mock_cluster_t *cluster = client && brokers >= 1 && brokers <= BROKERS_MAX
                                           ? new_cluster(client, brokers, number)
                                           : NULL;
    if (!cluster) {
        (void)fprintf(stderr, "no mock cluster of %d brokers\n", brokers);
        return 1;
    }
    /* Below version 4 a question about a topic cannot ask not to make it. */
    (void)rd_kafka_mock_set_apiversion(cluster, METADATA, 0, 4);
    printf("%s\n", rd_kafka_mock_cluster_bootstraps(cluster));
    (void)fflush(stdout);
    obey_all(cluster);
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(client);
    return 0;
}
