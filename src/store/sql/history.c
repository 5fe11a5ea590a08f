#include "store/sql/history.h"

void sql_history_numbers(int64_t out[HISTORY_NUMBER_COUNT], const semel_history *row)
{
    const int64_t numbers[HISTORY_NUMBER_COUNT] = {
        row->at_ms,   row->kind,           row->outcome,           row->refused,
        row->attempt, row->delivery,       row->retry_ms,          row->took_ns,
        row->letter,  (int64_t)row->count, (int64_t)row->body_len, row->kept};
    for (int i = 0; i < HISTORY_NUMBER_COUNT; i++)
        out[i] = numbers[i];
}

void sql_history_set_numbers(semel_history *out, const int64_t in[HISTORY_NUMBER_COUNT])
{
    out->at_ms = in[0];
    out->kind = (semel_history_kind)in[1];
    out->outcome = (semel_outcome)in[2];
    out->refused = (semel_outcome)in[3];
    out->attempt = (uint32_t)in[4];
    out->delivery = (uint32_t)in[5];
    out->retry_ms = (uint32_t)in[6];
    out->took_ns = in[7];
    out->letter = in[8];
    out->count = (uint64_t)in[9];
    out->body_len = (size_t)in[10];
    out->kept = in[11] != 0;
}

semel_status sql_history_complete(semel_history *row, const semel_message *message,
                                  semel_status outcome, const semel_error *damage, semel_error *err)
{
    if (outcome == SEMEL_ENOMEM)
        return semel_fail(err, outcome, "%s", damage->text);
    row->message_id = message->id; /* for a damaged row, which has no message */
    row->type = message->type;
    row->source = message->source;
    row->message = outcome ? NULL : message;
    row->damage = outcome ? damage->text : NULL;
    return SEMEL_OK;
}

sql_history_way sql_history_choose(const semel_history_filter *filter)
{
    return filter->key.data ? HISTORY_BY_KEY : filter->name ? HISTORY_BY_NAME : HISTORY_BY_ID;
}
