/* Another session has locked semel's tables: an operator, an ALTER TABLE, a dump. Every call ends
 * within the store's busy_ms, with SEMEL_EBUSY, and says nothing of copies, since it has seen none.
 * When the lock is gone all goes on. The same for rows of the application that a handler waits
 * for. */
#include "support/process/process.h"
#include "support/process/threads.h"
#include "support/servers/sql/server_case.h"
#include "support/servers/sql/server_session.h"

#include <semel/test.h>

enum { SHORT_MS = 300 };

/* --- locks ------------------------------------------------------------------------------------ */

/* In the case's schema or database; PostgreSQL's is the URL's. */
static void lock(session *s, const server_case *c, const char *table)
{
    char sql[256], url[SERVER_URL_ROOM];
    (void)snprintf(url, sizeof url, "%.*s", (int)strcspn(c->base.place.url, "?"),
                   c->base.place.url);
    assert_true(session_open(s, url));
    (void)snprintf(sql, sizeof sql,
                   c->kind == SERVER_POSTGRES ? "BEGIN; LOCK TABLE %s.%s IN ACCESS EXCLUSIVE MODE"
                                              : "LOCK TABLES %s.%s WRITE",
                   c->name, table);
    if (!session_run(s, sql))
        fail_msg("%s: %s", sql, s->pg ? PQerrorMessage(s->pg) : mysql_error(s->my));
}

static void unlock(session *s)
{
    assert_true(session_run(s, s->pg ? "COMMIT" : "UNLOCK TABLES"));
    session_close(s);
}

static void reopen(server_case *c)
{
    semel_inbox_options options = {.size = sizeof options, .wait_ms = SHORT_MS};
    case_close(c);
    case_open(c, SHORT_MS, &options);
}

/* --- a call that must end --------------------------------------------------------------------- */

typedef struct call {
    server_case *c;
    semel_status (*what)(struct call *self);
    semel_relay *relay;
    semel_outcome out;
    semel_status status;
    semel_error err;
    test_thread thread;
} call;

static void make(test_thread *member)
{
    call *self = member->context;
    self->status = self->what(self);
}

/* In a thread: if it does not end, the test does. */
static void ends_busy(call *self, semel_status (*what)(call *self), const char *name)
{
    int64_t deadline = process_now_ms() + CASE_WAIT_MS;
    self->what = what;
    do { /* on a slow machine a connection may not be had in that time */
        test_thread_start(&self->thread, make, self);
        if (!test_thread_join(&self->thread, CASE_WAIT_MS))
            fail_msg("%s waits for the lock", name);
    } while (self->status == SEMEL_EUNAVAILABLE && process_now_ms() < deadline);
    if (self->status != SEMEL_EBUSY)
        fail_msg("%s: %s (%s)", name, semel_status_name(self->status), self->err.text);
}

static semel_status send_one(call *self)
{
    semel_message message = text_message("mail", "paid");
    return semel_outbox_send(self->c->outbox, &message, &self->err);
}

static semel_status step(call *self)
{
    size_t sent;
    return semel_relay_step(&sent, self->relay, 0, &self->err);
}

static semel_status count(call *self)
{
    semel_counters counters;
    return semel_store_counters(&counters, sizeof counters, self->c->base.store, &self->err);
}

static semel_status sweep(call *self)
{
    size_t swept;
    int more;
    return semel_inbox_sweep(&swept, &more, self->c->inbox, 0, &self->err);
}

static semel_status receive(call *self)
{
    return case_receive(self->c, &self->out, "m", NULL, &self->err);
}

/* In the end, on a slow machine, too. */
static void succeeds(call *self, semel_status (*what)(call *self))
{
    int64_t deadline = process_now_ms() + CASE_WAIT_MS;
    while ((self->status = what(self)) != SEMEL_OK && self->err.retryable &&
           process_now_ms() < deadline)
        case_nap(self->c);
    if (self->status)
        fail_msg("%s", self->err.text);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void the_outbox(void **state)
{
    server_case *c = *state;
    call self = {.c = c};
    session dba;
    semel_transport *broker = NULL;
    reopen(c);
    succeeds(&self, send_one);
    int64_t there = case_number(c, "SELECT count(*) FROM semel_outbox");
    OK(semel_test_recorder_open(&broker, &last_error));
    OK(semel_relay_open(&self.relay, c->outbox, broker, NULL, &last_error));
    lock(&dba, c, "semel_outbox");
    ends_busy(&self, send_one, "sending");
    ends_busy(&self, step, "a relay's step");
    ends_busy(&self, count, "counting");
    unlock(&dba);
    assert_int_equal(case_number(c, "SELECT count(*) FROM semel_outbox"), there);
    succeeds(&self, step);
    semel_relay_close(self.relay);
    semel_transport_close(broker);
}

/* Not "another copy is being handled". */
static void the_markers(void **state)
{
    server_case *c = *state;
    call self = {.c = c};
    session dba;
    reopen(c);
    assert_int_equal(case_settle(c, "warm", NULL), SEMEL_PROCESSED);
    lock(&dba, c, "semel_marker");
    for (int i = 0; i < 2;
         i++) { /* the second time the connection is another one, or has learned */
        ends_busy(&self, receive, "receiving");
        assert_int_equal(self.out, SEMEL_UNDECIDED);
    }
    if (c->mode == BY_TRANSACTION)
        ends_busy(&self, sweep, "a sweep");
    unlock(&dba);
    assert_int_equal(case_settle(c, "m", NULL), SEMEL_PROCESSED);
    assert_int_equal(case_times(c, "m"), 1);
    assert_int_equal(case_number(c, "SELECT count(*) FROM semel_marker WHERE state <> 0"), 0);
}

/* A lock is no failure of the handler: no attempt is counted. */
static void the_applications_own(void **state)
{
    server_case *c = *state;
    call self = {.c = c};
    session dba;
    reopen(c);
    assert_int_equal(case_settle(c, "warm", NULL), SEMEL_PROCESSED);
    lock(&dba, c, "effect");
    for (int i = 0; i < 2; i++) {
        ends_busy(&self, receive, "a handler's statement");
        assert_int_equal(self.out, SEMEL_UNDECIDED);
    }
    unlock(&dba);
    case_work todo = {.wrong = SEMEL_OK};
    assert_int_equal(case_settle(c, "m", &todo), SEMEL_PROCESSED);
    assert_int_equal(todo.work.attempt, 1);
    assert_int_equal(case_times(c, "m"), 1);
}

int main(void)
{
    static const server_test tests[] = {
        SERVER_TEST(the_outbox, IN_TRANSACTION), SERVER_TEST(the_markers, IN_ALL_MODES),
        SERVER_TEST(the_applications_own, IN_TRANSACTION | IN_QUEUE | IN_BATCH)};
    return SERVER_TESTS(tests);
}
