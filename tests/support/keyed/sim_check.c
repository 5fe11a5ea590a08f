/* What must hold in every history, checked where it happens: at each apply, each answer, each
 * message that the broker gets, and at the end. */
#include "support/keyed/sim.h"

#include <stdlib.h>
#include <string.h>

uint64_t sim_place(semel_bytes space, semel_bytes key)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < space.len; i++)
        hash = (hash ^ ((const unsigned char *)space.data)[i]) * 0x100000001b3u;
    for (size_t i = 0; i < key.len; i++)
        hash = (hash ^ ((const unsigned char *)key.data)[i]) * 0x100000001b3u;
    return hash | 1;
}

/* --- rows with owners ------------------------------------------------------------------------- */

static sim_row *row_of(sim *s, uint64_t place)
{
    for (unsigned i = (unsigned)(place >> 20) % SIM_ROWS_MAX, left = SIM_ROWS_MAX; left--;
         i = (i + 1) % SIM_ROWS_MAX) {
        if (s->rows[i].place == place)
            return &s->rows[i];
        if (!s->rows[i].place) {
            s->rows[i] = (sim_row){.place = place, .run = -1};
            return &s->rows[i];
        }
    }
    abort(); /* SIM_ROWS_MAX is too small */
}

static int is_live(const sim *s, const sim_row *row)
{
    return row->guard && row->until_ms > s->now_ms;
}

static void check_owner(sim *s, const semel_keyed_change *change, const sim_row *row)
{
    const char *kind = row->marker ? "key" : "message";
    if (!is_live(s, row))
        return;
    if (change->kind == SEMEL_KEYED_WRITE && change->record.guard &&
        change->record.guard != row->guard)
        sim_violation(s, "I8: a %s was taken over %lld ms before its lease ended", kind,
                      (long long)(row->until_ms - s->now_ms));
    if (row->marker && change->kind == SEMEL_KEYED_REMOVE && change->expect != SEMEL_EXPECT_GUARD)
        sim_violation(s, "I8: a key that is held was removed");
}

/* --- outgoing messages ------------------------------------------------------------------------ */

static int number_behind(const char *word, const void *data, size_t len)
{
    const char *at = data ? memmem(data, len, word, strlen(word)) : NULL;
    return at ? (int)strtol(at + strlen(word), NULL, 10) : -1;
}

/* Its id is in the value or in the body. */
static int run_of(const semel_keyed_record *record)
{
    int run = number_behind("run:", record->value.data, record->value.len);
    return run >= 0 ? run : number_behind("run:", record->body.data, record->body.len);
}

static void row_appears(sim *s, const semel_keyed_change *change, sim_row *row)
{
    row->run = run_of(&change->record);
    s->rows_out++;
    if (row->run < 0 || row->run >= s->run_count)
        sim_violation(s, "I5: an outgoing message that nobody sent");
}

static void row_goes(sim *s, sim_row *row)
{
    s->rows_out--;
    if (row->run >= 0 && !s->runs[row->run].confirmed)
        sim_violation(s, "I5: message %d left the outbox before the broker had it", row->run);
    row->run = -1;
}

static void follow_row(sim *s, const semel_keyed_change *change)
{
    char kind = *(const char *)change->record.space.data;
    if ((kind != 'm' && kind != 'o') || change->kind == SEMEL_KEYED_CHECK)
        return;
    sim_row *row = row_of(s, sim_place(change->record.space, change->record.key));
    row->marker = kind == 'm';
    check_owner(s, change, row);
    if (kind == 'o' && change->kind == SEMEL_KEYED_WRITE && row->run < 0)
        row_appears(s, change, row);
    if (kind == 'o' && change->kind == SEMEL_KEYED_REMOVE)
        row_goes(s, row);
    int there = change->kind == SEMEL_KEYED_WRITE;
    row->guard = there ? change->record.guard : 0;
    row->until_ms = there ? change->record.until_ms : 0;
}

/* --- effects ---------------------------------------------------------------------------------- */

static void commit_run(sim *s, sim_run *run, int number)
{
    sim_note(s, "commits run %d of message %d", number, run->message);
    if (run->committed++)
        sim_violation(s, "I2: run %d was committed twice", number);
    if (run->told && run->status != SEMEL_OK && run->status != SEMEL_EUNKNOWN)
        sim_violation(s, "I3: run %d was committed after its caller was told %s", number,
                      semel_status_name(run->status));
    run->order = ++s->orders[run->group];
    if (run->message < 0)
        return;
    s->result->effects++;
    if (++s->messages[run->message].effects > 1)
        sim_violation(s, "I2: message %d has %d effects", run->message,
                      s->messages[run->message].effects);
}

/* The unit of a run has its message and, if it handles one, its marker. */
static void check_whole(sim *s, const sim_run *run, int number, const semel_keyed_change changes[],
                        size_t count)
{
    int marker = 0, row = 0;
    for (size_t i = 0; i < count; i++) {
        if (changes[i].kind != SEMEL_KEYED_WRITE)
            continue;
        char kind = *(const char *)changes[i].record.space.data;
        marker |= kind == 'm';
        row |= kind == 'o' && run_of(&changes[i].record) == number;
    }
    if (!row || (run->message >= 0 && !marker))
        sim_violation(s, "I3: run %d was committed without its %s", number,
                      row ? "marker" : "message");
}

void sim_applied(void *context, const semel_keyed_change changes[], size_t count)
{
    sim *s = context;
    for (size_t i = 0; i < count; i++) {
        const semel_keyed_change *change = &changes[i];
        if (change->kind != SEMEL_KEYED_FOREIGN) {
            follow_row(s, change);
            continue;
        }
        const char *name = change->values[0].bytes.data;
        int number = name[0] == 'r' ? number_behind("r", name, change->values[0].bytes.len) : -1;
        if (number < 0)
            continue;
        commit_run(s, &s->runs[number], number);
        check_whole(s, &s->runs[number], number, changes, count);
    }
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Claim mode counts an attempt before the handler begins. */
void sim_started(sim_process *p, int message, uint32_t attempt)
{
    sim *s = p->world;
    sim_message *m = &s->messages[message];
    sim_note(s, "handles message %d, attempt %u", message, attempt);
    if (s->mode != SEMEL_CLAIM || s->retention_ms) /* a sweep forgets attempts, too */
        return;
    uint64_t bit = UINT64_C(1) << (attempt & 63);
    if (m->attempts & bit)
        sim_violation(s, "I8: two handlers of message %d began as attempt %u", message, attempt);
    m->attempts |= bit;
}

void sim_told(sim *s, int number, semel_status status)
{
    sim_run *run = &s->runs[number];
    sim_note(s, "run %d ends: %s", number, semel_status_name(status));
    run->told = 1;
    run->status = status;
    if (!status && !run->committed)
        sim_violation(s, "I4: run %d is said to be committed, and is not", number);
    if (status && status != SEMEL_EUNKNOWN && run->committed)
        sim_violation(s, "I3: run %d is said to have failed (%s), and is committed", number,
                      semel_status_name(status));
}

void sim_acknowledged(sim *s, int message, semel_outcome outcome)
{
    sim_message *m = &s->messages[message];
    sim_note(s, "message %d: %s", message, semel_outcome_name(outcome));
    if (outcome == SEMEL_DEAD)
        m->dead_acked++;
    else if (outcome == SEMEL_STALE) {
        int64_t age_ms = s->now_ms - m->made_ms;
        m->stale = 1;
        s->result->stale++;
        if (!s->retention_ms || age_ms < (int64_t)s->retention_ms)
            sim_violation(s, "I7: message %d is called stale at an age of %lld ms", message,
                          (long long)age_ms);
    } else {
        m->acked++;
        if (m->effects != 1)
            sim_violation(s, "I4: message %d is acknowledged (%s), with %d effects", message,
                          semel_outcome_name(outcome), m->effects);
    }
}

/* --- the broker ------------------------------------------------------------------------------- */

static void check_order(sim *s, const sim_run *run, int number)
{
    for (int i = 0; i < s->run_count; i++) {
        const sim_run *other = &s->runs[i];
        if (other->group == run->group && other->order && other->order < run->order &&
            !other->published)
            sim_violation(s, "I5: message %d was sent before message %d of its group", number, i);
    }
}

void sim_published(sim *s, const semel_message *message, int confirmed)
{
    char body[32];
    int number = number_behind("run:", message->id.data, message->id.len);
    sim_note(s, "sends message %d%s", number, confirmed ? "" : ", unconfirmed");
    if (number < 0 || number >= s->run_count || !s->runs[number].committed) {
        sim_violation(s, "I5: message %d was sent, and never committed", number);
        return;
    }
    sim_run *run = &s->runs[number];
    (void)snprintf(body, sizeof body, "body of %d", number);
    if (message->body.len != strlen(body) || memcmp(message->body.data, body, strlen(body)))
        sim_violation(s, "I5: message %d was sent with another body", number);
    if (!run->published && run->group)
        check_order(s, run, number);
    run->published++;
    run->confirmed += confirmed;
    s->result->published++;
}

/* --- the end ---------------------------------------------------------------------------------- */

typedef struct letters {
    sim *world;
    int count[SIM_MESSAGES_MAX];
} letters;

static semel_status count_letter(const semel_dead *dead, void *context, semel_error *err)
{
    letters *all = context;
    (void)err;
    int message =
        dead->message ? number_behind("m", dead->message->id.data, dead->message->id.len) : -1;
    if (message < 0 || message >= all->world->message_count)
        sim_violation(all->world, "I1: a dead letter of an unknown message");
    else
        all->count[message]++;
    return SEMEL_OK;
}

static void read_letters(letters *all, sim *s)
{
    semel_store *store;
    semel_error err = {.status = SEMEL_OK};
    semel_store_options options = {.size = sizeof options, .seam = &s->processes[0].seam};
    semel_dead_filter filter = {.size = sizeof filter};
    semel_status status = semel_store_open_keyed(&store, keyed_memory_driver(s->memory),
                                                 "simulation", &options, &err);
    if (!status) {
        status = semel_dead_list(store, &filter, count_letter, all, &err);
        semel_store_close(store);
    }
    if (status)
        sim_violation(s, "the dead letters cannot be read: %s", err.text);
}

static void check_message(sim *s, int i, int dead)
{
    const sim_message *m = &s->messages[i];
    s->result->dead += (unsigned)dead;
    if (dead > 1 || (dead && m->effects))
        sim_violation(s, "I1: message %d has %d effects and %d dead letters", i, m->effects, dead);
    if (dead && !m->poison && !s->fault_permille)
        sim_violation(s, "I1: message %d was given up, and nothing was wrong with it", i);
    if (!dead && !m->effects && !m->stale)
        sim_violation(s, "I1: message %d is lost", i);
    if (m->dead_acked && !dead)
        sim_violation(s, "I4: message %d was acknowledged as a dead letter, and is none", i);
    char name[16];
    (void)snprintf(name, sizeof name, "e%d", i);
    if (keyed_memory_counter(s->memory, name) != m->effects)
        sim_violation(s, "I3: the effect of message %d is counted %lld times", i,
                      (long long)keyed_memory_counter(s->memory, name));
}

void sim_final(sim *s)
{
    letters all = {.world = s};
    if (s->result->failed)
        return;
    read_letters(&all, s);
    for (int i = 0; i < s->message_count; i++)
        check_message(s, i, all.count[i]);
    for (int i = 0; i < s->run_count; i++)
        if (s->runs[i].committed && !s->runs[i].confirmed)
            sim_violation(s, "I5: message %d was committed, and never sent", i);
    if (s->rows_out)
        sim_violation(s, "I6: %d messages stay in the outbox", s->rows_out);
}
