/* P12: retention on a server that others work on. Sweepers in many processes never deadlock, one of
 * them works at a time, no sweeper waits for a unit that is open, and no plan reads the whole
 * table. */
#include "support/process/process.h"
#include "support/process/threads.h"
#include "support/servers/sql/server_case.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    SWEEPERS = 8,
    OLD = 6000,
    STEP = 500,
    ROUND_STEPS_MAX = 2000,
    DAY_MS = 86400000,
    LATE_MS = 60000
};

static const semel_inbox_options a_day = {.size = sizeof a_day, .retention_ms = DAY_MS};

/* Markers of the case's inbox that were last touched two days ago. */
static void make_old_markers(const server_case *c)
{
    char sql[512];
    const char *numbers = c->kind == SERVER_POSTGRES
                              ? "(SELECT generate_series(1, %d) AS n) AS numbers"
                              : "(SELECT seq AS n FROM seq_1_to_%d) AS numbers";
    char from[128];
    (void)snprintf(from, sizeof from, numbers, OLD); /* allowed: both formats are above */
    (void)snprintf(
        sql, sizeof sql,
        "INSERT INTO semel_marker (inbox, %s, state, at_ms) SELECT (SELECT id FROM semel_scope "
        "WHERE kind = 1 AND name = 'orders'), %s, 0, 1000 + n FROM %s",
        c->kind == SERVER_POSTGRES ? "key" : "`key`",
        c->kind == SERVER_POSTGRES ? "decode(md5(n::text), 'hex')" : "UNHEX(MD5(n))", from);
    server_run(c->base.place.url, sql);
}

static int64_t count_old(const server_case *c)
{
    return case_number(c, "SELECT count(*) FROM semel_marker WHERE at_ms < 1000000000");
}

/* One round; how many it removed. */
static size_t sweep_round(semel_inbox *inbox, uint32_t rows)
{
    size_t swept = 0, all = 0;
    int more = 1;
    for (int steps = 0; more; steps++, all += swept) {
        assert_true(steps < ROUND_STEPS_MAX);
        OK(semel_inbox_sweep(&swept, &more, inbox, rows, &last_error));
        assert_true(swept <= rows);
    }
    return all;
}

static void P12_a_round_removes_what_is_old_and_nothing_else(void **state)
{
    server_case *c = *state;
    case_close(c);
    case_open(c, CASE_BUSY_MS, &a_day);
    make_old_markers(c);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "new", NULL);
    assert_int_equal(sweep_round(c->inbox, STEP), OLD);
    assert_int_equal(count_old(c), 0);
    CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, "new", NULL);
    assert_int_equal(sweep_round(c->inbox, STEP), 0);
}

/* --- from everywhere -------------------------------------------------------------------------- */

typedef struct fleet {
    const server_case *c;
    atomic_int failures;
    atomic_size_t swept;
    atomic_int received;
} fleet;

static int sweep_until_clean(semel_inbox *inbox, fleet *f)
{
    semel_error err;
    int64_t deadline = process_now_ms() + LATE_MS;
    while (process_now_ms() < deadline) {
        size_t swept = 0;
        int more = 0;
        if (semel_inbox_sweep(&swept, &more, inbox, STEP, &err)) {
            (void)fprintf(stderr, "sweeping: %s\n", err.text);
            return 0;
        }
        atomic_fetch_add(&f->swept, swept);
        if (!more && atomic_load(&f->swept) >= OLD)
            return 1;
        if (!more)
            process_nap(); /* another process sweeps */
    }
    (void)fprintf(stderr, "the table is never clean\n");
    return 0;
}

static semel_status nothing(semel_unit *unit, const semel_message *message, void *context,
                            semel_error *err)
{
    (void)unit, (void)message, (void)context, (void)err;
    return SEMEL_OK;
}

static int receive_many(semel_inbox *inbox, fleet *f, unsigned member)
{
    char id[32];
    semel_error err;
    semel_outcome out;
    for (int i = 0; i < 100; i++) {
        (void)snprintf(id, sizeof id, "fresh-%u-%d", member, i);
        semel_message message = text_message(id, "10 EUR");
        if (semel_inbox_receive(&out, inbox, &message, nothing, NULL, &err) ||
            out != SEMEL_PROCESSED) {
            (void)fprintf(stderr, "receiving: %s\n", err.text);
            return 0;
        }
        atomic_fetch_add(&f->received, 1);
    }
    return 1;
}

/* Each with a store of its own, as a process has; the last two receive. */
static void sweep_or_receive(test_thread *member)
{
    fleet *f = member->context;
    semel_store *store = NULL;
    semel_inbox *inbox = NULL;
    semel_error err;
    semel_store_options patient = {.size = sizeof patient, .busy_ms = LATE_MS};
    int good = !semel_store_open(&store, f->c->base.place.url, &patient, &err) &&
               !semel_inbox_open(&inbox, store, "orders", &a_day, &err);
    if (good)
        good = member->index < SWEEPERS ? sweep_until_clean(inbox, f)
                                        : receive_many(inbox, f, member->index);
    semel_inbox_close(inbox);
    semel_store_close(store);
    atomic_fetch_add(&f->failures, !good);
}

static void P12_eight_sweepers_do_no_harm(void **state)
{
    server_case *c = *state;
    fleet f = {.c = c};
    case_close(c);
    case_open(c, CASE_BUSY_MS, &a_day);
    make_old_markers(c);
    assert_true(threads_run(SWEEPERS + 2, sweep_or_receive, &f));
    assert_int_equal(atomic_load(&f.failures), 0);
    assert_int_equal(atomic_load(&f.swept), OLD); /* each row by one of them */
    assert_int_equal(count_old(c), 0);
    assert_int_equal(case_number(c, "SELECT count(*) FROM semel_marker"), atomic_load(&f.received));
}

/* --- one at a time ---------------------------------------------------------------------------- */

static void P12_one_sweeper_at_a_time(void **state)
{
    server_case *c = *state;
    semel_store *other = NULL;
    semel_inbox *elsewhere = NULL;
    size_t swept = 0;
    int more = 0;
    case_close(c);
    case_open(c, CASE_BUSY_MS, &a_day);
    make_old_markers(c);
    other = case_other(c);
    OK(semel_inbox_open(&elsewhere, other, "orders", &a_day, &last_error));
    OK(semel_inbox_sweep(&swept, &more, c->inbox, STEP, &last_error));
    assert_true(swept > 0 && more);
    OK(semel_inbox_sweep(&swept, &more, elsewhere, STEP, &last_error));
    assert_true(swept == 0 && !more); /* another process sweeps: come back later */
    size_t rest = sweep_round(c->inbox, STEP);
    assert_true(rest > 0);
    make_old_markers(c);
    assert_int_equal(sweep_round(elsewhere, STEP), OLD); /* the first one's round is over */
    semel_inbox_close(elsewhere);
    semel_store_close(other);
}

/* PostgreSQL chooses the way through the table by its statistics, and may take an index, in whose
 * order the old rows of some pages are not those of the next few places. */
static void P12_a_round_is_whole_whatever_the_plan(void **state)
{
    server_case *c = *state;
    char by_index[SERVER_URL_ROOM]; /* a case's URL ends with options */
    (void)snprintf(by_index, sizeof by_index,
                   "%.400s%%20-cenable_tidscan%%3Doff%%20-cenable_seqscan%%3Doff"
                   "%%20-cenable_bitmapscan%%3Doff",
                   c->base.place.url);
    case_close(c);
    case_open_at(c, by_index, CASE_BUSY_MS, &a_day);
    make_old_markers(c);
    assert_int_equal(sweep_round(c->inbox, STEP), OLD);
}

/* The lock ends with the session that had it. */
static void P12_a_sweeper_that_is_gone_is_followed_by_the_next(void **state)
{
    server_case *c = *state;
    semel_store *other = NULL;
    semel_inbox *elsewhere = NULL;
    size_t swept = 0;
    int more = 0;
    case_close(c);
    case_open(c, CASE_BUSY_MS, &a_day);
    make_old_markers(c);
    OK(semel_inbox_sweep(&swept, &more, c->inbox, STEP, &last_error));
    assert_true(more);
    proxy_cut(c->between); /* in the middle of its round */
    other = case_other(c);
    OK(semel_inbox_open(&elsewhere, other, "orders", &a_day, &last_error));
    size_t rest = 0;
    for (int64_t end = process_now_ms() + LATE_MS; rest + swept < OLD && process_now_ms() < end;)
        /* until the server has noticed */
        rest += sweep_round(elsewhere, STEP);
    assert_int_equal(rest + swept, OLD);
    semel_inbox_close(elsewhere);
    semel_store_close(other);
}

/* --- beside units ----------------------------------------------------------------------------- */

static void P12_a_sweep_waits_for_no_unit_and_has_its_own_connection(void **state)
{
    server_case *c = *state;
    char url[SERVER_URL_ROOM];
    semel_unit *unit = NULL;
    semel_outcome out;
    semel_message message = text_message("m", "10 EUR");
    (void)snprintf(url, sizeof url, "%.400s%cpool=1", c->through,
                   strchr(c->through, '?') ? '&' : '?');
    case_close(c);
    case_open_at(c, url, CASE_BUSY_MS, &a_day);
    make_old_markers(c);
    OK(semel_unit_begin(&unit, c->base.store, &last_error));
    OK(semel_unit_claim(&out, unit, c->inbox, &message, &last_error));
    assert_int_equal(out, SEMEL_CLAIMED);
    /* The time comes from the pool, and the pool is in use: so the unit's own is looked at from
     * elsewhere. */
    semel_store *other = NULL;
    semel_inbox *elsewhere = NULL;
    other = case_other(c);
    OK(semel_inbox_open(&elsewhere, other, "orders", &a_day, &last_error));
    assert_int_equal(sweep_round(elsewhere, STEP), OLD);
    OK(semel_unit_commit(unit, &last_error));
    CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, "m", NULL);
    semel_inbox_close(elsewhere);
    semel_store_close(other);
}

/* An old row that another session has locked is passed over, and found by the next round. */
static void P12_a_locked_row_is_passed_over(void **state)
{
    server_case *c = *state;
    semel_store *other = NULL;
    semel_unit *unit = NULL;
    case_close(c);
    case_open(c, CASE_BUSY_MS, &a_day);
    make_old_markers(c);
    other = case_other(c);
    OK(semel_unit_begin(&unit, other, &last_error));
    assert_true(case_sql(unit, c->kind == SERVER_POSTGRES
                                   ? "SELECT 1 FROM semel_marker WHERE at_ms = 1003 FOR UPDATE"
                                   : "SELECT 1 FROM semel_marker WHERE at_ms = 1003 LIMIT 1 "
                                     "FOR UPDATE"));
    size_t first = sweep_round(c->inbox, STEP);
    assert_true(first < OLD);
    semel_unit_rollback(unit);
    semel_store_close(other);
    size_t second = 0;
    for (int64_t end = process_now_ms() + LATE_MS; first + second < OLD && process_now_ms() < end;)
        /* until the server has noticed, which may be in the midst of a round */
        second += sweep_round(c->inbox, STEP);
    assert_int_equal(first + second, OLD);
}

/* --- its plan --------------------------------------------------------------------------------- */

static void note_plan(const char *text, void *context)
{
    char *plan = context;
    size_t used = strlen(plan);
    (void)snprintf(plan + used, 4096 - used, "%s\n", text);
}

static void P12_no_plan_reads_the_whole_table(void **state)
{
    server_case *c = *state;
    char plan[4096] = "";
    case_close(c);
    case_open(c, CASE_BUSY_MS, &a_day);
    make_old_markers(c);
    server_run(c->base.place.url, "ANALYZE semel_marker");
    server_each(
        c->base.place.url,
        "EXPLAIN SELECT ctid FROM semel_marker WHERE ctid > '(0,0)' AND ctid <= '(7,65535)' "
        "AND inbox = 1 AND at_ms < 5 LIMIT 500 FOR UPDATE SKIP LOCKED",
        note_plan, plan);
    assert_non_null(strstr(plan, "Tid Range Scan"));
    assert_null(strstr(plan, "Seq Scan"));
}

int main(void)
{
    static const server_test tests[] = {
        SERVER_TEST(P12_a_round_removes_what_is_old_and_nothing_else, IN_TRANSACTION),
        SERVER_TEST(P12_eight_sweepers_do_no_harm, IN_TRANSACTION),
        SERVER_TEST(P12_a_round_is_whole_whatever_the_plan, IN_TRANSACTION | POSTGRES_ONLY),
        SERVER_TEST(P12_one_sweeper_at_a_time, IN_TRANSACTION),
        SERVER_TEST(P12_a_sweeper_that_is_gone_is_followed_by_the_next, IN_TRANSACTION),
        SERVER_TEST(P12_a_sweep_waits_for_no_unit_and_has_its_own_connection, IN_TRANSACTION),
        SERVER_TEST(P12_a_locked_row_is_passed_over, IN_TRANSACTION),
        SERVER_TEST(P12_no_plan_reads_the_whole_table, IN_TRANSACTION | POSTGRES_ONLY)};
    return SERVER_TESTS(tests);
}
