/* Old copies and sweeps on servers, in every mode and at every isolation. A sweep removes the
 * marker of a key and notes that it did, in one transaction. A copy that meets this transaction
 * must never be handled again: it is a duplicate while the marker is there, and stale afterwards,
 * also if its own transaction began before. */
#include "support/process/process.h"
#include "support/process/threads.h"
#include "support/servers/sql/app_session.h"
#include "support/servers/sql/server_case.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { HOUR_MS = 3600000, DAY_MS = 86400000, ROUND_STEPS_MAX = 2000 };
static const int64_t eight_days_ms = 8LL * DAY_MS;

static semel_message made_before(const char *id, int64_t ms)
{
    semel_message message = text_message(id, "10 EUR");
    message.time_ms = process_wall_ms() - ms;
    return message;
}

static semel_message made_eight_days_ago(const char *id)
{
    return made_before(id, eight_days_ms);
}

/* All markers were last changed so much earlier than they were. */
static void age_markers_by(const server_case *c, int64_t ms)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "UPDATE semel_marker SET at_ms = at_ms - %lld", (long long)ms);
    server_run(c->base.place.url, sql);
}

static void age_markers(const server_case *c)
{
    age_markers_by(c, eight_days_ms);
}

static int64_t count_effects(const server_case *c, const char *id)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM effect WHERE id = '%s'", id);
    return case_number(c, sql);
}

static semel_status sweep_round(semel_inbox *inbox, size_t *all, semel_error *err)
{
    semel_status status = SEMEL_OK;
    size_t swept = 0;
    int more = 1;
    *all = 0;
    for (int steps = 0; !status && more && steps < ROUND_STEPS_MAX; steps++) {
        status = semel_inbox_sweep(&swept, &more, inbox, 0, err);
        *all += status ? 0 : swept;
    }
    return status;
}

/* --- receiving an old message ----------------------------------------------------------------- */

/* By itself or, in a batch, between two new ones. */
static semel_status receive_old(server_case *c, semel_outcome *out, const char *id, case_work *todo,
                                semel_error *err)
{
    static _Atomic int fresh;
    char ids[2][32];
    semel_message message = made_eight_days_ago(id), others[2];
    if (c->mode != BY_BATCH)
        return semel_inbox_receive(out, c->inbox, &message, case_handle, todo, err);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "%c-%d", i ? 'z' : 'a', atomic_fetch_add(&fresh, 1));
        others[i] = text_message(ids[i], "10 EUR");
    }
    const semel_message *const list[] = {&others[0], &message, &others[1]};
    semel_outcome outcomes[3] = {SEMEL_UNDECIDED, SEMEL_UNDECIDED, SEMEL_UNDECIDED};
    semel_status status =
        semel_inbox_receive_batch(outcomes, c->inbox, list, 3, case_handle, todo, err);
    *out = outcomes[1];
    if (!status && (outcomes[0] != SEMEL_PROCESSED || outcomes[2] != SEMEL_PROCESSED))
        return semel_fail(err, SEMEL_EHANDLER, "the other messages were not processed");
    return status || *out != SEMEL_STALE ? status : SEMEL_EREJECTED;
}

static void expect_old(server_case *c, semel_outcome outcome, const char *id)
{
    case_work todo = {.work = {0}};
    semel_outcome got = SEMEL_UNDECIDED;
    semel_status status = receive_old(c, &got, id, &todo, &last_error);
    if (got != outcome || status != (outcome == SEMEL_STALE ? SEMEL_EREJECTED : SEMEL_OK))
        fail_msg("%s, %s: %s", semel_status_name(status), semel_outcome_name(got), last_error.text);
}

static void handle_first(server_case *c, const semel_message *message)
{
    case_work todo = {.work = {0}};
    semel_outcome outcome = SEMEL_UNDECIDED;
    OK(semel_inbox_receive(&outcome, c->inbox, message, case_handle, &todo, &last_error));
    assert_int_equal(outcome, SEMEL_PROCESSED);
}

/* A copy that is received in a thread, while this one does something else. */
typedef struct copy {
    server_case *c;
    case_work todo;
    test_thread thread;
    semel_outcome outcome;
    semel_status status;
    semel_error err;
} copy;

static void receive_copy(test_thread *member)
{
    copy *self = member->context;
    self->status = receive_old(self->c, &self->outcome, "m", &self->todo, &self->err);
}

/* Until the copy waits for the sweep. In claim mode it looks again and again instead. */
static void send_copy(copy *self, server_case *c)
{
    *self = (copy){.c = c};
    uint64_t before = proxy_count(c->between).round_trips;
    test_thread_start(&self->thread, receive_copy, self);
    if (c->mode != BY_CLAIM) {
        assert_true(case_await_blocked(c, 1));
        return;
    }
    int64_t deadline = process_now_ms() + CASE_WAIT_MS;
    while (proxy_count(c->between).round_trips < before + 2 && process_now_ms() < deadline)
        process_nap();
}

static void await_copy(copy *self, semel_status status, semel_outcome outcome)
{
    assert_true(test_thread_join(&self->thread, CASE_WAIT_MS));
    if (self->status != status || self->outcome != outcome)
        fail_msg("%s, %s, %s", semel_status_name(self->status), semel_outcome_name(self->outcome),
                 self->err.text);
}

/* --- a sweep that stops before its commit ----------------------------------------------------- */

typedef struct held_sweep {
    semel_store *store;
    semel_inbox *inbox;
    semel_seam seam;
    test_thread thread;
    semel_status end; /* what the point answers when the sweep goes on */
    atomic_int reached, released;
    size_t swept;
    semel_status status;
    semel_error err;
} held_sweep;

static int wait_for(const atomic_int *flag)
{
    int64_t deadline = process_now_ms() + CASE_WAIT_MS;
    while (!atomic_load(flag) && process_now_ms() < deadline)
        process_nap();
    return atomic_load(flag);
}

static semel_status stop_when_removed(void *context, const char *point)
{
    held_sweep *self = context;
    if (strcmp(point, "sweep.removed") != 0 || atomic_exchange(&self->reached, 1))
        return SEMEL_OK;
    return wait_for(&self->released) ? self->end : SEMEL_EUNAVAILABLE;
}

static void run_sweep(test_thread *member)
{
    held_sweep *self = member->context;
    self->status = sweep_round(self->inbox, &self->swept, &self->err);
}

static void open_sweep(held_sweep *self, const server_case *c, semel_status end)
{
    semel_inbox_options options = {.size = sizeof options, .accept_changes = 1};
    *self = (held_sweep){.end = end};
    self->seam =
        (semel_seam){.size = sizeof self->seam, .context = self, .fault = stop_when_removed};
    semel_store_options how = {.size = sizeof how, .busy_ms = CASE_BUSY_MS, .seam = &self->seam};
    OK(semel_store_open(&self->store, c->base.place.url, &how, &last_error));
    OK(semel_inbox_open(&self->inbox, self->store, "orders", &options, &last_error));
}

static void hold_sweep(held_sweep *self, const server_case *c, semel_status end)
{
    open_sweep(self, c, end);
    test_thread_start(&self->thread, run_sweep, self);
    assert_true(wait_for(&self->reached));
}

static void release_sweep(held_sweep *self)
{
    atomic_store(&self->released, 1);
    assert_true(test_thread_join(&self->thread, CASE_WAIT_MS));
    if (self->status != self->end)
        fail_msg("%s: %s", semel_status_name(self->status), self->err.text);
    semel_inbox_close(self->inbox);
    semel_store_close(self->store);
}

/* --- the schedule ----------------------------------------------------------------------------- */

/* Deleted and not committed; a copy arrives and waits; committed. */
static void a_copy_that_waits_for_a_sweep_is_stale(void **state)
{
    server_case *c = *state;
    held_sweep sweep;
    copy second;
    expect_old(c, SEMEL_PROCESSED, "m"); /* late, but nothing was ever forgotten */
    expect_old(c, SEMEL_DUPLICATE, "m");
    age_markers(c);
    expect_old(c, SEMEL_DUPLICATE, "m");
    hold_sweep(&sweep, c, SEMEL_OK);
    send_copy(&second, c);
    release_sweep(&sweep);
    if (c->mode == BY_CLAIM && c->kind == SERVER_MARIADB) /* it may have seen the marker before */
        assert_true(test_thread_join(&second.thread, CASE_WAIT_MS));
    else
        await_copy(&second, SEMEL_EREJECTED, SEMEL_STALE);
    assert_int_equal(count_effects(c, "m"), 1);
    expect_old(c, SEMEL_STALE, "m");
    assert_int_equal(count_effects(c, "m"), 1);
}

static void a_copy_that_waits_for_a_sweep_that_is_undone_is_a_duplicate(void **state)
{
    server_case *c = *state;
    held_sweep sweep;
    copy second;
    expect_old(c, SEMEL_PROCESSED, "m");
    age_markers(c);
    hold_sweep(&sweep, c, SEMEL_EUNAVAILABLE);
    send_copy(&second, c);
    release_sweep(&sweep);
    await_copy(&second, SEMEL_OK, SEMEL_DUPLICATE);
    assert_int_equal(count_effects(c, "m"), 1);
}

/* What was made after the newest removed marker is a first copy. */
static void a_late_message_runs_after_a_sweep(void **state)
{
    server_case *c = *state;
    held_sweep sweep;
    expect_old(c, SEMEL_PROCESSED, "m");
    age_markers(c);
    age_markers(c);
    hold_sweep(&sweep, c, SEMEL_OK);
    release_sweep(&sweep);
    assert_true(sweep.swept >= 1);
    expect_old(c, SEMEL_PROCESSED, "n");
}

/* --- a slow handler in queued mode ------------------------------------------------------------ */

enum { ALMOST_MS = 500 };
static const int64_t week_ms = 7LL * DAY_MS;

static const semel_inbox_options exact = {.size = sizeof exact, .wait_ms = 1, .clock_margin_ms = 1};

/* Until the marker of the message is old enough to be swept, and then it is swept. */
static void work_until_swept(case_work *self, semel_unit *unit, const semel_message *message)
{
    size_t swept;
    semel_error err;
    (void)unit;
    while (process_wall_ms() <= message->time_ms + week_ms + ALMOST_MS / 5)
        process_nap();
    self->wrong = sweep_round(self->context, &swept, &err);
}

/* The key is claimed with the commit: when the handler was called the message was young. (If this
 * process was kept from working before that, the copy is a duplicate and there is no handler.) */
static void a_copy_that_becomes_old_in_its_handler_has_no_effect(void **state)
{
    server_case *c = *state;
    case_work first = {.work = {0}}, slow = {.work = {0}, .before = work_until_swept};
    semel_inbox *sweeps = NULL;
    semel_outcome outcome;
    char sql[128];
    case_close(c);
    case_open(c, CASE_BUSY_MS, &exact);
    semel_store *store = case_other(c);
    OK(semel_inbox_open(&sweeps, store, "orders", NULL, &last_error));
    semel_message message = made_before("m", week_ms - ALMOST_MS);
    OK(semel_inbox_receive(&outcome, c->inbox, &message, case_handle, &first, &last_error));
    message.time_ms = process_wall_ms() - week_ms + ALMOST_MS;
    (void)snprintf(sql, sizeof sql, "UPDATE semel_marker SET at_ms = %lld",
                   (long long)message.time_ms);
    server_run(c->base.place.url, sql);
    slow.context = sweeps;
    do /* on a busy machine a lock may take more than the millisecond that is waited for it */
        (void)semel_inbox_receive(&outcome, c->inbox, &message, case_handle, &slow, &last_error);
    while (outcome == SEMEL_IN_PROGRESS);
    if (outcome != SEMEL_STALE && outcome != SEMEL_DUPLICATE)
        fail_msg("%s: %s", semel_outcome_name(outcome), last_error.text);
    assert_int_equal(count_effects(c, "m"), 1);
    semel_inbox_close(sweeps);
    semel_store_close(store);
}

/* --- inside a transaction of the application -------------------------------------------------- */

static const char *const levels[] = {"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"};

static void begin_at(app_session *g, const server_case *c, const char *level)
{
    char sql[128];
    if (c->kind == SERVER_POSTGRES) {
        (void)snprintf(sql, sizeof sql, "BEGIN ISOLATION LEVEL %s", level);
        app_session_run(g, sql);
    } else {
        (void)snprintf(sql, sizeof sql, "SET SESSION TRANSACTION ISOLATION LEVEL %s", level);
        app_session_run(g, sql);
        app_session_run(g, "BEGIN");
    }
    app_session_run(g, "SELECT count(*) FROM effect"); /* from here on it sees this, or less */
}

/* The transaction sees the database as it was before the sweep. At READ COMMITTED it must be told
 * that the message is stale; at stricter levels a conflict is an answer, too. */
static void a_transaction_from_before_the_sweep_is_not_fooled(void **state)
{
    server_case *c = *state;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        app_session *g = app_session_open(c);
        held_sweep sweep;
        semel_unit *unit = NULL;
        semel_outcome outcome = SEMEL_UNDECIDED;
        char id[8];
        (void)snprintf(id, sizeof id, "m%zu", i);
        int64_t age_ms =
            eight_days_ms - (int64_t)i * HOUR_MS; /* later than what was swept so far */
        semel_message message = made_before(id, age_ms);
        handle_first(c, &message);
        age_markers_by(c, age_ms);
        begin_at(g, c, levels[i]);
        hold_sweep(&sweep, c, SEMEL_OK);
        release_sweep(&sweep);
        OK(app_session_join(&unit, c, g, &last_error));
        semel_status status = semel_unit_claim(&outcome, unit, c->inbox, &message, &last_error);
        if (!(status == SEMEL_EREJECTED && outcome == SEMEL_STALE) &&
            !(status == SEMEL_ECONFLICT && i > 0))
            fail_msg("%s: %s, %s", levels[i], semel_status_name(status),
                     semel_outcome_name(outcome));
        semel_unit_rollback(unit);
        app_session_run(g, "ROLLBACK");
        app_session_close(g);
    }
}

/* --- who waits for whom ----------------------------------------------------------------------- */

/* A unit that handles an old message may take its time. Meanwhile the inbox can be opened, other
 * messages are received, copies of what is about to be swept are duplicates, and when the unit has
 * ended the sweep goes on. */
static void a_slow_handler_of_an_old_message_keeps_no_other_message_waiting(void **state)
{
    server_case *c = *state;
    semel_unit *unit = NULL;
    semel_outcome outcome;
    held_sweep sweep;
    semel_message slow = made_eight_days_ago("slow"), copied = made_eight_days_ago("m");
    semel_message young = text_message("young", "10 EUR"), late = made_eight_days_ago("late");
    case_work todo = {.work = {0}};
    expect_old(c, SEMEL_PROCESSED, "m");
    age_markers(c);
    OK(semel_unit_begin(&unit, c->base.store, &last_error));
    OK(semel_unit_claim(&outcome, unit, c->inbox, &slow, &last_error));
    assert_int_equal(outcome, SEMEL_CLAIMED);
    open_sweep(&sweep, c, SEMEL_OK);
    atomic_store(&sweep.released, 1);
    OK(semel_inbox_receive(&outcome, c->inbox, &late, case_handle, &todo, &last_error));
    assert_int_equal(outcome, SEMEL_PROCESSED);
    test_thread_start(&sweep.thread, run_sweep, &sweep);
    int64_t deadline = process_now_ms() + CASE_WAIT_MS; /* it waits, or has swept */
    while (!case_blocked(c) && !atomic_load(&sweep.reached) && process_now_ms() < deadline)
        case_nap(c);
    OK(semel_inbox_receive(&outcome, c->inbox, &young, case_handle, &todo, &last_error));
    assert_int_equal(outcome, SEMEL_PROCESSED);
    if (!atomic_load(&sweep.reached)) {
        semel_status status =
            semel_inbox_receive(&outcome, c->inbox, &copied, case_handle, &todo, &last_error);
        if (!atomic_load(&sweep.reached) || status != SEMEL_EREJECTED) /* else it came between */
            assert_int_equal(status, SEMEL_OK);
        assert_int_equal(outcome, status ? SEMEL_STALE : SEMEL_DUPLICATE);
    }
    OK(semel_unit_commit(unit, &last_error));
    release_sweep(&sweep);
    assert_int_equal(sweep.swept, 1);
    expect_old(c, SEMEL_STALE, "m");
}

/* --- many at once ----------------------------------------------------------------------------- */

enum { KEYS = 24, RECEIVERS = 3, CROWD = RECEIVERS + 1 };

typedef struct crowd {
    server_case *c;
    semel_store *store;
    semel_inbox *sweeps;
    atomic_int ran, troubles, receiving;
    semel_error trouble;
} crowd;

static void note_trouble(crowd *all, const semel_error *err)
{
    if (!atomic_fetch_add(&all->troubles, 1))
        all->trouble = *err;
}

static void receive_copies(crowd *all, unsigned index)
{
    for (int i = 0; i < KEYS; i++) {
        char id[16];
        semel_error err = {0};
        semel_outcome outcome = SEMEL_UNDECIDED;
        case_work todo = {.work = {0}};
        (void)snprintf(id, sizeof id, "k%d", (i * 7 + (int)index * 11) % KEYS);
        semel_message message = made_eight_days_ago(id);
        message.delivery = 1 + (uint32_t)(i % 2);
        semel_status status;
        do
            status =
                semel_inbox_receive(&outcome, all->c->inbox, &message, case_handle, &todo, &err);
        while (status && err.retryable);
        if (outcome == SEMEL_PROCESSED)
            atomic_fetch_add(&all->ran, 1);
        else if (outcome != SEMEL_DUPLICATE && outcome != SEMEL_STALE)
            note_trouble(all, &err);
    }
}

static void sweep_on(crowd *all)
{
    semel_error err = {0};
    size_t swept;
    int more;
    do {
        semel_status status = semel_inbox_sweep(&swept, &more, all->sweeps, 4, &err);
        if (status && !err.retryable)
            note_trouble(all, &err);
    } while (atomic_load(&all->receiving));
}

static void join_the_crowd(test_thread *member)
{
    crowd *all = member->context;
    if (!member->index) {
        sweep_on(all);
        return;
    }
    receive_copies(all, member->index);
    atomic_fetch_sub(&all->receiving, 1);
}

static void of_many_copies_among_sweeps_none_runs(void **state)
{
    server_case *c = *state;
    semel_inbox_options options = {.size = sizeof options, .accept_changes = 1};
    crowd all = {.c = c, .store = case_other(c)};
    OK(semel_inbox_open(&all.sweeps, all.store, "orders", &options, &last_error));
    for (int i = 0; i < KEYS; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "k%d", i);
        semel_message message = made_eight_days_ago(id);
        handle_first(c, &message);
    }
    age_markers(c);
    atomic_store(&all.receiving, RECEIVERS);
    assert_true(threads_run(CROWD, join_the_crowd, &all));
    if (atomic_load(&all.troubles))
        fail_msg("%d failed: %s", atomic_load(&all.troubles), all.trouble.text);
    assert_int_equal(atomic_load(&all.ran), 0);
    assert_int_equal(case_number(c, "SELECT count(*) FROM effect"), KEYS);
    semel_inbox_close(all.sweeps);
    semel_store_close(all.store);
}

int main(void)
{
    static const server_test tests[] = {
        SERVER_TEST(a_copy_that_waits_for_a_sweep_is_stale, IN_ALL_MODES | AT_ALL_LEVELS),
        SERVER_TEST(a_copy_that_waits_for_a_sweep_that_is_undone_is_a_duplicate,
                    IN_ALL_MODES | AT_ALL_LEVELS),
        SERVER_TEST(a_late_message_runs_after_a_sweep, IN_ALL_MODES),
        SERVER_TEST(a_copy_that_becomes_old_in_its_handler_has_no_effect, IN_QUEUE),
        SERVER_TEST(a_transaction_from_before_the_sweep_is_not_fooled, IN_TRANSACTION),
        SERVER_TEST(a_slow_handler_of_an_old_message_keeps_no_other_message_waiting,
                    IN_TRANSACTION | AT_ALL_LEVELS),
        SERVER_TEST(of_many_copies_among_sweeps_none_runs,
                    IN_TRANSACTION | IN_QUEUE | IN_CLAIM | AT_ALL_LEVELS),
    };
    return SERVER_TESTS(tests);
}
