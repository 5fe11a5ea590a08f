/* The workflows of crash.h, as a table. Each is written so that it may be run again from its
 * beginning, as after a restart: what the broker has not been told of comes again, what was done is
 * not done again. */
#include "core/unit.h"
#include "support/scenario/crash.h"

#include "support/inspect/inspect.h"
#include "support/process/process.h"

#include <semel/dead.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define REQUIRE(condition)  PROCESS_REQUIRE(condition)
#define REQUIRE_OK(w, call) PROCESS_REQUIRE_OK(call, &(w)->err)

/* --- receiving -------------------------------------------------------------------------------- */

static void deliver_all(crash_world *w, const char *const keys[], size_t count, uint32_t delivery)
{
    for (size_t i = 0; i < count; i++)
        (void)crash_deliver(w, keys[i], w->again ? delivery + 1 : delivery);
}

#define DELIVER(w, delivery, ...)                      \
    deliver_all(w, (const char *const[]){__VA_ARGS__}, \
                sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *), delivery)

static void run_receive(crash_world *w)
{
    DELIVER(w, 1, "one", "two", "three");
}

static void run_redelivery(crash_world *w)
{
    DELIVER(w, 2, "one", "two", "three");
}

static void run_renew(crash_world *w)
{
    DELIVER(w, 1, "slow-one", "two", "slow-three");
}

static void run_fail(crash_world *w)
{
    DELIVER(w, 1, "one", "fail-two", "fail-three");
}

static void run_bury(crash_world *w)
{
    DELIVER(w, 1, "one", "poison", "three");
}

static void redeliver_failed(crash_world *w, const semel_message *const messages[],
                             const semel_outcome outcomes[], size_t count)
{
    char key[CRASH_TEXT];
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(key, sizeof key, "%s", (const char *)messages[i]->body.data);
        if (!semel_outcome_settled(outcomes[i]))
            (void)crash_deliver(w, key, messages[i]->delivery + 1);
    }
}

static void run_batch(crash_world *w)
{
    enum { COUNT = 20, FAILING = 7 };
    static char keys[COUNT][CRASH_TEXT];
    semel_message messages[COUNT];
    const semel_message *list[COUNT];
    semel_outcome outcomes[COUNT];
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(keys[i], CRASH_TEXT, "%s-%d", i == FAILING ? "fail" : "order", COUNT - i);
        messages[i] = crash_message(keys[i]);
        messages[i].delivery = w->again ? 2 : 1;
        list[i] = &messages[i];
    }
    REQUIRE_OK(
        w, semel_inbox_receive_batch(outcomes, w->inbox, list, COUNT, crash_handler, w, &w->err));
    redeliver_failed(w, list, outcomes, COUNT);
}

/* Each message takes longer than its batch is given: one is handled at a time, and the others are
 * left. */
static semel_status take_too_long(semel_unit *unit, const semel_message *message, void *context,
                                  semel_error *err)
{
    crash_world *w = context;
    semel_test_advance_ms(w->base.seam, 2);
    return crash_handler(unit, message, w, err);
}

static void run_slow_batch(crash_world *w)
{
    enum { COUNT = 4 };
    static const char *const keys[COUNT] = {"four", "three", "two", "one"};
    unit_pace pace = {.budget_ms = 1};
    unit_terms terms = {.pace = &pace};
    semel_message messages[COUNT];
    const semel_message *list[COUNT];
    semel_outcome outcomes[COUNT];
    for (int i = 0; i < COUNT; i++) {
        messages[i] = crash_message(keys[i]);
        messages[i].delivery = 1; /* of a broker that does not say which come again */
        list[i] = &messages[i];
    }
    do {
        pace.cut = 0;
        REQUIRE_OK(w, inbox_receive_batch(outcomes, NULL, w->inbox, list, COUNT, take_too_long, w,
                                          &terms, &w->err));
    } while (pace.cut);
}

/* --- sending ---------------------------------------------------------------------------------- */

/* Sends a message in a unit that is rolled back: it must never be published. */
static void send_rolled_back(crash_world *w)
{
    semel_unit *unit;
    semel_message rolled_back = crash_message("rolled-back");
    REQUIRE_OK(w, semel_unit_begin(&unit, w->base.store, &w->err));
    REQUIRE_OK(w, semel_unit_send(unit, w->outbox, &rolled_back, &w->err));
    semel_unit_rollback(unit);
}

static void run_relay(crash_world *w)
{
    crash_send(w, "1", "out", "group");
    crash_send(w, "2", "out", NULL);
    send_rolled_back(w);
    crash_send(w, "3", "out", "group");
    crash_send(w, "4", "out", "group");
    crash_drain(w);
}

/* --- the same by a relay that runs, and so leases ahead --------------------------------------- */

enum { RUNNING = 8 };

static int are_all_out(const crash_world *w)
{
    broker_log log;
    size_t ids = 0;
    broker_log_read(&log, w->stage->broker);
    for (int i = 1; i <= RUNNING; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "%d", i);
        ids += broker_log_ids(&log, key) > 0;
    }
    broker_log_free(&log);
    return ids == RUNNING;
}

static void stop_when_all_are_out(void *context)
{
    crash_world *w = context;
    if (are_all_out(w))
        semel_relay_stop(w->relay);
}

/* The group's messages are every fourth, so that there is always something else to lease
 * meanwhile. */
static void run_running(crash_world *w)
{
    for (int i = 1; i <= RUNNING; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "%d", i);
        crash_send(w, key, "out", i % 4 == 1 ? "group" : NULL);
    }
    w->broker.after = stop_when_all_are_out;
    w->broker.context = w;
    if (!are_all_out(w))
        REQUIRE_OK(w, semel_relay_run(w->relay, &w->err));
    crash_drain(w);
}

static void run_refused(crash_world *w)
{
    crash_send(w, "1", "refused", NULL);
    crash_send(w, "2", "out", NULL);
    crash_send(w, "3", "refused", "group");
    crash_send(w, "4", "out", "group");
    crash_drain(w);
}

static void take_a_turn(crash_world *w)
{
    size_t sent;
    REQUIRE_OK(w, semel_relay_step(&sent, w->relay, 0, &w->err));
}

/* The first of the group waits; those behind it are parked by turns that send nothing, then by one
 * that does. */
static void run_waiting(crash_world *w)
{
    crash_send(w, "1", "refused", "group");
    take_a_turn(w);
    crash_send(w, "2", "out", "group");
    crash_send(w, "3", "out", "group");
    take_a_turn(w);
    crash_send(w, "4", "out", "group");
    crash_send(w, "5", "out", "other");
    take_a_turn(w);
    crash_drain(w);
}

/* --- hand-off --------------------------------------------------------------------------------- */

static void prepare_handoff(crash_world *w)
{
    static const char *const keys[] = {"one", "fail-two", "three"};
    semel_outbox *box;
    REQUIRE_OK(w, semel_outbox_open(&box, w->base.store, "box", &w->err));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        semel_message message = crash_message(keys[i]);
        message.topic = "in";
        REQUIRE_OK(w, semel_outbox_send(box, &message, &w->err));
    }
    semel_outbox_close(box);
}

static void prepare_refused_handoff(crash_world *w)
{
    semel_outbox *box;
    semel_message message = crash_message("keyless");
    message.topic = "in";
    message.correlation_id = (semel_bytes){NULL, 0};
    prepare_handoff(w);
    REQUIRE_OK(w, semel_outbox_open(&box, w->base.store, "box", &w->err));
    REQUIRE_OK(w, semel_outbox_send(box, &message, &w->err));
    semel_outbox_close(box);
}

/* Messages that are not handed off yet. Without SQL: what is unsent and was not sent by a handler,
 * which sends one message for each effect. */
static int64_t count_waiting(crash_world *w)
{
    if (w->stage->place->has_sql)
        return inspect_number(w->stage->place->url,
                              "SELECT count(*) FROM semel_outbox WHERE topic = 'in'");
    int64_t unsent = crash_unsent(w);
    return unsent - effect_count(w->stage->place, "effect").all;
}

/* What the handlers send stays for the relay that comes last. */
static void run_handoff(crash_world *w)
{
    semel_outbox *box;
    semel_relay *relay;
    semel_relay_options options = {.size = sizeof options, .lease_ms = CRASH_LEASE_MS};
    int steps = 0;
    REQUIRE_OK(w, semel_outbox_open(&box, w->base.store, "box", &w->err));
    REQUIRE_OK(w,
               semel_relay_open_local(&relay, box, w->inbox, crash_handler, w, &options, &w->err));
    while (crash_step(w, relay) && count_waiting(w))
        REQUIRE(++steps < 10);
    semel_relay_close(relay);
    semel_outbox_close(box);
}

/* --- sweeping --------------------------------------------------------------------------------- */

enum {
    SWEEP_RETENTION_MS = 300000,
    SWEEP_LATER_MS = 400000,
    SWEEP_HELD_MS = 10000000,
    SWEEP_MADE_BEFORE_MS = 3600000
};

/* Six old keys, a claim that lives on, three fresh keys; and none of the messages is sent yet. */
static void prepare_sweep(crash_world *w)
{
    semel_inbox_options options = {.size = sizeof options,
                                   .mode = SEMEL_CLAIM,
                                   .lease_ms = SWEEP_HELD_MS,
                                   .accept_changes = 1};
    semel_message held = crash_message("held");
    semel_inbox *claims;
    semel_unit *unit;
    semel_outcome outcome;
    semel_test_advance_ms(w->base.seam, -SWEEP_LATER_MS);
    DELIVER(w, 1, "old-1", "old-2", "old-3", "old-4", "old-5", "old-6");
    REQUIRE_OK(w, semel_inbox_open(&claims, w->base.store, "in", &options, &w->err));
    REQUIRE_OK(w, semel_unit_begin(&unit, w->base.store, &w->err));
    REQUIRE_OK(w, semel_unit_claim(&outcome, unit, claims, &held, &w->err));
    REQUIRE(outcome == SEMEL_CLAIMED);
    crash_world_pass_ms(w, SWEEP_LATER_MS);
    DELIVER(w, 1, "new-1", "new-2", "new-3");
    _exit(PROCESS_OK); /* the claim is not given back */
}

/* Copies of the old ones, which were made an hour before they were handled. While the marker is
 * there, a copy is a duplicate; if the marker is gone, the store knows that it is. */
static void deliver_old_copies(crash_world *w, int swept)
{
    const semel_seam *seam = semel_test_seam_get(w->base.seam);
    char key[] = "old-1";
    for (; key[4] <= '6'; key[4]++) {
        semel_message copy = crash_message(key);
        semel_outcome outcome = SEMEL_UNDECIDED;
        copy.time_ms = seam->wall_ms(seam->context) - SWEEP_LATER_MS - SWEEP_MADE_BEFORE_MS;
        semel_status status =
            semel_inbox_receive(&outcome, w->inbox, &copy, crash_handler, w, &w->err);
        REQUIRE((status == SEMEL_EREJECTED && outcome == SEMEL_STALE) ||
                (status == SEMEL_OK && outcome == SEMEL_DUPLICATE && !swept));
    }
}

static void run_sweep(crash_world *w)
{
    size_t swept;
    int more = 1, steps = 0;
    if (w->again)
        deliver_old_copies(w, 0);
    while (more) {
        REQUIRE_OK(w, semel_inbox_sweep(&swept, &more, w->inbox, 4, &w->err));
        REQUIRE(++steps < 20);
    }
    if (w->again)
        deliver_old_copies(w, 1);
}

/* --- replaying -------------------------------------------------------------------------------- */

static void prepare_letter(crash_world *w)
{
    w->forgive = 0;
    REQUIRE(crash_deliver(w, "poison", 1) == SEMEL_DEAD);
}

static void run_replay(crash_world *w)
{
    semel_outcome outcome;
    int64_t id = crash_letter(w);
    w->forgive = 1;
    if (!id)
        return;
    REQUIRE_OK(w, semel_inbox_replay(&outcome, w->inbox, id, crash_handler, w, &w->err));
    REQUIRE(outcome == SEMEL_PROCESSED || outcome == SEMEL_DUPLICATE);
}

static void prepare_unsendable(crash_world *w)
{
    crash_send(w, "1", "refused", NULL);
    crash_drain(w);
    REQUIRE(crash_letter(w) != 0);
}

static void run_send_again(crash_world *w)
{
    int64_t id = crash_letter(w);
    w->broker.refused_topic = NULL;
    if (id)
        REQUIRE_OK(w, semel_outbox_replay(w->outbox, id, &w->err));
    crash_drain(w);
}

/* --- migrating -------------------------------------------------------------------------------- */

static void run_migrate(crash_world *w)
{
    REQUIRE_OK(w, semel_store_migrate(w->base.store, &w->err));
    crash_world_open_rest(w);
    effect_build(w->stage->place, "effect");
    DELIVER(w, 1, "one");
}

/* --- the table -------------------------------------------------------------------------------- */

#define RECEIVE  "receive.begun receive.marked receive.handled receive.committed "
#define COUNT    "count.stored count.committed "
#define CLAIM    "claim.stored claim.committed claim.handled finish.stored finish.committed "
#define RELAY    "relay.leased relay.taken relay.published relay.settled relay.done "
#define PUBLISH  "publish.stored publish.committed "
#define DELIVERY "deliver.stored deliver.committed "
#define SETTLE   "extend.stored extend.committed settle.stored settle.committed "
/* in a batch, and then by itself what has failed */
#define HANDOFF                                                                          \
    "batch.marked batch.handled batch.settled batch.committed relay.leased relay.taken " \
    "handoff.marked handoff.handled handoff.committed "

const crash_workflow crash_workflows[] = {
    {.name = "receive",
     .points = RECEIVE "send.stored ",
     .run = run_receive,
     .done = 3,
     .effects = 3,
     .published = 3},
    {.name = "receive a redelivery",
     .points = RECEIVE COUNT "send.stored ",
     .run = run_redelivery,
     .done = 3,
     .effects = 3,
     .published = 3},
    {.name = "claim",
     .points = CLAIM "send.stored ",
     .kind = CRASH_CLAIM,
     .mode = SEMEL_CLAIM,
     .run = run_receive,
     .runs_max = 4,
     .done = 3,
     .published = 3},
    {.name = "claim and renew",
     .points = CLAIM "renew.stored send.stored ",
     .kind = CRASH_CLAIM,
     .mode = SEMEL_CLAIM,
     .run = run_renew,
     .runs_max = 4,
     .done = 3,
     .published = 3},
    {.name = "fail",
     .points = RECEIVE COUNT "fail.stored fail.committed send.stored ",
     .run = run_fail,
     .done = 3,
     .effects = 3,
     .published = 3},
    {.name = "fail in claim mode",
     .points = CLAIM "fail.stored fail.committed send.stored ",
     .kind = CRASH_CLAIM,
     .mode = SEMEL_CLAIM,
     .run = run_fail,
     .done = 3,
     .published = 3},
    {.name = "bury",
     .points = RECEIVE COUNT "fail.stored fail.committed bury.stored bury.committed send.stored ",
     .attempts_max = 3,
     .run = run_bury,
     .done = 2,
     .effects = 2,
     .published = 3,
     .dead = 1},
    {.name = "bury in claim mode",
     .points = CLAIM "fail.stored fail.committed bury.stored bury.committed send.stored ",
     .kind = CRASH_CLAIM,
     .mode = SEMEL_CLAIM,
     .attempts_max = 3,
     .run = run_bury,
     .done = 2,
     .published = 3,
     .dead = 1},
    {.name = "batch",
     .points = RECEIVE COUNT "send.stored batch.marked batch.handled batch.committed ",
     .run = run_batch,
     .done = 20,
     .effects = 20,
     .published = 20},
    {.name = "batch that is cut",
     .points = "send.stored batch.marked batch.handled batch.left batch.committed ",
     .run = run_slow_batch,
     .done = 4,
     .effects = 4,
     .published = 4},
    {.name = "run of a partition",
     .points = COUNT "fail.stored fail.committed bury.stored bury.committed send.stored "
                     "run.read run.handled run.moved run.committed ",
     .kind = CRASH_SEND,
     .positions = 1,
     .attempts_max = 4,
     .quiet = 1,
     .run = crash_run_positions,
     .effects = 4,
     .published = 4,
     .dead = 1},
    {.name = "relay",
     .points = "send.stored " RELAY,
     .kind = CRASH_SEND,
     .relay_batch = 2,
     .run = run_relay,
     .effects = 4,
     .published = 4},
    {.name = "relay that runs",
     .points = "send.stored " RELAY,
     .kind = CRASH_SEND,
     .relay_batch = 2,
     .run = run_running,
     .effects = RUNNING,
     .published = RUNNING},
    {.name = "relay that keeps what it has sent",
     .points = "send.stored " RELAY,
     .kind = CRASH_SEND,
     .relay_batch = 2,
     .keep_sent_ms = 1000 * (uint64_t)CRASH_HISTORY_MS,
     .run = crash_run_history,
     .effects = CRASH_HISTORY_MESSAGES,
     .published = CRASH_HISTORY_MESSAGES},
    {.name = "relay that forgets what it has sent",
     .points = "history.removed history.committed ",
     .kind = CRASH_OTHER,
     .keep_sent_ms = CRASH_HISTORY_MS,
     .start_ms = 10 * (int64_t)CRASH_HISTORY_MS,
     .prepare = crash_prepare_forgetting,
     .run = crash_run_forgetting,
     .effects = CRASH_HISTORY_MESSAGES},
    {.name = "relay what is refused",
     .points = "send.stored " RELAY,
     .kind = CRASH_SEND,
     .attempts_max = 2,
     .run = run_refused,
     .effects = 4,
     .published = 2,
     .dead = 2},
    {.name = "relay while a group waits",
     .points = "send.stored " RELAY,
     .kind = CRASH_SEND,
     .attempts_max = 2,
     .run = run_waiting,
     .effects = 5,
     .published = 4,
     .dead = 1},
    {.name = "queue",
     .points = RECEIVE "send.stored " PUBLISH DELIVERY SETTLE,
     .settled = PUBLISH DELIVERY "settle.committed ",
     .run = crash_run_queue,
     .deliveries = CRASH_QUEUE_MESSAGES,
     .done = CRASH_QUEUE_MESSAGES - 1,
     .effects = CRASH_QUEUE_MESSAGES - 1,
     .published = CRASH_QUEUE_MESSAGES - 1,
     .dead = 1},
    {.name = "queue that is consumed in batches",
     .points = "send.stored batch.marked batch.handled batch.settled batch.committed " DELIVERY,
     .prepare = crash_prepare_consumed,
     .run = crash_run_consumed,
     .done = CRASH_QUEUE_MESSAGES,
     .effects = CRASH_QUEUE_MESSAGES,
     .published = CRASH_QUEUE_MESSAGES},
    {.name = "hand-off",
     .points = "receive.begun receive.marked send.stored " HANDOFF,
     .handed = 3,
     .prepare = prepare_handoff,
     .run = run_handoff,
     .done = 3,
     .effects = 3,
     .published = 3},
    {.name = "hand-off that the inbox refuses",
     .points = "receive.begun receive.marked bury.stored send.stored " HANDOFF,
     .key = "correlation-id",
     .quiet = 1,
     .prepare = prepare_refused_handoff,
     .run = run_handoff,
     .done = 3,
     .effects = 3,
     .published = 3,
     .dead = 1},
    {.name = "sweep",
     .points = "sweep.looked sweep.removed sweep.committed ",
     .kind = CRASH_OTHER,
     .retention_ms = SWEEP_RETENTION_MS,
     .start_ms = SWEEP_LATER_MS,
     .prepare = prepare_sweep,
     .run = run_sweep,
     .done = 3,
     .held = 1,
     .effects = 9,
     .published = 9},
    {.name = "round of retention",
     .points = "sweep.looked sweep.removed sweep.committed round.stored round.committed ",
     .kind = CRASH_OTHER,
     .retention_ms = CRASH_OLD_MS,
     .start_ms = CRASH_OLDER_MS,
     .prepare = crash_prepare_old,
     .run = crash_run_round,
     .done = 3,
     .effects = 9,
     .published = 9},
    {.name = "purge",
     .points = "sweep.looked sweep.removed sweep.committed purge.stored purge.committed ",
     .kind = CRASH_OTHER,
     .start_ms = CRASH_OLDER_MS,
     .prepare = crash_prepare_old,
     .run = crash_run_purge,
     .done = 3,
     .effects = 9,
     .published = 9},
    {.name = "replay",
     .points = "receive.begun receive.marked send.stored replay.begun replay.committed ",
     .kind = CRASH_OTHER,
     .attempts_max = 1,
     .prepare = prepare_letter,
     .run = run_replay,
     .done = 1,
     .effects = 1,
     .published = 2},
    {.name = "replay in claim mode",
     .points = "claim.stored claim.committed finish.stored finish.committed send.stored "
               "replay.begun ",
     .kind = CRASH_OTHER,
     .mode = SEMEL_CLAIM,
     .attempts_max = 1,
     .prepare = prepare_letter,
     .run = run_replay,
     .runs_max = 2,
     .done = 1,
     .published = 2},
    {.name = "replay into the outbox",
     .points = "send.stored " RELAY "replay.begun replay.committed ",
     .kind = CRASH_SEND,
     .attempts_max = 2,
     .prepare = prepare_unsendable,
     .run = run_send_again,
     .effects = 1,
     .published = 1},
    {.name = "replay into a queue",
     .points = RECEIVE "send.stored " DELIVERY SETTLE "replay.begun replay.committed ",
     .settled = DELIVERY "settle.committed replay.begun replay.committed ",
     .kind = CRASH_OTHER,
     .prepare = crash_prepare_queue_letter,
     .run = crash_run_queue_replay,
     .deliveries = 1,
     .done = CRASH_QUEUE_MESSAGES,
     .effects = CRASH_QUEUE_MESSAGES,
     .published = 1},
    {.name = "discard",
     .points = RECEIVE "send.stored discard.stored discard.committed ",
     .kind = CRASH_OTHER,
     .attempts_max = 1,
     .prepare = prepare_letter,
     .run = crash_run_discard,
     .done = 1,
     .effects = 1,
     .published = 2},
    {.name = "letters that expire",
     .points = "receive.begun receive.marked discard.stored discard.committed ",
     .kind = CRASH_OTHER,
     .attempts_max = 1,
     .prepare = prepare_letter,
     .run = crash_run_expiry,
     .published = 1},
    {.name = "replay of a letter without a route",
     .points = "receive.begun receive.marked send.stored replay.begun replay.committed ",
     .kind = CRASH_OTHER,
     .quiet = 1,
     .prepare = crash_prepare_unrouted,
     .run = crash_run_unrouted,
     .done = 2,
     .effects = 1,
     .published = 1},
    {.name = "dead letter that is rejected",
     .points = "receive.begun receive.marked bury.stored bury.committed send.stored " DELIVERY
               "settle.stored settle.committed ",
     .kind = CRASH_OTHER,
     .attempts_max = 1,
     .prepare = crash_prepare_rejected,
     .run = crash_run_rejected,
     .published = 1,
     .dead = 2},
    {.name = "a message is skipped",
     .points = "skip.stored skip.committed ",
     .kind = CRASH_SEND,
     .attempts_max = 2,
     .prepare = crash_prepare_skip,
     .run = crash_run_skip,
     .effects = 2,
     .published = 1,
     .dead = 1},
    {.name = "a message is woken",
     .points = RELAY "wake.stored wake.committed ",
     .kind = CRASH_OTHER,
     .prepare = crash_prepare_wake,
     .run = crash_run_wake,
     .published = 1},
    {.name = "a retry that was asked for",
     .points = "receive.begun receive.marked send.stored replay.begun replay.committed "
               "retry.stored retry.committed audit.stored audit.committed ",
     .kind = CRASH_OTHER,
     .attempts_max = 1,
     .prepare = prepare_letter,
     .run = crash_run_retry,
     .done = 1,
     .effects = 1,
     .published = 2},
    {.name = "migrate",
     .points = RECEIVE "send.stored migrate.applied migrate.committed ",
     .kind = CRASH_OTHER,
     .bare = 1,
     .run = run_migrate,
     .done = 1,
     .effects = 1,
     .published = 1},
};

const size_t crash_workflow_count = sizeof crash_workflows / sizeof *crash_workflows;

crash_workflow crash_in_transaction(const crash_workflow *flow)
{
    crash_workflow out = *flow;
    if (out.kind == CRASH_CLAIM)
        out.kind = CRASH_TRANSACTION;
    if (out.mode == SEMEL_CLAIM)
        out.effects = out.done;
    return out;
}
