/* The same work by hand on librdkafka, as a careful programmer writes it: an idempotent and gapless
 * producer with acks=all, whose queue lingers as long as that of semel's transport does. What waits
 * for all it has sent flushes, which ends the lingering. What is refused ends the program.
 *
 * raw_kafka.c           connections, publishing, the table
 * raw_kafka_places.c    places, by the admin requests of librdkafka
 * raw_kafka_consume.c   consuming in a group
 *
 * The headers are those that semel's consumers read, since the same messages are consumed by both
 * sides. */
#include "raw_kafka.h"

#include <stdlib.h>
#include <string.h>

void must_kafka(rd_kafka_resp_err_t code, const char *what)
{
    if (code)
        die("kafka, %s: %s", what, rd_kafka_err2str(code));
}

/* --- connection ------------------------------------------------------------------------------- */

void raw_kafka_set(rd_kafka_conf_t *conf, const raw_kafka_setting settings[], size_t count)
{
    char why[256];
    for (size_t i = 0; i < count; i++)
        if (rd_kafka_conf_set(conf, settings[i].name, settings[i].value, why, sizeof why) !=
            RD_KAFKA_CONF_OK)
            die("kafka: %s", why);
}

rd_kafka_t *raw_kafka_client(rd_kafka_type_t type, rd_kafka_conf_t *conf, const char *hosts)
{
    char why[256];
    const raw_kafka_setting common[] = {
        {"bootstrap.servers", hosts}, {"log_level", "3"}, {"socket.keepalive.enable", "true"}};
    raw_kafka_set(conf, common, sizeof common / sizeof *common);
    rd_kafka_t *client = rd_kafka_new(type, conf, why, sizeof why);
    if (!client)
        die("kafka: %s", why);
    return client;
}

static void on_report(rd_kafka_t *handle, const rd_kafka_message_t *message, void *opaque)
{
    broker *b = opaque;
    (void)handle;
    must_kafka(message->err, "a message is not confirmed");
    b->outstanding--;
}

/* kafka://host:port */
static broker *kafka_open(const char *url)
{
    static const raw_kafka_setting settings[] = {{"enable.idempotence", "true"},
                                                 {"acks", "all"},
                                                 {"enable.gapless.guarantee", "true"},
                                                 {"queue.buffering.max.ms", "1"},
                                                 {"allow.auto.create.topics", "false"}};
    broker *b = must_alloc(sizeof *b);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    const char *authority = strstr(url, "://") + 3;
    snprintf(b->hosts, sizeof b->hosts, "%.*s", (int)strcspn(authority, "/?"), authority);
    raw_kafka_set(conf, settings, sizeof settings / sizeof *settings);
    rd_kafka_conf_set_opaque(conf, b);
    rd_kafka_conf_set_dr_msg_cb(conf, on_report);
    b->producer = raw_kafka_client(RD_KAFKA_PRODUCER, conf, b->hosts);
    return b;
}

static void kafka_close(broker *b)
{
    if (b->consumer)
        raw_kafka_leave(b);
    rd_kafka_destroy(b->producer);
    free((void *)b->came);
    free(b->messages);
    free((void *)b->pointers);
    free(b);
}

/* A broker does not say which version it is. */
static void kafka_version(broker *b, char out[32])
{
    (void)b;
    snprintf(out, 32, "by librdkafka %s", rd_kafka_version_str());
}

static void kafka_url(char out[1024], const char *server_url, const char *place, const char *queue,
                      size_t prefetch)
{
    size_t len = strcspn(strstr(server_url, "://") + 3, "/?") + strlen("kafka://");
    (void)queue;
    if (prefetch)
        snprintf(out, 1024, "%.*s/%s?group=%s&prefetch=%zu", (int)len, server_url, place, place,
                 prefetch);
    else
        snprintf(out, 1024, "%.*s/%s", (int)len, server_url, place);
}

/* --- publishing ------------------------------------------------------------------------------- */

static void publish(broker *b, const char *place, const semel_message *message)
{
    union {
        const void *from;
        void *to;
    } body = {message->body.data}; /* with F_COPY nothing is written there */
    rd_kafka_headers_t *headers = rd_kafka_headers_new(3);
    rd_kafka_header_add(headers, "ce_id", -1, message->id.data, (ssize_t)message->id.len);
    rd_kafka_header_add(headers, "ce_type", -1, message->type, -1);
    rd_kafka_header_add(headers, "ce_subject", -1, message->topic, -1);
    const rd_kafka_vu_t parts[] = {
        {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = place},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
        {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {body.to, message->body.len}},
        {.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = message->time_ms},
        {.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers}};
    rd_kafka_error_t *error = rd_kafka_produceva(b->producer, parts, sizeof parts / sizeof *parts);
    if (error)
        die("kafka, publishing: %s", rd_kafka_error_string(error));
    b->outstanding++;
}

static void read_reports(broker *b)
{
    if (!rd_kafka_poll(b->producer, PATIENCE_MS))
        die("kafka: %zu messages are not confirmed", b->outstanding);
}

static void publish_window(broker *b, const char *place, const semel_message *const messages[],
                           size_t count, size_t outstanding)
{
    for (size_t i = 0; i < count;) {
        while (i < count && b->outstanding < outstanding)
            publish(b, place, messages[i++]);
        read_reports(b);
    }
    while (b->outstanding)
        read_reports(b);
}

static void publish_batches(broker *b, const char *place, const semel_message *const messages[],
                            size_t count, size_t outstanding)
{
    for (size_t i = 0; i < count;) {
        for (size_t end = i + outstanding; i < count && i < end; i++)
            publish(b, place, messages[i]);
        must_kafka(rd_kafka_flush(b->producer, PATIENCE_MS), "waiting for reports");
    }
}

/* --- the table -------------------------------------------------------------------------------- */

static const char *const queues[] = {"", NULL};

const broker_kind kafka_broker = {.name = "Kafka",
                                  .server = "kafka",
                                  .is_apart = 1,
                                  .has_groups = 1,
                                  .queues = queues,
                                  .open = kafka_open,
                                  .close = kafka_close,
                                  .version = kafka_version,
                                  .make = raw_kafka_make,
                                  .empty = raw_kafka_empty,
                                  .remove = raw_kafka_remove,
                                  .url = kafka_url,
                                  .publish_window = publish_window,
                                  .publish_batches = publish_batches,
                                  .consume = raw_kafka_consume,
                                  .take = raw_kafka_take,
                                  .ack_each = raw_kafka_ack,
                                  .ack_together = raw_kafka_ack};
