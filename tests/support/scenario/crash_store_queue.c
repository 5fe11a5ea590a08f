/* The workflows of crash.h that go through a queue in the store: messages are published,
 * received, extended, handled by the inbox and settled, some at a time. Those that begin with
 * "poison" are rejected.
 *
 * What was published is either in the queue or was settled, so the second process knows what is
 * left to publish. How often something was delivered is counted in the memory that outlives
 * both. */
#include "support/scenario/crash.h"

#include "support/process/process.h"

#include <semel/consumer.h>
#include <semel/queue.h>
#include <semel/sys/transport.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition)  PROCESS_REQUIRE(condition)
#define REQUIRE_OK(w, call) PROCESS_REQUIRE_OK(call, &(w)->err)

enum { EACH_PUBLISH = 3, STEPS_MAX = 20 };

_Static_assert(CRASH_QUEUE_MESSAGES % EACH_PUBLISH == 0, "each publish is a full one");

static semel_transport *open_queue(crash_world *w, semel_store *store)
{
    semel_queue_options options = {.size = sizeof options, .lease_ms = CRASH_LEASE_MS};
    semel_transport *queue = NULL;
    REQUIRE_OK(w, semel_queue_open(&queue, store, "orders", &options, &w->err));
    return queue;
}

/* --- publishing ------------------------------------------------------------------------------- */

/* Every second is of one group. The third is rejected. */
static void publish_some(crash_world *w, semel_transport *queue, int64_t first)
{
    char keys[EACH_PUBLISH][CRASH_TEXT];
    semel_message messages[EACH_PUBLISH];
    const semel_message *list[EACH_PUBLISH];
    semel_publish_result results[EACH_PUBLISH];
    for (int i = 0; i < EACH_PUBLISH; i++) {
        int number = (int)first + i;
        (void)snprintf(keys[i], CRASH_TEXT, "%s-%d", number == 2 ? "poison" : "order", number);
        messages[i] = crash_message(keys[i]);
        messages[i].topic = "in";
        messages[i].group = number % 2 ? NULL : "group";
        list[i] = &messages[i];
    }
    REQUIRE_OK(w, semel_transport_publish(results, queue, list, EACH_PUBLISH, 0, &w->err));
    for (int i = 0; i < EACH_PUBLISH; i++)
        REQUIRE(results[i] == SEMEL_PUBLISH_CONFIRMED);
}

/* What was published, while nothing of it is settled. Closing gives it back. */
static int64_t count_published(crash_world *w)
{
    semel_delivery got[CRASH_QUEUE_MESSAGES];
    size_t count = 0;
    semel_transport *queue = open_queue(w, crash_observer_store(w));
    REQUIRE_OK(w, semel_transport_receive(queue, got, CRASH_QUEUE_MESSAGES, &count, 0, &w->err));
    semel_transport_close(queue);
    return (int64_t)count;
}

/* All of a publish is there, or nothing of it. When something has been delivered, all were
 * published. */
static void publish_rest(crash_world *w, semel_transport *queue)
{
    if (w->stage->shared->deliveries)
        return;
    int64_t here = count_published(w);
    REQUIRE(here % EACH_PUBLISH == 0);
    for (; here < CRASH_QUEUE_MESSAGES; here += EACH_PUBLISH)
        publish_some(w, queue, here);
}

/* --- consuming -------------------------------------------------------------------------------- */

static void extend(crash_world *w, semel_transport *queue, const semel_delivery got[], size_t count)
{
    const semel_transport_driver *driver = semel_transport_driver_of(queue);
    uint64_t tags[CRASH_QUEUE_EACH];
    uint32_t hold_ms = 0;
    for (size_t i = 0; i < count; i++)
        tags[i] = got[i].tag;
    REQUIRE_OK(
        w, driver->extend(semel_transport_state(queue, driver), tags, count, &hold_ms, &w->err));
    REQUIRE(hold_ms == CRASH_LEASE_MS);
}

static semel_verdict handle(crash_world *w, const semel_message *message)
{
    char key[CRASH_TEXT];
    (void)snprintf(key, sizeof key, "%.*s", (int)message->id.len, (const char *)message->id.data);
    if (strncmp(key, "poison", 6) == 0 && !w->forgive)
        return SEMEL_VERDICT_REJECT;
    semel_outcome outcome = crash_deliver(w, key, message->delivery);
    REQUIRE(outcome == SEMEL_PROCESSED || outcome == SEMEL_DUPLICATE);
    return SEMEL_VERDICT_ACK;
}

/* In a process a message of the group comes only behind those before it, and only once. */
static void check_order(const semel_message *message, int *last)
{
    char key[CRASH_TEXT];
    (void)snprintf(key, sizeof key, "%.*s", (int)message->id.len, (const char *)message->id.data);
    int number = atoi(strrchr(key, '-') + 1);
    if (!message->group)
        return;
    REQUIRE(number > *last);
    *last = number;
}

/* Returns 0 when the queue has nothing to give. */
static int consume_some(crash_world *w, semel_transport *queue, int *last)
{
    semel_delivery got[CRASH_QUEUE_EACH];
    semel_delivery_settlement settles[CRASH_QUEUE_EACH];
    size_t count = 0;
    REQUIRE_OK(w, semel_transport_receive(queue, got, CRASH_QUEUE_EACH, &count, 0, &w->err));
    if (!count)
        return 0;
    w->stage->shared->deliveries += (uint32_t)count;
    extend(w, queue, got, count);
    for (size_t i = 0; i < count; i++) {
        check_order(got[i].message, last);
        settles[i] = (semel_delivery_settlement){got[i].tag, handle(w, got[i].message), 0};
    }
    REQUIRE_OK(w, semel_transport_settle(queue, settles, count, &w->err));
    return 1;
}

static void consume_all(crash_world *w, semel_transport *queue)
{
    int last = -1, steps = 0;
    while (consume_some(w, queue, &last))
        REQUIRE(++steps < STEPS_MAX);
}

/* --- the workflows ---------------------------------------------------------------------------- */

void crash_run_queue(crash_world *w)
{
    semel_transport *queue = open_queue(w, w->base.store);
    publish_rest(w, queue);
    consume_all(w, queue);
    semel_transport_close(queue);
}

/* All are handled but the one that is rejected, which is left as a letter. */
void crash_prepare_queue_letter(crash_world *w)
{
    crash_run_queue(w);
    crash_drain(w);
    REQUIRE(crash_letter(w) != 0);
}

void crash_run_queue_replay(crash_world *w)
{
    semel_transport *queue = open_queue(w, w->base.store);
    int64_t id = crash_letter(w);
    w->forgive = 1;
    if (id)
        REQUIRE_OK(w, semel_queue_replay(queue, id, &w->err));
    consume_all(w, queue);
    semel_transport_close(queue);
}

/* None is rejected: what a consumer takes in batches, it handles. */
void crash_prepare_consumed(crash_world *w)
{
    semel_transport *queue = open_queue(w, w->base.store);
    for (int i = 0; i < CRASH_QUEUE_MESSAGES; i++) {
        char key[CRASH_TEXT];
        (void)snprintf(key, sizeof key, "order-%d", i);
        semel_message message = crash_message(key);
        const semel_message *one = &message;
        semel_publish_result result;
        message.topic = "in";
        REQUIRE_OK(w, semel_transport_publish(&result, queue, &one, 1, 0, &w->err));
    }
    semel_transport_close(queue);
}

/* Until a step finds nothing: what was handled by a commit left the queue with it. */
void crash_run_consumed(crash_world *w)
{
    semel_transport *queue = open_queue(w, w->base.store);
    const semel_route route = {
        .pattern = "*", .inbox = w->inbox, .handler = crash_handler, .context = w};
    const semel_consumer_options options = {.size = sizeof options, .batch = EACH_PUBLISH};
    semel_consumer *consumer;
    size_t settled = 1;
    REQUIRE_OK(w, semel_consumer_open(&consumer, queue, &route, 1, &options, &w->err));
    for (int steps = 0; settled; steps++) {
        REQUIRE(steps < STEPS_MAX);
        settled = 0;
        REQUIRE_OK(w, semel_consumer_step(&settled, consumer, 0, &w->err));
    }
    semel_consumer_close(consumer);
    semel_transport_close(queue);
}
