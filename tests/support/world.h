/* What a test of behaviour stands on: a store with a clock that stands still, and everything opened on it,
 * closed again when the test is over.
 *
 * A test takes the world as its state and is entered into its program's table with ON_MEMORY, ON_SQLITE or
 * ON_BOTH, which run it on a store of its own. */
#ifndef SEMEL_TESTS_WORLD_H
#define SEMEL_TESTS_WORLD_H

#include "support/check.h"
#include "support/scratch.h"
#include "support/work.h"

#include <semel/test.h>
#include <string.h>

enum { WORLD_THINGS_MAX = 256 };

typedef struct world {
    semel_test_seam *seam;
    semel_store *store;
    const semel_seam *host; /* the seam as the store has it */
    int is_sqlite;
    scratch directory; /* of the database file */
    char url[SCRATCH_PATH];
    struct {
        void (*close)(void *thing);
        void *thing;
    } things[WORLD_THINGS_MAX]; /* in the order of opening */
    size_t thing_count;
} world;

int world_setup_memory(void **state);
int world_setup_sqlite(void **state);
int world_teardown(void **state);

#define ON_MEMORY(title, test)                                            \
    {                                                                     \
        title " (memory)", test, world_setup_memory, world_teardown, NULL \
    }
#define ON_SQLITE(title, test)                                            \
    {                                                                     \
        title " (sqlite)", test, world_setup_sqlite, world_teardown, NULL \
    }
#define ON_BOTH(title, test) ON_MEMORY(title, test), ON_SQLITE(title, test)

#define OUTCOME(expected, got) world_check_outcome((expected), (got), __FILE__, __LINE__)
void world_check_outcome(semel_outcome expected, semel_outcome got, const char *file, int line);

/* semel_inbox_receive() of one message by work_do, which must return this status and this outcome. */
#define RECEIVES(status, outcome, inbox, message, w) \
    world_check_receive((status), (outcome), (inbox), (message), (w), __FILE__, __LINE__)
void world_check_receive(semel_status status, semel_outcome outcome, semel_inbox *inbox,
                         const semel_message *message, work *w, const char *file, int line);

/* --- things, closed at the end ------------------------------------------------------------------- */

semel_inbox *world_inbox(world *w, const char *name, const semel_inbox_options *options);

/* The same options in both modes, as the inboxes "by-transaction" and "by-claim"; and a loop over them. */
void world_both_modes(semel_inbox *inboxes[2], world *w, semel_inbox_options options);
#define EACH_MODE(inbox, inboxes) \
    for (semel_inbox **at_ = (inboxes), *inbox; at_ < (inboxes) + 2 && (inbox = *at_); at_++)

semel_outbox *world_outbox(world *w, const char *name);
semel_transport *world_queue(world *w, const char *url); /* the memory transport, with our clock */
semel_transport *world_recorder(world *w);
semel_relay *world_relay(world *w, semel_outbox *outbox, semel_transport *transport,
                         const semel_relay_options *options);
semel_relay *world_local_relay(world *w, semel_outbox *outbox, semel_inbox *inbox,
                               semel_handler *handler, void *context,
                               const semel_relay_options *options);
semel_consumer *world_consumer(world *w, semel_transport *transport, const semel_route *routes,
                               size_t count, const semel_consumer_options *options);
void world_keep(world *w, void (*close)(void *thing), void *thing);

/* --- what became of it --------------------------------------------------------------------------- */

semel_counters world_counters(world *w);

/* One dead letter, copied. */
typedef struct letter {
    int64_t id;
    semel_dead_origin origin;
    char name[SEMEL_NAME_MAX + 1];
    char error[512];
    char message_id[128];
    uint32_t attempts;
    size_t key_len;
    int damaged;
} letter;

/* Up to `max` letters in the order of their ids; the number of all that there are. */
size_t world_letters(world *w, letter letters[], size_t max);
letter world_only_letter(world *w); /* fails unless there is exactly one */

/* Steps until a step sends nothing; how many were sent. */
size_t world_drain(semel_relay *relay);

/* The ids that the recorder has, each with a space behind it. */
const char *world_recorded(char *room, size_t size, const semel_transport *recorder);

#endif
