/* Queued statements on MariaDB: their values are written into their texts, and a queued unit is one
 * compound statement; so what is in them must come out as it was put in, and what fails must be
 * told apart. */
#include "mariadb_kit.h"

#include <float.h>
#include <locale.h>
#include <math.h>

typedef struct plan {
    const char *sql[4]; /* in this order */
    const semel_value *values;
    size_t count; /* of the first one's values */
    semel_outbox *outbox;
    const char *result;
    unsigned runs;
} plan;

static semel_status queue_all(semel_unit *unit, const semel_message *message, void *context,
                              semel_error *err)
{
    plan *p = context;
    semel_status status = SEMEL_OK;
    semel_message mail = text_message("mail", "paid");
    (void)message;
    p->runs++;
    for (int i = 0; !status && i < 4 && p->sql[i]; i++)
        status = semel_unit_queue(unit, p->sql[i], i ? NULL : p->values, i ? 0 : p->count, err);
    if (!status && p->outbox)
        status = semel_unit_send(unit, p->outbox, &mail, err);
    if (!status && p->result)
        status = semel_unit_set_result(unit, p->result, strlen(p->result), err);
    return status;
}

#define QUEUES(status, outcome, c, id, p) queues((status), (outcome), (c), (id), (p), __LINE__)
static void queues(semel_status expected, semel_outcome outcome, server_case *c, const char *id,
                   plan *p, int line)
{
    semel_message message = text_message(id, "10 EUR");
    semel_outcome out;
    check_forget();
    semel_status status = semel_inbox_receive(&out, c->inbox, &message, queue_all, p, &last_error);
    if (status != expected || out != outcome)
        fail_msg("line %d: %s, %s: %s", line, semel_status_name(status), semel_outcome_name(out),
                 last_error.text);
}

/* --- values ----------------------------------------------------------------------------------- */

static void values_come_out_as_they_were_put_in(void **state)
{
    server_case *c = *state;
    static const char text[] =
        "O'Hara \\ \"x\" ? -- # /* `\n\t\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x98";
    static const unsigned char bytes[] = {0, 1, '\'', '\\', '"', '?', 0x80, 0xff, 0};
    semel_value values[] = {semel_int(INT64_MIN),
                            semel_int(INT64_MAX),
                            semel_int(-1),
                            semel_real(-DBL_MAX),
                            semel_real(DBL_MIN),
                            semel_real(1.0 / 3),
                            semel_text(text),
                            semel_text(""),
                            semel_text(NULL),
                            semel_blob((semel_bytes){bytes, sizeof bytes}),
                            semel_blob((semel_bytes){"", 0}),
                            semel_null()};
    plan p = {.sql = {"INSERT INTO v VALUES (?, ?, 5-?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"},
              .values = values,
              .count = sizeof values / sizeof *values};
    server_run(c->base.place.url,
               "CREATE TABLE v (a bigint, b bigint, c bigint, d double, e double, f double,"
               " g text character set utf8mb4 collate utf8mb4_bin, h text, i text, j blob,"
               " k blob, l blob)");
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c, "m", &p);
    assert_int_equal(case_number(c, "SELECT a = -9223372036854775808 AND b = 9223372036854775807 "
                                    "AND c = 6 FROM v"),
                     1);
    assert_int_equal(case_number(c, "SELECT d = -1.7976931348623157e308 AND e = "
                                    "2.2250738585072014e-308 AND f = 1e0 / 3e0 FROM v"),
                     1);
    assert_int_equal(case_number(c,
                                 "SELECT hex(g) = '4F2748617261205C20227822203F202D2D2023202F2A20"
                                 "600A09C3A9E282ACF09F9098' AND char_length(g) = 29 FROM v"),
                     1);
    assert_int_equal(case_number(c, "SELECT h = '' AND i IS NULL AND hex(j) = '0001275C223F80FF00' "
                                    "AND k = '' AND k IS NOT NULL AND l IS NULL FROM v"),
                     1);
}

/* printf() would write 0,5 there. */
static void the_locale_does_not_change_numbers(void **state)
{
    server_case *c = *state;
    semel_value half = semel_real(0.5);
    plan p = {.sql = {"INSERT INTO d VALUES (?)"}, .values = &half, .count = 1};
    server_run(c->base.place.url, "CREATE TABLE d (x double)");
    (void)setlocale(LC_ALL, "de_DE.UTF-8"); /* where there is such a one */
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c, "m", &p);
    (void)setlocale(LC_ALL, "C");
    assert_int_equal(case_number(c, "SELECT x = 0.5 FROM d"), 1);
}

static void what_is_no_value_fails(void **state)
{
    server_case *c = *state;
    semel_value wrong[] = {semel_real(INFINITY), semel_real(NAN), semel_text("\xc3\x28")};
    server_run(c->base.place.url, "CREATE TABLE d (x varchar(9))");
    for (int i = 0; i < 3; i++) {
        char id[] = {'m', (char)('0' + i), 0};
        plan p = {.sql = {"INSERT INTO d VALUES (?)"}, .values = &wrong[i], .count = 1};
        semel_message message = text_message(id, "10 EUR");
        semel_outcome out;
        semel_status status =
            semel_inbox_receive(&out, c->inbox, &message, queue_all, &p, &last_error);
        assert_int_equal(status, i < 2 ? SEMEL_EINVAL : SEMEL_EHANDLER);
        assert_int_equal(out, SEMEL_FAILED);
    }
    assert_int_equal(case_number(c, "SELECT count(*) FROM d"), 0);
}

/* A ? in quotes or comments stands for itself. */
static void marks_are_where_the_server_would_see_them(void **state)
{
    server_case *c = *state;
    semel_value values[] = {semel_text("one"), semel_text("two")};
    plan p = {.sql = {"INSERT /* ? ' */ INTO q (`a?`, b) # ?\n"
                      "VALUES (concat('?''\\'?', \"?\"\"\", ?), ?) -- ? '\n"},
              .values = values,
              .count = 2};
    server_run(c->base.place.url, "CREATE TABLE q (`a?` varchar(99), b varchar(99))");
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c, "m", &p);
    assert_int_equal(
        case_number(c, "SELECT `a?` = concat('?''''?', '?\"', 'one') AND b = 'two' FROM q"), 1);
}

/* LIMIT2 would be another name for the table, and all of its rows would be copied. */
static void a_value_does_not_run_into_the_word_before_it(void **state)
{
    server_case *c = *state;
    semel_value limit = semel_int(2);
    plan p = {.sql = {"INSERT INTO r SELECT x FROM s LIMIT?"}, .values = &limit, .count = 1};
    server_run(c->base.place.url, "CREATE TABLE r (x int)");
    server_run(c->base.place.url, "CREATE TABLE s (x int)");
    server_run(c->base.place.url, "INSERT INTO s VALUES (1), (2), (3)");
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c, "m", &p);
    assert_int_equal(case_number(c, "SELECT count(*) FROM r"), 2);
}

/* --- results ---------------------------------------------------------------------------------- */

static void rows_are_thrown_away(void **state)
{
    server_case *c = *state;
    plan p = {.sql = {"SELECT 1", "INSERT INTO effect VALUES ('a') RETURNING id",
                      "SELECT LAST_INSERT_ID() AS semel_0123456789abcdef FROM seq_1_to_5000",
                      "INSERT INTO effect VALUES ('b')"},
              .outbox = c->outbox,
              .result = "receipt"};
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c, "m", &p);
    QUEUES(SEMEL_OK, SEMEL_DUPLICATE, c, "m", &p);
    assert_int_equal(effects(c), 2);
    assert_int_equal(case_unsent(c), 1);
}

static void a_procedure_may_be_called(void **state)
{
    server_case *c = *state;
    plan p = {.sql = {"CALL two_results()", "INSERT INTO effect VALUES ('b')"},
              .outbox = c->outbox};
    server_run(c->base.place.url,
               "CREATE PROCEDURE two_results() BEGIN SELECT 1; INSERT INTO effect VALUES "
               "('a'); SELECT 2 FROM seq_1_to_1000; END");
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c, "m", &p);
    QUEUES(SEMEL_OK, SEMEL_DUPLICATE, c, "m", &p);
    assert_int_equal(effects(c), 2);
    assert_int_equal(case_unsent(c), 1);
}

/* What it commits is committed; nothing that comes after it is. */
static void a_procedure_that_commits_is_noticed(void **state)
{
    server_case *c = *state;
    plan p = {.sql = {"CALL commits()", "INSERT INTO effect VALUES ('b')"}, .outbox = c->outbox};
    server_run(c->base.place.url,
               "CREATE PROCEDURE commits() BEGIN INSERT INTO effect VALUES ('a'); COMMIT; END");
    QUEUES(SEMEL_EMISUSE, SEMEL_UNDECIDED, c, "m", &p);
    assert_int_equal(case_number(c, "SELECT count(*) FROM effect WHERE id = 'b'"), 0);
    assert_int_equal(case_unsent(c), 0);
}

/* A statement that ends the transaction, and one that fails: behind it, in it, or at the end. The
 * first part is committed, with the marker; so it is no failure of the handler's that might be
 * tried again, and the next copy is a duplicate. */
static void nor_is_what_fails_behind_a_commit_the_handlers_failure(void **state)
{
    server_case *c = *state;
    static const char *const ends[][2] = {
        {"CALL commits()", "INSERT INTO nowhere VALUES (1)"},
        {"CALL commits_and_fails()", "INSERT INTO effect VALUES ('b')"},
        {"EXECUTE IMMEDIATE 'COMMIT'", "INSERT INTO nowhere VALUES (1)"},
        {"EXECUTE IMMEDIATE 'CREATE OR REPLACE TABLE by_the_way (id int)'",
         "INSERT INTO nowhere VALUES (1)"}};
    server_run(c->base.place.url,
               "CREATE PROCEDURE commits() BEGIN INSERT INTO effect VALUES ('a'); COMMIT; END");
    server_run(c->base.place.url,
               "CREATE PROCEDURE commits_and_fails() BEGIN COMMIT; INSERT INTO nowhere "
               "VALUES (1); END");
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char id[] = {'m', (char)('0' + i), 0};
        plan p = {.sql = {ends[i][0], ends[i][1]}, .outbox = c->outbox};
        plan none = {.sql = {NULL}};
        QUEUES(SEMEL_EMISUSE, SEMEL_UNDECIDED, c, id, &p);
        assert_false(last_error.retryable);
        SAYS("is committed");
        QUEUES(SEMEL_OK, SEMEL_DUPLICATE, c, id, &none);
    }
    assert_int_equal(case_number(c, "SELECT count(*) FROM effect WHERE id = 'b'"), 0);
    assert_int_equal(case_unsent(c), 0);
    assert_int_equal(case_open_transactions(c), 0);
}

/* One that fails and has committed nothing is a failure like any other. */
static void a_procedure_that_fails_is_the_handlers_failure(void **state)
{
    server_case *c = *state;
    plan p = {.sql = {"CALL fails()", "INSERT INTO effect VALUES ('b')"}, .outbox = c->outbox};
    plan behind = {.sql = {"CALL works()", "INSERT INTO nowhere VALUES (1)"}, .outbox = c->outbox};
    plan good = {.sql = {"CALL works()"}};
    server_run(c->base.place.url,
               "CREATE PROCEDURE fails() BEGIN INSERT INTO effect VALUES ('a'); INSERT "
               "INTO nowhere VALUES (1); END");
    server_run(c->base.place.url, "CREATE PROCEDURE works() INSERT INTO effect VALUES ('c')");
    QUEUES(SEMEL_EHANDLER, SEMEL_FAILED, c, "m", &p);
    QUEUES(SEMEL_EHANDLER, SEMEL_FAILED, c, "m", &behind);
    assert_int_equal(effects(c), 0);
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c, "m", &good);
    assert_int_equal(effects(c), 1);
    assert_int_equal(case_unsent(c), 0);
}

/* --- failures --------------------------------------------------------------------------------- */

/* Each by the number that the server gives it, and all of them the handler's. */
static void what_fails_is_the_handlers_and_told_by_number(void **state)
{
    server_case *c = *state;
    static const struct {
        const char *sql;
        int number;
    } wrong[] = {{"INSERT INTO nowhere VALUES (1)", 1146},
                 {"INSERT INTO u VALUES (1)", 1062},
                 {"INSERT INTO u VALUES ('x')", 1366},
                 {"SELEKT 1", 1064},
                 {"INSERT INTO u (y) VALUES (1)", 1054},
                 {"LOAD DATA INFILE '/nowhere' INTO TABLE u", 0},
                 {"SELECT 1 INTO undeclared", 1327},
                 {"INSERT INTO u VALUES (9223372036854775807 + 1)", 1690}};
    server_run(c->base.place.url, "CREATE TABLE u (x int PRIMARY KEY); INSERT INTO u VALUES (1)");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char id[] = {'m', (char)('0' + i), 0};
        plan p = {.sql = {"INSERT INTO effect VALUES ('a')", wrong[i].sql},
                  .outbox = c->outbox,
                  .result = "receipt"};
        plan good = {.sql = {"INSERT INTO effect VALUES ('b')"}};
        QUEUES(SEMEL_EHANDLER, SEMEL_FAILED, c, id, &p);
        if (wrong[i].number && last_error.native != wrong[i].number)
            fail_msg("%s: %d, %s", wrong[i].sql, last_error.native, last_error.text);
        assert_int_equal(strlen(last_error.sqlstate), 5);
        QUEUES(SEMEL_OK, SEMEL_PROCESSED, c, id, &good);
    }
    assert_int_equal(case_number(c, "SELECT count(*) FROM effect WHERE id = 'a'"), 0);
    assert_int_equal(case_unsent(c), 0);
    assert_int_equal(case_open_transactions(c), 0);
}

/* Our own tables are no business of the handler's. */
static void what_fails_of_ours_is_not_the_handlers(void **state)
{
    server_case *c = *state;
    plan p = {.sql = {"INSERT INTO effect VALUES ('a')"}, .outbox = c->outbox};
    server_run(c->base.place.url, "RENAME TABLE semel_outbox TO hidden");
    QUEUES(SEMEL_ESCHEMA, SEMEL_UNDECIDED, c, "m", &p);
    server_run(c->base.place.url, "RENAME TABLE hidden TO semel_outbox, semel_marker TO gone");
    QUEUES(SEMEL_ESCHEMA, SEMEL_UNDECIDED, c, "m", &p);
    server_run(c->base.place.url, "RENAME TABLE gone TO semel_marker");
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c, "m", &p);
    assert_int_equal(effects(c), 1);
}

/* --- what is there ---------------------------------------------------------------------------- */

static void every_state_of_a_key_is_answered(void **state)
{
    server_case *c = *state;
    plan p = {.sql = {"INSERT INTO effect VALUES ('a')"}};
    plan bad = {.sql = {"INSERT INTO nowhere VALUES (1)"}};
    semel_inbox_options options = {.size = sizeof options, .attempts_max = 2};
    case_close(c);
    case_open(c, CASE_BUSY_MS, &options);
    QUEUES(SEMEL_EHANDLER, SEMEL_FAILED, c, "open", &bad);
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c, "open", &p); /* free, and not new */
    QUEUES(SEMEL_OK, SEMEL_DUPLICATE, c, "open", &p);
    QUEUES(SEMEL_EHANDLER, SEMEL_FAILED, c, "dead", &bad);
    QUEUES(SEMEL_OK, SEMEL_DEAD, c, "dead", &bad);
    QUEUES(SEMEL_OK, SEMEL_DEAD, c, "dead", &p);
    server_run(c->base.place.url,
               "INSERT INTO semel_marker (inbox, `key`, state, at_ms, attempts, token, "
               "lease_until_ms) SELECT id, 'held', 1, 0, 1, 7, 9e15 FROM semel_scope WHERE "
               "kind = 1");
    semel_message message = text_message("held", "10 EUR");
    semel_outcome out;
    options.on_in_flight = SEMEL_IN_FLIGHT_REPORT;
    case_close(c);
    case_open(c, CASE_BUSY_MS, &options);
    FAILS(SEMEL_EBUSY, semel_inbox_receive(&out, c->inbox, &message, queue_all, &p, &last_error));
    assert_int_equal(out, SEMEL_IN_PROGRESS);
    assert_int_equal(effects(c), 1);
    assert_int_equal(case_open_transactions(c), 0);
}

static void a_copy_with_other_content_is_a_mismatch(void **state)
{
    server_case *c = *state;
    plan p = {.sql = {"INSERT INTO effect VALUES ('a')"}};
    semel_message message = text_message("m", "11 EUR");
    semel_outcome out;
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c, "m", &p);
    for (int i = 0; i < 8; i++) { /* by a block, and by a look */
        FAILS(SEMEL_EREJECTED,
              semel_inbox_receive(&out, c->inbox, &message, queue_all, &p, &last_error));
        assert_int_equal(out, SEMEL_MISMATCH);
        QUEUES(SEMEL_OK, SEMEL_DUPLICATE, c, "m", &p);
    }
}

/* --- sizes ------------------------------------------------------------------------------------ */

/* The text is longer than the server takes in one piece, and the key may be known: nothing is half
 * done. */
static void what_is_too_long_for_one_text_goes_in_several(void **state)
{
    server_case *c = *state;
    static char blob[6 << 20], larger[9 << 20]; /* twice that in hexadecimal, of 16 MiB */
    semel_value value = semel_blob((semel_bytes){blob, sizeof blob});
    plan p = {.sql = {"INSERT INTO b VALUES (?)"}, .values = &value, .count = 1};
    memset(blob, 'x', sizeof blob);
    server_run(c->base.place.url, "CREATE TABLE b (x longblob)");
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c, "one", &p);
    p.outbox = c->outbox;
    p.result = "receipt";
    p.sql[1] = "INSERT INTO b SELECT * FROM b LIMIT 1";
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c, "two", &p);
    QUEUES(SEMEL_OK, SEMEL_DUPLICATE, c, "one", &p);
    assert_int_equal(case_number(c, "SELECT count(*) FROM b WHERE length(x) = 6291456"), 3);
    value.bytes = (semel_bytes){larger, sizeof larger};
    QUEUES(SEMEL_ELIMIT, SEMEL_FAILED, c, "three", &p);
    SAYS("max_allowed_packet");
    assert_int_equal(case_unsent(c), 1);
}

static semel_status queue_three(semel_unit *unit, const semel_message *message, void *context,
                                semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (int i = 0; !status && i < 3; i++)
        status = queue_all(unit, message, context, err);
    return status;
}

static void a_duplicate_that_is_noticed_half_way_does_nothing(void **state)
{
    server_case *c = *state;
    static char blob[6 << 20];
    semel_value value = semel_blob((semel_bytes){blob, sizeof blob});
    plan p = {.sql = {"INSERT INTO b VALUES (?)"}, .values = &value, .count = 1};
    semel_message message = text_message("m", "10 EUR");
    semel_outcome out;
    server_run(c->base.place.url, "CREATE TABLE b (x longblob)");
    OK(semel_inbox_receive(&out, c->inbox, &message, queue_three, &p, &last_error));
    assert_int_equal(out, SEMEL_PROCESSED);
    for (int i = 0; i < 6; i++) {
        OK(semel_inbox_receive(&out, c->inbox, &message, queue_three, &p, &last_error));
        assert_int_equal(out, SEMEL_DUPLICATE);
    }
    assert_int_equal(case_number(c, "SELECT count(*) FROM b"), 3);
    assert_int_equal(case_open_transactions(c), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(values_come_out_as_they_were_put_in, by_queue),
        CASE(values_come_out_as_they_were_put_in, by_transaction),
        CASE(the_locale_does_not_change_numbers, by_queue),
        CASE(what_is_no_value_fails, by_queue),
        CASE(what_is_no_value_fails, by_transaction),
        CASE(marks_are_where_the_server_would_see_them, by_queue),
        CASE(a_value_does_not_run_into_the_word_before_it, by_queue),
        CASE(a_value_does_not_run_into_the_word_before_it, by_transaction),
        CASE(rows_are_thrown_away, by_queue),
        CASE(rows_are_thrown_away, by_transaction),
        CASE(rows_are_thrown_away, by_claim),
        CASE(a_procedure_may_be_called, by_queue),
        CASE(a_procedure_may_be_called, by_transaction),
        CASE(a_procedure_that_commits_is_noticed, by_queue),
        CASE(a_procedure_that_commits_is_noticed, by_transaction),
        CASE(nor_is_what_fails_behind_a_commit_the_handlers_failure, by_queue),
        CASE(nor_is_what_fails_behind_a_commit_the_handlers_failure, by_transaction),
        CASE(nor_is_what_fails_behind_a_commit_the_handlers_failure, by_claim),
        CASE(a_procedure_that_fails_is_the_handlers_failure, by_queue),
        CASE(a_procedure_that_fails_is_the_handlers_failure, by_transaction),
        CASE(a_procedure_that_fails_is_the_handlers_failure, by_claim),
        CASE(what_fails_is_the_handlers_and_told_by_number, by_queue),
        CASE(what_fails_is_the_handlers_and_told_by_number, by_transaction),
        CASE(what_fails_of_ours_is_not_the_handlers, by_queue),
        CASE(every_state_of_a_key_is_answered, by_queue),
        CASE(a_copy_with_other_content_is_a_mismatch, by_queue),
        CASE(a_copy_with_other_content_is_a_mismatch, by_transaction),
        CASE(what_is_too_long_for_one_text_goes_in_several, by_queue),
        CASE(what_is_too_long_for_one_text_goes_in_several, by_transaction),
        CASE(a_duplicate_that_is_noticed_half_way_does_nothing, by_queue),
    };
    return cmocka_run_group_tests_name("mariadb: queued statements", tests, NULL, NULL);
}
