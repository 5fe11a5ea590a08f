/* The servers that tests use, without semel: what other tests take for granted. All is asked of
 * both. */
#include "support/process/process.h"
#include "support/servers/sql/server_session.h"

#include <unistd.h>

/* --- the shared servers ----------------------------------------------------------------------- */

static void the_server_answers(void **state)
{
    server_place at;
    server_find(&at, kind_of_state(state));
    assert_int_equal(server_number(at.url, "SELECT 41 + 1"), 42);
    assert_int_equal(access(at.socket, F_OK), 0);
    assert_int_equal(access(at.pid_file, F_OK), 0);
}

static void a_fresh_store_is_empty_and_not_shared(void **state)
{
    place *p = *state;
    place other = {0};
    server_place shared;
    server_find(&shared, server_kind_of(p->url));
    server_fresh(other.url, &shared);
    assert_string_not_equal(p->url, other.url);
    make_table(&other); /* would fail if it were the same */
    server_run(p->url, "INSERT INTO t VALUES (1), (2)");
    assert_int_equal(rows(p), 2);
    assert_int_equal(rows(&other), 0);
    server_drop(other.url);
    server_drop(other.url); /* nothing to do */
    assert_int_equal(rows(p), 2);
}

static void join_texts(const char *text, void *context)
{
    strncat(context, text ? text : "-", 8);
}

static void each_row_is_read(void **state)
{
    place *p = *state;
    char all[64] = "";
    server_run(p->url, "INSERT INTO t VALUES (1), (2), (NULL)");
    server_each(p->url, "SELECT a FROM t ORDER BY a IS NULL, a", join_texts, all);
    assert_string_equal(all, "12-");
    assert_int_equal(server_number(p->url, "SELECT a FROM t WHERE a = 9"), 0);
}

static void dropping_ends_sessions_that_are_in_the_way(void **state)
{
    place *p = *state;
    assert_true(run(p, "BEGIN"));
    assert_true(run(p, "INSERT INTO %s VALUES (1)"));
    server_drop(p->url);
    assert_false(run(p, "COMMIT"));
}

/* The columns of semel's tables that are times, and the keys. */
static void make_tables_with_times(const place *p)
{
    const char *key =
        server_kind_of(p->url) == SERVER_POSTGRES ? "key bytea" : "`key` varbinary(9)";
    const char *quoted = server_kind_of(p->url) == SERVER_POSTGRES ? "key" : "`key`";
    char sql[512];
    (void)snprintf(sql, sizeof sql,
                   "CREATE TABLE semel_marker (inbox int, %s, at_ms bigint, lease_until_ms bigint,"
                   " first_ms bigint, PRIMARY KEY (inbox, %s))",
                   key, quoted);
    server_run(p->url, sql);
    server_run(p->url, "CREATE TABLE semel_outbox (seq int PRIMARY KEY, wake_ms bigint,"
                       " captured_ms bigint)");
    server_run(p->url, "CREATE TABLE semel_dead (dead_id int PRIMARY KEY, at_ms bigint,"
                       " first_ms bigint)");
    server_run(p->url, "CREATE TABLE semel_group (outbox int, grp varchar(9), due_ms bigint,"
                       " PRIMARY KEY (outbox, grp))");
    server_run(p->url, "CREATE TABLE semel_note (inbox int, note int, number bigint,"
                       " PRIMARY KEY (inbox, note))");
    server_run(p->url, "CREATE TABLE semel_sent (outbox int, sent_ms bigint, seq int,"
                       " captured_ms bigint, PRIMARY KEY (outbox, sent_ms, seq))");
    server_run(p->url, "CREATE TABLE semel_audit (id int PRIMARY KEY, at_ms bigint)");
    server_run(p->url, "CREATE TABLE semel_process (id int PRIMARY KEY, started_ms bigint,"
                       " seen_ms bigint)");
    server_run(p->url, "INSERT INTO semel_note VALUES (1, 2, 1000), (1, 3, 1000), (2, 2, 0)");
    server_run(p->url, "INSERT INTO semel_marker VALUES (1, 'a', 1000, NULL, NULL),"
                       " (1, 'b', 1000, 2000, NULL), (1, 'c', 1000, 2000, NULL)");
    server_run(p->url, "INSERT INTO semel_outbox VALUES (1, 1000, 2000), (2, 1000, 2000)");
    server_run(p->url, "INSERT INTO semel_dead VALUES (1, 1000, NULL)");
}

static void time_passes_but_not_for_rows_that_are_locked(void **state)
{
    place *p = *state;
    char lock[256];
    make_tables_with_times(p);
    (void)snprintf(lock, sizeof lock, "SELECT 1 FROM %.*ssemel_outbox WHERE seq = 2 FOR UPDATE",
                   (int)strlen(p->t) - 1, p->t);
    assert_true(run(p, "BEGIN"));
    assert_true(session_run(&p->session, lock));
    server_pass_unlocked_ms(p->url, 300);
    assert_int_equal(server_number(p->url, "SELECT sum(at_ms) FROM semel_marker"), 2100);
    assert_int_equal(server_number(p->url, "SELECT sum(lease_until_ms) FROM semel_marker"), 3400);
    assert_int_equal(server_number(p->url, "SELECT sum(wake_ms) FROM semel_outbox"), 1700);
    assert_int_equal(server_number(p->url, "SELECT sum(captured_ms) FROM semel_outbox"), 3700);
    assert_int_equal(server_number(p->url, "SELECT at_ms FROM semel_dead"), 700);
    assert_int_equal(server_number(p->url, "SELECT sum(number) FROM semel_note"), 1700);
    assert_true(run(p, "ROLLBACK"));
}

/* --- servers of the test's own ---------------------------------------------------------------- */

static void a_crash_keeps_what_was_committed(void **state)
{
    server_kind kind = kind_of_state(state);
    server_own own;
    session open;
    server_own_start(&own, kind);
    server_run(own.at.url, "CREATE TABLE t (a int)");
    server_run(own.at.url, "INSERT INTO t VALUES (1)");
    assert_true(session_open(&open, own.at.url));
    assert_true(session_run(&open, "BEGIN"));
    assert_true(session_run(&open, "INSERT INTO t VALUES (2)"));
    server_own_crash(&own);
    assert_false(session_run(&open, "COMMIT"));
    session_close(&open);
    assert_false(session_open(&open, own.at.url));
    session_close(&open);
    server_own_restart(&own);
    assert_int_equal(server_number(own.at.url, "SELECT count(*) FROM t"), 1);
    server_own_stop(&own);
    assert_int_not_equal(access(own.at.directory, F_OK), 0);
}

static void several_stand_side_by_side(void **state)
{
    server_kind kind = kind_of_state(state);
    server_own one, other;
    server_own_start(&one, kind);
    server_own_start(&other, kind);
    assert_int_not_equal(one.at.port, other.at.port);
    server_run(one.at.url, "CREATE TABLE t (a int)");
    server_run(other.at.url, "CREATE TABLE t (a int)");
    server_own_halt(&one);
    assert_int_equal(server_number(other.at.url, "SELECT count(*) FROM t"), 0);
    server_own_stop(&other);
    server_own_restart(&one);
    assert_int_equal(server_number(one.at.url, "SELECT count(*) FROM t"), 0);
    server_own_stop(&one);
}

static int start_and_die(void *own)
{
    server_own_start(own, SERVER_POSTGRES);
    return 0;
}

static void it_ends_with_the_process_that_started_it(void **state)
{
    server_own *own = process_share(sizeof *own);
    (void)state;
    assert_int_equal(process_run(start_and_die, own), PROCESS_OK);
    assert_true(own->at.port);
    for (int64_t deadline = process_now_ms() + WAIT_MS; access(own->at.directory, F_OK) == 0;) {
        assert_true(process_now_ms() < deadline);
        process_nap();
    }
    scratch_close(&own->directory);
    process_unshare(own, sizeof *own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EACH(the_server_answers, NULL, NULL),
        IN_PLACE(a_fresh_store_is_empty_and_not_shared),
        IN_PLACE(each_row_is_read),
        IN_PLACE(dropping_ends_sessions_that_are_in_the_way),
        IN_PLACE(time_passes_but_not_for_rows_that_are_locked),
        ON_EACH(a_crash_keeps_what_was_committed, NULL, NULL),
        ON_EACH(several_stand_side_by_side, NULL, NULL),
        cmocka_unit_test(it_ends_with_the_process_that_started_it),
    };
    return cmocka_run_group_tests_name("servers", tests, NULL, NULL);
}
