/* librdkafka logs to stderr unless it is told otherwise, and reports trouble with brokers as
 * events: the log is dropped, the events are kept for the error of the next call that fails. Every
 * client has threads of its own, which never call back: callbacks come from the calls that serve
 * it.
 *
 * The settings that promises rest on are set last. Those of the URL cannot name them (settings.c).
 */
#include "transport/kafka/client.h"

#include <stdio.h>
#include <string.h>

/* --- settings --------------------------------------------------------------------------------- */

typedef struct setting {
    const char *name, *value;
} setting;

/* A message has a body of up to 16 MiB and headers of up to 1 MiB. */
#define MESSAGE_BYTES_MAX "18874368"

/* The URL may say otherwise. */
static const setting usual[] = {
    {"socket.keepalive.enable", "true"},
    {"reconnect.backoff.max.ms", "3000"},
};
static const setting usual_to_produce[] = {
    {"message.max.bytes", MESSAGE_BYTES_MAX},
    {"queue.buffering.max.kbytes", "65536"},
    {"queue.buffering.max.ms", "1"},
    {"partitioner", "murmur2_random"}, /* as clients in Java have it */
};
/* What is queued is that of one partition. When it reaches the bound librdkafka looks again a
 * second later, so a low one (in messages, for one) would bound the rate. */
static const setting usual_to_consume[] = {
    {"message.max.bytes", MESSAGE_BYTES_MAX},
    {"queued.max.messages.kbytes", "4096"},
    {"fetch.error.backoff.ms", "100"},
};

static const setting needed_to_produce[] = {
    {"enable.idempotence", "true"},        {"acks", "all"},
    {"enable.gapless.guarantee", "true"},  {"message.timeout.ms", "0"},
    {"allow.auto.create.topics", "false"},
};
static const setting needed_to_consume[] = {
    {"enable.auto.commit", "false"},       {"enable.auto.offset.store", "false"},
    {"enable.partition.eof", "false"},     {"allow.auto.create.topics", "false"},
    {"isolation.level", "read_committed"},
};

/* The text of librdkafka's may hold the value, which may be a secret. */
static semel_status set(rd_kafka_conf_t *conf, const char *name, const char *value,
                        const char *shown, semel_error *err)
{
    char text[512];
    rd_kafka_conf_res_t result = rd_kafka_conf_set(conf, name, value, text, sizeof text);
    if (result == RD_KAFKA_CONF_OK)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_EINVAL, "URL: librdkafka %s \"%s%s\"",
                      result == RD_KAFKA_CONF_UNKNOWN ? "knows no setting"
                                                      : "does not accept the value of",
                      shown, name);
}

static semel_status set_all(rd_kafka_conf_t *conf, const setting settings[], size_t count,
                            semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < count; i++)
        status = set(conf, settings[i].name, settings[i].value, "", err);
    return status;
}

#define SET_ALL(conf, settings, err) \
    set_all((conf), (settings), sizeof(settings) / sizeof *(settings), (err))

/* A password goes over TLS unless the URL says otherwise. */
static semel_status set_login(rd_kafka_conf_t *conf, const kafka_address *address, semel_error *err)
{
    const setting login[] = {{"security.protocol", "sasl_ssl"},
                             {"sasl.mechanism", "PLAIN"},
                             {"sasl.username", address->user},
                             {"sasl.password", address->password}};
    return *address->user ? SET_ALL(conf, login, err) : SEMEL_OK;
}

static semel_status set_group(rd_kafka_conf_t *conf, const kafka_address *address, semel_error *err)
{
    const setting group[] = {{"group.id", address->group},
                             {"auto.offset.reset", "earliest"}, /* of a log that has gone back */
                             {"partition.assignment.strategy",
                              address->cooperative ? "cooperative-sticky" : "range,roundrobin"}};
    semel_status status = *address->group ? SET_ALL(conf, group, err) : SEMEL_OK;
    if (!status && *address->instance)
        status = set(conf, "group.instance.id", address->instance, "", err);
    return status;
}

static semel_status set_needed(rd_kafka_conf_t *conf, kafka_role role, const kafka_address *address,
                               semel_error *err)
{
    semel_status status = set(conf, "bootstrap.servers", address->servers, "", err);
    if (!status)
        status = set(conf, "client.id", address->name, "", err);
    if (!status && role == KAFKA_PRODUCES)
        return SET_ALL(conf, needed_to_produce, err);
    if (!status)
        status = SET_ALL(conf, needed_to_consume, err);
    return status ? status : set_group(conf, address, err);
}

static semel_status set_usual(rd_kafka_conf_t *conf, kafka_role role, const kafka_address *address,
                              semel_error *err)
{
    semel_status status = SET_ALL(conf, usual, err);
    if (!status)
        status = role == KAFKA_PRODUCES ? SET_ALL(conf, usual_to_produce, err)
                                        : SET_ALL(conf, usual_to_consume, err);
    return status ? status : set_login(conf, address, err);
}

static semel_status configure(rd_kafka_conf_t *conf, kafka_role role, const kafka_address *address,
                              semel_error *err)
{
    semel_status status = set_usual(conf, role, address, err);
    for (size_t i = 0; !status && i < address->setting_count; i++)
        status = set(conf, address->settings[i].name, address->settings[i].value, "X.", err);
    return status ? status : set_needed(conf, role, address, err);
}

/* Producers and consumers know the same settings. */
semel_status kafka_client_check(const kafka_address *address, semel_error *err)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    semel_status status = configure(conf, KAFKA_INSPECTS, address, err);
    rd_kafka_conf_destroy(conf);
    return status;
}

/* --- callbacks -------------------------------------------------------------------------------- */

static void drop_log(const rd_kafka_t *handle, int level, const char *facility, const char *text)
{
    (void)handle;
    (void)level;
    (void)facility;
    (void)text;
}

/* Why the last broker went down says more than that all of them are down. Fatal errors are asked
 * for where they matter. */
static void note_trouble(rd_kafka_t *handle, int code, const char *text, void *opaque)
{
    kafka_client *client = opaque;
    (void)handle;
    if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
        client->all_down = 1;
        if (client->trouble)
            return;
    }
    client->trouble = (rd_kafka_resp_err_t)code;
    (void)snprintf(client->trouble_text, sizeof client->trouble_text, "%s", text);
}

static void report_delivery(rd_kafka_t *handle, const rd_kafka_message_t *message, void *opaque)
{
    const kafka_client *client = opaque;
    (void)handle;
    client->calls.delivered(client->owner, message);
}

static void report_rebalance(rd_kafka_t *handle, rd_kafka_resp_err_t what,
                             rd_kafka_topic_partition_list_t *partitions, void *opaque)
{
    const kafka_client *client = opaque;
    (void)handle;
    client->calls.rebalanced(client->owner, what, partitions);
}

static void set_callbacks(rd_kafka_conf_t *conf, kafka_client *client)
{
    rd_kafka_conf_set_opaque(conf, client);
    rd_kafka_conf_set_log_cb(conf, drop_log);
    rd_kafka_conf_set_error_cb(conf, note_trouble);
    if (client->calls.delivered)
        rd_kafka_conf_set_dr_msg_cb(conf, report_delivery);
    if (client->calls.rebalanced)
        rd_kafka_conf_set_rebalance_cb(conf, report_rebalance);
}

/* --- opening and closing ---------------------------------------------------------------------- */

/* The text of librdkafka's names settings, never their values. */
static semel_status create(kafka_client *client, kafka_role role, rd_kafka_conf_t *conf,
                           semel_error *err)
{
    char text[384];
    rd_kafka_type_t type = role == KAFKA_PRODUCES ? RD_KAFKA_PRODUCER : RD_KAFKA_CONSUMER;
    client->handle = rd_kafka_new(type, conf, text, sizeof text);
    if (client->handle)
        return SEMEL_OK;
    rd_kafka_conf_destroy(conf);
    kafka_address_hide(client->address, text);
    return semel_fail(err, SEMEL_EINVAL, "URL: librdkafka does not accept its settings: %s", text);
}

semel_status kafka_client_open(kafka_client *client, kafka_role role, const kafka_address *address,
                               const kafka_calls *calls, void *owner, semel_error *err)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    *client = (kafka_client){.address = address, .owner = owner};
    if (calls)
        client->calls = *calls;
    semel_status status = configure(conf, role, address, err);
    if (status) {
        rd_kafka_conf_destroy(conf);
        return status;
    }
    set_callbacks(conf, client);
    return create(client, role, conf, err);
}

void kafka_client_close(kafka_client *client)
{
    if (!client->handle)
        return;
    (void)rd_kafka_purge(client->handle, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
                                             RD_KAFKA_PURGE_F_NON_BLOCKING);
    rd_kafka_destroy_flags(client->handle, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    client->handle = NULL;
}

/* --- errors ----------------------------------------------------------------------------------- */

/* What time alone does not mend. Everything else is worth another try: brokers come back, elections
 * end, and a code that is not known here is no reason to stop for good. */
semel_status kafka_status_of(rd_kafka_resp_err_t code)
{
    switch (code) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
        return SEMEL_OK;
    case RD_KAFKA_RESP_ERR__AUTHENTICATION:
    case RD_KAFKA_RESP_ERR__SSL:
    case RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED:
    case RD_KAFKA_RESP_ERR_UNSUPPORTED_SASL_MECHANISM:
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
    case RD_KAFKA_RESP_ERR_INVALID_GROUP_ID:
    case RD_KAFKA_RESP_ERR_INVALID_SESSION_TIMEOUT:
    case RD_KAFKA_RESP_ERR_INCONSISTENT_GROUP_PROTOCOL:
    case RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID:
    case RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION:
    case RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE:
    case RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE:
        return SEMEL_ETRANSPORT;
    default:
        return SEMEL_EUNAVAILABLE;
    }
}

rd_kafka_resp_err_t kafka_first_error(rd_kafka_resp_err_t code,
                                      const rd_kafka_topic_partition_list_t *list)
{
    for (int i = 0; !code && list && i < list->cnt; i++)
        code = list->elems[i].err;
    return code;
}

semel_status kafka_fail(const kafka_address *address, semel_error *err, semel_status status,
                        rd_kafka_resp_err_t code, const char *doing, const char *text)
{
    char shown[KAFKA_TROUBLE_ROOM];
    (void)snprintf(shown, sizeof shown, "%s", text && *text ? text : rd_kafka_err2str(code));
    kafka_address_hide(address, shown);
    for (char *at = shown; *at; at++)
        if (*at == '\n' || *at == '\r')
            *at = ' ';
    (void)semel_fail(err, status, "%s: %s (brokers: %.100s)", doing, shown, address->servers);
    if (err)
        err->native = code;
    return status;
}

semel_status kafka_client_fail(kafka_client *client, semel_error *err, rd_kafka_resp_err_t code,
                               const char *doing)
{
    const char *text = NULL;
    if (client->handle)
        (void)rd_kafka_poll(client->handle, 0);
    int is_vague = code == RD_KAFKA_RESP_ERR__TIMED_OUT || code == RD_KAFKA_RESP_ERR__TRANSPORT;
    if (is_vague && client->trouble) {
        code = client->trouble;
        text = client->trouble_text;
    }
    return kafka_fail(client->address, err, kafka_status_of(code), code, doing, text);
}
