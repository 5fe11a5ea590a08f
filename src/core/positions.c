/* Receiving a run: messages of one partition, in their order.
 *
 *   1. A partition that this process knows and that had no trouble (it is warm) goes straight to
 *      step 3.
 *   2. Otherwise a transaction of its own says first what is about to start: all of the run, or one
 *      message with the number of its attempt. If the row says so already, a process has died, or
 *      lost its store, with these messages: then each of them is started by itself and counted
 *      before, so that one that kills its process is found out, and becomes a dead letter at the
 *      limit, while its neighbours do not. Only one thread at a time is at such a message.
 *   3. One transaction handles the run (positions_unit.c).
 *   4. If a handler fails, those before it are handled again without it, in one transaction. Then
 *      its attempt is recorded; or, if it was the last one, the dead letter is stored and the
 *      position moved past it, in one transaction. What comes after it waits, since a position that
 *      moved past an undecided message would lose it.
 *
 * If something failed that may be one message's fault (a queued statement at the commit, a limit of
 * the server), each message up to the end of that run is received by itself, as in step 2.
 *
 * If the process dies after step 2, the count stays: that is its purpose. After SEMEL_EUNKNOWN the
 * partition is not warm any more; the next run reads the row, which knows what became of the
 * commit. */
#include "core/positions.h"

#include "base/message.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

static int64_t first_position(const position_run *r)
{
    return r->positions[r->at];
}

static int is_warm(const position_run *r)
{
    return atomic_load(&r->partition->warm);
}

static void cool_down(const position_run *r)
{
    atomic_store(&r->partition->warm, 0);
}

/* Nothing of the last transaction is left in the unit. */
static void clear_unit(position_run *r)
{
    unit_tx_rollback(r->unit);
    unit_drop_captured(r->unit);
    unit_drop_pending(r->unit);
}

/* --- before it starts ------------------------------------------------------------------------- */

/* Attempts that were started before. The first one of a run that was not counted may never have
 * begun, and a message with a single attempt must get it. */
static uint32_t starts_before(const position_run *r, const position_row *row)
{
    if (row->begun == first_position(r))
        return row->attempts;
    return row->through >= first_position(r) && r->inbox->options.attempts_max > 1;
}

static void announce_one(position_run *r, position_row *row)
{
    uint32_t before = starts_before(r, row);
    r->end = r->at + 1;
    r->attempt = before + (before < UINT32_MAX);
    row->begun = first_position(r);
    row->attempts = r->attempt;
    if (row->through < row->begun)
        row->through = row->begun;
}

static void announce_all(position_run *r, position_row *row)
{
    r->announced = 1;
    row->begun = POSITION_NONE;
    row->attempts = 0;
    row->through = r->announced_through = r->positions[r->end - 1];
}

static int is_suspect(const position_run *r, const position_row *row)
{
    return row->through >= first_position(r) ||
           atomic_load(&r->partition->careful) >= first_position(r);
}

static void note_gap(position_run *r, const position_row *row)
{
    if (first_position(r) > row->next && row->through == POSITION_NONE)
        r->gap = (semel_gap){.size = sizeof r->gap,
                             .inbox = r->inbox->name,
                             .partition = r->partition->name,
                             .expected = row->next,
                             .found = first_position(r)};
}

/* With no other thread beside it, if it may kill the process: the caller sees to that. */
static semel_status store_start(work_unit *unit, void *context, semel_error *err)
{
    position_run *r = context;
    position_row row;
    semel_status status = run_read_row(r, &row, err);
    if (status || r->at >= r->end)
        return status;
    int suspect = is_suspect(r, &row);
    if (suspect && !r->is_alone) {
        r->stranger = 1;
        return SEMEL_OK;
    }
    note_gap(r, &row);
    if (suspect || r->end - r->at == 1)
        announce_one(r, &row);
    else
        announce_all(r, &row);
    status = position_write(unit, r->partition, &row, err);
    return status ? status : store_fault(unit->store, "count.stored", err);
}

static semel_status start_retrying(position_run *r, semel_error *err)
{
    semel_status status;
    uint32_t tries = 0;
    size_t end = r->end;
    do {
        r->end = end;
        r->stranger = r->announced = 0;
        r->attempt = 0;
        r->gap.size = 0;
        status = unit_transact(r->unit, SEMEL_BEGIN_RELAXED, store_start, r, err);
    } while (store_retry_after_pause(r->inbox->store, status, NULL, &tries));
    return status || !(r->announced || r->attempt)
               ? status
               : store_fault(r->inbox->store, "count.committed", err);
}

static void report_gap(position_run *r)
{
    const semel_inbox_options *options = &r->inbox->options;
    if (r->gap.size && options->gap)
        options->gap(options->gap_context, &r->gap);
    r->gap.size = 0;
}

static void stay_alone(position_run *r)
{
    if (!r->is_alone)
        pthread_mutex_lock(&r->inbox->store->suspect_lock);
    r->is_alone = 1;
}

static void leave_alone(position_run *r)
{
    if (r->is_alone)
        pthread_mutex_unlock(&r->inbox->store->suspect_lock);
    r->is_alone = 0;
}

static semel_status start(position_run *r, semel_error *err)
{
    semel_status status = start_retrying(r, err);
    if (!status && r->stranger) {
        stay_alone(r);
        status = start_retrying(r, err);
    }
    report_gap(r);
    return status;
}

/* As if it had not been announced; as far as that can be stored. */
static semel_status store_end(work_unit *unit, void *context, semel_error *err)
{
    position_run *r = context;
    position_row row;
    semel_status status = position_read(&row, unit, r->partition, SEMEL_NOTE_EXCLUSIVE, err);
    if (status)
        return status;
    if (r->announced && row.through == r->announced_through)
        row.through = POSITION_NONE;
    if (r->attempt && row.begun == first_position(r) && row.attempts == r->attempt) {
        row.attempts--;
        row.begun = row.attempts ? row.begun : POSITION_NONE;
        if (!row.attempts && row.through == first_position(r))
            row.through = POSITION_NONE;
    }
    return position_write(unit, r->partition, &row, err);
}

static void take_back_start(position_run *r)
{
    semel_error ignored;
    if (r->at < r->end && (r->announced || r->attempt))
        (void)unit_transact(r->unit, SEMEL_BEGIN_RELAXED, store_end, r, &ignored);
    r->announced = 0;
    r->attempt = 0;
}

/* --- after a failure -------------------------------------------------------------------------- */

/* ELOST: another owner of the partition has decided it meanwhile. */
static semel_status lock_undecided(position_row *row, const position_run *r, semel_error *err)
{
    semel_status status = run_lock_row(r, row, err);
    if (status)
        return status;
    if (r->announced)
        row->through = POSITION_NONE; /* nothing of the rest is under way any more */
    if (row->next <= first_position(r))
        return SEMEL_OK;
    return semel_fail(err, SEMEL_ELOST, "another consumer has gone on with the partition");
}

static semel_status store_attempt(work_unit *unit, void *context, semel_error *err)
{
    const position_run *r = context;
    position_row row;
    semel_status status = lock_undecided(&row, r, err);
    if (status)
        return status;
    row.begun = first_position(r);
    row.attempts = unit->item.attempt;
    if (row.through < row.begun)
        row.through = row.begun;
    status = position_write(unit, r->partition, &row, err);
    return status ? status : store_fault(unit->store, "fail.stored", err);
}

static semel_status move_past(work_unit *unit, void *context, semel_error *err)
{
    position_run *r = context;
    position_row row;
    semel_status status = lock_undecided(&row, r, err);
    if (status)
        return status;
    run_move_row(&row, r, r->at + 1);
    return position_write(unit, r->partition, &row, err);
}

static semel_status store_failure(position_run *r, int dead, const char *why, semel_error *err)
{
    semel_status status = SEMEL_OK;
    if (dead)
        return unit_bury(r->unit, why, move_past, r, err);
    if (!r->attempt)
        status = unit_transact(r->unit, SEMEL_BEGIN_RELAXED, store_attempt, r, err);
    return status || r->attempt ? status : store_fault(r->inbox->store, "fail.committed", err);
}

static void report_failure(position_run *r, size_t index, semel_outcome outcome,
                           const semel_error *why)
{
    if (r->seen) {
        r->unit->item.handler_ns = r->seen[index].handler_ns;
        r->unit->item.started_ns = r->seen[index].started_ns;
    }
    r->unit->item.failure = observe_text(r->inbox->store, &r->unit->arena, why->text);
    unit_report(r->unit, r->inbox, outcome, why);
}

/* The message at `at` has failed, in this attempt; its failure may be that of the last one. That it
 * cannot be stored is no success: then it is tried again. */
static void fail_message(position_run *r, uint32_t attempt, const semel_error *why)
{
    semel_error trouble;
    size_t index = r->at;
    clear_unit(r);
    cool_down(r);
    run_enter(r, index, attempt);
    if (r->terms)
        r->unit->terms = *r->terms;
    int dead = unit_gives_up(r->unit, why->status);
    semel_status status = store_failure(r, dead, why->text, &trouble);
    if (status == SEMEL_ELOST) {
        run_decide(r, index + 1, SEMEL_DUPLICATE);
        return;
    }
    semel_outcome outcome = dead && !status ? SEMEL_DEAD : SEMEL_FAILED;
    report_failure(r, index, outcome, why);
    r->out[index] = outcome;
    if (r->buried)
        r->buried[index] = outcome == SEMEL_DEAD;
    if (outcome == SEMEL_DEAD)
        r->at++;
    else
        r->ended = 1;
    if (outcome == SEMEL_FAILED && !r->failures++)
        r->first_failure = *why;
}

/* Too many starts already, the last of which did not even come back. */
static int gives_up_unstarted(position_run *r)
{
    semel_error why;
    const semel_inbox *inbox = r->inbox;
    int endless = r->terms && r->terms->endless;
    if (endless || !inbox->store->driver->dead || r->attempt <= inbox->options.attempts_max)
        return 0;
    semel_fail(&why, SEMEL_EGIVEUP,
               "gave up after %u attempts that were started and never ended: the process was "
               "killed or crashed",
               (unsigned)inbox->options.attempts_max);
    if (r->seen)
        r->seen[r->at] = (run_seen){0};
    fail_message(r, inbox->options.attempts_max, &why);
    return 1;
}

/* --- the transactions of a run ---------------------------------------------------------------- */

static semel_status transact_retrying(position_run *r, semel_error *err)
{
    semel_status status;
    uint32_t tries = 0;
    do {
        r->unit->final_try = tries == STORE_RETRIES;
        status = run_transact(r, err);
        clear_unit(r);
    } while (store_retry_after_pause(r->inbox->store, status, err, &tries));
    return status;
}

/* The store is there: then it is the message's work that it does not answer. */
static int blames_message(const position_run *r, semel_status status)
{
    int64_t ignored;
    semel_error trouble;
    semel_store *store = r->inbox->store;
    if (unit_blames_handler(status))
        return 1;
    return status == SEMEL_EUNAVAILABLE && r->begun &&
           !store->driver->now(store->state, &ignored, &trouble);
}

static int may_be_one_message(const position_run *r, semel_status status, const semel_error *why)
{
    return unit_blames_handler(status) ||
           (r->begun && (status == SEMEL_EUNAVAILABLE || status == SEMEL_EBUSY ||
                         (status == SEMEL_EMISUSE && why->retryable)));
}

/* It was not a handler that has failed. */
static semel_status after_trouble(position_run *r, semel_status status, semel_error *why)
{
    if (r->at >= r->end)
        return status; /* after the commit */
    if (r->end - r->at > 1 && may_be_one_message(r, status, why)) {
        atomic_store(&r->partition->careful, r->positions[r->end - 1]);
        cool_down(r);
        take_back_start(r);
        return SEMEL_OK;
    }
    if (r->end - r->at == 1 && blames_message(r, status)) {
        semel_error said = *why;
        if (status == SEMEL_EUNAVAILABLE)
            semel_fail(&said, SEMEL_EHANDLER,
                       "the store answers others, but not this message's work: %.400s", why->text);
        fail_message(r, r->attempt ? r->attempt : 1, &said);
        return SEMEL_OK;
    }
    if (status == SEMEL_EUNKNOWN)
        cool_down(r);
    else
        take_back_start(r);
    return status;
}

/* Those before it are committed without it; `failed` is what is recorded then. */
typedef struct setback {
    size_t index;
    int full;
    semel_error why;
} setback;

static semel_status handle_before(position_run *r, setback *failed, semel_error *err)
{
    semel_status status;
    do {
        *failed = (setback){r->failed, r->full, r->why};
        r->end = r->failed;
        status = transact_retrying(r, err);
    } while (status && r->failed != RUN_NONE && r->failed > r->at);
    if (status && r->failed != RUN_NONE)
        *failed = (setback){r->failed, r->full, r->why};
    return status && r->failed != RUN_NONE ? SEMEL_OK : status;
}

/* A failure in a run without a count is the first attempt; with one it is the only message. */
static semel_status handle_failure(position_run *r, semel_error *err)
{
    setback failed = {r->failed, r->full, r->why};
    semel_status status = r->failed > r->at ? handle_before(r, &failed, err) : SEMEL_OK;
    if (status)
        return after_trouble(r, status, err);
    if (r->at != failed.index || (failed.full && failed.index != r->first))
        return SEMEL_OK; /* they were cut short, or it has room in a transaction of its own */
    fail_message(r, r->attempt ? r->attempt : 1, &failed.why);
    return SEMEL_OK;
}

static semel_status handle(position_run *r, semel_error *err)
{
    size_t end = r->end;
    r->first = r->at;
    semel_status status = transact_retrying(r, err);
    if (r->stranger)
        cool_down(r);
    else if (status && r->failed != RUN_NONE)
        status = handle_failure(r, err);
    else if (status)
        status = after_trouble(r, status, err);
    else
        r->ended = r->at < end && r->end < end; /* there is no time for the rest */
    return status;
}

/* How many messages one transaction takes: each may queue and send. */
static size_t next_end(const position_run *r)
{
    size_t most = r->inbox->store->driver->changes_max / 4;
    size_t left = r->count - r->at;
    return r->at + (!r->inbox->store->driver->changes_max || left <= most ? left : most ? most : 1);
}

static semel_status receive_some(position_run *r, semel_error *err)
{
    r->end = next_end(r);
    r->attempt = 0;
    r->announced = r->stranger = 0;
    semel_status status = is_warm(r) ? SEMEL_OK : start(r, err);
    if (!status && r->at < r->end && !gives_up_unstarted(r))
        status = handle(r, err);
    leave_alone(r);
    return status;
}

static semel_status receive_all(position_run *r, semel_error *err)
{
    semel_status status = SEMEL_OK;
    while (!status && r->at < r->count && !r->ended) {
        status = receive_some(r, err);
        r->ended |= r->at < r->count && pace_is_over(r->terms);
    }
    return status;
}

/* --- the call --------------------------------------------------------------------------------- */

/* The rest was reported when it happened. */
static void report_run(position_run *r)
{
    for (size_t i = 0; i < r->count; i++) {
        int processed = r->out[i] == SEMEL_PROCESSED;
        if (!processed && r->out[i] != SEMEL_DUPLICATE)
            continue;
        run_seen none = {0};
        const run_seen *seen = processed && r->seen ? &r->seen[i] : &none;
        inbox_report(r->inbox, &(semel_event){.message = r->messages[i],
                                              .key = run_key(r, i),
                                              .outcome = r->out[i],
                                              .attempt = seen->attempt,
                                              .handler_ns = seen->handler_ns,
                                              .started_ns = seen->started_ns,
                                              .captured = seen->captured});
    }
}

/* What all keys of the run begin with. */
static void write_key_prefix(position_run *r)
{
    const char *origin = r->origin, *partition = r->partition->name;
    enum { ROOM = SEMEL_KEY_MAX - POSITION_DIGITS };
    int len = snprintf(r->key, ROOM, "%s%s%s@", origin, *origin ? ":" : "", partition);
    if (len >= ROOM) {
        positions_write_hash(r->key, origin, partition);
        r->key[POSITIONS_HASH - 1] = '@';
        len = POSITIONS_HASH;
    }
    r->key_prefix = (size_t)len;
}

static semel_status run_in_unit(position_run *r, semel_error *err)
{
    semel_status status = unit_new(&r->unit, r->inbox->store, err);
    if (status)
        return status;
    if (r->terms)
        r->unit->terms = *r->terms;
    if (r->inbox->store->observer) {
        r->seen = arena_alloc(&r->unit->arena, r->count * sizeof *r->seen);
        if (!r->seen)
            status = semel_fail(err, SEMEL_ENOMEM, "out of memory for a run of %zu", r->count);
    }
    if (!status)
        status = receive_all(r, err);
    report_run(r);
    unit_free(r->unit);
    return status;
}

semel_status inbox_receive_run(semel_outcome out[], int buried[], semel_inbox *inbox,
                               const semel_run *given, semel_handler *handler, void *context,
                               const unit_terms *terms, semel_error *err)
{
    char origin_hash[POSITIONS_HASH];
    const char *origin = given->origin ? given->origin : "";
    semel_error why;
    position_run r = {.out = out,
                      .buried = buried,
                      .inbox = inbox,
                      .origin = origin,
                      .positions = given->positions,
                      .messages = given->messages,
                      .count = given->count,
                      .handler = handler,
                      .context = context,
                      .terms = terms};
    for (size_t i = 0; i < r.count; i++) {
        out[i] = SEMEL_UNDECIDED;
        if (buried)
            buried[i] = 0;
    }
    if (strlen(origin) > ORIGIN_MAX || !utf8_valid(origin, strlen(origin))) {
        positions_write_hash(origin_hash, origin, "");
        r.origin = origin_hash;
    }
    semel_status status = positions_find(&r.partition, inbox, given->partition, &why);
    if (!status) {
        write_key_prefix(&r);
        status = run_in_unit(&r, &why);
    }
    if (err && (status || r.failures))
        *err = status ? why : r.first_failure;
    return status;
}

static semel_status check_run(const semel_inbox *inbox, const semel_run *given, semel_error *err)
{
    if (!inbox->positions)
        return semel_fail(err, SEMEL_EINVAL,
                          "inbox \"%s\" remembers keys: open it with SEMEL_REMEMBER_POSITIONS, or "
                          "use semel_inbox_receive_batch()",
                          inbox->name);
    if (!given->partition || !*given->partition)
        return semel_fail(err, SEMEL_EINVAL, "semel_run.partition: it is empty");
    if (given->count > SEMEL_BATCH_MAX)
        return semel_fail(err, SEMEL_ELIMIT, "a run of %zu; SEMEL_BATCH_MAX is %zu", given->count,
                          SEMEL_BATCH_MAX);
    for (size_t i = 0; i < given->count; i++) {
        int64_t before = i ? given->positions[i - 1] : POSITION_NONE;
        if (given->positions[i] <= before || given->positions[i] == INT64_MAX)
            return semel_fail(err, SEMEL_EINVAL,
                              "semel_run.positions: they ascend from 0 on, and number %zu is %lld "
                              "after %lld",
                              i + 1, (long long)given->positions[i], (long long)before);
        semel_status status = message_check(given->messages[i], err);
        if (status)
            return status;
    }
    return SEMEL_OK;
}

semel_status semel_inbox_receive_run(semel_outcome out[], semel_inbox *inbox, const semel_run *run,
                                     semel_handler *handler, void *context, semel_error *err)
{
    semel_run given;
    semel_status status = options_read(&given, sizeof given, run, "semel_run", err);
    for (size_t i = 0; !status && i < given.count; i++)
        out[i] = SEMEL_UNDECIDED;
    if (!status)
        status = check_run(inbox, &given, err);
    if (status || !given.count)
        return status;
    return inbox_receive_run(out, NULL, inbox, &given, handler, context, NULL, err);
}
