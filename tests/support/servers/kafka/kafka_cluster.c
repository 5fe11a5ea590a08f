/* A client for each call, closed behind it: none is used over a fork, and none is in the way when a
 * broker dies. See kafka_cluster.h. */
#include "support/servers/kafka/kafka_cluster.h"

#include "support/process/process.h"
#include "support/servers/server_internal.h"

#include <librdkafka/rdkafka.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_MS = 60000, ASK_MS = 10000, TEXT_ROOM = 512 };

_Static_assert((int)KAFKA_NAME_ROOM == (int)SERVER_NAME_ROOM, "the same names");

void kafka_cluster_name(char name[KAFKA_NAME_ROOM])
{
    server_invent_name(name);
}

/* --- a client --------------------------------------------------------------------------------- */

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char why[TEXT_ROOM];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK)
        server_die("kafka: %s=%s: %s", name, value, why);
}

/* What a client says while a broker is down would be in the output of tests that are about that. */
static void say_nothing(const rd_kafka_t *client, int level, const char *facility, const char *text)
{
    (void)client;
    (void)level;
    (void)facility;
    (void)text;
}

static rd_kafka_conf_t *make_conf(const char *servers)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", servers);
    rd_kafka_conf_set_log_cb(conf, say_nothing);
    return conf;
}

static rd_kafka_t *open_client(rd_kafka_type_t type, rd_kafka_conf_t *conf)
{
    char why[TEXT_ROOM];
    rd_kafka_t *client = rd_kafka_new(type, conf, why, sizeof why);
    if (!client)
        server_die("kafka: no client: %s", why);
    return client;
}

static void check(rd_kafka_resp_err_t code, const char *doing, const char *what)
{
    if (code)
        server_die("kafka: %s %s: %s", doing, what, rd_kafka_err2str(code));
}

/* A broker that has just been started, or that has no leader yet, has the answer a little later. */
static int passes(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR__TRANSPORT || code == RD_KAFKA_RESP_ERR__TIMED_OUT ||
           code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN || code == RD_KAFKA_RESP_ERR__WAIT_COORD ||
           code == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE ||
           code == RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION ||
           code == RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS ||
           code == RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE ||
           code == RD_KAFKA_RESP_ERR_NOT_COORDINATOR ||
           code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
}

static int again(rd_kafka_resp_err_t code, int64_t deadline)
{
    if (!passes(code) || process_now_ms() > deadline)
        return 0;
    process_nap();
    return 1;
}

/* --- topics ----------------------------------------------------------------------------------- */

/* How many of its partitions have a leader; 0 if it is not known yet. */
static int count_led(rd_kafka_t *client, const char *topic)
{
    const struct rd_kafka_metadata *all;
    rd_kafka_topic_t *handle = rd_kafka_topic_new(client, topic, NULL);
    int led = 0;
    if (rd_kafka_metadata(client, 0, handle, &all, ASK_MS) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        for (int i = 0; all->topic_cnt == 1 && i < all->topics[0].partition_cnt; i++)
            led += all->topics[0].partitions[i].leader >= 0;
        rd_kafka_metadata_destroy(all);
    }
    rd_kafka_topic_destroy(handle);
    return led;
}

static void wait_for_leaders(rd_kafka_t *client, const char *topic, int partitions)
{
    int64_t deadline = process_now_ms() + PATIENCE_MS;
    while (count_led(client, topic) != partitions) {
        if (process_now_ms() > deadline)
            server_die("kafka: topic %s has no leader", topic);
        process_nap();
    }
}

/* The answer to the one topic that was asked for. */
static rd_kafka_resp_err_t collect_topic(rd_kafka_queue_t *answers)
{
    size_t count = 0;
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__TIMED_OUT;
    rd_kafka_event_t *event = rd_kafka_queue_poll(answers, PATIENCE_MS);
    if (event && rd_kafka_event_type(event) == RD_KAFKA_EVENT_CREATETOPICS_RESULT) {
        const rd_kafka_topic_result_t **topics =
            rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &count);
        code = count ? rd_kafka_topic_result_error(topics[0]) : rd_kafka_event_error(event);
    } else if (event) {
        code = rd_kafka_event_error(event);
    }
    rd_kafka_event_destroy(event);
    return code;
}

void kafka_cluster_make(const char *servers, const char *topic, int partitions)
{
    static const char *const none[] = {NULL};
    kafka_cluster_make_as(servers, topic, partitions, none);
}

void kafka_cluster_make_as(const char *servers, const char *topic, int partitions,
                           const char *const settings[])
{
    char why[TEXT_ROOM];
    rd_kafka_t *client = open_client(RD_KAFKA_PRODUCER, make_conf(servers));
    rd_kafka_queue_t *answers = rd_kafka_queue_new(client);
    rd_kafka_NewTopic_t *wanted = rd_kafka_NewTopic_new(topic, partitions, 1, why, sizeof why);
    if (!wanted)
        server_die("kafka: no topic %s: %s", topic, why);
    for (size_t i = 0; settings[i]; i += 2)
        check(rd_kafka_NewTopic_set_config(wanted, settings[i], settings[i + 1]), "set up",
              settings[i]);
    rd_kafka_CreateTopics(client, &wanted, 1, NULL, answers);
    rd_kafka_resp_err_t code = collect_topic(answers);
    if (code != RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS) /* the answer to a first request was lost */
        check(code, "make topic", topic);
    rd_kafka_NewTopic_destroy(wanted);
    rd_kafka_queue_destroy(answers);
    wait_for_leaders(client, topic, partitions);
    rd_kafka_destroy(client);
}

void kafka_cluster_remove(const char *servers, const char *topic)
{
    rd_kafka_t *client = open_client(RD_KAFKA_PRODUCER, make_conf(servers));
    rd_kafka_queue_t *answers = rd_kafka_queue_new(client);
    rd_kafka_DeleteTopic_t *unwanted = rd_kafka_DeleteTopic_new(topic);
    rd_kafka_DeleteTopics(client, &unwanted, 1, NULL, answers);
    rd_kafka_event_t *event = rd_kafka_queue_poll(answers, PATIENCE_MS);
    check(event ? rd_kafka_event_error(event) : RD_KAFKA_RESP_ERR__TIMED_OUT, "remove topic",
          topic);
    rd_kafka_event_destroy(event);
    rd_kafka_DeleteTopic_destroy(unwanted);
    rd_kafka_queue_destroy(answers);
    rd_kafka_destroy(client);
}

/* --- records ---------------------------------------------------------------------------------- */

static void count_confirmed(rd_kafka_t *client, const rd_kafka_message_t *record, void *context)
{
    size_t *confirmed = context;
    (void)client;
    check(record->err, "produce to", rd_kafka_topic_name(record->rkt));
    ++*confirmed;
}

static rd_kafka_headers_t *headers_of(const kafka_cluster_record *record)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(record->header_count);
    for (size_t i = 0; i < record->header_count; i++)
        check(rd_kafka_header_add(headers, record->headers[i].name, -1,
                                  record->headers[i].value.data,
                                  (ssize_t)record->headers[i].value.len),
              "add header", record->headers[i].name);
    return headers;
}

static rd_kafka_resp_err_t hand_over(rd_kafka_t *client, const char *topic,
                                     const kafka_cluster_record *record)
{
    rd_kafka_headers_t *headers = headers_of(record);
    void *key = (void *)(uintptr_t)record->key; /* both are copied */
    void *value = (void *)(uintptr_t)record->value;
    const rd_kafka_vu_t parts[] = {
        {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = topic},
        {.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = record->partition},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
        {.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {key, key ? strlen(record->key) : 0}},
        {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {value, strlen(record->value)}},
        {.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers}};
    rd_kafka_error_t *error = rd_kafka_produceva(client, parts, sizeof parts / sizeof *parts);
    rd_kafka_resp_err_t code = error ? rd_kafka_error_code(error) : RD_KAFKA_RESP_ERR_NO_ERROR;
    if (error)
        rd_kafka_error_destroy(error);
    if (code)
        rd_kafka_headers_destroy(headers);
    return code;
}

void kafka_cluster_produce(const char *servers, const char *topic,
                           const kafka_cluster_record records[], size_t count)
{
    size_t confirmed = 0;
    rd_kafka_conf_t *conf = make_conf(servers);
    set(conf, "enable.idempotence", "true");
    rd_kafka_conf_set_dr_msg_cb(conf, count_confirmed);
    rd_kafka_conf_set_opaque(conf, &confirmed);
    rd_kafka_t *client = open_client(RD_KAFKA_PRODUCER, conf);
    for (size_t i = 0; i < count;) {
        rd_kafka_resp_err_t code = hand_over(client, topic, &records[i]);
        if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL)
            (void)rd_kafka_poll(client, 100);
        else
            check(code, "produce to", topic), i++;
    }
    check(rd_kafka_flush(client, PATIENCE_MS), "produce to", topic);
    if (confirmed != count)
        server_die("kafka: %zu of %zu records of %s were confirmed", confirmed, count, topic);
    rd_kafka_destroy(client);
}

/* --- offsets ---------------------------------------------------------------------------------- */

void kafka_cluster_ends(int64_t ends[], const char *servers, const char *topic, int partitions)
{
    int64_t deadline = process_now_ms() + PATIENCE_MS;
    rd_kafka_t *client = open_client(RD_KAFKA_CONSUMER, make_conf(servers));
    for (int i = 0; i < partitions; i++) {
        rd_kafka_resp_err_t code;
        int64_t low;
        do
            code = rd_kafka_query_watermark_offsets(client, topic, i, &low, &ends[i], ASK_MS);
        while (again(code, deadline));
        check(code, "look at the end of", topic);
    }
    rd_kafka_destroy(client);
}

/* The first error, of the request or of a partition. */
static rd_kafka_resp_err_t ask_committed(rd_kafka_t *client,
                                         rd_kafka_topic_partition_list_t *places)
{
    rd_kafka_resp_err_t code = rd_kafka_committed(client, places, ASK_MS);
    for (int i = 0; !code && i < places->cnt; i++)
        code = places->elems[i].err;
    return code;
}

void kafka_cluster_committed(int64_t offsets[], const char *servers, const char *group,
                             const char *topic, int partitions)
{
    rd_kafka_resp_err_t code;
    int64_t deadline = process_now_ms() + PATIENCE_MS;
    rd_kafka_conf_t *conf = make_conf(servers);
    set(conf, "group.id", group);
    rd_kafka_t *client = open_client(RD_KAFKA_CONSUMER, conf);
    rd_kafka_topic_partition_list_t *places = rd_kafka_topic_partition_list_new(partitions);
    for (int i = 0; i < partitions; i++)
        (void)rd_kafka_topic_partition_list_add(places, topic, i);
    do
        code = ask_committed(client, places);
    while (again(code, deadline));
    check(code, "look at the offsets of", group);
    for (int i = 0; i < partitions; i++)
        offsets[i] = places->elems[i].offset < 0 ? -1 : places->elems[i].offset;
    rd_kafka_topic_partition_list_destroy(places);
    rd_kafka_destroy(client);
}

static int64_t sum(const int64_t offsets[], int partitions)
{
    int64_t all = 0;
    for (int i = 0; i < partitions; i++)
        all += offsets[i] < 0 ? 0 : offsets[i];
    return all;
}

int64_t kafka_cluster_end(const char *servers, const char *topic, int partitions)
{
    int64_t ends[KAFKA_PARTITIONS_MAX];
    kafka_cluster_ends(ends, servers, topic, partitions);
    return sum(ends, partitions);
}

int64_t kafka_cluster_progress(const char *servers, const char *group, const char *topic,
                               int partitions)
{
    int64_t offsets[KAFKA_PARTITIONS_MAX];
    kafka_cluster_committed(offsets, servers, group, topic, partitions);
    return sum(offsets, partitions);
}
