/* See filters.h. */
#include "program/operate/filters.h"

#include "program/cli.h"
#include "program/support/nearest.h"
#include "program/support/show.h"
#include "program/support/typed_key.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT_ON_TERMINAL = 50, CAUSE_DIGITS_MAX = 8 };

/* --- reading ---------------------------------------------------------------------------------- */

static int read_state(filters *out, const tool *t, const char *word)
{
    static const struct {
        const char *word;
        semel_marker_state state;
    } states[] = {{"done", SEMEL_MARKER_DONE},
                  {"claimed", SEMEL_MARKER_CLAIMED},
                  {"failed", SEMEL_MARKER_OPEN},
                  {"dead", SEMEL_MARKER_DEAD}};
    nearest meant = {.typed = word ? word : ""};
    for (size_t i = 0; word && i < sizeof states / sizeof *states; i++) {
        if (strcmp(word, states[i].word) == 0)
            out->state = states[i].state;
        nearest_offer(&meant, states[i].word);
    }
    if (!word || out->state)
        return CLI_OK;
    return meant.name
               ? tool_usage(t, "--state: unknown word \"%s\"; did you mean \"%s\"?", word,
                            meant.name)
               : tool_usage(t, "--state: unknown word \"%s\"; use done, claimed, failed or dead",
                            word);
}

static int read_key(filters *out, const tool *t, const char *text)
{
    region memory = {0};
    semel_bytes key = {0};
    const char *wrong = text ? typed_key_stored(&key, &memory, text) : NULL;
    if (text && !wrong)
        buffer_add(&out->key, key.data, key.len);
    region_free(&memory);
    return wrong ? tool_usage(t, "--key \"%s\": %s", text, wrong) : CLI_OK;
}

static int read_time(int64_t *out, const tool *t, const char *option, const char *text)
{
    if (!text || filters_time(out, text, t->now_ms, t->options->utc))
        return CLI_OK;
    return tool_usage(t,
                      "%s: \"%s\" is not a time; use 2h, 02:40, 2026-03-14, '2026-03-14 02:40' or "
                      "2026-03-14T01:40:00Z",
                      option, text);
}

static int read_id(int64_t *out, const tool *t, const char *option, const char *text)
{
    char *end = NULL;
    if (!text)
        return CLI_OK;
    errno = 0;
    long long number = *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : -1;
    if (number < 0 || errno || *end)
        return tool_usage(t, "%s takes the number of a letter, not \"%s\"", option, text);
    *out = number;
    return CLI_OK;
}

static int read_cause(filters *out, const tool *t, const char *text)
{
    char *end = NULL;
    size_t len = text ? strlen(text) : 0;
    if (!text)
        return CLI_OK;
    out->cause = (uint32_t)strtoul(text, &end, 16);
    if (!len || len > CAUSE_DIGITS_MAX || strspn(text, "0123456789abcdefABCDEF") != len ||
        !out->cause)
        return tool_usage(t, "--cause: \"%s\" is not a cause; see semel dead groups", text);
    return CLI_OK;
}

/* What --after means depends on the list: a number, a key or an id. Commands whose list is ordered
 * by numbers take after_id. */
int filters_read(filters *out, const tool *t, const filter_options *given)
{
    *out = (filters){.given = given, .limit = given->limit};
    if (!out->limit)
        out->limit = tool_on_terminal(t) && !t->options->json ? LIMIT_ON_TERMINAL : UINT32_MAX;
    int status = read_state(out, t, given->state);
    if (!status)
        status = read_key(out, t, given->key);
    if (!status)
        status = read_time(&out->since_ms, t, "--since", given->since);
    if (!status)
        status = read_time(&out->until_ms, t, "--until", given->until);
    if (!status)
        status = read_cause(out, t, given->cause);
    return status ? status : read_id(&out->last_id, t, "--up-to", given->up_to);
}

int filters_read_after_id(filters *out, const tool *t)
{
    return read_id(&out->after_id, t, "--after", out->given->after);
}

void filters_free(filters *f)
{
    buffer_free(&f->key);
}

/* --- matching --------------------------------------------------------------------------------- */

static int match_one(const char *pattern, const char *text)
{
    size_t len = strlen(pattern);
    if (len && pattern[len - 1] == '*')
        return strncmp(pattern, text, len - 1) == 0;
    return strcmp(pattern, text) == 0;
}

int filters_match(const argument_list *list, const char *text)
{
    int found = !list->count;
    for (size_t i = 0; !found && i < list->count; i++)
        found = match_one(list->items[i], text ? text : "");
    return found;
}

static int is_pattern(const char *text)
{
    size_t len = strlen(text);
    return len && text[len - 1] == '*';
}

/* The one name of the list, if the library can compare it. */
static const char *only_exact(const argument_list *list)
{
    return list->count == 1 && !is_pattern(list->items[0]) ? list->items[0] : NULL;
}

/* With --inbox and --outbox, letters of both are meant. */
static int match_name(const filter_options *given, const semel_dead *letter)
{
    if (!given->inboxes.count && !given->outboxes.count)
        return 1;
    const argument_list *names = letter->origin == SEMEL_DEAD_INBOX    ? &given->inboxes
                                 : letter->origin == SEMEL_DEAD_OUTBOX ? &given->outboxes
                                                                       : NULL;
    return names && names->count && filters_match(names, letter->name);
}

int filters_match_letter(const filters *f, const semel_dead *letter)
{
    const char *type = letter->message ? letter->message->type : NULL;
    return match_name(f->given, letter) && filters_match(&f->given->types, type);
}

semel_dead_filter filters_for_letters(const filters *f)
{
    const filter_options *given = f->given;
    semel_dead_filter to = {.size = sizeof to,
                            .after_id = f->after_id,
                            .last_id = f->last_id,
                            .since_ms = f->since_ms,
                            .until_ms = f->until_ms,
                            .cause = f->cause,
                            .error = given->error,
                            .type = only_exact(&given->types),
                            .key = {f->key.data, f->key.len}};
    if (given->inboxes.count && !given->outboxes.count) {
        to.origin = SEMEL_DEAD_INBOX;
        to.name = only_exact(&given->inboxes);
    } else if (given->outboxes.count && !given->inboxes.count) {
        to.origin = SEMEL_DEAD_OUTBOX;
        to.name = only_exact(&given->outboxes);
    }
    return to;
}

/* --- as they can be typed again --------------------------------------------------------------- */

static void add_option(buffer *to, const char *name, const char *value)
{
    if (!value)
        return;
    buffer_printf(to, "%s%s ", to->len ? " " : "", name);
    show_argument(to, value);
}

static void add_list(buffer *to, const char *name, const argument_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        add_option(to, name, list->items[i]);
}

void filters_text(buffer *to, const filter_options *given)
{
    char limit[16];
    buffer_text(to, "");
    add_list(to, "--inbox", &given->inboxes);
    add_list(to, "--outbox", &given->outboxes);
    add_list(to, "--type", &given->types);
    add_option(to, "--state", given->state);
    add_option(to, "--outcome", given->outcome);
    add_option(to, "--key", given->key);
    add_option(to, "--error", given->error);
    add_option(to, "--cause", given->cause);
    add_option(to, "--since", given->since);
    add_option(to, "--until", given->until);
    add_option(to, "--up-to", given->up_to);
    (void)snprintf(limit, sizeof limit, "%u", given->limit);
    add_option(to, "--limit", given->limit ? limit : NULL);
}
