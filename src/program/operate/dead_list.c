/* semel dead groups and ls. */
#include "program/cli.h"
#include "program/operate/dead.h"
#include "program/support/show.h"

#include <stdlib.h>
#include <string.h>

static int say_nothing(const dead_work *w)
{
    tool_say(&w->tool, "no matching dead letters");
    return CLI_OK;
}

/* --- groups ----------------------------------------------------------------------------------- */

typedef struct group {
    semel_dead_group is;
    char name[SEMEL_NAME_MAX + 1];
    char text[SEMEL_CAUSE_TEXT_SIZE];
} group;

typedef struct groups {
    const dead_work *w;
    group *items;
    size_t count, room;
} groups;

static group *add_group(groups *all, const char *name, const char *text)
{
    if (all->count == all->room) {
        all->room = all->room ? 2 * all->room : 16;
        all->items = must_realloc(all->items, all->room * sizeof *all->items);
    }
    group *g = &all->items[all->count++];
    *g = (group){0};
    (void)snprintf(g->name, sizeof g->name, "%s", name);
    (void)snprintf(g->text, sizeof g->text, "%s", text);
    return g;
}

/* The library has grouped them; patterns of names are left for here. */
static semel_status keep_group(const semel_dead_group *found, void *context, semel_error *err)
{
    groups *all = context;
    const filter_options *given = &all->w->options->filter;
    int wanted = !given->inboxes.count && !given->outboxes.count;
    (void)err;
    if (!wanted && found->origin == SEMEL_DEAD_INBOX)
        wanted = given->inboxes.count && filters_match(&given->inboxes, found->name);
    else if (!wanted && found->origin == SEMEL_DEAD_OUTBOX)
        wanted = given->outboxes.count && filters_match(&given->outboxes, found->name);
    if (wanted)
        add_group(all, found->name, found->text)->is = *found;
    return SEMEL_OK;
}

static group *group_of(groups *all, const dead_letter *letter)
{
    char text[SEMEL_CAUSE_TEXT_SIZE];
    for (size_t i = 0; i < all->count; i++) {
        group *g = &all->items[i];
        if (g->is.cause == letter->cause && g->is.origin == letter->origin &&
            strcmp(g->name, letter->name) == 0)
            return g;
    }
    (void)semel_cause_text(text, sizeof text, letter->error);
    group *fresh = add_group(all, letter->name, text);
    fresh->is = (semel_dead_group){.cause = letter->cause,
                                   .origin = letter->origin,
                                   .first_ms = letter->at_ms,
                                   .last_ms = letter->at_ms};
    return fresh;
}

/* Types that are patterns, or several, are compared letter by letter. */
static int group_letters(groups *all, dead_work *w)
{
    int status = CLI_OK;
    dead_page p = {.step = DEAD_ROWS};
    while (dead_next(w, &p, &status) > 0)
        for (size_t i = 0; i < p.count; i++) {
            group *g = group_of(all, &p.items[i]);
            int64_t at = p.items[i].at_ms;
            g->is.letters++;
            g->is.first_ms = at < g->is.first_ms ? at : g->is.first_ms;
            g->is.last_ms = at > g->is.last_ms ? at : g->is.last_ms;
        }
    dead_page_free(&p);
    return status;
}

static int find_groups(groups *all, dead_work *w)
{
    semel_error why = {0};
    semel_dead_filter filter = filters_for_letters(&w->filters);
    if (w->options->filter.types.count)
        return group_letters(all, w);
    return semel_dead_groups(w->tool.store, &filter, keep_group, all, &why)
               ? tool_failed(&w->tool, &why)
               : CLI_OK;
}

/* What happened last is what a person was woken for. */
static int compare_groups(const void *a, const void *b)
{
    const group *x = a, *y = b;
    if (x->is.last_ms != y->is.last_ms)
        return x->is.last_ms > y->is.last_ms ? -1 : 1;
    return x->is.cause < y->is.cause ? -1 : x->is.cause > y->is.cause;
}

static void print_groups(const groups *all, size_t count)
{
    static const table_column columns[] = {
        {"CAUSE", "cause", 0, 0},  {"INBOX", "inbox", 0, 0},     {NULL, "outbox", 0, 0},
        {NULL, "queue", 0, 0},     {"LETTERS", "letters", 1, 0}, {"FIRST", "first_at", 0, 0},
        {"LAST", "last_at", 0, 0}, {"ERROR", "error", 0, 1},     {0}};
    table t = {
        .columns = columns, .json = all->w->options->tool.json, .utc = all->w->options->tool.utc};
    for (size_t i = 0; i < count; i++) {
        const group *g = &all->items[i];
        char cause[DEAD_CAUSE_SIZE];
        dead_show_cause(cause, g->is.cause);
        table_text(&t, g->is.cause ? cause : NULL);
        dead_add_place(&t, g->is.origin, g->name);
        table_number(&t, (int64_t)g->is.letters);
        table_moment(&t, g->is.first_ms);
        table_moment(&t, g->is.last_ms);
        table_text(&t, g->text);
        table_end_row(&t);
    }
    table_print(&t, stdout);
}

static void show_groups(const groups *all)
{
    size_t limit = all->w->filters.limit, shown = all->count < limit ? all->count : limit;
    buffer more = {0};
    print_groups(all, shown);
    show_number(&more, all->count - shown);
    if (shown < all->count)
        tool_say(&all->w->tool, "%s more group%s, with older letters", more.data,
                 all->count - shown == 1 ? "" : "s");
    buffer_free(&more);
}

int dead_groups(dead_work *w)
{
    groups all = {.w = w};
    int status = find_groups(&all, w);
    if (all.count > 1)
        qsort(all.items, all.count, sizeof *all.items, compare_groups);
    if (!status && !all.count)
        status = say_nothing(w);
    else if (!status)
        show_groups(&all);
    free(all.items);
    return status;
}

/* --- ls --------------------------------------------------------------------------------------- */

/* How many there are behind the last one that is shown. */
static uint64_t count_rest(dead_work *w, dead_page *p, size_t shown_of_page, int *status)
{
    uint64_t more = p->count - shown_of_page;
    while (dead_next(w, p, status) > 0)
        more += p->count;
    return more;
}

static void say_more(dead_work *w, uint64_t more, int64_t last)
{
    buffer line = {0};
    filter_options rest = w->options->filter;
    rest.limit = 0;
    show_number(&line, more);
    buffer_text(&line, " more: semel dead ls");
    filters_text(&line, &rest);
    buffer_printf(&line, " --after %lld", (long long)last);
    tool_say(&w->tool, "%s", line.data);
    buffer_free(&line);
}

static size_t add_page(table *t, const dead_page *p, size_t room)
{
    size_t i = 0;
    for (; i < p->count && i < room; i++)
        dead_add_row(t, &p->items[i]);
    return i;
}

int dead_ls(dead_work *w)
{
    int status = CLI_OK, goes_on = 1;
    size_t left = w->filters.limit, shown = 0;
    int64_t last = 0;
    dead_page p = {.step = DEAD_ROWS};
    table t = {.columns = dead_columns, .json = w->options->tool.json, .utc = w->options->tool.utc};
    while (goes_on && left && dead_next(w, &p, &status) > 0) {
        shown = add_page(&t, &p, left);
        left -= shown;
        last = shown ? p.items[shown - 1].id : last;
        goes_on = table_page(&t, stdout);
    }
    uint64_t more = !status && goes_on && !left ? count_rest(w, &p, shown, &status) : 0;
    if (!status && !table_rows(&t))
        status = say_nothing(w);
    if (!status && more)
        say_more(w, more, last);
    table_print(&t, stdout);
    dead_page_free(&p);
    return status;
}
