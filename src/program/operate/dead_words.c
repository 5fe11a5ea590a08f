/* The words for dead letters: how many, where, since when, and what to type. */
#include "program/cli.h"
#include "program/operate/dead.h"
#include "program/support/show.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void dead_show_cause(char out[DEAD_CAUSE_SIZE], uint32_t cause)
{
    (void)snprintf(out, DEAD_CAUSE_SIZE, "%08" PRIx32, cause);
}

void dead_show_moment(buffer *to, const dead_work *w, int64_t ms)
{
    if (w->options->tool.utc)
        show_moment_utc(to, ms);
    else
        show_moment(to, ms);
}

void dead_show_count(buffer *to, uint64_t count)
{
    show_number(to, count);
    buffer_text(to, count == 1 ? " letter" : " letters");
}

void dead_show_place(buffer *to, semel_dead_origin origin, const char *name)
{
    const char *kind = origin == SEMEL_DEAD_OUTBOX  ? "outbox "
                       : origin == SEMEL_DEAD_QUEUE ? "queue "
                                                    : "inbox ";
    buffer_text(to, kind);
    show_text(to, name, strlen(name), 0);
}

void dead_show_age(buffer *to, int64_t ms)
{
    static const struct unit {
        int64_t ms;
        char name;
    } units[] = {{86400000, 'd'}, {3600000, 'h'}, {60000, 'm'}, {1000, 's'}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (ms >= units[i].ms || units[i].name == 's') {
            buffer_printf(to, "%lld%c", (long long)((ms > 0 ? ms : 0) / units[i].ms),
                          units[i].name);
            return;
        }
}

/* --- the set ---------------------------------------------------------------------------------- */

static void show_names(buffer *to, const dead_summary *set)
{
    if (set->name_count > 2) {
        buffer_text(to, "several inboxes");
        return;
    }
    for (size_t i = 0; i < set->name_count; i++) {
        buffer_text(to, i ? " and " : "");
        show_text(to, set->names[i], strlen(set->names[i]), 0);
    }
}

/* The day is said once if it is the same. */
static void show_times(buffer *to, const dead_work *w, const dead_summary *set)
{
    enum { DAY = sizeof "2026-03-14" };
    buffer first = {0}, last = {0};
    dead_show_moment(&first, w, set->first_ms);
    dead_show_moment(&last, w, set->last_ms);
    buffer_text(to, first.data);
    if (strncmp(first.data, last.data, DAY) != 0)
        buffer_printf(to, " to %s", last.data);
    else if (strcmp(first.data, last.data) != 0)
        buffer_printf(to, " to %s", last.data + DAY);
    buffer_free(&first);
    buffer_free(&last);
}

void dead_show_set(buffer *to, const dead_work *w, const dead_summary *set, int times)
{
    dead_show_count(to, set->count);
    buffer_text(to, " in ");
    show_names(to, set);
    if (times) {
        buffer_text(to, ", ");
        show_times(to, w, set);
    }
}

/* --- what to type ----------------------------------------------------------------------------- */

static void show_options(buffer *to, const dead_work *w)
{
    if (w->options->here)
        buffer_text(to, " --here");
    if (w->options->forget)
        buffer_text(to, " --forget");
}

void dead_show_command(buffer *to, const dead_work *w)
{
    buffer_text(to, w->tool.command);
    for (size_t i = 0; i < w->id_count; i++)
        buffer_printf(to, " %lld", (long long)w->ids[i]);
    filters_text(to, &w->options->filter);
    show_options(to, w);
}

/* Those that are done are gone, and need not be excluded. */
void dead_show_rest(buffer *to, const dead_work *w, int64_t last)
{
    char up_to[24];
    filter_options rest = w->options->filter;
    (void)snprintf(up_to, sizeof up_to, "%lld", (long long)last);
    rest.up_to = up_to;
    buffer_printf(to, "semel %s", w->tool.command);
    for (size_t i = 0; i < w->id_count; i++)
        buffer_printf(to, " %lld", (long long)w->ids[i]);
    if (!w->ids)
        filters_text(to, &rest);
    show_options(to, w);
}

/* --- letters that are gone -------------------------------------------------------------------- */

typedef struct culprit {
    int64_t letter;
    int64_t id, at_ms;
    int discarded;
    char who[64];
} culprit;

/* Is the letter one of those that "dead retry 2126 2127" names? */
static int names_letter(const char *what, int64_t letter)
{
    char *end;
    for (const char *at = strchr(what, ' '); at && at[1] != '#'; at = strchr(at + 1, ' '))
        if (strtoll(at + 1, &end, 10) == letter && end != at + 1 && (*end == ' ' || !*end))
            return 1;
    return 0;
}

static semel_status look_at_entry(const semel_audit *entry, void *context, semel_error *err)
{
    culprit *c = context;
    int retry = strncmp(entry->what, "dead retry ", 11) == 0;
    int discard = strncmp(entry->what, "dead discard ", 13) == 0;
    (void)err;
    if ((!retry && !discard) || !names_letter(entry->what + 5, c->letter))
        return SEMEL_OK;
    c->id = entry->id;
    c->at_ms = entry->at_ms;
    c->discarded = discard;
    (void)snprintf(c->who, sizeof c->who, "%.*s", (int)strcspn(entry->who, "@"), entry->who);
    return SEMEL_OK;
}

typedef struct audit_page {
    culprit *culprit;
    int64_t last;
    size_t count;
} audit_page;

static semel_status look_at_page(const semel_audit *entry, void *context, semel_error *err)
{
    audit_page *p = context;
    p->last = entry->id;
    p->count++;
    return look_at_entry(entry, p->culprit, err);
}

/* The last month is enough for a person who was just told to look. */
static void find_culprit(culprit *c, dead_work *w)
{
    const int64_t month_ms = INT64_C(31) * 86400000;
    audit_page p = {.culprit = c};
    semel_audit_filter filter = {
        .size = sizeof filter, .limit = DEAD_ROWS, .since_ms = w->tool.now_ms - month_ms};
    do {
        filter.after_id = p.last;
        p.count = 0;
        if (semel_audit_list(w->tool.store, &filter, look_at_page, &p, NULL))
            return;
    } while (p.count == DEAD_ROWS);
}

int dead_say_gone(dead_work *w, int64_t id)
{
    culprit c = {.letter = id};
    buffer age = {0};
    find_culprit(&c, w);
    if (!c.id)
        return tool_refuse(&w->tool, CLI_NOT_FOUND, "letter %lld does not exist (any more)",
                           (long long)id);
    dead_show_age(&age, w->tool.now_ms - c.at_ms);
    int status = tool_refuse(
        &w->tool, CLI_NOT_FOUND, "letter %lld no longer exists: %s %s it %s ago (audit %lld)",
        (long long)id, c.who, c.discarded ? "discarded" : "retried", age.data, (long long)c.id);
    buffer_free(&age);
    return status;
}

/* --- rows ------------------------------------------------------------------------------------- */

const table_column dead_columns[] = {{"LETTER", "letter", 1, 0},
                                     {"INBOX", "inbox", 0, 0},
                                     {NULL, "outbox", 0, 0},
                                     {NULL, "queue", 0, 0},
                                     {"KEY", "key", 0, 0},
                                     {"TYPE", "type", 0, 0},
                                     {NULL, "message_id", 0, 0},
                                     {"ATTEMPTS", "attempts", 1, 0},
                                     {"DEAD SINCE", "at", 0, 0},
                                     {NULL, "cause", 0, 0},
                                     {NULL, "retry", 0, 0},
                                     {"ERROR", "error", 0, 1},
                                     {0}};

static const char *retry_word(int retry)
{
    static const char *const words[] = {[SEMEL_RETRY_ASKED] = "asked",
                                        [SEMEL_RETRY_BEGUN] = "begun",
                                        [SEMEL_RETRY_FAILED] = "failed"};
    return retry > 0 && (size_t)retry < sizeof words / sizeof *words ? words[retry] : NULL;
}

/* For people: what waits for a process, or for one that may have died, is seen at a glance. */
static void add_error(table *t, const dead_letter *letter)
{
    buffer people = {0}, json = {0};
    if (letter->retry == SEMEL_RETRY_ASKED || letter->retry == SEMEL_RETRY_BEGUN)
        buffer_printf(&people, "[retry %s] ", retry_word(letter->retry));
    show_text(&people, letter->error, strlen(letter->error), 0);
    show_json(&json, letter->error, strlen(letter->error));
    table_cell(t, people.data, json.data);
    buffer_free(&people);
    buffer_free(&json);
}

/* The heading is INBOX, since most are; what is another kind says so. */
void dead_add_place(table *t, semel_dead_origin origin, const char *name)
{
    buffer people = {0}, json = {0};
    int inbox = origin != SEMEL_DEAD_OUTBOX && origin != SEMEL_DEAD_QUEUE;
    if (inbox)
        show_text(&people, name, strlen(name), 0);
    else
        dead_show_place(&people, origin, name);
    show_json(&json, name, strlen(name));
    table_cell(t, people.data, inbox ? json.data : NULL);
    table_text(t, origin == SEMEL_DEAD_OUTBOX ? name : NULL);
    table_text(t, origin == SEMEL_DEAD_QUEUE ? name : NULL);
    buffer_free(&people);
    buffer_free(&json);
}

void dead_add_cells(table *t, const dead_letter *letter)
{
    char cause[DEAD_CAUSE_SIZE];
    dead_show_cause(cause, letter->cause);
    table_number(t, letter->id);
    dead_add_place(t, letter->origin, letter->name);
    if (letter->key.len)
        table_key(t, letter->key);
    else
        table_text(t, NULL);
    table_text(t, letter->type);
    if (letter->message_id.len)
        table_bytes(t, letter->message_id.data, letter->message_id.len);
    else
        table_text(t, NULL);
    table_number(t, letter->attempts);
    table_moment(t, letter->at_ms);
    table_text(t, letter->cause ? cause : NULL);
    table_text(t, retry_word(letter->retry));
    add_error(t, letter);
}

void dead_add_row(table *t, const dead_letter *letter)
{
    dead_add_cells(t, letter);
    table_end_row(t);
}

/* --- a dry run -------------------------------------------------------------------------------- */

static void print_sample(const dead_summary *set)
{
    for (size_t i = 0; i < set->sampled && i < DEAD_SHOWN; i++) {
        const dead_letter *letter = &set->sample[i];
        buffer line = {0};
        buffer_printf(&line, "  %lld  ", (long long)letter->id);
        if (letter->key.len)
            show_stored_key(&line, letter->key);
        else
            buffer_text(&line, "-");
        buffer_text(&line, "  ");
        show_text(&line, letter->error, strlen(letter->error), 0);
        (void)printf("%s\n", line.data);
        buffer_free(&line);
    }
}

static void print_sample_json(const dead_summary *set)
{
    table t = {.columns = dead_columns, .json = 1};
    for (size_t i = 0; i < set->sampled && i < DEAD_SHOWN; i++)
        dead_add_row(&t, &set->sample[i]);
    table_print(&t, stdout);
}

void dead_say_dry_run(dead_work *w, const dead_summary *set, const char *verb)
{
    buffer text = {0}, more = {0};
    dead_show_set(&text, w, set, 1);
    tool_say(&w->tool, "would %s %s:", verb, text.data);
    if (w->options->tool.json)
        print_sample_json(set);
    else
        print_sample(set);
    (void)fflush(stdout);
    show_number(&more, set->count > DEAD_SHOWN ? set->count - DEAD_SHOWN : 0);
    if (set->count > DEAD_SHOWN)
        tool_say(&w->tool, "%s more; nothing was changed", more.data);
    else
        tool_say(&w->tool, "nothing was changed");
    buffer_free(&text);
    buffer_free(&more);
}
