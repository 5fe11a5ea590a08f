/* A small shop on the real clock, for tests with many threads or processes: an inbox "orders" whose handler
 * writes a row into the table `effect` (where the store has SQL) and sends a message to the outbox "out".
 * What cannot fail in a healthy world ends the process when it does, with a line on stderr. */
#ifndef SEMEL_TESTS_SUPPORT_SHOP_H
#define SEMEL_TESTS_SUPPORT_SHOP_H

#include "support/slower.h"

#include <semel/semel.h>
#include <stdatomic.h>

enum { SHOP_KEYS_MAX = 4096, SHOP_TEXT = 64, SHOP_URL = 512 };

/* Counted by handlers, wherever they run. Put it into shared memory for several processes. */
typedef struct shop_tally {
    atomic_uint runs[SHOP_KEYS_MAX];    /* handler bodies begun, per key */
    atomic_uint effects[SHOP_KEYS_MAX]; /* ... and come to their end without failing */
} shop_tally;

typedef struct shop {
    char url[SHOP_URL];
    int queued; /* effects are queued statements; else written on the unit's connection */
    semel_store *store;
    semel_inbox *inbox;
    semel_outbox *outbox;
    shop_tally *tally;
    /* Called in each handler before its end; NULL: nothing. What it returns is what the handler does. */
    semel_status (*during)(semel_unit *unit, unsigned key, void *context, semel_error *err);
    void *context;
} shop;

/* Makes the tables in a new SQLite file, or in an empty place on a server. */
void shop_build(const char *url);

/* `options` may be NULL. The memory store needs no building. */
void shop_open(shop *s, const char *url, const semel_inbox_options *options, shop_tally *tally);
void shop_close(shop *s);

/* The message for a key, in `text`, which must outlive it. */
semel_message shop_message(char text[SHOP_TEXT], unsigned key);

semel_handler shop_handler;

/* Receives it once, as this delivery. A locked store is waited out. */
semel_outcome shop_receive(shop *s, unsigned key, uint32_t delivery, semel_status *status);

/* A generator of one's own: same seed, same numbers. */
uint32_t shop_random(uint32_t *seed, uint32_t below);
void shop_shuffle(unsigned keys[], unsigned count, uint32_t *seed);

#endif
