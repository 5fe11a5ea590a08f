/* Servers that are there and do not answer: all of their processes are stopped (SIGSTOP), or a
 * commit waits for a standby that is not there. Every call ends within its limits, with an honest
 * outcome, and a run can be stopped; when the server goes on, each message has been handled
 * once. */
#include "support/process/process.h"
#include "support/process/threads.h"
#include "support/servers/server_each.h"
#include "support/servers/sql/server_case.h"
#include "support/servers/sql/server_freeze.h"

#include <semel/test.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { SHORT_MS = 300, ANSWER_MS = 500, LARGE = 8 << 20 };

/* --- a server of the test's own --------------------------------------------------------------- */

typedef struct frozen_case {
    server_own own;
    server_case c;
    semel_transport *queue;
    semel_relay *relay;
    semel_consumer *consumer;
    const char *id;
    semel_outcome out;
    semel_status status;
    semel_error err;
    atomic_int done; /* receiving */
    test_thread thread;
} frozen_case;

static void open_in(frozen_case *s, case_mode mode)
{
    semel_inbox_options options = {.size = sizeof options, .wait_ms = SHORT_MS};
    server_shape shape = {.kind = s->own.at.kind, .mode = mode};
    case_make(&s->c, &s->own.at, &shape,
              s->own.at.kind == SERVER_POSTGRES ? "&tcp_user_timeout=0" : "");
    s->c.answer_ms = ANSWER_MS;
    case_open(&s->c, SHORT_MS, &options);
}

static int setup(void **state)
{
    frozen_case *s = calloc(1, sizeof *s);
    server_own_start(&s->own, kind_of_state(state));
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    frozen_case *s = *state;
    server_own_stop(&s->own);
    free(s);
    return 0;
}

/* --- calls that must end ---------------------------------------------------------------------- */

static void receive(test_thread *member)
{
    frozen_case *s = member->context;
    s->status = case_receive(&s->c, &s->out, s->id, NULL, &s->err);
    atomic_store(&s->done, 1);
}

static void send_one(test_thread *member)
{
    frozen_case *s = member->context;
    semel_message message = text_message("small", "paid");
    s->status = semel_outbox_send(s->c.outbox, &message, &s->err);
}

/* More than the kernel buffers for a server that does not read. */
static void send_much(test_thread *member)
{
    frozen_case *s = member->context;
    semel_message message = text_message("large", "paid");
    void *body = calloc(1, LARGE);
    message.body = (semel_bytes){body, LARGE};
    s->status = semel_outbox_send(s->c.outbox, &message, &s->err);
    free(body);
}

static void count(test_thread *member)
{
    frozen_case *s = member->context;
    semel_counters counters;
    s->status = semel_store_counters(&counters, sizeof counters, s->c.base.store, &s->err);
}

static void sweep(test_thread *member)
{
    frozen_case *s = member->context;
    size_t swept;
    int more;
    s->status = semel_inbox_sweep(&swept, &more, s->c.inbox, 0, &s->err);
}

static void run_relay(test_thread *member)
{
    frozen_case *s = member->context;
    s->status = semel_relay_run(s->relay, &s->err);
}

static void run_consumer(test_thread *member)
{
    frozen_case *s = member->context;
    s->status = semel_consumer_run(s->consumer, &s->err);
}

static int is_honest(semel_status status)
{
    return status == SEMEL_EUNAVAILABLE || status == SEMEL_EUNKNOWN || status == SEMEL_EBUSY;
}

static void ends(frozen_case *s, void (*what)(test_thread *member), const char *name)
{
    s->out = SEMEL_UNDECIDED;
    test_thread_start(&s->thread, what, s);
    if (!test_thread_join(&s->thread, CASE_WAIT_MS))
        fail_msg("%s does not end while the server is frozen", name);
    if (!is_honest(s->status) || s->out != SEMEL_UNDECIDED)
        fail_msg("%s: %s, %s (%s)", name, semel_status_name(s->status), semel_outcome_name(s->out),
                 s->err.text);
}

/* A new connection, too: on MariaDB the server speaks first. */
static int asked(const frozen_case *s)
{
    proxy_counts counts = proxy_count(s->c.between);
    return counts.request_bytes || counts.connections;
}

/* When it has asked the server something, which will not be answered: a run that has not begun is
 * stopped easily. */
static void stops(frozen_case *s)
{
    int64_t deadline = process_now_ms() + CASE_WAIT_MS;
    while (!asked(s) && process_now_ms() < deadline)
        process_nap();
    assert_true(asked(s));
    if (s->relay)
        semel_relay_stop(s->relay);
    if (s->consumer)
        semel_consumer_stop(s->consumer);
    if (!test_thread_join(&s->thread, CASE_WAIT_MS))
        fail_msg("the run cannot be stopped while the server is frozen");
    if (s->status && !is_honest(s->status))
        fail_msg("the run: %s", s->err.text);
}

/* --- frozen ----------------------------------------------------------------------------------- */

static void every_call_ends(void **state)
{
    frozen_case *s = *state;
    for (int mode = 0; mode < CASE_MODES; mode++) {
        open_in(s, (case_mode)mode);
        assert_int_equal(case_settle(&s->c, "warm", NULL), SEMEL_PROCESSED);
        server_own_freeze(&s->own);
        s->id = "m";
        ends(s, receive, "receiving");
        if (mode == BY_TRANSACTION) {
            ends(s, send_one, "sending");
            ends(s, send_much, "sending much");
            ends(s, count, "counting");
            ends(s, sweep, "a sweep");
        }
        server_own_thaw(&s->own);
        semel_outcome out = case_settle(&s->c, "m", NULL);
        assert_true(out == SEMEL_PROCESSED || out == SEMEL_DUPLICATE);
        assert_int_equal(case_times(&s->c, "m"), 1);
        case_remove(&s->c);
    }
}

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    case_work nothing = {.wrong = SEMEL_OK};
    (void)context;
    return case_handle(unit, message, &nothing, err);
}

static void a_run_can_be_stopped(void **state)
{
    frozen_case *s = *state;
    semel_message message = text_message("m", "paid");
    const semel_message *one = &message;
    semel_publish_result result;
    semel_transport *broker = NULL;
    open_in(s, BY_TRANSACTION);
    semel_route route = {.pattern = "*", .inbox = s->c.inbox, .handler = handle};
    assert_int_equal(case_settle(&s->c, "warm", NULL), SEMEL_PROCESSED);
    OK(semel_test_recorder_open(&broker, &last_error));
    OK(semel_relay_open(&s->relay, s->c.outbox, broker, NULL, &last_error));
    server_own_freeze(&s->own);
    proxy_forget(s->c.between);
    test_thread_start(&s->thread, run_relay, s);
    stops(s);
    semel_relay_close(s->relay);
    s->relay = NULL;
    OK(semel_transport_open(&s->queue, "memory:", NULL, &last_error));
    OK(semel_transport_publish(&result, s->queue, &one, 1, CASE_WAIT_MS, &last_error));
    OK(semel_consumer_open(&s->consumer, s->queue, &route, 1, NULL, &last_error));
    proxy_forget(s->c.between);
    test_thread_start(&s->thread, run_consumer, s);
    stops(s);
    semel_consumer_close(s->consumer);
    s->consumer = NULL;
    server_own_thaw(&s->own);
    semel_transport_close(s->queue);
    semel_transport_close(broker);
    case_remove(&s->c);
}

/* --- a standby that is not there -------------------------------------------------------------- */

/* In a session that writes nothing: one that does would wait, too. */
static void set_standby(frozen_case *s, const char *name)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "ALTER SYSTEM SET synchronous_standby_names = '%s'", name);
    server_run(s->own.at.url, sql);
    server_run(s->own.at.url, "SELECT pg_reload_conf()");
    (void)snprintf(sql, sizeof sql,
                   "SELECT (current_setting('synchronous_standby_names') = '%s')::int", name);
    int64_t deadline = process_now_ms() + CASE_WAIT_MS;
    while (!server_number(s->own.at.url, sql) && process_now_ms() < deadline)
        process_nap();
}

/* Again and again until the receiver has ended: one that waits since before may be the first that
 * is met. */
static void cancel_waits(frozen_case *s)
{
    int64_t deadline = process_now_ms() + CASE_WAIT_MS;
    while (!atomic_load(&s->done) && process_now_ms() < deadline) {
        server_run(s->own.at.url, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE "
                                  "wait_event = 'SyncRep'");
        process_nap();
    }
}

enum { ID_ROOM = 32 };

/* With an id of its own each time. The server's checkpointer puts the setting into force a moment
 * after every session can see it: a commit before that does not wait. And a machine that is slow
 * may not come as far as the commit in time. */
static void commit_without_standby(frozen_case *s, char id[ID_ROOM])
{
    int64_t deadline = process_now_ms() + CASE_WAIT_MS;
    int number = 0;
    s->id = id;
    do {
        (void)snprintf(id, ID_ROOM, "silent-%d", number++);
        s->out = SEMEL_UNDECIDED;
        test_thread_start(&s->thread, receive, s);
        assert_true(test_thread_join(&s->thread, CASE_WAIT_MS));
        assert_true(s->status == SEMEL_OK || (is_honest(s->status) && s->out == SEMEL_UNDECIDED));
    } while (s->status != SEMEL_EUNKNOWN && process_now_ms() < deadline);
    assert_int_equal(s->status, SEMEL_EUNKNOWN);
}

/* The setting comes after the store has been opened. The commit is not cancelled: it still waits
 * when the store gives up. Then an operator cancels one: the commit has happened here, and nowhere
 * else, and the store says so. */
static void a_commit_that_waits_for_a_standby_is_not_processed(void **state)
{
    frozen_case *s = *state;
    char silent[ID_ROOM];
    static const case_mode modes[] = {BY_TRANSACTION, BY_QUEUE, BY_BATCH};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        open_in(s, modes[i]);
        assert_int_equal(case_settle(&s->c, "warm", NULL), SEMEL_PROCESSED);
        set_standby(s, "missing");
        commit_without_standby(s, silent);
        assert_true(server_number(s->own.at.url, "SELECT count(*) FROM pg_stat_activity WHERE "
                                                 "wait_event = 'SyncRep'") > 0);
        s->id = "cancelled";
        s->c.answer_ms = 2 * CASE_WAIT_MS;
        case_close(&s->c);
        case_open(&s->c, CASE_BUSY_MS, NULL);
        atomic_store(&s->done, 0);
        test_thread_start(&s->thread, receive, s);
        cancel_waits(s);
        assert_true(test_thread_join(&s->thread, CASE_WAIT_MS));
        if (s->status != SEMEL_EUNKNOWN)
            fail_msg("%s (%s)", semel_status_name(s->status), s->err.text);
        set_standby(s, "");
        case_settle(&s->c, silent, NULL);
        assert_int_equal(case_settle(&s->c, "cancelled", NULL), SEMEL_DUPLICATE);
        assert_int_equal(case_times(&s->c, silent), 1);
        assert_int_equal(case_times(&s->c, "cancelled"), 1);
        case_remove(&s->c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EACH(every_call_ends, setup, teardown),
        ON_EACH(a_run_can_be_stopped, setup, teardown),
#ifdef SEMEL_WITH_POSTGRES
        ON_POSTGRES(a_commit_that_waits_for_a_standby_is_not_processed, setup, teardown),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
