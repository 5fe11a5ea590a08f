/* The outbox: capturing, settling, counting. Leasing is in outbox_lease.c. */
#include "store/postgres/postgres.h"

#include <stdlib.h>
#include <string.h>

semel_status postgres_put(void *unit_state, int64_t outbox, const semel_message *message,
                          semel_error *err)
{
    postgres_unit *unit = unit_state;
    pg_query q = pg_unit_query(unit, ST_OUTBOX_PUT);
    pg_int(&q, outbox);
    pg_int(&q, message->delay_ms);
    semel_status status = pg_message_bind(&q, &unit->on->scratch, message, err);
    if (status)
        return status;
    unit->captured = 1;
    pg_enqueue(&q);
    return SEMEL_OK;
}

static semel_status put_some(postgres_unit *unit, int64_t outbox,
                             const semel_message *const messages[], size_t count, semel_error *err)
{
    pg_query q = pg_unit_query(unit, ST_OUTBOX_PUT_MANY);
    pg_int(&q, outbox);
    pg_array delays = pg_array_start(&unit->on->scratch, ARRAY_INT8, count, count * 8);
    for (size_t i = 0; i < count; i++)
        pg_array_add_int(&delays, messages[i]->delay_ms);
    if (delays.failed)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for outgoing messages");
    pg_array_bind(&q, &delays);
    semel_status status = pg_messages_bind(&q, &unit->on->scratch, messages, count, err);
    if (status)
        return status;
    unit->captured = 1;
    pg_enqueue(&q);
    return SEMEL_OK;
}

static size_t weight_of(const semel_message *message)
{
    return message->body.len + 256;
}

/* One statement for as many as fit: the protocol and the server's memory have limits that bodies
 * could reach. */
semel_status postgres_put_many(void *unit_state, int64_t outbox,
                               const semel_message *const messages[], size_t count,
                               semel_error *err)
{
    enum { WEIGHT_MAX = 8 << 20 };
    semel_status status = SEMEL_OK;
    for (size_t first = 0, next; !status && first < count; first = next) {
        size_t weight = weight_of(messages[first]);
        next = first + 1;
        while (next < count && weight + weight_of(messages[next]) <= WEIGHT_MAX)
            weight += weight_of(messages[next++]);
        status = next - first == 1
                     ? postgres_put(unit_state, outbox, messages[first], err)
                     : put_some(unit_state, outbox, messages + first, next - first, err);
    }
    return status;
}

/* --- settling --------------------------------------------------------------------------------- */

static size_t count_verdicts(const semel_item_settlement settlements[], size_t count,
                             semel_verdict verdict)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += settlements[i].verdict == verdict;
    return found;
}

typedef int64_t settlement_column(const semel_item_settlement *s);

static int64_t seq_of(const semel_item_settlement *s)
{
    return s->seq;
}
static int64_t token_of(const semel_item_settlement *s)
{
    return (int64_t)s->token;
}
static int64_t delay_of(const semel_item_settlement *s)
{
    return s->delay_ms;
}
static int64_t refused_of(const semel_item_settlement *s)
{
    return s->refused != 0;
}

/* A column of those that have the verdict; 0: of all. */
static int bind_settlements(pg_query *q, mem_arena *arena,
                            const semel_item_settlement settlements[], size_t count, int verdict,
                            settlement_column *column)
{
    size_t chosen = verdict ? count_verdicts(settlements, count, (semel_verdict)verdict) : count;
    pg_array a = pg_array_start(arena, ARRAY_INT8, chosen, chosen * 8);
    for (size_t i = 0; i < count; i++)
        if (!verdict || (int)settlements[i].verdict == verdict)
            pg_array_add_int(&a, column(&settlements[i]));
    pg_array_bind(q, &a);
    return !a.failed;
}

static int64_t sent_of(const semel_item_settlement *s)
{
    return s->sent != 0;
}

/* Why those that are tried again have failed; NULL where that is not known. */
static int bind_errors(pg_query *q, mem_arena *arena, const semel_item_settlement settlements[],
                       size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += settlements[i].error ? strlen(settlements[i].error) + sizeof "(not a text)" : 0;
    pg_array a = pg_array_start(arena, ARRAY_TEXT,
                                count_verdicts(settlements, count, SEMEL_VERDICT_RETRY), size);
    for (size_t i = 0; i < count; i++) {
        const char *why = pg_mended(arena, settlements[i].error);
        if (settlements[i].verdict == SEMEL_VERDICT_RETRY)
            pg_array_add(&a, why, why ? strlen(why) : 0);
    }
    pg_array_bind(q, &a);
    return !a.failed;
}

/* Those that were sent are kept for a list, if one of them is to be. */
static pg_statement removal_of(const semel_item_settlement settlements[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (settlements[i].verdict == SEMEL_VERDICT_ACK && settlements[i].sent)
            return ST_OUTBOX_REMOVE_SENT;
    return ST_OUTBOX_REMOVE;
}

static semel_status enqueue_verdict(postgres_unit *unit, int64_t outbox,
                                    const semel_item_settlement settlements[], size_t count,
                                    semel_verdict verdict, PGresult **answer, semel_error *err)
{
    static const pg_statement of[] = {
        [SEMEL_VERDICT_RETRY] = ST_OUTBOX_RETRY, [SEMEL_VERDICT_RELEASE] = ST_OUTBOX_RELEASE};
    mem_arena *arena = &unit->on->scratch;
    if (!count_verdicts(settlements, count, verdict))
        return SEMEL_OK;
    pg_statement removal = removal_of(settlements, count);
    pg_query q = pg_unit_query(unit, verdict == SEMEL_VERDICT_ACK ? removal : of[verdict]);
    q.answer = answer;
    pg_int(&q, outbox);
    int bound = bind_settlements(&q, arena, settlements, count, (int)verdict, seq_of) &&
                bind_settlements(&q, arena, settlements, count, (int)verdict, token_of);
    if (bound && verdict != SEMEL_VERDICT_ACK)
        bound = bind_settlements(&q, arena, settlements, count, (int)verdict, delay_of);
    if (bound && verdict == SEMEL_VERDICT_ACK && removal == ST_OUTBOX_REMOVE_SENT)
        bound = bind_settlements(&q, arena, settlements, count, (int)verdict, sent_of);
    if (bound && verdict == SEMEL_VERDICT_RETRY)
        bound = bind_settlements(&q, arena, settlements, count, (int)verdict, refused_of) &&
                bind_errors(&q, arena, settlements, count);
    if (!bound)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory settling messages");
    pg_enqueue(&q);
    return SEMEL_OK;
}

static int compare_numbers(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* The rows that were not changed are another relay's by now. */
static semel_status find_lost(postgres_unit *unit, semel_item_settlement settlements[],
                              size_t count, PGresult *const answers[3], semel_error *err)
{
    size_t changed = 0;
    int64_t *seqs = arena_alloc(&unit->on->scratch, (count + 1) * sizeof *seqs);
    if (!seqs)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory settling messages");
    for (int i = 0; i < 3; i++)
        for (int row = 0; answers[i] && row < PQntuples(answers[i]) && changed < count; row++)
            seqs[changed++] = pg_answer_int(answers[i], row, 0);
    qsort(seqs, changed, sizeof *seqs, compare_numbers);
    for (size_t i = 0; i < count; i++)
        settlements[i].lost =
            !bsearch(&settlements[i].seq, seqs, changed, sizeof *seqs, compare_numbers);
    return SEMEL_OK;
}

semel_status postgres_settle(void *unit_state, int64_t outbox, semel_item_settlement settlements[],
                             size_t count, semel_error *err)
{
    static const semel_verdict verdicts[3] = {SEMEL_VERDICT_ACK, SEMEL_VERDICT_RETRY,
                                              SEMEL_VERDICT_RELEASE};
    postgres_unit *unit = unit_state;
    PGresult *answers[3] = {NULL, NULL, NULL};
    semel_status status = SEMEL_OK;
    for (int i = 0; !status && i < 3; i++)
        status = enqueue_verdict(unit, outbox, settlements, count, verdicts[i], &answers[i], err);
    if (!status)
        status = pg_flush(unit->on, 0, NULL, "settling outgoing messages", err);
    if (!status)
        status = find_lost(unit, settlements, count, answers, err);
    for (int i = 0; i < 3; i++)
        PQclear(answers[i]);
    return status;
}

semel_status postgres_extend(void *unit_state, int64_t outbox, semel_item_settlement leases[],
                             size_t count, uint32_t lease_ms, semel_error *err)
{
    postgres_unit *unit = unit_state;
    mem_arena *arena = &unit->on->scratch;
    PGresult *answers[3] = {NULL, NULL, NULL};
    pg_query q = pg_unit_query(unit, ST_OUTBOX_EXTEND);
    q.answer = &answers[0];
    pg_int(&q, outbox);
    if (!bind_settlements(&q, arena, leases, count, 0, seq_of) ||
        !bind_settlements(&q, arena, leases, count, 0, token_of))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory extending the leases of messages");
    pg_int(&q, lease_ms);
    pg_enqueue(&q);
    semel_status status = pg_flush(unit->on, 0, NULL, "extending the leases of messages", err);
    if (!status)
        status = find_lost(unit, leases, count, answers, err);
    PQclear(answers[0]);
    return status;
}

semel_status postgres_unsent(void *state, uint64_t *count, int64_t *oldest_ms, semel_error *err)
{
    pg_connection *on = NULL;
    PGresult *answer = NULL;
    semel_status status = pg_store_borrow(&on, state, err);
    if (status)
        return status;
    pg_query q = pg_start(on, ST_OUTBOX_UNSENT);
    status = pg_schema_check(state, on, err);
    if (!status)
        status = pg_execute_alone(&answer, &q, "counting outgoing messages", err);
    if (!status) {
        *count = (uint64_t)pg_answer_int(answer, 0, 0);
        *oldest_ms = pg_answer_int(answer, 0, 1);
    }
    PQclear(answer);
    pg_store_give_back(state, on);
    return status;
}
