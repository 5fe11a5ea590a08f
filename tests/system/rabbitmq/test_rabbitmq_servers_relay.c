/* The relay between a real store and a real broker. Killed at each of its points it sends again
 * what may not have arrived, under the same id and in order; what no queue is bound for waits for
 * its queue, and an exchange that is gone is waited for. */
#include "support/servers/rabbitmq/rabbitmq_servers_kit.h"

enum { POLL_MS = 20 };

static const semel_relay_options patient = {
    .batch = 2, .poll_ms = POLL_MS, .backoff_ms = 20, .backoff_max_ms = 100};

/* Those that end in x have a topic of their own. */
static void send_to_outbox(const service_case *s, const char *ids)
{
    char id[ID_ROOM], group[2];
    service v;
    service_open_store(&v, s, NULL);
    for (int read; sscanf(ids, "%47s%n", id, &read) == 1; ids += read) {
        semel_message message = text_message(id, id);
        (void)snprintf(group, sizeof group, "%.1s", id);
        message.group = group;
        message.topic = strchr(id, 'x') ? "late" : "orders";
        if (id[0] == 'n') /* it has neither: the store gives it an id */
            message.id = semel_str(message.group = NULL);
        OK(semel_outbox_send(v.outbox, &message, &last_error));
    }
    service_close(&v);
}

/* --- killed ----------------------------------------------------------------------------------- */

typedef struct lethal_relay {
    const service_case *s;
    const char *point;
} lethal_relay;

static int relay_and_die(void *context)
{
    const lethal_relay *l = context;
    semel_seam lethal = lethal_at(l->point);
    service v;
    size_t sent;
    service_open_relay(&v, l->s, l->s->kit.queue, patient, &lethal);
    for (int64_t until = process_now_ms() + KIT_WAIT_MS; process_now_ms() < until;)
        PROCESS_REQUIRE_OK(semel_relay_step(&sent, v.relay, POLL_MS, &v.err), &v.err);
    return PROCESS_OK;
}

static void relay_all(const service_case *s)
{
    service v;
    service_open_relay(&v, s, s->kit.queue, patient, NULL);
    STEP_UNTIL(&v, unsent(s) == 0);
    service_close(&v);
}

/* What arrived, as "body=message-id " for each, in its order; and whether something came twice. */
typedef struct arrivals {
    char bodies[64][8], ids[64][ID_ROOM];
    size_t count;
} arrivals;

static arrivals take_arrivals(const service_case *s)
{
    arrivals all = {.count = 0};
    broker_message message;
    while (all.count < 64 && broker_get(&message, &s->kit.broker, s->kit.queue)) {
        amqp_bytes_t body = message.message.body, id = message.message.properties.message_id;
        (void)snprintf(all.bodies[all.count], sizeof all.bodies[0], "%.*s", (int)body.len,
                       (const char *)body.bytes);
        (void)snprintf(all.ids[all.count++], sizeof all.ids[0], "%.*s", (int)id.len,
                       (const char *)id.bytes);
        broker_message_free(&message);
    }
    return all;
}

/* Where it first arrived; -1: never. Every copy has the same id, which is its own if it had one. */
static int first_arrival(const arrivals *all, const char *body)
{
    int first = -1;
    for (size_t i = 0; i < all->count; i++) {
        if (strcmp(all->bodies[i], body) != 0)
            continue;
        first = first < 0 ? (int)i : first;
        assert_string_equal(all->ids[i], all->ids[first]);
    }
    if (first >= 0 && body[0] != 'n')
        assert_string_equal(all->ids[first], body);
    return first;
}

/* Those of one letter come in the order of their numbers. */
static size_t check_arrivals(const arrivals *all, const char *ids)
{
    char body[ID_ROOM];
    int last['z' + 1];
    size_t expected = 0;
    memset(last, -1, sizeof last);
    for (int read; sscanf(ids, "%47s%n", body, &read) == 1; ids += read, expected++) {
        int at = first_arrival(all, body);
        assert_true(at >= 0);
        if (body[0] != 'n')
            assert_true(at > last[(unsigned char)body[0]]);
        last[(unsigned char)body[0]] = at;
    }
    return expected;
}

#define MESSAGES "a1 b1 n1 a2 a3 c1 n2 b2 a4 c2 c3 n3 b3 a5"

static void a_relay_killed_anywhere_sends_all_in_order_under_the_same_ids(void **state)
{
    static const char *const points[] = {"relay.leased", "relay.taken", "relay.published",
                                         "relay.settled", "relay.done"};
    const service_case *s = *state;
    send_to_outbox(s, MESSAGES);
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        lethal_relay l = {s, points[i]};
        assert_int_equal(process_run(relay_and_die, &l), PROCESS_KILLED + SIGKILL);
        assert_true(unsent(s) > 0);
        end_leases(s);
    }
    relay_all(s);
    arrivals all = take_arrivals(s);
    size_t expected = check_arrivals(&all, MESSAGES);
    for (size_t i = 0; i < all.count; i++) /* and nothing that was not sent */
        assert_non_null(strstr(MESSAGES, all.bodies[i]));
    assert_true(all.count > expected); /* two of the kills came after the broker had it */
    assert_true(all.count <= expected + 2 * patient.batch);
    assert_int_equal(dead_letters(s), 0);
}

/* --- unroutable ------------------------------------------------------------------------------- */

/* The service_case's own queue is bound to everything: this exchange has none yet. */
static void make_lonely(const service_case *s, char exchange[BROKER_NAME_ROOM])
{
    broker_name(exchange);
    broker_make_exchange(&s->kit.broker, exchange, "topic");
}

static uint64_t failed_sends(service *v)
{
    semel_counters counters;
    OK(semel_store_counters(&counters, sizeof counters, v->store, &last_error));
    return counters.send_failed;
}

static void what_is_unroutable_waits_for_its_queue_and_holds_up_its_group_only(void **state)
{
    const service_case *s = *state;
    char exchange[BROKER_NAME_ROOM];
    service v;
    make_lonely(s, exchange);
    broker_bind(&s->kit.broker, s->kit.queue, exchange, "orders");
    send_to_outbox(s, "a1x a2 b1 a3 c1x b2");
    service_open_relay(&v, s, exchange, patient, NULL);
    STEP_UNTIL(&v, failed_sends(&v) >= 12 && unsent(s) <= 4);
    arrivals all = take_arrivals(s);
    assert_int_equal(check_arrivals(&all, "b1 b2"), all.count);
    assert_int_equal(unsent(s), 4);
    assert_int_equal(dead_letters(s), 0);
    broker_bind(&s->kit.broker, s->kit.queue, exchange, "late");
    STEP_UNTIL(&v, unsent(s) == 0);
    all = take_arrivals(s);
    assert_int_equal(check_arrivals(&all, "a1x a2 a3 c1x"), all.count);
    service_close(&v);
    broker_delete_exchange(&s->kit.broker, exchange);
}

static void what_is_unroutable_is_a_dead_letter_if_asked_for(void **state)
{
    const service_case *s = *state;
    char exchange[BROKER_NAME_ROOM];
    semel_relay_options strict = patient;
    service v;
    strict.on_unroutable = SEMEL_UNROUTABLE_DEAD;
    strict.attempts_max = 3;
    make_lonely(s, exchange);
    send_to_outbox(s, "a1");
    service_open_relay(&v, s, exchange, strict, NULL);
    STEP_UNTIL(&v, unsent(s) == 0);
    assert_int_equal(failed_sends(&v), 3);
    service_close(&v);
    letters found = read_letters(s);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.all[0].id, "a1");
    assert_string_equal(found.all[0].name, "out");
    assert_non_null(strstr(found.all[0].error, "no queue was bound for topic \"orders\""));
    assert_int_equal(found.all[0].attempts, 3);
    assert_int_equal(take_arrivals(s).count, 0);
    broker_delete_exchange(&s->kit.broker, exchange);
}

/* --- the exchange is deleted ------------------------------------------------------------------ */

/* Steps; what it says must be nothing, or something that may pass. */
static int step_troubled(service *v)
{
    size_t sent;
    check_forget();
    if (!semel_relay_step(&sent, v->relay, POLL_MS, &last_error))
        return 0;
    assert_true(last_error.retryable);
    return 1;
}

static void an_exchange_that_is_deleted_is_waited_for(void **state)
{
    const service_case *s = *state;
    char exchange[BROKER_NAME_ROOM];
    unsigned troubled = 0;
    service v;
    make_lonely(s, exchange);
    broker_bind(&s->kit.broker, s->kit.queue, exchange, "#");
    service_open_relay(&v, s, exchange, patient, NULL);
    send_to_outbox(s, "a1 b1");
    STEP_UNTIL(&v, unsent(s) == 0);
    broker_delete_exchange(&s->kit.broker, exchange);
    send_to_outbox(s, "a2 b2 a3");
    EVENTUALLY((troubled += (unsigned)step_troubled(&v)) >= 3);
    SAYS(exchange);
    assert_int_equal(unsent(s), 3);
    broker_make_exchange(&s->kit.broker, exchange, "topic");
    broker_bind(&s->kit.broker, s->kit.queue, exchange, "#");
    EVENTUALLY(step_troubled(&v) == 0 && unsent(s) == 0);
    arrivals all = take_arrivals(s);
    assert_int_equal(check_arrivals(&all, "a1 b1 a2 b2 a3"), all.count);
    assert_int_equal(dead_letters(s), 0);
    service_close(&v);
    broker_delete_exchange(&s->kit.broker, exchange);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SQLITE(a_relay_killed_anywhere_sends_all_in_order_under_the_same_ids, QUORUM),
        ON_POSTGRES(a_relay_killed_anywhere_sends_all_in_order_under_the_same_ids, CLASSIC),
        ON_MARIADB(a_relay_killed_anywhere_sends_all_in_order_under_the_same_ids, QUORUM),
        ON_SQLITE(what_is_unroutable_waits_for_its_queue_and_holds_up_its_group_only, QUORUM),
        ON_POSTGRES(what_is_unroutable_waits_for_its_queue_and_holds_up_its_group_only, CLASSIC),
        ON_SQLITE(what_is_unroutable_is_a_dead_letter_if_asked_for, CLASSIC),
        ON_POSTGRES(what_is_unroutable_is_a_dead_letter_if_asked_for, CLASSIC),
        ON_SQLITE(an_exchange_that_is_deleted_is_waited_for, QUORUM),
        ON_POSTGRES(an_exchange_that_is_deleted_is_waited_for, CLASSIC),
    };
    return cmocka_run_group_tests_name("rabbitmq and stores: relay", tests, NULL, NULL);
}
