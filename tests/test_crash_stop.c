/* P2, P18: processes that are stopped (SIGSTOP) past their lease, overtaken by another, and then go on. They
 * find their tokens outdated and change nothing. On the real clock, since it is the kernel that stops them;
 * nothing here waits for time to pass, only for things to happen. */
#include "support/broker_file.h"
#include "support/peek.h"
#include "support/process.h"
#include "support/scratch.h"
#include "support/shop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
/* cmocka needs the first two. */
#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { LEASE_MS = 600, DEADLINE_MS = 20000 };

typedef struct show {
    scratch dir;
    char file[SCRATCH_PATH], url[SCRATCH_PATH], broker[SCRATCH_PATH];
    struct shared {
        shop_tally tally;
        semel_status status; /* of the process that was stopped */
        semel_outcome outcome;
    } * shared;
} show;

static int build(void *context)
{
    show *now = context;
    shop_build(now->url);
    return PROCESS_OK;
}

static int setup(void **state)
{
    show *now = calloc(1, sizeof *now);
    scratch_open(&now->dir);
    scratch_file(now->file, &now->dir, "shop.db");
    scratch_sqlite(now->url, &now->dir, "shop.db");
    scratch_file(now->broker, &now->dir, "broker");
    now->shared = process_share(sizeof *now->shared);
    *state = now;
    return process_run(build, now);
}

static int teardown(void **state)
{
    show *now = *state;
    process_unshare(now->shared, sizeof *now->shared);
    scratch_close(&now->dir);
    free(now);
    return 0;
}

static void stop_once(void *context)
{
    int *stopped = context;
    if (!*stopped)
        raise(SIGSTOP);
    *stopped = 1;
}

static void go_on(pid_t pid)
{
    kill(pid, SIGCONT);
}

/* --- relays ------------------------------------------------------------------------------------------------- */

enum { MESSAGES = 6, GROUPED = 4 };

static int fill_outbox(void *context)
{
    show *now = context;
    char text[SHOP_TEXT];
    shop s;
    shop_open(&s, now->url, NULL, &now->shared->tally);
    for (unsigned i = 1; i <= MESSAGES; i++) {
        semel_message message = shop_message(text, i);
        message.group = i <= GROUPED ? "group" : NULL;
        PROCESS_REQUIRE(semel_outbox_send(s.outbox, &message, NULL) == SEMEL_OK);
    }
    shop_close(&s);
    return PROCESS_OK;
}

/* Sends until `drain` is over: with 0, one step that finds something to do. */
static void relay_with(const show *now, const broker_file *file, int drain)
{
    shop s;
    semel_error err;
    semel_transport *transport;
    semel_relay *relay;
    semel_counters counters = {.unsent = 1};
    semel_relay_options options = {.size = sizeof options, .lease_ms = LEASE_MS, .poll_ms = 5};
    shop_open(&s, now->url, NULL, &now->shared->tally);
    PROCESS_REQUIRE_OK(broker_file_open(&transport, file, &err), &err);
    PROCESS_REQUIRE_OK(semel_relay_open(&relay, s.outbox, transport, &options, &err), &err);
    do {
        size_t sent;
        PROCESS_REQUIRE_OK(semel_relay_step(&sent, relay, DEADLINE_MS / 2, &err), &err);
        PROCESS_REQUIRE_OK(semel_store_counters(&counters, sizeof counters, s.store, &err), &err);
    } while (drain && counters.unsent);
    semel_relay_close(relay);
    semel_transport_close(transport);
    shop_close(&s);
}

static int relay_stopped_after_publishing(void *context)
{
    const show *now = context;
    int stopped = 0;
    relay_with(now, &(broker_file){.path = now->broker, .after = stop_once, .context = &stopped},
               0);
    return PROCESS_OK;
}

static int relay_stopped_before_publishing(void *context)
{
    const show *now = context;
    int stopped = 0;
    relay_with(now, &(broker_file){.path = now->broker, .before = stop_once, .context = &stopped},
               0);
    return PROCESS_OK;
}

static int relay_stopped_and_then_all(void *context)
{
    const show *now = context;
    int stopped = 0;
    relay_with(now, &(broker_file){.path = now->broker, .before = stop_once, .context = &stopped},
               1);
    return PROCESS_OK;
}

static int relay_all(void *context)
{
    const show *now = context;
    relay_with(now, &(broker_file){.path = now->broker}, 1);
    return PROCESS_OK;
}

static void check_everything_was_sent(const show *now)
{
    broker_log log;
    char body[SHOP_TEXT];
    broker_log_read(&log, now->broker);
    for (unsigned i = 1; i <= MESSAGES; i++) {
        (void)snprintf(body, sizeof body, "%u", i);
        assert_int_equal(broker_log_ids(&log, body), 1);
    }
    assert_true(broker_log_is_ordered(&log));
    broker_log_free(&log);
    assert_int_equal(peek_number(now->file, "SELECT count(*) FROM semel_outbox"), 0);
    assert_int_equal(peek_number(now->file, "SELECT count(*) FROM semel_dead"), 0);
}

/* All that a settlement could change, as one number. */
static int64_t leases(const show *now)
{
    return peek_number(now->file,
                       "SELECT sum(seq * 31 + wake_ms % 1000003 + attempts * 7 + token % 1000003) "
                       "FROM semel_outbox WHERE token IS NOT NULL");
}

static void a_relay_overtaken_while_stopped_settles_nothing(void **state)
{
    show *now = *state;
    assert_int_equal(process_run(fill_outbox, now), PROCESS_OK);
    pid_t first = process_start(relay_stopped_after_publishing, now);
    assert_true(process_wait_stopped(first, DEADLINE_MS));
    pid_t second = process_start(relay_stopped_and_then_all, now);
    assert_true(
        process_wait_stopped(second, DEADLINE_MS)); /* the leases are the second one's now */
    assert_int_equal(peek_number(now->file, "SELECT count(*) FROM semel_outbox"), MESSAGES);
    int64_t before = leases(now);
    go_on(first);
    assert_int_equal(process_wait(first, DEADLINE_MS), PROCESS_OK);
    assert_int_equal(peek_number(now->file, "SELECT count(*) FROM semel_outbox"), MESSAGES);
    assert_int_equal(leases(now), before);
    go_on(second);
    assert_int_equal(process_wait(second, DEADLINE_MS), PROCESS_OK);
    check_everything_was_sent(now);
}

static void a_relay_that_publishes_late_keeps_the_order_of_first_deliveries(void **state)
{
    show *now = *state;
    assert_int_equal(process_run(fill_outbox, now), PROCESS_OK);
    pid_t first = process_start(relay_stopped_before_publishing, now);
    assert_true(process_wait_stopped(first, DEADLINE_MS));
    assert_int_equal(process_run(relay_all, now), PROCESS_OK);
    check_everything_was_sent(now);
    go_on(first);
    assert_int_equal(process_wait(first, DEADLINE_MS), PROCESS_OK);
    check_everything_was_sent(now);
}

/* --- claims -------------------------------------------------------------------------------------------------- */

static semel_status stop_in_handler(semel_unit *unit, unsigned key, void *context, semel_error *err)
{
    (void)unit;
    (void)key;
    const semel_status *end = context; /* NULL: all is well */
    raise(SIGSTOP);
    return end ? semel_fail(err, *end, "it fails after all") : SEMEL_OK;
}

/* Two attempts are allowed: that of the one that is stopped, and that of the one that overtakes it. */
static void claim_with(show *now, semel_mode mode,
                       semel_status (*during)(semel_unit *, unsigned, void *, semel_error *),
                       void *context)
{
    shop s;
    semel_inbox_options options = {.size = sizeof options,
                                   .mode = mode,
                                   .wait_ms = DEADLINE_MS / 2,
                                   .lease_ms = LEASE_MS,
                                   .attempts_max = 2};
    shop_open(&s, now->url, &options, &now->shared->tally);
    s.during = during;
    s.context = context;
    now->shared->outcome = shop_receive(&s, 1, 1, &now->shared->status);
    shop_close(&s);
}

static int claim_and_stop(void *context)
{
    claim_with(context, SEMEL_CLAIM, stop_in_handler, NULL);
    return PROCESS_OK;
}

static int claim_stop_and_fail(void *context)
{
    semel_status failure = SEMEL_EHANDLER;
    claim_with(context, SEMEL_CLAIM, stop_in_handler, &failure);
    return PROCESS_OK;
}

static int claim_stop_and_give_up(void *context)
{
    semel_status failure = SEMEL_EGIVEUP;
    claim_with(context, SEMEL_CLAIM, stop_in_handler, &failure);
    return PROCESS_OK;
}

static int claim(void *context)
{
    claim_with(context, SEMEL_CLAIM, NULL, NULL);
    return PROCESS_OK;
}

static void check_handled_once(const show *now)
{
    assert_int_equal(peek_number(now->file, "SELECT count(*) FROM semel_marker WHERE state = 0"),
                     1);
    assert_int_equal(peek_number(now->file, "SELECT count(*) FROM semel_outbox"), 1);
    assert_int_equal(peek_number(now->file, "SELECT count(*) FROM semel_dead"), 0);
}

static void overtake(show *now, process_body *stopped)
{
    pid_t first = process_start(stopped, now);
    assert_true(process_wait_stopped(first, DEADLINE_MS));
    assert_int_equal(process_run(claim, now), PROCESS_OK);
    assert_int_equal(now->shared->outcome, SEMEL_PROCESSED);
    check_handled_once(now);
    int64_t at = peek_number(now->file, "SELECT at_ms FROM semel_marker");
    go_on(first);
    assert_int_equal(process_wait(first, DEADLINE_MS), PROCESS_OK);
    check_handled_once(now);
    assert_int_equal(peek_number(now->file, "SELECT at_ms FROM semel_marker"), at);
}

static void a_claim_overtaken_while_stopped_cannot_commit(void **state)
{
    show *now = *state;
    overtake(now, claim_and_stop);
    assert_int_equal(now->shared->status, SEMEL_ELOST);
    assert_int_equal(now->shared->outcome, SEMEL_UNDECIDED);
}

static void a_claim_overtaken_while_stopped_cannot_fail(void **state)
{
    show *now = *state;
    overtake(now, claim_stop_and_fail);
    assert_int_equal(now->shared->status, SEMEL_EHANDLER);
    assert_int_equal(now->shared->outcome, SEMEL_FAILED);
}

static void a_claim_overtaken_while_stopped_cannot_make_a_dead_letter(void **state)
{
    show *now = *state;
    overtake(now, claim_stop_and_give_up);
    assert_int_equal(now->shared->status, SEMEL_EGIVEUP);
    assert_int_equal(now->shared->outcome, SEMEL_FAILED);
}

/* --- transactions ---------------------------------------------------------------------------------------------- */

static int transact_and_stop(void *context)
{
    claim_with(context, SEMEL_TRANSACTION, stop_in_handler, NULL);
    return PROCESS_OK;
}

static int transact(void *context)
{
    claim_with(context, SEMEL_TRANSACTION, NULL, NULL);
    return PROCESS_OK;
}

/* There is no lease to run out: the copy waits for the transaction, however long it is stopped. */
static void a_copy_waits_for_a_transaction_that_is_stopped(void **state)
{
    show *now = *state;
    pid_t first = process_start(transact_and_stop, now);
    assert_true(process_wait_stopped(first, DEADLINE_MS));
    pid_t second = process_start(transact, now);
    go_on(first);
    assert_int_equal(process_wait(first, DEADLINE_MS), PROCESS_OK);
    assert_int_equal(process_wait(second, DEADLINE_MS), PROCESS_OK);
    assert_int_equal(now->shared->outcome, SEMEL_DUPLICATE);
    assert_int_equal(now->shared->tally.runs[1], 1);
    assert_int_equal(peek_number(now->file, "SELECT count(*) FROM effect"), 1);
    check_handled_once(now);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_relay_overtaken_while_stopped_settles_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_relay_that_publishes_late_keeps_the_order_of_first_deliveries, setup, teardown),
        cmocka_unit_test_setup_teardown(a_claim_overtaken_while_stopped_cannot_commit, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_claim_overtaken_while_stopped_cannot_fail, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_claim_overtaken_while_stopped_cannot_make_a_dead_letter,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_copy_waits_for_a_transaction_that_is_stopped, setup,
                                        teardown),
    };
    return cmocka_run_group_tests_name("crash: stopped", tests, NULL, NULL);
}
