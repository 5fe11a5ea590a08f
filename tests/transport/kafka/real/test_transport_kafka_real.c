/* The transport suite on a real broker of Kafka, with both ways of assigning partitions. The topics
 * have one partition, so that messages without a group have an order, too. */
#include "real_kit.h"

#include "support/conformance/conformance_transport.h"
#include "support/servers/server_internal.h"

_Static_assert((int)TRANSPORT_URL_ROOM == (int)SERVER_URL_ROOM, "URLs fit into each other's room");

/* A member that is alone has joined by then, and has what is there. */
enum { SETTLE_MS = 500 };

static real_topic topic;

static void make(char url[TRANSPORT_URL_ROOM], const char *parameters)
{
    real_topic_open(&topic, 1, 1);
    real_topic_url(url, &topic, parameters);
}

static void make_eager(char url[TRANSPORT_URL_ROOM])
{
    make(url, "assignment=eager");
}

static void make_cooperative(char url[TRANSPORT_URL_ROOM])
{
    make(url, "assignment=cooperative");
}

static void remove_topic(const char *url)
{
    (void)url;
    real_topic_close(&topic);
}

int main(void)
{
    static const transport_quirks eager = {.name = "kafka, eager",
                                           .flags = TRANSPORT_KEEPS,
                                           .durability = SEMEL_DURABLE_PROCESS,
                                           .settle_ms = SETTLE_MS,
                                           .make = make_eager,
                                           .remove = remove_topic};
    transport_quirks cooperative = eager;
    cooperative.name = "kafka, cooperative";
    cooperative.make = make_cooperative;
    return conformance_transport(&eager) + conformance_transport(&cooperative);
}
