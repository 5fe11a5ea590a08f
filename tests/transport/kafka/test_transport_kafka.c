/* The transport suite on librdkafka's mock cluster: one partition, so that the order of all
 * messages is known, by the eager protocol. */
#include "support/conformance/conformance_transport.h"
#include "support/servers/kafka/kafka_mock.h"

_Static_assert((int)TRANSPORT_URL_ROOM == (int)MOCK_URL_ROOM, "URLs fit into each other's room");

enum { SETTLE_MS = 500 };

static kafka_mock mock;

static void make(char url[TRANSPORT_URL_ROOM])
{
    kafka_mock_fresh(url, &mock, 1, "");
}

int main(void)
{
    static const transport_quirks quirks = {.name = "kafka, mock cluster",
                                            .flags = TRANSPORT_KEEPS,
                                            .durability = SEMEL_DURABLE_PROCESS,
                                            .settle_ms = SETTLE_MS,
                                            .make = make};
    kafka_mock_start(&mock, 1);
    int failed = conformance_transport(&quirks);
    kafka_mock_end(&mock);
    return failed;
}
