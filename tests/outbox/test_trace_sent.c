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

/* --- a tracer --------------------------------------------------------------------------------- */

enum { STARTS_MAX = 8 };

typedef struct tracer {
    semel_tracing hooks;
    scripted_handler todo;
    char working[64]; /* what the handler was told */
    int starts;
    int64_t started_ns[STARTS_MAX], event_ns[STARTS_MAX];
    int events;
    semel_transfer transfers[STARTS_MAX];
    char contexts[STARTS_MAX][160]; /* all of a transfer, one after the other */
    int transfer_count;
} tracer;

static void note_start(void *context, const semel_start *start,
                       char traceparent[SEMEL_TRACEPARENT_SIZE])
{
    tracer *t = context;
    assert_int_equal(start->size, sizeof *start);
    assert_string_equal(start->name, "in");
    assert_int_equal(start->attempt, 1);
    assert_int_equal(start->key.len, 1);
    t->started_ns[t->starts++ % STARTS_MAX] = start->started_ns;
    if (memcmp(start->key.data, "q", 1) != 0) /* of this one it makes no span */
        (void)snprintf(traceparent, SEMEL_TRACEPARENT_SIZE, "work on %.1s",
                       (const char *)start->key.data);
}

static void note_event(void *context, const semel_event *event)
{
    tracer *t = context;
    if (event->kind == SEMEL_EVENT_RECEIVED)
        t->event_ns[t->events++ % STARTS_MAX] = event->started_ns;
}

static void note_transfer(void *context, const semel_transfer *transfer)
{
    tracer *t = context;
    char *text = t->contexts[t->transfer_count];
    assert_true(transfer->took_ns >= 0);
    t->transfers[t->transfer_count++] = *transfer;
    for (size_t i = 0; i < transfer->count; i++) {
        semel_bytes one = transfer->traceparents[i];
        size_t len = strlen(text);
        (void)snprintf(text + len, 160 - len, "%.*s;", (int)one.len,
                       one.data ? (const char *)one.data : "");
    }
}

static semel_status handle_traced(semel_unit *unit, const semel_message *message, void *context,
                                  semel_error *err)
{
    tracer *t = context;
    semel_bytes found = semel_unit_traceparent(unit);
    (void)snprintf(t->working, sizeof t->working, "%.*s", (int)found.len,
                   found.data ? (const char *)found.data : "");
    return scripted_handler_run(unit, message, &t->todo, err);
}

/* Replaces the store of the fixture by one with a tracer. */
static void open_tracer(tracer *t, fixture *f)
{
    semel_store_options options = {.size = sizeof options,
                                   .seam = f->host,
                                   .observer = note_event,
                                   .observer_context = t,
                                   .tracing = &t->hooks};
    *t = (tracer){
        .hooks = {
            .size = sizeof t->hooks, .context = t, .start = note_start, .transfer = note_transfer}};
    fixture_close_things(f);
    OK(semel_store_open(&f->store, f->place.url, &options, &last_error));
    OK(semel_store_migrate(f->store, &last_error));
}

static void receive_traced(tracer *t, semel_inbox *inbox, const char *id)
{
    traced from;
    semel_outcome out;
    make_traced(&from, id, 1);
    OK(semel_inbox_receive(&out, inbox, &from.message, handle_traced, t, &last_error));
    OUTCOME(SEMEL_PROCESSED, out);
}

static void relayed_parent_is(fixture *f, semel_outbox *outbox, semel_transport *broker,
                              size_t index, const char *expected, int has_state)
{
    (void)fixture_drain(fixture_relay(f, outbox, broker, NULL));
    const semel_message *sent = semel_test_recorder_message(broker, index);
    assert_non_null(sent);
    semel_bytes found = semel_message_header(sent, "traceparent");
    assert_int_equal(found.len, strlen(expected));
    assert_memory_equal(found.data, expected, found.len);
    assert_int_equal(semel_message_header(sent, "tracestate").data != NULL, has_state);
}

static void check_tracer(fixture *f, semel_mode mode)
{
    tracer t;
    traced from;
    semel_inbox_options options = {.size = sizeof options, .mode = mode};
    semel_message event = text_message(NULL, "event");
    open_tracer(&t, f);
    semel_inbox *inbox = fixture_inbox(f, "in", &options);
    semel_transport *broker = fixture_recorder(f);
    t.todo = (scripted_handler){.outbox = fixture_outbox(f, "out"), .sends = &event};
    receive_traced(&t, inbox, "a");
    assert_string_equal(t.working, "work on a");
    relayed_parent_is(f, t.todo.outbox, broker, 0, "work on a", 0);
    receive_traced(&t, inbox, "q");
    make_traced(&from, "q", 1);
    assert_string_equal(t.working, from.parent);
    relayed_parent_is(f, t.todo.outbox, broker, 1, from.parent, 1);
    assert_int_equal(t.starts, 2);
    assert_int_equal(t.events, 2);
    assert_true(t.started_ns[0] && t.started_ns[0] < t.started_ns[1]);
    assert_memory_equal(t.started_ns, t.event_ns, 2 * sizeof *t.event_ns);
}

static void a_tracer_says_what_a_transaction_belongs_to(void **state)
{
    check_tracer(*state, SEMEL_TRANSACTION);
}

static void a_tracer_says_what_a_claim_belongs_to(void **state)
{
    check_tracer(*state, SEMEL_CLAIM);
}

static void a_tracer_says_what_a_plan_belongs_to(void **state)
{
    check_tracer(*state, SEMEL_QUEUED);
}

/* In a batch each message has its own; and the transport's part is told once for all of them. */
static void a_tracer_learns_what_a_consumer_does(void **state)
{
    enum { MESSAGES = 3 };
    tracer t;
    traced from[MESSAGES];
    size_t acked;
    fixture *f = *state;
    semel_publish_result results[MESSAGES];
    const semel_message *all[MESSAGES];
    semel_message event = text_message(NULL, "event");
    semel_consumer_options options = {.size = sizeof options, .batch = 16};
    open_tracer(&t, f);
    semel_transport *queue = fixture_queue(f, "memory:"), *broker = fixture_recorder(f);
    semel_route route = {"*", fixture_inbox(f, "in", NULL), handle_traced, &t};
    semel_consumer *consumer = fixture_consumer(f, queue, &route, 1, &options);
    t.todo = (scripted_handler){.outbox = fixture_outbox(f, "out"), .sends = &event};
    for (int i = 0; i < MESSAGES; i++) {
        make_traced(&from[i], i == 0 ? "a" : i == 1 ? "b" : "q", i);
        from[i].message.type = "order";
        all[i] = &from[i].message;
    }
    from[1].message.header_count = 0;
    OK(semel_transport_publish(results, queue, all, MESSAGES, 0, &last_error));
    OK(semel_consumer_step(&acked, consumer, 0, &last_error));
    assert_int_equal(acked, MESSAGES);
    relayed_parent_is(f, t.todo.outbox, broker, 0, "work on a", 0);
    relayed_parent_is(f, t.todo.outbox, broker, 1, "work on b", 0);
    relayed_parent_is(f, t.todo.outbox, broker, 2, from[2].parent, 1);
    assert_int_equal(t.starts, MESSAGES);
    assert_memory_equal(t.started_ns, t.event_ns, MESSAGES * sizeof *t.event_ns);
    assert_int_equal(t.transfer_count, 2);
    for (int i = 0; i < 2; i++) {
        char expected[160];
        (void)snprintf(expected, sizeof expected, "%s;;%s;", from[0].parent, from[2].parent);
        assert_int_equal(t.transfers[i].kind, i ? SEMEL_TRANSFER_SETTLED : SEMEL_TRANSFER_RECEIVED);
        assert_int_equal(t.transfers[i].count, MESSAGES);
        assert_string_equal(t.transfers[i].scheme, "memory");
        assert_null(t.transfers[i].error);
        assert_string_equal(t.contexts[i], expected);
    }
}

/* A program that was built for an older or a newer table of hooks. */
static void hooks_have_a_size(void **state)
{
    fixture *f = *state;
    semel_store *store = NULL;
    semel_tracing hooks = {.size = 0};
    semel_store_options options = {.size = sizeof options, .tracing = &hooks};
    FAILS(SEMEL_EINVAL, semel_store_open(&store, f->place.url, &options, &last_error));
    assert_non_null(strstr(last_error.text, "semel_tracing.size is not set"));
    hooks.size = sizeof hooks + 8;
    FAILS(SEMEL_EINVAL, semel_store_open(&store, f->place.url, &options, &last_error));
    options.size = offsetof(semel_store_options, tracing); /* it knows no such member */
    OK(semel_store_open(&store, f->place.url, &options, &last_error));
    semel_store_close(store);
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
        ON_BOTH("a local hand-off passes it on", a_local_hand_off_passes_it_on),
        ON_BOTH("a tracer says what a transaction belongs to",
                a_tracer_says_what_a_transaction_belongs_to),
        ON_BOTH("a tracer says what a claim belongs to", a_tracer_says_what_a_claim_belongs_to),
        ON_SQLITE("a tracer says what a plan belongs to", a_tracer_says_what_a_plan_belongs_to),
        ON_BOTH("a tracer learns what a consumer does", a_tracer_learns_what_a_consumer_does),
        ON_BOTH("hooks have a size", hooks_have_a_size)};
    return cmocka_run_group_tests_name("trace context on its way", tests, NULL, NULL);
}
