/* What every keyed driver must do. A driver's own test file says where its database is and what is
 * particular about it:
 *
 *     int main(void)
 *     {
 *         static const adapter_quirks redis = {.name = "redis", .driver = &redis_keyed_driver,
 *                                              .make = make, .remove = clean,
 *                                              .flags = ADAPTER_KEEPS | ADAPTER_SHARED, ...};
 *         return adapter_suite(&redis);
 *     }
 *
 * Each test has a database of its own, empty and prepared. The driver is called through its table,
 * without the layer. SEMEL_TEST_FILTER names the test that is run. */
#ifndef SEMEL_TESTS_ADAPTER_SUITE_H
#define SEMEL_TESTS_ADAPTER_SUITE_H

#include "base/mem.h"
#include "support/base/check.h"
#include "support/fixture/store_place.h"

#include <semel/sys/keyed.h>

enum { ADAPTER_ROOM = SERVER_URL_ROOM };

enum {
    ADAPTER_KEEPS = 1,     /* what was applied is there after closing and opening again */
    ADAPTER_PROCESSES = 2, /* other processes see it (a child of the test, which opens its own) */
    ADAPTER_TEARS = 4,     /* what a statement that fails at run time leaves behind is not undone */
    ADAPTER_SEAM_CLOCK = 8, /* its clock is the seam's, which runs as the system's does here */
    ADAPTER_SLOW = 16       /* a round trip takes milliseconds: smaller numbers of everything */
};

typedef struct adapter_statement {
    const char *text;
    semel_value values[4];
    size_t count;
} adapter_statement;

typedef struct adapter_quirks {
    const char *name;
    const semel_keyed_driver *driver;
    unsigned flags;
    semel_durability durability; /* of the database that make() gives */

    void (*make)(char argument[ADAPTER_ROOM]); /* a fresh, empty database: the argument of `open` */
    void (*remove)(const char *argument);      /* and all that it left; may be NULL */

    /* With `queue`: a statement that works and adds 1 to what effects() tells; one that `queue`
     * refuses; one that `queue` takes and the database does not (text NULL: there is none). */
    adapter_statement good, invalid, failing;
    int64_t (*effects)(const char *argument);
} adapter_quirks;

/* Runs the suite; the number of tests that failed, for main() to return. */
int adapter_suite(const adapter_quirks *quirks);

/* --- for the authors of tests ----------------------------------------------------------------- */

enum { ADAPTER_CLIENTS_MAX = 16 };

typedef struct adapter_case {
    const adapter_quirks *quirks;
    const semel_keyed_driver *driver;
    char argument[ADAPTER_ROOM];
    semel_seam seam;
    semel_store_settings settings;
    void *store; /* the first client */
    void *clients[ADAPTER_CLIENTS_MAX];
    size_t client_count;
    mem_arena arena;
} adapter_case;

typedef struct adapter_test {
    const char *name;
    void (*run)(adapter_case *c);
    unsigned needs; /* of the flags */
    uint32_t needs_abilities;
} adapter_test;

/* Each part is a list that ends with a name that is NULL. */
extern const adapter_test adapter_record_tests[];
extern const adapter_test adapter_expect_tests[];
extern const adapter_test adapter_scan_tests[];
extern const adapter_test adapter_race_tests[];
extern const adapter_test adapter_other_tests[];

/* A client of the database, closed at the end of the test; for a child: adapter_open. */
void *adapter_client(adapter_case *c);
void *adapter_open(const adapter_case *c);
void adapter_close(const adapter_case *c, void *store);

/* Records that were read or told, in an arena of their own. */
typedef struct adapter_rows {
    mem_arena arena;
    semel_keyed_record *all;
    size_t count, capacity;
} adapter_rows;

semel_keyed_sink adapter_row; /* its context is an adapter_rows */
void adapter_rows_free(adapter_rows *rows);

/* Changes. A write has a new version; what it refers to outlives it. */
semel_keyed_change change_write(const char *space, semel_bytes key, const char *value);
semel_keyed_change change_text(const char *space, const char *key, const char *value);
semel_keyed_change change_kind(semel_keyed_change change, semel_keyed_kind kind);
semel_keyed_change change_if_version(semel_keyed_change change, const unsigned char *version);
semel_keyed_change change_if_guard(semel_keyed_change change, uint64_t guard, int64_t live_at_ms);
semel_keyed_change change_owned(semel_keyed_change change, uint64_t guard, int64_t until_ms);
semel_keyed_change change_body(semel_keyed_change change, semel_bytes body);
semel_keyed_change change_foreign(const adapter_statement *statement);

/* Where the database gave up (ECONFLICT, and nothing is marked) it is tried again. told may be
 * NULL. */
semel_status adapter_apply(const adapter_case *c, void *store, semel_keyed_change changes[],
                           size_t count, adapter_rows *told);

/* The same, for a thread: with an error of its own. */
semel_status adapter_try(const adapter_case *c, void *store, semel_keyed_change changes[],
                         size_t count, adapter_rows *told, semel_error *err);
void adapter_applies(const adapter_case *c, semel_keyed_change changes[], size_t count);
void adapter_refuses(const adapter_case *c, semel_keyed_change changes[], size_t count,
                     const char *marks); /* "0100": which of them are marked */

/* The record, with its body, until the end of the test; NULL: there is none. */
const semel_keyed_record *adapter_get(adapter_case *c, const char *space, semel_bytes key);
const semel_keyed_record *adapter_get_text(adapter_case *c, const char *space, const char *key);
void adapter_value_is(adapter_case *c, const char *space, const char *key, const char *value);
void adapter_is_absent(adapter_case *c, const char *space, const char *key);

/* The keys of a range, separated by spaces. */
const char *adapter_scan(char *out, size_t size, adapter_case *c, const semel_keyed_range *range);

semel_bytes bytes_of(const char *text);
#define BYTES(literal) ((semel_bytes){literal, sizeof(literal) - 1})

/* `many` or, where a round trip is long, `few`. */
unsigned adapter_number(const adapter_case *c, unsigned many, unsigned few);

#endif
