/* The surroundings of a workflow, and the inspection of what it left. */
#include "support/scenario/crash.h"

#include "support/fixture/effect.h"
#include "support/inspect/inspect.h"
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

void crash_stage_open(crash_stage *stage)
{
    scratch_open(&stage->dir);
    scratch_sqlite(stage->url, &stage->dir, "shop.db");
    scratch_file(stage->broker, &stage->dir, "broker");
    stage->shared = process_share(sizeof *stage->shared);
}

void crash_stage_open_on(crash_stage *stage, server_kind kind)
{
    crash_stage_open(stage);
    server_find(&stage->at, kind);
    server_fresh(stage->url, &stage->at);
}

void crash_stage_close(crash_stage *stage)
{
    if (inspect_is_server(stage->url))
        server_drop(stage->url);
    process_unshare(stage->shared, sizeof *stage->shared);
    scratch_close(&stage->dir);
}

/* --- opening and closing ----------------------------------------------------------------------------- */

void crash_world_open_rest(crash_world *w)
{
    const crash_workflow *flow = w->flow;
    REQUIRE_OK(w, semel_outbox_open(&w->outbox, w->store, "out", &w->err));
    semel_inbox_options inbox = {.size = sizeof inbox,
                                 .key = flow->key,
                                 .mode = flow->mode,
                                 .on_in_flight = SEMEL_IN_FLIGHT_REPORT, /* nothing may be stuck */
                                 .lease_ms = CRASH_LEASE_MS,
                                 .attempts_max = flow->attempts_max,
                                 .retention_ms = flow->retention_ms,
                                 .faults = flow->quiet ? NULL : w->outbox};
    REQUIRE_OK(w, semel_inbox_open(&w->inbox, w->store, "in", &inbox, &w->err));
    w->broker =
        (broker_file){.path = w->stage->broker, .refused_topic = w->forgive ? NULL : "refused"};
    REQUIRE_OK(w, broker_file_open(&w->transport, &w->broker, &w->err));
    semel_relay_options relay = {.size = sizeof relay,
                                 .batch = flow->relay_batch,
                                 .lease_ms = CRASH_LEASE_MS,
                                 .attempts_max = flow->attempts_max};
    REQUIRE_OK(w, semel_relay_open(&w->relay, w->outbox, w->transport, &relay, &w->err));
}

void crash_world_open(crash_world *w, const crash_stage *stage, const crash_workflow *flow,
                      int again)
{
    w->stage = stage;
    w->flow = flow;
    w->again = again;
    uint64_t seed = (uint64_t)flow->start_ms + (again ? 2 : 1); /* no token or id comes twice */
    REQUIRE_OK(w, semel_test_seam_open(&w->seam, seed, &w->err));
    semel_test_advance_ms(w->seam, flow->start_ms + (again ? CRASH_LEASE_MS + 1 : 0));
    semel_store_options options = {
        .size = sizeof options, .busy_ms = CRASH_LEASE_MS, .seam = semel_test_seam_get(w->seam)};
    REQUIRE_OK(w, semel_store_open(&w->store, stage->url, &options, &w->err));
    if (!flow->bare)
        crash_world_open_rest(w);
}

void crash_world_close(crash_world *w)
{
    semel_relay_close(w->relay);
    semel_transport_close(w->transport);
    semel_inbox_close(w->inbox);
    semel_outbox_close(w->outbox);
    semel_store_close(w->store);
    semel_test_seam_close(w->seam);
}

void crash_world_pass_ms(crash_world *w, int64_t ms)
{
    semel_test_advance_ms(w->seam, ms);
    inspect_pass_ms(w->stage->url, ms);
}

void crash_world_report(crash_world *w)
{
    for (size_t i = 0; i < crash_point_count; i++)
        w->stage->shared->passed[i] = semel_test_passed(w->seam, crash_points[i]);
}

/* --- work -------------------------------------------------------------------------------------------- */

semel_message crash_message(const char *key)
{
    return (semel_message){.size = sizeof(semel_message),
                           .id = semel_str(key),
                           .type = "order.placed",
                           .correlation_id = semel_str(key),
                           .body = semel_str(key)};
}

static semel_status write_effect(crash_world *w, semel_unit *unit, const char *key,
                                 semel_error *err)
{
    return effect_write(unit, w->stage->url, "effect", key, w->flow->queued, err);
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
    semel_status status = write_effect(w, unit, key, err);
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

static int64_t count_effects(const crash_world *w, const char *key)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM effect WHERE item = '%s'", key);
    return inspect_number(w->stage->url, sql);
}

void crash_send(crash_world *w, const char *key, const char *topic, const char *group)
{
    semel_unit *unit;
    semel_message message = crash_message(key);
    message.id = (semel_bytes){NULL, 0};
    message.topic = topic;
    message.group = group;
    if (count_effects(w, key))
        return;
    REQUIRE_OK(w, semel_unit_begin(&unit, w->store, &w->err));
    REQUIRE_OK(w, write_effect(w, unit, key, &w->err));
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
    semel_counters now;
    size_t sent;
    REQUIRE_OK(w, semel_relay_step(&sent, relay, 0, &w->err));
    REQUIRE_OK(w, semel_store_counters(&now, sizeof now, w->store, &w->err));
    if (now.unsent && !sent)
        crash_world_pass_ms(w, BACKOFF_MAX_MS);
    return now.unsent > 0;
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
    REQUIRE_OK(w, semel_dead_list(w->store, NULL, keep_id, &id, &w->err));
    return id;
}

/* --- the look from outside ------------------------------------------------------------------------------ */

/* Different ids of messages that were committed: those still here, those given up on, those sent. */
typedef struct sent_set {
    broker_log log;
    size_t here; /* not yet in the log */
} sent_set;

static void count_unless_sent(const char *id, void *context)
{
    sent_set *set = context;
    for (size_t i = 0; i < set->log.count; i++)
        if (strcmp(set->log.entries[i].id, id) == 0)
            return;
    set->here++;
}

static int64_t different_ids(const broker_log *log)
{
    int64_t ids = 0;
    for (size_t i = 0; i < log->count; i++) {
        size_t j = 0;
        while (j < i && strcmp(log->entries[i].id, log->entries[j].id) != 0)
            j++;
        ids += i == j;
    }
    return ids;
}

static int64_t committed_messages(const crash_stage *stage)
{
    char sql[256];
    const char *id = inspect_is_postgres(stage->url) ? "convert_from(id, 'UTF8')" : "id";
    sent_set set = {0};
    broker_log_read(&set.log, stage->broker);
    (void)snprintf(sql, sizeof sql,
                   "SELECT %s FROM semel_outbox WHERE topic IS NULL OR topic <> 'in' UNION "
                   "SELECT %s FROM semel_dead WHERE origin = 2",
                   id, id);
    inspect_each(stage->url, sql, count_unless_sent, &set);
    int64_t all = different_ids(&set.log) + (int64_t)set.here;
    broker_log_free(&set.log);
    return all;
}

/* What is counted, in one look: see the names below. */
static const char *const counts[] = {
    "SELECT count(*) FROM semel_marker WHERE state = 0",
    "SELECT count(*) FROM semel_marker WHERE state = 2",
    "SELECT count(*) FROM semel_marker WHERE token IS NOT NULL",
    "SELECT count(*) FROM effect",
    "SELECT count(DISTINCT item) FROM effect",
    "SELECT count(*) FROM semel_outbox",
    "SELECT count(*) FROM semel_outbox WHERE topic = 'in'",
    "SELECT count(*) FROM semel_dead",
    "SELECT count(*) FROM semel_dead WHERE origin = 1",
};
enum { DONE, BURIED, HELD, EFFECTS, DIFFERENT_EFFECTS, UNSENT, WAITING, DEAD, LETTERS, COUNTS };

const char *crash_check_killed(const crash_stage *stage, const crash_workflow *flow)
{
    int64_t n[COUNTS];
    if (flow->kind == CRASH_OTHER)
        return NULL;
    inspect_numbers(n, stage->url, counts, COUNTS);
    int64_t sent = committed_messages(stage);
    int64_t work = flow->kind == CRASH_CLAIM ? n[DONE] : n[EFFECTS];
    if (flow->kind == CRASH_TRANSACTION && n[DONE] != n[EFFECTS])
        return "when it was killed, markers and effects were not the same number";
    if (n[LETTERS] != n[BURIED] && !flow->quiet)
        return "when it was killed, dead markers and dead letters were not the same number";
    if (flow->handed && flow->handed != n[DONE] + n[WAITING])
        return "when it was killed, a message was handed off and still there, or neither";
    if (sent != work + (flow->quiet ? 0 : n[LETTERS]))
        return "when it was killed, the work and its messages were not the same number";
    return NULL;
}

/* Each body under one id, however many copies; and no other number of bodies than expected. */
static const char *check_published(const crash_stage *stage, int64_t expected)
{
    broker_log log;
    const char *wrong = NULL;
    broker_log_read(&log, stage->broker);
    for (size_t i = 0; i < log.count; i++)
        if (broker_log_ids(&log, log.entries[i].body) != 1)
            wrong = "a message was published under two ids: one of them was never committed";
    if (!wrong && different_ids(&log) < expected)
        wrong = "a committed message was never published";
    if (!wrong && different_ids(&log) > expected)
        wrong = "a message was published that nobody committed";
    if (!wrong && !broker_log_is_ordered(&log))
        wrong = "messages of one group were published out of order";
    broker_log_free(&log);
    return wrong;
}

const char *crash_check_ended(const crash_stage *stage, const crash_workflow *flow)
{
    int64_t n[COUNTS];
    inspect_numbers(n, stage->url, counts, COUNTS);
    if (n[DONE] != flow->done)
        return "not as many keys are done as there should be";
    if (n[EFFECTS] != flow->effects || n[DIFFERENT_EFFECTS] != flow->effects)
        return "an effect is missing or happened twice";
    if (n[HELD] != flow->held)
        return "a claim is left behind, or one that lives was removed";
    if (n[UNSENT])
        return "an outgoing message is left behind";
    if (n[DEAD] != flow->dead)
        return "not as many dead letters as there should be";
    if (flow->runs_max && stage->shared->runs > flow->runs_max)
        return "one kill made more than one handler run again";
    return check_published(stage, flow->published);
}
