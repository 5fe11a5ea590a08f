/* The surroundings of a workflow; crash_check.c looks at what it left. */
#include "support/scenario/crash.h"

#include "support/process/process.h"

#include <semel/dead.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition)  PROCESS_REQUIRE(condition)
#define REQUIRE_OK(w, call) PROCESS_REQUIRE_OK(call, &(w)->err)

#define NAME(text) text,
const char *const crash_points[] = {SEMEL_FAULT_POINTS(NAME)};
#undef NAME
const size_t crash_point_count = sizeof crash_points / sizeof *crash_points;

_Static_assert(sizeof crash_points / sizeof *crash_points <= CRASH_POINTS_MAX, "raise the limit");

void crash_stage_open(crash_stage *stage, store_place *place)
{
    stage->place = place;
    store_place_file(stage->broker, place, "broker");
    stage->shared = process_share(sizeof *stage->shared);
}

void crash_stage_close(crash_stage *stage)
{
    process_unshare(stage->shared, sizeof *stage->shared);
}

/* --- opening and closing ---------------------------------------------------------------------- */

void crash_world_open_rest(crash_world *w)
{
    const crash_workflow *flow = w->flow;
    w->outbox = fixture_outbox(&w->base, "out");
    REQUIRE_OK(w, effect_open(&w->effect, w->stage->place, w->base.store, "effect", &w->err));
    semel_inbox_options inbox = {.size = sizeof inbox,
                                 .key = flow->key,
                                 .mode = flow->mode,
                                 .on_in_flight = SEMEL_IN_FLIGHT_REPORT, /* nothing may be stuck */
                                 .lease_ms = CRASH_LEASE_MS,
                                 .attempts_max = flow->attempts_max,
                                 .retention_ms = flow->retention_ms,
                                 .remember = flow->positions ? SEMEL_REMEMBER_POSITIONS
                                                             : SEMEL_REMEMBER_KEYS,
                                 .faults = flow->quiet ? NULL : w->outbox,
                                 .accept_changes = 1};
    w->inbox = fixture_inbox(&w->base, "in", &inbox);
    w->broker =
        (broker_file){.path = w->stage->broker, .refused_topic = w->forgive ? NULL : "refused"};
    REQUIRE_OK(w, broker_file_open(&w->transport, &w->broker, &w->err));
    fixture_keep_transport(&w->base, w->transport);
    semel_relay_options relay = {.size = sizeof relay,
                                 .batch = flow->relay_batch,
                                 .lease_ms = CRASH_LEASE_MS,
                                 .attempts_max = flow->attempts_max,
                                 .keep_sent_ms = flow->keep_sent_ms};
    w->relay = fixture_relay(&w->base, w->outbox, w->transport, &relay);
}

void crash_world_open(crash_world *w, const crash_stage *stage, const crash_workflow *flow,
                      int again)
{
    w->stage = stage;
    w->flow = flow;
    w->again = again;
    uint64_t seed = (uint64_t)(flow->start_ms + 1 + again); /* no token or id comes twice */
    semel_store_options options = {.size = sizeof options, .busy_ms = CRASH_LEASE_MS};
    int64_t late_ms = flow->start_ms + (again ? CRASH_LEASE_MS + 1 : 0);
    if (stage->place->kind == PLACE_SERVER && server_clock_ms(stage->place->server.kind))
        store_place_pass_ms(stage->place, 0); /* a process is later than those before it */
    fixture_open_with_clock(&w->base, stage->place, seed, late_ms, &options);
    if (!flow->bare)
        crash_world_open_rest(w);
}

void crash_world_close(crash_world *w)
{
    effect_close(&w->effect);
    effect_close(&w->observer.effect);
    semel_store_close(w->observer.store);
    fixture_close(&w->base);
}

void crash_world_pass_ms(crash_world *w, int64_t ms)
{
    semel_test_advance_ms(w->base.seam, ms);
    store_place_pass_ms(w->stage->place, ms);
}

void crash_world_report(crash_world *w)
{
    for (size_t i = 0; i < crash_point_count; i++)
        w->stage->shared->passed[i] = semel_test_passed(w->base.seam, crash_points[i]);
}

/* --- work ------------------------------------------------------------------------------------- */

semel_message crash_message(const char *key)
{
    return (semel_message){.size = sizeof(semel_message),
                           .id = semel_str(key),
                           .type = "order.placed",
                           .correlation_id = semel_str(key),
                           .body = semel_str(key)};
}

static int begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static semel_status send_from(crash_world *w, semel_unit *unit, const char *key, semel_error *err)
{
    char body[CRASH_TEXT + 8];
    (void)snprintf(body, sizeof body, "out-%s", key);
    semel_message out = {
        .size = sizeof out, .type = "order.charged", .topic = "out", .body = semel_str(body)};
    return semel_unit_send(unit, w->outbox, &out, err);
}

/* The work comes first and the failure last: what it did must be undone. */
semel_status crash_handler(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    crash_world *w = context;
    char key[CRASH_TEXT];
    (void)snprintf(key, sizeof key, "%.*s", (int)message->body.len,
                   (const char *)message->body.data);
    __atomic_fetch_add(&w->stage->shared->runs, 1, __ATOMIC_SEQ_CST);
    semel_status status = effect_write(&w->effect, unit, key, w->flow->queued, err);
    if (!status && begins(key, "slow"))
        status = semel_unit_renew(unit, 0, err);
    if (!status)
        status = send_from(w, unit, key, err);
    if (status || w->forgive)
        return status;
    if (begins(key, "poison") && w->lethal)
        raise(SIGKILL);
    if (begins(key, "poison") || (begins(key, "fail") && semel_unit_attempt(unit) == 1))
        return semel_fail(err, SEMEL_EHANDLER, "%s fails, as it should", key);
    return SEMEL_OK;
}

/* What the workflow itself passes and is killed at must not change because the test looks at
 * the store. */
static void open_observer(crash_world *w)
{
    struct crash_observer *observer = &w->observer;
    semel_store_options options = {
        .size = sizeof options, .busy_ms = CRASH_LEASE_MS, .seam = &observer->seam};
    observer->seam = *semel_test_seam_get(w->base.seam);
    observer->seam.fault = NULL;
    REQUIRE_OK(w, semel_store_open(&observer->store, w->stage->place->url, &options, &w->err));
    REQUIRE_OK(w,
               effect_open(&observer->effect, w->stage->place, observer->store, "effect", &w->err));
}

semel_store *crash_observer_store(crash_world *w)
{
    if (!w->observer.store)
        open_observer(w);
    return w->observer.store;
}

void crash_collect(crash_world *w)
{
    if (w->stage->place->has_sql)
        return;
    (void)crash_observer_store(w);
    REQUIRE_OK(w, effect_collect(&w->observer.effect, &w->err));
}

int64_t crash_unsent(crash_world *w)
{
    semel_counters now;
    crash_collect(w);
    REQUIRE_OK(w, semel_store_counters(&now, sizeof now, w->base.store, &w->err));
    return (int64_t)now.unsent;
}

static int has_effect(crash_world *w, const char *key)
{
    crash_collect(w);
    return effect_times(w->stage->place, "effect", key) > 0;
}

void crash_send(crash_world *w, const char *key, const char *topic, const char *group)
{
    semel_unit *unit;
    semel_message message = crash_message(key);
    message.id = (semel_bytes){NULL, 0};
    message.topic = topic;
    message.group = group;
    if (has_effect(w, key))
        return;
    REQUIRE_OK(w, semel_unit_begin(&unit, w->base.store, &w->err));
    REQUIRE_OK(w, effect_write(&w->effect, unit, key, w->flow->queued, &w->err));
    REQUIRE_OK(w, semel_unit_send(unit, w->outbox, &message, &w->err));
    REQUIRE_OK(w, semel_unit_commit(unit, &w->err));
}

semel_outcome crash_deliver(crash_world *w, const char *key, uint32_t delivery)
{
    enum { DELIVERIES_MAX = 20 };
    semel_message message = crash_message(key);
    semel_outcome outcome = SEMEL_UNDECIDED;
    for (message.delivery = delivery; message.delivery < DELIVERIES_MAX; message.delivery++) {
        semel_status status =
            semel_inbox_receive(&outcome, w->inbox, &message, crash_handler, w, &w->err);
        if (semel_outcome_settled(outcome))
            return outcome;
        REQUIRE(outcome == SEMEL_FAILED && status == SEMEL_EHANDLER);
    }
    process_give_up(__FILE__, __LINE__, "a message is never settled");
}

int crash_step(crash_world *w, semel_relay *relay)
{
    enum { BACKOFF_MAX_MS = 60000 };
    size_t sent;
    REQUIRE_OK(w, semel_relay_step(&sent, relay, 0, &w->err));
    int64_t unsent = crash_unsent(w);
    if (unsent && !sent)
        crash_world_pass_ms(w, BACKOFF_MAX_MS);
    return unsent > 0;
}

void crash_drain(crash_world *w)
{
    int steps = 0;
    while (crash_step(w, w->relay))
        REQUIRE(++steps < 100);
}

static semel_status keep_id(const semel_dead *dead, void *context, semel_error *err)
{
    int64_t *id = context;
    (void)err;
    REQUIRE(*id == 0);
    *id = dead->id;
    return SEMEL_OK;
}

int64_t crash_letter(crash_world *w)
{
    int64_t id = 0;
    REQUIRE_OK(w, semel_dead_list(w->base.store, NULL, keep_id, &id, &w->err));
    return id;
}
