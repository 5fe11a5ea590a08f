/* Retention that runs by itself.
 *
 * A running consumer or relay calls retention_step() between two turns. A step is one of two
 * things: a look at the notes of an inbox, or, in a round, a step of the sweep. Steps are short,
 * and the longer one has taken, the longer is the pause before the next, so that retention takes a
 * few percent of one thread at most. There is no thread of its own.
 *
 * One process of many makes a round: the note SEMEL_NOTE_SWEEP says when the next one is due, by
 * the store's clock. A process that finds the note overdue sets it to one interval from now, in a
 * transaction that has locked the note, and makes the round. If the process dies before that
 * commit, another one takes the round; if after it, the next round comes after the interval. A
 * round that takes long renews its note. If two processes make rounds at once nevertheless, they
 * remove each marker once.
 *
 * Looks come at least once a minute, because they also tell this process of a horizon that another
 * one has lowered (inbox_stale.c): until then, copies of what that one has forgotten run here as
 * first copies. So there are looks for inboxes without rounds, too.
 *
 * No failure disturbs the run. What may pass is tried again, with backoff; an inbox with any other
 * error is left alone for one interval. That is reported once, and so are failures that do not
 * end. */
#include "core/retention.h"

#include "base/mem.h"
#include "core/unit.h"

enum {
    FIRST_MS = 60000, /* from the start of a run to the first look */
    LOOK_MS = 60000,  /* between two looks */
    BACKOFF_MS = 1000,
    BACKOFF_MAX_MS = 60000,
    PATIENCE = 10,     /* failures in a row that may pass: then they are reported */
    PAUSE_FACTOR = 30, /* a pause is so many times as long as the step before it */
    STEP_SHORT_MS = 2,
    STEP_LONG_MS = 8,
    ROWS_FIRST = 250,
    ROWS_LEAST = 64
};

/* --- opening ---------------------------------------------------------------------------------- */

semel_status retention_open(retention *out, size_t inboxes, const semel_seam *seam,
                            retention_report *report, void *context, semel_error *err)
{
    out->seam = seam;
    out->report = report;
    out->context = context;
    out->inboxes = mem_alloc(inboxes * sizeof *out->inboxes);
    atomic_store(&out->due_ms, INT64_MAX);
    if (!out->inboxes)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for the retention of %zu inboxes",
                          inboxes);
    return SEMEL_OK;
}

void retention_close(retention *r)
{
    mem_free(r->inboxes);
}

/* Positions stay for ever; the letters may have an end. */
static int has_nothing_to_forget(const semel_inbox *inbox)
{
    return inbox->positions && inbox->options.dead_retention_ms == SEMEL_RETENTION_FOREVER;
}

void retention_add(retention *r, semel_inbox *inbox)
{
    const semel_store_driver *driver = inbox->store->driver;
    if ((!driver->notes && !driver->markers->sweep) || has_nothing_to_forget(inbox))
        return;
    for (size_t i = 0; i < r->count; i++)
        if (r->inboxes[i].inbox == inbox)
            return;
    r->inboxes[r->count++] = (retention_inbox){.inbox = inbox};
}

/* --- times ------------------------------------------------------------------------------------ */

static int makes_rounds(const semel_inbox *inbox)
{
    const semel_inbox_options *options = &inbox->options;
    int forgets = options->retention_ms != SEMEL_RETENTION_FOREVER ||
                  options->dead_retention_ms != SEMEL_RETENTION_FOREVER;
    return options->sweep_every_ms != SEMEL_SWEEP_OFF && forgets &&
           inbox->store->driver->markers->sweep;
}

/* A tenth more or less, so that many processes do not do the same at the same moment. */
static int64_t about(const retention *r, int64_t ms)
{
    return ms - ms / 10 + (int64_t)seam_random_below(r->seam, (uint64_t)(ms / 5 + 1));
}

static int64_t interval_of(const semel_inbox *inbox)
{
    return makes_rounds(inbox) ? (int64_t)inbox->options.sweep_every_ms : LOOK_MS;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* NULL if there is none at all. */
static retention_inbox *next_inbox(const retention *r)
{
    retention_inbox *next = NULL;
    for (size_t i = 0; i < r->count; i++)
        if (!next || r->inboxes[i].next_ms < next->next_ms)
            next = &r->inboxes[i];
    return next;
}

void retention_start(retention *r)
{
    int64_t now = seam_steady_ms(r->seam);
    for (size_t i = 0; i < r->count; i++) {
        retention_inbox *it = &r->inboxes[i];
        it->failures = 0;
        it->reported = 0;
        it->next_ms = it->in_round ? now : now + about(r, least(FIRST_MS, interval_of(it->inbox)));
    }
    atomic_store(&r->due_ms, r->count ? next_inbox(r)->next_ms : INT64_MAX);
}

int retention_is_due(const retention *r)
{
    int64_t due = atomic_load_explicit(&r->due_ms, memory_order_relaxed);
    return due != INT64_MAX && seam_steady_ms(r->seam) >= due;
}

/* A step that is overdue is put off, in an outage: that is no reason to wait less. */
uint32_t retention_wait_ms(const retention *r, uint32_t most_ms)
{
    int64_t due = atomic_load_explicit(&r->due_ms, memory_order_relaxed);
    if (due == INT64_MAX)
        return most_ms;
    int64_t left = due - seam_steady_ms(r->seam);
    return left > 0 && left < (int64_t)most_ms ? (uint32_t)left : most_ms;
}

/* --- the look --------------------------------------------------------------------------------- */

typedef struct look {
    const retention *r;
    retention_inbox *it;
    int is_due;
    int64_t left_ms; /* until the round is due, if it is not */
} look;

/* A time that is further away than the interval comes from a process with a longer one, or from a
 * clock that was wrong: it does not count. */
static void judge(look *l, const semel_note_value *note)
{
    int64_t interval = interval_of(l->it->inbox);
    l->left_ms = note->number - note->now_ms;
    l->is_due = l->it->in_round || l->left_ms <= 0 || l->left_ms > interval + interval / 4;
}

static semel_status read_due(look *l, work_unit *unit, semel_note_lock lock, semel_note_value *out,
                             semel_error *err)
{
    semel_status status = unit->store->driver->notes->read(unit->state, l->it->inbox->scope,
                                                           SEMEL_NOTE_SWEEP, lock, out, err);
    if (!status)
        judge(l, out);
    return status;
}

/* Without a lock at first: nearly always the round is not due. */
static semel_status take_round(look *l, work_unit *unit, semel_error *err)
{
    semel_note_value note;
    semel_status status = read_due(l, unit, SEMEL_NOTE_UNLOCKED, &note, err);
    if (!status && l->is_due)
        status = read_due(l, unit, SEMEL_NOTE_EXCLUSIVE, &note, err);
    if (status || !l->is_due)
        return status;
    note.number = note.now_ms + about(l->r, interval_of(l->it->inbox));
    status = unit->store->driver->notes->write(unit->state, l->it->inbox->scope, SEMEL_NOTE_SWEEP,
                                               &note, err);
    return status ? status : store_fault(unit->store, "round.stored", err);
}

static semel_status look_in_unit(work_unit *unit, void *context, semel_error *err)
{
    look *l = context;
    l->is_due = 0;
    semel_status status = inbox_learn_horizon(unit, l->it->inbox, err);
    return status || !makes_rounds(l->it->inbox) ? status : take_round(l, unit, err);
}

static semel_status look_at_notes(look *l, semel_error *err)
{
    semel_store *store = l->it->inbox->store;
    l->left_ms = LOOK_MS;
    l->is_due = makes_rounds(l->it->inbox);
    if (!store->driver->notes)
        return SEMEL_OK;
    semel_status status = store_transact(store, SEMEL_BEGIN_RELAXED, look_in_unit, l, err);
    return status || !l->is_due ? status : store_fault(store, "round.committed", err);
}

static semel_status do_look(const retention *r, retention_inbox *it, int64_t now, semel_error *err)
{
    look l = {.r = r, .it = it};
    semel_status status = look_at_notes(&l, err);
    if (status)
        return status;
    if (l.is_due && !it->in_round)
        it->rows = ROWS_FIRST;
    it->in_round = l.is_due;
    it->stepped = 0;
    it->renew_ms = now + interval_of(it->inbox) / 2;
    it->next_ms = l.is_due ? now : now + about(r, least(l.left_ms, LOOK_MS)) + 1;
    return SEMEL_OK;
}

/* --- the round -------------------------------------------------------------------------------- */

static void adapt_rows(retention_inbox *it, int64_t took_ms)
{
    if (took_ms < STEP_SHORT_MS && it->rows * 2 <= SEMEL_SWEEP_BATCH)
        it->rows *= 2;
    else if (took_ms > STEP_LONG_MS && it->rows / 2 >= ROWS_LEAST)
        it->rows /= 2;
}

/* What was reported is over when a whole round has succeeded. */
static void recover(const retention *r, retention_inbox *it)
{
    if (it->reported)
        r->report(r->context, NULL);
    it->reported = 0;
}

static semel_status do_sweep(const retention *r, retention_inbox *it, int64_t begun,
                             semel_error *err)
{
    size_t swept;
    int more = 0;
    semel_status status = semel_inbox_sweep(&swept, &more, it->inbox, it->rows, err);
    if (status)
        return status;
    int64_t now = seam_steady_ms(r->seam);
    it->stepped = 1;
    adapt_rows(it, now - begun);
    it->next_ms = now;
    if (more)
        return SEMEL_OK;
    it->in_round = 0;
    it->next_ms = now + about(r, least(LOOK_MS, interval_of(it->inbox)));
    recover(r, it);
    return SEMEL_OK;
}

/* --- the step --------------------------------------------------------------------------------- */

static void set_back(const retention *r, retention_inbox *it, const semel_error *why)
{
    it->failures++;
    if (!it->reported && (!why->retryable || it->failures >= PATIENCE)) {
        it->reported = 1;
        r->report(r->context, why);
    }
    int64_t now = seam_steady_ms(r->seam);
    if (why->retryable) {
        it->next_ms = now + seam_backoff_ms(r->seam, BACKOFF_MS, BACKOFF_MAX_MS, it->failures);
        return;
    }
    it->in_round = 0;
    it->next_ms = now + about(r, interval_of(it->inbox));
}

static void advance(const retention *r, retention_inbox *it, int64_t now)
{
    semel_error why;
    int looks = !it->in_round || (it->stepped && now >= it->renew_ms);
    semel_status status = looks ? do_look(r, it, now, &why) : do_sweep(r, it, now, &why);
    if (status) {
        set_back(r, it, &why);
        return;
    }
    it->failures = 0;
    if (!makes_rounds(it->inbox))
        recover(r, it);
}

void retention_step(retention *r)
{
    int64_t begun = seam_steady_ms(r->seam);
    int64_t due = atomic_load(&r->due_ms);
    if (due == INT64_MAX || begun < due ||
        !atomic_compare_exchange_strong(&r->due_ms, &due, INT64_MAX))
        return;
    advance(r, next_inbox(r), begun);
    int64_t now = seam_steady_ms(r->seam);
    int64_t rested = now + (now - begun + 1) * PAUSE_FACTOR;
    int64_t next = next_inbox(r)->next_ms;
    atomic_store(&r->due_ms, next > rested ? next : rested);
}
