/* Copies that come at the same time: the second one waits for the marker of the first, in every
 * mode and at every isolation. Many copies at once are in test_servers_copies.c, conflicts of the
 * application's own in test_servers_conflicts.c. */
#include "support/process/process.h"
#include "support/process/threads.h"
#include "support/servers/sql/server_case.h"

#include <stdio.h>

enum { WAIT_MS = 60, LATE_MS = 30000, SOON_MS = 30 };

/* --- a first copy that takes its time --------------------------------------------------------- */

/* Its units are open in a store of its own, straight at the server, by the public steps. */
typedef struct holder {
    semel_store *store;
    semel_inbox *inbox;
    semel_unit *units[CASE_BATCH];
    semel_message messages[CASE_BATCH];
    char ids[CASE_BATCH][64];
    int count;
} holder;

static void hold_one(holder *h, int index)
{
    char sql[128];
    semel_outcome out;
    h->messages[index] = text_message(h->ids[index], "10 EUR");
    OK(semel_unit_begin(&h->units[index], h->store, &last_error));
    OK(semel_unit_claim(&out, h->units[index], h->inbox, &h->messages[index], &last_error));
    assert_int_equal(out, SEMEL_CLAIMED);
    (void)snprintf(sql, sizeof sql, "INSERT INTO effect (id) VALUES ('%s')", h->ids[index]);
    assert_true(case_sql(h->units[index], sql));
}

static void hold(holder *h, server_case *c, const char *id)
{
    semel_inbox_options options = {.size = sizeof options, .accept_changes = 1};
    *h = (holder){.count = c->mode == BY_BATCH ? CASE_BATCH : 1};
    h->store = case_other(c);
    OK(semel_inbox_open(&h->inbox, h->store, "orders", &options, &last_error));
    for (int i = 0; i < h->count; i++) {
        (void)snprintf(h->ids[i], sizeof h->ids[i], c->mode == BY_BATCH ? "%s.%d" : "%s", id, i);
        hold_one(h, i);
    }
}

static void let_go(holder *h, int commits)
{
    for (int i = 0; i < h->count; i++) {
        if (commits)
            OK(semel_unit_commit(h->units[i], &last_error));
        else
            semel_unit_rollback(h->units[i]);
    }
    semel_inbox_close(h->inbox);
    semel_store_close(h->store);
}

/* --- a second copy, in a thread --------------------------------------------------------------- */

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
    self->status = case_receive(self->c, &self->outcome, "m", &self->todo, &self->err);
}

/* Until it waits for another unit. In claim mode it looks again and again instead. */
static void send_copy(copy *self, server_case *c)
{
    *self = (copy){.c = c};
    uint64_t before = proxy_count(c->between).round_trips;
    test_thread_start(&self->thread, receive_copy, self);
    if (c->mode != BY_CLAIM) {
        assert_true(case_await_blocked(c, 1));
    } else {
        int64_t deadline = process_now_ms() + CASE_WAIT_MS;
        while (proxy_count(c->between).round_trips < before + 4 && process_now_ms() < deadline)
            process_nap();
    }
}

static void await_copy(copy *self, semel_outcome outcome)
{
    assert_true(test_thread_join(&self->thread, CASE_WAIT_MS));
    if (self->status || self->outcome != outcome)
        fail_msg("%s, %s, %s", semel_status_name(self->status), semel_outcome_name(self->outcome),
                 self->err.text);
}

static void reopen(server_case *c, const semel_inbox_options *options)
{
    case_close(c);
    case_open(c, CASE_BUSY_MS, options);
}

/* However long this thread is kept from letting go. */
static const semel_inbox_options patient = {.size = sizeof patient, .wait_ms = 60000};

static void a_copy_waits_and_is_a_duplicate_when_the_first_commits(void **state)
{
    server_case *c = *state;
    holder first;
    copy second;
    reopen(c, &patient);
    hold(&first, c, "m");
    send_copy(&second, c);
    assert_false(test_thread_join(&second.thread, SOON_MS));
    let_go(&first, 1);
    await_copy(&second, SEMEL_DUPLICATE);
    if (c->mode != BY_QUEUE) /* whose handler only plans */
        assert_int_equal(second.todo.work.runs, 0);
    assert_int_equal(case_times(c, "m"), 1);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "n", NULL);
}

static void a_copy_waits_and_proceeds_when_the_first_rolls_back(void **state)
{
    server_case *c = *state;
    holder first;
    copy second;
    reopen(c, &patient);
    hold(&first, c, "m");
    send_copy(&second, c);
    assert_false(test_thread_join(&second.thread, SOON_MS));
    let_go(&first, 0);
    await_copy(&second, SEMEL_PROCESSED);
    assert_int_equal(case_times(c, "m"), 1);
    CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, "m", NULL);
}

/* --- waiting has an end ----------------------------------------------------------------------- */

/* In a batch each message has its outcome, and the call has none of its own. */
static void is_busy(server_case *c)
{
    case_work todo = {.wrong = SEMEL_OK};
    CASE_RECEIVES(c->mode == BY_BATCH ? SEMEL_OK : SEMEL_EBUSY, SEMEL_IN_PROGRESS, c, "m", &todo);
    assert_int_equal(last_error.status, SEMEL_EBUSY);
    assert_true(last_error.retryable);
    if (c->mode != BY_QUEUE)
        assert_int_equal(todo.work.runs, 0);
}

static void the_wait_for_the_first_ends_at_its_deadline(void **state)
{
    server_case *c = *state;
    holder first;
    semel_inbox_options options = {.size = sizeof options, .wait_ms = WAIT_MS};
    reopen(c, &options);
    hold(&first, c, "m");
    int64_t began = process_now_ms();
    is_busy(c);
    assert_in_range(process_now_ms() - began, WAIT_MS - 1, WAIT_MS + LATE_MS);
    is_busy(c);
    let_go(&first, 1);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "n", NULL);
    CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, "m", NULL);
    assert_int_equal(case_times(c, "m"), 1);
    assert_int_equal(case_times(c, "n"), 1);
}

static void a_copy_in_flight_is_reported_at_once(void **state)
{
    server_case *c = *state;
    holder first;
    semel_inbox_options options = {
        .size = sizeof options, .wait_ms = 60000, .on_in_flight = SEMEL_IN_FLIGHT_REPORT};
    reopen(c, &options);
    hold(&first, c, "m");
    int64_t began = process_now_ms();
    is_busy(c);
    is_busy(c);
    assert_true(process_now_ms() - began < LATE_MS);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "n", NULL);
    let_go(&first, 0); /* which tells the server, and does not wait */
    assert_int_equal(case_settle(c, "m", NULL), SEMEL_PROCESSED);
    assert_int_equal(case_times(c, "m"), 1);
}

/* The deadline is for a copy in flight, not for the work itself. */
static void slow_work_is_not_cut_off_by_the_wait_for_copies(void **state)
{
    server_case *c = *state;
    semel_inbox_options options = {.size = sizeof options, .wait_ms = WAIT_MS};
    semel_message message = text_message("m", "10 EUR");
    semel_outcome out;
    reopen(c, &options);
    case_work todo = {.wrong = SEMEL_OK};
    server_run(c->base.place.url,
               c->kind == SERVER_POSTGRES
                   ? "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS"
                     " $$BEGIN PERFORM pg_sleep(0.3); RETURN NEW; END$$;"
                     " CREATE TRIGGER slow BEFORE INSERT ON effect FOR EACH ROW EXECUTE "
                     "FUNCTION slow()"
                   : "CREATE TRIGGER slow BEFORE INSERT ON effect FOR EACH ROW"
                     " BEGIN DECLARE x int; SET x = SLEEP(0.3); END");
    OK(semel_inbox_receive(&out, c->inbox, &message, case_handle, &todo, &last_error));
    assert_int_equal(out, SEMEL_PROCESSED);
    assert_int_equal(case_times(c, "m"), 1);
}

int main(void)
{
    static const server_test tests[] = {
        SERVER_TEST(a_copy_waits_and_is_a_duplicate_when_the_first_commits,
                    IN_ALL_MODES | AT_ALL_LEVELS),
        SERVER_TEST(a_copy_waits_and_proceeds_when_the_first_rolls_back,
                    IN_ALL_MODES | AT_ALL_LEVELS),
        SERVER_TEST(the_wait_for_the_first_ends_at_its_deadline,
                    IN_TRANSACTION | IN_QUEUE | AT_ALL_LEVELS),
        SERVER_TEST(the_wait_for_the_first_ends_at_its_deadline, IN_CLAIM | IN_BATCH),
        SERVER_TEST(a_copy_in_flight_is_reported_at_once, IN_ALL_MODES),
        SERVER_TEST(slow_work_is_not_cut_off_by_the_wait_for_copies, IN_TRANSACTION | IN_QUEUE)};
    return SERVER_TESTS(tests);
}
