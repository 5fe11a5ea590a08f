/* The end of pipelines: they stop when they are asked to, from wherever that is, and when a loop
 * cannot go on. */
#include "pipeline_kit.h"
#include "support/base/sanitizer.h"

#include "core/pipeline.h"

#include <poll.h>
#include <pthread.h>
#include <semel/sqlite.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

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

/* --- stopping --------------------------------------------------------------------------------- */

/* It ends although there is more to do; and the next one does it. */
static void a_stop_under_load_leaves_the_rest_for_later(void **state)
{
    enum { MANY = 300 };
    pipeline_case *c = *state;
    static const semel_queue_options queue = {.size = sizeof queue, .lease_ms = 1000};
    static const semel_relay_options relay = {.size = sizeof relay, .lease_ms = 1000};
    const semel_pipeline_queue queues[] = {{.name = "orders", .options = &queue}, {0}};
    const semel_pipeline_outbox outboxes[] = {{.name = "placed", .to = "orders", .options = &relay},
                                              {0}};
    semel_pipeline_spec spec = simple(STORE(c));
    spec.queues = queues;
    spec.outboxes = outboxes;
    kit_open(c, &spec);
    for (unsigned i = 0; i < MANY; i++)
        kit_send(c->pipeline, "placed", "order", "m", i);
    OK(semel_pipeline_start(c->pipeline, &last_error));
    kit_wait_effects(c, 10);
    kit_end(c);
    kit_close(c);
    kit_open(c, &spec);
    OK(semel_pipeline_start(c->pipeline, &last_error));
    kit_wait_effects(c, MANY);
    kit_end(c);
    effect_numbers all = effect_count(&c->place, "effect");
    assert_int_equal(all.all, MANY);
    assert_int_equal(all.different, MANY);
    kit_close(c);
}

static void it_starts_once_and_may_be_stopped_at_any_time(void **state)
{
    pipeline_case *c = *state;
    semel_pipeline_spec spec = simple(STORE(c));
    kit_open(c, &spec);
    FAILS(SEMEL_EMISUSE, semel_pipeline_wait(c->pipeline, &last_error));
    SAYS("was not started");
    semel_pipeline_stop(c->pipeline);
    kit_send(c->pipeline, "placed", "order", "m", 1);
    OK(semel_pipeline_run(c->pipeline, &last_error));
    OK(semel_pipeline_wait(c->pipeline, &last_error));
    FAILS(SEMEL_EMISUSE, semel_pipeline_start(c->pipeline, &last_error));
    SAYS("was started before");
    semel_pipeline_stop(c->pipeline);
    semel_pipeline_stop(NULL);
    kit_close(c);
    semel_pipeline_close(NULL);

    kit_open(c, &spec); /* and is closed while it runs */
    OK(semel_pipeline_start(c->pipeline, &last_error));
    kit_wait_effects(c, 1);
    kit_close(c);
    kit_open(c, &spec); /* or before it does */
    kit_close(c);
}

static void *wait_for_end(void *context)
{
    (void)semel_pipeline_wait(context, NULL);
    return NULL;
}

/* Nothing runs, and it waits to be stopped nevertheless. Two may wait. */
static void a_pipeline_without_loops_runs_until_it_is_stopped(void **state)
{
    pipeline_case *c = *state;
    const semel_pipeline_outbox outboxes[] = {{.name = "placed"}, {0}};
    semel_pipeline_spec spec = {.size = sizeof spec, .stores = STORE(c), .outboxes = outboxes};
    pthread_t waiting;
    kit_open(c, &spec);
    OK(semel_pipeline_start(c->pipeline, &last_error));
    assert_int_equal(pthread_create(&waiting, NULL, wait_for_end, c->pipeline), 0);
    kit_send(c->pipeline, "placed", "order", "m", 1);
    kit_end(c);
    assert_int_equal(pthread_join(waiting, NULL), 0);
    kit_close(c);
}

static semel_pipeline *to_stop; /* for the signal handler */

static void stop_it(int number)
{
    (void)number;
    semel_pipeline_stop(to_stop);
}

/* To the process: the pipeline's own threads receive no signals. */
static semel_status signal_us(semel_unit *unit, const semel_message *message, void *context,
                              semel_error *err)
{
    semel_status status = kit_write(unit, context, message, err);
    (void)kill(getpid(), SIGUSR1);
    return status;
}

static void a_signal_handler_may_stop_it(void **state)
{
    pipeline_case *c = *state;
    const semel_pipeline_inbox inboxes[] = {
        {.name = "stock", .from = "orders", .handler = signal_us, .context = "stock"}, {0}};
    semel_pipeline_spec spec = simple(STORE(c));
    spec.inboxes = inboxes;
    kit_open(c, &spec);
    to_stop = c->pipeline;
    struct sigaction action = {.sa_handler = stop_it}, before;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    kit_send(c->pipeline, "placed", "order", "m", 1);
    OK(semel_pipeline_run(c->pipeline, &last_error));
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
    assert_int_equal(kit_times(c, "stock:m-1"), 1);
    kit_close(c);
}

static void run_sql(const pipeline_case *c, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(strchr(c->place.url, ':') + 1, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, KIT_LATE_MS);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static int begins_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The error is that of the run, and says whose it is. The consumer has nothing to do with it, and
 * is stopped. */
static void a_loop_that_fails_ends_the_run_and_is_named(void **state)
{
    pipeline_case *c = *state;
    const semel_pipeline_queue queues[] = {{.name = "orders", .url = "memory:"}, {0}};
    semel_pipeline_spec spec = simple(STORE(c));
    semel_error why = {0};
    semel_health_state health;
    spec.queues = queues;
    kit_open(c, &spec);
    kit_send(c->pipeline, "placed", "order", "m", 1);
    OK(semel_pipeline_start(c->pipeline, &last_error));
    kit_wait_effects(c, 1);
    run_sql(c, "DROP TABLE semel_outbox");
    semel_status status = semel_pipeline_wait(c->pipeline, &why);
    assert_int_not_equal(status, SEMEL_OK);
    assert_int_equal(why.status, status);
    assert_int_equal(why.retryable, 0);
    if (!begins_with(why.text, "outbox \"placed\": "))
        fail_msg("%s", why.text);
    OK(semel_pipeline_health(&health, c->pipeline, NULL, NULL, NULL, &last_error));
    assert_int_equal(health, SEMEL_HEALTH_FAILED);
    assert_int_equal(semel_pipeline_wait(c->pipeline, NULL), status);
    kit_close(c);
}

/* One stack of 8 MiB fits, perhaps, and not one for every relay. */
static int start_without_room(void *context)
{
    const pipeline_case *c = context;
    long pages = 0;
    semel_error err;
    semel_pipeline *pipeline = NULL;
    const semel_pipeline_outbox outboxes[] = {{.name = "placed", .to = "orders", .relays = 20},
                                              {0}};
    semel_pipeline_spec spec = simple(STORE(c));
    spec.outboxes = outboxes;
    PROCESS_REQUIRE_OK(semel_pipeline_open(&pipeline, &spec, &err), &err);
    FILE *file = fopen("/proc/self/statm", "r");
    PROCESS_REQUIRE(file && fscanf(file, "%ld", &pages) == 1);
    (void)fclose(file);
    struct rlimit room = {(rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (20U << 20),
                          RLIM_INFINITY};
    PROCESS_REQUIRE(setrlimit(RLIMIT_AS, &room) == 0);
    PROCESS_REQUIRE(semel_pipeline_run(pipeline, &err) == SEMEL_ENOMEM);
    PROCESS_REQUIRE(strstr(err.text, "its thread cannot be started"));
    PROCESS_REQUIRE(begins_with(err.text, "outbox \"placed\": ") ||
                    begins_with(err.text, "queue \"orders\": "));
    PROCESS_REQUIRE(semel_pipeline_start(pipeline, &err) == SEMEL_EMISUSE);
    semel_pipeline_close(pipeline);
    return PROCESS_OK;
}

static void a_thread_that_cannot_be_started_ends_those_that_were(void **state)
{
    if (SANITIZER_SLOWDOWN > 1)
        return; /* the sanitizers' own memory cannot be limited */
    assert_int_equal(process_run(start_without_room, *state), PROCESS_OK);
}

/* --- fork ------------------------------------------------------------------------------------- */

static int misuse(void *context)
{
    semel_pipeline *pipeline = context;
    semel_error err;
    semel_health_state health;
    semel_pipeline_stop(pipeline);
    PROCESS_REQUIRE(semel_pipeline_start(pipeline, &err) == SEMEL_EMISUSE);
    PROCESS_REQUIRE(semel_pipeline_wait(pipeline, &err) == SEMEL_EMISUSE);
    PROCESS_REQUIRE(semel_pipeline_health(&health, pipeline, NULL, NULL, NULL, &err) ==
                    SEMEL_EMISUSE);
    semel_pipeline_close(pipeline);
    return PROCESS_OK;
}

/* A child that inherits the signal handler stops nothing. Before the start, so that the child of a
 * process with one thread is well-defined. */
static void a_child_leaves_the_pipeline_of_its_parent_alone(void **state)
{
    pipeline_case *c = *state;
    semel_pipeline_spec spec = simple(STORE(c));
    kit_open(c, &spec);
    assert_int_equal(process_run(misuse, c->pipeline), PROCESS_OK);
    struct pollfd stopped = {.fd = c->pipeline->wake[0], .events = POLLIN};
    assert_int_equal(poll(&stopped, 1, 0), 0); /* the child has the same pipe */
    kit_send(c->pipeline, "placed", "order", "m", 1);
    OK(semel_pipeline_start(c->pipeline, &last_error));
    kit_wait_effects(c, 1);
    kit_end(c);
    kit_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PIPELINE_TEST(a_stop_under_load_leaves_the_rest_for_later),
        PIPELINE_TEST(it_starts_once_and_may_be_stopped_at_any_time),
        PIPELINE_TEST(a_pipeline_without_loops_runs_until_it_is_stopped),
        PIPELINE_TEST(a_signal_handler_may_stop_it),
        PIPELINE_TEST(a_loop_that_fails_ends_the_run_and_is_named),
        PIPELINE_TEST(a_thread_that_cannot_be_started_ends_those_that_were),
        PIPELINE_TEST(a_child_leaves_the_pipeline_of_its_parent_alone),
    };
    return cmocka_run_group_tests_name("pipeline: the end", tests, NULL, NULL);
}
