/* A transport between a relay or consumer and another transport, which sees all that passes, can do
 * something on the way, and can be out of order. */
#ifndef SEMEL_TESTS_SPY_H
#define SEMEL_TESTS_SPY_H

#include "support/fixture/fixture.h"

#include <semel/sys/transport.h>

enum { SPY_SETTLES_MAX = 256 };

typedef struct spy {
    /* What it is to do; may be changed at any time. */
    semel_transport *inner;
    semel_status broken;         /* not SEMEL_OK: publish, receive and settle fail with it */
    semel_status publish_broken; /* the same for publish alone */
    void (*on_publish)(struct spy *spy, const semel_message *const messages[], size_t count);
    void (*on_receive)(struct spy *spy, semel_delivery deliveries[], size_t count);
    /* for these two: the first is called before the inner transport, the second after */
    void *context;

    /* What it saw. */
    size_t publishes;  /* calls, also those that failed */
    size_t last_count; /* messages in the last one */
    uint32_t wait_ms;  /* of the last one */
    size_t receives;
    size_t settle_count;
    semel_delivery_settlement settles[SPY_SETTLES_MAX]; /* the first ones */
} spy;

/* `ordered`: whether it says so (SEMEL_TRANSPORT_ORDERED); what the inner one does is another
 * matter. Closed with the fixture. */
semel_transport *spy_open(fixture *f, spy *spy, int ordered);

#endif
