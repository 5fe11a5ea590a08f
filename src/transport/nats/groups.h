/* Which message of a batch follows which in its group. */
#ifndef SEMEL_TRANSPORT_NATS_GROUPS_H
#define SEMEL_TRANSPORT_NATS_GROUPS_H

#include <semel/message.h>

#define JET_NO_NEXT ((size_t)-1)

typedef struct jet_place {
    size_t next; /* the next of its group; JET_NO_NEXT */
    int follows; /* there is one before it */
} jet_place;

/* One for each message, to be freed with mem_free(); NULL when out of memory. */
jet_place *jet_groups_find(const semel_message *const messages[], size_t count);

#endif
