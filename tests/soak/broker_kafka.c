/* Kafka in the soak.
 *
 *     topics "ordered" and "free", a group of the same name for each: what "in" is elsewhere
 *     topic "out": the group "second", and the group "foreign" of the foreign client
 *
 * A group of messages is the key of its records, so all of it is in one partition, and one process
 * has that at a time. The foreign client is librdkafka alone. */
#include "brokers.h"

#include "support/servers/kafka/kafka_cluster.h"

#include <librdkafka/rdkafka.h>
#include <stdlib.h>
#include <string.h>

enum { PARTITIONS = 8, KEEP_MAX = 128, ANSWER_MS = 15000, TEXT_ROOM = 256 };

static const struct place {
    const char *topic, *group; /* "": it only sends */
} places[SOAK_ROLES] = {[SOAK_ORDERED] = {"ordered", "ordered"},
                        [SOAK_FREE] = {"free", "free"},
                        [SOAK_RELAY] = {"out", ""},
                        [SOAK_SECOND] = {"out", "second"}};

static const char *servers_of(const char *url)
{
    return url + strlen("kafka://");
}

/* --- topics ----------------------------------------------------------------------------------- */

/* A member that was killed is missed after its session; one kind of group hands partitions over in
 * each of the two ways. */
static void kafka_url(char url[SOAK_URL], const soak_run *run, soak_role role, int declare)
{
    const char *name = soak_store_name(run->store);
    const struct place *at = &places[role];
    char member[SOAK_URL / 2] = "";
    (void)declare; /* topics are made before */
    if (*at->group)
        soak_print(member, sizeof member,
                   "&group=%s.%s&assignment=%s&X.session.timeout.ms=6000"
                   "&X.heartbeat.interval.ms=1000",
                   name, at->group, role == SOAK_FREE ? "eager" : "cooperative");
    soak_print(url, SOAK_URL, "%s/%s.%s?name=soak-%s%s", run->servers->broker.at.url, name,
               at->topic, soak_role_names[role], member);
}

static int make_topics(void *context)
{
    static const char *const topics[] = {"ordered", "free", "out"};
    const soak_run *run = context;
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++) {
        char topic[SOAK_TEXT];
        soak_print(topic, sizeof topic, "%s.%s", soak_store_name(run->store), topics[i]);
        kafka_cluster_make(servers_of(run->servers->broker.at.url), topic, PARTITIONS);
    }
    return PROCESS_OK;
}

static void kafka_prepare(const soak_run *run)
{
    if (process_run(make_topics, (void *)(uintptr_t)run) != PROCESS_OK)
        soak_die("the topics cannot be made");
}

static int64_t kafka_queued(const soak_run *run)
{
    static const struct place all[] = {
        {"ordered", "ordered"}, {"free", "free"}, {"out", "second"}, {"out", "foreign"}};
    const char *servers = servers_of(run->servers->broker.at.url);
    int64_t left = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char topic[SOAK_TEXT], group[SOAK_TEXT];
        soak_print(topic, sizeof topic, "%s.%s", soak_store_name(run->store), all[i].topic);
        soak_print(group, sizeof group, "%s.%s", soak_store_name(run->store), all[i].group);
        left += kafka_cluster_end(servers, topic, PARTITIONS) -
                kafka_cluster_progress(servers, group, topic, PARTITIONS);
    }
    return left;
}

/* --- the foreign client ----------------------------------------------------------------------- */

typedef struct foreign {
    rd_kafka_t *handle;
    char store[SOAK_TEXT];
    size_t open;                        /* records without a report */
    rd_kafka_message_t *kept[KEEP_MAX]; /* of the last receive ... */
    char ids[KEEP_MAX][TEXT_ROOM], bodies[KEEP_MAX][TEXT_ROOM];
    size_t kept_count;
} foreign;

static void say_nothing(const rd_kafka_t *handle, int level, const char *facility, const char *text)
{
    (void)handle;
    (void)level;
    (void)facility;
    (void)text;
}

static void take_report(rd_kafka_t *handle, const rd_kafka_message_t *record, void *context)
{
    foreign *self = context;
    int *confirmed = record->_private;
    (void)handle;
    self->open--;
    *confirmed = !record->err;
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char why[TEXT_ROOM];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK)
        soak_die("%s=%s: %s", name, value, why);
}

static rd_kafka_conf_t *conf_of(foreign *self, const char *url, int receives)
{
    char group[SOAK_TEXT * 2];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", servers_of(url));
    rd_kafka_conf_set_log_cb(conf, say_nothing);
    if (receives) {
        soak_print(group, sizeof group, "%s.foreign", self->store);
        set(conf, "group.id", group);
        set(conf, "enable.auto.commit", "false");
        set(conf, "auto.offset.reset", "earliest");
        set(conf, "session.timeout.ms", "6000");
    } else {
        set(conf, "enable.idempotence", "true");
        set(conf, "message.timeout.ms", "10000");
        rd_kafka_conf_set_dr_msg_cb(conf, take_report);
        rd_kafka_conf_set_opaque(conf, self);
    }
    return conf;
}

static void subscribe(foreign *self)
{
    char topic[SOAK_TEXT * 2];
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    soak_print(topic, sizeof topic, "%s.out", self->store);
    (void)rd_kafka_topic_partition_list_add(topics, topic, RD_KAFKA_PARTITION_UA);
    (void)rd_kafka_poll_set_consumer(self->handle);
    if (rd_kafka_subscribe(self->handle, topics))
        soak_die("the foreign client cannot subscribe to %s", topic);
    rd_kafka_topic_partition_list_destroy(topics);
}

static void *foreign_open(const char *url, const char *store, int receives)
{
    char why[TEXT_ROOM];
    foreign *self = calloc(1, sizeof *self);
    if (!self)
        soak_die("no memory for a client");
    soak_print(self->store, sizeof self->store, "%s", store);
    self->handle = rd_kafka_new(receives ? RD_KAFKA_CONSUMER : RD_KAFKA_PRODUCER,
                                conf_of(self, url, receives), why, sizeof why);
    if (!self->handle)
        soak_die("no client: %s", why);
    if (receives)
        subscribe(self);
    return self;
}

static void let_go(foreign *self)
{
    for (size_t i = 0; i < self->kept_count; i++)
        rd_kafka_message_destroy(self->kept[i]);
    self->kept_count = 0;
}

static void foreign_close(void *client)
{
    foreign *self = client;
    let_go(self);
    rd_kafka_destroy_flags(self->handle, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    free(self);
}

/* librdkafka's members have no const; what they point to is copied. */
static rd_kafka_vu_t header(const char *name, const char *value)
{
    void *copied = (void *)(uintptr_t)value;
    return (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_HEADER,
                           .u.header = {.name = name, .val = copied, .size = -1}};
}

static void produce(foreign *self, const soak_item *item, int *confirmed)
{
    char topic[SOAK_TEXT * 2];
    void *group = (void *)(uintptr_t)item->group, *body = (void *)(uintptr_t)item->body;
    soak_print(topic, sizeof topic, "%s.%s", self->store, item->queue);
    const rd_kafka_vu_t parts[] = {
        {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = topic},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
        {.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {group, strlen(item->group)}},
        {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {body, strlen(item->body)}},
        {.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = confirmed},
        header("ce_specversion", "1.0"),
        header("ce_id", item->id),
        header("ce_source", "/soak"),
        header("ce_type", item->type),
        header("content-type", "text/plain")};
    rd_kafka_error_t *error = rd_kafka_produceva(self->handle, parts, sizeof parts / sizeof *parts);
    self->open += !error;
    if (error)
        rd_kafka_error_destroy(error);
}

/* What has no report is forgotten with the client, so none of its reports comes later. */
static int foreign_publish(void *client, const soak_item items[], size_t count, int confirmed[])
{
    foreign *self = client;
    int64_t until_ms = process_now_ms() + ANSWER_MS;
    for (size_t i = 0; i < count; i++)
        produce(self, &items[i], &confirmed[i]);
    while (self->open && process_now_ms() < until_ms)
        (void)rd_kafka_poll(self->handle, 50);
    return !self->open;
}

static void keep(foreign *self, soak_item *out, rd_kafka_message_t *record)
{
    const void *id = "";
    size_t id_len = 0, at = self->kept_count++;
    rd_kafka_headers_t *headers;
    if (rd_kafka_message_headers(record, &headers) ||
        rd_kafka_header_get_last(headers, "ce_id", &id, &id_len))
        soak_die("a message of the relay has no id");
    self->kept[at] = record;
    soak_print(self->ids[at], TEXT_ROOM, "%.*s", (int)id_len, (const char *)id);
    soak_print(self->bodies[at], TEXT_ROOM, "%.*s", (int)record->len,
               (const char *)record->payload);
    *out = (soak_item){.id = self->ids[at], .body = self->bodies[at]};
}

/* The client finds a broker that is down again by itself. */
static int foreign_receive(void *client, soak_item items[], size_t max, unsigned wait_ms)
{
    foreign *self = client;
    size_t count = 0;
    let_go(self);
    while (count < max && count < KEEP_MAX) {
        rd_kafka_message_t *record = rd_kafka_consumer_poll(self->handle, count ? 0 : (int)wait_ms);
        if (!record)
            break;
        if (!record->err)
            keep(self, &items[count++], record);
        else
            rd_kafka_message_destroy(record);
    }
    return (int)count;
}

static int foreign_acknowledge(void *client)
{
    foreign *self = client;
    return rd_kafka_commit(self->handle, NULL, 0) == RD_KAFKA_RESP_ERR_NO_ERROR;
}

static const soak_client librdkafka = {.open = foreign_open,
                                       .close = foreign_close,
                                       .publish = foreign_publish,
                                       .receive = foreign_receive,
                                       .acknowledge = foreign_acknowledge};

const soak_broker soak_kafka = {.name = "kafka",
                                .server = SERVER_KAFKA,
                                .url = kafka_url,
                                .queued = kafka_queued,
                                .prepare = kafka_prepare,
                                .client = &librdkafka,
                                .aborts = RD_KAFKA_VERSION < 0x020300ff};
