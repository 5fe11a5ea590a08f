/* Running pipelines: what is declared happens, once. */
#include "pipeline_kit.h"

#include <semel/test.h>

#define STORE(c)                                 \
    (const semel_pipeline_store[])               \
    {                                            \
        {.name = "shop", .url = (c)->place.url}, \
        {                                        \
            0                                    \
        }                                        \
    }

static const semel_pipeline_queue one_queue[] = {{.name = "orders"}, {0}};
static const semel_pipeline_outbox one_outbox[] = {{.name = "placed", .to = "orders"}, {0}};
static const semel_pipeline_inbox one_inbox[] = {
    {.name = "stock", .from = "orders", .handler = kit_effect, .context = "stock"}, {0}};

static semel_pipeline_spec simple(const semel_pipeline_store *stores)
{
    return (semel_pipeline_spec){.size = sizeof(semel_pipeline_spec),
                                 .stores = stores,
                                 .queues = one_queue,
                                 .inboxes = one_inbox,
                                 .outboxes = one_outbox};
}

/* --- what is declared happens ----------------------------------------------------------------- */

/* Two handlers, each with its own inbox; of each message two copies. */
static void each_inbox_handles_each_message_once(void **state)
{
    pipeline_case *c = *state;
    const semel_pipeline_inbox inboxes[] = {
        {.name = "stock", .from = "orders", .handler = kit_effect, .context = "stock"},
        {.name = "mail", .from = "orders", .handler = kit_effect, .context = "mail"},
        {0}};
    kit_open(c, &(semel_pipeline_spec){.size = sizeof(semel_pipeline_spec),
                                       .stores = STORE(c),
                                       .queues = one_queue,
                                       .inboxes = inboxes,
                                       .outboxes = one_outbox});
    for (unsigned i = 0; i < 20; i++)
        kit_send(c->pipeline, "placed", "order", "m", i / 2);
    OK(semel_pipeline_start(c->pipeline, &last_error));
    kit_wait_effects(c, 20);
    kit_end(c);
    assert_int_equal(kit_effects(c), 20);
    for (unsigned i = 0; i < 10; i++) {
        char item[KIT_TEXT];
        (void)snprintf(item, sizeof item, "stock:m-%u", i);
        assert_int_equal(kit_times(c, item), 1);
    }
    kit_close(c);
}

static semel_status count_dead(const semel_dead *dead, void *context, semel_error *err)
{
    (void)err;
    (void)snprintf(context, KIT_TEXT, "%s", dead->name);
    return SEMEL_OK;
}

/* A message that fits two of the types runs the handler once; one that fits none is a letter. */
static void an_inbox_may_have_several_types(void **state)
{
    pipeline_case *c = *state;
    static const char *const types[] = {"order.*", "*.placed", NULL};
    char letter[KIT_TEXT] = "";
    const semel_pipeline_inbox inboxes[] = {
        {.name = "stock", .from = "orders", .types = types, .handler = kit_effect, .context = "s"},
        {.name = "end",
         .from = "orders",
         .types = (const char *const[]){"end", NULL},
         .handler = kit_effect,
         .context = "e"},
        {0}};
    kit_open(c, &(semel_pipeline_spec){.size = sizeof(semel_pipeline_spec),
                                       .stores = STORE(c),
                                       .queues = one_queue,
                                       .inboxes = inboxes,
                                       .outboxes = one_outbox});
    kit_send(c->pipeline, "placed", "order.placed", "both", 1);
    kit_send(c->pipeline, "placed", "bid.placed", "one", 1);
    kit_send(c->pipeline, "placed", "invoice.paid", "none", 1);
    kit_send(c->pipeline, "placed", "end", "end", 1);
    OK(semel_pipeline_start(c->pipeline, &last_error));
    kit_wait_effects(c, 3);
    kit_end(c);
    assert_int_equal(kit_times(c, "s:both-1"), 1);
    assert_int_equal(kit_times(c, "s:one-1"), 1);
    assert_int_equal(kit_effects(c), 3);
    OK(semel_dead_list(semel_pipeline_find_store(c->pipeline, "shop"), NULL, count_dead, letter,
                       &last_error));
    assert_string_equal(letter, "unrouted");
    kit_close(c);
}

/* Once for each copy, however many of its types fit. */
static void an_unkeyed_inbox_handles_every_copy(void **state)
{
    pipeline_case *c = *state;
    static const char *const types[] = {"order.*", "*.placed", NULL};
    const semel_pipeline_inbox inboxes[] = {
        {.name = "cache",
         .from = "orders",
         .types = types,
         .handler = kit_effect,
         .context = "c",
         .unkeyed = 1},
        {.name = "stock", .from = "orders", .handler = kit_effect, .context = "s"},
        {0}};
    kit_open(c, &(semel_pipeline_spec){.size = sizeof(semel_pipeline_spec),
                                       .stores = STORE(c),
                                       .queues = one_queue,
                                       .inboxes = inboxes,
                                       .outboxes = one_outbox});
    for (unsigned i = 0; i < 3; i++)
        kit_send(c->pipeline, "placed", "order.placed", "copy", 1);
    OK(semel_pipeline_start(c->pipeline, &last_error));
    kit_wait_effects(c, 4);
    kit_end(c);
    assert_int_equal(kit_times(c, "c:copy-1"), 3);
    assert_int_equal(kit_times(c, "s:copy-1"), 1);
    assert_null(semel_pipeline_find_inbox(c->pipeline, "cache"));
    kit_close(c);
}

/* It has no handle of the outbox, and asks for it. */
static semel_status pass_on(semel_unit *unit, const semel_message *message, void *context,
                            semel_error *err)
{
    semel_message mail = {.size = sizeof mail, .id = message->id, .type = "mail"};
    semel_status status = semel_unit_send(unit, semel_unit_outbox(unit, "none"), &mail, err);
    if (status != SEMEL_EINVAL || semel_unit_outbox(unit, NULL))
        return semel_fail(err, SEMEL_EGIVEUP, "an outbox that is not open was found");
    status = kit_write(unit, context, message, err);
    return status ? status : semel_unit_send(unit, semel_unit_outbox(unit, "mails"), &mail, err);
}

static void a_local_hand_off_receives_what_a_handler_sends(void **state)
{
    pipeline_case *c = *state;
    const semel_pipeline_inbox inboxes[] = {
        {.name = "stock", .from = "orders", .handler = pass_on, .context = "stock"},
        {.name = "mail", .handler = kit_effect, .context = "mail"},
        {0}};
    const semel_pipeline_outbox outboxes[] = {{.name = "placed", .to = "orders", .relays = 3},
                                              {.name = "mails", .inbox = "mail", .relays = 2},
                                              {0}};
    kit_open(c, &(semel_pipeline_spec){.size = sizeof(semel_pipeline_spec),
                                       .stores = STORE(c),
                                       .queues = one_queue,
                                       .inboxes = inboxes,
                                       .outboxes = outboxes});
    OK(semel_pipeline_start(c->pipeline, &last_error));
    for (unsigned i = 0; i < 10; i++)
        kit_send(c->pipeline, "placed", "order", "m", i);
    kit_wait_effects(c, 20);
    kit_end(c);
    assert_int_equal(kit_effects(c), 20);
    kit_close(c);
}

static semel_status give_up(semel_unit *unit, const semel_message *message, void *context,
                            semel_error *err)
{
    (void)unit, (void)message, (void)context;
    return semel_fail(err, SEMEL_EGIVEUP, "never");
}

static semel_status alarm_rings(semel_unit *unit, const semel_message *message, void *context,
                                semel_error *err)
{
    semel_bytes inbox = semel_message_header(message, "semel-inbox");
    semel_message of = {.size = sizeof of, .id = inbox};
    return kit_write(unit, context, &of, err);
}

static void dead_letters_are_announced_in_the_faults_outbox(void **state)
{
    pipeline_case *c = *state;
    const semel_pipeline_inbox inboxes[] = {
        {.name = "stock", .from = "orders", .handler = give_up, .faults = "faults"},
        {.name = "alarm", .handler = alarm_rings, .context = "alarm"},
        {0}};
    const semel_pipeline_outbox outboxes[] = {
        {.name = "placed", .to = "orders"}, {.name = "faults", .inbox = "alarm"}, {0}};
    kit_open(c, &(semel_pipeline_spec){.size = sizeof(semel_pipeline_spec),
                                       .stores = STORE(c),
                                       .queues = one_queue,
                                       .inboxes = inboxes,
                                       .outboxes = outboxes});
    kit_send(c->pipeline, "placed", "order", "m", 1);
    OK(semel_pipeline_start(c->pipeline, &last_error));
    kit_wait_effects(c, 1);
    kit_end(c);
    assert_int_equal(kit_times(c, "alarm:stock"), 1);
    kit_close(c);
}

/* From one database to another, by a queue in the first; one process dies between the two only in
 * theory, so this is about the wiring. */
static void two_stores_are_joined_by_a_queue(void **state)
{
    pipeline_case *c = *state;
    char other[SCRATCH_PATH];
    scratch_sqlite(other, &c->place.directory, "other.db");
    const semel_pipeline_store stores[] = {
        {.name = "far", .url = other}, {.name = "shop", .url = c->place.url}, {0}};
    const semel_pipeline_inbox inboxes[] = {{.name = "stock",
                                             .store = "shop",
                                             .from = "orders",
                                             .handler = pass_on,
                                             .context = "stock"},
                                            {.name = "mail",
                                             .store = "shop",
                                             .from = "mails",
                                             .handler = kit_effect,
                                             .context = "mail"},
                                            {0}};
    const semel_pipeline_queue queues[] = {
        {.name = "orders"}, {.name = "mails", .url = "memory:"}, {0}};
    const semel_pipeline_outbox outboxes[] = {
        {.name = "placed", .to = "orders"}, {.name = "mails", .store = "shop", .to = "mails"}, {0}};
    kit_open(c, &(semel_pipeline_spec){.size = sizeof(semel_pipeline_spec),
                                       .stores = stores,
                                       .queues = queues,
                                       .inboxes = inboxes,
                                       .outboxes = outboxes});
    OK(semel_pipeline_start(c->pipeline, &last_error));
    for (unsigned i = 0; i < 5; i++)
        kit_send(c->pipeline, "placed", "order", "m", i);
    kit_wait_effects(c, 10);
    kit_end(c);
    assert_int_equal(kit_effects(c), 10);
    kit_close(c);
}

/* --- notices and retention -------------------------------------------------------------------- */

typedef struct notices {
    atomic_int began, over;
    char component[KIT_TEXT], text[512]; /* of the last one that began; read after the end */
} notices;

static void note(void *context, const char *component, const semel_error *trouble)
{
    notices *n = context;
    if (trouble) {
        (void)snprintf(n->component, sizeof n->component, "%s", component);
        (void)snprintf(n->text, sizeof n->text, "%s", trouble->text);
    }
    atomic_fetch_add(trouble ? &n->began : &n->over, 1);
}

static void an_outage_is_told_with_the_name_of_what_waits(void **state)
{
    pipeline_case *c = *state;
    static const struct {
        const char *point, *component;
    } cases[] = {{"relay.leased", "outbox placed"}, {"deliver.stored", "queue orders"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        semel_test_seam *seam;
        notices told = {0};
        OK(semel_test_seam_open(&seam, 1, &last_error));
        const semel_store_options options = {.size = sizeof options,
                                             .seam = semel_test_seam_get(seam)};
        const semel_pipeline_store stores[] = {
            {.name = "shop", .url = c->place.url, .options = &options}, {0}};
        semel_pipeline_spec spec = simple(stores);
        spec.notice = note;
        spec.notice_context = &told;
        kit_open(c, &spec);
        kit_send(c->pipeline, "placed", "order", "m", (unsigned)i);
        semel_test_fault(seam, cases[i].point, 1, SEMEL_EUNAVAILABLE);
        OK(semel_pipeline_start(c->pipeline, &last_error));
        kit_wait_flag(&told.over, 1);
        kit_wait_effects(c, (int64_t)i + 1);
        kit_end(c);
        kit_close(c);
        semel_test_seam_close(seam);
        assert_int_equal(atomic_load(&told.began), 1);
        assert_string_equal(told.component, cases[i].component);
        assert_non_null(strstr(told.text, cases[i].point));
    }
}

/* The program receives by itself; the pipeline sweeps. */
static void an_inbox_without_a_loop_is_swept(void **state)
{
    pipeline_case *c = *state;
    semel_test_seam *seam;
    OK(semel_test_seam_open(&seam, 1, &last_error));
    const semel_store_options options = {.size = sizeof options, .seam = semel_test_seam_get(seam)};
    const semel_inbox_options brief = {
        .size = sizeof brief, .retention_ms = 60000, .sweep_every_ms = 60000};
    const semel_pipeline_store stores[] = {
        {.name = "shop", .url = c->place.url, .options = &options}, {0}};
    const semel_pipeline_inbox inboxes[] = {{.name = "free", .options = &brief}, {0}};
    semel_pipeline_spec spec = {.size = sizeof spec, .stores = stores, .inboxes = inboxes};
    semel_message message = {.size = sizeof message, .id = semel_str("m")};
    semel_outcome outcome;
    semel_counters now = {0};
    kit_open(c, &spec);
    semel_inbox *inbox = semel_pipeline_find_inbox(c->pipeline, "free");
    OK(semel_inbox_receive(&outcome, inbox, &message, kit_effect, "free", &last_error));
    OK(semel_pipeline_start(c->pipeline, &last_error));
    int64_t deadline = process_now_ms() + KIT_LATE_MS;
    while (!now.swept && process_now_ms() < deadline) {
        semel_test_advance_ms(seam, 1000);
        process_nap();
        semel_inbox_counters(&now, sizeof now, inbox);
    }
    kit_end(c);
    assert_int_equal(now.swept, 1);
    FAILS(SEMEL_ENOTFOUND, semel_inbox_forget(inbox, &message, &last_error));
    kit_close(c);
    semel_test_seam_close(seam);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PIPELINE_TEST(each_inbox_handles_each_message_once),
        PIPELINE_TEST(an_inbox_may_have_several_types),
        PIPELINE_TEST(an_unkeyed_inbox_handles_every_copy),
        PIPELINE_TEST(a_local_hand_off_receives_what_a_handler_sends),
        PIPELINE_TEST(dead_letters_are_announced_in_the_faults_outbox),
        PIPELINE_TEST(two_stores_are_joined_by_a_queue),
        PIPELINE_TEST(an_outage_is_told_with_the_name_of_what_waits),
        PIPELINE_TEST(an_inbox_without_a_loop_is_swept),
    };
    return cmocka_run_group_tests_name("pipeline: running", tests, NULL, NULL);
}
