/* See server_case.h. */
#include "support/servers/sql/server_case.h"

#include "support/process/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef SEMEL_WITH_POSTGRES
#include <libpq-fe.h>
#include <semel/postgres.h>
#endif
#ifdef SEMEL_WITH_MARIADB
#include <mysql.h>
#include <semel/mariadb.h>
#endif

enum { SQL_ROOM = 512, TESTS_MAX = 400 };

/* --- making ----------------------------------------------------------------------------------- */

static semel_status pass_point(void *context, const char *point)
{
    server_case *c = context;
    if (c->passing)
        c->passing(c, point);
    return SEMEL_OK;
}

static const char *level_parameter(case_level level)
{
    static const char *const parameters[CASE_LEVELS] = {
        "", "&isolation=read-committed", "&isolation=repeatable-read", "&isolation=serializable",
        "%20-cdefault_transaction_isolation%3Dserializable"};
    return parameters[level];
}

/* The schema is in the search path, so that the same SQL does for both servers. */
static void print_url(server_case *c, case_level level, const char *parameters)
{
    char fresh[SERVER_URL_ROOM], *url = c->base.place.url;
    memcpy(fresh, url, sizeof fresh);
    const char *name =
        c->kind == SERVER_POSTGRES ? strstr(fresh, "schema=") + 7 : strrchr(fresh, '/') + 1;
    (void)snprintf(c->name, sizeof c->name, "%s", name);
    int len = c->kind == SERVER_POSTGRES
                  ? snprintf(url, sizeof fresh,
                             "%s&application_name=%s&options=-cdeadlock_timeout%%3D50%%20-csearch_"
                             "path%%3D%s%s%s",
                             fresh, c->name, c->name, level_parameter(level), parameters)
                  : snprintf(url, sizeof fresh, "%s?connect_timeout=60%s%s", fresh,
                             level_parameter(level), parameters);
    if (len < 0 || (size_t)len >= sizeof fresh)
        abort();
}

semel_store *case_other(const server_case *c)
{
    semel_store_options how = {.size = sizeof how, .busy_ms = CASE_BUSY_MS};
    semel_store *store = NULL;
    OK(semel_store_open(&store, c->base.place.url, &how, &last_error));
    return store;
}

void case_make(server_case *c, const server_place *where, const server_shape *shape,
               const char *parameters)
{
    *c = (server_case){.kind = where->kind, .mode = shape->mode};
    c->seam = (semel_seam){.size = sizeof c->seam, .context = c, .fault = pass_point};
    store_place_open_ready(&c->base.place, where);
    print_url(c, shape->level, parameters);
    server_run(c->base.place.url, "CREATE TABLE effect (id varchar(64) NOT NULL)");
    c->between = proxy_open(c->base.place.url);
    proxy_url(c->through, c->between, c->base.place.url);
}

void case_remove(server_case *c)
{
    case_close(c);
    proxy_close(c->between);
    store_place_close(&c->base.place);
}

void case_open_at(server_case *c, const char *url, uint32_t busy_ms,
                  const semel_inbox_options *options)
{
    static const semel_mode modes[CASE_MODES] = {SEMEL_TRANSACTION, SEMEL_QUEUED, SEMEL_CLAIM,
                                                 SEMEL_TRANSACTION};
    semel_store_options how = {
        .size = sizeof how, .busy_ms = busy_ms, .seam = &c->seam, .answer_ms = c->answer_ms};
    semel_inbox_options chosen = {.size = sizeof chosen};
    if (options)
        chosen = *options;
    chosen.mode = modes[c->mode];
    chosen.accept_changes = 1; /* the tests of all modes share the name */
    if (!chosen.wait_ms)
        chosen.wait_ms = CASE_WAIT_MS;
    store_place here = c->base.place, there = here;
    (void)snprintf(there.url, sizeof there.url, "%s", url);
    fixture_open_patiently(&c->base, &there, CASE_WAIT_MS, &how);
    c->base.place = here;
    c->inbox = fixture_inbox(&c->base, "orders", &chosen);
    c->outbox = fixture_outbox(&c->base, "mail");
}

void case_open(server_case *c, uint32_t busy_ms, const semel_inbox_options *options)
{
    case_open_at(c, c->through, busy_ms, options);
}

void case_close(server_case *c)
{
    fixture_close(&c->base);
    c->outbox = NULL;
    c->inbox = NULL;
}

void case_retire(server_case *c)
{
    case_close(c);
    proxy_close(c->between);
    c->between = NULL;
}

/* --- running ---------------------------------------------------------------------------------- */

static int setup(void **state)
{
    server_place shared;
    const server_shape *shape = *state;
    server_case *c = calloc(1, sizeof *c);
    server_find(&shared, shape->kind);
    case_make(c, &shared, shape, "");
    case_open(c, CASE_BUSY_MS, NULL);
    *state = c;
    return 0;
}

static int teardown(void **state)
{
    case_remove(*state);
    free(*state);
    return 0;
}

static void name_shape(server_shape *shape, const server_test *test)
{
    static const char *const kinds[] = {"", "postgres", "mariadb"};
    static const char *const modes[CASE_MODES] = {"", ", queued", ", claims", ", batch"};
    static const char *const levels[CASE_LEVELS] = {"", ", read committed", ", repeatable read",
                                                    ", serializable", ", serializable by default"};
    (void)snprintf(shape->name, sizeof shape->name, "%s, %s%s%s", test->name, kinds[shape->kind],
                   modes[shape->mode], levels[shape->level]);
}

typedef struct plan {
    struct CMUnitTest tests[TESTS_MAX];
    server_shape shapes[TESTS_MAX];
    size_t count;
} plan;

static int is_wanted(const server_test *test, server_kind kind, case_mode mode, case_level level)
{
    unsigned modes = test->shapes & IN_ALL_MODES ? test->shapes & IN_ALL_MODES : IN_TRANSACTION;
    if (!(modes & 1U << mode) || (kind == SERVER_MARIADB && test->shapes & POSTGRES_ONLY))
        return 0;
    if (kind == SERVER_MARIADB && level == LEVEL_DEFAULT_SERIALIZABLE)
        return 0;
    return test->shapes & AT_ALL_LEVELS ? level != LEVEL_SERVERS : level == LEVEL_SERVERS;
}

static void add_shapes(plan *p, const server_test *test, server_kind kind)
{
    for (unsigned i = 0; i < (unsigned)CASE_MODES * CASE_LEVELS; i++) {
        server_shape *shape = &p->shapes[p->count];
        *shape = (server_shape){.kind = kind,
                                .mode = (case_mode)(i / CASE_LEVELS),
                                .level = (case_level)(i % CASE_LEVELS)};
        if (!is_wanted(test, kind, shape->mode, shape->level))
            continue;
        if (p->count == TESTS_MAX - 1)
            abort();
        name_shape(shape, test);
        int bare = (test->shapes & WITHOUT_SETUP) != 0;
        p->tests[p->count++] = (struct CMUnitTest){shape->name, test->run, bare ? NULL : setup,
                                                   bare ? NULL : teardown, shape};
    }
}

#ifdef SEMEL_WITH_POSTGRES
enum { HAS_POSTGRES = 1 };
#else
enum { HAS_POSTGRES = 0 };
#endif
#ifdef SEMEL_WITH_MARIADB
enum { HAS_MARIADB = 1 };
#else
enum { HAS_MARIADB = 0 };
#endif

int server_case_run(const server_test tests[], size_t count)
{
    static plan all;
    for (size_t i = 0; i < count; i++) {
        if (HAS_POSTGRES && server_is_wanted(SERVER_POSTGRES))
            add_shapes(&all, &tests[i], SERVER_POSTGRES);
        if (HAS_MARIADB && server_is_wanted(SERVER_MARIADB))
            add_shapes(&all, &tests[i], SERVER_MARIADB);
    }
    cmocka_set_test_filter(getenv("SEMEL_TEST_FILTER")); /* NULL: all */
    return _cmocka_run_group_tests("tests", all.tests, all.count, NULL, NULL);
}

/* --- the handler's work ----------------------------------------------------------------------- */

#ifdef SEMEL_WITH_POSTGRES
static const char *run_postgres(PGconn *conn, const char *sql)
{
    static _Thread_local char state[6];
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    int good = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
    const char *found = good ? "" : PQresultErrorField(result, PG_DIAG_SQLSTATE);
    (void)snprintf(state, sizeof state, "%s", found ? found : "lost");
    PQclear(result);
    return state;
}
#endif

#ifdef SEMEL_WITH_MARIADB
static const char *run_mariadb(MYSQL *conn, const char *sql)
{
    if (mysql_query(conn, sql) != 0)
        return mysql_sqlstate(conn);
    mysql_free_result(mysql_store_result(conn));
    return "";
}
#endif

const char *case_sqlstate(semel_unit *unit, const char *sql)
{
#ifdef SEMEL_WITH_POSTGRES
    PGconn *pg = semel_unit_postgres(unit);
    if (pg)
        return run_postgres(pg, sql);
#endif
#ifdef SEMEL_WITH_MARIADB
    MYSQL *my = semel_unit_mariadb(unit);
    if (my)
        return run_mariadb(my, sql);
#endif
    (void)unit, (void)sql;
    return "none"; /* there is no connection */
}

int case_sql(semel_unit *unit, const char *sql)
{
    return case_sqlstate(unit, sql)[0] == 0;
}

static semel_status write_effect(semel_unit *unit, const semel_message *message, int queues,
                                 semel_error *err)
{
    char sql[SQL_ROOM], id[64];
    (void)snprintf(id, sizeof id, "%.*s", (int)message->id.len, (const char *)message->id.data);
    (void)snprintf(sql, sizeof sql, "INSERT INTO effect (id) VALUES ('%s')", id);
    const char *state = queues ? "none" : case_sqlstate(unit, sql);
    semel_value value = semel_text(id);
    if (strcmp(state, "none") == 0)
        return semel_unit_queue(unit, "INSERT INTO effect (id) VALUES (?)", &value, 1, err);
    return *state ? semel_fail(err, SEMEL_EHANDLER, "the effect: %s", state) : SEMEL_OK;
}

static semel_status handle(semel_unit *unit, const semel_message *message, case_work *self,
                           int queues, semel_error *err)
{
    if (self->before)
        self->before(self, unit, message);
    semel_status status = write_effect(unit, message, queues, err);
    if (!status && self->after)
        self->after(self, unit, message);
    if (!status && self->wrong)
        status = semel_fail(err, self->wrong, "something went wrong in the handler");
    return status ? status : scripted_handler_run(unit, message, &self->work, err);
}

semel_status case_handle(semel_unit *unit, const semel_message *message, void *context,
                         semel_error *err)
{
    return handle(unit, message, context, 0, err);
}

semel_status case_queue(semel_unit *unit, const semel_message *message, void *context,
                        semel_error *err)
{
    return handle(unit, message, context, 1, err);
}

/* --- receiving -------------------------------------------------------------------------------- */

static semel_status receive_batch(server_case *c, semel_outcome *out, const char *id,
                                  case_work *todo, semel_error *err)
{
    char ids[CASE_BATCH][64];
    semel_message messages[CASE_BATCH];
    const semel_message *pointers[CASE_BATCH];
    semel_outcome outcomes[CASE_BATCH];
    for (int i = 0; i < CASE_BATCH; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "%s.%d", id, i);
        messages[i] = text_message(ids[i], "10 EUR");
        pointers[i] = &messages[i];
    }
    semel_status status =
        semel_inbox_receive_batch(outcomes, c->inbox, pointers, CASE_BATCH, case_handle, todo, err);
    *out = outcomes[0];
    for (int i = 1; i < CASE_BATCH && !status; i++) {
        if (semel_outcome_settled(outcomes[i]) != semel_outcome_settled(*out)) {
            *out = SEMEL_IN_PROGRESS;
            return semel_fail(err, SEMEL_EBUSY, "a part of the batch is not settled");
        }
        if (outcomes[i] == SEMEL_PROCESSED)
            *out = SEMEL_PROCESSED;
    }
    return status;
}

semel_status case_receive(server_case *c, semel_outcome *out, const char *id, case_work *todo,
                          semel_error *err)
{
    case_work nothing = {.wrong = SEMEL_OK};
    semel_message message = text_message(id, "10 EUR");
    *out = SEMEL_UNDECIDED;
    if (!todo)
        todo = &nothing;
    return c->mode == BY_BATCH
               ? receive_batch(c, out, id, todo, err)
               : semel_inbox_receive(out, c->inbox, &message, case_handle, todo, err);
}

void case_receives(semel_status status, semel_outcome outcome, server_case *c, const char *id,
                   case_work *todo, const char *file, int line)
{
    semel_outcome out;
    check_forget();
    semel_status got = case_receive(c, &out, id, todo, &last_error);
    check_status(status, got, "case_receive", file, line);
    if (out == outcome)
        return;
    print_error("the outcome is %s, not %s (%s)\n", semel_outcome_name(out),
                semel_outcome_name(outcome), last_error.text);
    _fail(file, line);
}

semel_outcome case_settle(server_case *c, const char *id, case_work *todo)
{
    int64_t deadline = process_now_ms() + CASE_WAIT_MS;
    semel_outcome out;
    semel_error err = {0};
    while (case_receive(c, &out, id, todo, &err) || !semel_outcome_settled(out)) {
        if (!err.retryable || process_now_ms() > deadline)
            fail_msg("%s does not settle: %s, %s", id, semel_outcome_name(out), err.text);
        process_nap();
    }
    return out;
}

/* --- looking ---------------------------------------------------------------------------------- */

int64_t case_number(const server_case *c, const char *sql)
{
    return server_number(c->base.place.url, sql);
}

int case_times(const server_case *c, const char *id)
{
    char sql[SQL_ROOM];
    int keys = c->mode == BY_BATCH ? CASE_BATCH : 1;
    (void)snprintf(sql, sizeof sql,
                   "SELECT count(*) * 1000 + count(DISTINCT id) FROM effect WHERE id %s '%s%s'",
                   keys > 1 ? "LIKE" : "=", id, keys > 1 ? ".%" : "");
    int64_t found = case_number(c, sql);
    if (!found)
        return 0;
    return found % 1000 == keys && found / 1000 % keys == 0 ? (int)(found / 1000 / keys) : -1;
}

/* MariaDB: a statement that has been at it for some time. Nothing else that the tests do takes so
 * long. */
int case_blocked(const server_case *c)
{
    char sql[SQL_ROOM];
    if (c->kind == SERVER_MARIADB)
        return (int)case_number(c, "SELECT count(*) FROM information_schema.processlist"
                                   " WHERE db = database() AND id <> connection_id()"
                                   " AND command = 'Query' AND time_ms > 50");
    (void)snprintf(sql, sizeof sql,
                   "SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s'"
                   " AND wait_event_type = 'Lock'",
                   c->name);
    return (int)case_number(c, sql);
}

/* MariaDB: the list is new if it contains the transaction of this query itself; else it may be old,
 * and counts as one. */
static int count_transactions(const server_case *c)
{
    char sql[SQL_ROOM];
    if (c->kind == SERVER_MARIADB)
        return (int)case_number(c, "START TRANSACTION WITH CONSISTENT SNAPSHOT;"
                                   " SELECT IF(sum(p.id = connection_id()) = 1, count(*) - 1, 1)"
                                   " FROM information_schema.innodb_trx t"
                                   " JOIN information_schema.processlist p ON p.id = "
                                   "t.trx_mysql_thread_id WHERE p.db = database()");
    (void)snprintf(sql, sizeof sql,
                   "SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s'"
                   " AND xact_start IS NOT NULL",
                   c->name);
    return (int)case_number(c, sql);
}

/* MariaDB's list of transactions is new only if no session has read it for a tenth of a second; and
 * several tests that read it should not do so in turns. */
void case_nap(const server_case *c)
{
    struct timespec pause = {.tv_nsec = (110 + process_now_ms() % 7 * 50) * 1000000L};
    if (c->kind == SERVER_MARIADB)
        (void)nanosleep(&pause, NULL);
    else
        process_nap();
}

/* One that has nothing to give back is ended without waiting for it, so it may be seen for a
 * moment. */
int case_open_transactions(const server_case *c)
{
    int64_t deadline = process_now_ms() + CASE_WAIT_MS;
    int count = count_transactions(c);
    while (count && process_now_ms() < deadline) {
        case_nap(c);
        count = count_transactions(c);
    }
    return count;
}

int case_await_blocked(const server_case *c, int count)
{
    int64_t deadline = process_now_ms() + CASE_WAIT_MS;
    while (case_blocked(c) < count) {
        if (process_now_ms() > deadline)
            return 0;
        process_nap();
    }
    return 1;
}

const char *case_commit_bytes(const server_case *c)
{
    if (c->kind == SERVER_MARIADB)
        return "COMMIT";
    return c->mode == BY_QUEUE ? "semel_assume" : "semel_commit"; /* the one has no COMMIT */
}

int64_t case_unsent(server_case *c)
{
    return (int64_t)fixture_counters(&c->base).unsent;
}
