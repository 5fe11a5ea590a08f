/* The outbox: capturing, settling, counting. Leasing is in outbox_lease.c. */
#include "store/sqlite/sqlite.h"

semel_status sqlite_put(void *unit_state, int64_t outbox, const semel_message *message,
                        semel_error *err)
{
    sqlite_unit *unit = unit_state;
    int64_t now = sqlite_clock_now(unit->store);
    sqlite_query q = sqlite_query_start(unit->on, ST_OUTBOX_PUT);
    arena_reset(sqlite_unit_scratch(unit));
    sqlite_query_int(&q, outbox);
    sqlite_query_int(&q, now + message->delay_ms);
    sqlite_query_int(&q, now);
    semel_status status = sqlite_message_bind(&q, sqlite_unit_scratch(unit), message, err);
    return status ? status : sqlite_query_run(&q, NULL, "storing an outgoing message", err);
}

/* --- settling --------------------------------------------------------------------------------- */

/* A row of a group that has failed is parked at once: the group is due no later than the row. */
static semel_status note_waiting(sqlite_unit *unit, int64_t seq, semel_error *err)
{
    sqlite_query q = sqlite_query_start(unit->on, ST_GROUP_NOTE);
    sqlite_query_int(&q, seq);
    return sqlite_query_run(&q, NULL, "noting when a group is due", err);
}

static semel_status keep_sent(sqlite_unit *unit, int64_t outbox, const semel_item_settlement *s,
                              semel_error *err)
{
    sqlite_query q = sqlite_query_start(unit->on, ST_SENT_KEEP);
    sqlite_query_int(&q, sqlite_clock_now(unit->store));
    sqlite_query_int(&q, outbox);
    sqlite_query_int(&q, s->seq);
    sqlite_query_int(&q, (int64_t)s->token);
    return sqlite_query_run(&q, NULL, "keeping what was sent", err);
}

static semel_status settle_one(sqlite_unit *unit, int64_t outbox, semel_item_settlement *s,
                               semel_error *err)
{
    static const sqlite_statement of[] = {[SEMEL_VERDICT_ACK] = ST_OUTBOX_REMOVE,
                                          [SEMEL_VERDICT_RETRY] = ST_OUTBOX_RETRY,
                                          [SEMEL_VERDICT_RELEASE] = ST_OUTBOX_RELEASE};
    int changed = 0;
    sqlite_query q = sqlite_query_start(unit->on, of[s->verdict]);
    if (s->verdict != SEMEL_VERDICT_ACK) {
        int at_once = s->verdict == SEMEL_VERDICT_RELEASE && !s->delay_ms;
        sqlite_query_int_or_null(&q, at_once ? 0 : sqlite_clock_now(unit->store) + s->delay_ms);
    }
    if (s->verdict == SEMEL_VERDICT_RETRY) {
        sqlite_query_int(&q, s->refused != 0);
        sqlite_query_text(&q, s->error);
    }
    sqlite_query_int(&q, s->seq);
    sqlite_query_int(&q, outbox);
    sqlite_query_int(&q, (int64_t)s->token);
    semel_status status = sqlite_query_run(&q, &changed, "settling an outgoing message", err);
    if (!status)
        s->lost = changed == 0;
    if (!status && changed && s->verdict == SEMEL_VERDICT_RETRY)
        status = note_waiting(unit, s->seq, err);
    return status;
}

semel_status sqlite_settle(void *unit_state, int64_t outbox, semel_item_settlement settlements[],
                           size_t count, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < count; i++) {
        if (settlements[i].sent && settlements[i].verdict == SEMEL_VERDICT_ACK)
            status = keep_sent(unit_state, outbox, &settlements[i], err);
        if (!status)
            status = settle_one(unit_state, outbox, &settlements[i], err);
    }
    return status;
}

/* --- extending -------------------------------------------------------------------------------- */

semel_status sqlite_extend(void *unit_state, int64_t outbox, semel_item_settlement leases[],
                           size_t count, uint32_t lease_ms, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    int64_t lease_end_ms = sqlite_clock_now(unit->store) + lease_ms;
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < count; i++) {
        int changed = 0;
        sqlite_query q = sqlite_query_start(unit->on, ST_OUTBOX_EXTEND);
        sqlite_query_int(&q, lease_end_ms);
        sqlite_query_int(&q, leases[i].seq);
        sqlite_query_int(&q, outbox);
        sqlite_query_int(&q, (int64_t)leases[i].token);
        status = sqlite_query_run(&q, &changed, "extending the lease of a message", err);
        leases[i].lost = changed == 0;
    }
    return status;
}

/* --- counting --------------------------------------------------------------------------------- */

static semel_status read_number(sqlite_store *store, sqlite_statement which, int64_t *out,
                                semel_error *err)
{
    sqlite_query q = sqlite_query_start(&store->reader, which);
    int got = sqlite_query_row(&q, "counting outgoing messages", err);
    *out = got > 0 ? sqlite_row_int(&q, 0) : 0;
    sqlite_query_end(&q);
    return got < 0 ? q.status : SEMEL_OK;
}

semel_status sqlite_unsent(void *state, uint64_t *count, int64_t *oldest_ms, semel_error *err)
{
    sqlite_store *store = state;
    int64_t rows = 0, oldest = 0;
    semel_status status = sqlite_reader_enter(store, err);
    if (status)
        return status;
    status = sqlite_schema_check(&store->reader, err);
    if (!status)
        status = read_number(store, ST_OUTBOX_COUNT, &rows, err);
    if (!status)
        status = read_number(store, ST_OUTBOX_OLDEST, &oldest, err);
    sqlite_reader_leave(store);
    if (!status) {
        *count = (uint64_t)rows;
        *oldest_ms = oldest;
    }
    return status;
}
