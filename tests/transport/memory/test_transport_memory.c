/* The transport suite on memory, with deliveries that lapse and with such that do not. */
#include "support/conformance/conformance_transport.h"

#include <stdio.h>

static void make(char url[TRANSPORT_URL_ROOM])
{
    (void)snprintf(url, TRANSPORT_URL_ROOM, "memory:");
}

static void make_with_ack_ms(char url[TRANSPORT_URL_ROOM])
{
    (void)snprintf(url, TRANSPORT_URL_ROOM, "memory:?ack_ms=30000");
}

int main(void)
{
    static const transport_quirks patient = {
        .name = "memory", .make = make, .durability = SEMEL_DURABLE_NOT};
    static const transport_quirks impatient = {.name = "memory with ack_ms",
                                               .make = make_with_ack_ms,
                                               .durability = SEMEL_DURABLE_NOT,
                                               .lapse_ms = 30000};
    return conformance_transport(&patient) + conformance_transport(&impatient);
}
