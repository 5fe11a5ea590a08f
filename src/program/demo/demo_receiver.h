/* The provider's own books: what is due, and the events that it received from the shops. */
#ifndef SEMEL_CLI_DEMO_RECEIVER_H
#define SEMEL_CLI_DEMO_RECEIVER_H

#include "program/demo/demo_plan.h"
#include "program/demo/demo_wire.h"

#include <semel/semel.h>

#define PROVIDER_DATABASE "provider.db"

/* In the order of the columns of the table that is shown at the end. */
extern const char *const shop_names[SHOPS];

typedef struct receiver {
    semel_store *store;
    semel_inbox *inboxes[SHOPS];
} receiver;

/* Close it in either case. */
semel_status receiver_open(receiver *out, const plan *due, semel_error *err);
void receiver_close(receiver *self);

/* Takes an event of a shop. *duplicate: it was sent again, and is known. */
semel_status receiver_receive(int *duplicate, receiver *self, uint32_t shop, const frame *event,
                              semel_error *err);

#endif
