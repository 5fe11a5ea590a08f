/* See read_value.h. Messages show what was written, never what was substituted. */
#include "program/config/read_value.h"
#include "program/support/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const option_word *read_word(const option *of, const char *text)
{
    for (const option_word *word = of->words; word && word->name; word++)
        if (strcmp(word->name, text) == 0)
            return word;
    return NULL;
}

const char *read_words(region *memory, const option_word *words)
{
    buffer out = {0};
    for (size_t i = 0; words[i].name; i++) {
        const char *between = i == 0 ? "" : words[i + 1].name ? ", " : " or ";
        buffer_printf(&out, "%s%s", between, words[i].name);
    }
    const char *text = region_copy(memory, out.data, out.len);
    buffer_free(&out);
    return text;
}

/* --- storing ---------------------------------------------------------------------------------- */

static void store(const option *of, uint64_t value, void *out)
{
    switch (of->type) {
    case OPTION_DURATION:
    case OPTION_NUMBER:
        *(uint32_t *)out = (uint32_t)value;
        return;
    case OPTION_COUNT:
        *(int64_t *)out = (int64_t)value;
        return;
    case OPTION_BOOLEAN:
    case OPTION_WORD:
        *(int *)out = (int)value;
        return;
    default:
        *(uint64_t *)out = value;
    }
}

static uint64_t most_of(const option *of)
{
    if (of->most)
        return of->most;
    if (of->type == OPTION_DURATION || of->type == OPTION_NUMBER)
        return UINT32_MAX - 1;
    return INT64_MAX;
}

/* --- ranges ----------------------------------------------------------------------------------- */

static const char *shown_limit(const reading *r, const option *of, uint64_t value)
{
    if (of->type == OPTION_DURATION || of->type == OPTION_LONG_DURATION)
        return region_printf(r->memory, "%s", units_show_duration(value).text);
    if (of->type == OPTION_SIZE)
        return region_printf(r->memory, "%s", units_show_size(value).text);
    return region_printf(r->memory, "%" PRIu64, value);
}

static int in_range(const reading *r, const option *of, const config_node *node, uint64_t value)
{
    uint64_t least = of->least, most = most_of(of);
    if (value >= least && value <= most)
        return 1;
    if (of->most)
        diagnostic_at(r->found, "range", node, "%s is out of range (%s to %s)", node->raw,
                      shown_limit(r, of, least), shown_limit(r, of, most));
    else if (value < least)
        diagnostic_at(r->found, "range", node, "%s is too small (at least %s)", node->raw,
                      shown_limit(r, of, least));
    else
        diagnostic_at(r->found, "range", node, "%s is too large", node->raw);
    return 0;
}

/* --- numbers with and without units ----------------------------------------------------------- */

static int wrong_unit(const reading *r, const config_node *node, units_result result,
                      const char *what, const char *units, const units_meant *meant)
{
    char did_you_mean[64] = "", list[64] = "";
    if (*meant->text)
        (void)snprintf(did_you_mean, sizeof did_you_mean, "; did you mean %s?", meant->text);
    if (node->at.source->text)
        (void)snprintf(list, sizeof list, " (%s)", units);
    if (result == UNITS_MISSING)
        diagnostic_at(r->found, "unit", node, "%s has no unit%s%s", node->raw, list, did_you_mean);
    else
        diagnostic_at(r->found, "unit", node, "\"%s\" is not a %s%s", node->raw, what,
                      did_you_mean);
    return 0;
}

static int take_duration(const reading *r, const option *of, const config_node *node,
                         uint64_t *value)
{
    units_meant meant;
    const char *model = of->fallback && !read_word(of, of->fallback) ? of->fallback : of->example;
    units_result result = units_duration(value, node->text, units_last(model), &meant);
    return result ? wrong_unit(r, node, result, "duration", UNITS_DURATION, &meant) : 1;
}

static int take_size(const reading *r, const config_node *node, uint64_t *value)
{
    units_meant meant;
    units_result result = units_size(value, node->text, &meant);
    return result ? wrong_unit(r, node, result, "size", UNITS_SIZE, &meant) : 1;
}

static int take_number(const reading *r, const config_node *node, uint64_t *value)
{
    char *end = NULL;
    errno = 0;
    *value = strtoull(node->text, &end, 10);
    if (tree_scalar(node) == SCALAR_INTEGER && !*end && node->text[0] != '-' && !errno)
        return 1;
    if (tree_scalar(node) == SCALAR_INTEGER) {
        *value = UINT64_MAX;
        return 1;
    }
    diagnostic_at(r->found, "number", node, "\"%s\" is not a whole number", node->raw);
    return 0;
}

static int read_number(const reading *r, const option *of, const config_node *node, void *out)
{
    uint64_t value = 0;
    const option_word *word = read_word(of, node->text);
    if (word) {
        store(of, word->value, out);
        return 1;
    }
    int done = of->type == OPTION_SIZE ? take_size(r, node, &value)
               : of->type == OPTION_DURATION || of->type == OPTION_LONG_DURATION
                   ? take_duration(r, of, node, &value)
                   : take_number(r, node, &value);
    if (!done || !in_range(r, of, node, value))
        return 0;
    store(of, value, out);
    return 1;
}

/* --- words and texts -------------------------------------------------------------------------- */

/* What people also write for true and false; -1: neither. */
static int meant_boolean(const char *text)
{
    static const char *const words[] = {"false", "no",  "off", "n", "0",
                                        "true",  "yes", "on",  "y", "1"};
    for (int i = 0; i < 10; i++)
        if (strcasecmp(text, words[i]) == 0)
            return i >= 5;
    return -1;
}

static int read_boolean(const reading *r, const option *of, const config_node *node, void *out)
{
    scalar_type type = tree_scalar(node);
    int meant = meant_boolean(node->raw);
    if (type == SCALAR_TRUE || type == SCALAR_FALSE) {
        store(of, type == SCALAR_TRUE, out);
        return 1;
    }
    if (meant >= 0)
        diagnostic_at(r->found, "boolean", node, "\"%s\" is a %s here; write %s", node->raw,
                      type == SCALAR_INTEGER ? "number" : "string", meant ? "true" : "false");
    else
        diagnostic_at(r->found, "boolean", node, "\"%s\" is not valid; use true or false",
                      node->raw);
    return 0;
}

static int read_choice(const reading *r, const option *of, const config_node *node, void *out)
{
    const option_word *word = read_word(of, node->text);
    if (!word) {
        diagnostic_at(r->found, "word", node, "\"%s\" is not valid; use %s", node->raw,
                      read_words(r->memory, of->words));
        return 0;
    }
    store(of, word->value, out);
    return 1;
}

static int read_text(const reading *r, const option *of, const config_node *node, void *out)
{
    if (!node->len && !(of->flags & OPTION_EMPTY)) {
        diagnostic_at(r->found, "empty", node, "the text is empty");
        return 0;
    }
    *(const char **)out = node->text;
    return 1;
}

int read_scalar_value(const reading *r, const option *of, const config_node *node, void *out)
{
    if (node->kind != NODE_SCALAR) {
        diagnostic_at(r->found, "type", node, "expected a %s, not a %s", option_type_name(of->type),
                      node->kind == NODE_LIST ? "list" : "map");
        return 0;
    }
    if (node->is_unset) /* reported by the substitution */
        return 0;
    switch (of->type) {
    case OPTION_TEXT:
    case OPTION_URL:
    case OPTION_KEY:
        return read_text(r, of, node, out);
    case OPTION_BOOLEAN:
        return read_boolean(r, of, node, out);
    case OPTION_WORD:
        return read_choice(r, of, node, out);
    default:
        return read_number(r, of, node, out);
    }
}

/* --- defaults --------------------------------------------------------------------------------- */

void read_fallback(const option *of, void *out)
{
    static const config_source table = {.name = "the table of options"};
    config_node node = {.text = of->fallback,
                        .raw = of->fallback,
                        .len = strlen(of->fallback),
                        .at = {.source = &table}};
    const reading quiet = {0};
    (void)read_scalar_value(&quiet, of, &node, out);
}
