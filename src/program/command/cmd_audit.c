/* semel audit: what was changed by hand, and who did it. There are few entries, so the last ones
 * are found by reading all. */
#include "program/cli.h"
#include "program/operate/filters.h"
#include "program/operate/table.h"

const char audit_help[] =
    "usage: semel audit [--since TIME] [--until TIME] [--who NAME] [--limit N] [--after ID]\n"
    "Lists manual changes: when, by whom, what, and the result. Without --after, the last ones.\n";

enum { PAGE = 1000 };

typedef struct audit_work {
    tool_options options;
    filter_options filter;
    const char *who;
    argument_list rest;
    tool tool;
    filters filters;
    table to;
    uint64_t count, skipped, total;
    uint32_t seen;
    int64_t last;
} audit_work;

static const table_column columns[] = {{"AUDIT", "audit", 1, 0},
                                       {"WHEN", "at", 0, 0},
                                       {"WHO", "who", 0, 0},
                                       {"WHAT", "what", 0, 0},
                                       {"RESULT", "result", 0, 0},
                                       {NULL, "count", 0, 0},
                                       {0}};

static semel_status count_entry(const semel_audit *entry, void *context, semel_error *err)
{
    audit_work *w = context;
    (void)err;
    w->seen++;
    w->last = entry->id;
    w->total++;
    return SEMEL_OK;
}

static semel_status add_entry(const semel_audit *entry, void *context, semel_error *err)
{
    audit_work *w = context;
    (void)err;
    w->seen++;
    if (w->skipped) {
        w->last = entry->id;
        w->skipped--;
        return SEMEL_OK;
    }
    if (w->count == w->filters.limit)
        return SEMEL_EGIVEUP;
    w->last = entry->id;
    w->count++;
    char number[24];
    (void)snprintf(number, sizeof number, "%lld", (long long)entry->id);
    table_cell(&w->to, number, number);
    table_moment(&w->to, entry->at_ms);
    table_text(&w->to, entry->who);
    table_text(&w->to, entry->what);
    table_text(&w->to, *entry->result ? entry->result : NULL);
    table_number(&w->to, (int64_t)entry->count);
    table_end_row(&w->to);
    return SEMEL_OK;
}

/* All pages behind --after. */
static semel_status walk(audit_work *w, semel_audit_visitor *visitor, semel_error *err)
{
    semel_audit_filter filter = {.size = sizeof filter,
                                 .limit = PAGE,
                                 .since_ms = w->filters.since_ms,
                                 .until_ms = w->filters.until_ms,
                                 .who = w->who};
    semel_status status;
    w->last = w->filters.after_id;
    do {
        w->seen = 0;
        filter.after_id = w->last;
        status = semel_audit_list(w->tool.store, &filter, visitor, w, err);
    } while (!status && w->seen == PAGE && table_page(&w->to, stdout));
    return status == SEMEL_EGIVEUP ? SEMEL_OK : status;
}

static void say_rest(const audit_work *w)
{
    buffer typed = {0};
    filters_text(&typed, &w->filter);
    if (!w->total)
        tool_say(&w->tool, "no manual changes");
    else if (w->filter.after && w->total > w->count)
        tool_say(&w->tool, "%llu more: semel audit %s%s--after %lld",
                 (unsigned long long)(w->total - w->count), typed.data, typed.len ? " " : "",
                 (long long)w->last);
    else if (w->total > w->count)
        tool_say(&w->tool, "%llu earlier; all of them: semel audit --limit %llu",
                 (unsigned long long)(w->total - w->count), (unsigned long long)w->total);
    buffer_free(&typed);
}

static int list(audit_work *w)
{
    semel_error why = {0};
    w->to = (table){.columns = columns, .json = w->options.json, .utc = w->options.utc};
    semel_status status = walk(w, count_entry, &why);
    if (!w->filter.after && w->total > w->filters.limit)
        w->skipped = w->total - w->filters.limit;
    if (!status)
        status = walk(w, add_entry, &why);
    table_print(&w->to, stdout);
    if (status)
        return tool_failed(&w->tool, &why);
    say_rest(w);
    return CLI_OK;
}

int cmd_audit(int argc, char **argv)
{
    static audit_work w;
    const argument_option options[] = {TOOL_OPTIONS(&w.options),
                                       FILTER_SINCE(&w.filter),
                                       FILTER_UNTIL(&w.filter),
                                       FILTER_LIMIT(&w.filter),
                                       FILTER_AFTER(&w.filter),
                                       {"--who", 0, ARGUMENT_TEXT, &w.who},
                                       {0}};
    int status = arguments_read("audit", argc, argv, options, &w.rest);
    if (!status && w.rest.count)
        status = cli_usage("audit", "it takes no arguments, and there is \"%s\"", w.rest.items[0]);
    if (status)
        return status;
    status = tool_open(&w.tool, "audit", &w.options);
    if (!status)
        status = filters_read(&w.filters, &w.tool, &w.filter);
    if (!status)
        status = filters_read_after_id(&w.filters, &w.tool);
    if (!status)
        status = list(&w);
    filters_free(&w.filters);
    tool_close(&w.tool);
    return status;
}
