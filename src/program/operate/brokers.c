/* See brokers.h. */
#include "program/operate/brokers.h"

#include "program/support/url_text.h"

#include <string.h>

static const broker_kind kinds[] = {
    {"amqp", "queue", "its URL names an exchange, and no queue", .declares = 1},
    {"redis", "group", "its URL names a stream, and no group that reads it", .declares = 1},
    {"valkey", "group", "its URL names a stream, and no group that reads it", .declares = 1},
    {"nats", "consumer", "its URL names no consumer", .declares = 1, .in_path = 1, .says_which = 1},
    {"kafka", "group", "its URL names a topic, and no group that reads it", .in_path = 1,
     .says_which = 1}};

const broker_kind *broker_kind_of(const char *url)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(url, kinds[i].scheme, strlen(kinds[i].scheme)) == 0 && strstr(url, "://"))
            return &kinds[i];
    return NULL;
}

/* --- errors ----------------------------------------------------------------------------------- */

/* AMQP's reply codes, of which the transport redis uses one, too; of JetStream the number of a
 * missing stream and of a missing consumer, and statuses of nats.c; codes of Kafka's protocol and
 * of librdkafka. */
static const struct {
    const char *scheme;
    int32_t native;
    broker_fault fault;
} faults[] = {{"amqp", 403, BROKER_REFUSED},   {"amqp", 404, BROKER_MISSING},
              {"amqp", 406, BROKER_DIFFERENT}, {"redis", 404, BROKER_MISSING},
              {"valkey", 404, BROKER_MISSING}, {"nats", 10059, BROKER_MISSING},
              {"nats", 10014, BROKER_MISSING}, {"nats", 11, BROKER_REFUSED},
              {"nats", 12, BROKER_REFUSED},    {"kafka", 3, BROKER_MISSING},
              {"kafka", 29, BROKER_REFUSED},   {"kafka", 30, BROKER_REFUSED},
              {"kafka", 31, BROKER_REFUSED},   {"kafka", 58, BROKER_REFUSED},
              {"kafka", -169, BROKER_REFUSED}, {"kafka", -188, BROKER_MISSING}};

broker_fault broker_fault_of(const char *url, const semel_error *why)
{
    const broker_kind *kind = broker_kind_of(url);
    if (!kind || why->status != SEMEL_ETRANSPORT)
        return BROKER_OTHER;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (why->native == faults[i].native && strcmp(faults[i].scheme, kind->scheme) == 0)
            return faults[i].fault;
    return BROKER_OTHER;
}

/* --- URLs ------------------------------------------------------------------------------------- */

const char *broker_url_to_look(region *memory, const char *url)
{
    const broker_kind *kind = broker_kind_of(url);
    const char *silent = url_with_parameter(memory, url, "loss", "warn");
    return kind && kind->declares ? url_with_parameter(memory, silent, "declare", "no") : silent;
}

/* Up to one of the characters in `ends`. */
static const char *location_to(region *memory, const char *url, const char *ends)
{
    size_t scheme = strcspn(url, ":");
    const char *authority = strncmp(url + scheme, "://", 3) == 0 ? url + scheme + 3 : NULL;
    if (!authority)
        return region_copy(memory, url, scheme);
    size_t host = strcspn(authority, "/?#"), len = strcspn(authority, ends);
    for (size_t i = host; i > 0; i--)
        if (authority[i - 1] == '@') {
            authority += i;
            len -= i;
            break;
        }
    return region_printf(memory, "%.*s %.*s", (int)scheme, url, (int)len, authority);
}

const char *broker_location(region *memory, const char *url)
{
    return location_to(memory, url, "/?#");
}

const char *broker_queue_location(region *memory, const char *url)
{
    const broker_kind *kind = broker_kind_of(url);
    return location_to(memory, url, kind && kind->in_path ? "?#" : "/?#");
}
