/* Units on PostgreSQL: handlers that do with the connection what they must not, the public steps,
 * what is committed how, the pool, fork(). Joined transactions are in test_postgres_join.c. */
#include "support/process/process.h"
#include "support/process/threads.h"
#include "support/servers/sql/server_case.h"

#include <libpq-fe.h>
#include <semel/postgres.h>
#include <stdio.h>
#include <string.h>

/* --- handlers that misbehave ------------------------------------------------------------------ */

typedef void misdeed(PGconn *conn);

static void run(PGconn *conn, const char *sql)
{
    PQclear(PQexec(conn, sql));
}

static void commit(PGconn *conn)
{
    run(conn, "COMMIT");
}
static void commit_and_begin(PGconn *conn)
{
    run(conn, "COMMIT");
    run(conn, "BEGIN");
}
static void commit_and_chain(PGconn *conn)
{
    run(conn, "COMMIT AND CHAIN");
}
static void roll_back(PGconn *conn)
{
    run(conn, "ROLLBACK");
}
static void roll_back_and_begin(PGconn *conn)
{
    run(conn, "ROLLBACK");
    run(conn, "BEGIN");
}
static void roll_back_and_chain(PGconn *conn)
{
    run(conn, "ROLLBACK AND CHAIN");
}
static void ignore_a_failure(PGconn *conn)
{
    run(conn, "SELECT 1 / 0");
}
static void leave_a_copy_in(PGconn *conn)
{
    run(conn, "COPY effect FROM STDIN");
}
static void leave_a_copy_out(PGconn *conn)
{
    run(conn, "COPY (SELECT generate_series(1, 100000)) TO STDOUT");
}
static void leave_rows_unread(PGconn *conn)
{
    (void)PQsendQuery(conn, "SELECT generate_series(1, 100000)");
}
static void leave_rows_half_read(PGconn *conn)
{
    (void)PQsendQuery(conn, "SELECT generate_series(1, 100000)");
    (void)PQsetSingleRowMode(conn);
    PQclear(PQgetResult(conn));
}
static void leave_a_pipeline_unread(PGconn *conn)
{
    (void)PQenterPipelineMode(conn);
    (void)PQsendQueryParams(conn, "SELECT 1 / 0", 0, NULL, NULL, NULL, NULL, 0);
    (void)PQpipelineSync(conn);
}
static void leave_a_pipeline_open(PGconn *conn)
{
    (void)PQenterPipelineMode(conn);
    (void)PQsendQueryParams(conn, "SELECT 1 / 0", 0, NULL, NULL, NULL, NULL, 0);
}

static void do_misdeed(case_work *self, semel_unit *unit, const semel_message *message)
{
    misdeed *what;
    memcpy(&what, self->context, sizeof what);
    if (!self->work.only || strncmp(self->work.only, message->id.data, message->id.len) == 0)
        what(semel_unit_postgres(unit));
}

typedef struct bad_habit {
    const char *name;
    misdeed *what;
    int commits; /* its own COMMIT is PostgreSQL's to carry out, with the marker in it */
    int fails;   /* it is the handler's failure, and counted as such */
} bad_habit;

static const bad_habit habits[] = {{"commit", commit, 1, 0},
                                   {"commit and begin", commit_and_begin, 1, 0},
                                   {"commit and chain", commit_and_chain, 1, 0},
                                   {"roll back", roll_back, 0, 0},
                                   {"roll back and begin", roll_back_and_begin, 0, 0},
                                   {"roll back and chain", roll_back_and_chain, 0, 0},
                                   {"ignore a failure", ignore_a_failure, 0, 1},
                                   {"leave a copy in", leave_a_copy_in, 0, 0},
                                   {"leave a copy out", leave_a_copy_out, 0, 0},
                                   {"leave rows unread", leave_rows_unread, 0, 0},
                                   {"leave rows half read", leave_rows_half_read, 0, 0},
                                   {"leave a pipeline unread", leave_a_pipeline_unread, 0, 0},
                                   {"leave a pipeline open", leave_a_pipeline_open, 0, 0}};

enum { HABITS = sizeof habits / sizeof *habits };

/* Reported, not committed, and the next ones on that store are none the worse. */
static void show_habit(server_case *c, const bad_habit *habit, const semel_message *mail)
{
    char id[16];
    semel_outcome out;
    misdeed *what = habit->what;
    case_work todo = {.after = do_misdeed, .context = &what};
    todo.work.outbox = mail ? c->outbox : NULL;
    todo.work.sends = mail;
    todo.work.result = mail ? "receipt" : NULL;
    (void)snprintf(id, sizeof id, "%c%d", mail ? 'm' : 'n', (int)(habit - habits));
    semel_status status = case_receive(c, &out, id, &todo, &last_error);
    if (status != (habit->fails ? SEMEL_EHANDLER : SEMEL_EMISUSE) ||
        out != (habit->fails ? SEMEL_FAILED : SEMEL_UNDECIDED))
        fail_msg("%s: %s, %s (%s)", habit->name, semel_status_name(status), semel_outcome_name(out),
                 last_error.text);
    if (case_times(c, id) != habit->commits)
        fail_msg("%s: done %d times", habit->name, case_times(c, id));
    CASE_RECEIVES(SEMEL_OK, habit->commits ? SEMEL_DUPLICATE : SEMEL_PROCESSED, c, id, NULL);
    if (case_times(c, id) != 1 || case_unsent(c) != 0)
        fail_msg("%s: in the end done %d times, and %d sent", habit->name, case_times(c, id),
                 (int)case_unsent(c));
}

static void a_handler_that_misbehaves_is_told_so(void **state)
{
    server_case *c = *state;
    semel_message mail = text_message("mail", "paid");
    for (int i = 0; i < HABITS; i++) {
        show_habit(c, &habits[i], NULL);
        show_habit(c, &habits[i], &mail);
    }
    assert_true(case_open_transactions(c) == 0);
}

/* The others of the batch are no worse off than if it had failed. (A handler's own COMMIT would
 * commit the markers of the whole batch: nothing can be done about that one, but to say so.) */
static void in_a_batch_it_spoils_nothing_that_redelivery_does_not_mend(void **state)
{
    server_case *c = *state;
    for (int i = 0; i < HABITS; i++) {
        char id[16], bad[32];
        semel_outcome out;
        misdeed *what = habits[i].what;
        if (habits[i].commits)
            continue;
        (void)snprintf(id, sizeof id, "b%d", i);
        (void)snprintf(bad, sizeof bad, "b%d.1", i);
        case_work todo = {.after = do_misdeed, .context = &what, .work = {.only = bad}};
        semel_status status = case_receive(c, &out, id, &todo, &last_error);
        if (!status && out == SEMEL_PROCESSED)
            fail_msg("%s: not noticed", habits[i].name);
        if (last_error.status != (habits[i].fails ? SEMEL_EHANDLER : SEMEL_EMISUSE) &&
            status != SEMEL_EBUSY)
            fail_msg("%s: %s", habits[i].name, last_error.text);
        (void)case_settle(c, id, NULL);
        if (case_times(c, id) != 1)
            fail_msg("%s: done %d times", habits[i].name, case_times(c, id));
    }
}

/* What is merely unusual does no harm, or is reported: never half of it. */
static void leave_pipeline_mode_on(PGconn *conn)
{
    (void)PQenterPipelineMode(conn);
}
static void leave_it_nonblocking(PGconn *conn)
{
    (void)PQsetnonblocking(conn, 1);
}
static void deallocate_all(PGconn *conn)
{
    run(conn, "DEALLOCATE ALL");
}
static void discard_plans(PGconn *conn)
{
    run(conn, "DISCARD PLANS");
}
static void end_the_session(PGconn *conn)
{
    run(conn, "SELECT pg_terminate_backend(pg_backend_pid())");
}
static void set_a_strict_timeout(PGconn *conn)
{
    run(conn, "SET statement_timeout = 60000"); /* the session keeps it: no server is so slow */
}
static void forget_the_path(PGconn *conn)
{
    run(conn, "SET LOCAL search_path = pg_catalog");
}

static void unusual_handlers_get_all_or_nothing(void **state)
{
    server_case *c = *state;
    static misdeed *const deeds[] = {
        leave_pipeline_mode_on, leave_it_nonblocking, deallocate_all, discard_plans,
        end_the_session,        set_a_strict_timeout, forget_the_path};
    for (int i = 0; i < 3; i++) /* until all is prepared */
        CASE_RECEIVES(SEMEL_OK, i ? SEMEL_DUPLICATE : SEMEL_PROCESSED, c, "warm", NULL);
    for (int i = 0; i < (int)(sizeof deeds / sizeof *deeds); i++) {
        char id[16];
        semel_outcome out;
        misdeed *what = deeds[i];
        case_work todo = {.after = do_misdeed, .context = &what};
        (void)snprintf(id, sizeof id, "u%d", i);
        semel_status status = case_receive(c, &out, id, &todo, &last_error);
        if (status == SEMEL_EUNKNOWN)
            fail_msg("deed %d: the server has answered, so it is known: %s", i, last_error.text);
        assert_true(!status == (out == SEMEL_PROCESSED));
        assert_int_equal(case_times(c, id), !status);
        assert_int_equal(case_settle(c, id, NULL), status ? SEMEL_PROCESSED : SEMEL_DUPLICATE);
        CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, "warm", NULL);
    }
}

/* --- handles that are none -------------------------------------------------------------------- */

static semel_status expect_no_handle(semel_unit *unit, const semel_message *message, void *context,
                                     semel_error *err)
{
    (void)message;
    (void)context;
    return semel_unit_postgres(unit) ? semel_fail(err, SEMEL_EHANDLER, "there is a handle")
                                     : SEMEL_OK;
}

static void plans_and_claims_have_no_handle(void **state)
{
    server_case *c = *state;
    semel_message message = text_message("m", "10 EUR");
    semel_outcome out;
    OK(semel_inbox_receive(&out, c->inbox, &message, expect_no_handle, NULL, &last_error));
    assert_int_equal(out, SEMEL_PROCESSED);
}

static void another_store_has_no_handle(void **state)
{
    server_case *c = *state;
    semel_store *memory = NULL;
    semel_unit *unit = NULL, *joined = NULL;
    OK(semel_store_open(&memory, "memory:", NULL, &last_error));
    OK(semel_unit_begin(&unit, memory, &last_error));
    assert_null(semel_unit_postgres(unit));
    semel_unit_rollback(unit);
    OK(semel_unit_begin(&unit, c->base.store, &last_error));
    FAILS(SEMEL_EUNSUPPORTED,
          semel_unit_join_postgres(&joined, memory, semel_unit_postgres(unit), &last_error));
    semel_unit_rollback(unit);
    semel_store_close(memory);
}

/* --- steps ------------------------------------------------------------------------------------ */

static semel_unit *take(server_case *c, semel_message *message, const char *id)
{
    semel_unit *unit = NULL;
    semel_outcome out;
    *message = text_message(id, "10 EUR");
    OK(semel_unit_begin(&unit, c->base.store, &last_error));
    OK(semel_unit_claim(&out, unit, c->inbox, message, &last_error));
    assert_int_equal(out, SEMEL_CLAIMED);
    return unit;
}

static void several_units_are_open_in_one_thread(void **state)
{
    server_case *c = *state;
    semel_message messages[3];
    semel_unit *units[3];
    units[0] = take(c, &messages[0], "a");
    units[1] = take(c, &messages[1], "b");
    units[2] = take(c, &messages[2], "c");
    assert_true(case_sql(units[1], "INSERT INTO effect VALUES ('b')"));
    assert_true(case_sql(units[0], "INSERT INTO effect VALUES ('a')"));
    assert_true(case_sql(units[2], "INSERT INTO effect VALUES ('c')"));
    OK(semel_unit_commit(units[0], &last_error));
    semel_unit_rollback(units[1]);
    OK(semel_unit_commit(units[2], &last_error));
    assert_int_equal(case_number(c, "SELECT count(*) FROM effect WHERE id <> 'b'"), 2);
    assert_int_equal(case_number(c, "SELECT count(*) FROM effect"), 2);
    assert_int_equal(case_number(c, "SELECT count(*) FROM semel_marker"), 2);
}

static void work_before_the_claim_is_refused_where_it_would_be_undone(void **state)
{
    server_case *c = *state;
    semel_unit *unit = NULL;
    semel_outcome out;
    semel_message message = text_message("m", "10 EUR");
    message.delivery = 2;
    OK(semel_unit_begin(&unit, c->base.store, &last_error));
    assert_true(case_sql(unit, "INSERT INTO effect VALUES ('early')"));
    FAILS(SEMEL_EMISUSE, semel_unit_claim(&out, unit, c->inbox, &message, &last_error));
    SAYS("claim first");
    semel_unit_rollback(unit);
    OK(semel_unit_begin(&unit, c->base.store, &last_error));
    assert_true(case_sql(unit, "SELECT 1")); /* which is no work */
    OK(semel_unit_claim(&out, unit, c->inbox, &message, &last_error));
    assert_int_equal(out, SEMEL_CLAIMED);
    OK(semel_unit_commit(unit, &last_error));
    assert_int_equal(case_number(c, "SELECT count(*) FROM effect"), 0);
}

/* With a first delivery the marker may come later in the transaction, behind a savepoint of its
 * own. */
static void work_before_the_claim_of_a_first_delivery_stays(void **state)
{
    server_case *c = *state;
    semel_unit *held, *unit = NULL;
    semel_outcome out;
    semel_message first, again = text_message("m", "10 EUR"), other = text_message("n", "10 EUR");
    semel_inbox_options options = {.size = sizeof options, .on_in_flight = SEMEL_IN_FLIGHT_REPORT};
    case_close(c);
    case_open(c, CASE_BUSY_MS, &options);
    held = take(c, &first, "m");
    OK(semel_unit_begin(&unit, c->base.store, &last_error));
    assert_true(case_sql(unit, "INSERT INTO effect VALUES ('early')"));
    FAILS(SEMEL_EBUSY, semel_unit_claim(&out, unit, c->inbox, &again, &last_error));
    semel_unit_rollback(unit);
    OK(semel_unit_begin(&unit, c->base.store, &last_error));
    assert_true(case_sql(unit, "INSERT INTO effect VALUES ('early')"));
    OK(semel_unit_claim(&out, unit, c->inbox, &other, &last_error));
    OK(semel_unit_commit(unit, &last_error));
    semel_unit_rollback(held);
    assert_int_equal(case_number(c, "SELECT count(*) FROM effect"), 1);
}

/* --- what may be lost with the power ---------------------------------------------------------- */

/* Notes how each transaction that changes a marker or stores a letter will commit. */
static void note_commits(server_case *c)
{
    server_run(c->base.place.url,
               "CREATE TABLE commits (what text, how text);"
               "CREATE FUNCTION note_commit() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN "
               "INSERT INTO commits VALUES (TG_TABLE_NAME, current_setting('synchronous_commit')); "
               "RETURN NULL; END$$;"
               "CREATE TRIGGER note_marker AFTER INSERT OR UPDATE ON semel_marker "
               "FOR EACH ROW EXECUTE FUNCTION note_commit();"
               "CREATE TRIGGER note_dead AFTER INSERT OR UPDATE ON semel_dead "
               "FOR EACH ROW EXECUTE FUNCTION note_commit()");
}

/* A caller that learns that a message is dead acknowledges it: so its letter is committed as
 * durably as work is. A failed attempt (by itself, not in the transaction of a batch) is not, which
 * shows that the test can see the difference. */
static void a_dead_letter_is_committed_as_work_is(void **state)
{
    server_case *c = *state;
    case_work failing = {.work = {.failures = CASE_BATCH}},
              hopeless = {.work = {.failures = CASE_BATCH, .failure = SEMEL_EGIVEUP}};
    int letters = c->mode == BY_BATCH ? CASE_BATCH : 1;
    note_commits(c);
    assert_int_equal(case_settle(c, "m", &failing), SEMEL_PROCESSED);
    assert_int_equal(
        case_number(c, "SELECT count(*) FROM commits WHERE what = 'semel_marker' AND how = 'off'") >
            0,
        c->mode != BY_BATCH);
    CASE_RECEIVES(SEMEL_OK, SEMEL_DEAD, c, "n", &hopeless);
    assert_int_equal(
        case_number(c, "SELECT count(*) FROM commits WHERE what = 'semel_dead' AND how = 'on'"),
        letters);
    assert_int_equal(
        case_number(c, "SELECT count(*) FROM commits WHERE what = 'semel_dead' AND how <> 'on'"),
        0);
}

/* A claim that a crash of the server undoes is claimed again, as if nothing had been done. */
static void a_durable_claim_is_committed_as_work_is(void **state)
{
    server_case *c = *state;
    case_work done = {0};
    semel_inbox_options options = {.size = sizeof options, .durable_claims = 1};
    case_close(c);
    case_open(c, CASE_BUSY_MS, &options);
    note_commits(c);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m", &done);
    assert_true(case_number(c, "SELECT count(*) FROM commits WHERE how = 'on'") >= 2);
    assert_int_equal(case_number(c, "SELECT count(*) FROM commits WHERE how <> 'on'"), 0);
}

/* --- the pool --------------------------------------------------------------------------------- */

typedef struct asker {
    semel_store *store;
    semel_status status;
    semel_error err;
} asker;

static void ask_for_a_unit(test_thread *member)
{
    asker *self = member->context;
    semel_unit *unit = NULL;
    self->status = semel_unit_begin(&unit, self->store, &self->err);
    if (!self->status)
        semel_unit_rollback(unit);
}

static void a_pool_of_one_is_waited_for_and_not_by_oneself(void **state)
{
    server_case *c = *state;
    char url[SERVER_URL_ROOM];
    semel_unit *unit = NULL, *second = NULL;
    test_thread thread;
    case_close(c);
    (void)snprintf(url, sizeof url, "%.490s&pool=1", c->base.place.url);
    case_open_at(c, url, 1500, NULL);
    OK(semel_unit_begin(&unit, c->base.store, &last_error));
    FAILS(SEMEL_EMISUSE, semel_unit_begin(&second, c->base.store, &last_error));
    asker other = {.store = c->base.store};
    int64_t began = process_now_ms();
    test_thread_start(&thread, ask_for_a_unit, &other);
    assert_true(test_thread_join(&thread, CASE_WAIT_MS));
    assert_int_equal(other.status, SEMEL_EBUSY);
    assert_true(process_now_ms() - began >= 1499);
    semel_unit_rollback(unit);
    case_close(c);
    case_open_at(c, url, CASE_WAIT_MS, NULL); /* this thread may be kept from giving it back */
    OK(semel_unit_begin(&unit, c->base.store, &last_error));
    other.store = c->base.store;
    test_thread_start(&thread, ask_for_a_unit, &other);
    semel_unit_rollback(unit);
    assert_true(test_thread_join(&thread, CASE_WAIT_MS));
    assert_int_equal(other.status, SEMEL_OK);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m", NULL);
}

static int use_in_child(void *context)
{
    server_case *c = context;
    semel_unit *unit = NULL;
    semel_error err = {0};
    semel_outcome out;
    int64_t now;
    PROCESS_REQUIRE(semel_unit_begin(&unit, c->base.store, &err) == SEMEL_EMISUSE);
    PROCESS_REQUIRE(case_receive(c, &out, "child", NULL, &err) == SEMEL_EMISUSE);
    PROCESS_REQUIRE(semel_store_now(&now, c->base.store, &err) == SEMEL_EMISUSE);
    case_close(c); /* sends nothing on the parent's connections */
    return PROCESS_OK;
}

static void a_store_is_not_carried_over_fork(void **state)
{
    server_case *c = *state;
    semel_message message;
    semel_unit *unit = take(c, &message, "m"); /* open while the child closes its copy */
    assert_int_equal(process_run(use_in_child, c), PROCESS_OK);
    assert_true(case_sql(unit, "INSERT INTO effect VALUES ('m')"));
    OK(semel_unit_commit(unit, &last_error));
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "n", NULL);
    assert_int_equal(case_times(c, "m"), 1);
}

int main(void)
{
    static const server_test tests[] = {
        SERVER_TEST(a_handler_that_misbehaves_is_told_so, POSTGRES_ONLY),
        SERVER_TEST(in_a_batch_it_spoils_nothing_that_redelivery_does_not_mend,
                    IN_BATCH | POSTGRES_ONLY),
        SERVER_TEST(unusual_handlers_get_all_or_nothing, POSTGRES_ONLY),
        SERVER_TEST(plans_and_claims_have_no_handle, IN_QUEUE | IN_CLAIM | POSTGRES_ONLY),
        SERVER_TEST(another_store_has_no_handle, POSTGRES_ONLY),
        SERVER_TEST(several_units_are_open_in_one_thread, POSTGRES_ONLY),
        SERVER_TEST(work_before_the_claim_is_refused_where_it_would_be_undone,
                    IN_TRANSACTION | IN_CLAIM | POSTGRES_ONLY),
        SERVER_TEST(work_before_the_claim_of_a_first_delivery_stays, POSTGRES_ONLY),
        SERVER_TEST(a_dead_letter_is_committed_as_work_is, IN_ALL_MODES | POSTGRES_ONLY),
        SERVER_TEST(a_durable_claim_is_committed_as_work_is, IN_CLAIM | POSTGRES_ONLY),
        SERVER_TEST(a_pool_of_one_is_waited_for_and_not_by_oneself, POSTGRES_ONLY),
        SERVER_TEST(a_store_is_not_carried_over_fork, POSTGRES_ONLY)};
    return SERVER_TESTS(tests);
}
