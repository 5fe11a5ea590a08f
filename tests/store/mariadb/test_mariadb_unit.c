/* Units on MariaDB: handlers that do with the connection what they must not, the public steps, the
 * pool, fork(). Joined transactions are in test_mariadb_join.c. */
#include "mariadb_kit.h"
#include "support/process/process.h"
#include "support/process/threads.h"

#include <semel/test.h>

/* --- handlers that misbehave ------------------------------------------------------------------ */

typedef void misdeed(MYSQL *my);

static void run(MYSQL *my, const char *sql)
{
    if (mysql_query(my, sql) == 0)
        mysql_free_result(mysql_store_result(my));
}

static void commit(MYSQL *my)
{
    run(my, "COMMIT");
}
static void commit_and_work_on(MYSQL *my)
{
    run(my, "COMMIT");
    run(my, "INSERT INTO effect VALUES ('stray')");
}
static void commit_and_begin(MYSQL *my)
{
    run(my, "COMMIT");
    run(my, "START TRANSACTION");
    run(my, "INSERT INTO effect VALUES ('stray')");
}
static void commit_and_chain(MYSQL *my)
{
    run(my, "COMMIT AND CHAIN");
}
static void begin_again(MYSQL *my)
{
    run(my, "BEGIN");
    run(my, "INSERT INTO effect VALUES ('stray')");
}
static void create_a_table(MYSQL *my)
{
    run(my, "CREATE OR REPLACE TABLE by_the_way (id int)");
    run(my, "INSERT INTO effect VALUES ('stray')");
}
static void lock_tables(MYSQL *my)
{
    run(my, "LOCK TABLES effect WRITE");
    run(my, "UNLOCK TABLES");
}
static void switch_autocommit_on(MYSQL *my)
{
    run(my, "SET autocommit = 1");
}
static void call_a_procedure_that_commits(MYSQL *my)
{
    run(my, "BEGIN NOT ATOMIC COMMIT; INSERT INTO effect VALUES ('stray'); END");
}
static void roll_back(MYSQL *my)
{
    run(my, "ROLLBACK");
}
static void roll_back_and_work_on(MYSQL *my)
{
    run(my, "ROLLBACK");
    run(my, "INSERT INTO effect VALUES ('stray')");
}
static void leave_rows_unread(MYSQL *my)
{
    (void)mysql_query(my, "SELECT * FROM effect, effect AS other");
}
static void leave_a_second_result(MYSQL *my)
{
    if (mysql_query(my, "SELECT 1; SELECT 2") == 0)
        mysql_free_result(mysql_store_result(my));
}

static void do_misdeed(case_work *self, semel_unit *unit, const semel_message *message)
{
    misdeed *what;
    (void)message;
    memcpy(&what, self->context, sizeof what);
    what(semel_unit_mariadb(unit));
}

/* What it commits itself the server carries out, with the marker in it; what comes after that is
 * never there. */
static const struct bad_habit {
    const char *name;
    misdeed *what;
    int commits;
} habits[] = {{"commit", commit, 1},
              {"commit and work on", commit_and_work_on, 1},
              {"commit and begin", commit_and_begin, 1},
              {"commit and chain", commit_and_chain, 1},
              {"begin again", begin_again, 1},
              {"create a table", create_a_table, 1},
              {"lock tables", lock_tables, 1},
              {"switch autocommit on", switch_autocommit_on, 1},
              {"call a procedure that commits", call_a_procedure_that_commits, 1},
              {"roll back", roll_back, 0},
              {"roll back and work on", roll_back_and_work_on, 0},
              {"leave rows unread", leave_rows_unread, 0},
              {"leave a second result", leave_a_second_result, 0}};

enum { HABITS = sizeof habits / sizeof *habits };

static void show_habit(server_case *c, int index, const semel_message *mail)
{
    char id[16];
    semel_outcome out;
    misdeed *what = habits[index].what;
    case_work todo = {.after = do_misdeed, .context = &what};
    todo.work.outbox = mail ? c->outbox : NULL;
    todo.work.sends = mail;
    todo.work.result = mail ? "receipt" : NULL;
    (void)snprintf(id, sizeof id, "%c%d", mail ? 'm' : 'n', index);
    semel_status status = case_receive(c, &out, id, &todo, &last_error);
    if (status != SEMEL_EMISUSE || out != SEMEL_UNDECIDED)
        fail_msg("%s: %s, %s (%s)", habits[index].name, semel_status_name(status),
                 semel_outcome_name(out), last_error.text);
    if (case_times(c, id) != habits[index].commits || case_times(c, "stray") != 0)
        fail_msg("%s: done %d times, stray %d", habits[index].name, case_times(c, id),
                 case_times(c, "stray"));
    CASE_RECEIVES(SEMEL_OK, habits[index].commits ? SEMEL_DUPLICATE : SEMEL_PROCESSED, c, id, NULL);
    if (case_times(c, id) != 1 || case_unsent(c) != 0)
        fail_msg("%s: in the end done %d times", habits[index].name, case_times(c, id));
}

static void a_handler_that_misbehaves_is_told_so(void **state)
{
    server_case *c = *state;
    semel_message mail = text_message("mail", "paid");
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "warm", NULL);
    for (int i = 0; i < HABITS; i++) {
        show_habit(c, i, NULL);
        show_habit(c, i, &mail);
    }
    assert_int_equal(case_open_transactions(c), 0);
}

static void in_a_batch_it_spoils_nothing_that_redelivery_does_not_mend(void **state)
{
    server_case *c = *state;
    for (int i = 0; i < HABITS; i++) {
        char id[16];
        semel_outcome out;
        misdeed *what = habits[i].what;
        case_work todo = {.after = do_misdeed, .context = &what};
        (void)snprintf(id, sizeof id, "b%d", i);
        check_forget();
        semel_status status = case_receive(c, &out, id, &todo, &last_error);
        if (!status && out == SEMEL_PROCESSED)
            fail_msg("%s: not noticed", habits[i].name);
        if (last_error.status != SEMEL_EMISUSE)
            fail_msg("%s: %s", habits[i].name, last_error.text);
        for (int k = 0; k < CASE_BATCH; k++) {
            char one[24];
            semel_message message;
            case_work nothing = {.wrong = SEMEL_OK};
            (void)snprintf(one, sizeof one, "%s.%d", id, k);
            message = text_message(one, "10 EUR");
            OK(semel_inbox_receive(&out, c->inbox, &message, case_handle, &nothing, &last_error));
        }
    }
    assert_int_equal(case_open_transactions(c), 0);
}

/* A statement that fails undoes itself only, and a handler may live with that. */
static void try_the_impossible(case_work *self, semel_unit *unit, const semel_message *message)
{
    MYSQL *my = semel_unit_mariadb(unit);
    (void)self, (void)message;
    assert_int_not_equal(mysql_query(my, "INSERT INTO nowhere VALUES (1)"), 0);
}

static void a_statement_that_fails_is_the_handlers_own_affair(void **state)
{
    server_case *c = *state;
    case_work todo = {.after = try_the_impossible};
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m", &todo);
    assert_int_equal(case_times(c, "m"), 1);
}

/* --- conflicts -------------------------------------------------------------------------------- */

typedef struct deadlocking {
    unsigned runs;
    int prepared; /* by a prepared statement */
    int ignores;  /* and says that all is well */
    unsigned conflicts;
} deadlocking;

static void fail_prepared(MYSQL *my, const char *sql)
{
    MYSQL_STMT *stmt = mysql_stmt_init(my);
    assert_int_equal(mysql_stmt_prepare(stmt, sql, strlen(sql)), 0);
    assert_int_not_equal(mysql_stmt_execute(stmt), 0);
    mysql_stmt_close(stmt);
}

static void lose_once(case_work *self, semel_unit *unit, const semel_message *message)
{
    static const char deadlock[] =
        "BEGIN NOT ATOMIC ROLLBACK; SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213; END";
    deadlocking *me = self->context;
    MYSQL *my = semel_unit_mariadb(unit);
    (void)message;
    self->wrong = SEMEL_OK;
    if (me->runs++ >= me->conflicts)
        return;
    if (me->prepared)
        fail_prepared(my, deadlock);
    else
        assert_int_not_equal(mysql_query(my, deadlock), 0);
    self->wrong = me->ignores ? SEMEL_OK : SEMEL_EHANDLER;
}

static void a_deadlock_is_begun_anew_whatever_the_handler_made_of_it(void **state)
{
    server_case *c = *state;
    for (int i = 0; i < 4; i++) {
        char id[] = {'m', (char)('0' + i), 0};
        deadlocking me = {.prepared = i & 1, .ignores = i & 2, .conflicts = 2};
        case_work todo = {.after = lose_once, .context = &me};
        CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, id, &todo);
        assert_int_equal(me.runs, 3);
        assert_int_equal(case_times(c, id), 1);
        assert_int_equal(todo.work.attempt, 1);
    }
}

/* --- steps ------------------------------------------------------------------------------------ */

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
    assert_int_equal(effects(c), 2);
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
    OK(semel_unit_claim(&out, unit, c->inbox, &message, &last_error));
    assert_int_equal(out, SEMEL_CLAIMED);
    OK(semel_unit_commit(unit, &last_error));
    assert_int_equal(effects(c), 0);
}

static void work_before_the_claim_of_a_first_delivery_stays(void **state)
{
    server_case *c = *state;
    semel_unit *unit = NULL;
    semel_outcome out;
    semel_message message = text_message("m", "10 EUR");
    OK(semel_unit_begin(&unit, c->base.store, &last_error));
    assert_true(case_sql(unit, "INSERT INTO effect VALUES ('early')"));
    OK(semel_unit_claim(&out, unit, c->inbox, &message, &last_error));
    assert_true(case_sql(unit, "INSERT INTO effect VALUES ('late')"));
    OK(semel_unit_commit(unit, &last_error));
    assert_int_equal(effects(c), 2);
}

static semel_status expect_no_handle(semel_unit *unit, const semel_message *message, void *context,
                                     semel_error *err)
{
    (void)message;
    (void)context;
    return semel_unit_mariadb(unit) ? semel_fail(err, SEMEL_EHANDLER, "there is a handle")
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

/* The session is as any other one to the server, but for autocommit and how long it waits for
 * locks. */
static void check_session(case_work *self, semel_unit *unit, const semel_message *message)
{
    MYSQL *my = semel_unit_mariadb(unit);
    (void)self, (void)message;
    assert_int_equal(mysql_query(my, "SELECT @@sql_mode = @@global.sql_mode, @@time_zone = "
                                     "@@global.time_zone, @@tx_isolation = @@global.tx_isolation, "
                                     "@@innodb_lock_wait_timeout = 60 AND "
                                     "@@lock_wait_timeout = 60, @@max_statement_time, "
                                     "@@idle_transaction_timeout, database() IS NULL"),
                     0);
    MYSQL_RES *result = mysql_store_result(my);
    MYSQL_ROW row = mysql_fetch_row(result);
    for (unsigned i = 0; i < mysql_num_fields(result); i++)
        if ((strtod(row[i], NULL) != 0) != (i < 4))
            fail_msg("column %u is %s", i, row[i]);
    mysql_free_result(result);
}

static void a_handlers_session_is_set_as_the_server_is(void **state)
{
    server_case *c = *state;
    case_work todo = {.after = check_session};
    size_t sent;
    semel_relay *relay = NULL;
    semel_transport *broker = NULL;
    OK(semel_test_recorder_open(&broker, &last_error));
    OK(semel_relay_open(&relay, c->outbox, broker, NULL, &last_error));
    for (int i = 0; i < 3; i++) { /* with relaxed transactions in between, on the same connection */
        char id[] = {'m', (char)('0' + i), 0};
        CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, id, &todo);
        OK(semel_relay_step(&sent, relay, 0, &last_error));
        for (int k = 0; k < 6; k++) /* and looks without one */
            CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, id, NULL);
    }
    semel_relay_close(relay);
    semel_transport_close(broker);
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
    (void)snprintf(url, sizeof url, "%.*s?pool=1", (int)strcspn(c->base.place.url, "?"),
                   c->base.place.url);
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
    size_t swept;
    int more;
    PROCESS_REQUIRE(semel_unit_begin(&unit, c->base.store, &err) == SEMEL_EMISUSE);
    PROCESS_REQUIRE(case_receive(c, &out, "child", NULL, &err) == SEMEL_EMISUSE);
    PROCESS_REQUIRE(semel_store_now(&now, c->base.store, &err) == SEMEL_EMISUSE);
    PROCESS_REQUIRE(semel_inbox_sweep(&swept, &more, c->inbox, 0, &err) == SEMEL_EMISUSE);
    case_close(c); /* sends nothing on the parent's connections */
    return PROCESS_OK;
}

static void a_store_is_not_carried_over_fork(void **state)
{
    server_case *c = *state;
    semel_message message;
    size_t swept;
    int more;
    OK(semel_inbox_sweep(&swept, &more, c->inbox, 0, &last_error));
    semel_unit *unit = take(c, &message, "m"); /* open while the child closes its copy */
    assert_int_equal(process_run(use_in_child, c), PROCESS_OK);
    assert_true(case_sql(unit, "INSERT INTO effect VALUES ('m')"));
    OK(semel_unit_commit(unit, &last_error));
    OK(semel_inbox_sweep(&swept, &more, c->inbox, 0, &last_error));
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "n", NULL);
    assert_int_equal(case_times(c, "m"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_handler_that_misbehaves_is_told_so, by_transaction),
        CASE(in_a_batch_it_spoils_nothing_that_redelivery_does_not_mend, by_batch),
        CASE(a_statement_that_fails_is_the_handlers_own_affair, by_transaction),
        CASE(a_deadlock_is_begun_anew_whatever_the_handler_made_of_it, by_transaction),
        CASE(several_units_are_open_in_one_thread, by_transaction),
        CASE(work_before_the_claim_is_refused_where_it_would_be_undone, by_transaction),
        CASE(work_before_the_claim_of_a_first_delivery_stays, by_transaction),
        CASE(plans_and_claims_have_no_handle, by_queue),
        CASE(plans_and_claims_have_no_handle, by_claim),
        CASE(a_handlers_session_is_set_as_the_server_is, by_transaction),
        CASE(a_pool_of_one_is_waited_for_and_not_by_oneself, by_transaction),
        CASE(a_store_is_not_carried_over_fork, by_transaction),
    };
    return cmocka_run_group_tests_name("mariadb: units", tests, NULL, NULL);
}
