/* Messages of a client that is not ours (pika), through inboxes: known by their message-id, routed
 * by their routing key where they have no type, and each policy for those without an id does what
 * it says. And a handler that takes longer than the broker's patience. */
#include "support/servers/proxy.h"
#include "support/servers/rabbitmq/rabbitmq_servers_kit.h"

enum { RUNS_ROOM = 8 };

typedef struct seen {
    const service_case *s;
    unsigned runs;
    char bodies[RUNS_ROOM][16], types[RUNS_ROOM][32], topics[RUNS_ROOM][32];
} seen;

static void copy_text(char *out, size_t room, const char *text)
{
    (void)snprintf(out, room, "%s", text ? text : "-");
}

static semel_status look_at(semel_unit *unit, const semel_message *message, void *context,
                            semel_error *err)
{
    seen *all = context;
    unsigned at = all->runs++ % RUNS_ROOM;
    (void)snprintf(all->bodies[at], sizeof all->bodies[at], "%.*s", (int)message->body.len,
                   (const char *)message->body.data);
    copy_text(all->types[at], sizeof all->types[at], message->type);
    copy_text(all->topics[at], sizeof all->topics[at], message->topic);
    return effect_write(&all->s->effect, unit, all->bodies[at], 0, err);
}

/* Lines of publish(key, body, properties...) by pika. */
static void publish_by_pika(const service_case *s, const char *lines)
{
    char script[KIT_COMMAND / 2], said[KIT_SAID];
    int len = snprintf(script, sizeof script,
                       "channel.confirm_delivery()\n"
                       "def publish(key, body, **properties):\n"
                       "    channel.basic_publish(queue, key, body,"
                       " pika.BasicProperties(**properties), mandatory=True)\n%s",
                       lines);
    assert_in_range(len, 1, (int)sizeof script - 1);
    kit_pika(said, &s->kit, script);
}

/* By one route of this pattern, until `settled` are. */
static void consume(service_case *s, seen *all, const char *pattern, semel_inbox_options options,
                    size_t settled)
{
    semel_consumer_options consumer = {.size = sizeof consumer};
    semel_route route = {pattern, NULL, look_at, all};
    size_t now = 0, sum = 0;
    service v;
    all->s = s;
    options.size = sizeof options;
    service_open_store(&v, s, NULL);
    OK(semel_inbox_open(&v.inbox, v.store, "stock", &options, &last_error));
    OK(semel_transport_open(&v.transport, s->kit.url, NULL, &last_error));
    route.inbox = v.inbox;
    OK(semel_consumer_open(&v.consumer, v.transport, &route, 1, &consumer, &last_error));
    for (int64_t until = process_now_ms() + KIT_WAIT_MS; sum < settled; sum += now) {
        assert_true(process_now_ms() < until);
        OK(semel_consumer_step(&now, v.consumer, 100, &last_error));
    }
    service_close(&v);
    assert_int_equal(sum, settled);
    EVENTUALLY(broker_ready(&s->kit.broker, s->kit.queue) == 0);
}

/* --- with an id ------------------------------------------------------------------------------- */

static void a_foreign_message_is_known_by_its_message_id(void **state)
{
    service_case *s = *state;
    seen all = {0};
    publish_by_pika(s, "publish(\"orders\", \"one\", message_id=\"m1\", type=\"order.paid\")\n"
                       "publish(\"orders\", \"two\", message_id=\"m2\", type=\"order.paid\")\n"
                       "publish(\"orders\", \"one\", message_id=\"m1\", type=\"order.paid\")\n");
    consume(s, &all, "order.*", (semel_inbox_options){0}, 3);
    assert_int_equal(all.runs, 2);
    expect_effects(s, "one two");
    assert_string_equal(all.types[0], "order.paid");
    publish_by_pika(s, "publish(\"orders\", \"two\", message_id=\"m2\", type=\"order.paid\")\n");
    consume(s, &all, "order.*", (semel_inbox_options){0}, 1);
    assert_int_equal(all.runs, 2);
    assert_int_equal(dead_letters(s), 0);
}

static void without_a_type_the_routing_key_decides(void **state)
{
    service_case *s = *state;
    seen all = {0};
    publish_by_pika(s, "publish(\"order.eu.paid\", \"one\", message_id=\"m1\")\n"
                       "publish(\"invoice.eu\", \"two\", message_id=\"m2\")\n"
                       "publish(\"invoice.eu\", \"three\", message_id=\"m3\", type=\"order.x\")\n");
    consume(s, &all, "order.*", (semel_inbox_options){0}, 3);
    expect_effects(s, "one three");
    assert_string_equal(all.topics[0], "order.eu.paid");
    assert_string_equal(all.types[0], "-");
    letters found = read_letters(s);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.all[0].id, "m2");
    assert_string_equal(found.all[0].name, "unrouted");
    assert_string_equal(found.all[0].error,
                        "no route fits the topic \"invoice.eu\"; there are routes for \"order.*\"");
}

/* --- without ---------------------------------------------------------------------------------- */

static void publish_without_ids(service_case *s)
{
    publish_by_pika(s, "publish(\"orders\", \"one\", type=\"order.paid\")\n"
                       "publish(\"orders\", \"two\", type=\"order.paid\")\n"
                       "publish(\"orders\", \"one\", type=\"order.paid\")\n"
                       "publish(\"orders\", \"three\", type=\"order.paid\", message_id=\"m3\")\n");
}

static void what_has_no_id_is_refused_and_kept(void **state)
{
    service_case *s = *state;
    seen all = {0};
    publish_without_ids(s);
    consume(s, &all, "*", (semel_inbox_options){.on_missing_key = SEMEL_MISSING_KEY_REJECT}, 4);
    expect_effects(s, "three");
    letters found = read_letters(s);
    assert_int_equal(found.count, 2); /* the two that are the same in all are one letter */
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(found.all[i].id, "");
        assert_string_equal(found.all[i].name, "stock");
        assert_string_equal(found.all[i].error, "refused by the inbox: missing key");
    }
}

static void what_has_no_id_is_handled_each_time_if_asked_for(void **state)
{
    service_case *s = *state;
    seen all = {0};
    publish_without_ids(s);
    consume(s, &all, "*", (semel_inbox_options){.on_missing_key = SEMEL_MISSING_KEY_PROCESS}, 4);
    assert_int_equal(all.runs, 4);
    assert_int_equal(effects_of(s, "one"), 2);
    assert_int_equal(effects_of(s, "two"), 1);
    assert_int_equal(effects_of(s, "three"), 1);
    assert_int_equal(dead_letters(s), 0);
}

static void what_has_no_id_is_known_by_its_content_if_asked_for(void **state)
{
    service_case *s = *state;
    seen all = {0};
    publish_without_ids(s);
    publish_by_pika(s, "publish(\"orders\", \"one\", type=\"order.sent\")\n");
    consume(s, &all, "*", (semel_inbox_options){.on_missing_key = SEMEL_MISSING_KEY_DIGEST}, 5);
    assert_int_equal(all.runs, 4);
    assert_int_equal(effects_of(s, "one"), 2); /* of another type it is another message */
    assert_int_equal(effects_of(s, "two"), 1);
    assert_int_equal(dead_letters(s), 0);
}

/* --- slow ------------------------------------------------------------------------------------- */

/* Two of them, each in a transaction of its own store: together longer than three heartbeats, which
 * is when the broker gives up at the latest. It does so after two at the earliest, and that is
 * longer than a busy machine may stop us. */
static semel_status dawdle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    enum { SLOW_MS = 9100 };
    semel_status status = service_case_handle(unit, message, context, err);
    for (int64_t until = process_now_ms() + SLOW_MS; process_now_ms() < until;)
        process_nap();
    return status;
}

static void a_slow_handler_loses_neither_connection_nor_delivery(void **state)
{
    service_case *s = *state, other = {.tally = s->tally};
    char through[SERVER_URL_ROOM];
    semel_inbox *second;
    semel_store *file;
    size_t settled = 0;
    service v;
    service_case_open_store(&other, NULL);
    service_case_publish(s, "g0");
    proxy *between = proxy_open(s->kit.url);
    service_open_store(&v, s, NULL);
    OK(semel_inbox_open(&v.inbox, v.store, "stock", NULL, &last_error));
    OK(semel_store_open(&file, other.place.url, NULL, &last_error));
    OK(semel_inbox_open(&second, file, "stock", NULL, &last_error));
    OK(semel_transport_open(&v.transport, proxy_url(through, between, s->kit.url), NULL,
                            &last_error));
    semel_route routes[] = {{"*", v.inbox, dawdle, s}, {"*", second, dawdle, &other}};
    OK(semel_consumer_open(&v.consumer, v.transport, routes, 2, NULL, &last_error));
    for (int64_t until = process_now_ms() + KIT_WAIT_MS; !settled;) {
        assert_true(process_now_ms() < until);
        OK(semel_consumer_step(&settled, v.consumer, 1000, &last_error));
    }
    assert_int_equal(runs_of(s, "g0"), 2);
    assert_int_equal(proxy_count(between).connections, 1);
    expect_empty_queue(s);
    semel_consumer_close(v.consumer);
    v.consumer = NULL;
    semel_inbox_close(second);
    semel_store_close(file);
    service_close(&v);
    proxy_close(between);
    expect_effects(s, "g0");
    expect_effects(&other, "g0");
    store_place_close(&other.place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SQLITE(a_foreign_message_is_known_by_its_message_id, QUORUM),
        ON_POSTGRES(a_foreign_message_is_known_by_its_message_id, CLASSIC),
        ON_SQLITE(without_a_type_the_routing_key_decides, CLASSIC),
        ON_POSTGRES(without_a_type_the_routing_key_decides, QUORUM),
        ON_SQLITE(what_has_no_id_is_refused_and_kept, QUORUM),
        ON_POSTGRES(what_has_no_id_is_refused_and_kept, CLASSIC),
        ON_SQLITE(what_has_no_id_is_handled_each_time_if_asked_for, CLASSIC),
        ON_POSTGRES(what_has_no_id_is_handled_each_time_if_asked_for, QUORUM),
        ON_SQLITE(what_has_no_id_is_known_by_its_content_if_asked_for, QUORUM),
        ON_POSTGRES(what_has_no_id_is_known_by_its_content_if_asked_for, CLASSIC),
        ON_POSTGRES(a_slow_handler_loses_neither_connection_nor_delivery, QUORUM "&heartbeat=6"),
    };
    return cmocka_run_group_tests_name("rabbitmq and stores: foreign messages", tests, NULL, NULL);
}
