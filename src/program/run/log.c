/* See log.h. The lock is held while a line is written, so that lines of several threads do not mix;
 * a line is made before. */
#include "program/run/log.h"

#include "program/support/colour.h"
#include "program/support/show.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct log {
    FILE *to;
    int is_terminal;
    int in_colour;
    pthread_mutex_t lock; /* over the options and the file */
    log_config options;
    atomic_int shows_messages, shows_keys; /* follow from the options */
};

static const char *const level_names[] = {"error", "warning", "info", "debug"};

static int is_text(const log *l, const log_config *options)
{
    return options->format == LOG_FORMAT_TEXT ||
           (options->format == LOG_FORMAT_AUTO && l->is_terminal);
}

static void take_options(log *l, const log_config *options)
{
    l->options = *options;
    atomic_store(&l->shows_keys, options->keys);
    atomic_store(&l->shows_messages,
                 options->messages == LOG_MESSAGES_ALL ||
                     (options->messages == LOG_MESSAGES_AUTO && is_text(l, options)));
}

log *log_open(const log_config *options, FILE *to)
{
    log *l = must_alloc(sizeof *l);
    l->to = to;
    l->is_terminal = isatty(fileno(to));
    l->in_colour = colour_on(fileno(to));
    pthread_mutex_init(&l->lock, NULL);
    take_options(l, options);
    return l;
}

void log_close(log *l)
{
    if (!l)
        return;
    pthread_mutex_destroy(&l->lock);
    free(l);
}

void log_configure(log *l, const log_config *options)
{
    pthread_mutex_lock(&l->lock);
    take_options(l, options);
    pthread_mutex_unlock(&l->lock);
}

log_config log_options(const log *l)
{
    log *mine = (log *)l; /* only its lock changes */
    pthread_mutex_lock(&mine->lock);
    log_config options = l->options;
    pthread_mutex_unlock(&mine->lock);
    return options;
}

int log_is_text(const log *l)
{
    log_config options = log_options(l);
    return is_text(l, &options);
}

int log_shows_keys(const log *l)
{
    return atomic_load_explicit(&l->shows_keys, memory_order_relaxed);
}

int log_shows_messages(const log *l)
{
    return atomic_load_explicit(&l->shows_messages, memory_order_relaxed);
}

/* A log that cannot be written stops nothing. */
static void write_line(log *l, buffer *line)
{
    buffer_text(line, "\n");
    pthread_mutex_lock(&l->lock);
    (void)fwrite(line->data, 1, line->len, l->to);
    (void)fflush(l->to);
    pthread_mutex_unlock(&l->lock);
    buffer_free(line);
}

static void add_time(buffer *line, int in_colour)
{
    buffer_text(line, colour_begin(in_colour, COLOUR_QUIET));
    show_clock(line, wall_clock_ms());
    buffer_text(line, colour_end(in_colour));
    buffer_text(line, "  ");
}

/* A text for people may begin with a name, which is bold: it is neutralised on both sides of where
 * the name ends. */
static void add_named_text(buffer *line, int in_colour, const char *text, size_t name_len)
{
    buffer_text(line, colour_begin(in_colour && name_len, COLOUR_NAME));
    show_text(line, text, name_len, 0);
    buffer_text(line, colour_end(in_colour && name_len));
    show_text(line, text + name_len, strlen(text) - name_len, 0);
}

static void make_text(buffer *line, const log_entry *entry, int in_colour)
{
    const char *text = entry->text ? entry->text : entry->msg;
    add_time(line, in_colour);
    if (entry->level <= LOG_WARNING) {
        colour_text(line, in_colour, entry->level == LOG_ERROR ? COLOUR_ERROR : COLOUR_WARNING,
                    level_names[entry->level]);
        buffer_text(line, ": ");
    }
    if (entry->subject) {
        colour_text(line, in_colour, COLOUR_NAME, entry->subject);
        buffer_text(line, ": ");
    }
    add_named_text(line, in_colour, text, entry->name_len);
}

static void add_text_field(buffer *line, const char *name, const char *text)
{
    buffer_printf(line, ",\"%s\":", name);
    show_json(line, text, strlen(text));
}

static void make_json(buffer *line, const log_entry *entry)
{
    buffer_text(line, "{\"ts\":\"");
    show_rfc3339(line, wall_clock_ms());
    buffer_printf(line, "\",\"level\":\"%s\",\"event\":\"%s\"", level_names[entry->level],
                  entry->event);
    add_text_field(line, "msg", entry->msg);
    for (size_t i = 0; i < LOG_FIELDS_MAX && entry->fields[i].name; i++) {
        const log_field *field = &entry->fields[i];
        if (field->text)
            add_text_field(line, field->name, field->text);
        else
            buffer_printf(line, ",\"%s\":%lld", field->name, (long long)field->number);
    }
    buffer_text(line, "}");
}

void log_write(log *l, const log_entry *entry)
{
    buffer line = {0};
    if (entry->level > log_options(l).level)
        return;
    if (log_is_text(l))
        make_text(&line, entry, l->in_colour);
    else
        make_json(&line, entry);
    write_line(l, &line);
}

void log_line(log *l, const char *text)
{
    buffer line = {0};
    if (!log_is_text(l) || log_options(l).level < LOG_INFO)
        return;
    add_time(&line, l->in_colour);
    buffer_text(&line, text);
    write_line(l, &line);
}
