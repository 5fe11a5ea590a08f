/* A declaration makes what is missing, and compares what is there: the broker refuses (406)
 * arguments that differ. So a check asks first whether it is there at all (passive) and then
 * declares it. What a policy of the broker adds to a queue cannot be seen this way;
 * docs/RABBITMQ.md says so. */
#include "transport/rabbitmq/topology.h"

#include "transport/rabbitmq/connect.h"

#include <stdio.h>
#include <string.h>

enum { ARGUMENTS_MAX = 8, DOING_ROOM = 2 * RABBIT_NAME_ROOM + 96, LIMITLESS_SINCE = 4 };

/* --- exchanges -------------------------------------------------------------------------------- */

static semel_status look_for_exchange(rabbit_link *link, const char *name, semel_error *err)
{
    char doing[DOING_ROOM];
    (void)snprintf(doing, sizeof doing,
                   "looking for the exchange \"%s\" (declare=yes would make it)", name);
    if (amqp_exchange_declare(link->connection, RABBIT_CHANNEL, amqp_cstring_bytes(name),
                              amqp_cstring_bytes(link->address->exchange_type), 1, 1, 0, 0,
                              amqp_empty_table))
        return SEMEL_OK;
    return rabbit_link_refused(link, doing, err);
}

static semel_status declare_exchange(rabbit_link *link, semel_error *err)
{
    const rabbit_address *address = link->address;
    char doing[DOING_ROOM];
    (void)snprintf(doing, sizeof doing, "is the %s %s exchange \"%s\" as the URL says it is?",
                   address->durable ? "durable" : "transient", address->exchange_type,
                   address->exchange);
    if (amqp_exchange_declare(link->connection, RABBIT_CHANNEL,
                              amqp_cstring_bytes(address->exchange),
                              amqp_cstring_bytes(address->exchange_type), 0, address->durable, 0, 0,
                              amqp_empty_table))
        return SEMEL_OK;
    return rabbit_link_refused(link, doing, err);
}

/* The broker's own exchanges cannot be declared, and need not be. */
static semel_status ensure_exchange(rabbit_link *link, semel_error *err)
{
    const rabbit_address *address = link->address;
    if (!address->exchange[0])
        return SEMEL_OK;
    int theirs = strncmp(address->exchange, "amq.", 4) == 0;
    semel_status status = SEMEL_OK;
    if (address->declare != RABBIT_DECLARE || theirs)
        status = look_for_exchange(link, address->exchange, err);
    if (status || address->declare == RABBIT_TRUST || theirs)
        return status;
    return declare_exchange(link, err);
}

/* --- the queue -------------------------------------------------------------------------------- */

typedef struct arguments {
    amqp_table_entry_t entries[ARGUMENTS_MAX];
    int count;
} arguments;

static amqp_field_value_t *add_argument(arguments *to, const char *name, uint8_t kind)
{
    amqp_table_entry_t *entry = &to->entries[to->count++];
    entry->key = amqp_cstring_bytes(name);
    entry->value.kind = kind;
    return &entry->value;
}

static void add_text_argument(arguments *to, const char *name, const char *value)
{
    add_argument(to, name, AMQP_FIELD_KIND_UTF8)->value.bytes = amqp_cstring_bytes(value);
}

static void add_dead_letter(arguments *to, const rabbit_address *address)
{
    if (!address->has_dead_letter)
        return;
    add_text_argument(to, "x-dead-letter-exchange", address->dead_letter);
    if (address->dead_letter_key[0])
        add_text_argument(to, "x-dead-letter-routing-key", address->dead_letter_key);
    if (!address->quorum)
        return;
    add_text_argument(to, "x-dead-letter-strategy",
                      "at-least-once");                    /* else they go without confirms, */
    add_text_argument(to, "x-overflow", "reject-publish"); /* and this is its condition */
}

/* Before 4.0 no limit is no argument; since then it is one of its own, and saying nothing means
 * 20. */
static void add_limit(arguments *to, const rabbit_link *link)
{
    int64_t limit = link->address->delivery_limit;
    if (limit >= 0 || (limit == -1 && link->broker_major >= LIMITLESS_SINCE))
        add_argument(to, "x-delivery-limit", AMQP_FIELD_KIND_I64)->value.i64 = limit;
}

static void argue(arguments *to, const rabbit_link *link)
{
    to->count = 0;
    add_text_argument(to, "x-queue-type", link->address->quorum ? "quorum" : "classic");
    add_dead_letter(to, link->address);
    add_limit(to, link);
    if (link->address->single_active)
        add_argument(to, "x-single-active-consumer", AMQP_FIELD_KIND_BOOLEAN)->value.boolean = 1;
}

/* The answer has the number of messages that are ready. */
static semel_status look_for_queue(rabbit_link *link, uint64_t *ready, semel_error *err)
{
    const rabbit_address *address = link->address;
    char doing[DOING_ROOM];
    (void)snprintf(doing, sizeof doing, "looking for the queue \"%s\" (declare=yes would make it)",
                   address->queue);
    const amqp_queue_declare_ok_t *found =
        amqp_queue_declare(link->connection, RABBIT_CHANNEL, amqp_cstring_bytes(address->queue), 1,
                           0, 0, 0, amqp_empty_table);
    if (!found)
        return rabbit_link_refused(link, doing, err);
    *ready = found->message_count;
    return SEMEL_OK;
}

static semel_status declare_queue(rabbit_link *link, semel_error *err)
{
    const rabbit_address *address = link->address;
    arguments given;
    char doing[DOING_ROOM];
    (void)snprintf(doing, sizeof doing, "is the %s %s queue \"%s\" as the URL says it is?",
                   address->durable ? "durable" : "transient",
                   address->quorum ? "quorum" : "classic", address->queue);
    argue(&given, link);
    if (amqp_queue_declare(link->connection, RABBIT_CHANNEL, amqp_cstring_bytes(address->queue), 0,
                           address->durable, 0, 0, (amqp_table_t){given.count, given.entries}))
        return SEMEL_OK;
    return rabbit_link_refused(link, doing, err);
}

static semel_status ensure_queue(rabbit_link *link, semel_error *err)
{
    const rabbit_address *address = link->address;
    semel_status status = SEMEL_OK;
    uint64_t ready;
    if (!address->queue[0])
        return SEMEL_OK;
    if (address->declare != RABBIT_DECLARE)
        status = look_for_queue(link, &ready, err);
    else if (address->has_dead_letter && address->dead_letter[0])
        status = look_for_exchange(link, address->dead_letter, err);
    if (status || address->declare == RABBIT_TRUST)
        return status;
    return declare_queue(link, err);
}

/* --- bindings --------------------------------------------------------------------------------- */

static semel_status bind_one(rabbit_link *link, const char *pattern, semel_error *err)
{
    const rabbit_address *address = link->address;
    char doing[DOING_ROOM];
    (void)snprintf(doing, sizeof doing, "binding the queue \"%s\" to the exchange \"%s\"",
                   address->queue, address->exchange);
    if (amqp_queue_bind(link->connection, RABBIT_CHANNEL, amqp_cstring_bytes(address->queue),
                        amqp_cstring_bytes(address->exchange), amqp_cstring_bytes(pattern),
                        amqp_empty_table))
        return SEMEL_OK;
    return rabbit_link_refused(link, doing, err);
}

/* The default exchange has every queue bound already. */
static semel_status ensure_bindings(rabbit_link *link, semel_error *err)
{
    const rabbit_address *address = link->address;
    semel_status status = SEMEL_OK;
    if (address->declare != RABBIT_DECLARE || !address->queue[0] || !address->exchange[0])
        return SEMEL_OK;
    for (const char *at = address->bindings; !status && *at; at += strlen(at) + 1)
        if (!(status = rabbit_connect_patience(link, err)))
            status = bind_one(link, at, err);
    return status;
}

semel_status rabbit_topology(rabbit_link *link, semel_error *err)
{
    semel_status (*const steps[])(rabbit_link *, semel_error *) = {ensure_exchange, ensure_queue,
                                                                   ensure_bindings};
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < sizeof steps / sizeof *steps; i++)
        if (!(status = rabbit_connect_patience(link, err)))
            status = steps[i](link, err);
    return status ? status : rabbit_connect_patience(link, err);
}

semel_status rabbit_topology_depth(rabbit_link *link, uint64_t *ready, semel_error *err)
{
    semel_status status = rabbit_connect_patience(link, err);
    return status ? status : look_for_queue(link, ready, err);
}
