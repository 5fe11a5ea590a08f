#include "support/scenario/queue_processes.h"

#include "support/base/check.h"
#include "support/fixture/scripted_handler.h"
#include "support/process/process.h"

#include <semel/sys/transport.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CONSUMERS = 3,
    GROUPS = 5,
    MESSAGES = 200,
    BATCH = 5, /* messages of one publish */
    BACKLOG_MAX = 100,
    ROUNDS = 4,
    CALLS_MAX = 4000,
    CALLS_OF_ROUND_MAX = CALLS_MAX / ROUNDS,
    CALLS_OF_ROUND = 20,
    AT_ONCE = 4,
    LEASE_MS = 1000,
    PATIENCE_MS = 90000
};

typedef struct shared {
    atomic_uint next[GROUPS]; /* the number that must come next */
    atomic_uint received;     /* messages, each once */
    atomic_uint calls;        /* of publish, begun */
    atomic_uint calls_limit;  /* of this round: others are left for the next */
    atomic_uint confirmed[CALLS_MAX];
    atomic_uint seen[CALLS_MAX * BATCH];
    atomic_int stop;
    atomic_int doomed_ready; /* the consumer that is to die has a delivery */
} shared;

typedef struct stage {
    const char *url;
    shared *all;
} stage;

/* --- one process's end of the queue ----------------------------------------------------------- */

typedef struct end {
    semel_store *store;
    semel_transport *queue;
} end;

static end end_open(const stage *s, uint32_t lease_ms)
{
    end e = {0};
    semel_error err;
    semel_store_options patient = {.size = sizeof patient, .busy_ms = PATIENCE_MS};
    semel_queue_options options = {.size = sizeof options, .lease_ms = lease_ms};
    PROCESS_REQUIRE_OK(semel_store_open(&e.store, s->url, &patient, &err), &err);
    PROCESS_REQUIRE_OK(semel_store_migrate(e.store, &err), &err);
    PROCESS_REQUIRE_OK(semel_queue_open(&e.queue, e.store, "orders", &options, &err), &err);
    return e;
}

static void end_close(end *e)
{
    semel_transport_close(e->queue);
    semel_store_close(e->store);
}

static unsigned number_of(const semel_message *message)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%.*s", (int)message->id.len, (const char *)message->id.data);
    return (unsigned)strtoul(text, NULL, 10);
}

/* Numbers from `first` on; message n is of group n % GROUPS. */
static semel_status publish_numbers(end *e, unsigned first, semel_error *err)
{
    char ids[BATCH][16], groups[BATCH][16];
    semel_message messages[BATCH];
    const semel_message *pointers[BATCH];
    semel_publish_result results[BATCH];
    for (unsigned i = 0; i < BATCH; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "%u", first + i);
        (void)snprintf(groups[i], sizeof groups[i], "g%u", (first + i) % GROUPS);
        messages[i] = text_message(ids[i], "10 EUR");
        messages[i].group = groups[i];
        pointers[i] = &messages[i];
    }
    return semel_transport_publish(results, e->queue, pointers, BATCH, PATIENCE_MS, err);
}

static size_t receive_some(end *e, semel_delivery deliveries[AT_ONCE], uint32_t wait_ms)
{
    size_t count = 0;
    semel_error err;
    PROCESS_REQUIRE_OK(
        semel_transport_receive(e->queue, deliveries, AT_ONCE, &count, wait_ms, &err), &err);
    return count;
}

/* EINVAL: its lease has ended, and another has it. */
static void acknowledge(end *e, const semel_delivery *delivery)
{
    semel_delivery_settlement ack = {delivery->tag, SEMEL_VERDICT_ACK, 0};
    semel_error err;
    semel_status status = semel_transport_settle(e->queue, &ack, 1, &err);
    PROCESS_REQUIRE(status == SEMEL_OK || status == SEMEL_EINVAL);
}

/* --- in order --------------------------------------------------------------------------------- */

static int receive_in_order(void *context)
{
    stage *s = context;
    end e = end_open(s, PATIENCE_MS);
    int64_t deadline = process_now_ms() + PATIENCE_MS;
    while (atomic_load(&s->all->received) < MESSAGES) {
        semel_delivery deliveries[AT_ONCE];
        size_t count = receive_some(&e, deliveries, 50);
        for (size_t i = 0; i < count; i++) {
            unsigned number = number_of(deliveries[i].message);
            unsigned before = atomic_fetch_add(&s->all->next[number % GROUPS], 1);
            PROCESS_REQUIRE(before == number / GROUPS);
            PROCESS_REQUIRE(deliveries[i].message->delivery == 1);
            acknowledge(&e, &deliveries[i]);
            atomic_fetch_add(&s->all->received, 1);
        }
        PROCESS_REQUIRE(process_now_ms() < deadline);
    }
    end_close(&e);
    return PROCESS_OK;
}

static int publish_in_order(void *context)
{
    end e = end_open(context, PATIENCE_MS);
    semel_error err;
    for (unsigned first = 0; first < MESSAGES; first += BATCH)
        PROCESS_REQUIRE_OK(publish_numbers(&e, first, &err), &err);
    end_close(&e);
    return PROCESS_OK;
}

void queue_processes_keep_the_order(const char *store_url)
{
    stage s = {store_url, process_share(sizeof(shared))};
    pid_t consumers[CONSUMERS];
    for (int i = 0; i < CONSUMERS; i++)
        consumers[i] = process_start(receive_in_order, &s);
    assert_int_equal(process_run(publish_in_order, &s), PROCESS_OK);
    for (int i = 0; i < CONSUMERS; i++)
        assert_int_equal(process_wait(consumers[i], PATIENCE_MS), PROCESS_OK);
    assert_int_equal(atomic_load(&s.all->received), MESSAGES);
    process_unshare(s.all, sizeof(shared));
}

/* --- killed ----------------------------------------------------------------------------------- */

static void note_seen(shared *all, const semel_message *message)
{
    unsigned number = number_of(message);
    PROCESS_REQUIRE(number < CALLS_MAX * BATCH);
    if (atomic_fetch_add(&all->seen[number], 1) == 0)
        atomic_fetch_add(&all->received, 1);
}

/* Without an end: it is killed. It waits for its consumers, so that it is there to be killed. */
static int publish_until_killed(void *context)
{
    stage *s = context;
    end e = end_open(s, LEASE_MS);
    semel_error err;
    for (;;) {
        unsigned call = atomic_load(&s->all->calls);
        if (call * BATCH > atomic_load(&s->all->received) + BACKLOG_MAX ||
            call == atomic_load(&s->all->calls_limit)) {
            process_nap();
            continue;
        }
        atomic_store(&s->all->calls, call + 1);
        PROCESS_REQUIRE_OK(publish_numbers(&e, call * BATCH, &err), &err);
        atomic_store(&s->all->confirmed[call], 1);
    }
}

/* Not before the consumer that is to die has its delivery: they might leave nothing for it. */
static int receive_until_stopped(void *context)
{
    stage *s = context;
    end e = end_open(s, LEASE_MS);
    while (!atomic_load(&s->all->doomed_ready) && !atomic_load(&s->all->stop))
        process_nap();
    while (!atomic_load(&s->all->stop)) {
        semel_delivery deliveries[AT_ONCE];
        size_t count = receive_some(&e, deliveries, 50);
        for (size_t i = 0; i < count; i++) {
            note_seen(s->all, deliveries[i].message);
            acknowledge(&e, &deliveries[i]);
        }
    }
    end_close(&e);
    return PROCESS_OK;
}

/* What it has received it has not seen: others must. */
static int receive_and_die(void *context)
{
    stage *s = context;
    end e = end_open(s, LEASE_MS);
    semel_delivery deliveries[AT_ONCE];
    while (!receive_some(&e, deliveries, 50))
        continue;
    atomic_store(&s->all->doomed_ready, 1);
    raise(SIGKILL);
    return PROCESS_OK;
}

static void wait_for_the_doomed(const stage *s)
{
    int64_t deadline = process_now_ms() + PATIENCE_MS;
    while (!atomic_load(&s->all->doomed_ready)) {
        assert_true(process_now_ms() < deadline);
        process_nap();
    }
}

/* So many more than there are. */
static void wait_for_calls(const stage *s, unsigned calls)
{
    int64_t deadline = process_now_ms() + PATIENCE_MS;
    unsigned wanted = atomic_load(&s->all->calls) + calls;
    unsigned limit = atomic_load(&s->all->calls_limit);
    while (atomic_load(&s->all->calls) < (wanted < limit ? wanted : limit)) {
        assert_true(process_now_ms() < deadline);
        process_nap();
    }
}

static void kill_in_a_round(stage *s)
{
    pid_t consumers[CONSUMERS];
    atomic_store(&s->all->calls_limit, atomic_load(&s->all->calls) + CALLS_OF_ROUND_MAX);
    atomic_store(&s->all->stop, 0);
    atomic_store(&s->all->doomed_ready, 0);
    for (int i = 0; i < CONSUMERS; i++)
        consumers[i] = process_start(receive_until_stopped, s);
    pid_t doomed = process_start(receive_and_die, s);
    pid_t publisher = process_start(publish_until_killed, s);
    wait_for_the_doomed(s);
    wait_for_calls(s, CALLS_OF_ROUND);
    kill(publisher, SIGKILL);
    assert_int_equal(process_wait(publisher, PATIENCE_MS), PROCESS_KILLED + SIGKILL);
    assert_int_equal(process_wait(doomed, PATIENCE_MS), PROCESS_KILLED + SIGKILL);
    atomic_store(&s->all->stop, 1);
    for (int i = 0; i < CONSUMERS; i++)
        assert_int_equal(process_wait(consumers[i], PATIENCE_MS), PROCESS_OK);
}

/* What the killed had out comes when its lease has ended. */
static int receive_the_rest(void *context)
{
    stage *s = context;
    end e = end_open(s, LEASE_MS);
    semel_delivery deliveries[AT_ONCE];
    for (size_t count; (count = receive_some(&e, deliveries, 4 * LEASE_MS)) > 0;)
        for (size_t i = 0; i < count; i++) {
            note_seen(s->all, deliveries[i].message);
            acknowledge(&e, &deliveries[i]);
        }
    end_close(&e);
    return PROCESS_OK;
}

static void check_calls(const shared *all)
{
    for (unsigned call = 0; call < atomic_load(&all->calls); call++) {
        unsigned seen = 0;
        for (unsigned i = 0; i < BATCH; i++)
            seen += atomic_load(&all->seen[call * BATCH + i]) != 0;
        if (seen != BATCH && (seen || atomic_load(&all->confirmed[call])))
            fail_msg("of call %u, %s, %u of %d messages came", call,
                     atomic_load(&all->confirmed[call]) ? "confirmed" : "not confirmed", seen,
                     (int)BATCH);
    }
}

void queue_processes_are_killed(const char *store_url)
{
    stage s = {store_url, process_share(sizeof(shared))};
    for (int i = 0; i < ROUNDS; i++)
        kill_in_a_round(&s);
    assert_int_equal(process_run(receive_the_rest, &s), PROCESS_OK);
    check_calls(s.all);
    process_unshare(s.all, sizeof(shared));
}
