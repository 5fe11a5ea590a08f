/* What a workflow left, seen from outside when no process is running. With SQL every row is
 * counted. Without, a look through the public interface shows effects, messages and dead
 * letters, but no markers: that a key is done is then seen when the workflow is run once more
 * and nothing happens (crash_kill.c). */
#include "support/scenario/crash.h"

#include "support/inspect/inspect.h"
#include "support/inspect/inspect_store.h"

#include <stdio.h>
#include <string.h>

/* Different ids of messages that were committed: those still here, those given up on, those
 * sent. */
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

static int64_t committed_messages(const crash_stage *stage)
{
    char sql[256];
    const char *id = inspect_is_postgres(stage->place->url) ? "convert_from(id, 'UTF8')" : "id";
    sent_set set = {0};
    broker_log_read(&set.log, stage->broker);
    (void)snprintf(sql, sizeof sql,
                   "SELECT %s FROM semel_outbox WHERE topic IS NULL OR topic <> 'in' UNION "
                   "SELECT %s FROM semel_dead WHERE origin = 2",
                   id, id);
    inspect_each(stage->place->url, sql, count_unless_sent, &set);
    int64_t all = (int64_t)broker_log_different_ids(&set.log) + (int64_t)set.here;
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

static int64_t count_sent(const crash_stage *stage)
{
    broker_log log;
    broker_log_read(&log, stage->broker);
    int64_t sent = (int64_t)broker_log_different_ids(&log);
    broker_log_free(&log);
    return sent;
}

/* At the clock of the second process, as all times in the store are. Markers cannot be seen. */
static void look_without_sql(int64_t n[COUNTS], const crash_stage *stage,
                             const crash_workflow *flow)
{
    crash_world w = {0};
    crash_workflow bare = *flow;
    bare.bare = 1;
    crash_world_open(&w, stage, &bare, CRASH_LOOK);
    crash_collect(&w);
    store_contents found = inspect_open_store(w.base.store);
    crash_world_close(&w);
    effect_numbers effects = effect_count(stage->place, "effect");
    for (size_t i = 0; i < COUNTS; i++)
        n[i] = INSPECT_UNKNOWN;
    n[EFFECTS] = effects.all;
    n[DIFFERENT_EFFECTS] = effects.different;
    n[UNSENT] = found.unsent;
    n[DEAD] = found.dead;
    n[LETTERS] = found.letters;
}

static int differ(int64_t one, int64_t other)
{
    return one != INSPECT_UNKNOWN && one != other;
}

/* What was sent may be unsent as well, since the process may have died before it settled that. */
static const char *check_killed_without_sql(const crash_stage *stage, const crash_workflow *flow)
{
    int64_t n[COUNTS];
    look_without_sql(n, stage, flow);
    int64_t sent = count_sent(stage);
    int64_t work = n[EFFECTS] + (flow->quiet ? 0 : n[LETTERS]);
    if (n[EFFECTS] != n[DIFFERENT_EFFECTS])
        return "when it was killed, an effect had happened twice";
    if (flow->handed && flow->handed != n[UNSENT]) /* for each one handed off a handler sends one */
        return "when it was killed, a message was handed off and still there, or neither";
    if (work < sent || work > sent + n[UNSENT] + n[DEAD] - n[LETTERS])
        return "when it was killed, the work and its messages were not the same number";
    return NULL;
}

const char *crash_check_killed(const crash_stage *stage, const crash_workflow *flow)
{
    int64_t n[COUNTS];
    if (flow->kind == CRASH_OTHER)
        return NULL;
    if (!stage->place->has_sql)
        return check_killed_without_sql(stage, flow);
    inspect_numbers(n, stage->place->url, counts, COUNTS);
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
    int64_t ids = (int64_t)broker_log_different_ids(&log);
    if (!wrong && ids < expected)
        wrong = "a committed message was never published";
    if (!wrong && ids > expected)
        wrong = "a message was published that was not committed";
    if (!wrong && !broker_log_is_ordered(&log))
        wrong = "messages of one group were published out of order";
    broker_log_free(&log);
    return wrong;
}

const char *crash_check_ended(const crash_stage *stage, const crash_workflow *flow)
{
    int64_t n[COUNTS];
    if (stage->place->has_sql)
        inspect_numbers(n, stage->place->url, counts, COUNTS);
    else
        look_without_sql(n, stage, flow);
    if (differ(n[DONE], flow->done))
        return "not as many keys are done as there should be";
    if (n[EFFECTS] != flow->effects || n[DIFFERENT_EFFECTS] != flow->effects)
        return "an effect is missing or happened twice";
    if (differ(n[HELD], flow->held))
        return "a claim is left behind, or one that lives was removed";
    if (n[UNSENT])
        return "an outgoing message is left behind";
    if (n[DEAD] != flow->dead)
        return "not as many dead letters as there should be";
    if (flow->runs_max && stage->shared->runs > flow->runs_max)
        return "one kill made more than one handler run again";
    return check_published(stage, flow->published);
}

/* Each has its space behind it, and so has the point that is looked for. */
static int is_listed(const char *points, const char *point)
{
    char word[CRASH_TEXT];
    (void)snprintf(word, sizeof word, "%s ", point);
    return strstr(points, word) != NULL;
}

const char *crash_check_deliveries(const crash_stage *stage, const crash_workflow *flow,
                                   const char *point)
{
    uint32_t seen = stage->shared->deliveries;
    if (!flow->deliveries)
        return NULL;
    uint32_t again = point && !is_listed(flow->settled, point) ? CRASH_QUEUE_EACH : 0;
    if (seen < flow->deliveries)
        return "a message was not delivered";
    return seen > flow->deliveries + again ? "a message that was settled was delivered again"
                                           : NULL;
}
