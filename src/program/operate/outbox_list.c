/* semel outbox ls and semel outbox lag: what waits to be sent. */
#include "program/cli.h"
#include "program/operate/outboxes.h"
#include "program/operate/table.h"

#include <string.h>

enum { HEAD = 100, COUNTING_MS = 2000 };

static const table_column columns[] = {{"OUTBOX", "outbox", 0, 0},
                                       {"WAITING", "waiting", 1, 0},
                                       {"OLDEST", NULL, 0, 0},
                                       {NULL, "oldest_at", 0, 0},
                                       {"DUE", "due", 1, 0},
                                       {"LAST ERROR", "error", 0, 1},
                                       {0}};

typedef struct outbox_row {
    const char *name;
    semel_stats stats;
    const char *error; /* NULL: none */
} outbox_row;

typedef struct first_error {
    region *memory;
    const char *text;
} first_error;

static semel_status keep_error(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    first_error *first = context;
    (void)err;
    if (!*outgoing->error)
        return SEMEL_OK;
    first->text = region_copy(first->memory, outgoing->error, strlen(outgoing->error));
    return SEMEL_EGIVEUP;
}

/* Of the first of those that have waited longest. */
static semel_status find_error(outbox_row *row, tool *t, const waiting_place *where,
                               semel_error *err)
{
    first_error first = {.memory = &t->memory};
    semel_outgoing_filter filter = {.size = sizeof filter, .limit = HEAD};
    semel_status status = waiting_page(where, &filter, keep_error, &first, err);
    row->error = first.text;
    return status == SEMEL_EGIVEUP ? SEMEL_OK : status;
}

static int read_row(outbox_row *row, tool *t, const known_name *outbox)
{
    semel_error why = {0};
    waiting_place where = {0};
    *row = (outbox_row){.name = outbox->name};
    if (!outbox->in_store)
        return CLI_OK;
    semel_status status = waiting_open(&where, t, SEMEL_NAME_OUTBOX, outbox->name, &why);
    if (!status)
        status =
            semel_outbox_stats(&row->stats, sizeof row->stats, where.outbox, COUNTING_MS, &why);
    if (!status && row->stats.unsent)
        status = find_error(row, t, &where, &why);
    waiting_close(&where);
    return status ? tool_failed(t, &why) : CLI_OK;
}

static void add_row(table *to, const outbox_row *row)
{
    int64_t oldest = row->stats.oldest_unsent_ms;
    table_text(to, row->name);
    table_number(to, (int64_t)row->stats.unsent);
    if (oldest)
        table_duration(to, row->stats.at_ms > oldest ? row->stats.at_ms - oldest : 0);
    else
        table_text(to, NULL);
    table_moment(to, oldest);
    table_number(to, (int64_t)row->stats.due);
    table_text(to, row->error);
    table_end_row(to);
}

/* `lag` has only those in which something waits. If nothing waits anywhere, both are empty. */
static int list_outboxes(outbox_work *w, int only_waiting)
{
    known_names all;
    uint64_t waiting = 0;
    table to = {.columns = columns, .json = w->options.json, .utc = w->options.utc};
    int status = names_read(&all, &w->tool, SEMEL_NAME_OUTBOX);
    for (size_t i = 0; !status && i < all.count; i++) {
        outbox_row row;
        if (!filters_match(&w->filter.outboxes, all.items[i].name))
            continue;
        status = read_row(&row, &w->tool, &all.items[i]);
        waiting += row.stats.unsent;
        if (!status && (row.stats.unsent || !only_waiting))
            add_row(&to, &row);
    }
    names_free(&all);
    if (!status && waiting)
        table_print(&to, stdout);
    else if (!status)
        tool_say(&w->tool, "no messages waiting to be sent");
    table_free(&to);
    return status;
}

static int list_one(outbox_work *w, const char *name)
{
    waiting_place where;
    int status = outbox_open_named(&where, &w->tool, name);
    if (!status && where.outbox)
        status = waiting_list(&w->tool, &w->filters, &where, "outbox");
    else if (!status)
        tool_say(&w->tool, "no messages waiting to be sent");
    waiting_close(&where);
    return status;
}

static int run(outbox_work *w, const char *caller, int lag)
{
    int status = tool_open(&w->tool, caller, &w->options);
    if (!status)
        status = filters_read(&w->filters, &w->tool, &w->filter);
    if (!status)
        status = w->rest.count ? list_one(w, w->rest.items[0]) : list_outboxes(w, lag);
    filters_free(&w->filters);
    tool_close(&w->tool);
    return status;
}

int outbox_ls(int argc, char **argv)
{
    static outbox_work w;
    const argument_option options[] = {
        TOOL_OPTIONS(&w.options), FILTER_OUTBOX(&w.filter), FILTER_TYPE(&w.filter),
        FILTER_ERROR(&w.filter),  FILTER_SINCE(&w.filter),  FILTER_UNTIL(&w.filter),
        FILTER_LIMIT(&w.filter),  FILTER_AFTER(&w.filter),  {0}};
    int status = arguments_read("outbox ls", argc, argv, options, &w.rest);
    if (!status && w.rest.count > 1)
        status = cli_usage("outbox ls", "it takes one outbox, not %zu", w.rest.count);
    return status ? status : run(&w, "outbox ls", 0);
}

int outbox_lag(int argc, char **argv)
{
    static outbox_work w;
    const argument_option options[] = {TOOL_OPTIONS(&w.options), FILTER_OUTBOX(&w.filter), {0}};
    int status = arguments_read("outbox lag", argc, argv, options, &w.rest);
    if (!status && w.rest.count)
        status =
            cli_usage("outbox lag", "it takes no arguments, and there is \"%s\"", w.rest.items[0]);
    return status ? status : run(&w, "outbox lag", 1);
}
