/* The history of what a relay has sent is swept by its steps. A sweep that fails holds up
 * nothing. */
#include "support/fixture/fixture.h"

enum { KEEP_MS = 10000 };

typedef struct notices {
    int begun, over;
} notices;

static void note(void *context, const semel_error *outage)
{
    notices *n = context;
    *(outage ? &n->begun : &n->over) += 1;
}

static void send_one(semel_outbox *outbox)
{
    semel_message message = text_message("m", "body");
    OK(semel_outbox_send(outbox, &message, &last_error));
}

/* When what was sent before is too old, and its removal fails with this error. */
static void send_beside_a_sweep(fixture *f, semel_outbox *outbox, semel_relay *relay,
                                semel_status failure)
{
    size_t sent = 0;
    semel_test_advance_ms(f->seam, 2 * KEEP_MS);
    if (failure)
        semel_test_fault(f->seam, "history.removed", 1, failure);
    send_one(outbox);
    OK(semel_relay_step(&sent, relay, 0, &last_error));
    assert_int_equal(sent, 1);
}

static void a_sweep_that_fails_holds_up_nothing(void **state)
{
    fixture *f = *state;
    notices n = {0};
    semel_outbox *outbox = fixture_outbox(f, "mail");
    semel_relay_options options = {
        .size = sizeof options, .keep_sent_ms = KEEP_MS, .notice = note, .notice_context = &n};
    semel_relay *relay = fixture_relay(f, outbox, fixture_recorder(f), &options);
    send_beside_a_sweep(f, outbox, relay, SEMEL_OK);
    send_beside_a_sweep(f, outbox, relay, SEMEL_EBUSY);
    send_beside_a_sweep(f, outbox, relay, SEMEL_EBUSY);
    assert_int_equal(n.begun, 0); /* it may pass */
    send_beside_a_sweep(f, outbox, relay, SEMEL_EBUSY);
    send_beside_a_sweep(f, outbox, relay, SEMEL_EBUSY);
    assert_int_equal(n.begun, 1);
    send_beside_a_sweep(f, outbox, relay, SEMEL_OK);
    assert_int_equal(n.begun, 1);
    assert_int_equal(n.over, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SQLITE("a sweep that fails holds up nothing", a_sweep_that_fails_holds_up_nothing)};
    return cmocka_run_group_tests_name("history of relays", tests, NULL, NULL);
}
