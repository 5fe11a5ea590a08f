/* See diagnostic.h. */
#include "program/config/diagnostic.h"

#include "program/support/colour.h"
#include "program/support/encoding.h"
#include "program/support/show.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 500, LINE_MAX_SHOWN = 1000 }; /* bytes */

/* --- keeping ---------------------------------------------------------------------------------- */

void diagnostic_clear(diagnostics *all)
{
    all->count = all->errors = all->warnings = 0;
}

void diagnostic_free(diagnostics *all)
{
    free((void *)all->items);
    region_free(&all->memory);
    secret_free(&all->hidden);
    secret_free(&all->written);
    *all = (diagnostics){0};
}

/* A value that is shown may be long; a message is one line. */
static void shorten(buffer *text)
{
    if (text->len <= TEXT_MAX)
        return;
    text->len = TEXT_MAX;
    while (text->len && ((unsigned char)text->data[text->len] & 0xC0) == 0x80)
        text->len--;
    buffer_text(text, "...");
}

static const char *keep_text(diagnostics *all, const char *text)
{
    buffer masked = {0}, visible = {0};
    secret_add_masked(&masked, &all->hidden, text);
    show_text(&visible, masked.data ? masked.data : "", masked.len, 0);
    shorten(&visible);
    const char *kept = region_copy(&all->memory, visible.data ? visible.data : "", visible.len);
    buffer_free(&masked);
    buffer_free(&visible);
    return kept;
}

/* A path is made of names of the file, which are not substituted. */
static const char *keep_path(diagnostics *all, const char *path)
{
    buffer visible = {0};
    show_text(&visible, path, strlen(path), 0);
    const char *kept = region_copy(&all->memory, visible.data ? visible.data : "", visible.len);
    buffer_free(&visible);
    return kept;
}

static const char *keep_format(diagnostics *all, const char *format, va_list arguments)
{
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0)
        return "out of memory";
    const char *kept = keep_text(all, text);
    free(text);
    return kept;
}

typedef struct known_source {
    struct known_source *next;
    const config_source *original; /* as an address only */
    config_source copy;
} known_source;

static const config_source *keep_source(diagnostics *all, const config_source *source)
{
    known_source *known = all->sources;
    while (known && (known->original != source || known->copy.len != source->len ||
                     known->copy.first_line != source->first_line))
        known = known->next;
    if (known || !source)
        return known ? &known->copy : NULL;
    known = region_alloc(&all->memory, sizeof *known);
    *known = (known_source){all->sources, source, *source};
    known->copy.name = region_copy(&all->memory, source->name, strlen(source->name));
    if (source->text)
        known->copy.text = region_copy(&all->memory, source->text, source->len);
    all->sources = known;
    return &known->copy;
}

static diagnostic *add(diagnostics *to, diagnostic_level level, const char *code, place at)
{
    diagnostic *new = region_alloc(&to->memory, sizeof *new);
    if (to->count == to->room) {
        to->room = to->room ? to->room * 2 : 16;
        to->items = must_realloc((void *)to->items, to->room * sizeof *to->items);
    }
    new->level = level;
    new->code = code;
    new->at = at;
    new->at.source = keep_source(to, at.source);
    new->order = to->count;
    to->items[to->count++] = new;
    if (level == LEVEL_ERROR)
        to->errors++;
    else
        to->warnings++;
    return new;
}

diagnostic *diagnostic_add(diagnostics *to, diagnostic_level level, const char *code, place at,
                           const char *path, const char *format, ...)
{
    va_list arguments;
    if (!to)
        return NULL;
    diagnostic *new = add(to, level, code, at);
    new->path = keep_path(to, path);
    va_start(arguments, format);
    new->text = keep_format(to, format, arguments);
    va_end(arguments);
    return new;
}

diagnostic *diagnostic_at(diagnostics *to, const char *code, const config_node *node,
                          const char *format, ...)
{
    va_list arguments;
    if (!to)
        return NULL;
    diagnostic *new = add(to, LEVEL_ERROR, code, node->at);
    new->path = keep_path(to, tree_path(&to->memory, node));
    va_start(arguments, format);
    new->text = keep_format(to, format, arguments);
    va_end(arguments);
    return new;
}

void diagnostic_help(diagnostics *all, diagnostic *of, const char *format, ...)
{
    va_list arguments;
    size_t i = 0;
    if (!of)
        return;
    while (i < DIAGNOSTIC_HELPS_MAX && of->help[i])
        i++;
    if (i == DIAGNOSTIC_HELPS_MAX)
        return;
    va_start(arguments, format);
    of->help[i] = keep_format(all, format, arguments);
    va_end(arguments);
}

/* --- levels ----------------------------------------------------------------------------------- */

static const char *level_name(diagnostic_level level)
{
    return level == LEVEL_ERROR ? "error" : "warning";
}

static colour_kind ink_of(diagnostic_level level)
{
    return level == LEVEL_ERROR ? COLOUR_ERROR : COLOUR_WARNING;
}

/* --- the line and its caret ------------------------------------------------------------------- */

/* The line as it is shown, and below it where the place is: secrets are shorter or longer than what
 * they hide, so the caret is drawn while the line is written. */
typedef struct shown_line {
    buffer text;
    buffer caret;
    int marked;
} shown_line;

static void show_part(shown_line *out, const char *text, size_t len, int is_inside)
{
    size_t start = out->text.len;
    show_text(&out->text, text, len, 0);
    uint32_t width = encoding_characters(out->text.data + start, out->text.len - start);
    for (uint32_t i = 0; i < width; i++) {
        buffer_text(&out->caret, !is_inside ? " " : out->marked ? "~" : "^");
        out->marked |= is_inside;
    }
}

/* What is to be hidden at or behind `from`: what looks like a secret, or is in a list of them. */
static secret_span next_hidden(const secrets *known, const char *line, size_t len, size_t from)
{
    secret_span found = secret_in_line(line, len, from);
    for (size_t i = from; i < len && (!found.len || i < found.from); i++) {
        size_t covered = secret_at(known, line + i);
        if (covered)
            return (secret_span){i, covered < len - i ? covered : len - i};
    }
    return found;
}

static void show_line(shown_line *out, const secrets *known, const char *line, size_t len, place at)
{
    uint32_t column = 1;
    secret_span hidden = next_hidden(known, line, len, 0);
    for (size_t i = 0; i < len;) {
        int is_inside = column >= at.column && column < at.column + at.length;
        size_t step = encoding_bytes(line + i, len - i, 1);
        if (hidden.len && i == hidden.from) {
            uint32_t covered = 0;
            for (size_t j = 0; j < hidden.len; j += encoding_bytes(line + i + j, hidden.len - j, 1))
                covered++;
            is_inside = column + covered > at.column && column < at.column + at.length;
            show_part(out, SECRET_MASK, strlen(SECRET_MASK), is_inside);
            column += covered;
            i += hidden.len;
            hidden = next_hidden(known, line, len, i);
            continue;
        }
        show_part(out, line + i, step, is_inside);
        column++;
        i += step;
    }
    if (!out->marked)
        buffer_text(&out->caret, "^");
}

static void print_source(FILE *out, const diagnostic *d, const secrets *known, int in_colour)
{
    place at = d->at;
    size_t len = 0;
    const char *line = at.line ? tree_line(at.source, at.line, &len) : NULL;
    shown_line shown = {0};
    if (!line || !at.column || len > LINE_MAX_SHOWN)
        return;
    show_line(&shown, known, line, len, at);
    size_t width = shown.caret.len;
    while (width && shown.caret.data[width - 1] == ' ')
        width--;
    (void)fprintf(out, "%5u | %s\n      | %s%.*s%s\n", at.line,
                  shown.text.data ? shown.text.data : "", colour_begin(in_colour, ink_of(d->level)),
                  (int)width, shown.caret.data, colour_end(in_colour));
    buffer_free(&shown.text);
    buffer_free(&shown.caret);
}

/* --- printing --------------------------------------------------------------------------------- */

static void print_text(FILE *out, const diagnostic *d, const secrets *known, int in_colour)
{
    (void)fputs(d->at.source ? d->at.source->name : "semel", out);
    if (d->at.line)
        (void)fprintf(out, ":%u:%u", d->at.line, d->at.column);
    (void)fprintf(out, ": %s%s:%s %s%s%s\n", colour_begin(in_colour, ink_of(d->level)),
                  level_name(d->level), colour_end(in_colour), d->path, *d->path ? ": " : "",
                  d->text);
    if (d->at.source)
        print_source(out, d, known, in_colour);
    for (size_t i = 0; i < DIAGNOSTIC_HELPS_MAX && d->help[i]; i++)
        (void)fprintf(out, "      = %s\n", d->help[i]);
}

static void put(json_object *object, const char *name, json_object *value)
{
    (void)json_object_object_add(object, name, value);
}

static void print_json(FILE *out, const diagnostic *d)
{
    json_object *object = json_object_new_object();
    buffer help = {0};
    for (size_t i = 0; i < DIAGNOSTIC_HELPS_MAX && d->help[i]; i++)
        buffer_printf(&help, "%s%s", i ? "; " : "", d->help[i]);
    put(object, "file", json_object_new_string(d->at.source ? d->at.source->name : ""));
    put(object, "line", json_object_new_int64(d->at.line));
    put(object, "column", json_object_new_int64(d->at.column));
    put(object, "level", json_object_new_string(level_name(d->level)));
    put(object, "code", json_object_new_string(d->code));
    put(object, "path", json_object_new_string(d->path));
    put(object, "msg", json_object_new_string(d->text));
    put(object, "help", help.data ? json_object_new_string(help.data) : NULL);
    (void)fprintf(out, "%s\n",
                  json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN |
                                                             JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(object);
    buffer_free(&help);
}

static void add_count(buffer *out, size_t count, const char *what)
{
    if (count)
        buffer_printf(out, "%s%zu %s%s", out->len ? ", " : "", count, what, count == 1 ? "" : "s");
}

static void print_counts(FILE *out, const diagnostics *all, const char *name, size_t shown)
{
    buffer counts = {0};
    add_count(&counts, all->errors, "error");
    add_count(&counts, all->warnings, "warning");
    (void)fprintf(out, "%s: %s", name, counts.data);
    if (shown < all->count)
        (void)fprintf(out, " (%zu shown; --all shows all)", shown);
    (void)fputc('\n', out);
    buffer_free(&counts);
}

/* What has no line in a file comes last; what concerns a file as a whole comes first. */
static unsigned rank(const diagnostic *d)
{
    return d->at.source && !d->at.source->text;
}

static int compare(const void *left, const void *right)
{
    const diagnostic *a = *(const diagnostic *const *)left, *b = *(const diagnostic *const *)right;
    if (rank(a) != rank(b))
        return rank(a) < rank(b) ? -1 : 1;
    if (a->at.line != b->at.line)
        return a->at.line < b->at.line ? -1 : 1;
    if (a->at.column != b->at.column)
        return a->at.column < b->at.column ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

void diagnostic_print(FILE *out, diagnostics *all, const char *name, diagnostic_form form)
{
    size_t shown = form.all || all->count < DIAGNOSTIC_SHOWN ? all->count : DIAGNOSTIC_SHOWN;
    int in_colour = colour_on(fileno(out));
    if (!all->count || (form.errors_only && !all->errors))
        return;
    qsort((void *)all->items, all->count, sizeof(diagnostic *), compare);
    for (size_t i = 0; i < (form.json ? all->count : shown); i++)
        if (form.json)
            print_json(out, all->items[i]);
        else
            print_text(out, all->items[i], &all->written, in_colour);
    if (!form.json)
        print_counts(out, all, name, shown);
}
