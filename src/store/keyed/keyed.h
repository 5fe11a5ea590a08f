/* The keyed layer: a whole store over a database that can write a few records if each is as
 * expected (<semel/sys/keyed.h>). Written once, for Redis, DynamoDB and drivers of applications.
 *
 *     open.c        opening, the driver tables, layout version, names and their numbers
 *     fields.c      the encoding of values
 *     number.c      spaces, numbers, versions, tokens
 *     read.c        records read into an arena
 *     unit.c        units; buffer.c their changes, savepoints; commit.c sends them
 *     apply.c       one write of its own
 *     settle.c      what an answer that was lost means: a write that fences it
 *     hold.c        keys that open units hold, and the thread that renews them
 *     marker*.c     the state machine of markers; sweep.c retention; note.c
 *     outbox*.c     messages, their order, leases; dead.c dead letters
 *     list.c, stats.c, operation.c, history*.c, inspect.c: for people
 *     item.c, set.c, names.c: messages as records, records that a unit writes twice, lists, names
 *
 * How a unit is atomic. Whatever a unit is to change is buffered, and goes out in one apply() at
 * commit. Nothing is locked before that but keys: `mark` and `claim` write to the database at once,
 * a hold or a claim, with a token as the record's guard and an end; so others find the key held
 * while the handler runs. The commit expects that guard. If the process dies before it, the hold
 * or claim ends by itself; if another process took the key over, the guard is another one, the
 * commit is refused as a whole, and nothing has happened. Exactly-once therefore rests on the guard
 * alone, never on a clock: clocks decide only how early somebody else may try.
 *
 * No record is shared by units that have nothing to do with each other, so they do not collide:
 * there is no common counter. Numbers (of messages, letters) are made of the store's time and of a
 * counter of the process (keyed_number); where the order matters, inside a group, the record of the
 * group keeps the last one.
 *
 * Spaces. SCOPE is the number of an inbox or outbox, 16 hexadecimal digits.
 *     s            "layout" -> version of this layout
 *     n/KIND       name -> its number          N/KIND  number -> name
 *     m/SCOPE      marker by key; the body is the result
 *     t/SCOPE      note by number (one byte)
 *     o/SCOPE      message by number; the body is the message itself
 *     r/SCOPE      ready: time it is due (or its lease ends), number -> nothing. For each message
 *                  that no earlier one of its group is in front of
 *     w/SCOPE      group (two bytes of length before it), number -> nothing, for each message of
 *                  a group
 *     g/SCOPE      group -> its last number, its first message and when that is ready
 *     x/SCOPE      sent: time, number; the body is the message
 *     d            dead letter by id; the body is the message      D  origin, name, key -> id
 *     a audit by id     p process by id     h history by id     H "last" -> last id of the history
 * Numbers in keys are 8 bytes, the highest first, so that they are in order. */
#ifndef SEMEL_STORE_KEYED_KEYED_H
#define SEMEL_STORE_KEYED_KEYED_H

#include "base/hash.h"
#include "base/mem.h"
#include "base/seam.h"
#include "store/keyed/fields.h"

#include <pthread.h>
#include <semel/sys/keyed.h>
#include <stdatomic.h>
#include <sys/types.h>

enum {
    KEYED_LAYOUT = 1,
    KEYED_HOLD_MS = 15000,  /* how long a key is held for an open unit, unless it is renewed */
    KEYED_COMMIT_TRIES = 64 /* how often a commit is built anew after a collision */
};

typedef struct keyed_hold keyed_hold;
typedef struct keyed_claim keyed_claim;
typedef struct keyed_marker keyed_marker;
typedef struct keyed_group_cache keyed_group_cache;

typedef struct keyed_spare keyed_spare;

typedef struct keyed_store {
    const semel_keyed_driver *driver;
    void *state; /* the driver's */
    const semel_store_settings *settings;
    const semel_seam *seam;
    hash_key hash;     /* of tables in memory */
    pid_t pid;         /* of the process that opened it: no unit begins in a child */
    int64_t offset_ms; /* of a driver without a clock: from the steady clock to the time of day */
    atomic_uint_least64_t last_number;
    atomic_int layout_seen; /* the layout is the one that this library writes */

    pthread_mutex_t lock;   /* for what follows */
    pthread_cond_t changed; /* keys were given back */
    unsigned waiting;       /* for that */
    pthread_cond_t ending;  /* wakes the keeper */
    keyed_hold *holds;      /* of all open units */
    keyed_claim **claims;   /* hold.c: what is known of claims, by token */
    keyed_spare *spares;    /* unit.c: arenas for the next units */
    size_t spare_count;
    pthread_t keeper; /* renews holds */
    int keeper_started;
    int closing;
    keyed_group_cache *groups; /* outbox_group.c: what is known of groups, to save a read */
} keyed_store;

/* --- changes of a unit ------------------------------------------------------------------------ */

/* What it means if the database refuses a change at commit. */
typedef enum keyed_role {
    KEYED_FIXED = 0, /* ECONFLICT: the core does the unit again */
    KEYED_OWNED,     /* the key was lost: ECONFLICT if it was held by `mark`, ELOST if claimed */
    KEYED_ASSUMED,   /* EREJECTED: `assume` */
    KEYED_LATE       /* built at commit: it is built anew, from what is there now */
} keyed_role;

typedef struct keyed_change {
    semel_keyed_change change;
    keyed_role role;
    semel_mark *assumed;        /* KEYED_ASSUMED: gets the state that was found */
    uint32_t wait_ms;           /* KEYED_ASSUMED: 0: a key that is held is told */
    keyed_hold *hold;           /* KEYED_OWNED by mark or claim of this unit */
    const keyed_marker *marker; /* of m/: commit encodes it, with the time of then */
    uint32_t saved;             /* unit.c: the savepoint for which a copy was made last */
} keyed_change;

/* A record that was found, in an arena. */
typedef struct keyed_row {
    struct keyed_row *next;
    semel_keyed_record record;
} keyed_row;

typedef struct keyed_rows {
    keyed_row *first, *last;
    size_t count;
    mem_arena *arena;
    int without_bodies; /* bodies that a driver gives all the same are left */
} keyed_rows;

typedef struct keyed_unit keyed_unit;

/* Adds KEYED_LATE changes for a step whose changes depend on what is there at commit. Called again
 * after a collision; what it reads is newer then. It adds nothing to the list of steps. */
typedef semel_status keyed_build(keyed_unit *unit, void *context, semel_error *err);

typedef struct keyed_step {
    struct keyed_step *next;
    keyed_build *build;
    void *context;
} keyed_step;

struct keyed_unit {
    keyed_store *store;
    semel_begin durability;
    mem_arena arena;        /* of all that is buffered */
    keyed_change **changes; /* each stays where it is until the unit ends */
    size_t count, capacity;
    uint32_t *index; /* unit.c: hash table of the changes, from 1 on; 0: none */
    size_t index_size;
    keyed_step *first_step, *last_step;
    keyed_hold *holds; /* keys that this unit holds or has claimed, chained in the unit */
    const struct keyed_sending *sending; /* commit.c: the last try of the commit */
    struct keyed_leased *leased;         /* outbox_lease.c: what `lease` has taken for this unit */
    int open;
    struct keyed_undo *undo; /* unit.c: what a savepoint has to bring back */
    uint32_t savepoint;      /* its number, from 1 on; 0: none is set */
    uint32_t savepoints;     /* set so far */
    size_t savepoint_count;  /* of changes */
    keyed_step *savepoint_step;
};

/* The change of this record in the unit; NULL if the unit has not changed it. To be read only: who
 * alters a change asks keyed_unit_change() for it, so that a savepoint can bring it back. */
const keyed_change *keyed_unit_find(const keyed_unit *unit, semel_bytes space, semel_bytes key);

/* A change of this record, which the caller fills before it returns to the core: the one that the
 * unit has already (which it may change, keeping what it expects), or a new one with space and key
 * copied and kind 0. Bytes that a change points to are replaced by others, never altered. NULL: out
 * of memory. */
keyed_change *keyed_unit_change(keyed_unit *unit, semel_bytes space, semel_bytes key);

/* A short way, for records that the unit has not changed before. `found` is what is there (NULL:
 * nothing): the expectation. A version is made. Value and body are borrowed until the commit, so
 * they are in the unit's arena. */
semel_status keyed_unit_write(keyed_unit *unit, keyed_role role, const semel_keyed_record *found,
                              const semel_keyed_record *now, int keep_body, semel_error *err);

/* Adds a step that is built at commit; context is in the unit's arena, and is not altered by later
 * calls of members: undo drops whole steps, those that were added after the savepoint. While steps
 * are built, keyed_unit_change() also gives changes of earlier steps and members; a change that has
 * another role keeps it. */
semel_status keyed_unit_step(keyed_unit *unit, keyed_build *build, void *context, semel_error *err);

/* While steps are built anew: 1 if the database has refused this record's change, with what it has
 * there (NULL: nothing) in *out, so that it need not be read again. */
int keyed_unit_refused(const keyed_row **out, const keyed_unit *unit, semel_bytes space,
                       semel_bytes key);

/* --- reading ---------------------------------------------------------------------------------- */

/* The row of one key, or NULL in *out. Of the database, not of the unit's buffer. */
semel_status keyed_get(keyed_row **out, keyed_store *store, mem_arena *arena, semel_bytes space,
                       semel_bytes key, int body, semel_error *err);
semel_status keyed_get_many(keyed_rows *out, keyed_store *store, semel_bytes space,
                            const semel_bytes keys[], size_t count, int bodies, semel_error *err);
semel_status keyed_scan(keyed_rows *out, keyed_store *store, const semel_keyed_range *range,
                        semel_error *err);

/* A sink that adds the record to a keyed_rows. */
semel_status keyed_keep_row(const semel_keyed_record *record, void *rows, semel_error *err);

/* As keyed_get, but a change of this unit hides what the database has: *out is the record as the
 * unit has it, with its expectation already in the unit. */
semel_status keyed_unit_get(keyed_row **out, keyed_unit *unit, semel_bytes space, semel_bytes key,
                            int body, semel_error *err);

/* --- one write of its own --------------------------------------------------------------------- */

/* Applies at once: all or nothing. ECONFLICT with changes[i].refused set: *there (may be NULL; its
 * arena is set by the caller) then has the records that are there under the keys that were refused,
 * without bodies; a refused key that is not among them has no record. The driver's own collisions
 * (nothing refused) are tried again here. An answer that was lost is settled where there is a way,
 * else EUNKNOWN: the same changes are sent again, and if they are refused then, one of them that
 * writes is found with its new version if the first try was applied. */
semel_status keyed_apply_now(keyed_store *store, semel_keyed_change changes[], size_t count,
                             semel_begin durability, keyed_rows *there, semel_error *err);

/* The row with this key among them, or NULL. */
const keyed_row *keyed_rows_find(const keyed_rows *rows, semel_bytes space, semel_bytes key);

/* A change as keyed_apply_now() takes it: a write or a removal of a record, expecting what was
 * found (NULL: nothing). A version is made. */
semel_keyed_change keyed_write_of(keyed_store *store, const semel_keyed_record *found,
                                  const semel_keyed_record *now, int keep_body);
semel_keyed_change keyed_remove_of(const semel_keyed_record *found);

/* --- small things ----------------------------------------------------------------------------- */

typedef struct keyed_space {
    char text[SEMEL_KEYED_SPACE_MAX];
    size_t len;
} keyed_space;

keyed_space keyed_space_of(char kind, int64_t scope); /* "m/00000000000000a7" */
keyed_space keyed_space_plain(char kind);             /* "d" */
semel_bytes keyed_space_bytes(const keyed_space *space);

enum { KEYED_NUMBER_LEN = 8 };
void keyed_number_write(unsigned char out[KEYED_NUMBER_LEN], int64_t number);
int64_t keyed_number_read(const unsigned char in[KEYED_NUMBER_LEN]);

semel_status keyed_now(keyed_store *store, int64_t *out_ms, uint32_t *error_ms, semel_error *err);

/* Tests only: how far the time of all stores is ahead of their databases'. It points into memory
 * that a test shares with its children, or to a zero. */
extern atomic_int_least64_t *keyed_skew_ms;

/* A number that is larger than all that this process has made, and than those that others made
 * some time ago: the store's time in ms, shifted by 20, and a counter. At least `least`. */
semel_status keyed_number(keyed_store *store, int64_t least, int64_t *out, semel_error *err);

void keyed_new_version(keyed_store *store, unsigned char version[SEMEL_KEYED_VERSION_LEN]);
uint64_t keyed_new_token(keyed_store *store); /* never 0 */

/* A lease is over for others only when it is over by every clock that may be right. */
int keyed_is_over(int64_t until_ms, int64_t now_ms, uint32_t error_ms);

/* Here, so that static analysis sees that it fails. */
static inline semel_status keyed_out_of_memory(semel_error *err)
{
    return semel_fail(err, SEMEL_ENOMEM, "out of memory in the store");
}

/* EMISUSE in a child after fork(). Members that have no unit call it first. */
semel_status keyed_check_process(const keyed_store *store, semel_error *err);

int keyed_same(semel_bytes a, semel_bytes b);

/* --- the outbox ------------------------------------------------------------------------------- */

/* Of a unit that is rolled back: gives its leases back, as well as it can. */
void keyed_leased_return(keyed_unit *unit);

void keyed_groups_free(keyed_store *store);

/* --- the tables ------------------------------------------------------------------------------- */

extern const semel_store_units keyed_units;        /* unit.c; without `queue` */
extern const semel_store_units keyed_units_native; /* with it */
extern const semel_store_markers keyed_markers;
extern const semel_store_markers keyed_claims_only; /* no mark, no bury: where apply() takes one */
extern const semel_store_notes keyed_notes;
extern const semel_store_outbox keyed_outbox;
extern const semel_store_dead keyed_dead;
extern const semel_store_lists keyed_lists;
extern const semel_store_lists keyed_lists_of_markers;
extern const semel_store_operation keyed_operation;
extern const semel_store_inspection keyed_inspection;
extern const semel_store_history keyed_history;
extern const semel_store_watch keyed_watch; /* the driver's, for the layer's store */

semel_status keyed_open(void *store, const semel_keyed_driver *driver, const void *argument,
                        const semel_store_settings *settings, semel_error *err);
void keyed_close(void *store);
semel_status keyed_migrate(void *store, semel_error *err);

/* The version of the layout that is stored; 0: none. */
semel_status keyed_layout(keyed_store *store, int64_t *out, semel_error *err);
semel_status keyed_store_now(void *store, int64_t *out_ms, semel_error *err);
semel_durability keyed_durability(const void *store);
semel_status keyed_scope(void *store, semel_scope kind, const char *name, int64_t *out,
                         semel_error *err);
semel_status keyed_stats(void *store, const semel_stats_of *of, uint32_t deadline_ms,
                         semel_stats *out, semel_error *err);

/* The table that semel_store_open_keyed() makes of a driver; its `open` is that function's own. */
void keyed_table_make(semel_store_driver *out, const semel_keyed_driver *driver);

/* The table of a backend of semel's own, whose `open` calls keyed_open():
 *     const semel_store_driver redis_store_driver = KEYED_STORE_DRIVER("redis", redis_store_open,
 *                                      redis_check_url, &keyed_watch, SEMEL_STORE_SHARED, 0);
 * CHANGES_MAX is in messages and keys; a message may need four changes of records. */
#define KEYED_STORE_DRIVER(SCHEME, OPEN, CHECK_URL, WATCH, MORE_ABILITIES, CHANGES_MAX)            \
    {                                                                                              \
        .version = SEMEL_STORE_DRIVER_VERSION,                                                     \
        .abilities = SEMEL_STORE_TRANSACTIONS | SEMEL_STORE_DISTANT | (MORE_ABILITIES),            \
        .scheme = (SCHEME), .store_size = sizeof(keyed_store), .unit_size = sizeof(keyed_unit),    \
        .changes_max = (CHANGES_MAX), .open = (OPEN), .close = keyed_close,                        \
        .migrate = keyed_migrate, .now = keyed_store_now, .durability = keyed_durability,          \
        .scope = keyed_scope, .stats = keyed_stats, .units = &keyed_units_native,                  \
        .markers = &keyed_markers, .notes = &keyed_notes, .outbox = &keyed_outbox,                 \
        .dead = &keyed_dead, .watch = (WATCH), .lists = &keyed_lists,                              \
        .operation = &keyed_operation, .inspection = &keyed_inspection, .history = &keyed_history, \
        .check_url = (CHECK_URL),                                                                  \
    }

#endif
