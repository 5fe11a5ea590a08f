/* The keyed driver table: what a database without SQL must do to carry semel. For authors of
 * backends; KEYED.md in semel's documentation is a guide, and examples/own_keyed/liststore.c in its
 * sources is a complete store in less than 150 lines.
 *
 * The database keeps records, each in a space and with a key, and can do one thing well: write a
 * few records if each of them is still as the writer expects. The layer above (src/store/keyed)
 * makes a whole store of that, and is the same for every database: markers, claims, outgoing
 * messages, dead letters, retention. A driver never decides anything about messages.
 *
 * A record has
 *     version   new with every write, chosen by the layer at random, never used twice
 *     guard     the token of the unit or claim that owns the record; 0: it has no owner
 *     until_ms  when that ownership ends; 0: there is none
 *     value     small, written whole with every change
 *     body      may be large; written when a change has one, kept when it has none
 * The driver stores these and compares the first three. It does not read the other two.
 *
 * Rules for every member
 *  - `store` points to the driver's own state: the layer allocates store_size zeroed bytes and
 *    frees them after close.
 *  - Several threads may call members at once.
 *  - Inputs are borrowed for the call; what a sink gets is borrowed for the call of the sink, and
 *    the sink must not use the store.
 *  - Keys are bytes: no collation, no truncation. Within a space they are ordered byte by byte, a
 *    prefix before what it begins.
 *  - Statuses: ENOMEM, ESTORE, EUNAVAILABLE and EBUSY from all members; members name any others.
 *    Drivers classify errors by number, never by text.
 *  - A wait ends by settings->answer_ms (a server that does not answer) and settings->busy_ms
 *    (one that tells to come again).
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_SYS_KEYED_H
#define SEMEL_SYS_KEYED_H

#include <semel/sys/store.h>
#include <string.h>

SEMEL_BEGIN_DECLS

#define SEMEL_KEYED_DRIVER_VERSION 1

enum {
    SEMEL_KEYED_MANY = 1,    /* apply() takes several changes, all or nothing. Without it the store
                                has inboxes in claim mode only: no outbox, no dead letters */
    SEMEL_KEYED_SHARED = 2,  /* several processes may use it at once */
    SEMEL_KEYED_DISTANT = 4, /* a round trip away */
    SEMEL_KEYED_EXPIRES = 8  /* records are removed at or after expires_ms, never before */
};

/* The longest space, key and version that the layer uses. */
#define SEMEL_KEYED_SPACE_MAX   ((size_t)40)
#define SEMEL_KEYED_KEY_MAX     ((size_t)1100)
#define SEMEL_KEYED_VERSION_LEN ((size_t)16)

/* 0: no limit. */
typedef struct semel_keyed_limits {
    uint32_t changes_max; /* of one apply(), the application's own writes included */
    uint64_t record_max;  /* bytes of space, key, value and body of one record together */
    uint64_t apply_max;   /* bytes of one apply() */
} semel_keyed_limits;

typedef struct semel_keyed_record {
    semel_bytes space;
    semel_bytes key;
    unsigned char version[SEMEL_KEYED_VERSION_LEN];
    uint64_t guard;
    int64_t until_ms;
    semel_bytes value;
    semel_bytes body; /* data NULL: none. Where it is not asked for a driver may leave it out */
} semel_keyed_record;

typedef enum semel_keyed_kind {
    SEMEL_KEYED_WRITE = 1, /* the record is as given afterwards */
    SEMEL_KEYED_REMOVE,
    SEMEL_KEYED_CHECK,  /* expects, and changes nothing */
    SEMEL_KEYED_FOREIGN /* a write of the application's own: statement and values */
} semel_keyed_kind;

typedef enum semel_keyed_expect {
    SEMEL_EXPECT_ABSENT = 1,
    SEMEL_EXPECT_VERSION, /* the record is there and has expected_version */
    SEMEL_EXPECT_GUARD    /* ... and has expected_guard, and its until_ms is after live_at_ms (0:
                             whatever that is) */
} semel_keyed_expect;

typedef struct semel_keyed_change {
    semel_keyed_kind kind;
    semel_keyed_expect expect;
    unsigned char expected_version[SEMEL_KEYED_VERSION_LEN];
    uint64_t expected_guard;
    int64_t live_at_ms;

    semel_keyed_record record; /* WRITE: as it is to be. The others: space and key */
    int64_t expires_ms;        /* WRITE: by the driver's clock; 0: never */

    const char *statement; /* FOREIGN, as `queue` was given them */
    const semel_value *values;
    size_t count;

    int keep_body; /* WRITE: the body that is there stays; record.body has none */
    int refused;   /* out: the expectation did not hold */
} semel_keyed_change;

typedef semel_status semel_keyed_sink(const semel_keyed_record *record, void *context,
                                      semel_error *err);

/* What is read of a space. */
typedef struct semel_keyed_range {
    semel_bytes space;
    semel_bytes after; /* not included; empty: from the first key on (or, descending, the last) */
    semel_bytes until; /* not included; empty: to the end, in the direction of reading */
    uint32_t limit;    /* never 0 */
    int descending;
    int bodies; /* 1: with them */
} semel_keyed_range;

typedef struct semel_keyed_driver {
    uint32_t version;   /* SEMEL_KEYED_DRIVER_VERSION */
    uint32_t abilities; /* SEMEL_KEYED_... */
    const char *scheme; /* "redis"; for messages */
    size_t store_size;
    semel_keyed_limits limits;

    /* As `open` of the store table. */
    semel_status (*open)(void *store, const void *argument, const semel_store_settings *settings,
                         semel_error *err);
    void (*close)(void *store);

    /* Optional. Makes what records need: tables, indexes. It can be repeated, and several processes
     * may run it at once. Without it `get` and `scan` of a new database find nothing. If what it
     * makes is not there, the other members return ESCHEMA. */
    semel_status (*prepare)(void *store, semel_error *err);

    /* The time of the database, which is the same one for all of its clients and does not jump, and
     * by how much it may be wrong. Asked for every message: no round trip, except for the first
     * calls. semel_keyed_clock helps. NULL, without SHARED: the clock of this process. */
    semel_status (*now)(void *store, int64_t *out_ms, uint32_t *error_ms, semel_error *err);

    semel_durability (*durability)(const void *store); /* NULL: SEMEL_DURABLE_NOT */

    /* Gives the sink the records with these keys, in any order; missing ones are not reported. What
     * an apply() wrote that returned before the call is seen. */
    semel_status (*get)(void *store, semel_bytes space, const semel_bytes keys[], size_t count,
                        int bodies, semel_keyed_sink *sink, void *context, semel_error *err);

    /* All changes, or none. No record occurs twice.
     *   ECONFLICT     an expectation did not hold: those changes are marked `refused`, and the sink
     *                 (if there is one) gets the records that are there, without bodies, as far as
     *                 the driver knows them without another round trip (the layer reads the
     *                 others); or nothing is marked: the database gave up, and the caller may try
     *                 again at once.
     *   EUNKNOWN      the request was sent, and its answer did not come: it may have been, or may
     *                 still be, applied.
     *   EUNAVAILABLE  certainly not applied, now or later. The same for EBUSY and all others.
     *   ELIMIT        beyond the limits; nothing was sent.
     *   EHANDLER      a statement of the application's failed. Nothing was applied, unless the
     *                 driver's documentation says otherwise.
     * DURABLE: before it returns OK the database has stored it as durably as durability() says. */
    semel_status (*apply)(void *store, semel_keyed_change changes[], size_t count,
                          semel_begin durability, semel_keyed_sink *sink, void *context,
                          semel_error *err);

    /* Records in the order of their keys. Need not be a snapshot, but must not miss what was there
     * all the time. */
    semel_status (*scan)(void *store, const semel_keyed_range *range, semel_keyed_sink *sink,
                         void *context, semel_error *err);

    /* Optional. The number of records of a space. NULL: the layer scans. */
    semel_status (*count)(void *store, semel_bytes space, uint64_t *out, semel_error *err);

    /* Optional; needed for queued mode and for writes of handlers. Could apply() take this
     * statement with these values as a FOREIGN change, as far as it can be told without asking the
     * database? EINVAL if not. */
    semel_status (*queue)(void *store, const char *statement, const semel_value values[],
                          size_t count, semel_error *err);

    /* Optional. As semel_store_watch: readable after an apply() anywhere has written a record of a
     * space that begins with SEMEL_KEYED_WATCHED. */
    const semel_store_watch *watch;

    /* Optional. As `inspect` of the store table: what is wrong with the database's settings. */
    semel_status (*inspect)(void *store, semel_finding_visitor *visitor, void *context,
                            semel_error *err);
} semel_keyed_driver;

#define SEMEL_KEYED_WATCHED "r/"

/* --- for drivers that look at records themselves ---------------------------------------------- */

/* The order of spaces and keys: below 0, 0 or above. */
static inline int semel_keyed_compare(semel_bytes one, semel_bytes other)
{
    size_t common = one.len < other.len ? one.len : other.len;
    int order = common ? memcmp(one.data, other.data, common) : 0;
    return order ? order : (one.len > other.len) - (one.len < other.len);
}

/* Does a change find what it expects? `there` is the record with its space and key, or NULL. */
static inline int semel_keyed_holds(const semel_keyed_change *change,
                                    const semel_keyed_record *there)
{
    if (change->expect == SEMEL_EXPECT_ABSENT || !there)
        return change->expect == SEMEL_EXPECT_ABSENT && !there;
    if (change->expect == SEMEL_EXPECT_VERSION)
        return !memcmp(there->version, change->expected_version, SEMEL_KEYED_VERSION_LEN);
    return there->guard == change->expected_guard &&
           (!change->live_at_ms || there->until_ms > change->live_at_ms);
}

/* Is a record in a range, of which it may be one of many? */
static inline int semel_keyed_covers(const semel_keyed_range *range,
                                     const semel_keyed_record *record)
{
    int way = range->descending ? -1 : 1;
    return !semel_keyed_compare(record->space, range->space) &&
           (!range->after.len || way * semel_keyed_compare(record->key, range->after) > 0) &&
           (!range->until.len || way * semel_keyed_compare(record->key, range->until) < 0);
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Opens a store on a driver of the application's own. The driver's open() gets `argument`. The
 * driver is static: what is made of it is kept by its address, until the process ends. */
SEMEL_API semel_status semel_store_open_keyed(semel_store **out, const semel_keyed_driver *driver,
                                              const void *argument,
                                              const semel_store_options *options, semel_error *err);

/* --- a clock for databases that tell the time with their answers ------------------------------ */

/* Keeps the offset between the host's steady clock and the database's clock as an interval: each
 * answer narrows it, the drift of clocks widens it with time. It never uses the host's wall clock.
 * The caller serialises calls. Zeroed memory is a clock that knows nothing. */
typedef struct semel_keyed_clock {
    int64_t low_us, high_us; /* database's time less steady time */
    int64_t at_us;           /* steady time of the last answer */
    int64_t latest_ms;       /* the time never goes back behind this */
    int known;
} semel_keyed_clock;

/* The database's clock showed a time in [from_us, to_us] at some moment between the steady times
 * sent_us and heard_us. */
SEMEL_API void semel_keyed_clock_learn(semel_keyed_clock *clock, int64_t sent_us, int64_t heard_us,
                                       int64_t from_us, int64_t to_us);

/* 0 if nothing is known yet. */
SEMEL_API int semel_keyed_clock_read(semel_keyed_clock *clock, int64_t steady_us, int64_t *out_ms,
                                     uint32_t *error_ms);

SEMEL_END_DECLS

#endif
