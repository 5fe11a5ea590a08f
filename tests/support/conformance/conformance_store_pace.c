/* A batch whose time is over: what was handled is committed, and the keys of the messages that are
 * left are what they were before. The consumer asks for this, so it has no public call. */
#include "core/unit.h"
#include "support/conformance/conformance_store.h"

#include <stdio.h>
#include <string.h>

enum { BUDGET_MS = 20, ROOM = 1000 };

typedef struct slow_work {
    store_fixture *f;
    scripted_handler work;
    const char *slow; /* the message with this id takes too long */
} slow_work;

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    slow_work *self = context;
    if (self->slow && strlen(self->slow) == message->id.len &&
        memcmp(self->slow, message->id.data, message->id.len) == 0)
        semel_test_advance_ms(self->f->base.seam, BUDGET_MS + 1);
    return scripted_handler_run(unit, message, &self->work, err);
}

typedef struct paced_batch {
    char ids[ROOM][8];
    semel_message messages[ROOM];
    const semel_message *pointers[ROOM];
    semel_outcome outcomes[ROOM];
    unit_pace pace;
} paced_batch;

static semel_status receive(paced_batch *b, semel_inbox *inbox, size_t count, slow_work *work)
{
    unit_terms terms = {.pace = &b->pace};
    b->pace = (unit_pace){.budget_ms = BUDGET_MS};
    return inbox_receive_batch(b->outcomes, NULL, inbox, b->pointers, count, handle, work, &terms,
                               &last_error);
}

/* The ids "0", "1", ... */
static void make_messages(paced_batch *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(b->ids[i], sizeof b->ids[i], "%zu", i);
        b->messages[i] = text_message(b->ids[i], "10 EUR");
        b->pointers[i] = &b->messages[i];
    }
}

static void expect(const paced_batch *b, const char *outcomes)
{
    for (size_t i = 0; outcomes[i]; i++)
        OUTCOME(outcomes[i] == 'P'   ? SEMEL_PROCESSED
                : outcomes[i] == 'd' ? SEMEL_DUPLICATE
                : outcomes[i] == 'F' ? SEMEL_FAILED
                                     : SEMEL_UNDECIDED,
                b->outcomes[i]);
}

static slow_work work_of(store_fixture *f, const char *slow, const semel_message *mail)
{
    slow_work work = {.f = f, .slow = slow};
    if (store_has(f, LACKS_OUTBOX)) {
        work.work.outbox = open_outbox(f, "mail");
        work.work.sends = mail;
    }
    return work;
}

static void expect_effects(store_fixture *f, unsigned count)
{
    if (store_has(f, LACKS_OUTBOX))
        assert_int_equal(counters_of(f).unsent, count);
}

static void what_is_left_of_a_batch_is_as_it_was(void **state)
{
    static paced_batch b;
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_message mail = text_message("", "paid");
    slow_work work = work_of(f, "1", &mail);
    make_messages(&b, 5);
    OK(receive(&b, inbox, 5, &work));
    expect(&b, "PP???");
    assert_int_equal(b.pace.cut, 1);
    assert_int_equal(work.work.runs, 2);
    expect_effects(f, 2);
    for (int i = 2; i < 5; i++)
        FAILS(SEMEL_ENOTFOUND, semel_inbox_forget(inbox, &b.messages[i], &last_error));
    OK(receive(&b, inbox, 5, &work));
    expect(&b, "ddPPP");
    assert_int_equal(b.pace.cut, 0);
    assert_int_equal(work.work.attempt, 1);
    assert_int_equal(counters_of(f).failed, 0);
    expect_effects(f, 5);
}

static void what_is_left_keeps_its_attempts(void **state)
{
    static paced_batch b;
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    slow_work work = {.f = f, .work = {.failures = 1, .only = "2"}};
    make_messages(&b, 3);
    OK(receive(&b, inbox, 3, &work));
    expect(&b, "PPF");
    make_messages(&b, 4);
    b.pointers[0] = &b.messages[3]; /* it is new, and slow */
    work.slow = "3";
    OK(receive(&b, inbox, 3, &work));
    expect(&b, "P??");
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &b.messages[2], &work.work);
    assert_int_equal(work.work.attempt, 2);
}

static void a_batch_may_end_with_one_that_failed(void **state)
{
    static paced_batch b;
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_message mail = text_message("", "paid");
    slow_work work = work_of(f, "1", &mail);
    work.work.failures = 1;
    work.work.only = "1";
    make_messages(&b, 4);
    OK(receive(&b, inbox, 4, &work));
    expect(&b, "PF??");
    expect_effects(f, 1);
    work.slow = NULL;
    OK(receive(&b, inbox, 4, &work));
    expect(&b, "dPPP");
    expect_effects(f, 4);
}

static void many_may_be_left(void **state)
{
    static paced_batch b;
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    slow_work work = {.f = f, .slow = "0"};
    make_messages(&b, ROOM);
    OK(receive(&b, inbox, ROOM, &work));
    expect(&b, "P?");
    OUTCOME(SEMEL_UNDECIDED, b.outcomes[ROOM - 1]);
    work.slow = NULL;
    OK(receive(&b, inbox, ROOM, &work));
    expect(&b, "dP");
    for (size_t i = 1; i < ROOM; i++)
        OUTCOME(SEMEL_PROCESSED, b.outcomes[i]);
    assert_int_equal(work.work.runs, ROOM);
}

static void a_batch_that_was_cut_can_be_begun_anew(void **state)
{
    static paced_batch b;
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_message mail = text_message("", "paid");
    slow_work work = work_of(f, "1", &mail);
    make_messages(&b, 5);
    semel_test_fault(f->base.seam, "batch.left", 1, SEMEL_ECONFLICT);
    OK(receive(&b, inbox, 5, &work));
    expect(&b, "PP???");
    assert_int_equal(work.work.runs, 4);
    expect_effects(f, 2);
    semel_test_fault(f->base.seam, "batch.left", 1, SEMEL_ESTORE);
    work.slow = "3";
    FAILS(SEMEL_ESTORE, receive(&b, inbox, 5, &work));
    expect_effects(f, 2);
    work.slow = NULL;
    OK(receive(&b, inbox, 5, &work));
    expect(&b, "ddPPP");
    expect_effects(f, 5);
}

const store_test store_pace_tests[] = {
    STORE_TEST(what_is_left_of_a_batch_is_as_it_was),
    STORE_TEST(what_is_left_keeps_its_attempts),
    STORE_TEST(a_batch_may_end_with_one_that_failed),
    STORE_TEST(many_may_be_left),
    STORE_TEST_WITH(a_batch_that_was_cut_can_be_begun_anew,
                    IN_TRANSACTION_MODE | NEEDS_OUTBOX | NEEDS_SAVEPOINTS),
    {NULL, NULL, 0}};
