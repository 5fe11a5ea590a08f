/* semel inbox ls: the inboxes, or the keys of one. */
#include "program/cli.h"
#include "program/config/complete.h"
#include "program/operate/inboxes.h"
#include "program/support/show.h"
#include "program/support/typed_key.h"
#include "program/support/units.h"

#include <string.h>

/* --- inboxes ---------------------------------------------------------------------------------- */

enum { COUNTING_MS = 800 }; /* for all inboxes together; then the number of keys is not known */

static const table_column inbox_columns[] = {
    {"INBOX", "inbox", 0, 0},     {"KEYS", "keys_estimate", 1, 0},
    {"DEAD", "dead", 1, 0},       {"RETENTION", NULL, 0, 0},
    {NULL, "retention_ms", 0, 0}, {"MODE", "mode", 0, 0},
    {"KEY", "key", 0, 0},         {0}};

static void add_retention(table *to, const inbox_config *configured)
{
    uint64_t ms = configured ? configured->options.retention_ms : 0;
    if (!configured) {
        table_text(to, NULL);
        table_number(to, -1);
    } else if (ms == SEMEL_RETENTION_FOREVER) {
        table_text(to, "forever");
        table_number(to, -1);
    } else {
        ms = ms == SEMEL_RETENTION_NONE ? 0 : ms;
        table_text(to, units_show_duration(ms).text);
        table_number(to, (int64_t)ms);
    }
}

static int64_t left_ms(int64_t begun_ns)
{
    int64_t left = COUNTING_MS - (steady_clock_ns() - begun_ns) / 1000000;
    return left > 1 ? left : 1;
}

static int count_keys(semel_stats *out, tool *t, const char *name, int64_t begun_ns)
{
    semel_error why = {0};
    semel_inbox *inbox = NULL;
    semel_status status = semel_inbox_open_known(&inbox, t->store, name, &why);
    if (!status)
        status = semel_inbox_stats(out, sizeof *out, inbox, (uint32_t)left_ms(begun_ns), &why);
    semel_inbox_close(inbox);
    if (status == SEMEL_EBUSY || status == SEMEL_EUNAVAILABLE) { /* not in the time that is left */
        out->keys = -1;
        return CLI_OK;
    }
    return status ? tool_failed(t, &why) : CLI_OK;
}

static int add_inbox(table *to, tool *t, const known_name *inbox, int64_t begun_ns)
{
    semel_stats stats = {0};
    int status = inbox->in_store ? count_keys(&stats, t, inbox->name, begun_ns) : CLI_OK;
    if (status)
        return status;
    table_text(to, inbox->name);
    table_number(to, stats.keys);
    table_number(to, (int64_t)stats.dead);
    add_retention(to, t->all ? config_inbox(t->all, inbox->name) : NULL);
    table_text(to, inbox_mode_word(t, inbox));
    table_text(to, inbox_key_expression(t, inbox));
    table_end_row(to);
    return CLI_OK;
}

static int list_inboxes(inbox_work *w)
{
    known_names all;
    table to = {.columns = inbox_columns, .json = w->options.json, .utc = w->options.utc};
    int64_t begun_ns = steady_clock_ns();
    int status = names_read(&all, &w->tool, SEMEL_NAME_INBOX);
    for (size_t i = 0; !status && i < all.count; i++)
        if (filters_match(&w->filter.inboxes, all.items[i].name))
            status = add_inbox(&to, &w->tool, &all.items[i], begun_ns);
    int none = !table_rows(&to);
    table_print(&to, stdout);
    names_free(&all);
    if (!status && none)
        tool_say(&w->tool, "no inbox has been used in this store yet");
    return status;
}

/* --- keys of one ------------------------------------------------------------------------------ */

enum { PAGE = 1000 };

static const table_column key_columns[] = {{NULL, "inbox", 0, 0},
                                           {"KEY", "key", 0, 0},
                                           {"STATE", "state", 0, 0},
                                           {"ATTEMPTS", "attempts", 1, 0},
                                           {"SINCE", "at", 0, 0},
                                           {"ERROR", "error", 0, 1},
                                           {0}};

typedef struct key_list {
    inbox_work *work;
    const char *inbox;
    table to;
    semel_marker_filter filter;
    buffer last;  /* the last key that was read, */
    buffer shown; /* and the last that was shown */
    uint32_t seen, count;
    int more;
} key_list;

static int is_meant(const filters *f, const semel_marker *marker)
{
    return (!f->since_ms || marker->last_ms >= f->since_ms) &&
           (!f->until_ms || marker->last_ms < f->until_ms);
}

static void set_bytes(buffer *to, semel_bytes from)
{
    to->len = 0;
    buffer_add(to, from.data, from.len);
}

static semel_status add_key(const semel_marker *marker, void *context, semel_error *err)
{
    key_list *list = context;
    (void)err;
    list->seen++;
    set_bytes(&list->last, marker->key);
    if (!is_meant(&list->work->filters, marker))
        return SEMEL_OK;
    if (list->count == list->work->filters.limit) {
        list->more = 1;
        return SEMEL_OK;
    }
    list->count++;
    set_bytes(&list->shown, marker->key);
    table_text(&list->to, list->inbox);
    table_key(&list->to, marker->key);
    table_text(&list->to, inbox_state_word(marker->state));
    table_number(&list->to, marker->state == SEMEL_MARKER_DONE ? -1 : (int64_t)marker->attempts);
    table_moment(&list->to, marker->last_ms);
    table_text(&list->to, inbox_error_text(&list->work->tool.memory, list->inbox, marker));
    table_end_row(&list->to);
    return SEMEL_OK;
}

/* One more than is shown, to know whether there are more. */
static uint32_t next_limit(const key_list *list)
{
    uint32_t left = list->work->filters.limit - list->count;
    return left < PAGE ? left + 1 : PAGE;
}

static int list_pages(key_list *list, tool *t, semel_inbox *inbox)
{
    semel_error why = {0};
    do {
        list->seen = 0;
        list->filter.limit = next_limit(list);
        if (semel_inbox_list(inbox, &list->filter, add_key, list, &why))
            return tool_failed(t, &why);
        list->filter.after = (semel_bytes){list->last.data, list->last.len};
    } while (table_page(&list->to, stdout) && !list->more && list->seen == list->filter.limit);
    return CLI_OK;
}

/* 316 more: semel dead ls --cause 7f3a --after 2102, but the number is not known. */
static void say_how_to_continue(const key_list *list)
{
    buffer line = {0}, key = {0};
    show_stored_key(&key, (semel_bytes){list->shown.data, list->shown.len});
    buffer_printf(&line, "more: semel inbox ls %s", list->inbox);
    filters_text(&line, &list->work->filter);
    buffer_text(&line, " --after ");
    show_argument(&line, key.data);
    tool_say(&list->work->tool, "%s", line.data);
    buffer_free(&line);
    buffer_free(&key);
}

static int read_after(key_list *list, inbox_work *w)
{
    semel_bytes after = {0};
    const char *wrong =
        w->filter.after ? typed_key_stored(&after, &w->tool.memory, w->filter.after) : NULL;
    list->filter.after = after;
    return wrong ? cli_usage(w->tool.command, "--after \"%s\": %s", w->filter.after, wrong)
                 : CLI_OK;
}

static int list_keys(inbox_work *w, const char *name)
{
    key_list list = {.work = w,
                     .inbox = name,
                     .to = {.columns = key_columns, .json = w->options.json, .utc = w->options.utc},
                     .filter = {.size = sizeof list.filter,
                                .state = w->filters.state,
                                .key = {w->filters.key.data, w->filters.key.len},
                                .key_is_stored = 1,
                                .results = inbox_keeps_answers(name)}};
    semel_inbox *inbox = NULL;
    int status = read_after(&list, w);
    if (!status)
        status = inbox_open_named(&inbox, &w->tool, name);
    if (!status && inbox)
        status = list_pages(&list, &w->tool, inbox);
    if (!status && !list.count)
        tool_say(&w->tool, "no matching keys in %s", name);
    else if (!status && list.more)
        say_how_to_continue(&list);
    semel_inbox_close(inbox);
    table_print(&list.to, stdout);
    buffer_free(&list.last);
    buffer_free(&list.shown);
    return status;
}

int inbox_ls(int argc, char **argv)
{
    static inbox_work w;
    const argument_option options[] = {
        TOOL_OPTIONS(&w.options), FILTER_INBOX(&w.filter), FILTER_STATE(&w.filter),
        FILTER_SINCE(&w.filter),  FILTER_UNTIL(&w.filter), FILTER_KEY(&w.filter),
        FILTER_LIMIT(&w.filter),  FILTER_AFTER(&w.filter), {0}};
    int status = arguments_read("inbox ls", argc, argv, options, &w.rest);
    if (!status && w.rest.count > 1)
        status = cli_usage("inbox ls", "it takes one inbox, not %zu", w.rest.count);
    if (status)
        return status;
    status = tool_open(&w.tool, "inbox ls", &w.options);
    if (!status)
        status = filters_read(&w.filters, &w.tool, &w.filter);
    if (!status)
        status = w.rest.count ? list_keys(&w, w.rest.items[0]) : list_inboxes(&w);
    filters_free(&w.filters);
    tool_close(&w.tool);
    return status;
}
