#include "real_members.h"

#include "support/base/check.h"
#include "support/inspect/inspect_store.h"
#include "support/process/process.h"

#include <librdkafka/rdkafka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

enum { STEP_MS = 100, LOOK_MS = 20, TEXT_ROOM = 64 };

static const char effects[] = "effect";

/* --- in the process --------------------------------------------------------------------------- */

typedef struct member {
    members *all;
    unsigned number;
    semel_store *store;
    semel_inbox *inbox;
    semel_transport *transport;
    semel_consumer *consumer;
    effect effect;
    semel_error err;
} member;

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    member *me = context;
    char item[TEXT_ROOM];
    (void)snprintf(item, sizeof item, "%.*s", (int)message->body.len,
                   (const char *)message->body.data);
    semel_status status = effect_write(&me->effect, unit, item, 0, err);
    if (message->type && strcmp(message->type, "order.poison") == 0)
        (void)raise(SIGKILL);
    return status;
}

/* 1: call again. What is not retryable ends the process, and so the test. */
static int again(member *me, semel_status status)
{
    if (status == SEMEL_OK)
        return 0;
    if (!me->err.retryable)
        process_give_up(__FILE__, __LINE__, me->err.text);
    atomic_fetch_add(&me->all->shared->troubles[status], 1);
    process_nap();
    return 1;
}

static void open_store(member *me)
{
    semel_inbox_options inbox = {.size = sizeof inbox,
                                 .mode = SEMEL_TRANSACTION,
                                 .attempts_max = MEMBERS_ATTEMPTS_MAX,
                                 .remember = me->all->remember};
    const store_place *place = &me->all->place;
    while (again(me, semel_store_open(&me->store, place->url, NULL, &me->err)))
        continue;
    while (again(me, effect_open(&me->effect, place, me->store, effects, &me->err)))
        continue;
    while (again(me, semel_inbox_open(&me->inbox, me->store, "orders", &inbox, &me->err)))
        continue;
}

static void open_consumer(member *me)
{
    members_shared *shared = me->all->shared;
    semel_consumer_options options = {.size = sizeof options,
                                      .backoff_ms = 50,
                                      .backoff_max_ms = 500,
                                      .order = SEMEL_ORDER_GROUP};
    while (
        again(me, real_stopping_open(&me->transport, me->all->url, &shared->stop_wanted[me->number],
                                     &shared->held[me->number], &me->err)))
        continue;
    semel_route route = {"order.*", me->inbox, handle, me};
    PROCESS_REQUIRE_OK(
        semel_consumer_open(&me->consumer, me->transport, &route, 1, &options, &me->err), &me->err);
}

static int consume(void *context)
{
    static member me;
    members *m = context;
    me = (member){.all = m, .number = m->starting};
    open_store(&me);
    open_consumer(&me);
    while (!atomic_load(&m->shared->end)) {
        size_t settled;
        (void)again(&me, semel_consumer_step(&settled, me.consumer, STEP_MS, &me.err));
    }
    semel_consumer_close(me.consumer);
    semel_transport_close(me.transport);
    effect_close(&me.effect);
    semel_inbox_close(me.inbox);
    semel_store_close(me.store);
    return PROCESS_OK;
}

/* --- from outside ----------------------------------------------------------------------------- */

static int make_tables(void *context)
{
    members *m = context;
    semel_store *store;
    semel_error err;
    PROCESS_REQUIRE_OK(semel_store_open(&store, m->place.url, NULL, &err), &err);
    PROCESS_REQUIRE_OK(semel_store_migrate(store, &err), &err);
    semel_store_close(store);
    return PROCESS_OK;
}

void members_open(members *m, real_topic *topic, unsigned count, const char *parameters)
{
    assert_true(count <= MEMBERS_MAX);
    *m = (members){.topic = topic, .count = count, .shared = process_share(sizeof *m->shared)};
    real_topic_url(m->url, topic, parameters);
    store_place_open(&m->place, PLACE_SQLITE);
    assert_int_equal(process_run(make_tables, m), PROCESS_OK);
    effect_build(&m->place, effects);
}

void members_close(members *m)
{
    store_place_close(&m->place);
    process_unshare(m->shared, sizeof *m->shared);
}

void members_start(members *m, unsigned number)
{
    m->starting = number;
    m->pids[number] = process_start(consume, m);
}

void members_start_all(members *m)
{
    for (unsigned i = 0; i < m->count; i++)
        members_start(m, i);
}

void members_kill(members *m, unsigned number)
{
    kill(m->pids[number], SIGKILL);
    assert_int_equal(process_wait(m->pids[number], REAL_PATIENCE_MS), PROCESS_KILLED + SIGKILL);
    members_start(m, number);
}

unsigned members_revive(members *m)
{
    unsigned dead = 0;
    for (unsigned i = 0; i < m->count; i++) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)m->pids[i], &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid != m->pids[i])
            continue;
        assert_int_equal(process_wait(m->pids[i], REAL_PATIENCE_MS), PROCESS_KILLED + SIGKILL);
        members_start(m, i);
        dead++;
    }
    return dead;
}

static void rest_ms(uint32_t ms)
{
    struct timespec moment = {ms / 1000, ms % 1000 * 1000000L};
    (void)nanosleep(&moment, NULL);
}

unsigned members_wait_effects(members *m, unsigned wanted)
{
    int64_t deadline = process_now_ms() + REAL_PATIENCE_MS, found;
    unsigned revived = 0;
    while ((found = effect_count(&m->place, effects).all) < wanted) {
        if (process_now_ms() > deadline)
            fail_msg("stuck at %lld effects of %u", (long long)found, wanted);
        revived += members_revive(m);
        rest_ms(LOOK_MS);
    }
    return revived;
}

void members_kill_under_load(members *m, unsigned victim, unsigned load, uint32_t after_ms)
{
    real_topic_fill(m->topic, load);
    rest_ms(after_ms);
    members_kill(m, victim);
}

void members_stop_with_deliveries(members *m, unsigned victim, unsigned load)
{
    int64_t deadline = process_now_ms() + REAL_PATIENCE_MS;
    atomic_store(&m->shared->stop_wanted[victim], 1);
    while (!process_wait_stopped(m->pids[victim], 200)) {
        assert_true(process_now_ms() < deadline);
        real_topic_fill(m->topic, m->topic->keys);
    }
    real_topic_fill(m->topic, load);
    members_wait_effects(m, real_topic_total(m->topic));
    kill(m->pids[victim], SIGCONT);
}

/* --- what is left ----------------------------------------------------------------------------- */

typedef struct sights {
    const real_topic *topic;
    unsigned next[REAL_KEYS_MAX]; /* of each key: the number that comes */
    unsigned all, wrong;
} sights;

/* "KEY NUMBER"; once and in order means: the next one of its key. */
static void see(const char *item, void *context)
{
    sights *seen = context;
    unsigned key, number;
    seen->all++;
    if (sscanf(item, "%u %u", &key, &number) != 2 || key >= seen->topic->keys ||
        number != seen->next[key]++) {
        seen->wrong++;
        print_message("effect %u is out of place: %s\n", seen->all, item);
    }
}

/* Before version 2.3.0 an assertion of librdkafka's can fail in a member that leaves the group
 * while it leads an assignment by the cooperative protocol that it has not made yet
 * (confluentinc/librdkafka#4312). To others that is a process that was killed. */
static void expect_end(const members *m, int end)
{
    int may_abort = strstr(m->url, "cooperative") && rd_kafka_version() < 0x020300ff;
    if (end == PROCESS_KILLED + SIGABRT && may_abort)
        print_message("librdkafka has ended a process that left the group\n");
    else
        assert_int_equal(end, PROCESS_OK);
}

void members_finish(members *m, unsigned poisoned)
{
    sights seen = {.topic = m->topic};
    static const char *const none[] = {NULL};
    unsigned total = real_topic_total(m->topic);
    int64_t end = kafka_cluster_end(m->topic->servers, m->topic->topic, m->topic->partitions);
    assert_true(end >= total + poisoned); /* a relay may have sent one twice */
    real_topic_wait(m->topic, end);
    atomic_store(&m->shared->end, 1);
    for (unsigned i = 0; i < m->count; i++)
        expect_end(m, process_wait(m->pids[i], REAL_PATIENCE_MS));
    atomic_store(&m->shared->end, 0);
    effect_each(&m->place, effects, see, &seen);
    assert_int_equal(seen.wrong, 0);
    assert_int_equal(seen.all, total);
    assert_int_equal(inspect_store(&m->place, none).dead, poisoned);
}
