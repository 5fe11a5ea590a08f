/* Dead letters of a consumer: those that are too large for the store are kept without their body,
 * and announced, in each mode; those that were refused do not take the place of others. */
#include "support/fake/failing_store.h"
#include "support/fake/no_delay_transport.h"
#include "support/process/process.h"

enum { SOON_MS = 60000 };

/* --- a consumer that is stepped --------------------------------------------------------------- */

typedef struct consumer_case {
    no_delay broker;
    semel_consumer *consumer;
} consumer_case;

static void publish(consumer_case *s, semel_message message)
{
    const semel_message *one = &message;
    semel_publish_result result;
    OK(semel_transport_publish(&result, s->broker.inner, &one, 1, 0, &last_error));
    assert_int_equal(result, SEMEL_PUBLISH_CONFIRMED);
}

static void open_case(consumer_case *s, fixture *f, semel_route route,
                      semel_consumer_options options)
{
    *s = (consumer_case){0};
    OK(semel_transport_open(&s->broker.inner, "memory:", NULL, &last_error));
    semel_transport *transport = no_delay_open(f, &s->broker, NULL);
    options.size = sizeof options;
    options.backoff_ms = 1;
    options.backoff_max_ms = 4;
    OK(semel_consumer_open(&s->consumer, transport, &route, 1, &options, &last_error));
}

static void close_case(consumer_case *s)
{
    semel_consumer_close(s->consumer);
    semel_transport_close(s->broker.inner);
}

static void step_until_acked(consumer_case *s, unsigned count)
{
    size_t settled;
    for (int64_t deadline = process_now_ms() + SOON_MS;
         atomic_load(&s->broker.acked) < count && process_now_ms() < deadline;)
        OK(semel_consumer_step(&settled, s->consumer, 10, &last_error));
    assert_int_equal(s->broker.acked, count);
}

/* --- a letter that the store does not take ---------------------------------------------------- */

enum { BODY_MAX = 100, BODY = 1000 };

static semel_status give_up(semel_unit *unit, const semel_message *message, void *context,
                            semel_error *err)
{
    scripted_handler *todo = context;
    (void)unit;
    todo->runs++;
    return message->body.len > BODY_MAX ? semel_fail(err, SEMEL_EGIVEUP, "no such customer")
                                        : SEMEL_OK;
}

static semel_status see_body(const semel_dead *dead, void *context, semel_error *err)
{
    (void)err;
    *(size_t *)context = dead->message->body.len;
    return SEMEL_OK;
}

/* One letter and one announcement, both without the body, and the letter says so. */
static void check_bodiless(fixture *f, const char *why, const char *id)
{
    size_t body = 1;
    letter one = fixture_only_letter(f);
    assert_non_null(strstr(one.error, why));
    assert_non_null(strstr(one.error, "1000 bytes is more than the store takes"));
    assert_string_equal(one.message_id, id);
    OK(semel_dead_list(f->store, NULL, see_body, &body, &last_error));
    assert_int_equal(body, 0);
}

static void check_announced_once(fixture *f, semel_outbox *faults)
{
    semel_transport *recorder = fixture_recorder(f);
    assert_int_equal(fixture_drain(fixture_relay(f, faults, recorder, NULL)), 1);
    const semel_message *fault = semel_test_recorder_message(recorder, 0);
    assert_int_equal(fault->body.len, 0);
}

static semel_message large_message(const char *id)
{
    static char body[BODY];
    semel_message message = text_message(id, "");
    memset(body, 'x', sizeof body);
    message.body = (semel_bytes){body, sizeof body};
    return message;
}

static void step_through(fixture *f, semel_mode mode, uint32_t batch, semel_message large,
                         const char *why)
{
    semel_outbox *faults = fixture_outbox(f, "faults");
    semel_inbox_options options = {.size = sizeof options, .mode = mode, .faults = faults};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    scripted_handler todo = {0};
    consumer_case s;
    failing_store_open(f);
    failing_store_limit_letters(BODY_MAX);
    open_case(&s, f, (semel_route){"order.*", inbox, give_up, &todo},
              (semel_consumer_options){.batch = batch});
    publish(&s, large);
    publish(&s, text_message("small", "a"));
    publish(&s, text_message("little", "a"));
    step_until_acked(&s, 3);
    check_bodiless(f, why, "large");
    check_announced_once(f, faults);
    assert_int_equal(fixture_counters(f).dead, 1);
    close_case(&s);
}

static void a_letter_too_large_for_the_store_is_kept_without_its_body(void **state)
{
    step_through(*state, SEMEL_TRANSACTION, 1, large_message("large"), "no such customer");
}

/* A handler would take the empty body for the message's own. */
static void such_a_letter_is_not_replayed(void **state)
{
    fixture *f = *state;
    scripted_handler todo = {0};
    semel_outcome out;
    semel_inbox *inboxes[2];
    semel_message large = large_message("large");
    fixture_both_modes(inboxes, f, (semel_inbox_options){0});
    failing_store_open(f);
    failing_store_limit_letters(BODY_MAX);
    EACH_MODE(inbox, inboxes)
    {
        OK(semel_inbox_receive(&out, inbox, &large, give_up, &todo, &last_error));
        OUTCOME(SEMEL_DEAD, out);
    }
    letter kept[2];
    assert_int_equal(fixture_letters(f, kept, 2), 2);
    for (size_t i = 0; i < 2; i++) {
        FAILS(SEMEL_EREJECTED,
              semel_inbox_replay(&out, inboxes[i], kept[i].id, give_up, &todo, &last_error));
        SAYS("without its body");
        OUTCOME(SEMEL_UNDECIDED, out);
    }
    assert_int_equal(todo.runs, 2);
    assert_int_equal(fixture_letters(f, NULL, 0), 2);
}

static void it_is_in_claim_mode(void **state)
{
    step_through(*state, SEMEL_CLAIM, 1, large_message("large"), "no such customer");
}

static void it_is_in_a_batch(void **state)
{
    step_through(*state, SEMEL_TRANSACTION, 3, large_message("large"), "no such customer");
}

static void it_is_if_no_route_fits(void **state)
{
    semel_message unrouted = large_message("large");
    unrouted.type = "offer";
    step_through(*state, SEMEL_TRANSACTION, 1, unrouted, "no route fits");
}

/* --- a letter that was refused ---------------------------------------------------------------- */

/* The first message is dead; the second one has its key and another body. To replay the second is
 * refused as long as the key is dead: it would take the place of the first. */
static void replay_refused(fixture *f, semel_mode mode)
{
    semel_inbox_options options = {.size = sizeof options, .mode = mode};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    scripted_handler todo = {.failures = 2, .failure = SEMEL_EGIVEUP};
    semel_outcome out;
    letter kept[2];
    consumer_case s;
    open_case(&s, f, (semel_route){"order.*", inbox, scripted_handler_run, &todo},
              (semel_consumer_options){.batch = 1});
    publish(&s, text_message("same", "first"));
    publish(&s, text_message("same", "second"));
    step_until_acked(&s, 2);
    assert_int_equal(fixture_letters(f, kept, 2), 2);
    FAILS(SEMEL_EREJECTED,
          semel_inbox_replay(&out, inbox, kept[1].id, scripted_handler_run, &todo, &last_error));
    SAYS("because of another message");
    OUTCOME(SEMEL_UNDECIDED, out);
    assert_int_equal(todo.runs, 1);
    todo.failures = 0;
    OK(semel_inbox_replay(&out, inbox, kept[0].id, scripted_handler_run, &todo, &last_error));
    OUTCOME(SEMEL_PROCESSED, out);
    FAILS(SEMEL_EREJECTED,
          semel_inbox_replay(&out, inbox, kept[1].id, scripted_handler_run, &todo, &last_error));
    OUTCOME(SEMEL_MISMATCH, out);
    assert_int_equal(todo.runs, 2);
    assert_int_equal(fixture_letters(f, NULL, 0), 1);
    close_case(&s);
}

static void a_refused_letter_does_not_replace_another(void **state)
{
    replay_refused(*state, SEMEL_TRANSACTION);
}

static void nor_does_it_in_claim_mode(void **state)
{
    replay_refused(*state, SEMEL_CLAIM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("a letter too large for the store is kept without its body",
                a_letter_too_large_for_the_store_is_kept_without_its_body),
        ON_BOTH("such a letter is not replayed", such_a_letter_is_not_replayed),
        ON_BOTH("it is in claim mode", it_is_in_claim_mode),
        ON_BOTH("it is in a batch", it_is_in_a_batch),
        ON_BOTH("it is if no route fits", it_is_if_no_route_fits),
        ON_BOTH("a refused letter does not replace another",
                a_refused_letter_does_not_replace_another),
        ON_BOTH("nor does it in claim mode", nor_does_it_in_claim_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
