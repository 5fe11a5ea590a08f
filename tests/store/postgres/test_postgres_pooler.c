/* PgBouncer between store and server: in both modes, and whether it refuses the setting that bounds
 * waits for locks, or drops it. Waits end, retention and relaying work, nothing stays in sessions
 * that another client gets next, and a commit whose answer is lost behind the pooler is not taken
 * for a failure. */
#include "support/process/process.h"
#include "support/servers/sql/app_session.h"
#include "support/servers/sql/pooler.h"
#include "support/servers/sql/server_case.h"

#include <semel/test.h>
#include <stdio.h>

static const pooler_settings ways[] = {{.mode = "session", .ignored = ""},
                                       {.mode = "session", .ignored = "options"},
                                       {.mode = "transaction", .ignored = ""},
                                       {.mode = "transaction", .ignored = "options"}};

/* The proxy of the case is between pooler and server. */
static void open_behind(server_case *c, const pooler_settings *way, uint32_t busy_ms)
{
    char url[SERVER_URL_ROOM];
    pooler_settings settings = *way;
    semel_inbox_options options = {.size = sizeof options, .wait_ms = busy_ms};
    case_close(c);
    settings.path = c->name;
    settings.port = proxy_port(c->between);
    pooler_start(&settings);
    pooler_url(url, c->base.place.url);
    case_open_at(c, url, busy_ms, &options);
    assert_int_equal(case_settle(c, "warm", NULL), SEMEL_PROCESSED);
    assert_int_equal(case_settle(c, "warm", NULL), SEMEL_DUPLICATE);
    assert_int_equal(case_times(c, "warm"), 1);
}

static void close_behind(server_case *c)
{
    case_close(c);
    pooler_end();
    server_run(c->base.place.url, "DELETE FROM effect; DELETE FROM semel_marker");
}

static void each_way(server_case *c, uint32_t busy_ms, void (*look)(server_case *c))
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        print_message("  %s, ignoring \"%s\"\n", ways[i].mode, ways[i].ignored);
        open_behind(c, &ways[i], busy_ms);
        look(c);
        close_behind(c);
    }
}

static semel_status receive(server_case *c)
{
    semel_outcome out;
    semel_status status = case_receive(c, &out, "m", NULL, &last_error);
    assert_int_equal(out, SEMEL_UNDECIDED);
    return status;
}

static semel_status migrate(server_case *c)
{
    return semel_store_migrate(c->base.store, &last_error);
}

/* A server that waits longer is given up after answer_ms, with EUNAVAILABLE. */
static void ends_busy(server_case *c, const char *lock, semel_status (*call)(server_case *c))
{
    int64_t deadline = process_now_ms() + CASE_WAIT_MS;
    semel_status status;
    app_session *dba = app_session_open(c);
    app_session_run(dba, "BEGIN");
    app_session_run(dba, lock);
    do /* on a slow machine a connection may not be had in that time */
        status = call(c);
    while (status == SEMEL_EUNAVAILABLE && process_now_ms() < deadline);
    if (status != SEMEL_EBUSY)
        fail_msg("%s: %s", semel_status_name(status), last_error.text);
    app_session_run(dba, "ROLLBACK");
    app_session_close(dba);
}

static void look_at_waits(server_case *c)
{
    ends_busy(c, "LOCK TABLE semel_marker IN ACCESS EXCLUSIVE MODE", receive);
    ends_busy(c,
              "SELECT pg_advisory_xact_lock(hashtextextended('semel \"' || current_schema || "
              "'\"', 0))",
              migrate);
    assert_int_equal(case_settle(c, "m", NULL), SEMEL_PROCESSED);
    assert_int_equal(case_times(c, "m"), 1);
}

static void waits_for_locks_end(void **state)
{
    each_way(*state, 300, look_at_waits);
}

/* Sessions, not transactions, have what is still there when nothing is open. */
static void look_at_sessions(server_case *c)
{
    semel_relay *relay = NULL;
    semel_transport *broker = NULL;
    semel_message mail = text_message("mail-1", "paid");
    size_t count = 0;
    int more = 1;
    OK(semel_test_recorder_open(&broker, &last_error));
    OK(semel_relay_open(&relay, c->outbox, broker, NULL, &last_error));
    OK(semel_outbox_send(c->outbox, &mail, &last_error));
    OK(semel_relay_step(&count, relay, 0, &last_error));
    assert_int_equal(count, 1);
    OK(semel_relay_step(&count, relay, 250, &last_error)); /* it waits, and would listen */
    assert_int_equal(case_number(c, "SELECT count(*) FROM pg_stat_activity WHERE query = "
                                    "'LISTEN \"semel.' || current_schema || '\"'"),
                     0);
    semel_relay_close(relay);
    semel_transport_close(broker);
    server_run(c->base.place.url, "UPDATE semel_marker SET at_ms = 1");
    while (more)
        OK(semel_inbox_sweep(&count, &more, c->inbox, 0, &last_error));
    assert_int_equal(case_number(c, "SELECT count(*) FROM semel_marker"), 0);
    assert_int_equal(case_number(c, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND "
                                    "(classid::bigint << 32 | objid::bigint) >> 24 = "
                                    "'semel_marker'::regclass::oid::bigint"),
                     0);
}

static void nothing_stays_in_a_session(void **state)
{
    each_way(*state, CASE_BUSY_MS, look_at_sessions);
}

/* All of the pipeline's answers are lost, so what the pooler says stands in the place of the
 * first. */
static void lose_the_answer(case_work *self, semel_unit *unit, const semel_message *message)
{
    const server_case *c = self->context;
    (void)unit, (void)message;
    self->after = NULL;
    proxy_lose_answer(c->between, c->mode == BY_QUEUE ? ".semel_marker (" : "COMMIT");
}

static void look_at_a_lost_answer(server_case *c)
{
    case_work todo = {.after = lose_the_answer, .context = c};
    assert_int_equal(case_settle(c, "new", NULL),
                     SEMEL_PROCESSED); /* so the next one may be, too */
    CASE_RECEIVES(SEMEL_EUNKNOWN, SEMEL_UNDECIDED, c, "m", &todo);
    assert_true(last_error.retryable);
    assert_int_equal(case_times(c, "m"), 1);
    assert_int_equal(case_settle(c, "m", NULL), SEMEL_DUPLICATE);
    assert_int_equal(case_times(c, "m"), 1);
}

static void the_answer_of_a_commit_is_lost_behind_it(void **state)
{
    each_way(*state, CASE_BUSY_MS, look_at_a_lost_answer);
}

int main(void)
{
    static const server_test tests[] = {
        SERVER_TEST(waits_for_locks_end, IN_ALL_MODES | POSTGRES_ONLY),
        SERVER_TEST(nothing_stays_in_a_session, IN_TRANSACTION | POSTGRES_ONLY),
        SERVER_TEST(the_answer_of_a_commit_is_lost_behind_it, IN_ALL_MODES | POSTGRES_ONLY)};
    return SERVER_TESTS(tests);
}
