/* What goes wrong in systems like this one, and needs a server to go wrong: P1 to P16. P18 to P21
 * are in test_servers_pitfalls_p18_p21.c, P6 in test_servers_conflicts.c, P12 in
 * test_servers_sweep.c. Above each test stands what the naive design does. */
#include "support/fake/broker_file.h"
#include "support/process/process.h"
#include "support/process/threads.h"
#include "support/servers/sql/app_session.h"

#include <semel/test.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 64, LEASE_MS = 60000 };

static void reopen(server_case *c, const semel_inbox_options *options)
{
    case_close(c);
    case_open(c, CASE_BUSY_MS, options);
}

/* --- a relay and its broker ------------------------------------------------------------------- */

typedef struct desk {
    server_case *c;
    semel_transport *recorder;
    semel_relay *relay;
} desk;

static void desk_open(desk *d, server_case *c, const semel_relay_options *options)
{
    *d = (desk){.c = c};
    OK(semel_test_recorder_open(&d->recorder, &last_error));
    OK(semel_relay_open(&d->relay, c->outbox, d->recorder, options, &last_error));
}

static void desk_close(desk *d)
{
    semel_relay_close(d->relay);
    semel_transport_close(d->recorder);
}

static size_t step(desk *d)
{
    size_t sent = 0;
    OK(semel_relay_step(&sent, d->relay, 0, &last_error));
    return sent;
}

static int has_sent(const desk *d, const char *id)
{
    for (size_t i = 0; i < semel_test_recorder_count(d->recorder); i++) {
        semel_bytes sent = semel_test_recorder_message(d->recorder, i)->id;
        if (sent.len == strlen(id) && memcmp(sent.data, id, sent.len) == 0)
            return 1;
    }
    return 0;
}

static void send(server_case *c, const char *id, const char *group)
{
    semel_message mail = text_message(id, "paid");
    mail.group = group;
    OK(semel_outbox_send(c->outbox, &mail, &last_error));
}

/* --- P1 --------------------------------------------------------------------------------------- */

/* In a transaction that stays open: the message has its number, and no other session can see it. */
static app_session *send_and_stall(server_case *c, const char *id, const char *group)
{
    app_session *slow = app_session_open(c);
    semel_unit *unit = NULL;
    semel_message mail = text_message(id, "paid");
    mail.group = group;
    app_session_run(slow, "BEGIN");
    OK(app_session_join(&unit, c, slow, &last_error));
    OK(semel_unit_send(unit, c->outbox, &mail, &last_error));
    OK(semel_unit_commit(unit, &last_error));
    return slow;
}

/* A relay that remembers the last id it has seen has passed 1 when 1 commits after 2, and never
 * looks back: the message is lost. */
static void p1_late_committer(void **state)
{
    server_case *c = *state;
    static const char *const groups[] = {NULL, "g"};
    for (int i = 0; i < 2; i++) {
        desk d;
        desk_open(&d, c, NULL);
        app_session *slow = send_and_stall(c, "1", groups[i]);
        send(c, "2", groups[i]);
        assert_int_equal(step(&d), 1);
        assert_true(has_sent(&d, "2"));
        assert_int_equal(step(&d), 0);
        app_session_run(slow, "COMMIT");
        assert_int_equal(step(&d), 1);
        assert_true(has_sent(&d, "1"));
        app_session_close(slow);
        desk_close(&d);
    }
}

/* One that looks only where it has last found something is as bad while there is always something
 * to find. */
static void p1_late_committer_among_many(void **state)
{
    server_case *c = *state;
    desk d;
    semel_relay_options options = {.size = sizeof options, .batch = 2};
    desk_open(&d, c, &options);
    app_session *slow = send_and_stall(c, "late", NULL);
    app_session_run(slow, "UPDATE semel_outbox SET wake_ms = wake_ms - 60000, "
                          "captured_ms = captured_ms - 60000"); /* its own one: a minute ago */
    int64_t deadline = process_now_ms() + CASE_WAIT_MS;
    for (unsigned i = 0; !has_sent(&d, "late") && process_now_ms() < deadline; i++) {
        for (int j = 0; j < 4; j++) { /* more than a step takes */
            char id[16];
            (void)snprintf(id, sizeof id, "%u.%d", i, j);
            send(c, id, NULL);
        }
        assert_int_equal(step(&d), 2);
        if (i == 4)
            app_session_run(slow, "COMMIT");
    }
    assert_true(has_sent(&d, "late"));
    app_session_close(slow);
    desk_close(&d);
}

/* --- P2 --------------------------------------------------------------------------------------- */

typedef enum owner { MINE_BUT_LATE, ANOTHER, UNOWNED, DONE, GONE, OWNERS } owner;
typedef enum verb { COMMIT, FAIL, RENEW, ROLLBACK, VERBS } verb;

static semel_unit *claim(server_case *c, const semel_message *message)
{
    semel_unit *unit = NULL;
    semel_outcome out;
    OK(semel_unit_begin(&unit, c->base.store, &last_error));
    OK(semel_unit_claim(&out, unit, c->inbox, message, &last_error));
    assert_int_equal(out, SEMEL_CLAIMED);
    return unit;
}

/* What happened to the key after its first owner's lease was over; the new owner's unit, if it has
 * one. */
static semel_unit *pass_on(server_case *c, const semel_message *message, owner to)
{
    semel_outcome out;
    if (to == MINE_BUT_LATE)
        return NULL;
    semel_unit *unit = claim(c, message);
    if (to == ANOTHER)
        return unit;
    if (to == UNOWNED)
        OK(semel_unit_fail(&out, unit, NULL, &last_error));
    else
        OK(semel_unit_commit(unit, &last_error));
    if (to == GONE)
        OK(semel_inbox_forget(c->inbox, message, &last_error));
    return NULL;
}

static void act(semel_unit *stale, verb what)
{
    semel_outcome out;
    semel_error why;
    semel_fail(&why, SEMEL_EGIVEUP, "the stale owner gives up");
    if (what == RENEW)
        FAILS(SEMEL_ELOST, semel_unit_renew(stale, 1000, &last_error));
    if (what == FAIL) {
        OK(semel_unit_fail(&out, stale, &why, &last_error));
        assert_int_equal(out, SEMEL_FAILED);
    } else if (what == COMMIT) {
        FAILS(SEMEL_ELOST, semel_unit_commit(stale, &last_error));
    } else {
        semel_unit_rollback(stale);
    }
}

/* An UPDATE by key alone lets a worker whose lease is over complete, fail, extend or delete what
 * another one is working on: the other's work is lost, or done a third time. */
static void p2_stale_owner(void **state)
{
    server_case *c = *state;
    static const uint32_t attempt[OWNERS] = {[MINE_BUT_LATE] = 2, [UNOWNED] = 3, [GONE] = 1};
    for (owner to = MINE_BUT_LATE; to < OWNERS; to++)
        for (verb what = COMMIT; what < VERBS; what++) {
            char id[16];
            (void)snprintf(id, sizeof id, "%d-%d", (int)to, (int)what);
            semel_message message = text_message(id, "10 EUR");
            case_work todo = {.wrong = SEMEL_OK};
            semel_unit *stale = claim(c, &message);
            server_pass_ms(c->base.place.url, LEASE_MS);
            semel_unit *theirs = pass_on(c, &message, to);
            act(stale, what);
            if (theirs)
                OK(semel_unit_commit(theirs, &last_error));
            CASE_RECEIVES(SEMEL_OK, attempt[to] ? SEMEL_PROCESSED : SEMEL_DUPLICATE, c, id, &todo);
            assert_int_equal(todo.work.attempt, attempt[to]);
        }
    assert_int_equal(case_number(c, "SELECT count(*) FROM semel_dead"), 0);
}

/* --- P5 --------------------------------------------------------------------------------------- */

static atomic_uint runs;

static void count_run(case_work *self, semel_unit *unit, const semel_message *message)
{
    (void)self, (void)unit, (void)message;
    atomic_fetch_add(&runs, 1);
}

static void receive_the_one(test_thread *member)
{
    semel_outcome out;
    semel_error err = {0};
    case_work todo = {.after = count_run};
    while (case_receive(member->context, &out, "m", &todo, &err) || !semel_outcome_settled(out))
        if (!err.retryable)
            process_give_up(__FILE__, __LINE__, err.text);
}

/* Sixty-four look, see nothing, and act; or insert, and do not look at how many rows that were; or
 * look again in a snapshot in which the winner's row is not to be seen. */
static void p5_check_then_act(void **state)
{
    server_case *c = *state;
    char url[SERVER_URL_ROOM];
    case_close(c);
    (void)snprintf(url, sizeof url, "%.490s&pool=%d", c->base.place.url, THREADS);
    case_open_at(c, url, CASE_WAIT_MS, NULL);
    atomic_store(&runs, 0);
    assert_true(threads_run(THREADS, receive_the_one, c));
    assert_int_equal(case_times(c, "m"), 1);
    if (c->mode == BY_TRANSACTION && strstr(c->base.place.url, "read-committed"))
        assert_int_equal(atomic_load(&runs), 1);
}

/* --- P13 -------------------------------------------------------------------------------------- */

typedef struct slow_broker {
    server_case *c;
    scratch directory;
    char path[SCRATCH_PATH];
    broker_file file;
    semel_transport *transport;
    int open; /* transactions while it was at work */
    int64_t skip_ms;
} slow_broker;

static void broker_open(slow_broker *b, server_case *c, void (*before)(void *context))
{
    *b = (slow_broker){.c = c, .open = -1};
    scratch_open(&b->directory);
    scratch_file(b->path, &b->directory, "broker");
    b->file = (broker_file){.path = b->path, .before = before, .context = b};
    OK(broker_file_open(&b->transport, &b->file, &last_error));
}

static void broker_close(slow_broker *b)
{
    semel_transport_close(b->transport);
    scratch_close(&b->directory);
}

/* It takes its time: others need connections meanwhile, as many as the pool has. */
static void take_time(void *context)
{
    slow_broker *b = context;
    semel_unit *units[2] = {NULL, NULL};
    case_nap(b->c);
    b->open = case_open_transactions(b->c);
    for (int i = 0; i < 2; i++)
        OK(semel_unit_begin(&units[i], b->c->base.store, &last_error));
    for (int i = 0; i < 2; i++)
        semel_unit_rollback(units[i]);
}

/* SELECT ... FOR UPDATE, publish, COMMIT: a broker that is slow for half a minute keeps a
 * connection and a transaction for as long, and then all of them. */
static void p13_transaction_over_broker_io(void **state)
{
    server_case *c = *state;
    slow_broker b;
    semel_relay *relay = NULL;
    char url[SERVER_URL_ROOM];
    size_t sent = 0;
    case_close(c);
    (void)snprintf(url, sizeof url, "%.490s&pool=2", c->base.place.url);
    case_open_at(c, url, CASE_BUSY_MS, NULL);
    broker_open(&b, c, take_time);
    OK(semel_relay_open(&relay, c->outbox, b.transport, NULL, &last_error));
    send(c, "m", NULL);
    OK(semel_relay_step(&sent, relay, 0, &last_error));
    assert_int_equal(sent, 1);
    assert_int_equal(b.open, 0);
    semel_relay_close(relay);
    broker_close(&b);
}

enum { RELAYS = 4, MESSAGES = 120 };

static void drain(test_thread *member)
{
    desk *d = member->context;
    semel_transport *recorder = NULL;
    semel_relay *relay = NULL;
    semel_error err = {0};
    size_t sent = 0;
    semel_relay_options options = {.size = sizeof options, .batch = 5};
    PROCESS_REQUIRE_OK(semel_test_recorder_open(&recorder, &err), &err);
    PROCESS_REQUIRE_OK(semel_relay_open(&relay, d->c->outbox, recorder, &options, &err), &err);
    while (atomic_load(&runs) < MESSAGES) {
        PROCESS_REQUIRE_OK(semel_relay_step(&sent, relay, 0, &err), &err); /* never a conflict */
        atomic_fetch_add(&runs, (unsigned)sent);
    }
    semel_relay_close(relay);
    semel_transport_close(recorder);
}

/* FOR UPDATE SKIP LOCKED in a snapshot: what another relay has changed meanwhile is a serialization
 * failure, and with several relays most of what they do. */
static void p13_skip_locked_in_a_snapshot(void **state)
{
    server_case *c = *state;
    desk d = {.c = c};
    for (int i = 0; i < MESSAGES; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%d", i);
        send(c, id, i % 3 ? NULL : i % 2 ? "a" : "b");
    }
    atomic_store(&runs, 0);
    assert_true(threads_run(RELAYS, drain, &d));
    assert_int_equal(atomic_load(&runs), MESSAGES);
    assert_int_equal(case_unsent(c), 0);
}

/* --- P15 -------------------------------------------------------------------------------------- */

static void lose_commit(case_work *self, semel_unit *unit, const semel_message *message)
{
    server_case *c = self->context;
    (void)unit, (void)message;
    self->after = NULL;
    proxy_lose_request(c->between, case_commit_bytes(c));
}

/* "Handled" is written into memory when the handler returns, and the commit fails: the message is
 * skipped from then on, or the mail leaves although there is no order. */
static void p15_believed_before_the_commit(void **state)
{
    server_case *c = *state;
    semel_message mail = text_message("mail", "paid");
    case_work todo = {.after = lose_commit, .context = c};
    semel_counters counters;
    desk d;
    desk_open(&d, c, NULL);
    todo.work.outbox = c->outbox;
    todo.work.sends = &mail;
    CASE_RECEIVES(SEMEL_EUNKNOWN, SEMEL_UNDECIDED, c, "m", &todo);
    OK(semel_store_counters(&counters, sizeof counters, c->base.store, &last_error));
    assert_int_equal(counters.processed + counters.captured + counters.duplicates, 0);
    assert_int_equal(step(&d), 0);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m", &todo);
    int messages = c->mode == BY_BATCH ? CASE_BATCH : 1;
    assert_int_equal(step(&d), messages);
    assert_int_equal(case_times(c, "m"), 1);
    desk_close(&d);
}

/* --- P16 -------------------------------------------------------------------------------------- */

static int64_t skipped_ms;

static int64_t steady_and_skipped(void *unused)
{
    (void)unused;
    return process_now_ms() + skipped_ms;
}

/* Two thirds of the lease go by, here and at the server. */
static void take_too_long(void *context)
{
    slow_broker *b = context;
    skipped_ms += b->skip_ms;
    if (b->skip_ms)
        server_pass_ms(b->c->base.place.url, b->skip_ms);
    b->skip_ms = 0;
}

/* Three are leased together, the first takes longer than the lease: by its turn the third belongs
 * to another relay, and both send it. */
static void p16_the_tail_of_a_slow_batch(void **state)
{
    server_case *c = *state;
    slow_broker b;
    semel_relay *relay = NULL;
    size_t sent = 0;
    broker_log log;
    skipped_ms = 0;
    c->seam.steady_ms = steady_and_skipped;
    reopen(c, NULL);
    broker_open(&b, c, take_too_long);
    b.skip_ms = 20000;
    OK(semel_relay_open(&relay, c->outbox, b.transport, NULL, &last_error)); /* a lease of 30 s */
    for (int i = 1; i <= 3; i++)
        send(c, i == 1 ? "1" : i == 2 ? "2" : "3", "g");
    OK(semel_relay_step(&sent, relay, 0, &last_error));
    assert_int_equal(sent, 1);
    server_pass_ms(c->base.place.url, 20000); /* their lease would be over now */
    for (int i = 0; i < 3 && case_unsent(c); i++)
        OK(semel_relay_step(&sent, relay, 0, &last_error));
    broker_log_read(&log, b.path);
    assert_int_equal(log.count, 3);
    for (size_t i = 0; i < log.count; i++)
        assert_int_equal(log.entries[i].id[0], (int)('1' + i));
    broker_log_free(&log);
    semel_relay_close(relay);
    broker_close(&b);
}

int main(void)
{
    static const server_test tests[] = {
        SERVER_TEST(p1_late_committer, 0),
        SERVER_TEST(p1_late_committer_among_many, 0),
        SERVER_TEST(p2_stale_owner, IN_CLAIM),
        SERVER_TEST(p5_check_then_act, IN_TRANSACTION | IN_QUEUE | AT_ALL_LEVELS),
        SERVER_TEST(p13_transaction_over_broker_io, 0),
        SERVER_TEST(p13_skip_locked_in_a_snapshot, AT_ALL_LEVELS),
        SERVER_TEST(p15_believed_before_the_commit, IN_ALL_MODES & ~IN_CLAIM),
        SERVER_TEST(p16_the_tail_of_a_slow_batch, 0)};
    return SERVER_TESTS(tests);
}
