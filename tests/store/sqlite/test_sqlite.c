/* What only SQLite has: the file, its settings, its schema, its URL. Units are in
 * test_sqlite_unit.c, locks, fsyncs and full disks in test_sqlite_disk.c. */
#include "support/fixture/sqlite_case.h"

#include <semel/test.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- the file --------------------------------------------------------------------------------- */

static unsigned mode_of(const char *path, const char *suffix)
{
    struct stat found;
    char whole[SCRATCH_PATH + 8];
    (void)snprintf(whole, sizeof whole, "%s%s", path, suffix);
    assert_int_equal(stat(whole, &found), 0);
    return found.st_mode & 07777;
}

/* Messages may hold what others must not read. */
static void a_new_file_is_its_owners_alone(void **state)
{
    sqlite_case *c = *state;
    scripted_handler done = {0};
    mode_t before = umask(0);
    lite_open(c, 0);
    umask(before);
    SQL(lite_other(c), "CREATE TABLE effect (id TEXT)");
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-1", &done);
    assert_int_equal(mode_of(c->path, ""), 0600);
    assert_int_equal(mode_of(c->path, "-wal"), 0600);
    assert_int_equal(mode_of(c->path, "-shm"), 0600);
}

static void a_file_that_is_there_keeps_its_mode(void **state)
{
    sqlite_case *c = *state;
    SQL(lite_other(c), "CREATE TABLE effect (id TEXT)");
    assert_int_equal(chmod(c->path, 0640), 0);
    lite_open(c, 0);
    assert_int_equal(mode_of(c->path, ""), 0640);
}

static void the_file_is_in_wal_mode(void **state)
{
    sqlite_case *c = *state;
    assert_int_equal(lite_number(lite_other(c), "SELECT count(*) FROM pragma_journal_mode "
                                                "WHERE journal_mode = 'wal'"),
                     1);
}

/* The file is the application's, too: nothing of it is changed but by adding tables. */
static void migrating_leaves_the_applications_part_alone(void **state)
{
    sqlite_case *c = *state;
    SQL(lite_other(c), "PRAGMA user_version = 7; PRAGMA application_id = 77;"
                       "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT);"
                       "INSERT INTO customer (name) VALUES ('Ada')");
    lite_open(c, 0);
    assert_int_equal(lite_number(lite_other(c), "PRAGMA user_version"), 7);
    assert_int_equal(lite_number(lite_other(c), "PRAGMA application_id"), 77);
    assert_int_equal(lite_number(lite_other(c), "SELECT count(*) FROM customer"), 1);
    assert_int_equal(lite_number(lite_other(c), "SELECT count(*) FROM sqlite_master WHERE name "
                                                "NOT GLOB 'semel_*' AND name NOT GLOB 'sqlite_*'"),
                     1);
}

static void opening_changes_nothing_in_the_database(void **state)
{
    sqlite_case *c = *state;
    OK(semel_store_open(&c->base.store, c->base.place.url, NULL, &last_error));
    assert_int_equal(lite_number(lite_other(c), "SELECT count(*) FROM sqlite_master"), 0);
}

static void what_is_no_database_is_refused(void **state)
{
    sqlite_case *c = *state;
    semel_store *store = NULL;
    FILE *file = fopen(c->path, "w");
    assert_non_null(file);
    for (int i = 0; i < 1000; i++)
        (void)fputs("this is a text, and not a database. ", file);
    assert_int_equal(fclose(file), 0);
    FAILS(SEMEL_ESTORE, semel_store_open(&store, c->base.place.url, NULL, &last_error));
    SAYS("is it an SQLite file?");
    assert_null(store);
}

static void a_file_that_cannot_be_made_is_named(void **state)
{
    sqlite_case *c = *state;
    semel_store *store = NULL;
    char url[SCRATCH_PATH + 32];
    (void)snprintf(url, sizeof url, "sqlite:%s/no/such/shop.db", c->base.place.directory.path);
    FAILS(SEMEL_ESTORE, semel_store_open(&store, url, NULL, &last_error));
    SAYS("/no/such/shop.db");
    (void)snprintf(url, sizeof url, "sqlite:%s", c->base.place.directory.path); /* a directory */
    FAILS(SEMEL_ESTORE, semel_store_open(&store, url, NULL, &last_error));
}

/* --- the URL ---------------------------------------------------------------------------------- */

static void expect_bad_url(const sqlite_case *c, const char *rest, const char *says)
{
    char url[SERVER_URL_ROOM + 64];
    semel_store *store = NULL;
    (void)snprintf(url, sizeof url, "%s%s", rest[0] == '?' ? c->base.place.url : "", rest);
    FAILS(SEMEL_EINVAL, semel_store_open(&store, url, NULL, &last_error));
    SAYS(says);
    assert_null(store);
}

static void a_bad_url_is_refused_by_name(void **state)
{
    sqlite_case *c = *state;
    expect_bad_url(c, "?sync=full", "\"sync\"");
    expect_bad_url(c, "?synchronous=off", "\"off\"");
    expect_bad_url(c, "?synchronous=", "synchronous");
    expect_bad_url(c, "?share=maybe", "share is on or off");
    expect_bad_url(c, "?cache_kib=many", "cache_kib");
    expect_bad_url(c, "?cache_kib=-1", "cache_kib");
    expect_bad_url(c, "?cache_kib=99999999999999999999", "cache_kib");
    expect_bad_url(c, "sqlite:", "path");
    expect_bad_url(c, "sqlite:?synchronous=full", "path");
    expect_bad_url(c, "sqlite::memory:", "memory:");
    struct stat found;
    assert_int_equal(stat(c->path, &found), -1); /* and no file was made on the way */
}

static semel_grade grade_with(sqlite_case *c, const char *parameters, semel_durability expected,
                              int64_t expected_pragma)
{
    char url[SERVER_URL_ROOM + 64];
    semel_store *store = NULL;
    semel_inbox *inbox = NULL;
    semel_unit *unit = NULL;
    (void)snprintf(url, sizeof url, "%s%s", c->base.place.url, parameters);
    OK(semel_store_open(&store, url, NULL, &last_error));
    assert_int_equal(semel_store_durability(store), expected);
    OK(semel_inbox_open(&inbox, store, "orders", NULL, &last_error));
    semel_grade grade = semel_inbox_grade(inbox, NULL);
    OK(semel_unit_begin(&unit, store, &last_error));
    assert_int_equal(lite_number(semel_unit_sqlite(unit), "PRAGMA synchronous"), expected_pragma);
    semel_unit_rollback(unit);
    semel_inbox_close(inbox);
    semel_store_close(store);
    return grade;
}

static void synchronous_normal_lowers_durability_and_grade(void **state)
{
    sqlite_case *c = *state;
    assert_int_equal(grade_with(c, "", SEMEL_DURABLE_POWER, 2), SEMEL_GRADE_EXACTLY_ONCE_EFFECTS);
    assert_int_equal(grade_with(c, "?synchronous=full", SEMEL_DURABLE_POWER, 2),
                     SEMEL_GRADE_EXACTLY_ONCE_EFFECTS);
    assert_int_equal(grade_with(c, "?synchronous=normal&cache_kib=1024", SEMEL_DURABLE_PROCESS, 1),
                     SEMEL_GRADE_EXCEPT_POWER_LOSS);
    assert_int_equal(semel_inbox_grade(c->claims, NULL), SEMEL_GRADE_EFFECTIVELY_ONCE);
}

/* --- the schema ------------------------------------------------------------------------------- */

/* Neither migrated nor used, by any call that touches the tables. */
static void expect_refused(sqlite_case *c, const char *says)
{
    semel_inbox *inbox = NULL;
    semel_outbox *outbox = NULL;
    semel_counters counters;
    OK(semel_store_open(&c->base.store, c->base.place.url, NULL, &last_error));
    FAILS(SEMEL_ESCHEMA, semel_store_migrate(c->base.store, &last_error));
    SAYS(says);
    FAILS(SEMEL_ESCHEMA, semel_inbox_open(&inbox, c->base.store, "orders", NULL, &last_error));
    SAYS(says);
    FAILS(SEMEL_ESCHEMA, semel_outbox_open(&outbox, c->base.store, "mail", &last_error));
    FAILS(SEMEL_ESCHEMA,
          semel_store_counters(&counters, sizeof counters, c->base.store, &last_error));
}

static void a_newer_schema_is_refused(void **state)
{
    sqlite_case *c = *state;
    SQL(lite_other(c), "INSERT INTO semel_schema (version, name, applied_ms) "
                       "VALUES (9999, 'from the future', 0)");
    int64_t before = lite_number(lite_other(c), "SELECT count(*) FROM sqlite_master");
    lite_close(c);
    expect_refused(c, "9999");
    SAYS("upgrade semel");
    assert_int_equal(lite_number(lite_other(c), "SELECT count(*) FROM sqlite_master"), before);
}

static void tables_that_only_look_like_semels_are_refused(void **state)
{
    sqlite_case *c = *state;
    SQL(lite_other(c), "CREATE TABLE semel_sales (id INTEGER)");
    expect_refused(c, "semel did not make");
    assert_int_equal(lite_number(lite_other(c), "SELECT count(*) FROM sqlite_master"), 1);
}

static void a_schema_table_of_another_shape_is_refused(void **state)
{
    sqlite_case *c = *state;
    SQL(lite_other(c), "CREATE TABLE semel_schema (owner TEXT, version INTEGER)");
    expect_refused(c, "not semel's");
    assert_int_equal(lite_number(lite_other(c), "SELECT count(*) FROM sqlite_master"), 1);
}

/* --- migrating, interrupted ------------------------------------------------------------------- */

static void migrate_with_fault(sqlite_case *c, const char *point, int64_t tables_expected)
{
    semel_test_seam *seam = NULL;
    OK(semel_test_seam_open(&seam, 1, &last_error));
    semel_store_options options = {.size = sizeof options, .seam = semel_test_seam_get(seam)};
    OK(semel_store_open(&c->base.store, c->base.place.url, &options, &last_error));
    semel_test_fault(seam, point, 1, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE, semel_store_migrate(c->base.store, &last_error));
    int64_t tables = lite_number(lite_other(c), "SELECT count(*) > 0 FROM sqlite_master");
    lite_close(c);
    semel_test_seam_close(seam);
    assert_int_equal(tables, tables_expected);
}

static void an_interrupted_migration_goes_on_where_it_was(void **state)
{
    sqlite_case *c = *state;
    scripted_handler done = {0};
    migrate_with_fault(c, "migrate.applied", 0);
    migrate_with_fault(c, "migrate.committed", 1);
    lite_open(c, 0);
    SQL(lite_other(c), "CREATE TABLE effect (id TEXT)");
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-1", &done);
}

/* --- groups that wait ------------------------------------------------------------------------- */

/* Their names are read back from semel_group, and must be what they were. */
static void groups_come_back_in_a_utf_16_database(void **state)
{
    sqlite_case *c = *state;
    semel_transport *broker = NULL;
    semel_relay *relay = NULL;
    semel_message message = text_message("m", "10 EUR");
    size_t sent = 0;
    SQL(lite_other(c), "PRAGMA encoding = 'UTF-16'; CREATE TABLE effect (id TEXT)");
    lite_open(c, 0);
    message.group = "stra\xc3\x9f"
                    "e";
    message.delay_ms = 3600000;
    OK(semel_outbox_send(c->outbox, &message, &last_error));
    OK(semel_test_recorder_open(&broker, &last_error));
    OK(semel_relay_open(&relay, c->outbox, broker, NULL, &last_error));
    OK(semel_relay_step(&sent, relay, 0, &last_error));
    assert_int_equal(sent, 0);
    assert_int_equal(lite_number(lite_other(c), "SELECT count(*) FROM semel_group"), 1);
    SQL(lite_other(c), "UPDATE semel_outbox SET wake_ms = 1; UPDATE semel_group SET due_ms = 1");
    OK(semel_relay_step(&sent, relay, 0, &last_error));
    assert_int_equal(sent, 1);
    OK(semel_relay_step(&sent, relay, 0, &last_error));
    assert_int_equal(lite_number(lite_other(c), "SELECT count(*) FROM semel_group"), 0);
    semel_relay_close(relay);
    semel_transport_close(broker);
}

/* --- damage (P22) ----------------------------------------------------------------------------- */

typedef struct inspection {
    unsigned letters, damaged, whole;
} inspection;

static semel_status inspect(const semel_dead *dead, void *context, semel_error *err)
{
    inspection *seen = context;
    (void)err;
    seen->letters++;
    seen->damaged += !dead->message && strstr(dead->error, "damaged");
    seen->whole += dead->message && strcmp(dead->error, "out of paper") == 0;
    return SEMEL_OK;
}

static void a_damaged_letter_is_shown_and_hides_no_other(void **state)
{
    sqlite_case *c = *state;
    scripted_handler hopeless = {.failures = 3, .failure = SEMEL_EGIVEUP};
    inspection seen = {0};
    semel_outcome outcome;
    HANDLES(SEMEL_OK, SEMEL_DEAD, c->inbox, "a", &hopeless);
    HANDLES(SEMEL_OK, SEMEL_DEAD, c->inbox, "b", &hopeless);
    HANDLES(SEMEL_OK, SEMEL_DEAD, c->inbox, "c", &hopeless);
    int64_t id = lite_number(lite_other(c), "SELECT min(dead_id) FROM semel_dead");
    SQL(lite_other(c), "UPDATE semel_dead SET headers = x'ffffffffffffff00' WHERE key = x'61'");
    OK(semel_dead_list(c->base.store, NULL, inspect, &seen, &last_error));
    assert_int_equal(seen.letters, 3);
    assert_int_equal(seen.damaged, 1);
    assert_int_equal(seen.whole, 2);

    scripted_handler never = {0};
    FAILS(SEMEL_ESTORE,
          semel_inbox_replay(&outcome, c->inbox, id, lite_handle, &never, &last_error));
    SAYS("damaged");
    assert_int_equal(never.runs, 0);
    OK(semel_inbox_replay(&outcome, c->inbox, id + 1, lite_handle, &never, &last_error));
    OK(semel_dead_discard(c->base.store, id, SEMEL_DISCARD_KEEP_DEAD, &last_error));
}

/* A relay cannot send what it cannot read. Such a row holds up its group, which would otherwise
 * lose its order, and no other; and it is still counted. */
static void a_damaged_outgoing_message_holds_up_no_other(void **state)
{
    static const char *const groups[] = {NULL, "g", NULL, "g", "h"};
    sqlite_case *c = *state;
    semel_transport *broker = NULL;
    semel_relay *relay = NULL;
    semel_relay_options options = {.size = sizeof options, .batch = 1};
    semel_counters counters;
    size_t sent = 0, total = 0;
    for (size_t i = 0; i < 5; i++) {
        char id[] = {(char)('a' + i), 0};
        semel_message message = text_message(id, "paid");
        message.group = groups[i];
        OK(semel_outbox_send(c->outbox, &message, &last_error));
    }
    SQL(lite_other(c),
        "UPDATE semel_outbox SET headers = x'ffffffff00' WHERE id IN (x'61', x'62')");
    OK(semel_test_recorder_open(&broker, &last_error));
    OK(semel_relay_open(&relay, c->outbox, broker, &options, &last_error));
    for (int i = 0; i < 4; i++, total += sent)
        OK(semel_relay_step(&sent, relay, 0, &last_error));
    semel_relay_close(relay);
    semel_transport_close(broker);
    assert_int_equal(total, 2);
    OK(semel_store_counters(&counters, sizeof counters, c->base.store, &last_error));
    assert_int_equal(counters.unsent, 3);
}

int main(void)
{
#define ON_EMPTY(test) cmocka_unit_test_setup_teardown(test, lite_setup_empty, lite_teardown)
#define ON_STORE(test) cmocka_unit_test_setup_teardown(test, lite_setup, lite_teardown)
    static const struct CMUnitTest tests[] = {
        ON_EMPTY(a_new_file_is_its_owners_alone),
        ON_EMPTY(a_file_that_is_there_keeps_its_mode),
        ON_STORE(the_file_is_in_wal_mode),
        ON_EMPTY(migrating_leaves_the_applications_part_alone),
        ON_EMPTY(opening_changes_nothing_in_the_database),
        ON_EMPTY(what_is_no_database_is_refused),
        ON_EMPTY(a_file_that_cannot_be_made_is_named),
        ON_EMPTY(a_bad_url_is_refused_by_name),
        ON_STORE(synchronous_normal_lowers_durability_and_grade),
        ON_STORE(a_newer_schema_is_refused),
        ON_EMPTY(tables_that_only_look_like_semels_are_refused),
        ON_EMPTY(a_schema_table_of_another_shape_is_refused),
        ON_EMPTY(an_interrupted_migration_goes_on_where_it_was),
        ON_EMPTY(groups_come_back_in_a_utf_16_database),
        ON_STORE(a_damaged_letter_is_shown_and_hides_no_other),
        ON_STORE(a_damaged_outgoing_message_holds_up_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
