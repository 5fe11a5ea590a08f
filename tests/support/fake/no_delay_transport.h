/* A transport around a memory transport that keeps no delays, as RabbitMQ: what it is told to
 * deliver again comes back at once. It counts what passes, may be shared by threads, and can be out
 * of order. */
#ifndef SEMEL_TESTS_NO_DELAY_TRANSPORT_H
#define SEMEL_TESTS_NO_DELAY_TRANSPORT_H

#include "support/fixture/fixture.h"

#include <semel/sys/transport.h>
#include <stdatomic.h>

typedef struct no_delay {
    /* What it is to do; may be changed at any time. */
    semel_transport *inner;
    atomic_int receive_broken; /* a semel_status: so the calls fail, and nothing is passed on */
    atomic_int settle_broken;
    atomic_ullong
        lost; /* deliveries up to this tag came by a connection that is gone: EUNAVAILABLE */

    /* What it saw. */
    atomic_uint receives;
    atomic_uint received; /* messages */
    atomic_uint acked;
    atomic_uint retried;
    atomic_uint rejected;
    atomic_int inflight; /* received and not settled, now and at most */
    atomic_int inflight_most;
    uint64_t retried_tags[64]; /* the first ones, in the order of being given back */
} no_delay;

/* With the clock of `seam` (NULL: the system's). Closed with the fixture. */
semel_transport *no_delay_open(fixture *f, no_delay *self, const semel_seam *seam);

#endif
