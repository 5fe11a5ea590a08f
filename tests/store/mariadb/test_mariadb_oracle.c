/* A server whose sessions speak Oracle's dialect (sql_mode=ORACLE): compound statements are written
 * otherwise there, so the store does without them. All else is as it is everywhere: each mode,
 * duplicates, relaying, sweeping, joining. */
#include "mariadb_kit.h"

#include <semel/test.h>

static server_own own;

static int start_server(void **state)
{
    (void)state;
    server_own_start(&own, SERVER_MARIADB);
    server_run(own.at.url, "SET GLOBAL sql_mode = 'ORACLE'");
    assert_int_equal(
        server_number(own.at.url, "SELECT FIND_IN_SET('ORACLE', @@global.sql_mode) > 0"), 1);
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    server_own_stop(&own);
    return 0;
}

static int open_at_own(void **state, case_mode mode)
{
    server_shape shape = {.kind = SERVER_MARIADB, .mode = mode};
    semel_inbox_options options = {.size = sizeof options, .retention_ms = SEMEL_RETENTION_NONE};
    server_case *c = calloc(1, sizeof *c);
    case_make(c, &own.at, &shape, "");
    case_open(c, CASE_BUSY_MS, &options);
    *state = c;
    return 0;
}

static int own_transaction(void **state)
{
    return open_at_own(state, BY_TRANSACTION);
}

static int own_queue(void **state)
{
    return open_at_own(state, BY_QUEUE);
}

static int own_claim(void **state)
{
    return open_at_own(state, BY_CLAIM);
}

static int own_batch(void **state)
{
    return open_at_own(state, BY_BATCH);
}

/* --- receiving, sending, relaying ------------------------------------------------------------- */

static size_t relay_all(server_case *c)
{
    semel_transport *recorder = NULL;
    semel_relay *relay = NULL;
    size_t sent = 0;
    OK(semel_test_recorder_open(&recorder, &last_error));
    OK(semel_relay_open(&relay, c->outbox, recorder, NULL, &last_error));
    do
        OK(semel_relay_step(&sent, relay, 0, &last_error));
    while (sent);
    sent = semel_test_recorder_count(recorder);
    semel_relay_close(relay);
    semel_transport_close(recorder);
    return sent;
}

static void messages_are_processed_once_and_what_they_send_is_relayed(void **state)
{
    enum { MESSAGES = 12 };
    server_case *c = *state;
    unsigned each = c->mode == BY_BATCH ? CASE_BATCH : 1;
    for (int i = 0; i < MESSAGES; i++) {
        char id[16], out[24];
        (void)snprintf(id, sizeof id, "m-%d", i);
        (void)snprintf(out, sizeof out, "of-m-%d", i);
        semel_message message = text_message(out, "it's \"10\" EUR\\");
        case_work todo = {.work = {.outbox = c->outbox, .sends = &message}};
        CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, id, &todo);
        CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, id, NULL);
        assert_int_equal(case_times(c, id), 1);
    }
    assert_int_equal(case_unsent(c), MESSAGES * each);
    assert_int_equal(relay_all(c), MESSAGES * each);
    assert_int_equal(case_unsent(c), 0);
}

static void a_handler_that_fails_leaves_nothing(void **state)
{
    server_case *c = *state;
    case_work fails = {.work = {.failures = CASE_BATCH}};
    semel_outcome outcome;
    (void)case_receive(c, &outcome, "m", &fails, &last_error); /* a batch says it of each */
    assert_int_equal(outcome, SEMEL_FAILED);
    assert_int_equal(case_times(c, "m"), 0);
    assert_int_equal(case_settle(c, "m", NULL), SEMEL_PROCESSED);
    assert_int_equal(case_times(c, "m"), 1);
}

static void old_markers_are_swept(void **state)
{
    server_case *c = *state;
    size_t swept = 0, all = 0;
    int more = 1;
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m", NULL);
    server_pass_ms(c->base.place.url, 1000);
    while (more) {
        OK(semel_inbox_sweep(&swept, &more, c->inbox, 0, &last_error));
        all += swept;
    }
    assert_int_equal(all, c->mode == BY_BATCH ? CASE_BATCH : 1);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m", NULL);
}

static void a_transaction_of_the_callers_is_joined(void **state)
{
    server_case *c = *state;
    semel_unit *unit = NULL;
    semel_message message = text_message("m", "10 EUR");
    semel_outcome outcome;
    MYSQL *my = connect_to(c, c->name, 0);
    SQL(my, "START TRANSACTION");
    OK(semel_unit_join_mariadb(&unit, c->base.store, my, &last_error));
    OK(semel_unit_claim(&outcome, unit, c->inbox, &message, &last_error));
    SQL(my, "INSERT INTO effect VALUES ('m')");
    OK(semel_unit_commit(unit, &last_error));
    SQL(my, "COMMIT");
    mysql_close(my);
    CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, "m", NULL);
    assert_int_equal(case_times(c, "m"), 1);
}

#define IN_ORACLE(function, mode) cmocka_unit_test_setup_teardown(function, mode, close_case)
#define IN_EACH(function)                                                 \
    IN_ORACLE(function, own_transaction), IN_ORACLE(function, own_queue), \
        IN_ORACLE(function, own_claim), IN_ORACLE(function, own_batch)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_EACH(messages_are_processed_once_and_what_they_send_is_relayed),
        IN_EACH(a_handler_that_fails_leaves_nothing),
        IN_EACH(old_markers_are_swept),
        IN_ORACLE(a_transaction_of_the_callers_is_joined, own_transaction),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
