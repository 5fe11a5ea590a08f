/* What every store must do. A backend's own test file names a URL and what is particular about it:
 *
 *     int main(void)
 *     {
 *         const store_quirks sqlite = {.name = "sqlite", .make = make_file, .remove = remove_file,
 *                                      .durability = SEMEL_DURABLE_POWER,
 *                                      .flags = STORE_KEEPS | STORE_SHARED | STORE_MIGRATES};
 *         return conformance_store(&sqlite);
 *     }
 *
 * The tests go through the public API only, but for some in conformance_store_driver.c and
 * conformance_store_pace.c, on a clock
 * that stands still until told (a semel_test_seam), so leases, backoff and years of retention pass
 * without waiting. A server's clock does not stand still: see "time" below. Nearly all are run in
 * both modes. Each has a store of its own, empty and migrated. What a store cannot do is left out,
 * and the suite says how many tests it ran and left out.
 *
 * Members that a driver's table leaves out are read from the table, and must be exactly those that
 * `lacks` names: a driver that loses a member fails the suite instead of passing less of it. */
#ifndef SEMEL_TESTS_CONFORMANCE_STORE_H
#define SEMEL_TESTS_CONFORMANCE_STORE_H

#include "support/fixture/fixture.h"

#include <pthread.h>
#include <semel/sys/store.h>
#include <semel/test.h>

enum {
    STORE_KEEPS = 1,        /* what was committed is there after closing and opening again */
    STORE_SHARED = 2,       /* a second handle on the same URL sees the same */
    STORE_MIGRATES = 4,     /* it has tables to be made first; else SEMEL_ESCHEMA is never seen */
    STORE_SERVER_CLOCK = 8, /* time is a server's: the host's clock and its reboots mean nothing */
    STORE_PROCESS_CLOCK = 16, /* a process that opens it takes the time from the host's clock */
    STORE_RECORDS =
        32, /* of the keyed layer: no tables to look into, and what is queued is no SQL */
    STORE_CLOCK_PASSES = 64 /* pass_ms sets its clock forward: what is stored is as it was */
};

/* Optional members of the table that a driver may leave out. */
enum {
    LACKS_TRANSACTIONS = 1, /* mark: inboxes are in claim mode only */
    LACKS_CLAIMS = 2,       /* finish and renew: in transaction mode only */
    LACKS_OUTBOX = 4,
    LACKS_DEAD = 8,
    LACKS_RESULTS = 16,
    LACKS_SAVEPOINTS = 32,
    LACKS_SWEEP = 64,
    LACKS_QUEUE = 128,
    LACKS_JOIN = 256,
    LACKS_NOTES = 512,
    LACKS_STATS = 4096,
    LACKS_LISTS = 1 << 16,
    LACKS_SENT = 1 << 17, /* the list of what was sent */
    LACKS_OPERATION = 1 << 18,
    LACKS_HISTORY = 1 << 19
};

enum { URL_ROOM = SERVER_URL_ROOM };

typedef struct store_fixture store_fixture;

typedef struct store_quirks {
    const char *name;
    unsigned flags;
    unsigned lacks;              /* LACKS_...; what it says must be what the table says */
    semel_durability durability; /* of a commit, with the URL that make() gives */

    /* How far two handles may differ about the time, and leases last longer for that; 0: they do
     * not. Whatever time is made to pass is longer by that much. */
    int64_t clock_ms;

    /* The largest record: a message with its headers and body, or the result of one; 0: all that
     * the library allows. */
    size_t record_max;

    /* NULL: the one that the URL names. Otherwise make() gives the driver's argument in place of a
     * URL. */
    const semel_store_driver *driver;

    void (*make)(char url[URL_ROOM]); /* a store that is fresh and empty */
    /* The same, with its tables; NULL: they are made by migrating. */
    void (*make_ready)(char url[URL_ROOM]);
    void (*remove)(const char *url); /* and all that it left; may be NULL */

    /* Time passes for the store: what it has stored becomes older. NULL if the seam's clock is its
     * clock. */
    void (*pass_ms)(const char *url, int64_t ms);
} store_quirks;

/* Runs the suite; the number of tests that failed, for main() to return. */
int conformance_store(const store_quirks *quirks);

/* --- for the authors of tests ----------------------------------------------------------------- */

/* One test's surroundings: a fixture whose store is opened by its driver, and whose clock may be
 * a server's. All that is opened by the functions below is closed with it. */
struct store_fixture {
    fixture base;
    const store_quirks *quirks;
    semel_mode mode;       /* of the inboxes */
    semel_seam store_seam; /* the seam as the stores see it: to sleep is to let the server age */
    int64_t grain_ms;      /* the shortest span that a test can tell from none */
    pthread_mutex_t time_lock; /* for these: */
    int64_t passed_ms;         /* with quirks.pass_ms: all that was made to pass */
    int64_t owed_ms;           /* of it, what the server has not been told yet */
    /* Called at each of the library's named points; NULL: nothing. It must not fail the test: locks
     * may be held. */
    void (*passing)(store_fixture *f, const char *point);
    void *passing_context; /* for it, as it likes */
};

/* Zero for all: in both modes, on every store. */
enum {
    IN_TRANSACTION_MODE = 1, /* only */
    IN_CLAIM_MODE = 2,       /* only */
    IN_ANY_MODE = 3,         /* once: the mode means nothing to it */
    NOT_MIGRATED = 4,        /* the store comes without tables */
    NEEDS_KEEPS = 8,
    NEEDS_SHARED = 16,
    NEEDS_MIGRATES = 32,
    NEEDS_HOST_CLOCK = 64,
    NEEDS_STORED_CLOCK = 128, /* a new process goes on with the time of those before it */
    NEEDS_OUTBOX = 256,
    NEEDS_DEAD = 512,
    NEEDS_RESULTS = 1024,
    NEEDS_SAVEPOINTS = 2048,
    NEEDS_SWEEP = 4096,
    NEEDS_NOTES = 8192,
    NEEDS_LISTS = 1 << 16,
    NEEDS_SENT = 1 << 17,
    NEEDS_STATS = 1 << 18,
    NEEDS_QUEUE = 1 << 19,
    NEEDS_OPERATION = 1 << 20,
    NEEDS_HISTORY = 1 << 21,
    NEEDS_SQL = 1 << 22 /* tables to look into, or statements in SQL */
};

typedef struct store_test {
    const char *name;
    void (*run)(void **fixture);
    unsigned flags;
} store_test;

#define STORE_TEST(function)   \
    {                          \
#function, function, 0 \
    }
#define STORE_TEST_WITH(function, flags) \
    {                                    \
#function, function, flags       \
    }

/* Each part of the suite is a file with a list, which ends with a name that is NULL. */
extern const store_test store_opening_tests[];
extern const store_test store_marker_tests[];
extern const store_test store_key_tests[];
extern const store_test store_claim_tests[];
extern const store_test store_batch_tests[];
extern const store_test store_pace_tests[];
extern const store_test store_outbox_tests[];
extern const store_test store_relay_tests[];
extern const store_test store_group_tests[];
extern const store_test store_parking_tests[];
extern const store_test store_handoff_tests[];
extern const store_test store_handoff_batch_tests[];
extern const store_test store_sweep_tests[];
extern const store_test store_clock_tests[];
extern const store_test store_dead_tests[];
extern const store_test store_replay_tests[];
extern const store_test store_letter_tests[];
extern const store_test store_driver_tests[];
extern const store_test store_look_tests[];
extern const store_test store_list_tests[];
extern const store_test store_note_tests[];
extern const store_test store_position_tests[];
extern const store_test store_retention_tests[];
extern const store_test store_stats_tests[];
extern const store_test store_statement_tests[];
extern const store_test store_operate_tests[];
extern const store_test store_waiting_tests[];
extern const store_test store_cause_tests[];
extern const store_test store_history_tests[];

/* Before anything is opened, and after all is closed. */
void clock_open(store_fixture *f);
void clock_close(store_fixture *f);

void open_store(store_fixture *f);

/* 0 if the driver leaves one of these LACKS_... out. For the test that asks as much as there is;
 * one that makes no sense without has a NEEDS_... in its list. */
int store_has(const store_fixture *f, unsigned members);

/* The options may be NULL; their mode is the fixture's, whatever they say. */
semel_inbox *open_inbox(store_fixture *f, const char *name, const semel_inbox_options *options);
semel_inbox *open_inbox_on(store_fixture *f, semel_store *store, const char *name,
                           const semel_inbox_options *options);
semel_outbox *open_outbox(store_fixture *f, const char *name);
semel_transport *open_recorder(store_fixture *f);
semel_relay *open_relay(store_fixture *f, semel_outbox *outbox, semel_transport *transport,
                        const semel_relay_options *options);
semel_relay *open_local_relay(store_fixture *f, semel_outbox *outbox, semel_inbox *inbox,
                              scripted_handler *context, const semel_relay_options *options);

semel_store *open_second_handle(store_fixture *f);

/* The process ends and is started again: all handles are closed, the store is opened anew. */
void reopen(store_fixture *f);
void close_all(store_fixture *f); /* the first half of it */

/* --- time ---
 *
 * A clock that stands still has a grain of one millisecond, and what is said here is exact. A
 * server's runs on while the test does. There time is made to pass by making all that is stored
 * older, and the grain is longer than any test takes from one pass_ms() to what it looks at then.
 * So a test chooses spans of many grains, and does not look in the last grain before something
 * ends, but at the beginning of it and afterwards. */
void pass_ms(store_fixture *f, int64_t ms);

void pass_almost(store_fixture *f, int64_t ms); /* to the last moment before they are over ... */
void pass_grain(store_fixture *f);              /* ... and on, to their end */

uint32_t grains(const store_fixture *f, uint32_t count); /* so many of them, in ms */

/* Now, by the clock of the store, as the test sees it: with all that was made to pass. */
int64_t now_of(store_fixture *f);
int64_t now_on(store_fixture *f, semel_store *store);

int64_t wall_of(store_fixture *f); /* by the clock of the host, which messages are dated by */

/* That a time which the store has stored was `now` when it did, give or take a grain. */
#define STORED_AT(now, f, stored_ms) \
    check_about((now), (stored_ms) + (f)->passed_ms, (f), __FILE__, __LINE__)
#define IS_ABOUT(now, f, ms) check_about((now), (ms), (f), __FILE__, __LINE__)
void check_about(int64_t expected, int64_t ms, const store_fixture *f, const char *file, int line);

/* The counters of f->store. */
semel_counters counters_of(store_fixture *f);

/* Begins a unit and claims the message with it; the unit is the test's to end. */
semel_unit *claim_message(store_fixture *f, semel_inbox *inbox, const semel_message *message);

/* Claim mode: claims the message and dies: only the lease ends the claim. */
void abandon_claim(store_fixture *f, semel_inbox *inbox, const semel_message *message);

/* One turn of a relay, without waiting: how many it sent. */
size_t relay_once(semel_relay *relay);

/* Turns until one sends nothing: how many all of them sent. A relay is free to send little at a
 * time. */
size_t relay_all(semel_relay *relay);

/* What a recorder has got: the ids, separated by spaces. */
void recorded_ids(char *text, size_t size, const semel_transport *recorder);

/* Dead letters, as many as there is room for; their messages are copies to be freed by
 * letters_free. */
typedef struct letters {
    size_t count;
    struct dead_copy {
        int64_t id;
        semel_dead_origin origin;
        char name[SEMEL_NAME_MAX + 1];
        char error[256];
        char key[SEMEL_KEY_MAX + 32];
        size_t key_len;
        uint32_t attempts;
        int64_t at_ms;
        int64_t first_ms;
        uint32_t cause;
        int retry;
        semel_message *message;
    } all[16];
} letters;

void letters_read(letters *out, semel_store *store, const semel_dead_filter *filter);
void letters_free(letters *all);

/* How many there are (none, if the store keeps none), and the id of the only one (the test fails if
 * there is not exactly one). */
size_t count_letters(store_fixture *f);
int64_t only_letter(store_fixture *f);

#endif
