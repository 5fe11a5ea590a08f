/* A keyed driver in memory, for tests of the layer: exact in all that <semel/sys/keyed.h> asks for,
 * and with a hook by which a test says what becomes of each call. Several stores of one process may
 * be opened on a database; each is a client of it.
 *
 *     keyed_memory *memory = keyed_memory_open("shop", &(keyed_memory_options){0});
 *     semel_store_open_keyed(&store, keyed_memory_driver(memory), "shop", &options, &err);
 *
 * Statements of the application (FOREIGN) change counters:
 *     add NAME ?     the counter NAME grows by an integer. NAME may be a ?, too, a text
 *     take NAME ?    it becomes smaller; the statement fails if it would fall below 0
 *     fail           it fails
 * A counter is there once something was added to it.
 *
 * The hook is called without a lock, so it may wait, and use the database itself. */
#ifndef SEMEL_TESTS_MEMORY_ADAPTER_H
#define SEMEL_TESTS_MEMORY_ADAPTER_H

#include <semel/sys/keyed.h>

typedef struct keyed_memory keyed_memory;

typedef enum keyed_memory_call {
    KEYED_MEMORY_APPLY = 1,
    KEYED_MEMORY_GET,
    KEYED_MEMORY_SCAN,
    KEYED_MEMORY_COUNT
} keyed_memory_call;

/* What becomes of a call. */
typedef enum keyed_memory_fate {
    KEYED_MEMORY_DONE = 0,
    KEYED_MEMORY_UNAVAILABLE, /* nothing happens; EUNAVAILABLE */
    KEYED_MEMORY_BUSY,        /* nothing happens; EBUSY */
    KEYED_MEMORY_GIVES_UP,    /* apply: nothing happens; ECONFLICT, and nothing is marked */
    KEYED_MEMORY_SILENT,      /* apply: marked as refused, but the sink gets no record */
    KEYED_MEMORY_LOST,        /* apply: nothing happens; EUNKNOWN */
    KEYED_MEMORY_APPLIED,     /* apply: it happens; EUNKNOWN */
    KEYED_MEMORY_LATE,        /* apply: EUNKNOWN now; it happens, if it still can, when the test
                                 calls keyed_memory_arrive() */
    KEYED_MEMORY_PRETENDED    /* apply: the answer is as if it were done, but nothing happens */
} keyed_memory_fate;

typedef struct keyed_memory_event {
    keyed_memory_call call;
    void *client; /* the driver's state of the store that calls */
    const semel_keyed_range *range;
    semel_bytes space; /* of get, count */
    size_t count;      /* of keys, or of changes */
    /* apply: the changes, which `before` may replace: they are a copy. So may their number */
    semel_keyed_change *changes;
} keyed_memory_event;

typedef struct keyed_memory_hook {
    void *context;
    keyed_memory_fate (*before)(void *context, keyed_memory_event *event);
    /* The answer, as the caller is about to get it. */
    void (*after)(void *context, const keyed_memory_event *event, semel_status status);
    /* 1: a scan does not show this record, as one that is no snapshot may not show what was written
     * while it was under way. It must not use the database: its lock is held. */
    int (*omits)(void *context, const semel_keyed_record *record);
    /* What was applied, late arrivals included, in the order in which it was. It must not use the
     * database: its lock is held. */
    void (*applied)(void *context, const semel_keyed_change changes[], size_t count);
} keyed_memory_hook;

typedef struct keyed_memory_options {
    uint32_t lacks; /* SEMEL_KEYED_MANY, SEMEL_KEYED_EXPIRES: without them */
    int no_queue;   /* no statements of the application */
    int no_count;
    int no_watch;
    semel_keyed_limits limits;
    semel_durability durability; /* 0: SEMEL_DURABLE_NOT */
    /* The clock of the database; NULL: the steady clock of the seam of the first store that is
     * opened, from its wall clock on. */
    int64_t (*now_ms)(void *context, void *client);
    void *now_context;
    uint32_t error_ms; /* what the driver says about how wrong its clock may be */
    keyed_memory_hook hook;
} keyed_memory_options;

/* A new, empty database. Its driver's `open` takes the name as the argument. */
keyed_memory *keyed_memory_open(const char *name, const keyed_memory_options *options);
keyed_memory *keyed_memory_named(const char *name); /* opens one without options if there is none */
void keyed_memory_close(keyed_memory *memory);      /* after all of its stores */

/* Its abilities and limits are those of the options. */
const semel_keyed_driver *keyed_memory_driver(const keyed_memory *memory);

void keyed_memory_set_hook(keyed_memory *memory, const keyed_memory_hook *hook); /* NULL: none */

/* Mistakes of a driver, for tests of tests. */
typedef struct keyed_memory_mistake {
    int version; /* any version is the expected one */
    int guard;   /* any guard is */
    int body;    /* keep_body loses the body */
    int unknown; /* EUNKNOWN is reported as EUNAVAILABLE */
} keyed_memory_mistake;

void keyed_memory_plant(keyed_memory *memory, const keyed_memory_mistake *mistake);

/* For a hook that changes what a change expects. */
enum { KEYED_MEMORY_EXPECT_NOTHING = 4 };

/* --- what is in flight ------------------------------------------------------------------------ */

size_t keyed_memory_in_flight(keyed_memory *memory);

/* The one with this index arrives (0 is the oldest); OK if it was applied. */
semel_status keyed_memory_arrive(keyed_memory *memory, size_t index);

/* --- what is there ---------------------------------------------------------------------------- */

int64_t keyed_memory_counter(keyed_memory *memory, const char *name);
size_t keyed_memory_records(keyed_memory *memory);
/* All records, in their order, with bodies; the sink must not use the database. */
void keyed_memory_each(keyed_memory *memory, semel_keyed_sink *sink, void *context);

/* How many calls of this kind clients have made. */
uint64_t keyed_memory_calls(keyed_memory *memory, keyed_memory_call call);

/* The store table over it, for the store suite: the argument of `open` is the name. */
extern const semel_store_driver keyed_memory_store;

#endif
