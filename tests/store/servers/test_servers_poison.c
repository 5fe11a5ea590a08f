/* One message whose work runs into a limit of the server, or takes its connection down. The store
 * answers all others: so it is no outage. The message is counted, waits behind the others, and
 * becomes a dead letter; the others are handled meanwhile. By a consumer, one by one and in
 * batches, and by a local hand-off. */
#include "support/process/process.h"
#include "support/process/threads.h"
#include "support/servers/sql/server_case.h"

#include <libpq-fe.h>
#include <mysql.h>
#include <semel/mariadb.h>
#include <semel/postgres.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEALTHY = 12, ATTEMPTS = 3, STATEMENTS = 3 };

/* --- poisons ---------------------------------------------------------------------------------- */

/* Statements of the handler's own, or queued; with `vanishes`, the handler then waits until the
 * server has ended the session by itself. */
typedef struct poison {
    const char *name;
    server_kind kind;
    int queued;
    int vanishes;
    const char *sql[STATEMENTS];
} poison;

#define SORT_MUCH \
    "SELECT count(*) FROM (SELECT g FROM generate_series(1, 300000) AS g ORDER BY random()) AS s"

#define INSERT_MUCH                                                              \
    "SET STATEMENT max_statement_time = 0.02 FOR INSERT INTO effect SELECT seq " \
    "FROM seq_1_to_1000000000"

static const poison poisons[] = {
    {"a backend that is terminated",
     SERVER_POSTGRES,
     0,
     0,
     {"SELECT pg_terminate_backend(pg_backend_pid())"}},
    {"the same, queued", SERVER_POSTGRES, 1, 0, {"SELECT pg_terminate_backend(pg_backend_pid())"}},
    {"temp_file_limit",
     SERVER_POSTGRES,
     0,
     0,
     {"SET LOCAL temp_file_limit = '64kB'", "SET LOCAL work_mem = '64kB'", SORT_MUCH}},
    {"temp_file_limit, queued",
     SERVER_POSTGRES,
     1,
     0,
     {"SELECT set_config('temp_file_limit', '64kB', true), set_config('work_mem', '64kB', true)",
      SORT_MUCH}},
    {"statement_timeout",
     SERVER_POSTGRES,
     0,
     0,
     {"SET LOCAL statement_timeout = 20", "SELECT pg_sleep(600)"}},
    {"statement_timeout, queued",
     SERVER_POSTGRES,
     1,
     0,
     {"SELECT set_config('statement_timeout', '20', true)", "SELECT pg_sleep(600)"}},
    {"out of memory",
     SERVER_POSTGRES,
     1,
     0,
     {"DO $$ BEGIN RAISE EXCEPTION 'out' USING ERRCODE = '53200'; END $$"}},
    {"idle_in_transaction_session_timeout",
     SERVER_POSTGRES,
     0,
     1,
     {"SET LOCAL idle_in_transaction_session_timeout = 20"}},
    {"a connection that is killed", SERVER_MARIADB, 0, 0, {"KILL CONNECTION_ID()"}},
    {"the same, queued", SERVER_MARIADB, 1, 0, {"EXECUTE IMMEDIATE 'KILL CONNECTION_ID()'"}},
    {"max_statement_time", SERVER_MARIADB, 0, 0, {INSERT_MUCH}},
    {"max_statement_time, queued", SERVER_MARIADB, 1, 0, {"EXECUTE IMMEDIATE '" INSERT_MUCH "'"}},
    {"wait_timeout", SERVER_MARIADB, 0, 1, {"SET SESSION wait_timeout = 1"}},
    {"a handler that rolls back and fails",
     SERVER_MARIADB,
     0,
     0,
     {"ROLLBACK", "INSERT INTO nowhere VALUES (1)"}},
};

/* --- the work --------------------------------------------------------------------------------- */

typedef struct poison_case {
    server_case *c;
    const poison *poison;
    semel_transport *queue;
    semel_consumer *consumer;
    semel_relay *relay;
    unsigned runs; /* of the poison; one thread */
    semel_status status;
    semel_error err;
    test_thread thread;
} poison_case;

static int64_t session_of(const server_case *c, semel_unit *unit)
{
    return c->kind == SERVER_POSTGRES ? PQbackendPID(semel_unit_postgres(unit))
                                      : (int64_t)mysql_thread_id(semel_unit_mariadb(unit));
}

static void wait_until_it_vanished(const server_case *c, int64_t session)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql,
                   c->kind == SERVER_POSTGRES
                       ? "SELECT count(*) FROM pg_stat_activity WHERE pid = %lld"
                       : "SELECT count(*) FROM information_schema.processlist WHERE id = %lld",
                   (long long)session);
    int64_t deadline = process_now_ms() + CASE_WAIT_MS;
    while (case_number(c, sql) && process_now_ms() < deadline)
        case_nap(c);
}

static semel_status take_poison(poison_case *s, semel_unit *unit, semel_error *err)
{
    const poison *p = s->poison;
    s->runs++;
    for (int i = 0; i < STATEMENTS && p->sql[i]; i++) {
        if (p->queued) {
            semel_status status = semel_unit_queue(unit, p->sql[i], NULL, 0, err);
            if (status)
                return status;
        } else if (!case_sql(unit, p->sql[i])) {
            return semel_fail(err, SEMEL_EHANDLER, "a statement failed");
        }
    }
    if (p->vanishes)
        wait_until_it_vanished(s->c, session_of(s->c, unit));
    return SEMEL_OK;
}

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    poison_case *s = context;
    case_work nothing = {.wrong = SEMEL_OK};
    semel_status status = case_handle(unit, message, &nothing, err);
    int is_poison = message->id.len == 6 && memcmp(message->id.data, "poison", 6) == 0;
    return status || !is_poison ? status : take_poison(s, unit, err);
}

/* --- how it is brought ------------------------------------------------------------------------ */

typedef enum way { ONE_BY_ONE, IN_BATCHES, BY_DEFAULT, BY_HAND_OFF, WAYS } way;

static semel_message nth(char id[16], int i)
{
    (void)snprintf(id, 16, i ? "m-%d" : "poison", i);
    return text_message(id, "10 EUR");
}

static void start_consumer(poison_case *s, way how)
{
    semel_route route = {.pattern = "*", .inbox = s->c->inbox, .handler = handle, .context = s};
    semel_consumer_options options = {.size = sizeof options, .backoff_ms = 20};
    options.batch = how == IN_BATCHES ? 5 : how == ONE_BY_ONE ? 1 : 0;
    OK(semel_transport_open(&s->queue, "memory:", NULL, &last_error));
    for (int i = 0; i <= HEALTHY; i++) {
        char id[16];
        semel_message message = nth(id, i);
        const semel_message *one = &message;
        semel_publish_result result;
        OK(semel_transport_publish(&result, s->queue, &one, 1, CASE_WAIT_MS, &last_error));
    }
    OK(semel_consumer_open(&s->consumer, s->queue, &route, 1, &options, &last_error));
}

static void start_relay(poison_case *s)
{
    semel_relay_options options = {
        .size = sizeof options, .attempts_max = ATTEMPTS, .backoff_ms = 20, .poll_ms = 50};
    for (int i = 0; i <= HEALTHY; i++) {
        char id[16];
        semel_message message = nth(id, i);
        OK(semel_outbox_send(s->c->outbox, &message, &last_error));
    }
    OK(semel_relay_open_local(&s->relay, s->c->outbox, s->c->inbox, handle, s, &options,
                              &last_error));
}

static void run(test_thread *member)
{
    poison_case *s = member->context;
    s->status =
        s->relay ? semel_relay_run(s->relay, &s->err) : semel_consumer_run(s->consumer, &s->err);
}

static void stop(poison_case *s)
{
    if (s->relay)
        semel_relay_stop(s->relay);
    else
        semel_consumer_stop(s->consumer);
    if (!test_thread_join(&s->thread, CASE_WAIT_MS))
        fail_msg("the run does not end");
    semel_relay_close(s->relay);
    semel_consumer_close(s->consumer);
    semel_transport_close(s->queue);
}

/* --- what must come of it --------------------------------------------------------------------- */

static int64_t letters(const poison_case *s)
{
    return case_number(s->c, "SELECT count(*) FROM semel_dead");
}

static int64_t effects(const poison_case *s)
{
    return case_number(s->c, "SELECT count(*) FROM effect");
}

static int is_over(const poison_case *s)
{
    return letters(s) == 1 && effects(s) == HEALTHY;
}

static void poison_it(server_case *c, const poison *p, way how)
{
    poison_case s = {.c = c, .poison = p};
    semel_inbox_options options = {.size = sizeof options, .attempts_max = ATTEMPTS};
    case_close(c);
    case_open(c, CASE_BUSY_MS, &options);
    server_run(c->base.place.url, "DELETE FROM effect");
    server_run(c->base.place.url, "DELETE FROM semel_dead");
    server_run(c->base.place.url, "DELETE FROM semel_marker");
    if (how == BY_HAND_OFF)
        start_relay(&s);
    else
        start_consumer(&s, how);
    test_thread_start(&s.thread, run, &s);
    int64_t deadline = process_now_ms() + 2 * CASE_WAIT_MS;
    while (!is_over(&s) && process_now_ms() < deadline)
        case_nap(c);
    int over = is_over(&s);
    int64_t found = letters(&s), done = effects(&s);
    stop(&s);
    if (!over || s.status)
        fail_msg("%s, way %d: %d effects, %d letters, %u runs, %s", p->name, how, (int)done,
                 (int)found, s.runs, s.err.text);
    assert_int_equal(case_number(c, "SELECT attempts FROM semel_dead"), ATTEMPTS);
}

static void it_is_counted_and_others_go_on(void **state)
{
    server_case *c = *state;
    for (size_t i = 0; i < sizeof poisons / sizeof *poisons; i++)
        for (int how = 0; how < WAYS; how++)
            if (poisons[i].kind == c->kind)
                poison_it(c, &poisons[i], (way)how);
}

/* --- what triggers and constraints say at the commit ------------------------------------------ */

/* With an SQLSTATE that the trigger's author invented, or that has another meaning elsewhere. */
static void a_deferred_trigger_is_the_handlers_failure_whatever_its_sqlstate(void **state)
{
    static const char *const states[] = {"ZX123", "23514", "P0001", "0A000", "22012", "42P01",
                                         "08006", "53100", "57P01", "XX000", "25006"};
    server_case *c = *state;
    server_run(c->base.place.url,
               "CREATE TABLE what (state text); CREATE FUNCTION refuse() RETURNS trigger LANGUAGE "
               "plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = (SELECT state FROM "
               "what); END $$; CREATE CONSTRAINT TRIGGER late AFTER INSERT ON effect DEFERRABLE "
               "INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()");
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        char sql[128], id[16];
        semel_outcome out;
        semel_message message;
        (void)snprintf(sql, sizeof sql, "DELETE FROM what; INSERT INTO what VALUES ('%s')",
                       states[i]);
        (void)snprintf(id, sizeof id, "m-%zu", i);
        server_run(c->base.place.url, sql);
        message = text_message(id, "10 EUR");
        case_work nothing = {.wrong = SEMEL_OK};
        semel_status status = semel_inbox_receive(&out, c->inbox, &message,
                                                  c->mode == BY_QUEUE ? case_queue : case_handle,
                                                  &nothing, &last_error);
        if (status != SEMEL_EHANDLER || out != SEMEL_FAILED)
            fail_msg("%s: %s, %s (%s)", states[i], semel_status_name(status),
                     semel_outcome_name(out), last_error.text);
    }
    assert_int_equal(case_number(c, "SELECT count(*) FROM semel_marker WHERE attempts = 1"),
                     sizeof states / sizeof *states);
}

int main(void)
{
    static const server_test tests[] = {
        SERVER_TEST(it_is_counted_and_others_go_on, IN_TRANSACTION),
        SERVER_TEST(a_deferred_trigger_is_the_handlers_failure_whatever_its_sqlstate,
                    IN_TRANSACTION | IN_QUEUE | POSTGRES_ONLY)};
    return SERVER_TESTS(tests);
}
