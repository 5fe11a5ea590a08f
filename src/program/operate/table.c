/* See table.h.
 *
 * A cell is kept as the text that is printed. On a terminal that is too narrow, columns that may be
 * cut become narrower first. Then those of the others do that take more than half of the line: a
 * cell that is wider than its column is printed whole, and the rest of its row goes on in the next
 * line, under its headings. If that is not enough, the last columns have a second line in all rows,
 * and in the heading.
 *
 * Colour is added when a cell is printed, so that it has no width. */
#include "program/operate/table.h"

#include "program/support/colour.h"
#include "program/support/encoding.h"
#include "program/support/show.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { GAP = 2, INDENT = 4, CUT_LEAST = 16, DEFAULT_WIDTH = 80, NS_PER_MS = 1000000 };

struct table_row {
    table_row *next;
    const char *cells[TABLE_COLUMNS_MAX]; /* NULL: no value */
};

/* --- cells ------------------------------------------------------------------------------------ */

static int is_column(const table *t, size_t i)
{
    return i < TABLE_COLUMNS_MAX && (t->columns[i].heading || t->columns[i].field);
}

static void add_cell(table *t, const char *text)
{
    if (!t->current)
        t->current = region_alloc(&t->memory, sizeof *t->current);
    if (is_column(t, t->column))
        t->current->cells[t->column++] = text;
}

/* The text of the buffer, which is freed. */
static void add_buffer(table *t, buffer *text)
{
    add_cell(t, region_copy(&t->memory, text->data, text->len));
    buffer_free(text);
}

void table_bytes(table *t, const void *text, size_t len)
{
    buffer shown = {0};
    if (t->json)
        show_json(&shown, text, len);
    else
        show_text(&shown, text, len, 0);
    add_buffer(t, &shown);
}

void table_text(table *t, const char *text)
{
    if (text)
        table_bytes(t, text, strlen(text));
    else
        add_cell(t, NULL);
}

void table_key(table *t, semel_bytes key)
{
    buffer shown = {0};
    if (!key.len) {
        add_cell(t, NULL);
        return;
    }
    show_stored_key(&shown, key);
    table_bytes(t, shown.data, shown.len);
    buffer_free(&shown);
}

void table_id(table *t, semel_bytes id)
{
    buffer shown = {0};
    if (!id.len) {
        add_cell(t, NULL);
        return;
    }
    show_key(&shown, id);
    table_bytes(t, shown.data, shown.len);
    buffer_free(&shown);
}

void table_number(table *t, int64_t number)
{
    buffer shown = {0};
    if (number < 0) {
        add_cell(t, NULL);
        return;
    }
    if (t->json)
        buffer_printf(&shown, "%lld", (long long)number);
    else
        show_number(&shown, (uint64_t)number);
    add_buffer(t, &shown);
}

void table_moment(table *t, int64_t wall_ms)
{
    buffer shown = {0};
    if (!wall_ms) {
        add_cell(t, NULL);
        return;
    }
    if (t->json) {
        buffer_text(&shown, "\"");
        show_rfc3339(&shown, wall_ms);
        buffer_text(&shown, "\"");
    } else if (t->utc) {
        show_moment_utc(&shown, wall_ms);
    } else {
        show_moment(&shown, wall_ms);
    }
    add_buffer(t, &shown);
}

void table_duration(table *t, int64_t ms)
{
    buffer shown = {0};
    if (ms < 0 || t->json) {
        table_number(t, ms);
        return;
    }
    show_duration(&shown, ms > INT64_MAX / NS_PER_MS ? INT64_MAX : ms * NS_PER_MS);
    add_buffer(t, &shown);
}

void table_cell(table *t, const char *people, const char *json)
{
    const char *text = t->json ? json : people;
    add_cell(t, text ? region_copy(&t->memory, text, strlen(text)) : NULL);
}

void table_end_row(table *t)
{
    if (!t->current)
        return;
    if (t->last)
        t->last->next = t->current;
    else
        t->first = t->current;
    t->last = t->current;
    t->current = NULL;
    t->column = 0;
    t->rows++;
}

size_t table_rows(const table *t)
{
    return t->rows;
}

/* --- widths ----------------------------------------------------------------------------------- */

static size_t width_of(const char *text)
{
    return encoding_characters(text, strlen(text));
}

static const char *shown_cell(const table_row *row, size_t i)
{
    return row->cells[i] ? row->cells[i] : "-";
}

static void widen(size_t *width, size_t to)
{
    *width = to > *width ? to : *width;
}

static void measure(table *t)
{
    for (size_t i = 0; is_column(t, i); i++) {
        if (!t->columns[i].heading)
            continue;
        widen(&t->widths[i], width_of(t->columns[i].heading));
        for (const table_row *row = t->first; row; row = row->next)
            widen(&t->widths[i], width_of(shown_cell(row, i)));
    }
}

/* 0: the output is no terminal, and a line may have any length. */
static size_t terminal_width(FILE *to)
{
    const char *columns = getenv("COLUMNS");
    struct winsize size = {0};
    if (!isatty(fileno(to)))
        return 0;
    long given = columns ? strtol(columns, NULL, 10) : 0;
    if (given > 0 && given < INT16_MAX)
        return (size_t)given;
    if (ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col)
        return size.ws_col;
    return DEFAULT_WIDTH;
}

/* Where each column is. */
typedef struct layout {
    size_t widths[TABLE_COLUMNS_MAX];
    size_t starts[TABLE_COLUMNS_MAX];
    int begins_line[TABLE_COLUMNS_MAX];
} layout;

static size_t total_width(const table *t, const size_t widths[])
{
    size_t total = 0;
    for (size_t i = 0; is_column(t, i); i++)
        if (t->columns[i].heading)
            total += widths[i] + (total ? GAP : 0);
    return total;
}

/* The widest column that can be made narrower: of those that may be cut, or of the other texts. */
static size_t *widest(const table *t, size_t widths[], int cut, size_t least)
{
    size_t *found = NULL;
    for (size_t i = 0; is_column(t, i); i++) {
        const table_column *c = &t->columns[i];
        if (!c->heading || c->right || !c->cut != !cut)
            continue;
        size_t floor = width_of(c->heading) > least ? width_of(c->heading) : least;
        if (widths[i] > floor && (!found || widths[i] > *found))
            found = &widths[i];
    }
    return found;
}

/* If a row has several lines even so, a text that fits into a line of its own keeps its width. */
static void narrow(const table *t, size_t widths[], size_t most)
{
    size_t *wide;
    while (total_width(t, widths) > most && (wide = widest(t, widths, 1, CUT_LEAST)))
        --*wide;
    while (total_width(t, widths) > most && (wide = widest(t, widths, 0, most / 2)))
        --*wide;
    for (size_t i = 0; total_width(t, widths) > most && is_column(t, i); i++)
        if (!t->columns[i].cut && t->widths[i] <= most)
            widths[i] = t->widths[i];
}

/* The column for people behind this one; TABLE_COLUMNS_MAX: it is the last. */
static size_t next_column(const table *t, size_t i)
{
    for (i++; is_column(t, i); i++)
        if (t->columns[i].heading)
            return i;
    return TABLE_COLUMNS_MAX;
}

/* A column that may be cut, and is the last of its line, gets what is left of it. */
static void use_rest(const table *t, layout *l, size_t most)
{
    for (size_t i = 0; is_column(t, i); i++) {
        size_t next = next_column(t, i);
        size_t rest = most > l->starts[i] ? most - l->starts[i] : 0;
        if (!t->columns[i].heading || !t->columns[i].cut || rest <= l->widths[i])
            continue;
        if (next == TABLE_COLUMNS_MAX || l->begins_line[next])
            l->widths[i] = rest < t->widths[i] ? rest : t->widths[i];
    }
}

/* `most` 0: a line may have any length. */
static layout lay_out(const table *t, size_t most)
{
    layout l = {.widths = {0}};
    size_t at = 0;
    memcpy(l.widths, t->widths, sizeof l.widths);
    if (most)
        narrow(t, l.widths, most);
    for (size_t i = 0; is_column(t, i); i++) {
        if (!t->columns[i].heading)
            continue;
        l.begins_line[i] = most && at && at + l.widths[i] > most;
        at = l.begins_line[i] ? INDENT : at;
        l.starts[i] = at;
        at += l.widths[i] + GAP;
    }
    if (most)
        use_rest(t, &l, most);
    return l;
}

/* --- printing for people ---------------------------------------------------------------------- */

/* Blanks are written before the next text only, so that none ends a line. */
typedef struct lines {
    buffer text;
    size_t at; /* the column of the terminal that was reached */
    int in_colour;
} lines;

static void lines_reach(lines *l, size_t column)
{
    for (; l->at < column; l->at++)
        buffer_text(&l->text, " ");
}

static void lines_break(lines *l)
{
    buffer_text(&l->text, "\n");
    l->at = 0;
}

/* As much of it as fits, and "...". */
static const char *cut_text(buffer *to, const char *text, size_t most)
{
    size_t dots = most > 3 ? 3 : most;
    buffer_add(to, text, encoding_bytes(text, strlen(text), most - dots));
    buffer_add(to, "...", dots);
    return to->data;
}

/* What a state means to the person who looks for what is wrong; -1: nothing. */
static int ink_of_state(const char *state)
{
    static const struct {
        const char *state;
        colour_kind ink;
    } known[] = {{"dead", COLOUR_ERROR}, {"failed", COLOUR_WARNING}, {"pending", COLOUR_WARNING},
                 {"done", COLOUR_GOOD},  {"applied", COLOUR_GOOD},   {"ok", COLOUR_GOOD}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(state, known[i].state) == 0)
            return (int)known[i].ink;
    return -1;
}

/* Of a cell, or of the heading itself. */
static int ink_of(const table_column *c, const char *text)
{
    if (text == c->heading)
        return COLOUR_NAME;
    return strcmp(c->heading, "STATE") == 0 ? ink_of_state(text) : -1;
}

static void lines_add(lines *to, const table_column *c, const char *text, const layout *l, size_t i)
{
    buffer cut = {0};
    int ink = to->in_colour ? ink_of(c, text) : -1;
    size_t width = l->widths[i], start = l->starts[i];
    if (c->cut && width_of(text) > width)
        text = cut_text(&cut, text, width);
    size_t wide = width_of(text);
    if (l->begins_line[i] || (start && to->at && to->at + GAP > start)) /* one that was too wide */
        lines_break(to);
    lines_reach(to, start + (c->right && wide < width ? width - wide : 0));
    colour_text(&to->text, ink >= 0, ink >= 0 ? (colour_kind)ink : COLOUR_NAME, text);
    to->at += wide;
    buffer_free(&cut);
}

/* A stream in memory is never coloured: its text is cut and joined by its width. */
static int is_coloured(FILE *to)
{
    return fileno(to) >= 0 && colour_on(fileno(to));
}

static void print_row(const table *t, const table_row *row, const layout *l, FILE *to)
{
    lines all = {.in_colour = is_coloured(to)};
    for (size_t i = 0; is_column(t, i); i++)
        if (t->columns[i].heading)
            lines_add(&all, &t->columns[i], row ? shown_cell(row, i) : t->columns[i].heading, l, i);
    (void)fprintf(to, "%s\n", all.text.data ? all.text.data : "");
    buffer_free(&all.text);
}

static void print_people(table *t, FILE *to)
{
    measure(t);
    const layout l = lay_out(t, terminal_width(to));
    if (!t->has_headings)
        print_row(t, NULL, &l, to);
    t->has_headings = 1;
    for (const table_row *row = t->first; row; row = row->next)
        print_row(t, row, &l, to);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void print_json(const table *t, FILE *to)
{
    for (const table_row *row = t->first; row; row = row->next) {
        const char *before = "{";
        for (size_t i = 0; is_column(t, i); i++)
            if (t->columns[i].field && row->cells[i]) {
                (void)fprintf(to, "%s\"%s\":%s", before, t->columns[i].field, row->cells[i]);
                before = ",";
            }
        (void)fprintf(to, "%s}\n", *before == '{' ? "{" : "");
    }
}

/* --- pages ------------------------------------------------------------------------------------ */

void table_free(table *t)
{
    t->first = t->last = t->current = NULL;
    region_free(&t->memory);
    t->memory = (region){0};
}

int table_page(table *t, FILE *to)
{
    table_end_row(t);
    if (t->first && t->json)
        print_json(t, to);
    else if (t->first)
        print_people(t, to);
    table_free(t);
    return fflush(to) == 0 && !ferror(to);
}

void table_print(table *t, FILE *to)
{
    (void)table_page(t, to);
}
