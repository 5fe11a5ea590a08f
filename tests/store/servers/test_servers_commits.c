/* Commits that fail on the servers: conflicts that a statement raises at the commit, and a handler
 * that overlooks a failed statement. The memory store and SQLite are in test_inbox_conflicts.c. */
#include "support/process/process.h"
#include "support/process/threads.h"
#include "support/servers/sql/server_case.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { ATTEMPTS = 3, IN_A_ROW = 5 };

static void reopen(server_case *c, semel_inbox_options options)
{
    options.size = sizeof options;
    case_close(c);
    case_open(c, CASE_BUSY_MS, &options);
}

static int64_t letters(const server_case *c)
{
    return case_number(c, "SELECT count(*) FROM semel_dead");
}

/* --- conflicts -------------------------------------------------------------------------------- */

/* A sequence is not rolled back: its first numbers are conflicts, in whichever transaction they are
 * drawn. */
static void build_conflicts(const server_case *c)
{
    server_run(c->base.place.url, "CREATE SEQUENCE tries");
    server_run(c->base.place.url, "CREATE TABLE said (what int)");
    if (c->kind == SERVER_POSTGRES)
        server_run(c->base.place.url,
                   "CREATE FUNCTION conflict() RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF "
                   "nextval('tries') <= 5 THEN RAISE EXCEPTION 'told to' USING ERRCODE = "
                   "'40P01'; END IF; RETURN 1; END $$");
    else
        server_run(c->base.place.url,
                   "CREATE FUNCTION conflict() RETURNS int BEGIN IF nextval(tries) <= 5 "
                   "THEN SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213; END IF; RETURN 1; "
                   "END");
}

static int64_t next_try(const server_case *c)
{
    return case_number(c, c->kind == SERVER_POSTGRES ? "SELECT nextval('tries')"
                                                     : "SELECT nextval(tries)");
}

/* The context's own is what calls the function. */
static semel_status queue_conflict(semel_unit *unit, const semel_message *message, void *context,
                                   semel_error *err)
{
    const case_work *todo = context;
    semel_status status = semel_unit_queue(unit, todo->context, NULL, 0, err);
    return status ? status : case_queue(unit, message, context, err);
}

static void receive_with_conflicts(server_case *c, case_work *todo, const char *sql,
                                   uint32_t delivery)
{
    semel_outcome out;
    char call[64];
    semel_message message = text_message("m", "10 EUR"), mail = text_message("mail", "b");
    reopen(c, (semel_inbox_options){.attempts_max = ATTEMPTS});
    build_conflicts(c);
    message.delivery = delivery;
    (void)snprintf(call, sizeof call, "%s", sql);
    *todo = (case_work){.context = call, .work = {.outbox = c->outbox, .sends = &mail}};
    OK(semel_inbox_receive(&out, c->inbox, &message, queue_conflict, todo, &last_error));
    assert_int_equal(out, SEMEL_PROCESSED);
    assert_int_equal(next_try(c), IN_A_ROW + 2);
    assert_int_equal(letters(c), 0);
    assert_int_equal(case_times(c, "m"), 1);
    assert_int_equal(case_unsent(c), 1);
}

static void conflicts_at_the_commit_of_a_redelivery_are_no_attempts(void **state)
{
    case_work todo;
    receive_with_conflicts(*state, &todo, "INSERT INTO said SELECT conflict()", 2);
    assert_int_equal(todo.work.runs, IN_A_ROW + 1);
    assert_int_equal(todo.work.attempt, 2);
}

/* The answer begins as that of any other query. */
static void so_is_one_in_the_midst_of_unread_rows(void **state)
{
    case_work todo;
    receive_with_conflicts(*state, &todo, "SELECT conflict()", 1);
    assert_int_equal(todo.work.runs, IN_A_ROW + 1);
    assert_int_equal(todo.work.attempt, 1);
}

static void conflicts_at_the_completion_of_a_claim_repeat_the_completion_only(void **state)
{
    case_work todo;
    receive_with_conflicts(*state, &todo, "INSERT INTO said SELECT conflict()", 1);
    assert_int_equal(todo.work.runs, 1);
}

/* --- a failure that is overlooked ------------------------------------------------------------- */

typedef struct commit_case {
    semel_transport *transport;
    semel_consumer *consumer;
    semel_status ended;
    semel_error why;
    atomic_int over; /* the run */
    atomic_uint overlooked;
    test_thread member;
} commit_case;

static semel_status overlook(semel_unit *unit, const semel_message *message, void *context,
                             semel_error *err)
{
    commit_case *s = context;
    case_work nothing = {.wrong = SEMEL_OK};
    semel_status status = case_handle(unit, message, &nothing, err);
    if (!status && memcmp(message->id.data, "bad", 3) == 0) {
        atomic_fetch_add(&s->overlooked, 1);
        (void)case_sql(unit, "SELECT 1 / 0");
    }
    return status;
}

static void publish(commit_case *s, const char *id)
{
    semel_message message = text_message(id, "a");
    const semel_message *one = &message;
    semel_publish_result result;
    OK(semel_transport_publish(&result, s->transport, &one, 1, 0, &last_error));
}

static void run(test_thread *member)
{
    commit_case *s = member->context;
    s->ended = semel_consumer_run(s->consumer, &s->why);
    atomic_store(&s->over, 1);
}

static semel_counters counters(const server_case *c)
{
    semel_counters now;
    OK(semel_store_counters(&now, sizeof now, c->base.store, &last_error));
    return now;
}

static void run_until_counted(commit_case *s, const server_case *c, unsigned processed,
                              unsigned dead)
{
    int64_t deadline = process_now_ms() + CASE_WAIT_MS;
    test_thread_start(&s->member, run, s);
    while ((counters(c).processed < processed || counters(c).dead < dead) &&
           !atomic_load(&s->over) && process_now_ms() < deadline)
        process_nap();
    semel_consumer_stop(s->consumer);
    assert_true(test_thread_join(&s->member, CASE_WAIT_MS));
    if (s->ended)
        fail_msg("the run ended: %s", s->why.text);
    assert_int_equal(counters(c).processed, processed);
    assert_int_equal(counters(c).dead, dead);
}

static semel_status check_letter(const semel_dead *dead, void *context, semel_error *err)
{
    (void)context, (void)err;
    assert_int_equal(dead->attempts, ATTEMPTS);
    assert_memory_equal(dead->message->id.data, "bad", 3);
    assert_non_null(strstr(dead->error, "a statement of the handler's failed"));
    return SEMEL_OK;
}

static void run_with_one_that_overlooks(server_case *c, uint32_t batch)
{
    commit_case s = {0};
    reopen(c, (semel_inbox_options){.attempts_max = ATTEMPTS});
    semel_route route = {"*", c->inbox, overlook, &s};
    semel_consumer_options options = {
        .size = sizeof options, .batch = batch, .workers = 2, .backoff_ms = 1, .backoff_max_ms = 4};
    OK(semel_transport_open(&s.transport, "memory:", NULL, &last_error));
    OK(semel_consumer_open(&s.consumer, s.transport, &route, 1, &options, &last_error));
    publish(&s, "good");
    publish(&s, "bad");
    publish(&s, "fine");
    run_until_counted(&s, c, 2, 1);
    assert_true(atomic_load(&s.overlooked) >= ATTEMPTS);
    assert_int_equal(case_number(c, "SELECT count(*) FROM effect"), 2);
    assert_int_equal(case_times(c, "bad"), 0);
    assert_int_equal(letters(c), 1);
    OK(semel_dead_list(c->base.store, NULL, check_letter, NULL, &last_error));
    semel_consumer_close(s.consumer);
    semel_transport_close(s.transport);
}

static void a_handler_that_overlooks_a_failed_statement_has_failed(void **state)
{
    run_with_one_that_overlooks(*state, 1);
}

static void it_has_in_a_batch(void **state)
{
    run_with_one_that_overlooks(*state, 10);
}

int main(void)
{
    static const server_test tests[] = {
        SERVER_TEST(conflicts_at_the_commit_of_a_redelivery_are_no_attempts,
                    IN_TRANSACTION | IN_QUEUE),
        SERVER_TEST(so_is_one_in_the_midst_of_unread_rows, IN_QUEUE),
        SERVER_TEST(conflicts_at_the_completion_of_a_claim_repeat_the_completion_only, IN_CLAIM),
        SERVER_TEST(a_handler_that_overlooks_a_failed_statement_has_failed, POSTGRES_ONLY),
        SERVER_TEST(it_has_in_a_batch, POSTGRES_ONLY)};
    return SERVER_TESTS(tests);
}
