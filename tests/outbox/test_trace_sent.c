/* The trace context on its way: from a received message to what its handler sends, through the
 * outbox and the relay, in every mode; in a batch from each message to its own. */
#include "support/fixture/fixture.h"

#include <stdio.h>

#define PARENT "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333%d-01"

typedef struct traced {
    char parent[64];
    semel_header headers[2];
    semel_message message;
} traced;

static void make_traced(traced *t, const char *id, int number)
{
    (void)snprintf(t->parent, sizeof t->parent, PARENT, number);
    t->headers[0] = (semel_header){"traceparent", semel_str(t->parent)};
    t->headers[1] = (semel_header){"tracestate", semel_str("vendor=1")};
    t->message = text_message(id, "body");
    t->message.headers = t->headers;
    t->message.header_count = 2;
}

/* Relays all, and returns the parent of the message at `index`, "" if it has none. */
static const char *sent_parent(fixture *f, semel_outbox *outbox, semel_transport *broker,
                               size_t index)
{
    static char text[64];
    semel_relay *relay = fixture_relay(f, outbox, broker, NULL);
    (void)fixture_drain(relay);
    const semel_message *sent = semel_test_recorder_message(broker, index);
    assert_non_null(sent);
    semel_bytes found = semel_message_header(sent, "traceparent");
    semel_bytes trace_state = semel_message_header(sent, "tracestate");
    (void)snprintf(text, sizeof text, "%.*s", (int)found.len,
                   found.data ? (const char *)found.data : "");
    assert_int_equal(trace_state.data != NULL, found.data && strcmp(text, "own") != 0);
    return text;
}

static void check_mode(fixture *f, semel_mode mode)
{
    traced t;
    semel_inbox_options options = {.size = sizeof options, .mode = mode};
    semel_header own = {"traceparent", {"own", 3}};
    semel_message event = text_message(NULL, "event"), named = event;
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_transport *broker = fixture_recorder(f);
    semel_inbox *inbox = fixture_inbox(f, "in", &options);
    scripted_handler todo = {.outbox = outbox, .sends = &event};
    scripted_handler other = {.outbox = outbox, .sends = &named};
    named.headers = &own;
    named.header_count = 1;
    make_traced(&t, "a", 1);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &t.message, &todo);
    assert_string_equal(sent_parent(f, outbox, broker, 0), t.parent);
    make_traced(&t, "b", 2);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &t.message, &other);
    assert_string_equal(sent_parent(f, outbox, broker, 1), "own");
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "c", &todo);
    assert_string_equal(sent_parent(f, outbox, broker, 2), "");
    OK(semel_outbox_send(outbox, &event, &last_error));
    assert_string_equal(sent_parent(f, outbox, broker, 3), "");
}

static void a_transaction_passes_it_on(void **state)
{
    check_mode(*state, SEMEL_TRANSACTION);
}

static void a_claim_passes_it_on(void **state)
{
    check_mode(*state, SEMEL_CLAIM);
}

static void a_plan_passes_it_on(void **state)
{
    check_mode(*state, SEMEL_QUEUED);
}

static void each_message_of_a_batch_passes_on_its_own(void **state)
{
    fixture *f = *state;
    traced t[3];
    semel_outcome out[3];
    const semel_message *all[3];
    semel_message event = text_message(NULL, "event");
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_transport *broker = fixture_recorder(f);
    scripted_handler todo = {.outbox = outbox, .sends = &event};
    for (int i = 0; i < 3; i++) {
        make_traced(&t[i], i == 0 ? "a" : i == 1 ? "b" : "c", i);
        all[i] = &t[i].message;
    }
    t[1].message.header_count = 0;
    OK(semel_inbox_receive_batch(out, fixture_inbox(f, "in", NULL), all, 3, scripted_handler_run,
                                 &todo, &last_error));
    assert_string_equal(sent_parent(f, outbox, broker, 0), t[0].parent);
    assert_string_equal(sent_parent(f, outbox, broker, 1), "");
    assert_string_equal(sent_parent(f, outbox, broker, 2), t[2].parent);
}

/* A message that has no room for it leaves as it is. */
static void a_message_full_of_headers_is_sent(void **state)
{
    static semel_header full[SEMEL_HEADERS_MAX];
    fixture *f = *state;
    traced t;
    semel_message event = text_message(NULL, "event");
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_transport *broker = fixture_recorder(f);
    scripted_handler todo = {.outbox = outbox, .sends = &event};
    for (size_t i = 0; i < SEMEL_HEADERS_MAX; i++)
        full[i] = (semel_header){"x", {"y", 1}};
    event.headers = full;
    event.header_count = SEMEL_HEADERS_MAX;
    make_traced(&t, "a", 1);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, fixture_inbox(f, "in", NULL), &t.message, &todo);
    assert_string_equal(sent_parent(f, outbox, broker, 0), "");
}

/* Two hops: what was handed over locally is handled under the same trace, and so is what comes of
 * that. */
static void a_local_hand_off_passes_it_on(void **state)
{
    fixture *f = *state;
    traced t;
    semel_message event = text_message(NULL, "event");
    semel_outbox *first = fixture_outbox(f, "first"), *second = fixture_outbox(f, "second");
    semel_transport *broker = fixture_recorder(f);
    scripted_handler todo = {.outbox = first, .sends = &event};
    scripted_handler behind = {.outbox = second, .sends = &event};
    semel_relay *local = fixture_local_relay(f, first, fixture_inbox(f, "behind", NULL),
                                             scripted_handler_run, &behind, NULL);
    make_traced(&t, "a", 1);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, fixture_inbox(f, "in", NULL), &t.message, &todo);
    assert_int_equal(fixture_drain(local), 1);
    assert_string_equal(sent_parent(f, second, broker, 0), t.parent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("a transaction passes it on", a_transaction_passes_it_on),
        ON_BOTH("a claim passes it on", a_claim_passes_it_on),
        ON_SQLITE("a plan passes it on", a_plan_passes_it_on),
        ON_BOTH("each message of a batch passes on its own",
                each_message_of_a_batch_passes_on_its_own),
        ON_BOTH("a message full of headers is sent", a_message_full_of_headers_is_sent),
        ON_BOTH("a local hand-off passes it on", a_local_hand_off_passes_it_on)};
    return cmocka_run_group_tests_name("trace context on its way", tests, NULL, NULL);
}
