/* See sigstop.h. */
#include "support/scenario/sigstop.h"

#include "support/base/check.h"
#include "support/fake/broker_file.h"
#include "support/process/process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int build(void *context)
{
    sigstop *now = context;
    shop_build(now->place);
    return PROCESS_OK;
}

sigstop *sigstop_open(const store_place *place)
{
    sigstop *now = calloc(1, sizeof *now);
    assert_non_null(now);
    now->place = place;
    store_place_file(now->broker, place, "broker");
    now->shared = process_share(sizeof *now->shared);
    assert_int_equal(process_run(build, now), PROCESS_OK);
    return now;
}

void sigstop_close(sigstop *now)
{
    process_unshare(now->shared, sizeof *now->shared);
    free(now);
}

/* --- relays ----------------------------------------------------------------------------------- */

typedef struct stop_point {
    sigstop_where where;
    uint32_t slow_ms;
    int used;
    const sigstop *now;
} stop_point;

static void stop_at(stop_point *b, sigstop_where here)
{
    if (b->where != here || b->used)
        return;
    b->used = 1;
    raise(SIGSTOP);
}

static void wait_to_be_allowed(const sigstop *now)
{
    int64_t deadline = process_now_ms() + SIGSTOP_DEADLINE_MS / 2;
    unsigned allowed;
    while ((allowed = atomic_load(&now->shared->allowed)) != 0 &&
           atomic_load(&now->shared->sent) >= allowed && process_now_ms() < deadline)
        process_nap();
}

static void before_publishing(void *context)
{
    const stop_point *b = context;
    struct timespec moment = {0, (long)b->slow_ms * 1000000};
    nanosleep(&moment, NULL);
    wait_to_be_allowed(b->now);
    stop_at(context, STOP_BEFORE_PUBLISHING);
}

static void after_publishing(void *context)
{
    stop_at(context, STOP_AFTER_PUBLISHING);
}

static semel_status at_point(void *context, const char *point)
{
    if (strcmp(point, "relay.leased") == 0)
        stop_at(context, STOP_IN_TAKE);
    else if (strcmp(point, "relay.settled") == 0)
        stop_at(context, STOP_IN_SETTLE);
    return SEMEL_OK;
}

static void require_passing(const sigstop_plan *plan, semel_status status, const semel_error *err)
{
    int passing = plan->cut && (status == SEMEL_EUNAVAILABLE || status == SEMEL_EUNKNOWN);
    if (status && !passing)
        process_give_up(__FILE__, __LINE__, err->text);
}

/* A step may find something and give it back, if this process was kept from sending it for half of
 * the lease: so one that is to stop steps on until it has. */
static void steps(const stop_point *b, const sigstop_plan *plan, semel_relay *relay,
                  semel_store *store)
{
    struct sigstop_shared *shared = b->now->shared;
    semel_error err;
    semel_counters counters = {.unsent = UINT64_MAX};
    do {
        size_t sent = 0;
        uint32_t wait_ms = plan->drain ? 10 : SIGSTOP_DEADLINE_MS / 2;
        require_passing(plan, semel_relay_step(&sent, relay, wait_ms, &err), &err);
        atomic_fetch_add(&shared->sent, (unsigned)sent);
        require_passing(plan, semel_store_counters(&counters, sizeof counters, store, &err), &err);
    } while (plan->drain ? counters.unsent >= plan->drain : plan->where && !b->used);
}

int sigstop_relay(sigstop *now, const sigstop_plan *plan)
{
    fixture f;
    semel_transport *transport = NULL;
    stop_point b = {plan->where, plan->slow_ms, 0, now};
    broker_file file = {
        .path = now->broker, .before = before_publishing, .after = after_publishing, .context = &b};
    semel_seam seam = {.size = sizeof seam, .context = &b, .fault = at_point};
    semel_store_options with_seam = {
        .size = sizeof with_seam, .busy_ms = SIGSTOP_DEADLINE_MS / 2, .seam = &seam};
    semel_relay_options options = {.size = sizeof options,
                                   .batch = plan->batch,
                                   .lease_ms =
                                       plan->lease_ms ? plan->lease_ms : SIGSTOP_DEADLINE_MS,
                                   .poll_ms = 5};
    fixture_open(&f, now->place, &with_seam);
    semel_outbox *outbox = fixture_outbox(&f, "out");
    OK(broker_file_open(&transport, &file, &last_error));
    fixture_keep_transport(&f, transport);
    steps(&b, plan, fixture_relay(&f, outbox, transport, &options), f.store);
    fixture_close(&f);
    return PROCESS_OK;
}

store_contents sigstop_look(const sigstop *now)
{
    static const char *const effects[] = {"effect", NULL};
    return inspect_store(now->place, effects);
}

void sigstop_check_sent(const sigstop *now, unsigned count)
{
    broker_log log;
    char body[SHOP_TEXT];
    broker_log_read(&log, now->broker);
    for (unsigned i = 1; i <= count; i++) {
        (void)snprintf(body, sizeof body, "%u", i);
        assert_int_equal(broker_log_ids(&log, body), 1);
    }
    assert_true(broker_log_is_ordered(&log));
    broker_log_free(&log);
    store_contents left = sigstop_look(now);
    assert_int_equal(left.unsent, 0);
    assert_int_equal(left.dead, 0);
}
