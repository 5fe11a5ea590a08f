/* What the core rests on and a caller cannot bring about at will: asked of the driver itself, or
 * seen from between the core and the driver. */
#include "support/conformance/conformance_store.h"

#include "core/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef fail /* cmocka's; a store has a verb of this name */

enum { LEASE_MS = 30000, PATIENCE_MS = 60000, GROUP = 3, PLENTY = 100 };

/* --- units of the driver ---------------------------------------------------------------------- */

static const semel_store_driver *driver_of(const store_fixture *f)
{
    return f->base.store->driver;
}

static int64_t scope_of(store_fixture *f, semel_scope kind, const char *name)
{
    int64_t scope = 0;
    OK(driver_of(f)->scope(f->base.store->state, kind, name, &scope, &last_error));
    return scope;
}

static void *begin(store_fixture *f)
{
    void *unit = calloc(1, driver_of(f)->unit_size);
    assert_non_null(unit);
    OK(driver_of(f)->units->begin(f->base.store->state, unit, SEMEL_BEGIN_DURABLE, PATIENCE_MS,
                                  &last_error));
    return unit;
}

/* Commits if all went well, and says how it went: a unit that a failed test left open would keep
 * its store from being closed. */
static semel_status end(store_fixture *f, void *unit, semel_status status)
{
    if (status)
        driver_of(f)->units->rollback(unit);
    else
        status = driver_of(f)->units->commit(unit, &last_error);
    free(unit);
    return status;
}

/* --- the end of an attempt, without a token --------------------------------------------------- */

static semel_mark mark_of(int64_t inbox, const char *key)
{
    return (semel_mark){.inbox = inbox,
                        .key = semel_str(key),
                        .keep_ms = SEMEL_RETENTION_DEFAULT_MS,
                        .attempts = 1};
}

/* A store without transaction mode finishes what it has claimed, in another unit. */
static void make_done(store_fixture *f, semel_mark mark)
{
    const semel_store_markers *markers = driver_of(f)->markers;
    void *unit = begin(f);
    OK(end(f, unit,
           markers->mark ? markers->mark(unit, &mark, 1, 0, &last_error)
                         : markers->claim(unit, &mark, LEASE_MS, &last_error)));
    assert_int_equal(mark.state, SEMEL_MARK_TAKEN);
    if (markers->mark)
        return;
    unit = begin(f);
    OK(end(f, unit, markers->finish(unit, &mark, &last_error)));
}

static void make_row(store_fixture *f, semel_mark mark, semel_mark_state state)
{
    const semel_store_driver *driver = driver_of(f);
    semel_status status = SEMEL_EINVAL;
    if (state == SEMEL_MARK_DONE) {
        make_done(f, mark);
        return;
    }
    void *unit = begin(f);
    if (state == SEMEL_MARK_FREE) /* open: the attempt is counted, and nothing is held */
        status = driver->markers->claim(unit, &mark, 0, &last_error);
    else if (state == SEMEL_MARK_DEAD)
        status = driver->markers->bury(unit, &mark, "hopeless", &last_error);
    else if (state == SEMEL_MARK_HELD)
        status = driver->markers->claim(unit, &mark, LEASE_MS, &last_error);
    OK(end(f, unit, status));
}

/* As a look finds it, which changes nothing. */
static semel_mark look_at(store_fixture *f, semel_mark mark)
{
    const semel_store_driver *driver = driver_of(f);
    void *unit = begin(f);
    semel_status status = driver->markers->look(unit, &mark, &last_error);
    int used = driver->units->used && driver->units->used(unit);
    driver->units->rollback(unit);
    free(unit);
    OK(status);
    assert_false(used);
    return mark;
}

static semel_mark_state state_of(store_fixture *f, semel_mark mark)
{
    return look_at(f, mark).state;
}

/* The rollback of a failed attempt comes before its recording, and another copy may come between
 * the two: what that one did must stay, or the work is done twice. */
static void a_failure_without_a_token_changes_no_row_of_others(void **state)
{
    static const semel_mark_state states[] = {SEMEL_MARK_DONE, SEMEL_MARK_DEAD, SEMEL_MARK_HELD};
    store_fixture *f = *state;
    const semel_store_driver *driver = driver_of(f);
    int64_t inbox = scope_of(f, SEMEL_SCOPE_INBOX, "orders");
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        for (int buries = 0; buries < 2; buries++) {
            char key[] = {(char)('a' + i), (char)('0' + buries), 0};
            semel_mark mark = mark_of(inbox, key);
            make_row(f, mark, states[i]);
            void *unit = begin(f);
            FAILS(SEMEL_ELOST,
                  end(f, unit,
                      buries ? driver->markers->bury(unit, &mark, "late", &last_error)
                             : driver->markers->fail(unit, &mark, "late", &last_error)));
            assert_int_equal(state_of(f, mark), states[i]);
        }
}

/* A claim that is given back untried leaves nothing behind, whether there was a row before it or
 * not. */
static void a_failure_without_attempts_leaves_no_row(void **state)
{
    store_fixture *f = *state;
    const semel_store_markers *markers = driver_of(f)->markers;
    int64_t inbox = scope_of(f, SEMEL_SCOPE_INBOX, "orders");
    make_row(f, mark_of(inbox, "open"), SEMEL_MARK_FREE);
    for (int i = 0; i < 2; i++) {
        semel_mark mark = mark_of(inbox, i ? "open" : "none");
        mark.attempts = 0;
        void *unit = begin(f);
        OK(end(f, unit, markers->fail(unit, &mark, "", &last_error)));
        assert_int_equal(look_at(f, mark).attempts, 0);
        unit = begin(f);
        FAILS(SEMEL_ENOTFOUND, end(f, unit, markers->forget(unit, &mark, &last_error)));
    }
    semel_mark done = mark_of(inbox, "done");
    make_row(f, done, SEMEL_MARK_DONE);
    done.attempts = 0;
    void *unit = begin(f);
    FAILS(SEMEL_ELOST, end(f, unit, markers->fail(unit, &done, "", &last_error)));
    assert_int_equal(state_of(f, done), SEMEL_MARK_DONE);
}

/* Some of the keys that a unit has marked become free again, for the next unit, too. */
static void keys_that_are_unmarked_are_free(void **state)
{
    store_fixture *f = *state;
    const semel_store_markers *markers = driver_of(f)->markers;
    int64_t inbox = scope_of(f, SEMEL_SCOPE_INBOX, "orders");
    if (!markers->unmark)
        return;
    for (int i = 0; i < 2; i++) {
        semel_mark marks[4] = {mark_of(inbox, "a"), mark_of(inbox, "b"), mark_of(inbox, "c"),
                               mark_of(inbox, "d")};
        void *unit = begin(f);
        semel_status status = markers->mark(unit, marks, 4, 0, &last_error);
        assert_int_equal(marks[1].state, i ? SEMEL_MARK_DONE : SEMEL_MARK_TAKEN);
        assert_int_equal(marks[3].state, SEMEL_MARK_TAKEN);
        OK(end(f, unit, status ? status : markers->unmark(unit, &marks[2], 2, &last_error)));
        assert_int_equal(state_of(f, marks[0]), SEMEL_MARK_DONE);
        assert_int_equal(state_of(f, marks[2]), SEMEL_MARK_FREE);
        assert_int_equal(state_of(f, marks[3]), SEMEL_MARK_FREE);
        unit = begin(f);
        FAILS(SEMEL_ENOTFOUND, end(f, unit, markers->forget(unit, &marks[3], &last_error)));
    }
}

/* --- looking ---------------------------------------------------------------------------------- */

enum { FINGERPRINT = 77, OTHER_FINGERPRINT = 78 };

static void expect_look(store_fixture *f, semel_mark mark, semel_mark_state state,
                        uint32_t attempts, uint64_t known_fingerprint)
{
    mark.fingerprint = OTHER_FINGERPRINT;
    mark.attempts = 9; /* the row alone counts */
    semel_mark found = look_at(f, mark);
    assert_int_equal(found.state, state);
    assert_int_equal(found.known_fingerprint, known_fingerprint);
    if (state == SEMEL_MARK_FREE)
        assert_int_equal(found.attempts, attempts);
}

/* Twice each: the first look has left nothing for the second one to find. */
static void a_look_tells_what_is_known_and_writes_nothing(void **state)
{
    store_fixture *f = *state;
    semel_mark mark = mark_of(scope_of(f, SEMEL_SCOPE_INBOX, "orders"), "none");
    mark.fingerprint = FINGERPRINT;
    for (int i = 0; i < 2; i++)
        expect_look(f, mark, SEMEL_MARK_FREE, 0, 0);
    mark.key = semel_str("open");
    make_row(f, mark, SEMEL_MARK_FREE);
    for (int i = 0; i < 2; i++)
        expect_look(f, mark, SEMEL_MARK_FREE, 2, FINGERPRINT);
    mark.key = semel_str("done");
    make_row(f, mark, SEMEL_MARK_DONE);
    for (int i = 0; i < 2; i++)
        expect_look(f, mark, SEMEL_MARK_DONE, 0, FINGERPRINT);
}

static void a_look_finds_a_dead_key(void **state)
{
    store_fixture *f = *state;
    semel_mark mark = mark_of(scope_of(f, SEMEL_SCOPE_INBOX, "orders"), "dead");
    mark.fingerprint = FINGERPRINT;
    make_row(f, mark, SEMEL_MARK_DEAD);
    for (int i = 0; i < 2; i++)
        expect_look(f, mark, SEMEL_MARK_DEAD, 0, FINGERPRINT);
}

static void a_look_finds_a_claim_as_long_as_it_is_live(void **state)
{
    store_fixture *f = *state;
    semel_mark mark = mark_of(scope_of(f, SEMEL_SCOPE_INBOX, "orders"), "held");
    mark.fingerprint = FINGERPRINT;
    int64_t now = now_of(f);
    make_row(f, mark, SEMEL_MARK_HELD);
    STORED_AT(now + LEASE_MS, f, look_at(f, mark).held_until_ms);
    pass_almost(f, LEASE_MS);
    expect_look(f, mark, SEMEL_MARK_HELD, 0, FINGERPRINT);
    STORED_AT(now + LEASE_MS, f, look_at(f, mark).held_until_ms);
    pass_grain(f);
    expect_look(f, mark, SEMEL_MARK_FREE, 2, FINGERPRINT);
}

/* A store that has one unit at a time says so to the thread that has it open. */
static semel_status begin_beside(store_fixture *f, void **unit)
{
    *unit = calloc(1, driver_of(f)->unit_size);
    assert_non_null(*unit);
    semel_status status = driver_of(f)->units->begin(f->base.store->state, *unit,
                                                     SEMEL_BEGIN_DURABLE, PATIENCE_MS, &last_error);
    if (status)
        free(*unit);
    return status;
}

static void a_look_does_not_wait_for_an_open_unit(void **state)
{
    store_fixture *f = *state;
    const semel_store_driver *driver = driver_of(f);
    semel_mark mark = mark_of(scope_of(f, SEMEL_SCOPE_INBOX, "orders"), "a"), seen = mark;
    void *unit = begin(f), *beside;
    semel_status claimed = driver->markers->claim(unit, &mark, LEASE_MS, &last_error);
    semel_status begun = begin_beside(f, &beside), looked = SEMEL_OK;
    if (!begun) {
        looked = driver->markers->look(beside, &seen, &last_error);
        driver->units->rollback(beside);
        free(beside);
    }
    driver->units->rollback(unit);
    free(unit);
    OK(claimed);
    OK(looked);
    assert_true(begun == SEMEL_OK || begun == SEMEL_EMISUSE);
    assert_true(seen.state == SEMEL_MARK_FREE || seen.state == SEMEL_MARK_HELD);
}

/* --- forgetting a dead key -------------------------------------------------------------------- */

static semel_status forget_dead(store_fixture *f, semel_mark mark)
{
    void *unit = begin(f);
    mark.state = SEMEL_MARK_DEAD;
    return end(f, unit, driver_of(f)->markers->forget(unit, &mark, &last_error));
}

/* A replay frees the key that its letter was about, and no copy that was handled meanwhile. */
static void a_dead_key_is_forgotten_only_if_it_is_dead(void **state)
{
    store_fixture *f = *state;
    int64_t inbox = scope_of(f, SEMEL_SCOPE_INBOX, "orders");
    semel_mark open = mark_of(inbox, "open"), done = mark_of(inbox, "done"),
               dead = mark_of(inbox, "dead");
    make_row(f, open, SEMEL_MARK_FREE);
    make_row(f, done, SEMEL_MARK_DONE);
    FAILS(SEMEL_ENOTFOUND, forget_dead(f, mark_of(inbox, "none")));
    FAILS(SEMEL_ENOTFOUND, forget_dead(f, open));
    FAILS(SEMEL_ENOTFOUND, forget_dead(f, done));
    assert_int_equal(look_at(f, open).attempts, 2);
    assert_int_equal(state_of(f, done), SEMEL_MARK_DONE);
    if (!store_has(f, LACKS_DEAD))
        return;
    make_row(f, dead, SEMEL_MARK_DEAD);
    OK(forget_dead(f, dead));
    FAILS(SEMEL_ENOTFOUND, forget_dead(f, dead));
    assert_int_equal(look_at(f, dead).attempts, 0);
}

/* --- groups ----------------------------------------------------------------------------------- */

typedef struct leased_items {
    size_t count;
    semel_item_settlement settlements[GROUP];
    char ids[64]; /* each followed by a space */
} leased_items;

static semel_status note_item(const semel_item *item, void *context, semel_error *err)
{
    leased_items *out = context;
    size_t used = strlen(out->ids);
    if (out->count == GROUP)
        return semel_fail(err, SEMEL_ELIMIT, "more items than there are");
    out->settlements[out->count++] =
        (semel_item_settlement){.seq = item->seq, .token = item->token};
    (void)snprintf(out->ids + used, sizeof out->ids - used, "%.*s ", (int)item->message->id.len,
                   (const char *)item->message->id.data);
    return SEMEL_OK;
}

static leased_items take(store_fixture *f, int64_t outbox)
{
    leased_items taken = {0};
    void *unit = begin(f);
    OK(end(f, unit,
           driver_of(f)->outbox->lease(unit, outbox, PLENTY, PATIENCE_MS, note_item, &taken,
                                       &last_error)));
    return taken;
}

static void settle(store_fixture *f, int64_t outbox, semel_item_settlement settlement,
                   semel_verdict verdict)
{
    void *unit = begin(f);
    settlement.verdict = verdict;
    OK(end(f, unit, driver_of(f)->outbox->settle(unit, outbox, &settlement, 1, &last_error)));
    assert_int_equal(settlement.lost, 0);
}

/* P10: the first and the last of a group are given back, the one between them is still on its way
 * to the broker. */
static void a_leased_message_in_the_middle_holds_up_what_is_behind_it(void **state)
{
    store_fixture *f = *state;
    semel_outbox *mail = open_outbox(f, "mail");
    int64_t outbox = scope_of(f, SEMEL_SCOPE_OUTBOX, "mail");
    for (int i = 1; i <= GROUP; i++) {
        char id[] = {(char)('0' + i), 0};
        semel_message message = text_message(id, "paid");
        message.group = "g";
        OK(semel_outbox_send(mail, &message, &last_error));
    }
    leased_items first = take(f, outbox);
    assert_string_equal(first.ids, "1 2 3 ");
    settle(f, outbox, first.settlements[0], SEMEL_VERDICT_RELEASE);
    settle(f, outbox, first.settlements[2], SEMEL_VERDICT_RELEASE);
    leased_items second = take(f, outbox);
    assert_string_equal(second.ids, "1 ");
    settle(f, outbox, second.settlements[0], SEMEL_VERDICT_ACK);
    assert_string_equal(take(f, outbox).ids, "");
    settle(f, outbox, first.settlements[1], SEMEL_VERDICT_RELEASE);
    assert_string_equal(take(f, outbox).ids, "2 3 ");
}

/* --- between the core and the driver ---------------------------------------------------------- */

static struct {
    const semel_store_driver *inner;
    semel_store_driver driver;
    semel_store_units units;
    semel_store_dead dead;
    const void *unit;       /* begun last ... */
    semel_begin durability; /* ... so */
    unsigned letters;
    unsigned relaxed_letters; /* of these, in a unit whose commit may be lost */
    /* Called once, before the next durable unit is begun. */
    void (*meanwhile)(void *context);
    void *context;
} between;

static semel_status begin_between(void *store, void *unit, semel_begin durability, uint32_t wait_ms,
                                  semel_error *err)
{
    void (*meanwhile)(void *) = durability == SEMEL_BEGIN_DURABLE ? between.meanwhile : NULL;
    if (meanwhile) {
        between.meanwhile = NULL;
        meanwhile(between.context);
    }
    between.unit = unit;
    between.durability = durability;
    return between.inner->units->begin(store, unit, durability, wait_ms, err);
}

static semel_status dead_put_between(void *unit, const semel_dead *dead, semel_error *err)
{
    between.letters++;
    between.relaxed_letters += unit != between.unit || between.durability != SEMEL_BEGIN_DURABLE;
    return between.inner->dead->put(unit, dead, err);
}

/* Until the store of the fixture is closed. */
static void step_between(store_fixture *f)
{
    memset(&between, 0, sizeof between);
    between.inner = f->base.store->driver;
    between.driver = *between.inner;
    between.units = *between.inner->units;
    between.units.begin = begin_between;
    between.driver.units = &between.units;
    between.dead = *between.inner->dead;
    between.dead.put = dead_put_between;
    between.driver.dead = &between.dead;
    f->base.store->driver = &between.driver;
}

static void expect_durable_letters(unsigned count)
{
    assert_int_equal(between.letters, count);
    assert_int_equal(between.relaxed_letters, 0);
}

/* A caller that learns that a message is dead acknowledges it, and the broker forgets it: the
 * letter is all that is left. */
static void a_dead_letter_does_not_go_with_the_power(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .attempts_max = 2};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    semel_message messages[2] = {text_message("c", "10 EUR"), text_message("d", "10 EUR")};
    const semel_message *pointers[2] = {&messages[0], &messages[1]};
    semel_outcome outcomes[2];
    scripted_handler hopeless = {.failures = 3, .failure = SEMEL_EGIVEUP},
                     failing = {.failures = 2};
    step_between(f);
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "a", &hopeless);
    expect_durable_letters(1);
    RECEIVES_ID(SEMEL_EHANDLER, SEMEL_FAILED, inbox, "b", &failing);
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "b", &failing);
    expect_durable_letters(2);
    OK(semel_inbox_receive_batch(outcomes, inbox, pointers, 2, scripted_handler_run, &hopeless,
                                 &last_error));
    assert_int_equal(outcomes[0], SEMEL_DEAD);
    assert_int_equal(outcomes[1], SEMEL_DEAD);
    expect_durable_letters(4);
}

static void a_dead_letter_of_a_unit_does_not_go_with_the_power(void **state)
{
    store_fixture *f = *state;
    semel_message message = text_message("a", "10 EUR");
    semel_error why = {0};
    semel_outcome outcome = SEMEL_UNDECIDED;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    step_between(f);
    semel_unit *unit = claim_message(f, inbox, &message);
    semel_fail(&why, SEMEL_EGIVEUP, "out of paper");
    OK(semel_unit_fail(&outcome, unit, &why, &last_error));
    assert_int_equal(outcome, SEMEL_DEAD);
    expect_durable_letters(1);
}

/* What an inbox refuses leaves the outbox: the letter is all that is left here, too. */
static void a_dead_letter_of_a_hand_over_does_not_go_with_the_power(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "events");
    semel_inbox *inbox = open_inbox(f, "projection", NULL);
    scripted_handler done = {0}, hopeless = {.failures = 1, .failure = SEMEL_EGIVEUP};
    semel_relay *relay = open_local_relay(f, outbox, inbox, &hopeless, NULL);
    semel_message known = text_message("a", "10 EUR"), refused = text_message("a", "11 EUR"),
                  other = text_message("b", "10 EUR");
    step_between(f);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &known, &done);
    OK(semel_outbox_send(outbox, &refused, &last_error));
    OK(semel_outbox_send(outbox, &other, &last_error));
    assert_int_equal(relay_all(relay), 2);
    expect_durable_letters(2);
}

/* --- a hand-over that was overtaken ----------------------------------------------------------- */

typedef struct overtaking {
    store_fixture *f;
    semel_relay *relay;
    size_t sent;
    semel_status status;
} overtaking;

static void overtake(void *context)
{
    overtaking *self = context;
    pass_ms(self->f, LEASE_MS);
    self->status = semel_relay_step(&self->sent, self->relay, 0, &last_error);
}

static semel_relay *open_hand_over(store_fixture *f, semel_outbox *outbox,
                                   scripted_handler *context)
{
    semel_inbox_options keyless = {.size = sizeof keyless,
                                   .key = "correlation-id",
                                   .on_missing_key = SEMEL_MISSING_KEY_PROCESS};
    semel_relay_options options = {.size = sizeof options, .lease_ms = LEASE_MS};
    return open_local_relay(f, outbox, open_inbox(f, "projection", &keyless), context, &options);
}

/* P2: a message without a key has no marker that would stop the second hand-over: the lease alone
 * does. Whether the work of the one that was overtaken succeeds, fails or is given up, nothing of
 * it may stay. */
static void a_hand_over_whose_lease_was_taken_over_leaves_nothing(void **state)
{
    static const semel_status ends[] = {SEMEL_OK, SEMEL_EHANDLER, SEMEL_EGIVEUP};
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "events");
    semel_message event = text_message("m-1", "10 EUR"), mail = text_message("", "paid");
    step_between(f);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        scripted_handler first = {.outbox = open_outbox(f, "mail"), .sends = &mail}, second = first;
        first.failures = ends[i] != SEMEL_OK;
        first.failure = ends[i];
        overtaking other = {.f = f, .relay = open_hand_over(f, outbox, &second)};
        semel_relay *stale = open_hand_over(f, outbox, &first);
        OK(semel_outbox_send(outbox, &event, &last_error));
        between.context = &other;
        between.meanwhile = overtake;
        assert_int_equal(relay_once(stale), 0);
        OK(other.status);
        assert_int_equal(other.sent, 1);
        assert_int_equal(first.runs, 1);
        assert_int_equal(second.runs, 1);
        assert_int_equal(counters_of(f).unsent, i + 1); /* the mail of the second */
        assert_int_equal(counters_of(f).sent, i + 1);
        assert_int_equal(count_letters(f), 0);
    }
}

const store_test store_driver_tests[] = {
    STORE_TEST_WITH(a_failure_without_a_token_changes_no_row_of_others, IN_ANY_MODE | NEEDS_DEAD),
    STORE_TEST_WITH(a_failure_without_attempts_leaves_no_row, IN_ANY_MODE),
    STORE_TEST_WITH(keys_that_are_unmarked_are_free, IN_TRANSACTION_MODE),
    STORE_TEST_WITH(a_look_tells_what_is_known_and_writes_nothing, IN_ANY_MODE),
    STORE_TEST_WITH(a_look_finds_a_dead_key, IN_ANY_MODE | NEEDS_DEAD),
    STORE_TEST_WITH(a_look_finds_a_claim_as_long_as_it_is_live, IN_ANY_MODE),
    STORE_TEST_WITH(a_look_does_not_wait_for_an_open_unit, IN_ANY_MODE),
    STORE_TEST_WITH(a_dead_key_is_forgotten_only_if_it_is_dead, IN_ANY_MODE),
    STORE_TEST_WITH(a_leased_message_in_the_middle_holds_up_what_is_behind_it,
                    IN_ANY_MODE | NEEDS_OUTBOX),
    STORE_TEST_WITH(a_dead_letter_does_not_go_with_the_power, NEEDS_DEAD),
    STORE_TEST_WITH(a_dead_letter_of_a_unit_does_not_go_with_the_power, NEEDS_DEAD),
    STORE_TEST_WITH(a_dead_letter_of_a_hand_over_does_not_go_with_the_power,
                    IN_TRANSACTION_MODE | NEEDS_OUTBOX),
    STORE_TEST_WITH(a_hand_over_whose_lease_was_taken_over_leaves_nothing,
                    IN_TRANSACTION_MODE | NEEDS_OUTBOX),
    {NULL, NULL, 0}};
