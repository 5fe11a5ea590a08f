/* A process with a pipeline is killed: while it opens (the first time on a fresh file), right after
 * the start, under load, while it stops and while it closes; then the next one. In the end every
 * order that was placed has each of its effects exactly once, and nothing is left over. */
#include "pipeline_kit.h"

#include <signal.h>

enum { ROUNDS = 50, ORDERS = 12, LEASE_MS = 500 };

typedef enum phase { BEGINS, OPENS, STARTS, RUNS, STOPS, CLOSES, PHASES } phase;

typedef struct shared {
    atomic_int phase;
    atomic_int handled;
} shared;

typedef struct life {
    const pipeline_case *c;
    shared *shared;
    unsigned round;
    int to_the_end; /* until nothing is left */
} life;

static shared *tally; /* for the handlers */

/* An order is reserved, and the handler sends on what a local hand-off receives. */
static semel_status reserve(semel_unit *unit, const semel_message *order, void *context,
                            semel_error *err)
{
    semel_message mail = {.size = sizeof mail, .id = order->id, .type = "mail"};
    semel_status status = kit_write(unit, context, order, err);
    atomic_fetch_add(&tally->handled, 1);
    return status ? status : semel_unit_send(unit, semel_unit_outbox(unit, "mails"), &mail, err);
}

/* The order and its message are one. */
static void place(semel_pipeline *pipeline, unsigned round, unsigned number)
{
    char id[KIT_TEXT];
    semel_error err;
    semel_unit *unit;
    (void)snprintf(id, sizeof id, "%u-%u", round, number);
    semel_message order = {.size = sizeof order, .id = semel_str(id), .type = "order"};
    PROCESS_REQUIRE_OK(semel_unit_begin(&unit, semel_pipeline_find_store(pipeline, "shop"), &err),
                       &err);
    PROCESS_REQUIRE_OK(kit_write(unit, "placed", &order, &err), &err);
    PROCESS_REQUIRE_OK(
        semel_unit_send(unit, semel_pipeline_find_outbox(pipeline, "orders"), &order, &err), &err);
    PROCESS_REQUIRE_OK(semel_unit_commit(unit, &err), &err);
}

static void count_placed(const char *item, void *context)
{
    *(int64_t *)context += strncmp(item, "placed:", 7) == 0;
}

static int64_t placed(const pipeline_case *c)
{
    int64_t count = 0;
    effect_each(&c->place, "effect", count_placed, &count);
    return count;
}

static int is_complete(const pipeline_case *c)
{
    return effect_count(&c->place, "effect").different >= 3 * placed(c);
}

static int live(void *context)
{
    const life *l = context;
    const semel_queue_options queue = {.size = sizeof queue, .lease_ms = LEASE_MS};
    const semel_relay_options relay = {
        .size = sizeof relay, .lease_ms = LEASE_MS, .backoff_max_ms = 200};
    const semel_consumer_options consumer = {
        .size = sizeof consumer, .workers = 2, .batch = 3, .backoff_max_ms = 200};
    const semel_pipeline_store stores[] = {{.name = "shop", .url = l->c->place.url}, {0}};
    const semel_pipeline_queue queues[] = {
        {.name = "orders", .options = &queue, .consumer = &consumer}, {0}};
    const semel_pipeline_inbox inboxes[] = {
        {.name = "stock", .from = "orders", .handler = reserve, .context = "stock"},
        {.name = "mail", .handler = kit_effect, .context = "mail"},
        {0}};
    const semel_pipeline_outbox outboxes[] = {
        {.name = "orders", .to = "orders", .options = &relay, .relays = 2},
        {.name = "mails", .inbox = "mail", .options = &relay},
        {0}};
    const semel_pipeline_spec spec = {.size = sizeof spec,
                                      .stores = stores,
                                      .queues = queues,
                                      .inboxes = inboxes,
                                      .outboxes = outboxes};
    semel_pipeline *pipeline = NULL;
    semel_error err;
    tally = l->shared;
    atomic_store(&tally->phase, OPENS);
    PROCESS_REQUIRE_OK(semel_pipeline_open(&pipeline, &spec, &err), &err);
    for (unsigned i = 0; i < ORDERS && !l->to_the_end; i++)
        place(pipeline, l->round, i);
    atomic_store(&tally->phase, STARTS);
    PROCESS_REQUIRE_OK(semel_pipeline_start(pipeline, &err), &err);
    atomic_store(&tally->phase, RUNS);
    int64_t deadline = process_now_ms() + KIT_LATE_MS;
    while (l->to_the_end ? !is_complete(l->c) : atomic_load(&tally->handled) < ORDERS / 2) {
        PROCESS_REQUIRE(process_now_ms() < deadline);
        process_nap();
    }
    atomic_store(&tally->phase, STOPS);
    semel_pipeline_stop(pipeline);
    PROCESS_REQUIRE_OK(semel_pipeline_wait(pipeline, &err), &err);
    atomic_store(&tally->phase, CLOSES);
    semel_pipeline_close(pipeline);
    while (!l->to_the_end)
        process_nap(); /* until it is killed */
    return PROCESS_OK;
}

/* Somewhere in the phase, or in one after it: `depth` naps after it began. */
static int kill_in(pipeline_case *c, shared *memory, unsigned round, phase when, unsigned depth)
{
    life l = {.c = c, .shared = memory, .round = round};
    atomic_store(&memory->phase, BEGINS);
    atomic_store(&memory->handled, 0);
    pid_t pid = process_start(live, &l);
    int64_t deadline = process_now_ms() + KIT_LATE_MS;
    while (atomic_load(&memory->phase) < (int)when && process_now_ms() < deadline)
        process_nap();
    for (unsigned i = 0; i < depth; i++)
        process_nap();
    (void)kill(pid, SIGKILL);
    return process_wait(pid, KIT_LATE_MS);
}

static void every_effect_happens_once_whenever_the_process_dies(void **state)
{
    pipeline_case *c = *state;
    shared *memory = process_share(sizeof *memory);
    for (unsigned round = 0; round < ROUNDS; round++) {
        phase when = (phase)(OPENS + round % (PHASES - OPENS));
        assert_int_equal(kill_in(c, memory, round, when, 2 * round / PHASES),
                         PROCESS_KILLED + SIGKILL);
    }
    life last = {.c = c, .shared = memory, .to_the_end = 1};
    assert_int_equal(process_run(live, &last), PROCESS_OK);
    effect_numbers all = effect_count(&c->place, "effect");
    assert_true(placed(c) >= ORDERS);
    assert_int_equal(all.all, 3 * placed(c));
    assert_int_equal(all.different, 3 * placed(c));
    process_unshare(memory, sizeof *memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PIPELINE_TEST(every_effect_happens_once_whenever_the_process_dies),
    };
    return cmocka_run_group_tests_name("pipeline: killed", tests, NULL, NULL);
}
