/* The transport suite on RabbitMQ: on quorum queues, which count deliveries, on classic queues,
 * which only tell a redelivery from a first one, and by TLS. */
#include "support/conformance/conformance_transport.h"
#include "support/servers/rabbitmq/broker.h"

_Static_assert((int)TRANSPORT_URL_ROOM == (int)SERVER_URL_ROOM, "URLs fit into each other's room");

enum { SETTLE_MS = 150 };

static void make(char url[TRANSPORT_URL_ROOM], const char *parameters)
{
    server_place shared;
    server_find(&shared, SERVER_RABBITMQ);
    broker_fresh(url, &shared, parameters);
}

static void make_quorum(char url[TRANSPORT_URL_ROOM])
{
    make(url, "declare=yes&type=quorum&delivery_limit=-1");
}

static void make_classic(char url[TRANSPORT_URL_ROOM])
{
    make(url, "declare=yes&type=classic");
}

static void make_tls(char url[TRANSPORT_URL_ROOM])
{
    server_place shared;
    server_find(&shared, SERVER_RABBITMQ);
    broker_fresh_tls(url, &shared, "declare=yes&type=classic");
}

int main(void)
{
    static const transport_quirks quorum = {.name = "rabbitmq, quorum queue",
                                            .flags = TRANSPORT_KEEPS | TRANSPORT_SORTS_HEADERS,
                                            .durability = SEMEL_DURABLE_POWER,
                                            .settle_ms = SETTLE_MS,
                                            .make = make_quorum,
                                            .remove = broker_drop};
    static const transport_quirks classic = {.name = "rabbitmq, classic queue",
                                             .flags = TRANSPORT_KEEPS | TRANSPORT_COUNTS_TO_TWO,
                                             .durability = SEMEL_DURABLE_POWER,
                                             .settle_ms = SETTLE_MS,
                                             .make = make_classic,
                                             .remove = broker_drop};
    static const transport_quirks tls = {.name = "rabbitmq, classic queue by TLS",
                                         .flags = TRANSPORT_KEEPS | TRANSPORT_COUNTS_TO_TWO,
                                         .durability = SEMEL_DURABLE_POWER,
                                         .settle_ms = SETTLE_MS,
                                         .make = make_tls,
                                         .remove = broker_drop};
    return conformance_transport(&quorum) + conformance_transport(&classic) +
           conformance_transport(&tls);
}
