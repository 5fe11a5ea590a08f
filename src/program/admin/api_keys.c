/* See api_keys.h. */
#include "program/admin/api_keys.h"

#include "program/operate/inboxes.h"
#include "program/support/show.h"

#include <string.h>

int key_is_copy(const semel_history *row)
{
    return row->outcome == SEMEL_DUPLICATE || row->outcome == SEMEL_REPLAYED ||
           row->outcome == SEMEL_IN_PROGRESS || (row->outcome == SEMEL_DEAD && !row->letter);
}

void key_put_strip(buffer *to, const key_facts *k)
{
    put_open(to, "strip", '{');
    put_int(to, "failures", k->failures);
    put_int(to, "processed", k->processed);
    put_int(to, "copies", k->copies);
    put_int(to, "dead", k->dead);
    put_close(to, '}');
}

semel_status key_open_inbox(semel_inbox **out, const api_place *at, const char *name,
                            semel_error *err)
{
    semel_status status = semel_inbox_open_known(out, at->store, name, err);
    return status == SEMEL_ENOTFOUND ? SEMEL_OK : status;
}

/* --- the history ------------------------------------------------------------------------------ */

typedef struct gathering {
    key_facts *to;
    region *memory;
    const row_filter *filter;
    const char *inbox;
} gathering;

static const char *copy(region *memory, const char *text)
{
    return text ? region_copy(memory, text, strlen(text)) : NULL;
}

static const char *copy_id(region *memory, semel_bytes id)
{
    buffer shown = {0};
    if (!id.len)
        return NULL;
    show_key(&shown, id);
    const char *text = region_copy(memory, shown.data, shown.len);
    buffer_free(&shown);
    return text;
}

static int is_meant(const row_filter *f, const semel_history *row)
{
    return (!f->outcome || row->outcome == f->outcome) &&
           (!f->type || (row->type && strcmp(row->type, f->type) == 0)) &&
           (!f->since_ms || row->at_ms >= f->since_ms);
}

static void count_row(key_facts *k, const semel_history *row)
{
    k->copies += (uint32_t)key_is_copy(row);
    k->failures += row->outcome == SEMEL_FAILED;
    k->processed += row->outcome == SEMEL_PROCESSED;
    k->dead += row->outcome == SEMEL_DEAD && row->letter;
    if (row->outcome == SEMEL_PROCESSED && !k->at_ms) {
        k->at_ms = row->at_ms;
        k->took_ns = row->took_ns;
        k->sent = (int64_t)row->count;
    }
    if (row->attempt > k->attempts)
        k->attempts = row->attempt;
    if (row->letter && !k->letter)
        k->letter = row->letter;
}

/* The newest comes first. */
static semel_status gather(const semel_history *row, void *context, semel_error *err)
{
    gathering *g = context;
    key_facts *k = g->to;
    (void)err;
    if (row->kind != SEMEL_HISTORY_RECEIVED)
        return SEMEL_OK;
    if (!k->rows++)
        k->last_ms = row->at_ms;
    if (!k->newest_match && is_meant(g->filter, row))
        k->newest_match = row->id;
    if (!key_is_copy(row) && !k->last_outcome) {
        k->last_outcome = row->outcome;
        if (row->outcome == SEMEL_FAILED)
            k->due_ms = row->at_ms + row->retry_ms;
    }
    count_row(k, row);
    k->first_ms = row->at_ms;
    k->type = row->type ? copy(g->memory, row->type) : k->type;
    k->source = row->source ? copy(g->memory, row->source) : k->source;
    k->message_id = row->message_id.len ? copy_id(g->memory, row->message_id) : k->message_id;
    return SEMEL_OK;
}

static semel_status read_history(key_facts *k, region *memory, const api_place *at,
                                 const char *name, const row_filter *filter, semel_error *err)
{
    gathering g = {.to = k, .memory = memory, .filter = filter};
    const semel_history_filter rows = {.size = sizeof rows,
                                       .kind = SEMEL_HISTORY_RECEIVED,
                                       .name = name,
                                       .key = k->key,
                                       .limit = KEY_ROWS_MAX};
    semel_status status = semel_history_list(at->store, &rows, gather, &g, err);
    return status == SEMEL_EUNSUPPORTED ? SEMEL_OK : status;
}

/* --- the marker ------------------------------------------------------------------------------- */

static semel_status keep_marker(const semel_marker *m, void *context, semel_error *err)
{
    gathering *g = context;
    key_facts *k = g->to;
    (void)err;
    k->has_marker = 1;
    k->marker = m->state;
    k->marker_first_ms = m->first_ms;
    k->marker_last_ms = m->last_ms;
    k->lease_until_ms = m->lease_until_ms;
    k->marker_attempts = m->attempts;
    k->has_result = m->has_result;
    k->unknown_why = inbox_unknown_outcome(g->memory, g->inbox, m);
    k->marker_error = k->unknown_why ? k->unknown_why : copy(g->memory, m->error);
    k->type = k->type ? k->type : copy(g->memory, m->type);
    k->source = k->source ? k->source : copy(g->memory, m->source);
    return SEMEL_OK;
}

static semel_status read_marker(key_facts *k, region *memory, semel_inbox *inbox, const char *name,
                                semel_error *err)
{
    gathering g = {.to = k, .memory = memory, .inbox = name};
    const semel_marker_filter filter = {.size = sizeof filter,
                                        .key = k->key,
                                        .key_is_stored = 1,
                                        .limit = 1,
                                        .results = inbox_keeps_answers(name)};
    return inbox ? semel_inbox_list(inbox, &filter, keep_marker, &g, err) : SEMEL_OK;
}

static const char *state_of_marker(semel_marker_state state)
{
    return state == SEMEL_MARKER_DONE      ? "processed"
           : state == SEMEL_MARKER_CLAIMED ? "progress"
           : state == SEMEL_MARKER_OPEN    ? "waiting"
           : state == SEMEL_MARKER_DEAD    ? "dead"
                                           : "unknown";
}

static const char *state_of_history(const key_facts *k)
{
    if (k->processed)
        return "processed";
    switch (k->last_outcome) {
    case SEMEL_FAILED:
        return "waiting";
    case SEMEL_DEAD:
        return "dead";
    case SEMEL_MISMATCH:
        return "mismatch";
    case SEMEL_STALE:
        return "stale";
    default:
        return "unknown";
    }
}

/* The marker knows; without one, the history says what became of it. */
static void decide(key_facts *k)
{
    k->state = k->unknown_why  ? "outcome_unknown"
               : k->has_marker ? state_of_marker(k->marker)
                               : state_of_history(k);
    if (!k->rows) {
        k->first_ms = k->marker_first_ms;
        k->last_ms = k->marker_last_ms;
    }
    if (k->has_marker && k->marker == SEMEL_MARKER_DONE) {
        k->at_ms = k->at_ms ? k->at_ms : k->marker_last_ms;
        k->processed = k->processed ? k->processed : 1;
    }
    if (k->has_marker && k->marker_attempts > k->attempts)
        k->attempts = k->marker_attempts;
}

static key_facts begin(region *memory, semel_bytes key)
{
    return (key_facts){.key = {region_copy(memory, key.data, key.len), key.len},
                       .took_ns = -1,
                       .sent = -1,
                       .state = "unknown"};
}

semel_status key_read(key_facts *out, region *memory, const api_place *at, semel_inbox *inbox,
                      const char *name, semel_bytes key, const row_filter *filter, semel_error *err)
{
    *out = begin(memory, key);
    semel_status status = read_history(out, memory, at, name, filter, err);
    if (!status)
        status = read_marker(out, memory, inbox, name, err);
    decide(out);
    return status;
}

semel_status key_read_history(key_facts *out, region *memory, const api_place *at,
                              semel_inbox *inbox, const char *name, semel_bytes key,
                              const row_filter *filter, semel_error *err)
{
    *out = begin(memory, key);
    semel_status status = read_history(out, memory, at, name, filter, err);
    if (!status && (!out->processed || inbox_keeps_answers(name)))
        status = read_marker(out, memory, inbox, name, err);
    decide(out);
    return status;
}
