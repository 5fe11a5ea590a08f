/* Which letters a command is about: those that were typed, or those that the filters name, in steps
 * of a bounded number. A letter that comes later is behind the last one of the summary, and so no
 * part of the set. */
#include "program/cli.h"
#include "program/operate/dead.h"
#include "program/operate/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- what was typed --------------------------------------------------------------------------- */

int dead_names_a_set(const dead_options *o)
{
    const filter_options *f = &o->filter;
    int filtered = f->inboxes.count || f->outboxes.count || f->types.count || f->key || f->error ||
                   f->since || f->until || f->cause || f->up_to;
    return (o->letters.count > 0) + 2 * filtered;
}

static int compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int read_id(int64_t *out, const char *text)
{
    char *end;
    errno = 0;
    long long id = *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : 0;
    if (id <= 0 || errno || *end)
        return 0;
    *out = id;
    return 1;
}

static int read_ids(dead_work *w)
{
    const argument_list *typed = &w->options->letters;
    if (!typed->count)
        return CLI_OK;
    w->ids = region_alloc(&w->tool.memory, typed->count * sizeof *w->ids);
    for (size_t i = 0; i < typed->count; i++)
        if (!read_id(&w->ids[i], typed->items[i]))
            return tool_usage(&w->tool, "\"%s\" is no letter: letters are numbers",
                              typed->items[i]);
    qsort(w->ids, typed->count, sizeof *w->ids, compare_ids);
    for (size_t i = 0; i < typed->count; i++)
        if (!i || w->ids[i] != w->ids[i - 1])
            w->ids[w->id_count++] = w->ids[i];
    return CLI_OK;
}

/* --- names ------------------------------------------------------------------------------------ */

/* Letters that are no inbox's own. */
static int is_special(const char *name)
{
    return strcmp(name, "unrouted") == 0 || strcmp(name, "unusable") == 0;
}

/* A name without letters is fine; one that nothing knows is a typing mistake. */
static int check_names(dead_work *w, const argument_list *names, semel_name_kind kind,
                       const char *word)
{
    known_names all = {0};
    int status = names->count ? names_read(&all, &w->tool, kind) : CLI_OK;
    for (size_t i = 0; !status && i < names->count; i++)
        if (!strchr(names->items[i], '*') && !names_find(&all, names->items[i]) &&
            !is_special(names->items[i]))
            status = tool_no_such_name(&w->tool, word, names->items[i]);
    names_free(&all);
    return status;
}

static int read_set(dead_work *w)
{
    const dead_options *options = w->options;
    int status = filters_read(&w->filters, &w->tool, &options->filter);
    if (!status)
        status = filters_read_after_id(&w->filters, &w->tool);
    if (!status)
        status = read_ids(w);
    if (!status)
        status = check_names(w, &options->filter.inboxes, SEMEL_NAME_INBOX, "inbox");
    if (!status)
        status = check_names(w, &options->filter.outboxes, SEMEL_NAME_OUTBOX, "outbox");
    return status;
}

int dead_begin(dead_work *w, const char *caller, const dead_options *options)
{
    *w = (dead_work){.options = options};
    int status = tool_open(&w->tool, caller, &options->tool);
    return status ? status : read_set(w);
}

void dead_end(dead_work *w)
{
    filters_free(&w->filters);
    tool_close(&w->tool);
}

int dead_begin_borrowed(dead_work *w, const dead_options *options)
{
    *w = (dead_work){.options = options, .tool = w->tool};
    return read_set(w);
}

void dead_end_borrowed(dead_work *w)
{
    filters_free(&w->filters);
    tool_return(&w->tool);
}

/* --- letters ---------------------------------------------------------------------------------- */

static semel_bytes copy_bytes(region *memory, semel_bytes from)
{
    return (semel_bytes){region_copy(memory, from.len ? from.data : "", from.len), from.len};
}

static const char *copy_text(region *memory, const char *text)
{
    return text ? region_copy(memory, text, strlen(text)) : NULL;
}

dead_letter dead_copy(region *memory, const semel_dead *from)
{
    const semel_message *message = from->message;
    return (dead_letter){.id = from->id,
                         .origin = from->origin,
                         .name = copy_text(memory, from->name ? from->name : ""),
                         .key = copy_bytes(memory, from->key),
                         .type = message ? copy_text(memory, message->type) : NULL,
                         .message_id =
                             message ? copy_bytes(memory, message->id) : (semel_bytes){NULL, 0},
                         .attempts = from->attempts,
                         .at_ms = from->at_ms,
                         .cause = from->cause,
                         .retry = from->retry,
                         .error = copy_text(memory, from->error ? from->error : ""),
                         .damaged = !message};
}

typedef struct visiting {
    int64_t id;
    int found;
    semel_dead_visitor *visitor;
    void *context;
} visiting;

static semel_status visit_one(const semel_dead *dead, void *context, semel_error *err)
{
    visiting *v = context;
    if (dead->id != v->id)
        return SEMEL_OK;
    v->found = 1;
    return v->visitor(dead, v->context, err);
}

static semel_status visit(dead_work *w, int64_t id, int brief, semel_dead_visitor *visitor,
                          void *context, semel_error *err)
{
    visiting v = {.id = id, .visitor = visitor, .context = context};
    semel_dead_filter filter = {
        .size = sizeof filter, .after_id = id - 1, .last_id = id, .limit = 1, .brief = brief};
    semel_status status = semel_dead_list(w->tool.store, &filter, visit_one, &v, err);
    if (!status && !v.found)
        status = semel_fail(err, SEMEL_ENOTFOUND, "letter %lld does not exist", (long long)id);
    return status;
}

semel_status dead_visit(dead_work *w, int64_t id, semel_dead_visitor *visitor, void *context,
                        semel_error *err)
{
    return visit(w, id, 0, visitor, context, err);
}

/* --- steps ------------------------------------------------------------------------------------ */

typedef struct reading {
    const dead_work *w;
    dead_page *page;
    size_t rows;
} reading;

static semel_status add_one(const semel_dead *dead, void *context, semel_error *err)
{
    reading *r = context;
    dead_page *p = r->page;
    (void)err;
    if (r->rows == p->step)
        return SEMEL_OK;
    r->rows++;
    p->after = dead->id;
    if (r->w->ids || filters_match_letter(&r->w->filters, dead))
        p->items[p->count++] = dead_copy(&p->memory, dead);
    return SEMEL_OK;
}

static semel_status next_by_id(dead_work *w, reading *r, semel_error *err)
{
    dead_page *p = r->page;
    semel_status status = SEMEL_OK;
    while (!status && p->next < w->id_count && p->count < p->step) {
        status = visit(w, w->ids[p->next++], 1, add_one, r, err);
        if (status == SEMEL_ENOTFOUND)
            status = SEMEL_OK;
    }
    p->is_last = p->next == w->id_count;
    return status;
}

static semel_status next_by_filter(dead_work *w, reading *r, semel_error *err)
{
    dead_page *p = r->page;
    semel_dead_filter filter = filters_for_letters(&w->filters);
    filter.brief = 1;
    filter.limit = (uint32_t)p->step;
    if (p->after > filter.after_id)
        filter.after_id = p->after;
    if (p->last && (!filter.last_id || filter.last_id > p->last))
        filter.last_id = p->last;
    semel_status status = semel_dead_list(w->tool.store, &filter, add_one, r, err);
    p->is_last = r->rows < p->step;
    return status;
}

static void cut_to_limit(dead_page *p)
{
    if (!p->limit)
        return;
    if (p->taken + p->count >= p->limit) {
        p->count = p->limit - p->taken;
        p->is_last = 1;
    }
    p->taken += p->count;
}

int dead_next(dead_work *w, dead_page *p, int *status)
{
    reading r = {.w = w, .page = p};
    semel_error why = {0};
    if (p->is_last)
        return 0;
    region_free(&p->memory);
    p->count = 0;
    p->items = region_alloc(&p->memory, p->step * sizeof *p->items);
    if (!(w->ids ? next_by_id(w, &r, &why) : next_by_filter(w, &r, &why))) {
        cut_to_limit(p);
        return 1;
    }
    *status = tool_failed(&w->tool, &why);
    return -1;
}

void dead_page_free(dead_page *p)
{
    region_free(&p->memory);
}

/* --- the whole of it -------------------------------------------------------------------------- */

static void add_name(dead_summary *s, const dead_letter *letter)
{
    enum { KEPT = sizeof s->names / sizeof *s->names };
    for (size_t i = 0; i < s->name_count && i < KEPT; i++)
        if (strcmp(s->names[i], letter->name) == 0)
            return;
    if (s->name_count < KEPT)
        s->names[s->name_count] = region_copy(&s->memory, letter->name, strlen(letter->name));
    s->name_count += s->name_count < KEPT;
}

static void add_cause(dead_summary *s, const dead_letter *letter)
{
    if (!s->count) {
        s->cause = letter->cause;
        (void)semel_cause_text(s->text, sizeof s->text, letter->error);
    } else if (s->cause != letter->cause) {
        s->cause = 0;
    }
}

static void add_letter(dead_summary *s, const dead_letter *letter)
{
    add_name(s, letter);
    add_cause(s, letter);
    if (s->sampled < DEAD_SAMPLE) {
        dead_letter *copy = &s->sample[s->sampled++];
        *copy = *letter;
        copy->name = copy_text(&s->memory, letter->name);
        copy->key = copy_bytes(&s->memory, letter->key);
        copy->type = copy_text(&s->memory, letter->type);
        copy->message_id = copy_bytes(&s->memory, letter->message_id);
        copy->error = copy_text(&s->memory, letter->error);
    }
    if (!s->count || letter->at_ms < s->first_ms)
        s->first_ms = letter->at_ms;
    if (!s->count || letter->at_ms > s->last_ms)
        s->last_ms = letter->at_ms;
    s->last_id = letter->id;
    s->count++;
}

static int page_has(const dead_page *p, int64_t id)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->items[i].id == id)
            return 1;
    return 0;
}

/* The ids that were typed for this page, and are not in it. */
static void say_missing(dead_work *w, const dead_page *p, size_t from)
{
    for (size_t i = from; w->ids && i < p->next; i++)
        if (!page_has(p, w->ids[i])) {
            w->gone++;
            (void)dead_say_gone(w, w->ids[i]);
        }
}

int dead_summarize(dead_summary *out, dead_work *w)
{
    int status = CLI_OK;
    dead_page p = {.step = DEAD_ROWS, .limit = w->options->filter.limit};
    *out = (dead_summary){0};
    for (size_t from = 0; dead_next(w, &p, &status) > 0; from = p.next) {
        for (size_t i = 0; i < p.count; i++)
            add_letter(out, &p.items[i]);
        say_missing(w, &p, from);
    }
    dead_page_free(&p);
    return status;
}
