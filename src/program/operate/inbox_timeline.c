/* See inbox_timeline.h. */
#include "program/operate/inbox_timeline.h"

#include "program/support/show.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 1000, NS_PER_MS = 1000000 };

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct reading {
    timeline *to;
    const argument_list *inboxes;
    const char *inbox; /* for which messages were sent; NULL: the rows have it */
} reading;

static const char *keep_text(region *memory, const char *text)
{
    return text ? region_copy(memory, text, strlen(text)) : NULL;
}

static semel_status keep_row(const semel_history *row, void *context, semel_error *err)
{
    const reading *r = context;
    timeline *to = r->to;
    (void)err;
    if (!r->inbox && !filters_match(r->inboxes, row->name))
        return SEMEL_OK;
    if (to->count == to->room) {
        to->room = to->room ? 2 * to->room : 16;
        to->rows = must_realloc(to->rows, to->room * sizeof *to->rows);
    }
    timeline_row *copy = &to->rows[to->count++];
    copy->row = *row;
    copy->row.name = keep_text(&to->memory, row->name);
    copy->row.error = keep_text(&to->memory, row->error);
    copy->row.process = keep_text(&to->memory, row->process);
    copy->row.type = keep_text(&to->memory, row->type);
    copy->row.message_id.data = region_copy(
        &to->memory, row->message_id.len ? row->message_id.data : "", row->message_id.len);
    copy->inbox = r->inbox ? r->inbox : copy->row.name;
    return SEMEL_OK;
}

static semel_status read_rows(reading *r, tool *t, semel_history_kind kind, semel_bytes key,
                              semel_error *err)
{
    semel_history_filter filter = {
        .size = sizeof filter, .kind = kind, .key = key, .limit = ROWS_MAX};
    size_t before = r->to->count;
    semel_status status = semel_history_list(t->store, &filter, keep_row, r, err);
    r->to->is_cut |= r->to->count - before == ROWS_MAX;
    return status;
}

static int was_sent_for(const timeline *all, size_t received, const char *inbox)
{
    for (size_t i = 0; i < received; i++)
        if (all->rows[i].row.count && strcmp(all->rows[i].inbox, inbox) == 0)
            return 1;
    return 0;
}

static int is_first_of(const timeline *all, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (strcmp(all->rows[j].inbox, all->rows[i].inbox) == 0)
            return 0;
    return 1;
}

/* What was sent is found by the idempotency key, which only the whole key gives: of a long key only
 * the digest is stored. */
static semel_status read_sent(timeline *out, tool *t, semel_bytes key, semel_error *err)
{
    enum { DIGEST_MARK = 0xff };
    semel_status status = SEMEL_OK;
    size_t received = out->count;
    char id[SEMEL_IDEMPOTENCY_KEY_SIZE];
    if (!key.len || *(const unsigned char *)key.data == DIGEST_MARK)
        return SEMEL_OK;
    for (size_t i = 0; !status && i < received; i++) {
        reading r = {.to = out, .inbox = out->rows[i].inbox};
        if (!is_first_of(out, i) || !was_sent_for(out, received, r.inbox))
            continue;
        status = semel_idempotency_key(id, r.inbox, key, err);
        if (!status)
            status = read_rows(&r, t, SEMEL_HISTORY_SENT, semel_str(id), err);
    }
    return status;
}

static int compare_rows(const void *a, const void *b)
{
    const semel_history *x = &((const timeline_row *)a)->row, *y = &((const timeline_row *)b)->row;
    if (x->at_ms != y->at_ms)
        return x->at_ms < y->at_ms ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

void timeline_read(timeline *out, tool *t, const argument_list *inboxes, semel_bytes key)
{
    reading r = {.to = out, .inboxes = inboxes};
    semel_error why = {0};
    semel_status status = read_rows(&r, t, SEMEL_HISTORY_RECEIVED, key, &why);
    if (!status)
        status = read_sent(out, t, key, &why);
    if (status && status != SEMEL_EUNSUPPORTED)
        tool_say(t, "the history cannot be read: %s", why.text);
    if (out->count)
        qsort(out->rows, out->count, sizeof *out->rows, compare_rows);
}

void timeline_free(timeline *all)
{
    region_free(&all->memory);
    free(all->rows);
    *all = (timeline){0};
}

/* --- showing ---------------------------------------------------------------------------------- */

static const char *word_of(const semel_history *row)
{
    if (row->kind == SEMEL_HISTORY_SENT && row->outcome == SEMEL_PROCESSED)
        return "sent";
    return semel_outcome_name(row->outcome);
}

static void add_note(table *to, const semel_history *row)
{
    buffer note = {0};
    if (row->error && *row->error)
        buffer_text(&note, row->error);
    else if (row->kind == SEMEL_HISTORY_SENT)
        buffer_printf(&note, "to %s", row->name);
    else if (row->count)
        buffer_printf(&note, "%llu message%s sent", (unsigned long long)row->count,
                      row->count == 1 ? "" : "s");
    if (row->letter)
        buffer_printf(&note, "%sletter %lld", note.len ? ", " : "", (long long)row->letter);
    table_text(to, note.len ? note.data : NULL);
    buffer_free(&note);
}

static void add_took(table *to, int64_t took_ns)
{
    buffer took = {0};
    if (took_ns > 0)
        show_duration(&took, took_ns);
    table_text(to, took_ns > 0 ? took.data : NULL);
    buffer_free(&took);
}

void timeline_print(const timeline *all, int utc)
{
    static const table_column columns[] = {{"WHEN", NULL, 0, 0},
                                           {"INBOX", NULL, 0, 0},
                                           {"STATE", NULL, 0, 0},
                                           {"ATTEMPT", NULL, 1, 0},
                                           {"TOOK", NULL, 1, 0},
                                           {"NOTE", NULL, 0, 1},
                                           {0}};
    table to = {.columns = columns, .utc = utc};
    for (size_t i = 0; i < all->count; i++) {
        const semel_history *row = &all->rows[i].row;
        table_moment(&to, row->at_ms);
        table_text(&to, all->rows[i].inbox);
        table_text(&to, word_of(row));
        table_number(&to, row->attempt ? (int64_t)row->attempt : -1);
        add_took(&to, row->took_ns);
        add_note(&to, row);
        table_end_row(&to);
    }
    if (!all->count)
        return;
    (void)printf("\n%s\n", all->is_cut ? "the last deliveries:" : "deliveries:");
    table_print(&to, stdout);
}

static void json_number(buffer *to, const char *name, int64_t number)
{
    if (number)
        buffer_printf(to, ",\"%s\":%lld", name, (long long)number);
}

static void json_text(buffer *to, const char *name, const char *text, size_t len)
{
    if (!len)
        return;
    buffer_printf(to, ",\"%s\":", name);
    show_json(to, text, len);
}

static void json_row(buffer *to, const semel_history *row)
{
    buffer at = {0};
    int is_sent = row->kind == SEMEL_HISTORY_SENT;
    show_rfc3339(&at, row->at_ms);
    buffer_printf(to, "{\"at\":\"%s\",\"what\":\"%s\",\"outcome\":\"%s\"", at.data,
                  is_sent ? "sent" : "received", semel_outcome_name(row->outcome));
    json_number(to, "attempt", row->attempt);
    json_number(to, "delivery", row->delivery);
    json_number(to, "took_us", row->took_ns / 1000);
    json_number(to, "retry_ms", row->retry_ms);
    json_number(to, "letter", row->letter);
    json_number(to, "sent", (int64_t)row->count);
    if (is_sent)
        json_text(to, "outbox", row->name, strlen(row->name));
    json_text(to, "id", row->message_id.data, row->message_id.len);
    json_text(to, "type", row->type, row->type ? strlen(row->type) : 0);
    json_text(to, "process", row->process, strlen(row->process));
    json_text(to, "error", row->error, strlen(row->error));
    buffer_text(to, "}");
    buffer_free(&at);
}

void timeline_json(buffer *to, const timeline *all, const char *inbox)
{
    size_t before = 0;
    buffer_text(to, "[");
    for (size_t i = 0; i < all->count; i++) {
        if (strcmp(all->rows[i].inbox, inbox) != 0)
            continue;
        buffer_text(to, before++ ? "," : "");
        json_row(to, &all->rows[i].row);
    }
    buffer_text(to, "]");
}
