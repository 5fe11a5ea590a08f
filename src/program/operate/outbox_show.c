/* semel outbox show: one message that waits to be sent. */
#include "program/cli.h"
#include "program/operate/message_show.h"
#include "program/operate/outboxes.h"
#include "program/operate/table.h"
#include "program/support/pager.h"
#include "program/support/show.h"

#include <string.h>

typedef struct showing {
    outbox_work *work;
    const char *outbox;
    int shown;
    int waits; /* for its next attempt: what `outbox requeue` makes due */
} showing;

static void add_moment(buffer *to, const outbox_work *w, int64_t ms)
{
    if (w->options.utc)
        show_moment_utc(to, ms);
    else
        show_moment(to, ms);
}

static void add_part(buffer *to, const char *before, const char *text)
{
    if (!text || !*text)
        return;
    buffer_printf(to, ", %s", before);
    show_text(to, text, strlen(text), 0);
}

/* "semel outbox show 7f3a --body", as it can be typed. */
static void show_body(const showing *s, semel_bytes body)
{
    buffer how = {0};
    buffer_text(&how, "semel outbox show ");
    show_argument(&how, s->work->rest.items[0]);
    buffer_text(&how, " --body");
    message_show_body(body, how.data);
    buffer_free(&how);
}

static void show_people(const showing *s, const semel_outgoing *outgoing)
{
    buffer line = {0}, error = {0}, due = {0};
    const semel_message *m = outgoing->message;
    show_key(&line, m->id);
    add_part(&line, "", m->type);
    add_part(&line, "topic ", m->topic);
    add_part(&line, "group ", m->group);
    message_show_line("message", line.data);
    line.len = 0;
    buffer_printf(&line, "%s, since ", s->outbox);
    add_moment(&line, s->work, outgoing->captured_ms);
    buffer_printf(&line, ", %u attempt%s", outgoing->attempts, outgoing->attempts == 1 ? "" : "s");
    message_show_line("outbox", line.data);
    waiting_show_due(&due, &s->work->tool, outgoing);
    message_show_line(outgoing->leased ? "state" : "due in", due.data);
    show_text(&error, outgoing->error, strlen(outgoing->error), 0);
    message_show_line("error", error.data);
    message_show_headers(m);
    show_body(s, m->body);
    buffer_free(&line);
    buffer_free(&error);
    buffer_free(&due);
}

static void show_json_row(const showing *s, const semel_outgoing *outgoing)
{
    static const table_column columns[] = {{NULL, "outbox", 0, 0},      {NULL, "id", 0, 0},
                                           {NULL, "type", 0, 0},        {NULL, "attempts", 0, 0},
                                           {NULL, "at", 0, 0},          {NULL, "due_at", 0, 0},
                                           {NULL, "in_progress", 0, 0}, {NULL, "error", 0, 0},
                                           {NULL, "message", 0, 0},     {0}};
    buffer message = {0};
    table to = {.columns = columns, .json = 1};
    table_text(&to, s->outbox);
    table_id(&to, outgoing->message->id);
    table_text(&to, outgoing->message->type);
    table_number(&to, outgoing->attempts);
    table_moment(&to, outgoing->captured_ms);
    table_moment(&to, outgoing->due_ms);
    table_cell(&to, NULL, outgoing->leased ? "true" : "false");
    table_text(&to, *outgoing->error ? outgoing->error : NULL);
    message_show_json(&message, outgoing->message);
    table_cell(&to, NULL, message.data);
    table_end_row(&to);
    table_print(&to, stdout);
    buffer_free(&message);
}

static semel_status show_one(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    showing *s = context;
    (void)err;
    if (!outgoing->message)
        return SEMEL_OK;
    int on_terminal = tool_on_terminal(&s->work->tool);
    s->shown = 1;
    s->waits = !outgoing->leased && outgoing->due_ms > s->work->tool.now_ms;
    pager_begin(s->work->options.no_pager);
    if (s->work->body)
        message_show_raw(outgoing->message->body, on_terminal);
    else if (s->work->options.json)
        show_json_row(s, outgoing);
    else
        show_people(s, outgoing);
    pager_end();
    return SEMEL_OK;
}

static void say_next(const outbox_work *w, const char *outbox)
{
    buffer line = {0};
    buffer_text(&line, "next: semel outbox requeue ");
    show_argument(&line, outbox);
    buffer_text(&line, "; to give up on it: semel outbox skip ");
    show_argument(&line, w->rest.items[0]);
    tool_say(&w->tool, "%s", line.data);
    buffer_free(&line);
}

static int show_found(outbox_work *w, const outbox_message *found)
{
    const waiting_place *where = &found->where;
    showing s = {.work = w, .outbox = where->name};
    semel_error why = {0};
    semel_outgoing_filter filter = {
        .size = sizeof filter, .after_seq = found->seq - 1, .limit = 1, .contents = 1};
    if (waiting_page(where, &filter, show_one, &s, &why))
        return tool_failed(&w->tool, &why);
    (void)fflush(stdout);
    if (s.waits && !w->options.json && !w->body)
        say_next(w, where->name);
    return CLI_OK;
}

int outbox_show(int argc, char **argv)
{
    static outbox_work w;
    const argument_option options[] = {
        TOOL_OPTIONS(&w.options), {"--body", 0, ARGUMENT_FLAG, &w.body}, {0}};
    outbox_message found = {.seq = 0};
    int status = arguments_read("outbox show", argc, argv, options, &w.rest);
    if (!status && w.rest.count != 1)
        status = cli_usage("outbox show", "it takes the id of one message");
    if (status)
        return status;
    status = tool_open(&w.tool, "outbox show", &w.options);
    if (!status)
        status = outboxes_find(&found, &w.tool, w.rest.items[0]);
    if (!status)
        status = show_found(&w, &found);
    waiting_close(&found.where);
    tool_close(&w.tool);
    return status;
}
