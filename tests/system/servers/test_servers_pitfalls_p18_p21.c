/* What goes wrong in systems like this one, and needs a server to go wrong: P18 to P21. P1 to P16
 * are in test_servers_pitfalls.c. Above each test stands what the naive design does. */
#include "support/base/sanitizer.h"
#include "support/fake/broker_file.h"
#include "support/process/process.h"
#include "support/process/threads.h"
#include "support/servers/sql/app_session.h"

#include <semel/test.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LEASE_MS = 60000, DEADLINE_MS = 60000 };

typedef struct mailer {
    server_case *c;
    scratch directory;
    char path[SCRATCH_PATH];
    broker_file file;
    semel_transport *broker;
    semel_relay *relay;
    uint32_t poll_ms;
    unsigned wanted;      /* for a child: how many */
    atomic_uint *settled; /* shared with children */
    pid_t child;
} mailer;

static void mailer_make(mailer *m, server_case *c)
{
    *m = (mailer){.c = c, .settled = process_share(sizeof *m->settled)};
    scratch_open(&m->directory);
    scratch_file(m->path, &m->directory, "broker");
    m->file = (broker_file){.path = m->path, .context = m};
}

static void mailer_open(mailer *m)
{
    semel_relay_options options = {.size = sizeof options, .poll_ms = m->poll_ms};
    OK(broker_file_open(&m->broker, &m->file, &last_error));
    OK(semel_relay_open(&m->relay, m->c->outbox, m->broker, &options, &last_error));
}

static void mailer_close(mailer *m)
{
    semel_relay_close(m->relay);
    semel_transport_close(m->broker);
    m->relay = NULL;
    m->broker = NULL;
}

static void mailer_remove(mailer *m)
{
    mailer_close(m);
    process_unshare(m->settled, sizeof *m->settled);
    scratch_close(&m->directory);
}

static size_t copies(const mailer *m, const char *body)
{
    broker_log log;
    broker_log_read(&log, m->path);
    size_t count = broker_log_copies(&log, body);
    broker_log_free(&log);
    return count;
}

static void send(server_case *c, const char *id, const char *body)
{
    semel_message mail = text_message(id, body);
    OK(semel_outbox_send(c->outbox, &mail, &last_error));
}

/* In a child everything is opened anew. */
static void start_child(mailer *m, void (*before)(void *context))
{
    server_case *c = m->c;
    c->base.store = NULL;
    c->inbox = NULL;
    c->outbox = NULL;
    m->file.before = before;
    case_open_at(c, c->base.place.url, CASE_BUSY_MS, NULL);
    mailer_open(m);
}

/* --- P18 -------------------------------------------------------------------------------------- */

static void stop_once(void *context)
{
    mailer *m = context;
    m->file.before = NULL;
    (void)raise(SIGSTOP);
}

static int relay_and_be_stopped(void *context)
{
    mailer *m = context;
    size_t sent = 0;
    semel_error err = {0};
    start_child(m, stop_once);
    PROCESS_REQUIRE_OK(semel_relay_step(&sent, m->relay, 0, &err), &err);
    mailer_close(m);
    case_close(m->c);
    return PROCESS_OK;
}

/* The other one has the message, and is at the broker with it, when the first wakes up and goes
 * on. */
static void wake_the_stopped(void *context)
{
    mailer *m = context;
    m->file.before = NULL;
    if (kill(m->child, SIGCONT) || process_wait(m->child, DEADLINE_MS) != PROCESS_OK)
        process_give_up(__FILE__, __LINE__, "the one that was stopped did not end well");
    atomic_store(m->settled, (unsigned)case_number(m->c, "SELECT count(*) FROM semel_outbox") + 1);
}

/* The leader stands still for longer than its lease, another takes over, the first wakes up and
 * marks as sent, or fails, what is not its own any more. */
static void p18_a_relay_that_was_stopped(void **state)
{
    server_case *c = *state;
    mailer m;
    size_t sent = 0;
    mailer_make(&m, c);
    send(c, "m", "paid");
    case_close(c);
    m.child = process_start(relay_and_be_stopped, &m);
    assert_true(process_wait_stopped(m.child, DEADLINE_MS));
    case_open(c, CASE_BUSY_MS, NULL);
    mailer_open(&m);
    OK(semel_relay_step(&sent, m.relay, 0, &last_error));
    assert_int_equal(sent, 0); /* it is leased */
    server_pass_ms(c->base.place.url, LEASE_MS);
    m.file.before = wake_the_stopped;
    OK(semel_relay_step(&sent, m.relay, 0, &last_error));
    assert_int_equal(sent, 1);
    assert_int_equal(atomic_load(m.settled), 1 + 1); /* it was still there: nothing was settled */
    assert_int_equal(case_unsent(c), 0);
    assert_int_equal(copies(&m, "paid"),
                     2); /* under one id: it was on its way when it was stopped */
    mailer_remove(&m);
}

/* --- P19 -------------------------------------------------------------------------------------- */

enum { BACKLOG = 4000 / SANITIZER_SLOWDOWN, TAKEN = 40, LOOK_MS = 500 };

static void send_backlog(server_case *c)
{
    for (int i = 0; i < BACKLOG;) {
        semel_unit *unit = NULL;
        OK(semel_unit_begin(&unit, c->base.store, &last_error));
        for (int j = 0; j < 500 && i < BACKLOG; i++, j++) {
            char id[16];
            (void)snprintf(id, sizeof id, "%d", i);
            semel_message mail = text_message(id, "paid");
            OK(semel_unit_send(unit, c->outbox, &mail, &last_error));
        }
        OK(semel_unit_commit(unit, &last_error));
    }
}

static int64_t index_reads(const server_case *c)
{
    return case_number(c, "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelid = "
                          "'semel_outbox_free'::regclass");
}

static int64_t drain(server_case *c)
{
    semel_transport *recorder = NULL;
    semel_relay *relay = NULL;
    semel_relay_options options = {.size = sizeof options, .batch = TAKEN};
    size_t sent = 1, total = 0;
    int64_t began = process_now_ms();
    OK(semel_test_recorder_open(&recorder, &last_error));
    OK(semel_relay_open(&relay, c->outbox, recorder, &options, &last_error));
    for (; sent; total += sent)
        OK(semel_relay_step(&sent, relay, 0, &last_error));
    assert_int_equal(total, BACKLOG);
    semel_relay_close(relay);
    semel_transport_close(recorder);
    return process_now_ms() - began;
}

/* While a session has an old snapshot, rows that are gone cannot be removed, and every lease reads
 * all of them again: each is slower than the last. What is counted are entries of the index that
 * PostgreSQL looks at. */
static void p19_an_old_snapshot(void **state)
{
    server_case *c = *state;
    app_session *old = app_session_open(c);
    app_session_run(old, c->kind == SERVER_POSTGRES ? "BEGIN ISOLATION LEVEL REPEATABLE READ"
                                                    : "START TRANSACTION WITH CONSISTENT SNAPSHOT");
    app_session_run(old, "SELECT count(*) FROM effect");
    send_backlog(c);
    server_run(c->base.place.url,
               "UPDATE semel_outbox SET wake_ms = wake_ms - (9000 - seq) * 100, "
               "captured_ms = captured_ms - (9000 - seq) * 100"); /* ten a second */
    int64_t ms = drain(c);
    case_close(c); /* sessions that end have told what they have read */
    int64_t reads = c->kind == SERVER_POSTGRES ? index_reads(c) : 0;
    int64_t worst = (int64_t)BACKLOG / TAKEN * BACKLOG; /* two entries for each that is gone */
    print_message("P19: %d relayed in %lld ms, %lld entries read; all of them each time: %lld\n",
                  BACKLOG, (long long)ms, (long long)reads, (long long)worst);
    app_session_run(old, "COMMIT");
    app_session_close(old);
    if (SANITIZER_SLOWDOWN ==
        1) /* besides, it looks at all of them twice a second: how often that is depends */
        assert_true(reads < worst / 2 + ms / LOOK_MS * 2 * BACKLOG);
}

/* --- P20 -------------------------------------------------------------------------------------- */

enum { WRITERS = 50, OFFICES = 3, MAILS = 2, ALL = WRITERS * OFFICES * MAILS, FAR_MS = 600000 };

static void write_mails(test_thread *member)
{
    server_case *c = member->context;
    for (int i = 0; i < MAILS; i++) {
        char id[48];
        semel_error err = {0};
        (void)snprintf(id, sizeof id, "%d-%u-%d", (int)getpid(), member->index, i);
        semel_message mail = text_message(id, "paid");
        PROCESS_REQUIRE_OK(semel_outbox_send(c->outbox, &mail, &err), &err);
    }
}

static int be_an_office(void *context)
{
    server_case *c = context;
    char url[SERVER_URL_ROOM];
    c->base.store = NULL;
    c->inbox = NULL;
    c->outbox = NULL;
    (void)snprintf(url, sizeof url, "%.490s&pool=%d", c->base.place.url, WRITERS);
    case_open_at(c, url, DEADLINE_MS, NULL);
    PROCESS_REQUIRE(threads_run(WRITERS, write_mails, c));
    case_close(c);
    return PROCESS_OK;
}

/* Looks every ten minutes; whatever it gets before, it was woken for. But first in short steps,
 * until it is seen to listen: a relay that could not connect tries again with its next look. */
static int relay_what_comes(void *context)
{
    mailer *m = context;
    size_t sent = 0;
    semel_error err = {0};
    start_child(m, NULL);
    atomic_store(m->settled, 1);
    for (unsigned total = 0; total < m->wanted; total += (unsigned)sent) {
        int seen = m->poll_ms != FAR_MS || atomic_load(m->settled) > 1;
        PROCESS_REQUIRE_OK(semel_relay_step(&sent, m->relay, seen ? FAR_MS : 100, &err), &err);
    }
    mailer_close(m);
    case_close(m->c);
    return PROCESS_OK;
}

static int64_t listeners(const server_case *c)
{
    char sql[256];
    (void)snprintf(sql, sizeof sql,
                   "SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s'"
                   " AND state = 'idle' AND query LIKE 'LISTEN %%'", /* it does, by then */
                   c->name);
    return case_number(c, sql);
}

static void run_offices(server_case *c, uint32_t poll_ms)
{
    pid_t offices[OFFICES];
    mailer m;
    mailer_make(&m, c);
    m.wanted = ALL;
    m.poll_ms = poll_ms;
    case_retire(c);
    m.child = process_start(relay_what_comes, &m);
    for (int64_t end = process_now_ms() + DEADLINE_MS;
         (!atomic_load(m.settled) || (poll_ms == FAR_MS && !listeners(c))) &&
         process_now_ms() < end;)
        process_nap(); /* until it has nothing to do */
    atomic_store(m.settled, 2);
    for (int i = 0; i < OFFICES; i++)
        offices[i] = process_start(be_an_office, c);
    for (int i = 0; i < OFFICES; i++)
        assert_int_equal(process_wait(offices[i], DEADLINE_MS), PROCESS_OK);
    assert_int_equal(process_wait(m.child, DEADLINE_MS), PROCESS_OK);
    assert_int_equal(copies(&m, "paid"), ALL);
    mailer_remove(&m);
}

/* A NOTIFY in the transaction of every writer makes all of them commit one after the other; one
 * outside of it, or one that comes while no relay listens, is lost, and the message lies there for
 * ten minutes. */
static void p20_writers_with_notify(void **state)
{
    run_offices(*state, FAR_MS);
}

static void p20_writers_without_notify(void **state)
{
    server_case *c = *state;
    if (c->kind == SERVER_POSTGRES)
        (void)snprintf(c->base.place.url + strlen(c->base.place.url), 16, "&notify=off");
    run_offices(c, 50);
}

/* The one that listens loses its connection, hears again, and has missed nothing for good. */
static void p20_a_listener_that_was_cut_off(void **state)
{
    server_case *c = *state;
    mailer m;
    size_t sent = 0;
    semel_store *other = NULL;
    semel_outbox *outbox = NULL;
    semel_message mail = text_message("m", "paid");
    mailer_make(&m, c);
    m.poll_ms = 200; /* the floor under it */
    mailer_open(&m);
    OK(semel_relay_step(&sent, m.relay, 0, &last_error));
    other = case_other(c);
    OK(semel_outbox_open(&outbox, other, "mail", &last_error));
    for (int i = 0; i < 3; i++) {
        proxy_cut(c->between);
        OK(semel_outbox_send(outbox, &mail, &last_error));
        semel_status status = semel_relay_step(&sent, m.relay, CASE_WAIT_MS, &last_error);
        if (status == SEMEL_EUNAVAILABLE)
            status = semel_relay_step(&sent, m.relay, CASE_WAIT_MS, &last_error);
        assert_int_equal(status, SEMEL_OK);
        assert_int_equal(sent, 1);
    }
    semel_outbox_close(outbox);
    semel_store_close(other);
    mailer_remove(&m);
}

/* --- P21 -------------------------------------------------------------------------------------- */

static void lose_answer(case_work *self, semel_unit *unit, const semel_message *message)
{
    server_case *c = self->context;
    (void)unit, (void)message;
    self->after = NULL;
    proxy_lose_answer(c->between, case_commit_bytes(c));
}

/* "The commit failed", says the client, and does it again, or takes the key back: the order is
 * there twice. The redelivery is one that counts its attempt first, and finds that there is none to
 * make. */
static void p21_the_answer_to_commit_is_lost(void **state)
{
    server_case *c = *state;
    case_work todo = {.after = lose_answer, .context = c};
    semel_message again = text_message("m", "10 EUR");
    semel_outcome out;
    again.delivery = 2;
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "warm", NULL);
    CASE_RECEIVES(SEMEL_EUNKNOWN, SEMEL_UNDECIDED, c, "m", &todo);
    OK(semel_inbox_receive(&out, c->inbox, &again, case_handle, &todo, &last_error));
    assert_int_equal(out, SEMEL_DUPLICATE);
    assert_int_equal(case_times(c, "m"), 1);
    assert_int_equal(case_number(c, "SELECT count(*) FROM semel_marker WHERE state = 0"), 2);
}

int main(void)
{
    static const server_test tests[] = {
        SERVER_TEST(p18_a_relay_that_was_stopped, 0),
        SERVER_TEST(p19_an_old_snapshot, 0),
        SERVER_TEST(p20_writers_with_notify, POSTGRES_ONLY),
        SERVER_TEST(p20_writers_without_notify, 0),
        SERVER_TEST(p20_a_listener_that_was_cut_off, POSTGRES_ONLY),
        SERVER_TEST(p21_the_answer_to_commit_is_lost, IN_TRANSACTION | IN_QUEUE | IN_CLAIM)};
    return SERVER_TESTS(tests);
}
