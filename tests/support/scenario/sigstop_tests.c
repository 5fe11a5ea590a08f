/* The tests of sigstop.h that are the same on every store. On the real clock, since it is the
 * kernel that stops them; nothing here waits for time to pass, only for things to happen. */
#include "support/scenario/sigstop.h"

#include "support/base/check.h"
#include "support/fake/broker_file.h"
#include "support/inspect/inspect.h"
#include "support/process/process.h"

#include <signal.h>
#include <stdio.h>

/* --- relays ----------------------------------------------------------------------------------- */

enum { MESSAGES = 6, GROUPED = 4 };

/* On a server time is made to pass; on SQLite the next process waits for the end of the lease. */
static void wait_past_its_lease(const sigstop *now, pid_t first)
{
    assert_true(process_wait_stopped(first, SIGSTOP_DEADLINE_MS));
    store_place_pass_ms(now->place, SIGSTOP_LEASE_MS);
}

static int fill_outbox(void *context)
{
    sigstop *now = context;
    char text[SHOP_TEXT];
    shop s;
    shop_open(&s, now->place, NULL, &now->shared->tally);
    for (unsigned i = 1; i <= MESSAGES; i++) {
        semel_message message = shop_message(text, i);
        message.group = i <= GROUPED ? "group" : NULL;
        PROCESS_REQUIRE(semel_outbox_send(s.outbox, &message, NULL) == SEMEL_OK);
    }
    shop_close(&s);
    return PROCESS_OK;
}

static int relay_stopped_after_publishing(void *context)
{
    return sigstop_relay(
        context, &(sigstop_plan){.where = STOP_AFTER_PUBLISHING, .lease_ms = SIGSTOP_LEASE_MS});
}

static int relay_stopped_before_publishing(void *context)
{
    return sigstop_relay(
        context, &(sigstop_plan){.where = STOP_BEFORE_PUBLISHING, .lease_ms = SIGSTOP_LEASE_MS});
}

static int relay_stopped_and_then_all(void *context)
{
    return sigstop_relay(context, &(sigstop_plan){.where = STOP_BEFORE_PUBLISHING, .drain = 1});
}

static int relay_all(void *context)
{
    return sigstop_relay(context, &(sigstop_plan){.drain = 1});
}

/* All that a settlement could change, as one number; without SQL it cannot be seen. */
static int64_t leases(const sigstop *now)
{
    if (!now->place->has_sql)
        return 0;
    return inspect_number(
        now->place->url,
        "SELECT sum(seq * 31 + wake_ms % 1000003 + attempts * 7 + token % 1000003) "
        "FROM semel_outbox WHERE token IS NOT NULL");
}

void a_relay_overtaken_while_stopped_settles_nothing(void **state)
{
    sigstop *now = *state;
    assert_int_equal(process_run(fill_outbox, now), PROCESS_OK);
    pid_t first = process_start(relay_stopped_after_publishing, now);
    wait_past_its_lease(now, first);
    pid_t second = process_start(relay_stopped_and_then_all, now);
    assert_true(process_wait_stopped(
        second, SIGSTOP_DEADLINE_MS)); /* the leases are the second one's now */
    assert_int_equal(sigstop_look(now).unsent, MESSAGES);
    int64_t before = leases(now);
    kill(first, SIGCONT);
    assert_int_equal(process_wait(first, SIGSTOP_DEADLINE_MS), PROCESS_OK);
    assert_int_equal(sigstop_look(now).unsent, MESSAGES);
    assert_int_equal(leases(now), before);
    kill(second, SIGCONT);
    assert_int_equal(process_wait(second, SIGSTOP_DEADLINE_MS), PROCESS_OK);
    sigstop_check_sent(now, MESSAGES);
}

void a_relay_that_publishes_late_keeps_the_order_of_first_deliveries(void **state)
{
    sigstop *now = *state;
    assert_int_equal(process_run(fill_outbox, now), PROCESS_OK);
    pid_t first = process_start(relay_stopped_before_publishing, now);
    wait_past_its_lease(now, first);
    assert_int_equal(process_run(relay_all, now), PROCESS_OK);
    sigstop_check_sent(now, MESSAGES);
    kill(first, SIGCONT);
    assert_int_equal(process_wait(first, SIGSTOP_DEADLINE_MS), PROCESS_OK);
    sigstop_check_sent(now, MESSAGES);
}

/* --- claims ----------------------------------------------------------------------------------- */

static semel_status stop_inside_handler(semel_unit *unit, unsigned key, void *context,
                                        semel_error *err)
{
    (void)unit;
    (void)key;
    const semel_status *end = context; /* NULL: all is well */
    raise(SIGSTOP);
    return end ? semel_fail(err, *end, "it fails after all") : SEMEL_OK;
}

/* Two attempts are allowed: that of the one that is stopped, and that of the one that overtakes
 * it. */
static void claim_with(sigstop *now, semel_mode mode,
                       semel_status (*during)(semel_unit *, unsigned, void *, semel_error *),
                       void *context)
{
    shop s;
    sigstop_end *mine = during ? &now->shared->first : &now->shared->second;
    semel_inbox_options options = {.size = sizeof options,
                                   .mode = mode,
                                   .wait_ms = SIGSTOP_DEADLINE_MS / 2,
                                   .lease_ms = during ? SIGSTOP_LEASE_MS : SIGSTOP_DEADLINE_MS,
                                   .attempts_max = 2};
    shop_open(&s, now->place, &options, &now->shared->tally);
    s.during = during;
    s.context = context;
    mine->outcome = shop_receive(&s, 1, 1, &mine->status);
    shop_close(&s);
}

static int claim_and_stop(void *context)
{
    claim_with(context, SEMEL_CLAIM, stop_inside_handler, NULL);
    return PROCESS_OK;
}

static int claim_stop_and_fail(void *context)
{
    semel_status failure = SEMEL_EHANDLER;
    claim_with(context, SEMEL_CLAIM, stop_inside_handler, &failure);
    return PROCESS_OK;
}

static int claim_stop_and_give_up(void *context)
{
    semel_status failure = SEMEL_EGIVEUP;
    claim_with(context, SEMEL_CLAIM, stop_inside_handler, &failure);
    return PROCESS_OK;
}

static int claim(void *context)
{
    claim_with(context, SEMEL_CLAIM, NULL, NULL);
    return PROCESS_OK;
}

static void check_handled_once(const sigstop *now)
{
    store_contents found = sigstop_look(now);
    assert_true(found.done == 1 || found.done == INSPECT_UNKNOWN);
    assert_int_equal(found.unsent, 1);
    assert_int_equal(found.dead, 0);
}

/* When the key was done; without SQL it cannot be seen. */
static int64_t time_of_end(const sigstop *now)
{
    return now->place->has_sql ? inspect_number(now->place->url, "SELECT at_ms FROM semel_marker")
                               : 0;
}

/* In claim mode a row on a connection of the unit's own does not exist, and a message does. */
static void check_effects(const sigstop *now, semel_mode mode)
{
    int64_t expected = mode == SEMEL_CLAIM && now->place->has_sql ? 0 : 1;
    assert_int_equal(effect_count(now->place, "effect").all, expected);
}

static void overtake(sigstop *now, process_body *body)
{
    pid_t first = process_start(body, now);
    wait_past_its_lease(now, first);
    assert_int_equal(process_run(claim, now), PROCESS_OK);
    assert_int_equal(now->shared->second.outcome, SEMEL_PROCESSED);
    check_handled_once(now);
    int64_t at = time_of_end(now);
    kill(first, SIGCONT);
    assert_int_equal(process_wait(first, SIGSTOP_DEADLINE_MS), PROCESS_OK);
    check_handled_once(now);
    assert_int_equal(time_of_end(now), at);
    check_effects(now, SEMEL_CLAIM);
}

void a_claim_overtaken_while_stopped_cannot_commit(void **state)
{
    sigstop *now = *state;
    overtake(now, claim_and_stop);
    assert_int_equal(now->shared->first.status, SEMEL_ELOST);
    assert_int_equal(now->shared->first.outcome, SEMEL_UNDECIDED);
}

void a_claim_overtaken_while_stopped_cannot_fail(void **state)
{
    sigstop *now = *state;
    overtake(now, claim_stop_and_fail);
    assert_int_equal(now->shared->first.status, SEMEL_EHANDLER);
    assert_int_equal(now->shared->first.outcome, SEMEL_FAILED);
}

void a_claim_overtaken_while_stopped_cannot_make_a_dead_letter(void **state)
{
    sigstop *now = *state;
    overtake(now, claim_stop_and_give_up);
    assert_int_equal(now->shared->first.status, SEMEL_EGIVEUP);
    assert_int_equal(now->shared->first.outcome, SEMEL_FAILED);
}

/* --- transactions ----------------------------------------------------------------------------- */

static int transact_and_stop(void *context)
{
    claim_with(context, SEMEL_TRANSACTION, stop_inside_handler, NULL);
    return PROCESS_OK;
}

static int transact(void *context)
{
    claim_with(context, SEMEL_TRANSACTION, NULL, NULL);
    return PROCESS_OK;
}

/* There is no lease to run out: the copy waits for the transaction, however long it is stopped. */
void a_copy_waits_for_a_transaction_that_is_stopped(void **state)
{
    sigstop *now = *state;
    pid_t first = process_start(transact_and_stop, now);
    wait_past_its_lease(now, first);
    pid_t second = process_start(transact, now);
    kill(first, SIGCONT);
    assert_int_equal(process_wait(first, SIGSTOP_DEADLINE_MS), PROCESS_OK);
    assert_int_equal(process_wait(second, SIGSTOP_DEADLINE_MS), PROCESS_OK);
    assert_int_equal(now->shared->first.outcome, SEMEL_PROCESSED);
    assert_int_equal(now->shared->second.outcome, SEMEL_DUPLICATE);
    assert_int_equal(now->shared->tally.runs[1], 1);
    check_handled_once(now);
    check_effects(now, SEMEL_TRANSACTION);
}
