/* See top_page.h. */
#include "program/watch/top_page.h"

#include "program/operate/table.h"
#include "program/run/sample.h"
#include "program/support/encoding.h"
#include "program/support/show.h"
#include "program/watch/watching.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GAP = 6, WIDTH_MAX = 98, CLOCK_WIDTH = 8, NS_PER_MS = 1000000 };

const char *top_order_name(top_order order)
{
    static const char *const names[] = {"config", "rate", "failures", "dead letters"};
    return names[order % TOP_ORDERS];
}

/* --- cells ------------------------------------------------------------------------------------ */

static void add_rate(buffer *to, double rate, int decimals)
{
    if (rate < 0)
        buffer_text(to, "-");
    else if (rate < 1000)
        buffer_printf(to, "%.*f",
                      rate < 100                    ? decimals
                      : rate < 1000 && decimals > 1 ? 1
                                                    : 0,
                      rate);
    else
        show_number(to, (uint64_t)(rate + 0.5));
}

static void rate_cell(table *t, double rate)
{
    buffer text = {0};
    add_rate(&text, rate, 2);
    table_cell(t, text.data, NULL);
    buffer_free(&text);
}

static void duration_cell(table *t, int64_t ns)
{
    buffer text = {0};
    if (ns >= 0)
        show_duration(&text, ns);
    table_cell(t, ns < 0 ? "-" : text.data, NULL);
    buffer_free(&text);
}

static void ms_cell(table *t, int64_t ms)
{
    duration_cell(t, ms < 0 ? -1 : ms * NS_PER_MS);
}

/* The table as text; the caller frees it. */
static char *text_of(table *rows)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    if (memory) {
        table_print(rows, memory);
        (void)fclose(memory);
    }
    return text ? text : must_copy("");
}

static size_t width_of(const char *text)
{
    size_t widest = 0;
    while (*text) {
        size_t len = strcspn(text, "\n"), wide = encoding_characters(text, len);
        widest = wide > widest ? wide : widest;
        text += len + (text[len] != 0);
    }
    return widest;
}

/* --- the head --------------------------------------------------------------------------------- */

static void write_title(buffer *to, const top_page *page)
{
    const view *now = history_newest(page->history);
    const tool *t = page->tool;
    buffer title = {0}, clock = {0}, store = {0};
    const char *what = watching_what(t);
    if (t->all)
        sample_url(&store, t->all->store_url);
    buffer_text(&title, "semel top  ");
    show_text(&title, what, strlen(what), 0);
    if (store.len) {
        buffer_text(&title, "  ");
        show_text(&title, store.data, store.len, 0);
    }
    buffer_printf(&title, "  %zu process%s%s", now->processes, now->processes == 1 ? "" : "es",
                  page->is_paused ? "  paused" : "");
    show_clock(&clock, wall_clock_ms());
    size_t width = page->columns < WIDTH_MAX ? page->columns : WIDTH_MAX;
    size_t used = encoding_characters(title.data, title.len) + CLOCK_WIDTH;
    buffer_printf(to, "%s%*s%.*s\n", title.data, (int)(used + 2 < width ? width - used : 2), "",
                  CLOCK_WIDTH, clock.data);
    buffer_free(&title);
    buffer_free(&clock);
    buffer_free(&store);
}

/* Words that stand together, in this line or, if it is full, in the next one. */
typedef struct totals {
    buffer *to;
    size_t at, columns;
} totals;

static void add_total(totals *line, buffer *words)
{
    enum { BETWEEN = 3 };
    if (line->at && line->at + BETWEEN + words->len > line->columns) {
        buffer_text(line->to, "\n");
        line->at = 0;
    }
    buffer_printf(line->to, "%*s%s", line->at ? BETWEEN : 0, "", words->data);
    line->at += (line->at ? BETWEEN : 0) + words->len;
    buffer_free(words);
}

static void add_total_rate(totals *line, const char *what, double rate)
{
    buffer words = {0};
    buffer_printf(&words, "%s ", what);
    add_rate(&words, rate, 1);
    buffer_text(&words, "/s");
    add_total(line, &words);
}

static void add_unsent(totals *line, const view *now)
{
    buffer words = {0};
    int64_t oldest_ms;
    uint64_t unsent = view_unsent(now, &oldest_ms);
    if (!now->outbox_count)
        return;
    buffer_text(&words, "unsent ");
    show_number(&words, unsent);
    if (oldest_ms >= 0) {
        buffer_text(&words, " (");
        show_duration(&words, oldest_ms * NS_PER_MS);
        buffer_text(&words, ")");
    }
    add_total(line, &words);
}

static void write_totals(buffer *to, const top_page *page)
{
    const view *now = history_newest(page->history);
    totals line = {.to = to, .columns = page->columns};
    buffer dead = {0};
    add_total_rate(&line, "processed", history_total(page->history, METER_PROCESSED));
    add_total_rate(&line, "duplicates suppressed", history_total(page->history, METER_DUPLICATES));
    add_total_rate(&line, "failed", history_total(page->history, METER_FAILED));
    buffer_text(&dead, "dead letters ");
    show_number(&dead, now->dead);
    add_total(&line, &dead);
    add_unsent(&line, now);
    buffer_text(to, "\n");
}

static void write_troubles(buffer *to, const view *now)
{
    if (now->trouble.status) {
        buffer_text(to, "store: ");
        show_text(to, now->trouble.text, strlen(now->trouble.text), 0);
        buffer_text(to, "\n");
    }
    if (now->unreachable)
        buffer_printf(to, "not reachable from here, as of the last report: %s\n", now->others);
}

/* --- inboxes ---------------------------------------------------------------------------------- */

typedef struct ranked {
    const inbox_view *inbox;
    double rank;
    size_t place;
} ranked;

static int compare(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? 1 : -1;
    return x->place < y->place ? -1 : 1;
}

static double rank_of(const top_page *page, const inbox_view *inbox)
{
    switch (page->order) {
    case TOP_BY_RATE:
        return history_all_outcomes(page->history, inbox);
    case TOP_BY_FAILURES:
        return history_rate(page->history, inbox, METER_FAILED);
    case TOP_BY_DEAD:
        return (double)inbox->dead;
    default:
        return 0;
    }
}

/* Nothing came within the minute, and nothing is left to be looked at. */
static int is_idle(const top_page *page, const inbox_view *inbox)
{
    return history_all_outcomes(page->history, inbox) <= 0 && !inbox->in_progress && !inbox->dead;
}

static void add_inbox(table *rows, const top_page *page, const inbox_view *inbox)
{
    const history *h = page->history;
    table_text(rows, inbox->name);
    rate_cell(rows, history_rate(h, inbox, METER_PROCESSED));
    rate_cell(rows, history_rate(h, inbox, METER_DUPLICATES));
    rate_cell(rows, history_rate(h, inbox, METER_FAILED));
    duration_cell(rows, history_quantile(h, inbox, 0.5));
    duration_cell(rows, history_quantile(h, inbox, 0.99));
    table_number(rows, inbox->has_counters ? inbox->in_progress : -1);
    table_number(rows, inbox->dead);
    table_end_row(rows);
}

/* Those that the filter lets pass, in the order that was chosen; the caller frees them. */
static ranked *rank_all(size_t *count, const top_page *page)
{
    const view *now = history_newest(page->history);
    ranked *all = must_alloc((now->inbox_count + 1) * sizeof *all);
    *count = 0;
    for (size_t i = 0; i < now->inbox_count; i++)
        if (strstr(now->inboxes[i].name, page->filter)) {
            all[*count] = (ranked){&now->inboxes[i], rank_of(page, &now->inboxes[i]), i};
            ++*count;
        }
    qsort(all, *count, sizeof *all, compare);
    return all;
}

/* What a narrow terminal does without, in this order; -1 ends it. */
enum { INBOX_COLUMNS = 8, COLUMN_DUPLICATES = 2, COLUMN_P50 = 4, COLUMN_P99, COLUMN_IN_PROGRESS };
static const int dispensable[] = {COLUMN_P50, COLUMN_P99, COLUMN_IN_PROGRESS, COLUMN_DUPLICATES,
                                  -1};

/* The table without the first `without` of them; the caller frees it. */
static char *inbox_table(const top_page *page, const ranked *all, size_t count, size_t without)
{
    static const table_column columns[INBOX_COLUMNS + 1] = {
        {"INBOX", NULL, 0, 0},       {"DONE/S", NULL, 1, 0}, {"DUPL/S", NULL, 1, 0},
        {"FAIL/S", NULL, 1, 0},      {"P50", NULL, 1, 0},    {"P99", NULL, 1, 0},
        {"IN PROGRESS", NULL, 1, 0}, {"DEAD", NULL, 1, 0},   {0}};
    table_column shown[INBOX_COLUMNS + 1];
    memcpy(shown, columns, sizeof shown);
    for (size_t i = 0; i < without; i++) /* a field: the column is there, and not for people */
        shown[dispensable[i]] = (table_column){NULL, "", 1, 0};
    table rows = {.columns = shown};
    for (size_t i = 0; i < count; i++)
        if (!is_idle(page, all[i].inbox))
            add_inbox(&rows, page, all[i].inbox);
    return text_of(&rows);
}

static char *fitting_inbox_table(const top_page *page, const ranked *all, size_t count)
{
    size_t without = 0;
    char *text = inbox_table(page, all, count, without);
    while (width_of(text) > page->columns && dispensable[without] >= 0) {
        free(text);
        text = inbox_table(page, all, count, ++without);
    }
    return text;
}

static void write_inboxes(buffer *to, const top_page *page)
{
    buffer idle = {0};
    size_t count;
    ranked *all = rank_all(&count, page);
    char *text = fitting_inbox_table(page, all, count);
    for (size_t i = 0; i < count; i++) {
        if (!is_idle(page, all[i].inbox))
            continue;
        buffer_text(&idle, idle.len ? ", " : "idle: ");
        show_text(&idle, all[i].inbox->name, strlen(all[i].inbox->name), 0);
    }
    buffer_text(to, text);
    if (idle.len)
        buffer_printf(to, "%s\n", idle.data);
    free(text);
    free(all);
    buffer_free(&idle);
}

/* --- queues and outboxes ---------------------------------------------------------------------- */

static char *queue_table(const top_page *page)
{
    static const table_column columns[] = {{"QUEUE", NULL, 0, 0},
                                           {"IN/S", NULL, 1, 0},
                                           {"WAITING", NULL, 1, 0},
                                           {"OLDEST", NULL, 0, 0},
                                           {0}};
    table rows = {.columns = columns};
    const view *now = history_newest(page->history);
    for (size_t i = 0; i < now->queue_count; i++) {
        table_text(&rows, now->queues[i].name);
        rate_cell(&rows, history_into(page->history, now->queues[i].name));
        table_number(&rows, now->queues[i].waiting);
        ms_cell(&rows, now->queues[i].oldest_ms);
        table_end_row(&rows);
    }
    return text_of(&rows);
}

static char *outbox_table(const top_page *page)
{
    static const table_column columns[] = {{"OUTBOX", NULL, 0, 0},
                                           {"SENT/S", NULL, 1, 0},
                                           {"WAITING", NULL, 1, 0},
                                           {"OLDEST", NULL, 0, 0},
                                           {0}};
    table rows = {.columns = columns};
    const view *now = history_newest(page->history);
    for (size_t i = 0; i < now->outbox_count; i++) {
        table_text(&rows, now->outboxes[i].name);
        rate_cell(&rows, history_sent(page->history, &now->outboxes[i]));
        table_number(&rows, now->outboxes[i].waiting);
        ms_cell(&rows, now->outboxes[i].oldest_ms);
        table_end_row(&rows);
    }
    return text_of(&rows);
}

/* The next line of a text; an empty one behind the last. */
static size_t take_line(const char **text, const char **line)
{
    size_t len = strcspn(*text, "\n");
    *line = *text;
    *text += len + ((*text)[len] != 0);
    return len;
}

static void write_side_by_side(buffer *to, const char *left, const char *right)
{
    size_t width = width_of(left) + GAP;
    while (*left || *right) {
        const char *a, *b;
        size_t a_len = take_line(&left, &a), b_len = take_line(&right, &b);
        buffer_add(to, a, a_len);
        if (b_len)
            buffer_printf(to, "%*s%.*s", (int)(width - encoding_characters(a, a_len)), "",
                          (int)b_len, b);
        buffer_text(to, "\n");
    }
}

static void write_lag(buffer *to, const top_page *page)
{
    char *left = queue_table(page), *right = outbox_table(page);
    if (width_of(left) + GAP + width_of(right) <= page->columns) {
        write_side_by_side(to, left, right);
    } else {
        buffer_text(to, left);
        buffer_text(to, right);
    }
    free(left);
    free(right);
}

void top_page_write(buffer *to, const top_page *page)
{
    const view *now = history_newest(page->history);
    write_title(to, page);
    write_totals(to, page);
    write_troubles(to, now);
    buffer_text(to, "\n");
    if (!now->processes && !now->trouble.status)
        buffer_printf(to, "no process is running %s; showing data from the store only:\n",
                      watching_what(page->tool));
    write_inboxes(to, page);
    write_lag(to, page);
}

/* --- groups of dead letters ------------------------------------------------------------------- */

static semel_status add_group(const semel_dead_group *group, void *context, semel_error *err)
{
    table *rows = context;
    char cause[16];
    (void)err;
    (void)snprintf(cause, sizeof cause, "%08x", group->cause);
    table_text(rows, cause);
    table_text(rows, group->name);
    table_number(rows, (int64_t)group->letters);
    table_moment(rows, group->first_ms);
    table_moment(rows, group->last_ms);
    table_text(rows, group->text);
    table_end_row(rows);
    return SEMEL_OK;
}

void top_page_groups(buffer *to, tool *t)
{
    static const table_column columns[] = {{"CAUSE", NULL, 0, 0},
                                           {"INBOX", NULL, 0, 0},
                                           {"LETTERS", NULL, 1, 0},
                                           {"FIRST", NULL, 0, 0},
                                           {"LAST", NULL, 0, 0},
                                           {"ERROR", NULL, 0, 0},
                                           {0}};
    table rows = {.columns = columns};
    semel_error why = {0};
    semel_dead_filter all = {.size = sizeof all};
    semel_status status = semel_dead_groups(t->store, &all, add_group, &rows, &why);
    char *text = text_of(&rows);
    if (status) {
        buffer_text(to, "store: ");
        show_text(to, why.text, strlen(why.text), 0);
    } else {
        buffer_text(to, *text ? text : "no dead letters\n");
    }
    free(text);
}
