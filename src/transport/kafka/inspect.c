/* A client that joins no group asks, and is closed again: so a wrong password, a missing topic, or
 * one that could lose messages are found when the transport is opened. A user who may not read the
 * configuration of a topic, or brokers that cannot tell it, are no reason to refuse; a warning says
 * that it is not known. */
#include "transport/kafka/inspect.h"

#include "base/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_MS = 2000, DAY_MS = 86400000 };

/* --- topics ----------------------------------------------------------------------------------- */

static semel_status look_at_topic(kafka_client *client, const char *topic, int required,
                                  int *replicas, semel_error *err)
{
    char doing[KAFKA_TOPIC_MAX + 32];
    (void)snprintf(doing, sizeof doing, "the topic \"%s\"", topic);
    rd_kafka_resp_err_t code =
        kafka_topic_ask(client->handle, topic, (int)client->address->connect_ms, NULL, replicas);
    if (code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART && !required)
        return SEMEL_OK;
    if (code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
        return kafka_fail(client->address, err, SEMEL_ETRANSPORT, code, doing,
                          "it is not there; create it");
    return code ? kafka_client_fail(client, err, code, doing) : SEMEL_OK;
}

/* Without a topic it is enough that a broker answers. */
static semel_status look_at_cluster(kafka_client *client, semel_error *err)
{
    const struct rd_kafka_metadata *answer = NULL;
    rd_kafka_resp_err_t code =
        rd_kafka_metadata(client->handle, 0, NULL, &answer, (int)client->address->connect_ms);
    if (answer)
        rd_kafka_metadata_destroy(answer);
    return code ? kafka_client_fail(client, err, code, "connecting") : SEMEL_OK;
}

/* --- the configuration of a topic ------------------------------------------------------------- */

static void read_entry(kafka_facts *out, const char *name, const char *value)
{
    const struct {
        const char *name;
        int64_t *to;
    } numbers[] = {{"min.insync.replicas", &out->least_in_sync},
                   {"flush.messages", &out->flush_messages},
                   {"retention.ms", &out->retention_ms},
                   {"retention.bytes", &out->retention_bytes}};
    for (size_t i = 0; value && i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(name, numbers[i].name) == 0)
            *numbers[i].to = strtoll(value, NULL, 10);
    if (value && strcmp(name, "cleanup.policy") == 0)
        out->is_compacted = strstr(value, "compact") != NULL;
    if (value && strcmp(name, "unclean.leader.election.enable") == 0)
        out->is_unclean = strcmp(value, "true") == 0;
}

static void read_configuration(kafka_facts *out, const rd_kafka_event_t *event)
{
    size_t count = 0, entries = 0;
    const rd_kafka_DescribeConfigs_result_t *result =
        rd_kafka_event_DescribeConfigs_result((rd_kafka_event_t *)(uintptr_t)event);
    const rd_kafka_ConfigResource_t **resources =
        result ? rd_kafka_DescribeConfigs_result_resources(result, &count) : NULL;
    if (count != 1 || rd_kafka_ConfigResource_error(resources[0]))
        return;
    const rd_kafka_ConfigEntry_t **all = rd_kafka_ConfigResource_configs(resources[0], &entries);
    for (size_t i = 0; i < entries; i++)
        read_entry(out, rd_kafka_ConfigEntry_name(all[i]), rd_kafka_ConfigEntry_value(all[i]));
    out->is_configured = entries > 0;
}

static void ask_configuration(kafka_facts *out, kafka_client *client)
{
    const kafka_address *address = client->address;
    int wait_ms = address->connect_ms < CONFIG_MS ? (int)address->connect_ms : CONFIG_MS;
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(client->handle, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    rd_kafka_ConfigResource_t *topic =
        rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, address->topic);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client->handle);
    (void)rd_kafka_AdminOptions_set_request_timeout(options, wait_ms, NULL, 0);
    rd_kafka_DescribeConfigs(client->handle, &topic, 1, options, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, wait_ms + 1000);
    if (event && !rd_kafka_event_error(event))
        read_configuration(out, event);
    if (event)
        rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_ConfigResource_destroy(topic);
    rd_kafka_AdminOptions_destroy(options);
}

/* --- when a transport is opened --------------------------------------------------------------- */

static semel_status look(kafka_facts *out, kafka_client *client, semel_error *err)
{
    const kafka_address *address = client->address;
    if (!*address->topic)
        return look_at_cluster(client, err);
    semel_status status =
        look_at_topic(client, address->topic, *address->group != 0, &out->replicas, err);
    if (!status && *address->dead)
        status = look_at_topic(client, address->dead, 1, NULL, err);
    if (!status && out->replicas && rd_kafka_controllerid(client->handle, 0) >= 0)
        ask_configuration(out, client); /* by way of the controller */
    return status;
}

semel_status kafka_inspect(kafka_facts *out, const kafka_address *address, semel_error *err)
{
    kafka_client client;
    *out = (kafka_facts){.retention_ms = -1, .retention_bytes = -1};
    semel_status status = kafka_client_open(&client, KAFKA_INSPECTS, address, NULL, NULL, err);
    if (status)
        return status;
    status = look(out, &client, err);
    kafka_client_close(&client);
    return status;
}

/* --- what it means ---------------------------------------------------------------------------- */

/* Brokers write to disk when they please. What two of three have survives the loss of one. */
semel_durability kafka_facts_durability(const kafka_facts *facts)
{
    int is_replicated = facts->replicas >= 3 && facts->least_in_sync >= 2;
    int is_flushed = facts->flush_messages == 1;
    return facts->is_configured && (is_replicated || is_flushed) ? SEMEL_DURABLE_POWER
                                                                 : SEMEL_DURABLE_PROCESS;
}

static void warn(char out[KAFKA_WARNINGS_ROOM], const char *sentence)
{
    size_t len = strlen(out);
    if (len + strlen(sentence) + 2 <= KAFKA_WARNINGS_ROOM)
        (void)snprintf(out + len, KAFKA_WARNINGS_ROOM - len, "%s%s", len ? "\n" : "", sentence);
}

static void warn_of_topic(char out[KAFKA_WARNINGS_ROOM], const kafka_facts *facts)
{
    if (facts->is_compacted)
        warn(out, "the topic is compacted: Kafka drops all but the last message of a key, read or "
                  "not (cleanup.policy)");
    if (facts->is_unclean)
        warn(out, "a broker that lacks confirmed messages may become the leader "
                  "(unclean.leader.election.enable)");
    if (facts->replicas > 1 && facts->least_in_sync < 2)
        warn(out, "a message is confirmed when one broker has it, if the others lag behind "
                  "(min.insync.replicas=1)");
    if (facts->replicas == 1)
        warn(out, "the topic has one replica: what its broker loses is lost");
    if (facts->retention_ms >= 0 && facts->retention_ms < DAY_MS)
        warn(out, "Kafka drops messages after less than a day, read or not (retention.ms)");
    if (facts->retention_bytes >= 0)
        warn(out, "Kafka drops the oldest messages when there are too many, read or not "
                  "(retention.bytes)");
}

/* librdkafka's issue 4312: an assertion fails when a member of a cooperative group leaves it while
 * that is being divided. */
static int may_abort_at_end(const kafka_address *address)
{
    enum { MENDED = 0x020300ff };
    return *address->group && address->cooperative && rd_kafka_version() < MENDED;
}

void kafka_facts_warnings(char out[KAFKA_WARNINGS_ROOM], int *refuse, const kafka_facts *facts,
                          const kafka_address *address)
{
    out[0] = 0;
    *refuse = facts->is_configured && (facts->is_compacted || facts->is_unclean);
    if (facts->is_configured)
        warn_of_topic(out, facts);
    else if (*address->topic)
        warn(out, "the configuration of the topic could not be read: whether it keeps messages is "
                  "not known");
    if (address->latest)
        warn(out, "a new group does not get what is in the topic already (from=latest)");
    if (*address->group && !*address->dead)
        warn(out, "a message that is rejected is dropped (there is no dead=)");
    if (may_abort_at_end(address))
        warn(out, "librdkafka before 2.3.0 may abort the process when it leaves a group with "
                  "assignment=cooperative; no message is lost by it, and assignment=eager has no "
                  "such fault");
}

/* --- depth ------------------------------------------------------------------------------------ */

static int left_ms(int64_t until_ms)
{
    int64_t left = until_ms - wait_clock_ms();
    return left > 1 ? (int)left : 1;
}

/* From the committed offset on, or from where a new group would begin. */
static uint64_t count_behind(const kafka_address *address, const rd_kafka_topic_partition_t *at,
                             int64_t low, int64_t high)
{
    kafka_progress progress;
    int64_t from = at->offset >= 0 ? at->offset : address->latest ? high : low;
    from = from < low || from > high ? low : from;
    kafka_progress_read(&progress, from, at->metadata, at->metadata_size);
    uint64_t all = (uint64_t)(high - from), settled = kafka_progress_settled(&progress);
    return all > settled ? all - settled : 0;
}

static rd_kafka_resp_err_t count_one(kafka_client *client, kafka_receiver *receiver,
                                     const rd_kafka_topic_partition_t *at, int64_t until_ms,
                                     uint64_t *ready)
{
    int64_t low = 0, high = 0;
    uint64_t own = 0;
    rd_kafka_resp_err_t code = rd_kafka_query_watermark_offsets(
        client->handle, at->topic, at->partition, &low, &high, left_ms(until_ms));
    if (code)
        return code;
    *ready += kafka_receiver_ready(receiver, at->partition, high, &own)
                  ? own
                  : count_behind(client->address, at, low, high);
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static rd_kafka_resp_err_t count_all(kafka_client *client, kafka_receiver *receiver,
                                     uint64_t *ready)
{
    const kafka_address *address = client->address;
    int64_t until_ms = wait_clock_ms() + address->connect_ms;
    int partitions = 0;
    rd_kafka_resp_err_t code =
        kafka_topic_ask(client->handle, address->topic, left_ms(until_ms), &partitions, NULL);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions);
    if (partitions)
        rd_kafka_topic_partition_list_add_range(list, address->topic, 0, partitions - 1);
    if (!code)
        code = rd_kafka_committed(client->handle, list, left_ms(until_ms));
    *ready = 0;
    for (int i = 0; !code && i < list->cnt; i++)
        code = count_one(client, receiver, &list->elems[i], until_ms, ready);
    rd_kafka_topic_partition_list_destroy(list);
    return code;
}

semel_status kafka_depth(const kafka_address *address, kafka_receiver *receiver, uint64_t *ready,
                         semel_error *err)
{
    kafka_client client;
    uint64_t found = 0;
    semel_status status = kafka_client_open(&client, KAFKA_INSPECTS, address, NULL, NULL, err);
    if (status)
        return status;
    rd_kafka_resp_err_t code = count_all(&client, receiver, &found);
    if (code)
        status = kafka_client_fail(&client, err, code, "asking how many messages are ready");
    else
        *ready = found;
    kafka_client_close(&client);
    return status;
}
