/* Statements and bytes of the application's that a server does not take as they are: how values are
 * read, what becomes of messages whose statements fail, and that nothing is left open. */
#include "support/servers/sql/server_case.h"

#include <stdio.h>
#include <string.h>

enum { ATTEMPTS = 3 };

static semel_outcome receive(semel_inbox *inbox, const char *id, semel_handler *handler,
                             void *context)
{
    semel_outcome out;
    semel_message message = text_message(id, "10 EUR");
    (void)semel_inbox_receive(&out, inbox, &message, handler, context, &last_error);
    return out;
}

/* --- values ----------------------------------------------------------------------------------- */

static semel_status queue_texts(semel_unit *unit, const semel_message *message, void *context,
                                semel_error *err)
{
    (void)message, (void)context;
    semel_value row[] = {semel_text("1234"), semel_text("20240101"), semel_text("2024-01-31"),
                         semel_real(0.5)};
    return semel_unit_queue(unit, "INSERT INTO typed (i, b, d, r) VALUES (?, ?, ?, ?)", row, 4,
                            err);
}

/* A text is a text, whatever its column is: it went over as the column's own bytes once. */
static void a_text_is_read_as_its_columns_type(void **state)
{
    server_case *c = *state;
    case_close(c);
    case_open(c, CASE_BUSY_MS, NULL);
    server_run(c->base.place.url,
               "CREATE TABLE typed (i int, b bigint, d date, r double precision)");
    assert_int_equal(receive(c->inbox, "m", queue_texts, NULL), SEMEL_PROCESSED);
    assert_int_equal(case_number(c, "SELECT count(*) FROM typed WHERE i = 1234 AND b = 20240101 "
                                    "AND d = '2024-01-31' AND r = 0.5"),
                     1);
}

/* --- attempts --------------------------------------------------------------------------------- */

static semel_status queue_nonsense(semel_unit *unit, const semel_message *message, void *context,
                                   semel_error *err)
{
    (void)message, (void)context;
    return semel_unit_queue(unit, "INSERT INTO effect (no_such_column) VALUES (1)", NULL, 0, err);
}

/* The count of the failures before is not forgotten on the short way. */
static void what_keeps_failing_in_queued_mode_is_a_dead_letter(void **state)
{
    server_case *c = *state;
    semel_inbox_options options = {.size = sizeof options, .attempts_max = ATTEMPTS};
    semel_outcome out = SEMEL_UNDECIDED;
    case_close(c);
    case_open(c, CASE_BUSY_MS, &options);
    int deliveries = 0;
    for (; out != SEMEL_DEAD && deliveries < 4 * ATTEMPTS; deliveries++)
        out = receive(c->inbox, "m", queue_nonsense, NULL);
    assert_int_equal(out, SEMEL_DEAD);
    assert_int_equal(deliveries, ATTEMPTS);
}

/* --- batches ---------------------------------------------------------------------------------- */

static semel_status queue_with_a_mark_too_many(semel_unit *unit, const semel_message *message,
                                               void *context, semel_error *err)
{
    semel_value id = semel_blob(message->id);
    int bad = memcmp(message->id.data, context, 1) == 0;
    return semel_unit_queue(
        unit, bad ? "INSERT INTO effect (id) VALUES (?, ?)" : "INSERT INTO effect (id) VALUES (?)",
        &id, 1, err);
}

static void one_bad_statement_fails_one_message_of_a_batch(void **state)
{
    server_case *c = *state;
    semel_message all[3] = {text_message("1", "a"), text_message("2", "b"), text_message("3", "c")};
    const semel_message *const messages[3] = {&all[0], &all[1], &all[2]};
    semel_outcome out[3];
    case_close(c);
    case_open(c, CASE_BUSY_MS, NULL);
    OK(semel_inbox_receive_batch(out, c->inbox, messages, 3, queue_with_a_mark_too_many, "2",
                                 &last_error));
    assert_int_equal(out[0], SEMEL_PROCESSED);
    assert_int_equal(out[1], SEMEL_FAILED);
    assert_int_equal(out[2], SEMEL_PROCESSED);
    assert_int_equal(case_number(c, "SELECT count(*) FROM effect"), 2);
}

/* --- letters ---------------------------------------------------------------------------------- */

static semel_status give_up(semel_unit *unit, const semel_message *message, void *context,
                            semel_error *err)
{
    (void)unit, (void)message, (void)context;
    return semel_fail(err, SEMEL_EGIVEUP, "caf\xe9 is closed"); /* not UTF-8 either */
}

/* What came from elsewhere need not be text, and must not keep its letter from being stored. */
static void a_letter_and_its_announcement_are_kept_whatever_their_bytes(void **state)
{
    server_case *c = *state;
    semel_inbox *inbox = NULL;
    semel_outcome out;
    case_close(c);
    case_open(c, CASE_BUSY_MS, NULL);
    semel_inbox_options options = {.size = sizeof options, .faults = c->outbox};
    semel_message message = text_message("m", "10 EUR");
    message.content_type = "text/\xff";
    message.type = "or\xc0"
                   "der";
    OK(semel_inbox_open(&inbox, c->base.store, "faulty", &options, &last_error));
    OK(semel_inbox_receive(&out, inbox, &message, give_up, NULL, &last_error));
    assert_int_equal(out, SEMEL_DEAD);
    assert_int_equal(case_number(c, "SELECT count(*) FROM semel_dead"), 1);
    assert_int_equal(case_unsent(c), 1);
    semel_inbox_close(inbox);
}

/* --- the pool --------------------------------------------------------------------------------- */

/* A key in another open unit: the answer leaves nothing open on the connection. */
static void after_a_key_in_flight_nothing_is_left_open(void **state)
{
    server_case *c = *state;
    semel_inbox_options options = {.size = sizeof options, .on_in_flight = SEMEL_IN_FLIGHT_REPORT};
    semel_store *other = NULL;
    semel_inbox *elsewhere = NULL;
    semel_unit *unit = NULL;
    semel_outcome out;
    semel_message message = text_message("m", "10 EUR");
    case_close(c);
    case_open(c, CASE_BUSY_MS, &options);
    other = case_other(c);
    OK(semel_inbox_open(&elsewhere, other, "orders", NULL, &last_error));
    OK(semel_unit_begin(&unit, other, &last_error));
    OK(semel_unit_claim(&out, unit, elsewhere, &message, &last_error));
    assert_int_equal(out, SEMEL_CLAIMED);
    CASE_RECEIVES(SEMEL_EBUSY, SEMEL_IN_PROGRESS, c, "m", NULL);
    OK(semel_unit_commit(unit, &last_error));
    assert_int_equal(case_open_transactions(c), 0);
    CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, "m", NULL);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "n", NULL);
    assert_int_equal(case_times(c, "n"), 1);
    semel_inbox_close(elsewhere);
    semel_store_close(other);
}

int main(void)
{
    static const server_test tests[] = {
        SERVER_TEST(a_text_is_read_as_its_columns_type, IN_TRANSACTION | IN_QUEUE),
        SERVER_TEST(what_keeps_failing_in_queued_mode_is_a_dead_letter, IN_TRANSACTION | IN_QUEUE),
        SERVER_TEST(one_bad_statement_fails_one_message_of_a_batch, IN_TRANSACTION | IN_QUEUE),
        SERVER_TEST(a_letter_and_its_announcement_are_kept_whatever_their_bytes, IN_TRANSACTION),
        SERVER_TEST(after_a_key_in_flight_nothing_is_left_open, IN_TRANSACTION | IN_QUEUE)};
    return SERVER_TESTS(tests);
}
