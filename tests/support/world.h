/* What a test of behaviour stands on: a store with a clock that stands still, and everything opened on it,
 * closed again when the test is over.
 *
 * A test takes the world as its state and is entered into its program's table with ON_MEMORY, ON_SQLITE or
 * ON_BOTH, which run it on a store of its own. */
#ifndef SEMEL_TESTS_WORLD_H
#define SEMEL_TESTS_WORLD_H

#include <setjmp.h> /* cmocka.h wants these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <semel/semel.h>
#include <semel/test.h>

enum { WORLD_THINGS_MAX = 64 };

typedef struct world {
    semel_test_seam *seam;
    semel_store *store;
    const semel_seam *host; /* the seam that the store has; a test may put its own before world_open */
    int is_sqlite;
    char directory[64]; /* of the database file; removed at the end */
    char url[128];
    struct {
        void (*close)(void *thing);
        void *thing;
    } things[WORLD_THINGS_MAX]; /* in the order of opening */
    size_t thing_count;
} world;

int world_setup_memory(void **state);
int world_setup_sqlite(void **state);
int world_teardown(void **state);

#define ON_MEMORY(title, test)                                               \
    {                                                                        \
        title " (memory)", test, world_setup_memory, world_teardown, NULL \
    }
#define ON_SQLITE(title, test)                                               \
    {                                                                        \
        title " (sqlite)", test, world_setup_sqlite, world_teardown, NULL \
    }
#define ON_BOTH(title, test) ON_MEMORY(title, test), ON_SQLITE(title, test)

/* The error of the call that is checked: pass its address, and a check that fails prints its text. */
extern _Thread_local semel_error problem;

#define check_status(expected, call) \
    world_check_status((expected), (call), #call, __FILE__, __LINE__)
#define check(call) check_status(SEMEL_OK, call)
void world_check_status(semel_status expected, semel_status got, const char *call, const char *file,
                        int line);

#define check_outcome(expected, got) world_check_outcome((expected), (got), __FILE__, __LINE__)
void world_check_outcome(semel_outcome expected, semel_outcome got, const char *file, int line);

/* Does the text of `problem` contain this? */
#define check_problem(part) world_check_problem((part), __FILE__, __LINE__)
void world_check_problem(const char *part, const char *file, int line);

/* --- things, closed at the end ------------------------------------------------------------------- */

semel_inbox *world_inbox(world *w, const char *name, const semel_inbox_options *options);
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

/* --- messages and what becomes of them ----------------------------------------------------------- */

/* "order.placed" with this id and a body. */
semel_message message_with_id(const char *id);

/* A handler that notes what it saw and does what it is told. */
typedef struct handling {
    const char *fail_id;    /* the message that fails; "*": every one */
    semel_status fail_with; /* default SEMEL_EHANDLER */
    const char *result;     /* set as the result */
    semel_outbox *sends;    /* each run sends a message "from-<id>" there */
    void (*during)(semel_unit *unit, const semel_message *message, void *context);
    void *context;

    size_t runs;
    char seen[1024]; /* the ids, each with a space behind it */
    uint32_t attempt;
    size_t key_len;
    unsigned char key[512];
} handling;

semel_handler handle;

/* receive, with the status that goes with the outcome checked. */
#define check_receive(status, outcome, inbox, message, h) \
    world_check_receive((status), (outcome), (inbox), (message), (h), __FILE__, __LINE__)
void world_check_receive(semel_status status, semel_outcome outcome, semel_inbox *inbox,
                         const semel_message *message, handling *h, const char *file, int line);

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
