/* See waiting.h. */
#include "program/operate/waiting.h"

#include "program/cli.h"
#include "program/operate/table.h"
#include "program/support/show.h"
#include "program/support/typed_key.h"

#include <ctype.h>
#include <string.h>

enum { PAGE = 1000, MS_PER_S = 1000, MINUTE_MS = 60000, NS_PER_MS = 1000000 };

/* --- places ----------------------------------------------------------------------------------- */

semel_status waiting_open(waiting_place *out, tool *t, semel_name_kind kind, const char *name,
                          semel_error *err)
{
    *out = (waiting_place){.name = name};
    return kind == SEMEL_NAME_OUTBOX ? semel_outbox_open(&out->outbox, t->store, name, err)
                                     : semel_queue_open(&out->queue, t->store, name, NULL, err);
}

void waiting_close(waiting_place *where)
{
    semel_outbox_close(where->outbox);
    semel_transport_close(where->queue);
    *where = (waiting_place){0};
}

semel_status waiting_page(const waiting_place *where, const semel_outgoing_filter *filter,
                          semel_outgoing_visitor *visitor, void *context, semel_error *err)
{
    return where->outbox ? semel_outbox_list(where->outbox, filter, visitor, context, err)
                         : semel_queue_list(where->queue, filter, visitor, context, err);
}

/* --- page by page ----------------------------------------------------------------------------- */

typedef struct walk {
    semel_outgoing_visitor *visitor;
    void *context;
    int64_t last;
    uint32_t seen;
} walk;

static semel_status walk_on(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    walk *w = context;
    w->last = outgoing->seq;
    w->seen++;
    return w->visitor(outgoing, w->context, err);
}

static semel_status walk_from(const waiting_place *where, int64_t after,
                              semel_outgoing_visitor *visitor, void *context, semel_error *err)
{
    walk w = {.visitor = visitor, .context = context, .last = after};
    semel_status status;
    do {
        semel_outgoing_filter filter = {.size = sizeof filter, .after_seq = w.last, .limit = PAGE};
        w.seen = 0;
        status = waiting_page(where, &filter, walk_on, &w, err);
    } while (!status && w.seen == PAGE);
    return status;
}

semel_status waiting_each(const waiting_place *where, semel_outgoing_visitor *visitor,
                          void *context, semel_error *err)
{
    return walk_from(where, 0, visitor, context, err);
}

/* --- finding one ------------------------------------------------------------------------------ */

typedef struct finding {
    semel_bytes id;
    int64_t seq;
} finding;

static semel_status compare_id(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    finding *f = context;
    const semel_message *m = outgoing->message;
    (void)err;
    if (!m || m->id.len != f->id.len || memcmp(m->id.data, f->id.data, m->id.len) != 0)
        return SEMEL_OK;
    f->seq = outgoing->seq;
    return SEMEL_EGIVEUP;
}

semel_status waiting_find(int64_t *seq, const waiting_place *where, semel_bytes id,
                          semel_error *err)
{
    finding f = {.id = id};
    semel_status status = waiting_each(where, compare_id, &f, err);
    *seq = f.seq;
    return status == SEMEL_EGIVEUP ? SEMEL_OK : status;
}

int waiting_read_id(semel_bytes *out, tool *t, const char *typed)
{
    const char *wrong = typed_key(out, &t->memory, typed);
    return wrong ? tool_usage(t, "the id is not one: %s", wrong) : CLI_OK;
}

/* --- filters ---------------------------------------------------------------------------------- */

/* As the library compares errors of letters: upper and lower case of ASCII are the same. */
static int contains(const char *text, const char *part)
{
    size_t len = strlen(part);
    for (; *text; text++) {
        size_t same = 0;
        while (same < len &&
               tolower((unsigned char)text[same]) == tolower((unsigned char)part[same]))
            same++;
        if (same == len)
            return 1;
    }
    return !len;
}

int waiting_is_meant(const filters *f, const semel_outgoing *outgoing)
{
    const char *type = outgoing->message ? outgoing->message->type : NULL;
    return filters_match(&f->given->types, type) &&
           (!f->given->error || contains(outgoing->error, f->given->error)) &&
           (!f->since_ms || outgoing->captured_ms >= f->since_ms) &&
           (!f->until_ms || outgoing->captured_ms < f->until_ms);
}

/* --- listing ---------------------------------------------------------------------------------- */

void waiting_show_due(buffer *to, const tool *t, const semel_outgoing *outgoing)
{
    int64_t left = outgoing->due_ms - t->now_ms;
    if (outgoing->leased)
        buffer_text(to, "in progress");
    else if (left <= 0)
        buffer_text(to, "now");
    else if (left < MINUTE_MS)
        buffer_printf(to, "%d s", (int)((left + MS_PER_S - 1) / MS_PER_S));
    else
        show_duration(to, left > INT64_MAX / NS_PER_MS ? INT64_MAX : left * NS_PER_MS);
}

typedef struct listing {
    tool *tool;
    const filters *filters;
    const waiting_place *where;
    table to;
    buffer shown; /* the id of the last one that was shown */
    uint32_t count;
    int more;
} listing;

static void add_cells(listing *l, const semel_outgoing *outgoing)
{
    buffer due = {0};
    const semel_message *m = outgoing->message;
    table_text(&l->to, l->where->name);
    if (m)
        table_id(&l->to, m->id);
    else
        table_text(&l->to, NULL);
    table_text(&l->to, m ? m->type : NULL);
    table_number(&l->to, outgoing->attempts);
    table_moment(&l->to, outgoing->captured_ms);
    waiting_show_due(&due, l->tool, outgoing);
    table_text(&l->to, due.data);
    table_moment(&l->to, outgoing->due_ms);
    table_cell(&l->to, "", outgoing->leased ? "true" : "false");
    table_text(&l->to, *outgoing->error ? outgoing->error : NULL);
    table_end_row(&l->to);
    buffer_free(&due);
}

static semel_status add_message(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    listing *l = context;
    (void)err;
    if (!waiting_is_meant(l->filters, outgoing))
        return SEMEL_OK;
    if (l->count == l->filters->limit) {
        l->more = 1;
        return SEMEL_EGIVEUP;
    }
    l->count++;
    l->shown.len = 0;
    if (outgoing->message)
        show_key(&l->shown, outgoing->message->id);
    add_cells(l, outgoing);
    if (l->count % PAGE == 0 && !table_page(&l->to, stdout))
        return SEMEL_EGIVEUP; /* the reader has had enough */
    return SEMEL_OK;
}

static int is_filtered(const filter_options *given)
{
    return given->types.count || given->error || given->since || given->until || given->after;
}

/* How many more there are, if the store can count them without reading them. */
static void add_rest(buffer *to, const listing *l)
{
    enum { COUNTING_MS = 500 };
    semel_stats stats = {0};
    if (!l->where->outbox || is_filtered(l->filters->given) ||
        semel_outbox_stats(&stats, sizeof stats, l->where->outbox, COUNTING_MS, NULL) ||
        stats.unsent <= l->count)
        return;
    show_number(to, stats.unsent - l->count);
    buffer_text(to, " ");
}

/* 214 more: semel outbox ls shipping --after 019cea1b-... */
static void say_how_to_continue(const listing *l)
{
    buffer line = {0};
    add_rest(&line, l);
    buffer_printf(&line, "more: semel %s ", l->tool->command);
    show_argument(&line, l->where->name);
    filters_text(&line, l->filters->given);
    if (l->shown.len) {
        buffer_text(&line, " --after ");
        show_argument(&line, l->shown.data);
    }
    tool_say(l->tool, "%s", line.data);
    buffer_free(&line);
}

static int read_after(int64_t *seq, tool *t, const filters *f, const waiting_place *where)
{
    semel_error why = {0};
    semel_bytes id;
    *seq = 0;
    if (!f->given->after)
        return CLI_OK;
    int status = waiting_read_id(&id, t, f->given->after);
    if (status)
        return status;
    if (waiting_find(seq, where, id, &why))
        return tool_failed(t, &why);
    return *seq ? CLI_OK
                : tool_refuse(t, CLI_NOT_FOUND, "message \"%s\" does not wait in \"%s\" any more",
                              f->given->after, where->name);
}

int waiting_list(tool *t, const filters *f, const waiting_place *where, const char *field)
{
    const table_column columns[] = {{NULL, field, 0, 0},           {"ID", "id", 0, 0},
                                    {"TYPE", "type", 0, 0},        {"ATTEMPTS", "attempts", 1, 0},
                                    {"SINCE", "at", 0, 0},         {"DUE IN", NULL, 0, 0},
                                    {NULL, "due_at", 0, 0},        {NULL, "in_progress", 0, 0},
                                    {"LAST ERROR", "error", 0, 1}, {0}};
    listing l = {.tool = t,
                 .filters = f,
                 .where = where,
                 .to = {.columns = columns, .json = t->options->json, .utc = t->options->utc}};
    semel_error why = {0};
    int64_t after = 0;
    int status = read_after(&after, t, f, where);
    if (!status) {
        semel_status walked = walk_from(where, after, add_message, &l, &why);
        status = walked && walked != SEMEL_EGIVEUP ? tool_failed(t, &why) : CLI_OK;
    }
    table_print(&l.to, stdout);
    if (!status && !l.count)
        tool_say(t, "no matching messages wait in %s", where->name);
    else if (!status && l.more)
        say_how_to_continue(&l);
    buffer_free(&l.shown);
    return status;
}
