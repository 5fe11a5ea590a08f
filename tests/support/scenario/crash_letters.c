/* The workflows of crash.h about dead letters: discarded, expired, replayed without a route before,
 * and rejected to the broker's own. */
#include "support/scenario/crash.h"

#include "support/process/process.h"

#include <semel/queue.h>
#include <string.h>

#define REQUIRE(condition)  PROCESS_REQUIRE(condition)
#define REQUIRE_OK(w, call) PROCESS_REQUIRE_OK(call, &(w)->err)

enum { STEPS_MAX = 20, STEPS = 8, PAUSE_MS = 100 };

/* The key is forgotten with the letter, or both are as before: so a copy runs once. */
void crash_run_discard(crash_world *w)
{
    int64_t id = crash_letter(w);
    w->forgive = 1;
    if (id)
        REQUIRE_OK(w, semel_dead_discard(w->base.store, id, SEMEL_DISCARD_FORGET_KEY, &w->err));
    semel_outcome outcome = crash_deliver(w, "poison", 1);
    REQUIRE(outcome == SEMEL_PROCESSED || (w->again && outcome == SEMEL_DUPLICATE));
}

/* While there is a letter, its key is dead; afterwards the inbox has forgotten it. */
void crash_run_expiry(crash_world *w)
{
    semel_dead_filter filter = {.size = sizeof filter, .name = "in"};
    size_t removed;
    int more = 1;
    if (crash_letter(w))
        REQUIRE(crash_deliver(w, "poison", 1) == SEMEL_DEAD);
    for (int steps = 0; more; steps++) {
        REQUIRE(steps < STEPS_MAX);
        REQUIRE_OK(w, semel_dead_sweep(&removed, &more, w->base.store, &filter,
                                       SEMEL_RETENTION_NONE, 1, &w->err));
    }
}

/* --- through a queue in the store ------------------------------------------------------------- */

static semel_transport *open_queue(crash_world *w)
{
    semel_queue_options options = {.size = sizeof options, .lease_ms = CRASH_LEASE_MS};
    semel_transport *queue = NULL;
    REQUIRE_OK(w, semel_queue_open(&queue, w->base.store, "orders", &options, &w->err));
    return queue;
}

static void publish(crash_world *w, semel_transport *queue, const char *key)
{
    semel_message message = crash_message(key);
    const semel_message *one = &message;
    semel_publish_result result;
    message.topic = "in";
    REQUIRE_OK(w, semel_transport_publish(&result, queue, &one, 1, 0, &w->err));
    REQUIRE(result == SEMEL_PUBLISH_CONFIRMED);
}

static void consume(crash_world *w, semel_transport *queue, const char *pattern)
{
    semel_consumer_options options = {.size = sizeof options, .backoff_ms = 1, .reject_dead = 1};
    semel_route route = {pattern, w->inbox, crash_handler, w};
    semel_consumer *consumer = NULL;
    size_t settled;
    REQUIRE_OK(w, semel_consumer_open(&consumer, queue, &route, 1, &options, &w->err));
    for (int steps = 0; steps < STEPS; steps++) { /* more than the one message needs */
        REQUIRE_OK(w, semel_consumer_step(&settled, consumer, 0, &w->err));
        crash_world_pass_ms(w, PAUSE_MS);
    }
    semel_consumer_close(consumer);
}

/* The message waits in the queue when the first process begins, and comes again if the process dies
 * before it has rejected it. In the end there are two letters: the inbox's and the queue's. */
void crash_prepare_rejected(crash_world *w)
{
    semel_transport *queue = open_queue(w);
    publish(w, queue, "poison");
    semel_transport_close(queue);
}

void crash_run_rejected(crash_world *w)
{
    semel_transport *queue = open_queue(w);
    consume(w, queue, "*");
    semel_transport_close(queue);
}

/* --- without a route -------------------------------------------------------------------------- */

void crash_prepare_unrouted(crash_world *w)
{
    semel_transport *memory = NULL;
    semel_consumer *consumer = NULL;
    semel_route route = {"bill.*", w->inbox, crash_handler, w};
    semel_message message = crash_message("one");
    const semel_message *one = &message;
    semel_publish_result result;
    size_t settled;
    REQUIRE_OK(w, semel_transport_open(&memory, "memory:", NULL, &w->err));
    REQUIRE_OK(w, semel_transport_publish(&result, memory, &one, 1, 0, &w->err));
    REQUIRE_OK(w, semel_consumer_open(&consumer, memory, &route, 1, NULL, &w->err));
    REQUIRE_OK(w, semel_consumer_step(&settled, consumer, 0, &w->err));
    semel_consumer_close(consumer);
    semel_transport_close(memory);
    REQUIRE(crash_letter(w) != 0);
}

static semel_status succeed(semel_unit *unit, const semel_message *message, void *context,
                            semel_error *err)
{
    (void)unit;
    (void)message;
    (void)context;
    (void)err;
    return SEMEL_OK;
}

/* Through two inboxes, each in a transaction of its own. The second has the letter's end. */
void crash_run_unrouted(crash_world *w)
{
    semel_transport *memory = NULL;
    semel_consumer *consumer = NULL;
    semel_inbox *second = NULL;
    semel_inbox_options options = {.size = sizeof options, .on_in_flight = SEMEL_IN_FLIGHT_REPORT};
    semel_outcome outcome;
    int64_t id = crash_letter(w);
    REQUIRE_OK(w, semel_transport_open(&memory, "memory:", NULL, &w->err));
    REQUIRE_OK(w, semel_inbox_open(&second, w->base.store, "second", &options, &w->err));
    semel_route routes[] = {{"order.*", w->inbox, crash_handler, w},
                            {"*.placed", second, succeed, NULL}};
    REQUIRE_OK(w, semel_consumer_open(&consumer, memory, routes, 2, NULL, &w->err));
    if (id)
        REQUIRE_OK(w, semel_consumer_replay(&outcome, consumer, id, &w->err));
    REQUIRE(crash_deliver(w, "one", 1) == SEMEL_DUPLICATE); /* a later copy */
    semel_consumer_close(consumer);
    semel_inbox_close(second);
    semel_transport_close(memory);
}
