/* kill -9 at any moment: a process that receives and a process that relays, on one SQLite file,
 * killed again and again while some hundred messages with duplicates go through them. */
#include "support/fake/broker_file.h"
#include "support/fixture/shop.h"
#include "support/inspect/inspect.h"
#include "support/process/process.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
/* cmocka needs the first two. */
#include <cmocka.h>
#include <signal.h>
#include <time.h>

enum {
    DELIVERIES = 3000 / SANITIZER_SLOWDOWN,
    KILLS = 30,
    ROUNDS = 4, /* each with another seed */
    DUPLICATES_IN_TEN = 3,
    FAILING_EVERY = 7,
    LEASE_MS = 100,
    PAUSE_MAX_US = 2000,
    DEADLINE_MS = 60000
};

typedef struct show {
    store_place place;
    char broker[SCRATCH_PATH];
    unsigned deliveries[DELIVERIES]; /* the keys, in the order in which the broker delivers them */
    unsigned keys;
    struct shared {
        shop_tally tally;
        atomic_uint reached; /* deliveries that were started */
        atomic_uint acked;   /* deliveries that were acknowledged */
        atomic_uint allowed; /* as far as the broker delivers for now */
        atomic_int stop;
    } * shared;
} show;

static semel_status fail_sometimes(semel_unit *unit, unsigned key, void *context, semel_error *err)
{
    (void)context;
    if (key % FAILING_EVERY == 0 && semel_unit_attempt(unit) == 1)
        return semel_fail(err, SEMEL_EHANDLER, "not the first time");
    return SEMEL_OK;
}

static void receive_until_settled(shop *s, unsigned key, uint32_t delivery)
{
    semel_status status;
    while (!semel_outcome_settled(shop_receive(s, key, delivery++, &status)))
        PROCESS_REQUIRE(status == SEMEL_EHANDLER && delivery < 100);
}

static int receiver(void *context)
{
    show *now = context;
    struct shared *shared = now->shared;
    shop s;
    semel_inbox_options options = {.size = sizeof options, .attempts_max = 1000};
    shop_open(&s, &now->place, &options, &shared->tally);
    s.during = fail_sometimes;
    for (unsigned i = atomic_load(&shared->acked); i < DELIVERIES; i++) {
        while (i >= atomic_load(&shared->allowed))
            process_nap();
        uint32_t delivery = i < atomic_load(&shared->reached) ? 2 : 1;
        atomic_store(&shared->reached, i + 1);
        receive_until_settled(&s, now->deliveries[i], delivery);
        atomic_store(&shared->acked, i + 1);
    }
    shop_close(&s);
    return PROCESS_OK;
}

static int relay(void *context)
{
    show *now = context;
    shop s;
    semel_error err;
    semel_relay *relay;
    semel_transport *transport;
    semel_counters counters = {.unsent = 1};
    broker_file file = {.path = now->broker};
    semel_relay_options options = {
        .size = sizeof options, .batch = 20, .lease_ms = LEASE_MS, .poll_ms = 10};
    shop_open(&s, &now->place, NULL, &now->shared->tally);
    PROCESS_REQUIRE_OK(broker_file_open(&transport, &file, &err), &err);
    PROCESS_REQUIRE_OK(semel_relay_open(&relay, s.outbox, transport, &options, &err), &err);
    for (int last = 0; counters.unsent || !last;) {
        size_t sent;
        last = atomic_load(
            &now->shared->stop); /* before counting: what is captured after is not seen */
        PROCESS_REQUIRE_OK(semel_relay_step(&sent, relay, 20, &err), &err);
        PROCESS_REQUIRE_OK(semel_store_counters(&counters, sizeof counters, s.base.store, &err),
                           &err);
    }
    semel_relay_close(relay);
    semel_transport_close(transport);
    shop_close(&s);
    return PROCESS_OK;
}

static int build(void *context)
{
    show *now = context;
    shop_build(&now->place);
    return PROCESS_OK;
}

/* --- the killer ------------------------------------------------------------------------------- */

static void plan_deliveries(show *now, uint32_t *seed)
{
    for (unsigned i = 0; i < DELIVERIES; i++) {
        int again = now->keys && shop_random(seed, 10) < DUPLICATES_IN_TEN;
        now->deliveries[i] = again ? shop_random(seed, now->keys) : now->keys++;
    }
}

/* Until so much is done, and then a moment more. */
static void wait_for_progress(show *now, unsigned acked, uint32_t *seed)
{
    int64_t deadline = process_now_ms() + DEADLINE_MS;
    while (atomic_load(&now->shared->acked) < acked) {
        if (process_now_ms() > deadline)
            fail_msg("stuck after %u deliveries", atomic_load(&now->shared->acked));
        process_nap();
    }
    struct timespec moment = {0, (long)shop_random(seed, PAUSE_MAX_US) * 1000};
    nanosleep(&moment, NULL);
}

static void kill_and_restart(show *now, pid_t *pid, process_body *body)
{
    kill(*pid, SIGKILL);
    assert_int_equal(process_wait(*pid, DEADLINE_MS), PROCESS_KILLED + SIGKILL);
    *pid = process_start(body, now);
}

static void perform(show *now, uint32_t seed)
{
    const unsigned stretch = DELIVERIES / (KILLS + 1);
    pid_t receiving = process_start(receiver, now), relaying = process_start(relay, now);
    for (unsigned i = 1; i <= KILLS; i++) {
        atomic_store(&now->shared->allowed, i * stretch);
        wait_for_progress(now, (i - 1) * stretch + shop_random(&seed, stretch), &seed);
        if (shop_random(&seed, 2))
            kill_and_restart(now, &receiving, receiver);
        else
            kill_and_restart(now, &relaying, relay);
    }
    atomic_store(&now->shared->allowed, DELIVERIES);
    assert_int_equal(process_wait(receiving, DEADLINE_MS), PROCESS_OK);
    atomic_store(&now->shared->stop, 1);
    assert_int_equal(process_wait(relaying, DEADLINE_MS), PROCESS_OK);
}

/* --- what is left ----------------------------------------------------------------------------- */

static void check_the_broker(const show *now)
{
    broker_log log;
    char body[SHOP_TEXT];
    broker_log_read(&log, now->broker);
    for (unsigned key = 0; key < now->keys; key++) {
        (void)snprintf(body, sizeof body, "%u", key);
        assert_int_equal(broker_log_ids(&log, body), 1); /* sent, and always under the same id */
    }
    broker_log_free(&log);
}

static void check_the_file(const show *now)
{
    assert_int_equal(inspect_number(now->place.url, "SELECT count(*) FROM effect"), now->keys);
    assert_int_equal(inspect_number(now->place.url, "SELECT count(DISTINCT item) FROM effect"),
                     now->keys);
    assert_int_equal(
        inspect_number(now->place.url, "SELECT count(*) FROM semel_marker WHERE state = 0"),
        now->keys);
    assert_int_equal(inspect_number(now->place.url, "SELECT count(*) FROM semel_marker"),
                     now->keys);
    assert_int_equal(inspect_number(now->place.url, "SELECT count(*) FROM semel_outbox"), 0);
    assert_int_equal(inspect_number(now->place.url, "SELECT count(*) FROM semel_dead"), 0);
}

static void play(uint32_t seed)
{
    show now = {0};
    store_place_open(&now.place, PLACE_SQLITE);
    store_place_file(now.broker, &now.place, "broker");
    now.shared = process_share(sizeof *now.shared);
    plan_deliveries(&now, &seed);
    assert_int_equal(process_run(build, &now), PROCESS_OK);
    perform(&now, seed);
    check_the_file(&now);
    check_the_broker(&now);
    process_unshare(now.shared, sizeof *now.shared);
    store_place_close(&now.place);
}

static void random_kills_lose_nothing_and_repeat_nothing(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= ROUNDS; seed++)
        play(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_kills_lose_nothing_and_repeat_nothing),
    };
    return cmocka_run_group_tests_name("crash: random", tests, NULL, NULL);
}
