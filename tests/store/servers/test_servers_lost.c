/* What gets lost between a store and its server: the answer of a COMMIT, a request, a connection at
 * any moment, the server itself. P15 and P21 by name are in test_servers_pitfalls.c; here they are
 * in every mode. */
#include "support/fake/broker_file.h"
#include "support/process/process.h"
#include "support/servers/sql/server_case.h"

#include <semel/test.h>
#include <stdio.h>
#include <string.h>

enum { LEASE_MS = 60000 };

/* --- the answer of COMMIT --------------------------------------------------------------------- */

/* The server notices in its own time that a client has gone, and rolls back then; so it does where
 * that is told and not waited for. What is locked until then would not get older: after that leases
 * end. */
static void let_leases_end(server_case *c)
{
    assert_int_equal(case_open_transactions(c), 0);
    server_pass_ms(c->base.place.url, LEASE_MS);
}

typedef void lose(proxy *p, const char *pattern);

static void warm_up(server_case *c)
{
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "warm", NULL);
}

/* From inside the handler, because in claim mode an earlier COMMIT stores the claim. */
static void arm(server_case *c, lose *how)
{
    how(c->between, case_commit_bytes(c));
}

static void arm_answer(case_work *self, semel_unit *unit, const semel_message *message)
{
    (void)unit, (void)message;
    self->after = NULL;
    arm(self->context, proxy_lose_answer);
}

static void arm_request(case_work *self, semel_unit *unit, const semel_message *message)
{
    (void)unit, (void)message;
    self->after = NULL;
    arm(self->context, proxy_lose_request);
}

static void the_answer_of_a_commit_is_lost(void **state)
{
    server_case *c = *state;
    case_work todo = {.after = arm_answer, .context = c};
    warm_up(c);
    CASE_RECEIVES(SEMEL_EUNKNOWN, SEMEL_UNDECIDED, c, "m", &todo);
    assert_true(last_error.retryable);
    assert_int_equal(proxy_count(c->between).lost, 1);
    assert_int_equal(case_times(c, "m"), 1);
    CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, "m", &todo);
    assert_int_equal(case_times(c, "m"), 1);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "n", NULL);
}

static void the_request_of_a_commit_is_lost(void **state)
{
    server_case *c = *state;
    case_work todo = {.after = arm_request, .context = c};
    warm_up(c);
    CASE_RECEIVES(SEMEL_EUNKNOWN, SEMEL_UNDECIDED, c, "m", &todo);
    assert_int_equal(proxy_count(c->between).lost, 1);
    assert_int_equal(case_times(c, "m"), 0);
    let_leases_end(c); /* a claim is still there, and ends with its lease */
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m", &todo);
    assert_int_equal(case_times(c, "m"), 1);
    CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, "m", &todo);
}

/* The claim itself: the inbox does not know that it holds it, and the work has not begun. */
static void the_answer_of_a_claim_is_lost(void **state)
{
    server_case *c = *state;
    case_work todo = {.context = c};
    semel_inbox_options options = {.size = sizeof options, .on_in_flight = SEMEL_IN_FLIGHT_REPORT};
    case_close(c);
    case_open(c, CASE_BUSY_MS, &options);
    warm_up(c);
    arm(c, proxy_lose_answer);
    CASE_RECEIVES(SEMEL_EUNKNOWN, SEMEL_UNDECIDED, c, "m", &todo);
    assert_int_equal(todo.work.runs, 0);
    CASE_RECEIVES(SEMEL_EBUSY, SEMEL_IN_PROGRESS, c, "m", &todo);
    let_leases_end(c);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m", &todo);
    assert_int_equal(case_times(c, "m"), 1);
    assert_int_equal(todo.work.runs, 1);
}

/* The failure of a handler: counted or not, but never an effect, and never more than one
 * attempt. */
static void the_answer_of_a_recorded_failure_is_lost(void **state)
{
    server_case *c = *state;
    case_work todo = {.work = {.failures = 1}, .after = arm_answer, .context = c};
    warm_up(c);
    CASE_RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, c, "m", &todo);
    assert_int_equal(proxy_count(c->between).lost, 1);
    assert_int_equal(case_times(c, "m"), 0);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m", &todo);
    assert_int_equal(todo.work.attempt, 2);
    assert_int_equal(case_times(c, "m"), 1);
}

/* --- outbox and relay ------------------------------------------------------------------------- */

static void a_send_is_there_as_a_whole_or_not_at_all(void **state)
{
    server_case *c = *state;
    semel_message mail = text_message("mail-1", "paid");
    OK(semel_outbox_send(c->outbox, &mail, &last_error));
    arm(c, proxy_lose_answer);
    FAILS(SEMEL_EUNKNOWN, semel_outbox_send(c->outbox, &mail, &last_error));
    assert_int_equal(case_unsent(c), 2);
    OK(semel_outbox_send(c->outbox, &mail, &last_error));
    arm(c, proxy_lose_request);
    FAILS(SEMEL_EUNKNOWN, semel_outbox_send(c->outbox, &mail, &last_error));
    assert_int_equal(case_unsent(c), 3);
}

typedef struct relay_case {
    server_case *c;
    scratch directory;
    char path[SCRATCH_PATH];
    broker_file file;
    semel_transport *broker;
    semel_relay *relay;
    lose *how;
} relay_case;

static void arm_after_publishing(void *context)
{
    relay_case *r = context;
    if (r->how)
        arm(r->c, r->how);
    r->how = NULL;
}

static void relay_open(relay_case *r, server_case *c)
{
    *r = (relay_case){.c = c};
    scratch_open(&r->directory);
    scratch_file(r->path, &r->directory, "broker");
    r->file = (broker_file){.path = r->path, .after = arm_after_publishing, .context = r};
    OK(broker_file_open(&r->broker, &r->file, &last_error));
    OK(semel_relay_open(&r->relay, c->outbox, r->broker, NULL, &last_error));
}

static void relay_close(relay_case *r)
{
    semel_relay_close(r->relay);
    semel_transport_close(r->broker);
    scratch_close(&r->directory);
}

static size_t copies_sent(const relay_case *r)
{
    broker_log log;
    broker_log_read(&log, r->path);
    size_t copies = broker_log_copies(&log, "paid");
    assert_true(broker_log_ids(&log, "paid") <= 1);
    broker_log_free(&log);
    return copies;
}

static void settling_is_repeated_only_if_it_did_not_happen(void **state)
{
    server_case *c = *state;
    relay_case r;
    semel_message mail = text_message("mail-1", "paid");
    size_t sent = 0;
    relay_open(&r, c);
    OK(semel_outbox_send(c->outbox, &mail, &last_error));
    r.how = proxy_lose_answer;
    FAILS(SEMEL_EUNKNOWN, semel_relay_step(&sent, r.relay, 0, &last_error));
    assert_true(last_error.retryable);
    let_leases_end(c);
    OK(semel_relay_step(&sent, r.relay, 0, &last_error));
    assert_int_equal(sent, 0);
    assert_int_equal(copies_sent(&r), 1);
    OK(semel_outbox_send(c->outbox, &mail, &last_error));
    r.how = proxy_lose_request;
    FAILS(SEMEL_EUNKNOWN, semel_relay_step(&sent, r.relay, 0, &last_error));
    assert_int_equal(case_unsent(c), 1);
    let_leases_end(c);
    OK(semel_relay_step(&sent, r.relay, 0, &last_error));
    assert_int_equal(sent, 1);
    assert_int_equal(copies_sent(&r), 3); /* it was sent once more, under its id */
    assert_int_equal(case_unsent(c), 0);
    relay_close(&r);
}

/* --- cut at every point ----------------------------------------------------------------------- */

static void cut_here(server_case *c, const char *point)
{
    if (!c->at || strcmp(point, c->at) != 0)
        return;
    c->passed++;
    if (c->passed == 1)
        proxy_cut(c->between);
}

/* Where the store answers others at once, a lost connection may be the work's own doing:
 * EHANDLER. */
static int is_trouble_of_the_line(semel_status status)
{
    return status == SEMEL_EUNAVAILABLE || status == SEMEL_EUNKNOWN || status == SEMEL_EHANDLER;
}

/* Receives, with the connection cut at c->at, until it is settled; the message goes out with the
 * work. */
static void receive_with_a_cut(server_case *c, const char *id)
{
    semel_message mail = text_message(id, "paid");
    case_work todo = {.work = {.outbox = c->outbox, .sends = &mail}};
    semel_outcome out;
    semel_status status = case_receive(c, &out, id, &todo, &last_error);
    if (status && !is_trouble_of_the_line(status))
        fail_msg("cut at %s: %s (%s)", c->at, semel_status_name(status), last_error.text);
    assert_int_equal(case_open_transactions(c), 0);
    if (c->passed) /* most points are not on this way, and then there is no lease */
        server_pass_ms(c->base.place.url, LEASE_MS);
    out = case_settle(c, id, &todo);
    if (out != SEMEL_PROCESSED && out != SEMEL_DUPLICATE)
        fail_msg("cut at %s: %s", c->at, semel_outcome_name(out));
    if (case_times(c, id) != 1)
        fail_msg("cut at %s: done %d times", c->at, case_times(c, id));
}

static void a_connection_is_cut_at_every_point_of_receiving(void **state)
{
    server_case *c = *state;
    static const char *const points[] = {
#define AS_TEXT(point) point,
        SEMEL_FAULT_POINTS(AS_TEXT)
#undef AS_TEXT
    };
    unsigned tried = 0;
    warm_up(c);
    c->passing = cut_here;
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "cut-%zu", i);
        c->at = points[i];
        c->passed = 0;
        if (strncmp(points[i], "migrate", 7) == 0 || strncmp(points[i], "relay", 5) == 0)
            continue;
        receive_with_a_cut(c, id);
        tried += c->passed > 0;
    }
    c->passing = NULL;
    assert_true(tried >= (c->mode == BY_QUEUE ? 2 : 3));
    int64_t messages = case_number(c, "SELECT count(*) FROM effect WHERE id NOT LIKE 'warm%'");
    assert_int_equal(case_unsent(c), messages);
}

static void a_connection_is_cut_at_every_point_of_relaying(void **state)
{
    server_case *c = *state;
    static const char *const points[] = {"relay.leased", "relay.taken", "relay.published",
                                         "relay.settled", "relay.done"};
    relay_case r;
    size_t sent = 0;
    relay_open(&r, c);
    c->passing = cut_here;
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "cut-%zu", i);
        semel_message mail = text_message(id, id);
        OK(semel_outbox_send(c->outbox, &mail, &last_error));
        c->at = points[i];
        c->passed = 0;
        semel_status status = semel_relay_step(&sent, r.relay, 0, &last_error);
        assert_true(!status || is_trouble_of_the_line(status));
        assert_int_equal(c->passed, 1);
        let_leases_end(c);
        OK(semel_relay_step(&sent, r.relay, 0, &last_error));
        assert_int_equal(case_unsent(c), 0);
    }
    broker_log log;
    broker_log_read(&log, r.path);
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "cut-%zu", i);
        assert_int_equal(broker_log_ids(&log, id), 1);
        assert_in_range(broker_log_copies(&log, id), 1, 2);
    }
    broker_log_free(&log);
    relay_close(&r);
}

/* --- no server there -------------------------------------------------------------------------- */

enum { SHORT_MS = 1500, LATE_MS = 30000 };

static void a_server_that_is_down_is_waited_for_so_long_and_no_longer(void **state)
{
    server_case *c = *state;
    semel_outcome out;
    case_close(c);
    case_open(c, SHORT_MS, NULL);
    assert_int_equal(case_settle(c, "warm", NULL), SEMEL_PROCESSED);
    proxy_refuse(c->between, 1);
    proxy_cut(c->between);
    int64_t began = process_now_ms();
    FAILS(SEMEL_EUNAVAILABLE, case_receive(c, &out, "m", NULL, &last_error));
    assert_int_equal(out, SEMEL_UNDECIDED);
    assert_true(last_error.retryable);
    assert_in_range(process_now_ms() - began, SHORT_MS - 1, SHORT_MS + LATE_MS);
    proxy_refuse(c->between, 0);
    assert_int_equal(case_settle(c, "m", NULL), SEMEL_PROCESSED);
    assert_int_equal(case_times(c, "m"), 1);
}

static void idle_connections_that_were_cut_cost_nothing(void **state)
{
    server_case *c = *state;
    warm_up(c);
    for (int i = 0; i < 5; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "m-%d", i);
        proxy_cut(c->between);
        CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, id, NULL);
    }
}

/* One server for all of it, since starting one takes its time. */
static void a_server_ends_and_comes_back(void **state)
{
    const server_shape *shape = *state;
    server_own own;
    server_case c;
    semel_outcome out;
    server_own_start(&own, shape->kind);
    case_make(&c, &own.at, shape, "");
    case_open_at(&c, c.base.place.url, CASE_BUSY_MS, NULL);
    warm_up(&c);
    server_own_halt(&own);
    server_own_restart(&own);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, &c, "after a halt", NULL);
    case_close(&c);
    case_open_at(&c, c.base.place.url, SHORT_MS, NULL);
    server_own_crash(&own);
    FAILS(SEMEL_EUNAVAILABLE, case_receive(&c, &out, "after a crash", NULL, &last_error));
    server_own_restart(&own);
    assert_int_equal(case_settle(&c, "after a crash", NULL), SEMEL_PROCESSED);
    CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, &c, "warm", NULL);
    CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, &c, "after a halt", NULL);
    assert_int_equal(case_number(&c, "SELECT count(*) FROM effect"), 3);
    case_remove(&c);
    server_own_stop(&own);
}

int main(void)
{
    static const server_test tests[] = {
        SERVER_TEST(the_answer_of_a_commit_is_lost, IN_ALL_MODES),
        SERVER_TEST(the_request_of_a_commit_is_lost, IN_ALL_MODES),
        SERVER_TEST(the_answer_of_a_claim_is_lost, IN_CLAIM),
        SERVER_TEST(the_answer_of_a_recorded_failure_is_lost, IN_TRANSACTION),
        SERVER_TEST(a_send_is_there_as_a_whole_or_not_at_all, 0),
        SERVER_TEST(settling_is_repeated_only_if_it_did_not_happen, 0),
        SERVER_TEST(a_connection_is_cut_at_every_point_of_receiving, IN_ALL_MODES),
        SERVER_TEST(a_connection_is_cut_at_every_point_of_relaying, 0),
        SERVER_TEST(a_server_that_is_down_is_waited_for_so_long_and_no_longer, IN_ALL_MODES),
        SERVER_TEST(idle_connections_that_were_cut_cost_nothing, IN_ALL_MODES),
        SERVER_TEST(a_server_ends_and_comes_back, WITHOUT_SETUP)};
    return SERVER_TESTS(tests);
}
