/* What the application's own statements run into: deadlocks and serialization failures, which are
 * begun anew inside the library; violations of its constraints, which are the handler's failure and
 * never a duplicate. Told by number, whatever language the server speaks. */
#include "support/process/threads.h"
#include "support/servers/sql/server_case.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RETRIES = 5, ATTEMPTS = 2 };

static void make_rows(server_case *c)
{
    server_run(c->base.place.url, "CREATE TABLE hot (id int PRIMARY KEY, n int NOT NULL);"
                                  "INSERT INTO hot VALUES (1, 0), (2, 0)");
}

static int64_t sum(const server_case *c)
{
    return case_number(c, "SELECT sum(n) FROM hot");
}

static void reopen(server_case *c, const semel_inbox_options *options)
{
    case_close(c);
    case_open(c, CASE_BUSY_MS, options);
}

/* --- deadlocks -------------------------------------------------------------------------------- */

typedef struct rival {
    case_work todo;
    server_case *c;
    struct rival *other;
    const char *id;
    int first_row;
    sem_t locked; /* it has its first row */
    unsigned runs;
    test_thread thread;
    semel_outcome outcome;
    semel_status status;
    semel_error err;
} rival;

static void bump(case_work *self, semel_unit *unit, int row)
{
    char sql[64];
    (void)snprintf(sql, sizeof sql, "UPDATE hot SET n = n + 1 WHERE id = %d", row);
    if (!case_sql(unit, sql))
        self->wrong = SEMEL_EHANDLER; /* as a handler that knows nothing of conflicts */
}

/* In the first run each has one row and wants the other's. A rival that begins anew wants that one
 * first, while it has no row locked: the other has not got all that it waits for yet, and one
 * deadlock could follow another. */
static int first_of(const rival *me)
{
    return me->runs == 0 ? me->first_row : 3 - me->first_row;
}

static void bump_both(case_work *self, semel_unit *unit, const semel_message *message)
{
    rival *me = self->context;
    int first = first_of(me);
    (void)message;
    self->wrong = SEMEL_OK;
    bump(self, unit, first);
    if (me->runs++ == 0) {
        (void)sem_post(&me->locked);
        (void)sem_wait(&me->other->locked);
    }
    if (!self->wrong)
        bump(self, unit, 3 - first);
}

/* The same, planned: while each sleeps it has one row. */
static void queue_both(case_work *self, semel_unit *unit, const semel_message *message)
{
    rival *me = self->context;
    int first = first_of(me);
    semel_value rows[2] = {semel_int(first), semel_int(3 - first)};
    static const char update[] = "UPDATE hot SET n = n + 1 WHERE id = ?";
    (void)message;
    me->runs++;
    if (semel_unit_queue(unit, update, &rows[0], 1, NULL) ||
        semel_unit_queue(
            unit, me->c->kind == SERVER_POSTGRES ? "SELECT pg_sleep(0.3)" : "SELECT sleep(0.3)",
            NULL, 0, NULL) ||
        semel_unit_queue(unit, update, &rows[1], 1, NULL))
        self->wrong = SEMEL_EGIVEUP;
}

static void be_a_rival(test_thread *member)
{
    rival *me = member->context;
    me->status = case_receive(me->c, &me->outcome, me->id, &me->todo, &me->err);
}

static void meet(server_case *c, rival rivals[2])
{
    make_rows(c);
    for (int i = 0; i < 2; i++) {
        rivals[i] = (rival){.c = c, .id = i ? "b" : "a", .first_row = i + 1};
        rivals[i].other = &rivals[1 - i];
        rivals[i].todo = (case_work){.after = c->mode == BY_QUEUE ? queue_both : bump_both,
                                     .context = &rivals[i]};
        sem_init(&rivals[i].locked, 0, 0);
    }
    for (int i = 0; i < 2; i++)
        test_thread_start(&rivals[i].thread, be_a_rival, &rivals[i]);
    for (int i = 0; i < 2; i++)
        assert_true(test_thread_join(&rivals[i].thread, CASE_WAIT_MS));
}

static void a_deadlock_of_handlers_is_begun_anew(void **state)
{
    server_case *c = *state;
    rival rivals[2];
    meet(c, rivals);
    for (int i = 0; i < 2; i++) {
        if (rivals[i].status || rivals[i].outcome != SEMEL_PROCESSED)
            fail_msg("%s: %s", semel_outcome_name(rivals[i].outcome), rivals[i].err.text);
        assert_int_equal(case_times(c, rivals[i].id), 1);
        assert_int_equal(rivals[i].todo.work.attempt, 1); /* a conflict, so not counted */
        sem_destroy(&rivals[i].locked);
    }
    int per_message = c->mode == BY_BATCH ? CASE_BATCH : 1;
    assert_int_equal(sum(c), 4 * per_message);
    if (c->mode == BY_TRANSACTION) /* there was a deadlock, or this has shown nothing */
        assert_true(rivals[0].runs + rivals[1].runs >= 3);
}

/* --- serialization failures ------------------------------------------------------------------- */

/* Another session changes the row between this unit's read and its write. (MariaDB writes on, or
 * has locked it.) */
static void write_what_was_changed(case_work *self, semel_unit *unit, const semel_message *message)
{
    server_case *c = self->context;
    (void)message;
    self->wrong = SEMEL_OK;
    if (!case_sql(unit, "SELECT n FROM hot WHERE id = 1"))
        self->wrong = SEMEL_EGIVEUP;
    if (self->work.runs++ == 0)
        server_run(c->base.place.url, "UPDATE hot SET n = n + 10 WHERE id = 1");
    bump(self, unit, 1);
}

/* The same by a handler that does not even notice. */
static void write_and_ignore(case_work *self, semel_unit *unit, const semel_message *message)
{
    write_what_was_changed(self, unit, message);
    self->wrong = SEMEL_OK;
}

static void a_serialization_failure_is_begun_anew(void **state)
{
    server_case *c = *state;
    case_work loud = {.after = write_what_was_changed, .context = c};
    case_work quiet = {.after = write_and_ignore, .context = c};
    make_rows(c);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "loud", &loud);
    assert_int_equal(sum(c), 11);
    assert_int_equal(case_times(c, "loud"), 1);
    assert_int_equal(loud.work.attempt, 1);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "quiet", &quiet);
    assert_int_equal(sum(c), 22);
    assert_int_equal(case_times(c, "quiet"), 1);
}

static const char *raise_conflict(const server_case *c)
{
    return c->kind == SERVER_POSTGRES ? "DO $$BEGIN RAISE SQLSTATE '40001'; END$$"
                                      : "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213";
}

static void always_conflict(case_work *self, semel_unit *unit, const semel_message *message)
{
    const server_case *c = self->context;
    (void)message;
    self->work.runs++;
    if (c->mode == BY_TRANSACTION)
        self->wrong = case_sql(unit, raise_conflict(c)) ? SEMEL_EGIVEUP : SEMEL_EHANDLER;
    else
        self->wrong = semel_unit_queue(unit, raise_conflict(c), NULL, 0, NULL);
}

static void conflicts_without_an_end_come_to_an_end(void **state)
{
    server_case *c = *state;
    case_work todo = {.after = always_conflict, .context = c};
    CASE_RECEIVES(SEMEL_ECONFLICT, SEMEL_UNDECIDED, c, "m", &todo);
    assert_true(last_error.retryable);
    if (c->mode == BY_TRANSACTION)
        assert_int_equal(todo.work.runs, RETRIES + 1);
    assert_int_equal(case_times(c, "m"), 0);
    todo = (case_work){.wrong = SEMEL_OK};
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m", &todo);
    assert_int_equal(todo.work.attempt, 1);
}

/* --- violations ------------------------------------------------------------------------------- */

static void put_the_same_again(case_work *self, semel_unit *unit, const semel_message *message)
{
    const char *sql = self->context;
    const char *sqlstate = case_sqlstate(unit, sql);
    (void)message;
    self->work.attempt = semel_unit_attempt(unit);
    if (strcmp(sqlstate, "none") == 0)
        self->wrong = semel_unit_queue(unit, sql, NULL, 0, NULL);
    else /* a class of its own in both: 23505, and 23000 */
        self->wrong = strncmp(sqlstate, "23", 2) == 0 ? SEMEL_EHANDLER : SEMEL_EGIVEUP;
}

/* Failed, failed and dead; and not a trace of it in the tables. */
static void is_the_handlers_failure(server_case *c, const char *id, const char *sql)
{
    case_work todo = {.after = put_the_same_again, .context = (void *)(uintptr_t)sql};
    semel_outcome out;
    check_forget();
    semel_status status = case_receive(c, &out, id, &todo, &last_error);
    assert_int_equal(out, SEMEL_FAILED);
    assert_int_equal(status, c->mode == BY_BATCH ? SEMEL_OK : SEMEL_EHANDLER);
    assert_int_equal(last_error.status, SEMEL_EHANDLER);
    assert_true(last_error.retryable);
    assert_int_equal(case_times(c, id), 0);
    CASE_RECEIVES(SEMEL_OK, SEMEL_DEAD, c, id, &todo);
    assert_int_equal(todo.work.attempt, ATTEMPTS);
    CASE_RECEIVES(SEMEL_OK, SEMEL_DEAD, c, id, &todo);
    assert_int_equal(case_times(c, id), 0);
}

static void a_violation_of_the_applications_own_is_the_handlers_failure(void **state)
{
    server_case *c = *state;
    semel_inbox_options options = {.size = sizeof options, .attempts_max = ATTEMPTS};
    reopen(c, &options);
    server_run(c->base.place.url,
               "CREATE TABLE invoice (id int PRIMARY KEY); INSERT INTO invoice VALUES (1)");
    is_the_handlers_failure(c, "m", "INSERT INTO invoice VALUES (1)");
    int per_message = c->mode == BY_BATCH ? CASE_BATCH : 1;
    assert_int_equal(case_number(c, "SELECT count(*) FROM semel_dead"), per_message);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "n", NULL);
}

/* Its name, its columns, its index: all as ours, but for where it is. */
static void a_violation_in_a_table_named_like_ours_is_no_duplicate(void **state)
{
    server_case *c = *state;
    semel_inbox_options options = {.size = sizeof options, .attempts_max = ATTEMPTS};
    char sql[512], insert[128];
    int is_postgres = c->kind == SERVER_POSTGRES;
    reopen(c, &options);
    (void)snprintf(sql, sizeof sql,
                   "CREATE %s %s_like; CREATE TABLE %s_like.semel_marker (inbox int, %s %s, "
                   "PRIMARY KEY (inbox, %s)); INSERT INTO %s_like.semel_marker VALUES (1, 'm')",
                   is_postgres ? "SCHEMA" : "DATABASE", c->name, c->name,
                   is_postgres ? "key" : "`key`", is_postgres ? "bytea" : "varbinary(255)",
                   is_postgres ? "key" : "`key`", c->name);
    server_run(c->base.place.url, sql);
    (void)snprintf(insert, sizeof insert, "INSERT INTO %s_like.semel_marker VALUES (1, 'm')",
                   c->name);
    is_the_handlers_failure(c, "m", insert);
    (void)snprintf(sql, sizeof sql, "DROP %s %s_like%s", is_postgres ? "SCHEMA" : "DATABASE",
                   c->name, is_postgres ? " CASCADE" : "");
    server_run(c->base.place.url, sql);
}

/* "A unique violation is a duplicate": then an order whose invoice number is taken is acknowledged
 * and lost. And in PostgreSQL the transaction is over with it, marker or not. */
static void p6_business_violation(void **state)
{
    server_case *c = *state;
    static const char sql[] = "INSERT INTO invoice VALUES (1)";
    case_work todo = {.after = put_the_same_again, .context = (void *)(uintptr_t)sql};
    server_run(c->base.place.url,
               "CREATE TABLE invoice (id int PRIMARY KEY); INSERT INTO invoice VALUES (1)");
    CASE_RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, c, "m", &todo);
    assert_int_equal(case_times(c, "m"), 0);
    server_run(c->base.place.url, "DELETE FROM invoice");
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m", NULL);
    assert_int_equal(case_times(c, "m"), 1);
}

/* A constraint that is looked at by the COMMIT only. */
static void defer(case_work *self, semel_unit *unit, const semel_message *message)
{
    static const char sql[] = "INSERT INTO invoice VALUES (1)";
    (void)message;
    if (semel_unit_queue(unit, sql, NULL, 0, NULL))
        self->wrong = SEMEL_EGIVEUP;
}

static void a_deferred_violation_is_the_handlers_failure_too(void **state)
{
    server_case *c = *state;
    semel_inbox_options options = {.size = sizeof options, .attempts_max = ATTEMPTS};
    case_work todo = {.after = defer};
    reopen(c, &options);
    server_run(c->base.place.url,
               "CREATE TABLE invoice (id int UNIQUE DEFERRABLE INITIALLY DEFERRED);"
               "INSERT INTO invoice VALUES (1)");
    CASE_RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, c, "m", &todo);
    CASE_RECEIVES(SEMEL_OK, SEMEL_DEAD, c, "m", &todo);
    assert_int_equal(case_times(c, "m"), 0);
}

static void plan_it(case_work *self, semel_unit *unit, const semel_message *message)
{
    (void)message;
    self->wrong = semel_unit_queue(unit, self->context, NULL, 0, NULL);
}

/* A plan that is no SQL at all: found by us or by the server, it leaves nothing behind on the
 * connection. */
static void a_queued_statement_that_is_none_is_the_handlers_failure(void **state)
{
    server_case *c = *state;
    static const char *const nonsense[] = {"INSERT INTO effect (id) VALUES (?)",
                                           "INSERT INTO nowhere VALUES (1)", "SELEKT 1"};
    for (int i = 0; i < 3; i++) {
        char id[16];
        semel_outcome out;
        case_work todo = {.after = plan_it, .context = (void *)(uintptr_t)nonsense[i]};
        (void)snprintf(id, sizeof id, "m-%d", i);
        semel_status status = case_receive(c, &out, id, &todo, &last_error);
        assert_true(status == SEMEL_EHANDLER || status == SEMEL_EINVAL);
        assert_int_equal(out, SEMEL_FAILED);
        assert_int_equal(case_times(c, id), 0);
        CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, id, NULL);
        assert_int_equal(case_times(c, id), 1);
    }
}

/* --- in another language ---------------------------------------------------------------------- */

static void speak_german(server_case *c, server_own *own, const server_shape *shape)
{
    (void)setenv("LANGUAGE", "de", 1); /* what C.UTF-8 is translated to, so no locale is needed */
    server_own_start(own, shape->kind);
    (void)unsetenv("LANGUAGE");
    if (shape->kind == SERVER_MARIADB)
        server_run(own->at.url, "SET GLOBAL lc_messages = 'de_DE'");
    case_make(c, &own->at, shape,
              shape->kind == SERVER_POSTGRES ? "%20-clc_messages%3DC.UTF-8" : "");
}

static void errors_are_told_by_number_and_not_by_text(void **state)
{
    const server_shape *shape = *state;
    server_own own;
    server_case c;
    semel_inbox_options options = {.size = sizeof options, .attempts_max = ATTEMPTS};
    case_work todo = {.after = plan_it,
                      .context = (void *)(uintptr_t) "INSERT INTO invoice VALUES (1)"};
    speak_german(&c, &own, shape);
    server_run(c.base.place.url,
               "CREATE TABLE invoice (id int PRIMARY KEY); INSERT INTO invoice VALUES (1)");
    for (c.mode = BY_QUEUE; c.mode <= BY_CLAIM; c.mode++) {
        const char *id = c.mode == BY_QUEUE ? "queued" : "claimed";
        case_open(&c, CASE_BUSY_MS, &options);
        CASE_RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, &c, id, &todo);
        SAYS(shape->kind == SERVER_POSTGRES ? "doppelter" : "Doppelter");
        CASE_RECEIVES(SEMEL_OK, SEMEL_DEAD, &c, id, &todo);
        case_close(&c);
    }
    c.mode = BY_QUEUE;
    case_open(&c, CASE_BUSY_MS, NULL);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, &c, "m", NULL);
    CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, &c, "m", NULL);
    todo = (case_work){.after = always_conflict, .context = &c};
    c.mode = BY_TRANSACTION;
    CASE_RECEIVES(SEMEL_ECONFLICT, SEMEL_UNDECIDED, &c, "n", &todo);
    case_remove(&c);
    server_own_stop(&own);
}

int main(void)
{
    static const server_test tests[] = {
        SERVER_TEST(a_deadlock_of_handlers_is_begun_anew, IN_TRANSACTION | IN_QUEUE),
        SERVER_TEST(a_serialization_failure_is_begun_anew, AT_ALL_LEVELS | POSTGRES_ONLY),
        SERVER_TEST(conflicts_without_an_end_come_to_an_end, IN_TRANSACTION | IN_QUEUE),
        SERVER_TEST(a_violation_of_the_applications_own_is_the_handlers_failure, IN_ALL_MODES),
        SERVER_TEST(a_violation_in_a_table_named_like_ours_is_no_duplicate, IN_ALL_MODES),
        SERVER_TEST(p6_business_violation, IN_TRANSACTION | IN_QUEUE | IN_CLAIM),
        SERVER_TEST(a_deferred_violation_is_the_handlers_failure_too,
                    IN_TRANSACTION | IN_QUEUE | IN_CLAIM | POSTGRES_ONLY),
        SERVER_TEST(a_queued_statement_that_is_none_is_the_handlers_failure,
                    IN_TRANSACTION | IN_QUEUE),
        SERVER_TEST(errors_are_told_by_number_and_not_by_text, WITHOUT_SETUP)};
    return SERVER_TESTS(tests);
}
