/* Handlers that fail, on a real broker: they are called again after a backoff, and the broker hears
 * nothing of it. What keeps failing is one dead letter, with what the handler said, and one fault
 * message, however often the relay is killed; of several routes each is done once. */
#include "support/servers/rabbitmq/rabbitmq_servers_kit.h"

enum { ATTEMPTS = 4, BACKOFF_MS = 60 };

static const semel_inbox_options few = {.attempts_max = ATTEMPTS};
static const semel_consumer_options brisk = {.backoff_ms = BACKOFF_MS, .backoff_max_ms = 1000};

/* Long enough for the others to be handled within the first of its pauses, on a busy machine,
 * too. */
enum { LONG_BACKOFF_MS = 600 };
static const semel_consumer_options leisurely = {.backoff_ms = LONG_BACKOFF_MS,
                                                 .backoff_max_ms = 4 * LONG_BACKOFF_MS};

/* --- backoff ---------------------------------------------------------------------------------- */

/* Of each backoff up to half is jitter. */
static void expect_growing_pauses(const service_case *s, const char *id)
{
    int64_t last = 0, least = LONG_BACKOFF_MS / 2;
    for (unsigned i = 0; i < atomic_load(&s->tally->begun); i++) {
        const run *r = &s->tally->runs[i];
        if (strcmp(r->id, id) != 0)
            continue;
        if (last)
            assert_true(r->at_ms - last >= least);
        least *= last ? 2 : 1;
        last = r->at_ms;
    }
}

static unsigned last_run_of(const service_case *s, const char *id)
{
    unsigned last = atomic_load(&s->tally->begun);
    while (last-- > 0)
        if (strcmp(s->tally->runs[last].id, id) == 0)
            return last;
    fail();
    return 0;
}

static void what_fails_is_tried_again_after_a_growing_pause_and_overtaken(void **state)
{
    service_case *s = *state;
    service v;
    service_case_publish(s, "f0 g0 g1 f1 g2");
    service_open_consumer(&v, s, NULL, few, leisurely);
    STEP_UNTIL(&v, dead_letters(s) == 2);
    STEP_UNTIL(&v, effects(s) == 3);
    for (int i = 0; i < 2; i++) {
        const char *id = i ? "f1" : "f0";
        assert_int_equal(runs_of(s, id), ATTEMPTS);
        expect_growing_pauses(s, id);
    }
    assert_true(last_run_of(s, "g2") < last_run_of(s, "f0")); /* it did not wait for what failed */
    expect_empty_queue(s); /* with the consumer still there: nothing is out, either */
    service_close(&v);
    letters found = read_letters(s);
    assert_int_equal(found.count, 2);
    for (size_t i = 0; i < 2; i++) {
        char expected[ID_ROOM + 32];
        (void)snprintf(expected, sizeof expected, "%s is out of paper", found.all[i].id);
        assert_string_equal(found.all[i].error, expected);
        assert_int_equal(found.all[i].attempts, ATTEMPTS);
    }
    expect_effects(s, "g0 g1 g2");
}

/* --- not requeued ----------------------------------------------------------------------------- */

/* If it went back to the queue, the other consumer would get it at once: it has nothing to do. */
static void what_fails_does_not_go_back_to_the_queue(void **state)
{
    service_case *s = *state;
    service v;
    semel_delivery other;
    size_t got = 1;
    service_case_publish(s, "f0");
    service_open_consumer(&v, s, NULL, few, brisk);
    STEP_UNTIL(&v, runs_of(s, "f0") == 1);
    OK(semel_transport_open(&s->kit.transport, s->kit.url, NULL, &last_error));
    OK(semel_transport_receive(s->kit.transport, &other, 1, &got, 0, &last_error));
    STEP_UNTIL(&v, dead_letters(s) == 1);
    OK(semel_transport_receive(s->kit.transport, &other, 1, &got, 100, &last_error));
    assert_int_equal(got, 0);
    assert_int_equal(runs_of(s, "f0"), ATTEMPTS);
    service_close(&v);
}

/* The queue would give it up at the first return. */
static void what_fails_uses_up_no_delivery_limit(void **state)
{
    const variant *on = *state;
    char parameters[SERVER_URL_ROOM], dead[BROKER_NAME_ROOM];
    server_place broker;
    service_case s;
    service v;
    server_find(&broker, SERVER_RABBITMQ);
    broker_name(dead);
    broker_make_queue(&broker, dead, "quorum");
    (void)snprintf(parameters, sizeof parameters,
                   QUORUM "&delivery_limit=0&dead_letter=&dead_letter_key=%s", dead);
    service_case_open(&s, on->kind, parameters);
    service_case_publish(&s, "f0 g0");
    service_open_consumer(&v, &s, NULL, few, brisk);
    STEP_UNTIL(&v, dead_letters(&s) == 1 && effects(&s) == 1);
    assert_int_equal(runs_of(&s, "f0"), ATTEMPTS);
    expect_empty_queue(&s);
    service_close(&v);
    assert_int_equal(broker_ready(&broker, dead), 0);
    broker_delete_queue(&broker, dead);
    service_case_close(&s);
}

/* --- the broker's own dead letters ------------------------------------------------------------ */

static const semel_consumer_options rejecting = {
    .backoff_ms = BACKOFF_MS, .backoff_max_ms = 1000, .reject_dead = 1};

static int bury_and_die(void *context)
{
    service_case *s = context;
    semel_seam lethal = lethal_at("bury.committed");
    semel_route route = {"*", NULL, service_case_handle, s};
    semel_inbox_options inbox = few;
    semel_consumer_options consumer = rejecting;
    service v;
    size_t settled;
    inbox.size = sizeof inbox;
    consumer.size = sizeof consumer;
    service_open_store(&v, s, &lethal);
    PROCESS_REQUIRE_OK(semel_inbox_open(&v.inbox, v.store, "stock", &inbox, &v.err), &v.err);
    PROCESS_REQUIRE_OK(semel_transport_open(&v.transport, s->kit.url, NULL, &v.err), &v.err);
    route.inbox = v.inbox;
    PROCESS_REQUIRE_OK(semel_consumer_open(&v.consumer, v.transport, &route, 1, &consumer, &v.err),
                       &v.err);
    for (int64_t until = process_now_ms() + KIT_WAIT_MS; process_now_ms() < until;)
        PROCESS_REQUIRE_OK(semel_consumer_step(&settled, v.consumer, 20, &v.err), &v.err);
    return PROCESS_OK;
}

/* The process dies when the letter is committed and nothing is said to the broker. A later copy is
 * acknowledged. */
static void what_dies_reaches_the_dead_letter_exchange_once(void **state)
{
    const variant *on = *state;
    char parameters[SERVER_URL_ROOM], dead[BROKER_NAME_ROOM];
    server_place broker;
    service_case s;
    service v;
    server_find(&broker, SERVER_RABBITMQ);
    broker_name(dead);
    broker_make_queue(&broker, dead, "quorum");
    (void)snprintf(parameters, sizeof parameters, QUORUM "&dead_letter=&dead_letter_key=%s", dead);
    service_case_open(&s, on->kind, parameters);
    service_case_publish(&s, "f0 g0");
    assert_int_equal(process_run(bury_and_die, &s), PROCESS_KILLED + SIGKILL);
    assert_int_equal(dead_letters(&s), 1);
    assert_int_equal(broker_ready(&broker, dead), 0);
    service_open_consumer(&v, &s, NULL, few, rejecting);
    STEP_UNTIL(&v, broker_ready(&broker, dead) == 1 && effects(&s) == 1);
    service_case_publish(&s, "f0");
    service_case_publish(&s, "g1");
    STEP_UNTIL(&v, effects(&s) == 2);
    expect_empty_queue(&s);
    assert_int_equal(dead_letters(&s), 1);
    service_close(&v);
    assert_int_equal(broker_ready(&broker, dead), 1);
    broker_delete_queue(&broker, dead);
    service_case_close(&s);
}

/* --- fault messages --------------------------------------------------------------------------- */

typedef struct fault_case {
    service_case *s;
    char exchange[BROKER_NAME_ROOM]; /* and the queue of faults */
} fault_case;

static int publish_and_die(void *context)
{
    const fault_case *c = context;
    semel_seam lethal = lethal_at("relay.published");
    service v;
    size_t sent;
    service_open_relay(&v, c->s, c->exchange, (semel_relay_options){.poll_ms = 20}, &lethal);
    for (int64_t until = process_now_ms() + KIT_WAIT_MS; process_now_ms() < until;)
        PROCESS_REQUIRE_OK(semel_relay_step(&sent, v.relay, 20, &v.err), &v.err);
    return PROCESS_OK;
}

static void make_dead_letters(service_case *s)
{
    service v;
    semel_inbox_options options = {
        .size = sizeof options, .attempts_max = 2, .fault_topic = "stock.fault", .fault_body = 1};
    semel_route route = {"*", NULL, service_case_handle, s};
    semel_consumer_options consumer = brisk;
    consumer.size = sizeof consumer;
    service_open_store(&v, s, NULL);
    options.faults = v.outbox;
    OK(semel_inbox_open(&v.inbox, v.store, "stock", &options, &last_error));
    OK(semel_transport_open(&v.transport, s->kit.url, NULL, &last_error));
    route.inbox = v.inbox;
    OK(semel_consumer_open(&v.consumer, v.transport, &route, 1, &consumer, &last_error));
    STEP_UNTIL(&v, dead_letters(s) == 2 && effects(s) == 1);
    service_close(&v);
}

static void expect_header(const broker_message *fault, const char *name, const char *value)
{
    const amqp_field_value_t *field = broker_header(fault, name);
    assert_non_null(field);
    assert_int_equal(field->kind, AMQP_FIELD_KIND_UTF8);
    BYTES_EQUAL(semel_str(value),
                ((semel_bytes){field->value.bytes.bytes, field->value.bytes.len}));
}

/* Says which letter it is of: 0 or 1. */
static int check_fault(const broker_message *fault)
{
    char error[64];
    const amqp_basic_properties_t *said = &fault->message.properties;
    int which = ((const char *)fault->message.body.bytes)[1] - '0';
    const char *id = which ? "f1" : "f0";
    (void)snprintf(error, sizeof error, "%s is out of paper", id);
    assert_string_equal(fault->key, "stock.fault");
    assert_in_range(which, 0, 1);
    assert_int_equal(fault->message.body.len, 2);
    assert_memory_equal(fault->message.body.bytes, id, 2);
    expect_header(fault, "semel-inbox", "stock");
    expect_header(fault, "semel-error", error);
    expect_header(fault, "semel-message-id", id);
    assert_memory_equal(said->type.bytes, "semel.fault", said->type.len);
    assert_memory_equal(said->app_id.bytes, "stock", said->app_id.len);
    assert_int_equal(said->message_id.len, 36);
    assert_int_equal(said->delivery_mode, 2);
    return which;
}

/* All that is in the queue of faults: how many copies of which letter's, each under one id. */
static void read_faults(const fault_case *c, int copies[2])
{
    char ids[2][37] = {"", ""};
    broker_message fault;
    while (broker_get(&fault, &c->s->kit.broker, c->exchange)) {
        int which = check_fault(&fault);
        if (!copies[which]++)
            memcpy(ids[which], fault.message.properties.message_id.bytes, 36);
        assert_memory_equal(ids[which], fault.message.properties.message_id.bytes, 36);
        broker_message_free(&fault);
    }
    assert_string_not_equal(ids[0], ids[1]);
}

static void open_faults(fault_case *c)
{
    const server_place *broker = &c->s->kit.broker;
    broker_name(c->exchange);
    broker_make_exchange(broker, c->exchange, "topic");
    broker_make_queue(broker, c->exchange, "quorum");
    broker_bind(broker, c->exchange, c->exchange, "*.fault");
    service_case_publish(c->s, "f0 g0 f1");
    make_dead_letters(c->s);
    assert_int_equal(unsent(c->s), 2);
}

static void relay_the_rest(fault_case *c)
{
    service v;
    service_open_relay(&v, c->s, c->exchange, (semel_relay_options){.poll_ms = 20}, NULL);
    STEP_UNTIL(&v, unsent(c->s) == 0);
    service_close(&v);
}

static void close_faults(fault_case *c)
{
    broker_delete_queue(&c->s->kit.broker, c->exchange);
    broker_delete_exchange(&c->s->kit.broker, c->exchange);
}

static void every_dead_letter_is_announced_once(void **state)
{
    fault_case c = {.s = *state};
    int copies[2] = {0};
    open_faults(&c);
    relay_the_rest(&c);
    read_faults(&c, copies);
    assert_int_equal(copies[0], 1);
    assert_int_equal(copies[1], 1);
    close_faults(&c);
}

static void a_killed_relay_announces_a_dead_letter_again_under_the_same_id(void **state)
{
    fault_case c = {.s = *state};
    int copies[2] = {0};
    open_faults(&c);
    assert_int_equal(process_run(publish_and_die, &c), PROCESS_KILLED + SIGKILL);
    assert_int_equal(unsent(c.s), 2);
    end_leases(c.s);
    relay_the_rest(&c);
    read_faults(&c, copies);
    assert_int_equal(copies[0], 2);
    assert_int_equal(copies[1], 2);
    close_faults(&c);
}

/* --- several routes --------------------------------------------------------------------------- */

typedef struct route_work {
    const service_case *s;
    const char *name;
    unsigned failures; /* so many runs fail first */
    unsigned runs;
} route_work;

static semel_status do_route(semel_unit *unit, const semel_message *message, void *context,
                             semel_error *err)
{
    route_work *w = context;
    (void)message;
    w->runs++;
    semel_status status = effect_write(&w->s->effect, unit, w->name, 0, err);
    if (!status && w->runs <= w->failures)
        status = semel_fail(err, SEMEL_EHANDLER, "%s fails", w->name);
    return status;
}

enum { ROUTES = 3 };

/* One message for inboxes of the same names as their work. */
static void run_routes(service_case *s, route_work works[ROUTES], uint32_t batch,
                       int64_t letters_expected, int64_t effects_expected)
{
    static const char *const patterns[ROUTES] = {"order.*", "*", "order.paid"};
    semel_consumer_options options = brisk;
    semel_inbox *inboxes[ROUTES];
    semel_route routes[ROUTES];
    service v;
    options.size = sizeof options;
    options.batch = batch;
    service_case_publish(s, "g0");
    service_open_store(&v, s, NULL);
    OK(semel_transport_open(&v.transport, s->kit.url, NULL, &last_error));
    for (size_t i = 0; i < ROUTES; i++) {
        semel_inbox_options inbox = {.size = sizeof inbox, .attempts_max = ATTEMPTS};
        OK(semel_inbox_open(&inboxes[i], v.store, works[i].name, &inbox, &last_error));
        routes[i] = (semel_route){patterns[i], inboxes[i], do_route, &works[i]};
    }
    OK(semel_consumer_open(&v.consumer, v.transport, routes, ROUTES, &options, &last_error));
    STEP_UNTIL(&v, dead_letters(s) == letters_expected && effects(s) == effects_expected);
    expect_empty_queue(s);
    semel_consumer_close(v.consumer);
    v.consumer = NULL;
    for (size_t i = 0; i < ROUTES; i++)
        semel_inbox_close(inboxes[i]);
    service_close(&v);
}

static void a_route_that_fails_comes_again_and_the_others_are_done_once(void **state)
{
    service_case *s = *state;
    route_work works[ROUTES] = {
        {s, "stock", ATTEMPTS - 1, 0}, {s, "audit", 0, 0}, {s, "mail", 1, 0}};
    run_routes(s, works, 1, 0, ROUTES);
    assert_int_equal(works[0].runs, ATTEMPTS);
    assert_int_equal(works[1].runs, 1);
    assert_int_equal(works[2].runs, 2);
    expect_effects(s, "stock audit mail");
}

static void a_route_that_fails_for_good_is_a_dead_letter_of_its_own(void **state)
{
    service_case *s = *state;
    route_work works[ROUTES] = {{s, "stock", 0, 0}, {s, "audit", 1000, 0}, {s, "mail", 0, 0}};
    run_routes(s, works, 3, 1, ROUTES - 1);
    assert_int_equal(works[1].runs, ATTEMPTS);
    letters found = read_letters(s);
    assert_string_equal(found.all[0].name, "audit");
    assert_string_equal(found.all[0].error, "audit fails");
    expect_effects(s, "stock mail");
}

#define IN(function, on, kind)                              \
    {                                                       \
#function ", " on, function, NULL, NULL, &(variant) \
        {                                                   \
            kind, NULL                                      \
        }                                                   \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SQLITE(what_fails_is_tried_again_after_a_growing_pause_and_overtaken, QUORUM),
        ON_POSTGRES(what_fails_is_tried_again_after_a_growing_pause_and_overtaken, CLASSIC),
        ON_SQLITE(what_fails_does_not_go_back_to_the_queue, CLASSIC),
        ON_POSTGRES(what_fails_does_not_go_back_to_the_queue, QUORUM),
        IN(what_fails_uses_up_no_delivery_limit, "sqlite", (server_kind)0),
        IN(what_fails_uses_up_no_delivery_limit, "postgres", SERVER_POSTGRES),
        IN(what_dies_reaches_the_dead_letter_exchange_once, "sqlite", (server_kind)0),
        IN(what_dies_reaches_the_dead_letter_exchange_once, "postgres", SERVER_POSTGRES),
        ON_SQLITE(every_dead_letter_is_announced_once, CLASSIC),
        ON_POSTGRES(every_dead_letter_is_announced_once, CLASSIC),
        ON_SQLITE(a_killed_relay_announces_a_dead_letter_again_under_the_same_id, CLASSIC),
        ON_POSTGRES(a_killed_relay_announces_a_dead_letter_again_under_the_same_id, CLASSIC),
        ON_SQLITE(a_route_that_fails_comes_again_and_the_others_are_done_once, CLASSIC),
        ON_POSTGRES(a_route_that_fails_comes_again_and_the_others_are_done_once, QUORUM),
        ON_SQLITE(a_route_that_fails_for_good_is_a_dead_letter_of_its_own, QUORUM),
        ON_POSTGRES(a_route_that_fails_for_good_is_a_dead_letter_of_its_own, CLASSIC),
    };
    return cmocka_run_group_tests_name("rabbitmq and stores: failing", tests, NULL, NULL);
}
