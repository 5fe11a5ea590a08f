/* The outbox on SQLite, by hand and through semel: what section_outbox.c and section_broker_relay.c
 * share. */
#ifndef SEMEL_BENCH_OUTBOX_H
#define SEMEL_BENCH_OUTBOX_H

#include "bench.h"

#include <semel/sys/transport.h>
#include <stdatomic.h>

enum { RELAYS_MAX = 2 };

typedef struct raw_outbox {
    raw_db raw; /* for its connection, begin and commit */
    sqlite3_stmt *insert, *read, *remove;
    size_t batch;
    int grouped;
} raw_outbox;

void raw_outbox_open(raw_outbox *o);
void raw_outbox_close(raw_outbox *o);
void raw_send(void *raw_outbox, const message_set *set);
void raw_drain(void *raw_outbox, const message_set *set); /* so many, and to nowhere */

/* So many to somewhere: reads a batch, gives it away, then deletes it. No transaction is open
 * meanwhile. */
void raw_drain_to(raw_outbox *o, size_t count, recipient *publish, void *context);

typedef struct semel_side {
    const char *file;
    semel_store *store;
    semel_outbox *outbox;
    size_t batch;
    int grouped;
} semel_side;

void semel_side_open(semel_side *s);
void semel_side_close(semel_side *s);
void semel_send(void *semel_side, const message_set *set);

/* Relays of semel's, on whatever store; they share the transport (relays.c). */
typedef struct relay_side {
    size_t count; /* 0: 1 */
    semel_outbox *outbox;
    semel_relay_options options;
    semel_transport *inner;
    semel_transport_driver driver;
    semel_transport *transport; /* counts what goes to the inner one */
    semel_relay *relays[RELAYS_MAX];
    size_t wanted;
    atomic_size_t sent;
} relay_side;

void relay_begin(relay_side *s, semel_outbox *outbox, const char *transport_url,
                 const semel_relay_options *options_of);
void relay_drain(void *relay_side, const message_set *set); /* so many */
void relay_end(relay_side *s);

#endif
