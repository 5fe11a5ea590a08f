/* The outbox: capturing, settling, counting. Leasing is in outbox_lease.c. */
#include "store/mariadb/mariadb.h"

#include <string.h>

static const maria_bound patient = {PATIENT, 0};

/* --- capturing -------------------------------------------------------------------------------- */

static void write_head(maria_query *q, int64_t outbox, const semel_message *message)
{
    maria_int(q, outbox);
    maria_uint(q, message->delay_ms);
}

/* By itself, and now. */
static semel_status put_large(mariadb_unit *unit, int64_t outbox, const semel_message *message,
                              semel_error *err)
{
    semel_status status = maria_unit_begin_alone(unit, err);
    if (status)
        return status;
    maria_query q = maria_unit_enqueue(unit, ST_PUT, patient);
    write_head(&q, outbox, message);
    maria_message_write_head(&q, message);
    maria_sql(&q, "?");
    maria_sql(&q, "?");
    (void)maria_end(&q);
    return maria_unit_execute_large(unit, message, "storing a large message", err);
}

/* As many of them as go into one statement of moderate length. */
static semel_status put_some(mariadb_unit *unit, int64_t outbox,
                             const semel_message *const messages[], size_t count, size_t *done,
                             semel_error *err)
{
    enum { TEXT_TOGETHER = 1 << 20 };
    size_t size = maria_message_size(messages[0]);
    *done = 1;
    if (size > unit->on->text_max)
        return put_large(unit, outbox, messages[0], err);
    semel_status status = maria_unit_make_room(unit, size, err);
    maria_query q = maria_unit_enqueue(unit, ST_PUT, patient);
    for (size_t i = 0; !status; i++) {
        write_head(&q, outbox, messages[i]);
        status = maria_message_write(&q, &unit->on->scratch, messages[i], err);
        *done = i + 1;
        if (i + 1 == count)
            break;
        size += maria_message_size(messages[i + 1]);
        if (size > TEXT_TOGETHER || unit->on->out.text.len + size > unit->on->text_max)
            break;
        maria_more(&q, maria_put_pattern);
    }
    (void)maria_end(&q);
    return status;
}

semel_status mariadb_put_many(void *unit_state, int64_t outbox,
                              const semel_message *const messages[], size_t count, semel_error *err)
{
    mariadb_unit *unit = unit_state;
    semel_status status = SEMEL_OK;
    unit->wrote = 1;
    for (size_t at = 0, done; !status && at < count; at += done)
        status = put_some(unit, outbox, messages + at, count - at, &done, err);
    return status;
}

semel_status mariadb_put(void *unit, int64_t outbox, const semel_message *message, semel_error *err)
{
    return mariadb_put_many(unit, outbox, &message, 1, err);
}

/* --- settling --------------------------------------------------------------------------------- */

/* The settlements, and the server's answers for those that are not removed. Or leases to be
 * extended, all of them. */
typedef struct settling {
    mariadb_unit *unit;
    int64_t outbox;
    const uint32_t *lease_ms; /* NULL: they are settled */
    semel_item_settlement *all;
    size_t count;
    size_t next; /* rows come in the same order, as a rule */
    maria_reply *answers;
    int64_t *list;
} settling;

/* 1 if it is changed with others, by a list, once it is known to be ours. */
static int is_listed(const settling *s, const semel_item_settlement *one)
{
    return s->lease_ms || one->verdict == SEMEL_VERDICT_ACK;
}

static semel_status note_ours(const maria_row *r, void *context, semel_error *err)
{
    settling *s = context;
    int64_t seq = maria_column_int(r, 0);
    (void)err;
    for (size_t tries = 0; tries < s->count; tries++) {
        semel_item_settlement *one = &s->all[(s->next + tries) % s->count];
        if (one->seq != seq || !is_listed(s, one))
            continue;
        one->lost = 0;
        s->next = (size_t)(one - s->all) + 1;
        break;
    }
    return SEMEL_OK;
}

/* Of the list: which are ours, or they are removed or extended. */
static maria_step *enqueue_list(settling *s, maria_statement which, uint64_t token, size_t count)
{
    maria_query q = maria_unit_enqueue(s->unit, which, maria_patience(s->unit->store));
    if (which == ST_EXTEND)
        maria_uint(&q, *s->lease_ms);
    maria_int(&q, s->outbox);
    maria_uint(&q, token);
    maria_ints(&q, s->list, count);
    return maria_end(&q);
}

static size_t list_all(settling *s, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        s->list[i - from] = s->all[i].seq;
    return to - from;
}

/* Of those of [from, to), what is to be kept for a list of what was sent. */
static void enqueue_sent(settling *s, uint64_t token, size_t from, size_t to)
{
    size_t count = 0;
    for (size_t i = from; i < to; i++)
        if (s->all[i].sent)
            s->list[count++] = s->all[i].seq;
    if (count)
        (void)enqueue_list(s, ST_SENT_KEEP, token, count);
}

/* From `from` on, those that go in one statement: under one token, as all rows of one lease are. */
static size_t enqueue_lists(settling *s, size_t from)
{
    uint64_t token = s->all[from].token;
    size_t count, at = from;
    while (at < s->count && at - from < LIST_MAX && is_listed(s, &s->all[at]) &&
           s->all[at].token == token)
        s->all[at++].lost = 1; /* until it is seen among those that are ours */
    count = list_all(s, from, at);
    maria_step *found = enqueue_list(s, ST_REMOVABLE, token, count);
    found->call = note_ours;
    found->context = s;
    if (!s->lease_ms)
        enqueue_sent(s, token, from, at);
    count = list_all(s, from, at);
    (void)enqueue_list(s, s->lease_ms ? ST_EXTEND : ST_REMOVE, token, count);
    return at;
}

/* A row of a group that has failed is parked at once, if it can be: see outbox_lease.c. Only where
 * nothing is locked for having been looked at: otherwise it is left to the next visit. */
static void enqueue_note(settling *s, int64_t seq)
{
    maria_query q = maria_unit_enqueue(s->unit, ST_GROUP_NOTE, maria_patience(s->unit->store));
    maria_int(&q, seq);
    maria_int(&q, s->outbox);
    (void)maria_end(&q);
    q = maria_unit_enqueue(s->unit, ST_PARK_NOTED, maria_patience(s->unit->store));
    maria_int(&q, seq);
    (void)maria_end(&q);
}

static void enqueue_return(settling *s, size_t at)
{
    const semel_item_settlement *one = &s->all[at];
    int retry = one->verdict == SEMEL_VERDICT_RETRY;
    maria_query q =
        maria_unit_enqueue(s->unit, retry ? ST_RETRY : ST_RELEASE, maria_patience(s->unit->store));
    maria_uint(&q, one->delay_ms);
    maria_uint(&q, retry ? one->refused != 0 : one->delay_ms);
    if (retry)
        maria_text(&q, one->error);
    maria_int(&q, s->outbox);
    maria_uint(&q, one->token);
    maria_int(&q, one->seq);
    maria_end(&q)->answer = &s->answers[at];
    if (retry && s->unit->durability == SEMEL_BEGIN_RELAXED)
        enqueue_note(s, one->seq);
}

static semel_status enqueue_all(settling *s, semel_error *err)
{
    mariadb_unit *unit = s->unit;
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < s->count;) {
        if (is_listed(s, &s->all[i]))
            i = enqueue_lists(s, i);
        else
            enqueue_return(s, i++);
        if (unit->on->out.text.len > unit->on->text_max / 2) /* the server takes no more at once */
            status = maria_unit_flush(unit, NULL, "settling outgoing messages", err);
    }
    return status ? status : maria_unit_flush(unit, NULL, "settling outgoing messages", err);
}

static semel_status settle_all(settling *s, semel_error *err)
{
    mem_arena *arena = &s->unit->on->scratch;
    s->answers = arena_alloc(arena, (s->count + 1) * sizeof *s->answers);
    s->list = arena_alloc(arena, LIST_MAX * sizeof *s->list);
    if (!s->answers || !s->list)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory settling %zu messages", s->count);
    memset(s->answers, 0, (s->count + 1) * sizeof *s->answers);
    s->unit->wrote = 1;
    semel_status status = enqueue_all(s, err);
    for (size_t i = 0; !status && i < s->count; i++)
        if (!is_listed(s, &s->all[i]))
            s->all[i].lost = s->answers[i].changed == 0;
    return status;
}

semel_status mariadb_settle(void *unit, int64_t outbox, semel_item_settlement settlements[],
                            size_t count, semel_error *err)
{
    settling s = {.unit = unit, .outbox = outbox, .all = settlements, .count = count};
    return settle_all(&s, err);
}

semel_status mariadb_extend(void *unit, int64_t outbox, semel_item_settlement leases[],
                            size_t count, uint32_t lease_ms, semel_error *err)
{
    settling s = {
        .unit = unit, .outbox = outbox, .lease_ms = &lease_ms, .all = leases, .count = count};
    return settle_all(&s, err);
}

/* --- counting --------------------------------------------------------------------------------- */

typedef struct tally {
    uint64_t count;
    int64_t oldest_ms;
} tally;

static semel_status keep_tally(const maria_row *r, void *context, semel_error *err)
{
    (void)err;
    *(tally *)context = (tally){maria_column_uint(r, 0), maria_column_int(r, 1)};
    return SEMEL_OK;
}

semel_status mariadb_unsent(void *state, uint64_t *count, int64_t *oldest_ms, semel_error *err)
{
    mariadb_store *store = state;
    maria_connection *on = NULL;
    tally found = {0};
    semel_status status = maria_borrow_pooled(&on, store, err);
    if (status)
        return status;
    maria_query q = maria_enqueue(on, ST_UNSENT);
    maria_step *s = maria_end(&q);
    s->call = keep_tally;
    s->context = &found;
    status = maria_flush(on, NULL, "counting outgoing messages", err);
    maria_push_rollback(on);
    maria_give_back(store, on);
    if (status)
        return status;
    *count = found.count;
    *oldest_ms = found.oldest_ms;
    return SEMEL_OK;
}
