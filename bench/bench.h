/* What the parts of the benchmark share.
 *
 *     main.c          options, and the list of sections
 *     scratch.c       the directory that everything happens in, and how a run ends
 *     comparison.c    rounds in which contenders alternate; medians and spreads
 *     report.c        the table, the CSV, the progress line
 *     messages.c      keys and messages
 *     raw_sqlite.c    the hand-written SQLite loop that semel is measured against
 *     semel_sqlite.c  the same work through semel
 *     outbox.h        the outbox on SQLite, by hand and through semel
 *     fsync_count.c   counts fsyncs and SQLite's allocations
 *     hashset.c       the bare hash set that the memory store is measured against
 *     section_*.c     what is measured; one function for each name of --only
 *     server.h        the same for database servers, with its own list of files
 *     broker.h        ... and for the broker
 *     run.h           ... and for the program, `semel run`
 *
 * Nothing here asserts a time: the table says what was measured and whether the aim is met. */
#ifndef SEMEL_BENCH_H
#define SEMEL_BENCH_H

#include <semel/semel.h>
#include <sqlite3.h>
#include <stdio.h>

enum { ROUNDS_MAX = 64, CONTENDERS_MAX = 6, ID_TEXT = 36, BODY_BYTES = 100, BROKER_BODY = 200 };
#define BROKER_TOPIC "orders" /* as in the outboxes that are filled by hand */

/* --- main.c ----------------------------------------------------------------------------------- */

typedef struct bench_options {
    int quick;
    int full;
    int csv;
    int large;             /* ten million markers on the servers, too */
    const char *directory; /* where the scratch directory is made */
} bench_options;

extern bench_options options;

/* The size of a measurement: `full` with --full, else `brief`. */
size_t choose(size_t full, size_t brief);
/* The number of its rounds: `few` with --quick, else `most`. Without --full a measurement whose
 * ratios have settled ends before: see comparison_settle(). */
size_t choose_rounds(size_t most, size_t few);

/* So many durable transactions, or fewer on a disk where they would take longer than a tenth of a
 * second: a slow disk makes the figures coarser, not the run longer. */
size_t transactions(size_t full, size_t brief);

void section_limits(void);
void section_receive(void);
void section_batch(void);
void section_duplicate(void);
void section_claim(void);
void section_sqlite_threads(void);
void section_memory(void);
void section_heap(void);
void section_observer(void);
void section_keyed(void);
void section_outbox(void);
void section_relay(void);
void section_growth(void);

/* --- scratch.c -------------------------------------------------------------------------------- */

void scratch_make(void); /* and removes it when the program ends, however it ends */
const char *scratch_path(char out[512], const char *name);
void scratch_remove(const char *name); /* a database with what SQLite keeps beside it */

/* Ends the program, with a word on what went wrong. */
_Noreturn void die(const char *format, ...) SEMEL_PRINTF(1, 2);
void must(semel_status status, const semel_error *err);
void must_sqlite(int code, sqlite3 *db);
void *must_alloc(size_t size);

/* Ends the program if it was asked to, by Ctrl-C for one. */
void stop_if_asked(void);

double now_s(void);

/* --- messages.c ------------------------------------------------------------------------------- */

typedef enum key_order { KEYS_IN_TIME_ORDER, KEYS_RANDOM } key_order;

typedef struct key_source {
    key_order order;
    uint64_t random;
    int64_t ms;
    unsigned in_ms; /* keys made in this millisecond */
} key_source;

typedef struct message_set {
    size_t count;
    size_t capacity;
    char (*ids)[ID_TEXT + 1];
    semel_message *messages;
    const semel_message **pointers;
} message_set;

/* Where a relay by hand gives its messages away. */
typedef void recipient(void *context, const semel_message *const messages[], size_t count);

const char *order_name(key_order order);
uint64_t next_random(uint64_t *state);

/* UUIDv7 as text, each greater than the one before, or UUIDv4 as text. */
void keys_begin(key_source *keys, key_order order);
void keys_next(key_source *keys, char out[ID_TEXT + 1]);

/* Makes `count` messages with new keys, a type and a body of BODY_BYTES, in the memory of the last
 * ones. */
void messages_make(message_set *set, key_source *keys, size_t count);
void messages_address(message_set *set); /* a topic, and BROKER_BODY bytes: for a broker */
void messages_free(message_set *set);

/* --- comparison.c ----------------------------------------------------------------------------- */

typedef struct spread {
    double median, low, high;
    double error; /* of the median, about: one standard error, from the median deviation */
} spread;

typedef struct contender {
    void *context;
    void (*run)(void *context, const message_set *set);
} contender;

typedef struct comparison {
    size_t rounds;
    size_t contenders;
    double rest_s;    /* before each turn, if the last one left work behind */
    double tolerance; /* of the ratios, when they have settled; 0: SETTLED */
    double seconds;   /* when it ends although they have not; 0: LONGEST_S */
    double began_s;
    double rate[CONTENDERS_MAX][ROUNDS_MAX]; /* messages a second */
} comparison;

/* Every round each contender handles the same `batches` times `batch` new messages, in slices; the
 * first one alternates. One round before the first is not counted. */
void comparison_run(comparison *out, const contender *contenders, size_t count, key_source *keys,
                    size_t batch, size_t batches, size_t rounds, const char *label);
/* One such round; the one with number 0 is not kept. For callers that have something to prepare for
 * each. */
void comparison_round(comparison *d, size_t round, const contender *contenders,
                      const message_set *set, size_t slice);
/* Behind each round: so many are done. Lowers `rounds` to that when the ratios to the first
 * contender have settled, or time is over; never with --full. */
void comparison_settle(comparison *d, size_t done);
spread spread_of(const double values[], size_t count);
spread spread_unknown(double value); /* a figure that was taken once */
spread comparison_rate(const comparison *d, size_t which);
spread comparison_ratio(const comparison *d, size_t which,
                        size_t against);                        /* of the rates, round by round */
double percentile(double values[], size_t count, double share); /* sorts */

/* --- report.c --------------------------------------------------------------------------------- */

typedef enum aim_kind { AIM_NONE, AIM_AT_LEAST, AIM_AT_MOST } aim_kind;

typedef struct bench_aim {
    aim_kind kind;
    double value;
} bench_aim;

#define NO_AIM       ((bench_aim){AIM_NONE, 0})
#define AT_LEAST(by) ((bench_aim){AIM_AT_LEAST, (by)})
#define AT_MOST(by)  ((bench_aim){AIM_AT_MOST, (by)})

void report_begin(void);
/* `left` and `right` name the two columns of figures; the ratio is right / left, or the other way
 * around where the figures are costs. */
void report_section(const char *name, const char *title, const char *left, const char *right);
void report_row(const char *name, double left, double right, spread ratio, bench_aim aim);
void report_comparison(const char *name, const comparison *d, size_t which, size_t against,
                       bench_aim aim);
void report_value(const char *name, double value, const char *unit, bench_aim aim);
void report_note(const char *format, ...) SEMEL_PRINTF(1, 2);
void report_end(void); /* with a table of all aims */

void progress(const char *what, size_t done, size_t of); /* on a terminal only */
void progress_clear(void);

/* --- raw_sqlite.c ----------------------------------------------------------------------------- */

/* A database with semel's own tables, the store's settings, and statements that are kept. */
typedef struct raw_db {
    sqlite3 *db;
    sqlite3_stmt *begin, *commit, *savepoint, *release, *marker, *effect;
    size_t batch;        /* messages in a transaction */
    int with_savepoints; /* one around each message, as semel has */
} raw_db;

void raw_open(raw_db *raw, const char *path);
void raw_adopt(raw_db *raw, sqlite3 *db); /* on a connection that the caller has open */
void raw_prepare(sqlite3_stmt **out, sqlite3 *db, const char *sql);
void raw_step(sqlite3_stmt *statement); /* to its end, and ready for the next time */
void raw_receive(void *raw, const message_set *set);
void raw_release(raw_db *raw); /* gives up the statements, leaves the connection open */
void raw_close(raw_db *raw);
int64_t raw_number(sqlite3 *db, const char *sql);
int64_t raw_now_ms(void);

#define EFFECT_TABLE \
    "CREATE TABLE IF NOT EXISTS effect (id INTEGER PRIMARY KEY, body BLOB NOT NULL)"
#define EFFECT_INSERT "INSERT INTO effect (body) VALUES (?)"
void effect_insert(sqlite3_stmt *insert, semel_bytes body);

/* --- semel_sqlite.c --------------------------------------------------------------------------- */

typedef struct semel_sqlite {
    semel_store *store;
    semel_inbox *inbox;
    sqlite3_stmt *effect; /* the handler's, made on its first call */
    size_t batch;         /* messages in a call; 1: semel_inbox_receive() */
    semel_outcome expected;
    semel_outcome *outcomes;
    double *latencies_s; /* if set: one for each message, from `latency_count` on */
    size_t latency_count;
} semel_sqlite;

void semel_sqlite_open(semel_sqlite *s, const char *url, const semel_inbox_options *inbox,
                       size_t batch);
void semel_sqlite_open_on(semel_sqlite *s, semel_store *store, const semel_inbox_options *inbox,
                          size_t batch); /* the store is closed with it */
void semel_sqlite_receive(void *semel_sqlite, const message_set *set);
void semel_sqlite_receive_idly(void *semel_sqlite,
                               const message_set *set); /* with a handler that does nothing */
semel_handler semel_sqlite_handler; /* for a caller of its own; its context is the semel_sqlite */
void semel_sqlite_close(semel_sqlite *s);

/* --- fsync_count.c ---------------------------------------------------------------------------- */

void fsync_count_begin(void); /* before SQLite is used at all */
long fsync_count(void);
double fsync_seconds(void);    /* that they took, all together */
void fsync_slow_down(long us); /* each by so much: as a slower disk would; 0: not at all */
long sqlite_allocations(void);

/* --- hashset.c -------------------------------------------------------------------------------- */

typedef struct hashset hashset;
hashset *hashset_new(void);
int hashset_add(hashset *set, const void *key, size_t len); /* 0: it is there already */
void hashset_free(hashset *set);

#endif
