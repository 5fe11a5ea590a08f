/* semel inbox show: what every inbox knows of a key, and what became of its deliveries. */
#include "program/cli.h"
#include "program/operate/inbox_timeline.h"
#include "program/operate/inboxes.h"
#include "program/support/show.h"
#include "program/support/typed_key.h"

#include <stdlib.h>
#include <string.h>

static const table_column columns[] = {{"INBOX", "inbox", 0, 0},   {NULL, "key", 0, 0},
                                       {"STATE", "state", 0, 0},   {"ATTEMPTS", "attempts", 1, 0},
                                       {"SINCE", "at", 0, 0},      {NULL, "lease_until", 0, 0},
                                       {"ERROR", "error", 0, 1},   {NULL, "letter", 0, 0},
                                       {NULL, "deliveries", 0, 0}, {0}};

typedef struct searched_inbox {
    const char *name;
    const char *expression;
    int found;
} searched_inbox;

typedef struct key_search {
    inbox_work *work;
    semel_bytes key; /* as it is stored */
    table to;
    searched_inbox *inboxes;
    size_t count;
    size_t found;
    int64_t letter; /* the first one */
    timeline timeline;
} key_search;

/* --- looking ---------------------------------------------------------------------------------- */

/* In JSON, if there are any: a store may have no history. */
static void add_deliveries(key_search *s, const char *inbox)
{
    buffer rows = {0};
    if (s->timeline.count && s->to.json)
        timeline_json(&rows, &s->timeline, inbox);
    table_cell(&s->to, NULL, rows.data);
    buffer_free(&rows);
}

static semel_status add_row(key_search *s, const char *inbox, const semel_marker *marker,
                            semel_error *err)
{
    int64_t letter = 0;
    semel_status status = marker->state == SEMEL_MARKER_DEAD
                              ? inbox_letter(&letter, &s->work->tool, inbox, marker->key, err)
                              : SEMEL_OK;
    s->letter = s->letter ? s->letter : letter;
    table_text(&s->to, inbox);
    table_key(&s->to, marker->key);
    table_text(&s->to, inbox_state_word(marker->state));
    table_number(&s->to, marker->state == SEMEL_MARKER_DONE ? -1 : (int64_t)marker->attempts);
    table_moment(&s->to, marker->last_ms);
    table_moment(&s->to, marker->state == SEMEL_MARKER_CLAIMED ? marker->lease_until_ms : 0);
    table_text(&s->to, inbox_error_text(&s->work->tool.memory, inbox, marker));
    table_number(&s->to, letter ? letter : -1);
    add_deliveries(s, inbox);
    table_end_row(&s->to);
    return status;
}

typedef struct one_look {
    key_search *search;
    searched_inbox *in;
} one_look;

static semel_status add_found(const semel_marker *marker, void *context, semel_error *err)
{
    one_look *look = context;
    look->in->found = 1;
    look->search->found++;
    return add_row(look->search, look->in->name, marker, err);
}

static int look_in(key_search *s, const known_name *known)
{
    searched_inbox *in = &s->inboxes[s->count++];
    one_look look = {s, in};
    semel_marker_filter filter = {.size = sizeof filter,
                                  .key = s->key,
                                  .key_is_stored = 1,
                                  .limit = 1,
                                  .results = inbox_keeps_answers(known->name)};
    semel_inbox *inbox = NULL;
    semel_error why = {0};
    tool *t = &s->work->tool;
    *in = (searched_inbox){.name = known->name, .expression = inbox_key_expression(t, known)};
    if (!known->in_store)
        return CLI_OK;
    semel_status status = semel_inbox_open_known(&inbox, t->store, known->name, &why);
    if (!status)
        status = semel_inbox_list(inbox, &filter, add_found, &look, &why);
    semel_inbox_close(inbox);
    return status ? tool_failed(t, &why) : CLI_OK;
}

/* --- saying what was searched ----------------------------------------------------------------- */

static int is_first_with(const key_search *s, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (strcmp(s->inboxes[j].expression, s->inboxes[i].expression) == 0)
            return 0;
    return 1;
}

/* "json:/order_id in payments, invoices; id in fraud". */
static void say_searched(const key_search *s)
{
    buffer line = {0};
    for (size_t i = 0; i < s->count; i++) {
        if (!is_first_with(s, i))
            continue;
        buffer_printf(&line, "%s%s in ", line.len ? "; " : "", s->inboxes[i].expression);
        for (size_t j = i, before = 0; j < s->count; j++)
            if (strcmp(s->inboxes[j].expression, s->inboxes[i].expression) == 0)
                buffer_printf(&line, "%s%s", before++ ? ", " : "", s->inboxes[j].name);
    }
    tool_say(&s->work->tool, "searched %s", line.len ? line.data : "no inbox: there is none");
    buffer_free(&line);
}

typedef struct refused_letter {
    int64_t id;
    const char *inbox;
    const char *error;
    region *memory;
} refused_letter;

static semel_status keep_refused(const semel_dead *dead, void *context, semel_error *err)
{
    refused_letter *found = context;
    (void)err;
    found->id = dead->id;
    found->inbox = region_copy(found->memory, dead->name, strlen(dead->name));
    found->error = region_copy(found->memory, dead->error, strlen(dead->error));
    return SEMEL_OK;
}

/* A message that was refused, or had no route, has no key in an inbox: its letter has an identity
 * of its own, the key and a digest, as `dead ls` shows it. 1 if this is one: then it was said. */
static int explain_refused(const key_search *s, const char *key)
{
    tool *t = &s->work->tool;
    refused_letter found = {.memory = &t->memory};
    semel_dead_filter filter = {
        .size = sizeof filter, .origin = SEMEL_DEAD_INBOX, .key = s->key, .limit = 1, .brief = 1};
    if (semel_dead_list(t->store, &filter, keep_refused, &found, NULL) || !found.id)
        return 0;
    (void)tool_refuse(t, CLI_NOT_FOUND,
                      "no inbox has the key %s: it names dead letter %lld of %s, a message that no "
                      "handler has seen: %s",
                      key, (long long)found.id, found.inbox, found.error);
    tool_say(t, "next: semel dead show %lld", (long long)found.id);
    return 1;
}

static int not_found(const key_search *s)
{
    buffer key = {0};
    show_stored_key(&key, s->key);
    if (explain_refused(s, key.data)) {
        buffer_free(&key);
        return CLI_NOT_FOUND;
    }
    int status = tool_refuse(&s->work->tool, CLI_NOT_FOUND,
                             "key %s not found in any inbox; it was never handled, or has been "
                             "forgotten",
                             key.data);
    say_searched(s);
    buffer_free(&key);
    return status;
}

/* Does an inbox with this expression know the key? */
static int is_known_by(const key_search *s, const char *expression)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->inboxes[i].found && strcmp(s->inboxes[i].expression, expression) == 0)
            return 1;
    return 0;
}

/* Inboxes that do not know the key, with the same expression as one that does (1), or another. */
static size_t list_missing(buffer *names, buffer *expressions, const key_search *s, int same)
{
    size_t all = 0, count = 0;
    for (size_t i = 0; i < s->count; i++)
        all += !s->inboxes[i].found && is_known_by(s, s->inboxes[i].expression) == same;
    for (size_t i = 0; i < s->count; i++) {
        const searched_inbox *in = &s->inboxes[i];
        if (in->found || is_known_by(s, in->expression) != same)
            continue;
        buffer_printf(names, "%s%s", !count ? "" : count + 1 == all ? " and " : ", ", in->name);
        count++;
        if (is_first_with(s, i))
            buffer_printf(expressions, "%s%s", expressions->len ? ", " : "", in->expression);
    }
    return count;
}

/* fraud and mail.receipt use other keys (id, header:return-id). */
static void say_others(const key_search *s)
{
    buffer names = {0}, expressions = {0}, same = {0}, unused = {0};
    size_t missing = list_missing(&same, &unused, s, 1);
    size_t others = list_missing(&names, &expressions, s, 0);
    if (missing)
        tool_say(&s->work->tool, "%s %s not know it yet", same.data, missing == 1 ? "does" : "do");
    if (others)
        tool_say(&s->work->tool, "%s %s (%s)", names.data,
                 others == 1 ? "uses other keys" : "use other keys", expressions.data);
    if (s->letter)
        tool_say(&s->work->tool, "next: semel dead show %lld", (long long)s->letter);
    buffer_free(&names);
    buffer_free(&expressions);
    buffer_free(&same);
    buffer_free(&unused);
}

/* --- the command ------------------------------------------------------------------------------ */

static int search(key_search *s)
{
    known_names all;
    inbox_work *w = s->work;
    int status = names_read(&all, &w->tool, SEMEL_NAME_INBOX);
    s->inboxes = must_alloc((all.count + 1) * sizeof *s->inboxes);
    if (!status)
        timeline_read(&s->timeline, &w->tool, &w->filter.inboxes, s->key);
    for (size_t i = 0; !status && i < all.count; i++)
        if (filters_match(&w->filter.inboxes, all.items[i].name))
            status = look_in(s, &all.items[i]);
    for (size_t i = 0; !status && i < w->filter.inboxes.count; i++)
        if (!strchr(w->filter.inboxes.items[i], '*') &&
            !names_find(&all, w->filter.inboxes.items[i]))
            status = tool_no_such_name(&w->tool, "inbox", w->filter.inboxes.items[i]);
    names_free(&all);
    table_print(&s->to, stdout);
    if (!status && !w->options.json)
        timeline_print(&s->timeline, w->options.utc);
    if (!status && !s->found)
        return not_found(s);
    if (!status && !w->options.json)
        say_others(s);
    return status;
}

static int show(inbox_work *w)
{
    key_search s = {.work = w,
                    .to = {.columns = columns, .json = w->options.json, .utc = w->options.utc}};
    const char *wrong = typed_key_parts(&s.key, &w->tool.memory, w->rest.items, w->rest.count);
    int status = wrong ? cli_usage("inbox show", "the key is not one: %s", wrong) : search(&s);
    free(s.inboxes);
    timeline_free(&s.timeline);
    return status;
}

int inbox_show(int argc, char **argv)
{
    static inbox_work w;
    const argument_option options[] = {TOOL_OPTIONS(&w.options), FILTER_INBOX(&w.filter), {0}};
    int status = arguments_read("inbox show", argc, argv, options, &w.rest);
    if (!status && !w.rest.count)
        status = cli_usage("inbox show", "it takes a key");
    if (status)
        return status;
    status = tool_open(&w.tool, "inbox show", &w.options);
    if (!status)
        status = show(&w);
    tool_close(&w.tool);
    return status;
}
