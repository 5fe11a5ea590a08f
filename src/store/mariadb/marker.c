/* Taking keys in transaction mode.
 *
 * INSERT ... ON DUPLICATE KEY UPDATE that changes nothing: for a new key an insert, for a known
 * one a lock on its row, and in both cases a wait for a unit that has it uncommitted: if that
 * unit commits, the row is there; if it rolls back, this unit's row is inserted. (INSERT IGNORE
 * would swallow other errors.) LAST_INSERT_ID tells which of the two it was, and brings a done
 * row's fingerprint: one round trip for a first copy and one for a duplicate.
 *
 * A batch is one such statement with many rows, in the order of their keys, which gathers the
 * keys that were there. The order makes two batches wait for each other one way only.
 *
 * The wait is bounded by max_statement_time, which ends the statement and leaves the transaction
 * as it was. A batch then goes on key by key, without waiting any more.
 *
 * Three that insert the same key, the first of which rolls back, make InnoDB sacrifice one of
 * the others (1213). If the marker was the first thing in the unit, nothing is lost and it is
 * sent again. */
#include "store/mariadb/mariadb.h"

#include "base/wait.h"

#include <mysqld_error.h>
#include <string.h>

enum { DEADLOCK_TRIES = 5, ROWS_TOGETHER = 250 };

/* One call of mark(). */
typedef struct marking {
    mariadb_unit *unit;
    semel_mark *marks;
    size_t count;
    int64_t deadline_ms;
    int first;      /* nothing else is in the unit */
    int guarded;    /* it was before we came */
    unsigned tries; /* deadlocks so far */
} marking;

/* What is left of the wait, for the whole statement; or none. */
static maria_bound wait_left(const marking *m)
{
    int64_t left = m->deadline_ms - wait_clock_ms();
    return left > 0 ? (maria_bound){FOR_MS, (uint32_t)left} : (maria_bound){IMPATIENT, 0};
}

static int has_time(const marking *m)
{
    return wait_clock_ms() < m->deadline_ms;
}

static void report_taken(mariadb_unit *unit, semel_mark *mark)
{
    mark->state = SEMEL_MARK_TAKEN;
    mark->attempts = 0;
    unit->wrote = unit->marked = 1;
}

static maria_step *enqueue_mark(mariadb_unit *unit, const semel_mark *mark, maria_bound limit)
{
    maria_query q = maria_unit_enqueue(unit, ST_MARK, limit);
    maria_int(&q, mark->inbox);
    maria_bytes(&q, mark->key);
    maria_mark_details(&q, mark);
    return maria_end(&q);
}

/* 1 if all of it is to be sent once more: the server has undone it, or waits for less time than
 * the caller does. */
static int must_repeat(marking *m, const maria_failure *failed)
{
    m->unit->guarded = m->guarded; /* its savepoint was behind the statement that failed */
    if (failed->number == ER_LOCK_WAIT_TIMEOUT)
        return has_time(m);
    if (!maria_is_conflict(failed->number) || !m->first || ++m->tries > DEADLOCK_TRIES)
        return 0;
    maria_unit_begin_anew(m->unit);
    return 1;
}

/* --- one -------------------------------------------------------------------------------------- */

static semel_status insert_one(marking *m, maria_reply *answer, maria_failure *failed,
                               semel_error *err)
{
    for (;;) {
        *answer = (maria_reply){0};
        enqueue_mark(m->unit, m->marks, wait_left(m))->answer = answer;
        maria_unit_guard(m->unit);
        semel_status status = maria_unit_flush(m->unit, failed, "inserting a marker", err);
        if (!status || !must_repeat(m, failed))
            return status;
    }
}

static semel_status mark_one(marking *m, semel_error *err)
{
    semel_mark *mark = m->marks;
    maria_reply answer;
    maria_failure failed;
    int known = 0;
    semel_status status = maria_look_first(m->unit, mark, &known, err);
    if (status || known)
        return status;
    status = insert_one(m, &answer, &failed, err);
    if (status)
        return maria_waited(&failed) ? maria_resolve_held(m->unit, &mark, 1, err) : status;
    maria_note_copy(m->unit->store, answer.id != MARK_INSERTED);
    if (answer.id == MARK_INSERTED) {
        report_taken(m->unit, mark);
        return SEMEL_OK;
    }
    return maria_report_done(mark, answer.id) ? SEMEL_OK
                                              : maria_resolve_known(m->unit, &mark, 1, err);
}

/* --- many, together --------------------------------------------------------------------------- */

/* Some rows of the batch, and the server's answer: the keys that were there, in hexadecimal, each
 * with a comma behind it. */
typedef struct portion {
    semel_mark *marks;
    size_t count;
    mem_arena *arena;
    maria_reply answer;
    const char *there;
} portion;

static semel_status keep_touched(const maria_row *r, void *context, semel_error *err)
{
    portion *p = context;
    semel_bytes there = maria_column_bytes(r, 0);
    p->there = arena_copy(p->arena, there.data ? there.data : "", there.len);
    return p->there ? SEMEL_OK : semel_fail(err, SEMEL_ENOMEM, "out of memory for markers");
}

static void enqueue_portion(marking *m, portion *p)
{
    maria_query q = maria_unit_enqueue(m->unit, ST_TOUCHED_CLEAR, (maria_bound){PATIENT, 0});
    (void)maria_end(&q);
    q = maria_unit_enqueue(m->unit, ST_MARK_MANY, wait_left(m));
    for (size_t i = 0; i < p->count; i++) {
        if (i)
            maria_more(&q, maria_mark_pattern);
        maria_int(&q, p->marks[i].inbox);
        maria_bytes(&q, p->marks[i].key);
        maria_mark_details(&q, &p->marks[i]);
    }
    maria_end(&q)->answer = &p->answer;
    q = maria_unit_enqueue(m->unit, ST_TOUCHED, (maria_bound){PATIENT, 0});
    maria_step *s = maria_end(&q);
    s->call = keep_touched;
    s->context = p;
}

/* 1 if the hexadecimal digits at *at, up to a comma, are the key; then *at is behind them. */
static int is_next(const char **at, semel_bytes key)
{
    static const char digits[] = "0123456789ABCDEF";
    const unsigned char *bytes = key.data;
    const char *text = *at;
    for (size_t i = 0; i < key.len; i++, text += 2)
        if (text[0] != digits[bytes[i] >> 4] || text[1] != digits[bytes[i] & 15])
            return 0;
    if (*text != ',')
        return 0;
    *at = text + 1;
    return 1;
}

/* Both what was gathered and what was counted must say the same. (With CLIENT_FOUND_ROWS, which a
 * caller's connection may have, all rows are counted.) */
static semel_status check_counts(const marking *m, const portion *p, size_t there, semel_error *err)
{
    int counts_all = (m->unit->on->my->client_flag & CLIENT_FOUND_ROWS) != 0;
    if (p->answer.changed == (counts_all ? p->count : p->count - there))
        return SEMEL_OK;
    return semel_fail(err, SEMEL_ESTORE,
                      "mariadb: of %zu markers %zu were there, but %llu were inserted", p->count,
                      there, (unsigned long long)p->answer.changed);
}

/* Marks are sorted, and so are the keys that were there. */
static semel_status read_portion(marking *m, const portion *p, semel_mark **known,
                                 size_t *known_count, semel_error *err)
{
    const char *at = p->there ? p->there : "";
    size_t there = 0;
    for (size_t i = 0; i < p->count; i++) {
        if (is_next(&at, p->marks[i].key)) {
            known[*known_count + there++] = &p->marks[i];
            while (is_next(&at, p->marks[i].key))
                continue; /* reported twice is as good as once */
        } else {
            report_taken(m->unit, &p->marks[i]);
        }
    }
    *known_count += there;
    if (*at)
        return semel_fail(err, SEMEL_ESTORE,
                          "mariadb: the answer names a marker that was not asked for");
    return check_counts(m, p, there, err);
}

static int is_long(const marking *m)
{
    return m->unit->on->out.text.len > m->unit->on->text_max / 2;
}

/* A savepoint to return to, and the portions: one round trip, unless the server takes short texts
 * only. */
static semel_status insert_portions(marking *m, portion *portions, size_t portion_count,
                                    maria_failure *failed, semel_error *err)
{
    semel_status status = SEMEL_OK;
    maria_query q = maria_unit_enqueue(m->unit, ST_BATCH, (maria_bound){PATIENT, 0});
    (void)maria_end(&q);
    for (size_t i = 0; !status && i < portion_count; i++) {
        if (is_long(m))
            status = maria_unit_flush(m->unit, failed, "inserting markers", err);
        if (!status)
            enqueue_portion(m, &portions[i]);
    }
    if (status)
        return status;
    maria_unit_guard(m->unit);
    return maria_unit_flush(m->unit, failed, "inserting markers", err);
}

static semel_status insert_all(marking *m, portion *portions, size_t portion_count,
                               maria_failure *failed, semel_error *err)
{
    for (;;) {
        semel_status status = insert_portions(m, portions, portion_count, failed, err);
        if (!status || !must_repeat(m, failed) || maria_waited(failed))
            return status;
    }
}

/* --- many, one by one ------------------------------------------------------------------------- */

/* From `from` on, as far as it goes in one text and without waiting: up to *to, which is held if
 * *stopped. */
static semel_status insert_run(marking *m, size_t from, size_t *to, int *stopped,
                               maria_reply *answers, semel_error *err)
{
    maria_failure failed;
    size_t end = from;
    for (size_t i = from; i < m->count && !is_long(m); i++, end++) {
        answers[i].changed = UINT64_MAX; /* not answered */
        enqueue_mark(m->unit, &m->marks[i], (maria_bound){IMPATIENT, 0})->answer = &answers[i];
    }
    semel_status status = maria_unit_flush(m->unit, &failed, "inserting markers", err);
    for (*to = from; *to < end && answers[*to].changed != UINT64_MAX; ++*to)
        continue;
    *stopped = status && maria_waited(&failed);
    return *stopped ? SEMEL_OK : status;
}

static semel_status insert_each(marking *m, semel_mark **held, size_t *held_count,
                                semel_mark **known, size_t *known_count, semel_error *err)
{
    maria_reply *answers = arena_alloc(&m->unit->on->scratch, m->count * sizeof *answers);
    if (!answers)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for markers");
    for (size_t from = 0, to; from < m->count; from = to) {
        int stopped;
        semel_status status = insert_run(m, from, &to, &stopped, answers, err);
        if (status)
            return status;
        for (size_t i = from; i < to; i++)
            if (answers[i].id == MARK_INSERTED)
                report_taken(m->unit, &m->marks[i]);
            else if (!maria_report_done(&m->marks[i], answers[i].id))
                known[(*known_count)++] = &m->marks[i];
        if (stopped)
            held[(*held_count)++] = &m->marks[to++];
    }
    return SEMEL_OK;
}

/* The time is over: takes the keys that are free now, and reports the others as held. */
static semel_status mark_each(marking *m, semel_mark **known, semel_error *err)
{
    size_t held_count = 0, known_count = 0;
    semel_mark **held = arena_alloc(&m->unit->on->scratch, m->count * sizeof(semel_mark *));
    if (!held)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for markers");
    maria_query q = maria_unit_enqueue(m->unit, ST_BATCH_ROLLBACK, (maria_bound){PATIENT, 0});
    (void)maria_end(&q);
    semel_status status = insert_each(m, held, &held_count, known, &known_count, err);
    if (!status)
        status = maria_resolve_known(m->unit, known, known_count, err);
    return status ? status : maria_resolve_held(m->unit, held, held_count, err);
}

static semel_status mark_many(marking *m, semel_error *err)
{
    mem_arena *arena = &m->unit->on->scratch;
    size_t portion_count = (m->count + ROWS_TOGETHER - 1) / ROWS_TOGETHER, known_count = 0;
    portion *portions = arena_alloc(arena, portion_count * sizeof *portions);
    semel_mark **known = arena_alloc(arena, m->count * sizeof(semel_mark *));
    maria_failure failed;
    if (!portions || !known)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for markers");
    for (size_t i = 0, from = 0; i < portion_count; i++, from += ROWS_TOGETHER)
        portions[i] =
            (portion){.marks = m->marks + from,
                      .count = m->count - from < ROWS_TOGETHER ? m->count - from : ROWS_TOGETHER,
                      .arena = arena};
    semel_status status = insert_all(m, portions, portion_count, &failed, err);
    if (status && maria_waited(&failed))
        return mark_each(m, known, err);
    for (size_t i = 0; !status && i < portion_count; i++)
        status = read_portion(m, &portions[i], known, &known_count, err);
    return status ? status : maria_resolve_known(m->unit, known, known_count, err);
}

semel_status mariadb_mark(void *unit_state, semel_mark marks[], size_t count, uint32_t wait_ms,
                          semel_error *err)
{
    mariadb_unit *unit = unit_state;
    marking m = {.unit = unit,
                 .marks = marks,
                 .count = count,
                 .deadline_ms = wait_clock_ms() + wait_ms,
                 .first = !unit->begun && !unit->joined,
                 .guarded = unit->guarded};
    if (!count)
        return SEMEL_OK;
    unit->kept = marks;
    unit->kept_count = count;
    unit->on->wait_ms = wait_ms;
    semel_status status = count == 1 ? mark_one(&m, err) : mark_many(&m, err);
    unit->on->wait_ms = 0;
    return status;
}

/* --- giving them back ------------------------------------------------------------------------- */

static semel_status unmark_portion(mariadb_unit *unit, const semel_mark marks[], size_t count,
                                   semel_error *err)
{
    maria_reply answer = {0};
    maria_query q = maria_unit_enqueue(unit, ST_UNMARK, (maria_bound){PATIENT, 0});
    maria_int(&q, marks[0].inbox);
    for (size_t i = 0; i < count; i++) {
        if (i)
            maria_more(&q, "?");
        maria_bytes(&q, marks[i].key);
    }
    maria_end(&q)->answer = &answer;
    semel_status status = maria_unit_flush(unit, NULL, "removing markers", err);
    if (status || answer.changed == count)
        return status;
    return semel_fail(err, SEMEL_ESTORE, "mariadb: of %zu markers of this unit %llu were there",
                      count, (unsigned long long)answer.changed);
}

semel_status mariadb_unmark(void *unit, const semel_mark marks[], size_t count, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t from = 0, some; !status && from < count; from += some) {
        some = count - from < ROWS_TOGETHER ? count - from : ROWS_TOGETHER;
        status = unmark_portion(unit, marks + from, some, err);
    }
    return status;
}
