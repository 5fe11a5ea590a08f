/* Opening and closing pipelines, finding what is in them, and what they say about themselves. */
#include "pipeline_kit.h"
#include "support/fake/stub_transport.h"

#include "base/mem.h"

#include <semel/sys/transport.h>
#include <semel/test.h>
#include <stdlib.h>

#define STORE(c)                                 \
    (const semel_pipeline_store[])               \
    {                                            \
        {.name = "shop", .url = (c)->place.url}, \
        {                                        \
            0                                    \
        }                                        \
    }

static const semel_consumer_options busy = {
    .size = sizeof busy, .workers = 4, .batch = 10, .order = SEMEL_ORDER_GROUP};
static const semel_inbox_options claim = {.size = sizeof claim,
                                          .mode = SEMEL_CLAIM,
                                          .key = "'mail:'+json:/order",
                                          .retention_ms = SEMEL_RETENTION_FOREVER};
static const semel_inbox_options brief = {.size = sizeof brief, .retention_ms = 5400000};
static const semel_relay_options careful = {.size = sizeof careful, .preset = SEMEL_RELAY_CAREFUL};
static const char *const types[] = {"order.*", "bid.placed", NULL};

static const semel_pipeline_queue queues[] = {
    {.name = "orders", .consumer = &busy}, {.name = "events", .url = "memory:?ack_ms=1000"}, {0}};
static const semel_pipeline_inbox inboxes[] = {
    {.name = "stock", .from = "orders", .types = types, .handler = kit_effect, .faults = "faults"},
    {.name = "mail", .from = "orders", .handler = kit_effect, .options = &claim},
    {.name = "cache", .from = "orders", .types = types, .handler = kit_effect, .unkeyed = 1},
    {.name = "audit", .handler = kit_effect, .options = &brief},
    {.name = "direct"},
    {0}};
static const semel_pipeline_outbox outboxes[] = {
    {.name = "placed", .to = "orders", .relays = 2, .options = &careful},
    {.name = "handed", .inbox = "audit"},
    {.name = "news", .to = "events"},
    {.name = "faults"},
    {0}};

static semel_pipeline_spec whole(const semel_pipeline_store *stores)
{
    return (semel_pipeline_spec){.size = sizeof(semel_pipeline_spec),
                                 .stores = stores,
                                 .queues = queues,
                                 .inboxes = inboxes,
                                 .outboxes = outboxes};
}

/* --- finding and describing ------------------------------------------------------------------- */

static void what_is_open_is_found_by_its_name(void **state)
{
    pipeline_case *c = *state;
    semel_pipeline_spec spec = whole(STORE(c));
    kit_open(c, &spec);
    const semel_pipeline *p = c->pipeline;
    assert_non_null(semel_pipeline_find_store(p, "shop"));
    assert_non_null(semel_pipeline_find_queue(p, "orders"));
    assert_non_null(semel_pipeline_find_inbox(p, "direct"));
    assert_non_null(semel_pipeline_find_outbox(p, "faults"));
    assert_non_null(semel_pipeline_find_consumer(p, "orders"));
    assert_null(semel_pipeline_find_store(p, "orders"));
    assert_null(semel_pipeline_find_queue(p, "shop"));
    assert_null(semel_pipeline_find_inbox(p, "cache"));
    assert_null(semel_pipeline_find_outbox(p, NULL));
    assert_null(semel_pipeline_find_consumer(p, "events"));
    kit_close(c);
}

static void check_lines(const char *text, const char *const lines[])
{
    for (size_t i = 0; lines[i]; i++) {
        const char *end = strchr(text, '\n');
        assert_non_null(end);
        size_t len = (size_t)(end - text);
        if (strlen(lines[i]) != len || strncmp(text, lines[i], len) != 0)
            fail_msg("line %zu is\n%.*s\nand not\n%s", i + 1, (int)len, text, lines[i]);
        text = end + 1;
    }
    assert_string_equal(text, "");
}

static void a_pipeline_is_described_in_columns(void **state)
{
    pipeline_case *c = *state;
    const semel_pipeline_store stores[] = {{.name = "shop", .url = "memory:"}, {0}};
    semel_pipeline_spec spec = whole(stores);
    char text[4096], part[100];
    kit_open(c, &spec);
    size_t len = semel_pipeline_describe(text, sizeof text, c->pipeline);
    assert_int_equal(len, strlen(text));
    /* clang-format off */
    static const char *const lines[] = {
        "store    shop              memory:                            "
            "lost when the process ends",
        "queue    orders            in store shop                      "
            "4 workers, batches of 10, in order of groups",
        "warning  orders            The queue is in the memory of this process, "
            "and is gone with it.",
        "queue    events            memory:                            "
            "not read here",
        "inbox    orders -> stock   at-least-once                      "
            "transaction, once per id, remembered 7d, faults to faults, types order.* "
            "bid.placed",
        "inbox    orders -> mail    at-least-once                      "
            "claim, once per 'mail:'+json:/order, remembered for ever",
        "inbox    orders -> cache   at-least-once                      "
            "every copy runs the handler, types order.* bid.placed",
        "inbox    handed -> audit   at-least-once                      "
            "transaction, once per id, remembered 90min",
        "inbox    direct            at-least-once                      "
            "transaction, once per id, remembered 7d",
        "outbox   placed -> orders  2 relays, careful",
        "outbox   handed -> audit   1 relay, balanced, local hand-off",
        "outbox   news -> events    1 relay, balanced",
        "outbox   faults            not relayed here",
        NULL};
    /* clang-format on */
    check_lines(text, lines);
    assert_int_equal(semel_pipeline_describe(NULL, 0, c->pipeline), len);
    assert_int_equal(semel_pipeline_describe(part, sizeof part, c->pipeline), len);
    assert_int_equal(strlen(part), sizeof part - 1);
    assert_memory_equal(part, text, sizeof part - 1);
    kit_close(c);
}

/* The stores are named where there are two; the grade is that of queue and inbox. */
static void two_stores_are_told_apart(void **state)
{
    pipeline_case *c = *state;
    char url[SERVER_URL_ROOM + 64], text[4096];
    (void)snprintf(url, sizeof url, "store:%s?cache_kib=4096#far?lease_ms=9000", c->place.url);
    const semel_pipeline_store stores[] = {
        {.name = "shop", .url = c->place.url}, {.name = "other", .url = "memory:"}, {0}};
    const semel_pipeline_queue two[] = {
        {.name = "near", .store = "other"}, {.name = "far", .url = url}, {0}};
    const semel_pipeline_inbox readers[] = {
        {.name = "stock", .from = "far", .handler = kit_effect},
        {.name = "cache", .from = "near", .store = "other", .handler = kit_effect},
        {0}};
    const semel_pipeline_outbox sent[] = {{.name = "out", .store = "other", .to = "far"}, {0}};
    semel_pipeline_spec spec = {
        .size = sizeof spec, .stores = stores, .queues = two, .inboxes = readers, .outboxes = sent};
    kit_open(c, &spec);
    semel_pipeline_describe(text, sizeof text, c->pipeline);
    static const char *const parts[] = {"inbox    far -> stock   exactly-once effects",
                                        "remembered 7d, in store shop\n",
                                        "remembered 7d, in store other\n",
                                        "outbox   out -> far     1 relay, balanced",
                                        "  in store other\n",
                                        "#far  ",
                                        "in store other",
                                        "survives power loss\n",
                                        NULL};
    for (size_t i = 0; parts[i]; i++)
        if (!strstr(text, parts[i]))
            fail_msg("there is no \"%s\" in\n%s", parts[i], text);
    assert_null(strstr(text, "lease_ms"));
    assert_null(strstr(text, "cache_kib"));
    kit_close(c);
}

/* --- what cannot be opened -------------------------------------------------------------------- */

typedef struct draft {
    semel_pipeline_store stores[3];
    semel_pipeline_queue queues[3];
    semel_pipeline_inbox inboxes[4];
    semel_pipeline_outbox outboxes[2];
} draft;

/* What is wrong with it only opening finds out; returns the status. */
static semel_status spoil(draft *d, int number, const char **says)
{
    static const semel_inbox_options by_type = {.size = sizeof by_type, .key = "type"};
    static const semel_inbox_options bad_key = {.size = sizeof bad_key, .key = "json:"};
    static const semel_consumer_options bad_choice = {.size = sizeof bad_choice,
                                                      .on_failure = (semel_on_failure)7};
    static const semel_relay_options huge = {.size = sizeof huge, .batch = SEMEL_BATCH_MAX + 1};
    static const semel_relay_options history = {.size = sizeof history, .keep_sent_ms = 1};
    static const char *const letters[] = {"unrouted", NULL};
    switch (number) {
    case 0:
        d->stores[1].url = "nosql:";
        *says = "store \"other\": \"nosql:\" is not a store";
        return SEMEL_EINVAL;
    case 1:
        d->queues[1].url = "memory:?nothing=1";
        *says = "queue \"mails\": URL: unknown parameter";
        return SEMEL_EINVAL;
    case 2:
        d->inboxes[2].options = &bad_key;
        *says = "inbox \"free\": ";
        return SEMEL_EINVAL;
    case 3:
        d->queues[0].consumer = &bad_choice;
        *says = "queue \"orders\": semel_consumer_options.on_failure: there is no choice 7";
        return SEMEL_EINVAL;
    case 4:
        d->outboxes[0].options = &huge;
        *says = "outbox \"placed\": semel_relay_options.batch is 10001";
        return SEMEL_ELIMIT;
    case 5:
        d->inboxes[0].unkeyed = 1;
        d->inboxes[0].types = letters;
        *says = "queue \"orders\": route 1 has no inbox, and its dead letters would be named";
        return SEMEL_EINVAL;
    case 6:
        d->inboxes[2].store = "other";
        d->inboxes[2].require = SEMEL_GRADE_EFFECTIVELY_ONCE;
        *says = "inbox \"free\": require: its grade is \"at-least-once\", and \"effectively once\"";
        return SEMEL_EUNSUPPORTED;
    case 7:
        d->outboxes[0].store = "other";
        d->outboxes[0].options = &history;
        *says = "outbox \"placed\": ";
        return SEMEL_EUNSUPPORTED;
    default: /* "stock" is defined by its id, since one of the first of these */
        d->inboxes[0].options = &by_type;
        *says = "inbox \"stock\": inbox \"stock\" is defined as";
        return SEMEL_EINVAL;
    }
}

/* Whatever was open by then is closed again: the address sanitizer sees to that. */
static void what_cannot_be_opened_is_named_and_the_rest_is_closed(void **state)
{
    pipeline_case *c = *state;
    for (int i = 0; i < 9; i++) {
        draft d = {
            .stores = {{.name = "shop", .url = c->place.url}, {.name = "other", .url = "memory:"}},
            .queues = {{.name = "orders"}, {.name = "mails", .url = "memory:"}},
            .inboxes = {{.name = "stock", .from = "orders", .handler = kit_effect},
                        {.name = "mail", .from = "mails", .handler = kit_effect},
                        {.name = "free"}},
            .outboxes = {{.name = "placed", .to = "orders"}}};
        semel_pipeline_spec spec = {.size = sizeof spec,
                                    .stores = d.stores,
                                    .queues = d.queues,
                                    .inboxes = d.inboxes,
                                    .outboxes = d.outboxes};
        const char *says = NULL;
        semel_pipeline *none = NULL;
        semel_status status = spoil(&d, i, &says);
        OK(semel_pipeline_check(&spec, &last_error));
        FAILS(status, semel_pipeline_open(&none, &spec, &last_error));
        SAYS(says);
        assert_null(none);
    }
}

static void the_required_grade_may_be_reached(void **state)
{
    pipeline_case *c = *state;
    const semel_pipeline_inbox in[] = {{.name = "stock",
                                        .from = "orders",
                                        .handler = kit_effect,
                                        .require = SEMEL_GRADE_EXACTLY_ONCE_EFFECTS},
                                       {0}};
    const semel_pipeline_queue one[] = {{.name = "orders"}, {0}};
    semel_pipeline_spec spec = {
        .size = sizeof spec, .stores = STORE(c), .queues = one, .inboxes = in};
    kit_open(c, &spec);
    kit_close(c);
}

static void tables_are_left_alone_if_asked(void **state)
{
    pipeline_case *c = *state;
    const semel_pipeline_store kept[] = {{.name = "shop", .url = c->place.url, .keep_schema = 1},
                                         {0}};
    const semel_pipeline_outbox out[] = {{.name = "placed"}, {0}};
    semel_pipeline_spec spec = {.size = sizeof spec, .stores = kept, .outboxes = out};
    semel_pipeline *none = NULL;
    FAILS(SEMEL_ESCHEMA, semel_pipeline_open(&none, &spec, &last_error));
    SAYS("outbox \"placed\": ");
    spec.stores = STORE(c);
    kit_open(c, &spec);
    kit_close(c);
    spec.stores = kept;
    kit_open(c, &spec);
    kit_close(c);
}

/* --- what is open already --------------------------------------------------------------------- */

static void what_was_open_before_is_used_and_stays_open(void **state)
{
    pipeline_case *c = *state;
    semel_store *store;
    semel_transport *recorder;
    semel_message message = {.size = sizeof message, .id = semel_str("m")};
    OK(semel_store_open(&store, c->place.url, NULL, &last_error));
    OK(semel_test_recorder_open(&recorder, &last_error));
    const semel_pipeline_store stores[] = {{.name = "shop", .opened = store}, {0}};
    const semel_pipeline_queue q[] = {{.name = "events", .opened = recorder}, {0}};
    const semel_pipeline_outbox out[] = {{.name = "news", .to = "events"}, {0}};
    semel_pipeline_spec spec = {
        .size = sizeof spec, .stores = stores, .queues = q, .outboxes = out};
    char text[1024];
    kit_open(c, &spec);
    assert_ptr_equal(semel_pipeline_find_store(c->pipeline, "shop"), store);
    semel_pipeline_describe(text, sizeof text, c->pipeline);
    assert_non_null(strstr(text, "sqlite: (opened before)"));
    OK(semel_outbox_send(semel_pipeline_find_outbox(c->pipeline, "news"), &message, &last_error));
    OK(semel_pipeline_start(c->pipeline, &last_error));
    int64_t deadline = process_now_ms() + KIT_LATE_MS;
    while (semel_test_recorder_count(recorder) < 1 && process_now_ms() < deadline)
        process_nap();
    kit_end(c);
    kit_close(c);
    assert_int_equal(semel_test_recorder_count(recorder), 1);
    int64_t now;
    OK(semel_store_now(&now, store, &last_error));
    semel_transport_close(recorder);
    semel_store_close(store);
}

static semel_status refuse(void *context, semel_publish_result results[],
                           const semel_message *const messages[], size_t count, semel_error *err)
{
    (void)context, (void)results, (void)messages, (void)count;
    return semel_fail(err, SEMEL_ETRANSPORT, "not here");
}

/* A consumer with two workers, two relays, or one of each: all use the one transport. */
static void a_transport_that_threads_may_not_share_has_one_user(void **state)
{
    pipeline_case *c = *state;
    static const semel_consumer_options two = {.size = sizeof two, .workers = 2};
    semel_transport *stub;
    OK(stub_transport_open(&stub, refuse, NULL, &last_error));
    for (int i = 0; i < 5; i++) {
        const semel_pipeline_queue q[] = {
            {.name = "events", .opened = stub, .consumer = i == 1 ? &two : NULL}, {0}};
        const semel_pipeline_inbox in[] = {
            {.name = "stock", .from = "events", .handler = kit_effect}, {0}};
        const semel_pipeline_outbox out[] = {
            {.name = "news", .to = "events", .relays = i == 2 ? 2 : 0}, {0}};
        semel_pipeline_spec spec = {.size = sizeof spec,
                                    .stores = STORE(c),
                                    .queues = q,
                                    .inboxes = i == 2 || i == 4 ? NULL : in,
                                    .outboxes = i == 0 || i == 1 ? NULL : out};
        if (i == 0 || i == 4) {
            kit_open(c, &spec);
            kit_close(c);
            continue;
        }
        semel_pipeline *none = NULL;
        FAILS(SEMEL_EUNSUPPORTED, semel_pipeline_open(&none, &spec, &last_error));
        SAYS("queue \"events\": 2 threads would use this transport, which stub: does not allow");
    }
    semel_transport_close(stub);
}

/* --- health ----------------------------------------------------------------------------------- */

static void add_component(void *context, const char *component, const semel_health_part *part)
{
    char *all = context;
    size_t len = strlen(all);
    (void)snprintf(all + len, 512 - len, "%s is %s\n", component, semel_health_name(part->state));
}

static void the_health_of_each_part_is_told(void **state)
{
    pipeline_case *c = *state;
    semel_pipeline_spec spec = whole(STORE(c));
    semel_health_state health = SEMEL_HEALTH_NOT_ASKED;
    const semel_health_query query = {.size = sizeof query, .deadline_ms = KIT_LATE_MS};
    char all[512] = "";
    kit_open(c, &spec);
    OK(semel_pipeline_health(&health, c->pipeline, &query, add_component, all, &last_error));
    assert_int_equal(health, SEMEL_HEALTH_STOPPED);
    assert_string_equal(all, "store shop is ok\nqueue orders is stopped\noutbox placed is stopped\n"
                             "outbox placed is stopped\noutbox handed is stopped\n"
                             "outbox news is stopped\n");
    OK(semel_pipeline_start(c->pipeline, &last_error));
    int64_t deadline = process_now_ms() + KIT_LATE_MS;
    while (health != SEMEL_HEALTH_OK && process_now_ms() < deadline)
        OK(semel_pipeline_health(&health, c->pipeline, NULL, NULL, NULL, &last_error));
    assert_int_equal(health, SEMEL_HEALTH_OK);
    kit_end(c);
    const semel_health_query sizeless = {.deadline_ms = 1};
    FAILS(SEMEL_EINVAL,
          semel_pipeline_health(&health, c->pipeline, &sizeless, NULL, NULL, &last_error));
    kit_close(c);
}

/* --- out of memory ---------------------------------------------------------------------------- */

/* The nth allocation fails, for every n: nothing is opened, or all is, and starts and stops. */
static void it_opens_and_starts_or_says_that_memory_ran_out(void **state)
{
    enum { MOST = 2000 };
    pipeline_case *c = *state;
    const semel_pipeline_store stores[] = {{.name = "shop", .url = "memory:"}, {0}};
    semel_pipeline_spec spec = whole(stores);
    semel_status status = SEMEL_ENOMEM;
    long nth = 0;
    for (; status && nth < MOST; nth++) {
        semel_error err = {0};
        mem_fail_at(nth + 1);
        status = semel_pipeline_open(&c->pipeline, &spec, &err);
        if (!status)
            status = semel_pipeline_start(c->pipeline, &err);
        mem_fail_at(0);
        if (status) {
            assert_int_equal(status, SEMEL_ENOMEM);
            assert_int_equal(err.status, SEMEL_ENOMEM);
        }
        kit_close(c);
    }
    assert_in_range(nth, 20, MOST - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PIPELINE_TEST(what_is_open_is_found_by_its_name),
        PIPELINE_TEST(a_pipeline_is_described_in_columns),
        PIPELINE_TEST(two_stores_are_told_apart),
        PIPELINE_TEST(what_cannot_be_opened_is_named_and_the_rest_is_closed),
        PIPELINE_TEST(the_required_grade_may_be_reached),
        PIPELINE_TEST(tables_are_left_alone_if_asked),
        PIPELINE_TEST(what_was_open_before_is_used_and_stays_open),
        PIPELINE_TEST(a_transport_that_threads_may_not_share_has_one_user),
        PIPELINE_TEST(the_health_of_each_part_is_told),
        PIPELINE_TEST(it_opens_and_starts_or_says_that_memory_ran_out),
    };
    return cmocka_run_group_tests_name("pipeline: opening", tests, NULL, NULL);
}
