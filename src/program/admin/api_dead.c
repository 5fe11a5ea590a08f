/* Dead letters: groups by cause, pages of letters in the order of their ids, and one letter with
 * its message. Filters are those of `semel dead`, read by the same code. */
#include "program/admin/api_internal.h"
#include "program/cli.h"
#include "program/operate/dead.h"
#include "program/support/show.h"

#include <stdlib.h>
#include <string.h>

enum { GROUPS_MAX = 200, STEPS_MAX = 40, TYPES_MAX = 3, HOURS = 24, HOUR_MS = 3600000 };
enum { RECENT_PAGE = 1000, RECENT_MAX = 5000 };

/* --- what the commands say -------------------------------------------------------------------- */

static void hear(void *context, int is_refusal, const char *text)
{
    hearing *h = context;
    if (is_refusal && !h->said.len)
        buffer_text(&h->said, text);
}

static int never(void *context)
{
    (void)context;
    return 0;
}

static void ignore_count(void *context, const char *outcome, uint64_t count)
{
    (void)context;
    (void)outcome;
    (void)count;
}

static void ignore_id(void *context, int64_t id)
{
    (void)context;
    (void)id;
}

void hearing_begin(hearing *h, api_answer *out)
{
    *h = (hearing){.out = out};
    h->host = (tool_host){.context = h,
                          .who = "",
                          .note = "",
                          .say = hear,
                          .is_stopped = never,
                          .count = ignore_count,
                          .audited = ignore_id};
}

void hearing_end(hearing *h, int status)
{
    const char *said = h->said.len ? h->said.data : "The work has failed.";
    if (status == CLI_NOT_FOUND)
        api_not_found(h->out, "%s", said);
    else if (status == CLI_USAGE)
        api_bad_query(h->out, "%s", said);
    else if (status == CLI_CONFLICT)
        api_problem(h->out, 409, "conflict", "Not possible", "%s", said);
    else if (status == CLI_TEMPORARY)
        api_problem(h->out, 503, "store-unreachable", "The store does not answer", "%s", said);
    else if (status)
        api_problem(h->out, 500, "store-failed", "The work has failed", "%s", said);
    h->out->retry_after_s = status == CLI_TEMPORARY ? 2 : 0;
    buffer_free(&h->said);
}

/* --- filters ---------------------------------------------------------------------------------- */

static void add_one(argument_list *to, const char *text)
{
    if (text)
        to->items[to->count++] = text;
}

/* A time in milliseconds becomes one that the commands read. */
static const char *time_text(region *memory, const char *text)
{
    int64_t ms = 0;
    buffer shown = {0};
    if (!text || !api_query_number(&ms, text) || ms > INT64_C(253402300799999))
        return text;
    show_rfc3339(&shown, ms);
    const char *copy = region_copy(memory, shown.data, shown.len);
    buffer_free(&shown);
    return copy;
}

static void read_options(dead_options *to, asking *q)
{
    const api_query *from = &q->query;
    filter_options *f = &to->filter;
    add_one(&f->inboxes, api_query_get(from, "inbox"));
    add_one(&f->outboxes, api_query_get(from, "outbox"));
    add_one(&f->types, api_query_get(from, "type"));
    f->error = api_query_get(from, "error");
    f->cause = api_query_get(from, "cause");
    f->key = api_query_get(from, "key");
    f->since = time_text(&q->memory, api_query_get(from, "since"));
    f->until = time_text(&q->memory, api_query_get(from, "until"));
    f->up_to = api_query_get(from, "until_id");
    f->after = api_query_get(from, "after");
    to->tool.utc = 1;
}

static const char *const known[] = {"inbox", "outbox", "type",  "error",    "cause", "key",
                                    "since", "until",  "after", "until_id", NULL};

/* The set that the query names, on the store: for `use`, which writes the answer and returns an
 * exit status. */
typedef int dead_use(asking *q, dead_work *w, buffer *to);

static void with_set(asking *q, api_answer *out, dead_use *use)
{
    api_place at;
    hearing h;
    dead_options *options = region_alloc(&q->memory, sizeof *options);
    dead_work w = {0};
    if (!api_knows(q, out, known))
        return;
    if (!api_begin_use(q->a, &at)) {
        api_no_store(out, q->a);
        return;
    }
    read_options(options, q);
    hearing_begin(&h, out);
    int status =
        tool_borrow(&w.tool, "dead ls", &options->tool, &h.host, (config *)at.all, at.store);
    if (!status)
        status = dead_begin_borrowed(&w, options);
    if (!status)
        status = use(q, &w, &out->body);
    dead_end_borrowed(&w);
    hearing_end(&h, status);
    api_end_use(q->a);
}

/* --- groups ----------------------------------------------------------------------------------- */

typedef struct group {
    uint32_t cause;
    semel_dead_origin origin;
    const char *name, *text;
    uint64_t letters;
    int64_t first_ms, last_ms;
    const char *types[TYPES_MAX];
    size_t type_count;
    uint32_t hours[HOURS];
} group;

typedef struct grouping {
    region *memory;
    group *items;
    size_t count;
    uint64_t total;
    int64_t last_id, now_ms;
    int64_t recent_id;
    size_t recent, page;
} grouping;

static semel_status add_group(const semel_dead_group *g, void *context, semel_error *err)
{
    grouping *all = context;
    (void)err;
    all->total += g->letters;
    if (g->last_id > all->last_id)
        all->last_id = g->last_id;
    if (all->count == GROUPS_MAX)
        return SEMEL_OK;
    all->items[all->count++] = (group){.cause = g->cause,
                                       .origin = g->origin,
                                       .name = region_copy(all->memory, g->name, strlen(g->name)),
                                       .text = region_copy(all->memory, g->text, strlen(g->text)),
                                       .letters = g->letters,
                                       .first_ms = g->first_ms,
                                       .last_ms = g->last_ms};
    return SEMEL_OK;
}

static void add_type(grouping *all, group *g, const char *type)
{
    for (size_t i = 0; i < g->type_count; i++)
        if (strcmp(g->types[i], type) == 0)
            return;
    if (g->type_count < TYPES_MAX)
        g->types[g->type_count++] = region_copy(all->memory, type, strlen(type));
}

static semel_status add_recent(const semel_dead *d, void *context, semel_error *err)
{
    grouping *all = context;
    int64_t hour = (all->now_ms - d->at_ms) / HOUR_MS;
    (void)err;
    all->recent_id = d->id;
    all->page++;
    for (size_t i = 0; i < all->count; i++) {
        group *g = &all->items[i];
        if (g->cause != d->cause || strcmp(g->name, d->name ? d->name : "") != 0)
            continue;
        if (d->message && d->message->type)
            add_type(all, g, d->message->type);
        if (hour >= 0 && hour < HOURS)
            g->hours[HOURS - 1 - hour]++;
        break;
    }
    return SEMEL_OK;
}

/* Types and hours are those of a bounded number of letters of the last day. */
static semel_status read_recent(grouping *all, semel_store *store, semel_dead_filter filter,
                                semel_error *err)
{
    int64_t day_ago = all->now_ms - (int64_t)HOURS * HOUR_MS;
    semel_status status = SEMEL_OK;
    filter.brief = 1;
    filter.limit = RECENT_PAGE;
    filter.since_ms = filter.since_ms > day_ago ? filter.since_ms : day_ago;
    do {
        all->page = 0;
        filter.after_id = all->recent_id;
        status = semel_dead_list(store, &filter, add_recent, all, err);
        all->recent += all->page;
    } while (!status && all->page == RECENT_PAGE && all->recent < RECENT_MAX);
    return status;
}

static const char *origin_word(semel_dead_origin origin)
{
    return origin == SEMEL_DEAD_OUTBOX ? "outbox" : origin == SEMEL_DEAD_QUEUE ? "queue" : "inbox";
}

static void put_cause(buffer *to, uint32_t cause)
{
    char text[DEAD_CAUSE_SIZE];
    dead_show_cause(text, cause);
    put_text(to, "cause", cause ? text : NULL);
}

static void put_group(buffer *to, const group *g)
{
    put_open(to, NULL, '{');
    put_cause(to, g->cause);
    put_text(to, "name", g->name);
    put_text(to, "origin", origin_word(g->origin));
    put_int(to, "letters", (int64_t)g->letters);
    put_int(to, "first_ms", g->first_ms);
    put_int(to, "last_ms", g->last_ms);
    put_text(to, "text", g->text);
    put_open(to, "types", '[');
    for (size_t i = 0; i < g->type_count; i++)
        put_text(to, NULL, g->types[i]);
    put_close(to, ']');
    put_open(to, "spark", '[');
    for (size_t i = 0; i < HOURS; i++)
        put_int(to, NULL, g->hours[i]);
    put_close(to, ']');
    put_close(to, '}');
}

static int put_groups(asking *q, dead_work *w, buffer *to)
{
    semel_error why = {0};
    semel_dead_filter filter = filters_for_letters(&w->filters);
    grouping all = {.memory = &q->memory, .now_ms = w->tool.now_ms};
    all.items = region_alloc(&q->memory, GROUPS_MAX * sizeof *all.items);
    semel_status status = semel_dead_groups(w->tool.store, &filter, add_group, &all, &why);
    if (!status && all.count)
        status = read_recent(&all, w->tool.store, filter, &why);
    if (status)
        return tool_failed(&w->tool, &why);
    put_open(to, "groups", '[');
    for (size_t i = 0; i < all.count; i++)
        put_group(to, &all.items[i]);
    put_close(to, ']');
    put_int(to, "total", (int64_t)all.total);
    put_int(to, "until_id", all.last_id);
    return CLI_OK;
}

void api_dead_groups(asking *q, api_answer *out)
{
    with_set(q, out, put_groups);
}

/* --- letters ---------------------------------------------------------------------------------- */

static const char *retry_word(int retry)
{
    return retry == SEMEL_RETRY_ASKED    ? "asked"
           : retry == SEMEL_RETRY_BEGUN  ? "begun"
           : retry == SEMEL_RETRY_FAILED ? "failed"
                                         : NULL;
}

static void put_letter(buffer *to, const char *name, const dead_letter *d)
{
    buffer id = {0};
    if (d->message_id.len)
        show_key(&id, d->message_id);
    put_open(to, name, '{');
    put_int(to, "id", d->id);
    put_text(to, "origin", origin_word(d->origin));
    put_text(to, "name", d->name);
    put_key(to, "key", d->key);
    put_text(to, "type", d->type);
    put_text(to, "message_id", id.data);
    put_int(to, "attempts", d->attempts);
    put_int(to, "at", d->at_ms);
    put_text(to, "error", d->error);
    put_cause(to, d->cause);
    put_text(to, "retry", retry_word(d->retry));
    put_bool(to, "damaged", d->damaged);
    buffer_free(&id);
}

/* With a pattern a page of the store may have none that match: then the next ones are looked at, a
 * bounded number of them. */
static int put_letters(asking *q, dead_work *w, buffer *to)
{
    int status = CLI_OK, steps = 0;
    size_t count = 0;
    dead_page p = {.step = API_PAGE, .after = w->filters.after_id};
    (void)q;
    put_open(to, "letters", '[');
    while (!count && steps++ < STEPS_MAX && dead_next(w, &p, &status) > 0)
        for (size_t i = 0; i < p.count; i++, count++) {
            put_letter(to, NULL, &p.items[i]);
            put_close(to, '}');
        }
    put_close(to, ']');
    put_known(to, "next", p.is_last ? -1 : p.after);
    dead_page_free(&p);
    return status;
}

void api_dead(asking *q, api_answer *out)
{
    with_set(q, out, put_letters);
}

/* --- one letter ------------------------------------------------------------------------------- */

typedef struct showing {
    asking *q;
    buffer *to;
} showing;

static semel_status show_letter(const semel_dead *d, void *context, semel_error *err)
{
    showing *s = context;
    dead_letter copy = dead_copy(&s->q->memory, d);
    (void)err;
    put_letter(s->to, "letter", &copy);
    put_time(s->to, "first_ms", d->first_ms);
    put_message(s->to, "message", d->message, d->message ? d->message->body.len : 0);
    put_close(s->to, '}');
    return SEMEL_OK;
}

void api_letter(asking *q, api_answer *out)
{
    static const char *const none[] = {NULL};
    api_place at;
    hearing h;
    dead_options *options = region_alloc(&q->memory, sizeof *options);
    dead_work w = {.options = options};
    semel_error why = {0};
    showing s = {q, &out->body};
    int64_t id = 0;
    options->tool.utc = 1;
    if (!api_knows(q, out, none))
        return;
    if (!api_query_number(&id, q->query.segments[1]) || !id) {
        api_not_found(out, "A letter has a number, and \"%.60s\" is none.", q->query.segments[1]);
        return;
    }
    if (!api_begin_use(q->a, &at)) {
        api_no_store(out, q->a);
        return;
    }
    hearing_begin(&h, out);
    int status =
        tool_borrow(&w.tool, "dead show", &options->tool, &h.host, (config *)at.all, at.store);
    if (!status) {
        semel_status found = dead_visit(&w, id, show_letter, &s, &why);
        status = found == SEMEL_ENOTFOUND ? dead_say_gone(&w, id)
                 : found                  ? tool_failed(&w.tool, &why)
                                          : CLI_OK;
    }
    tool_return(&w.tool);
    hearing_end(&h, status);
    api_end_use(q->a);
}
