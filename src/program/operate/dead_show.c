/* semel dead show: all that is known of one letter. What a message contains is shown so that no
 * terminal obeys it; only a pipe gets the bytes of a body as they are. */
#include "program/cli.h"
#include "program/operate/dead.h"
#include "program/operate/message_show.h"
#include "program/support/pager.h"
#include "program/support/show.h"

#include <stdlib.h>
#include <string.h>

/* A letter with its message, which a visitor must not keep. */
typedef struct whole_letter {
    dead_letter is;
    semel_message *message; /* NULL: damaged */
    region memory;
} whole_letter;

static semel_status keep_letter(const semel_dead *dead, void *context, semel_error *err)
{
    whole_letter *kept = context;
    kept->is = dead_copy(&kept->memory, dead);
    return dead->message ? semel_message_copy(&kept->message, dead->message, err) : SEMEL_OK;
}

static void free_letter(whole_letter *kept)
{
    semel_message_free(kept->message);
    region_free(&kept->memory);
}

static const inbox_config *inbox_of(const dead_work *w, const dead_letter *letter)
{
    const config *all = w->tool.all;
    for (size_t i = 0; all && letter->origin == SEMEL_DEAD_INBOX && i < all->inbox_count; i++)
        if (strcmp(all->inboxes[i].name, letter->name) == 0)
            return &all->inboxes[i];
    return NULL;
}

/* --- for people ------------------------------------------------------------------------------- */

static void print_line(const char *title, const buffer *text)
{
    message_show_line(title, text->len ? text->data : NULL);
}

static void print_first(const dead_work *w, const dead_letter *letter)
{
    buffer line = {0};
    buffer_printf(&line, "%lld, ", (long long)letter->id);
    dead_show_place(&line, letter->origin, letter->name);
    buffer_text(&line, ", dead since ");
    dead_show_moment(&line, w, letter->at_ms);
    buffer_text(&line, " (");
    dead_show_age(&line, w->tool.now_ms - letter->at_ms);
    buffer_printf(&line, " ago), after %u attempt%s", letter->attempts,
                  letter->attempts == 1 ? "" : "s");
    print_line("letter", &line);
    buffer_free(&line);
}

static void print_retry(const dead_letter *letter)
{
    buffer line = {0};
    if (letter->retry == SEMEL_RETRY_ASKED)
        buffer_text(&line, "asked for; a running semel takes it");
    else if (letter->retry == SEMEL_RETRY_BEGUN)
        buffer_text(&line, "begun and not ended: it is running now, or its process has died");
    else if (letter->retry == SEMEL_RETRY_FAILED)
        buffer_text(&line, "failed again");
    if (line.len)
        print_line("retry", &line);
    buffer_free(&line);
}

static void print_error(const dead_letter *letter)
{
    buffer line = {0};
    show_text(&line, letter->error, strlen(letter->error), 0);
    print_line("error", &line);
    buffer_free(&line);
}

static semel_status count_group(const semel_dead_group *group, void *context, semel_error *err)
{
    (void)err;
    *(uint64_t *)context += group->letters;
    return SEMEL_OK;
}

static void print_similar(const dead_work *w, const dead_letter *letter)
{
    char cause[DEAD_CAUSE_SIZE];
    uint64_t count = 0;
    buffer line = {0};
    semel_dead_filter filter = {.size = sizeof filter, .cause = letter->cause};
    if (!letter->cause || semel_dead_groups(w->tool.store, &filter, count_group, &count, NULL) ||
        count < 2)
        return;
    dead_show_cause(cause, letter->cause);
    dead_show_count(&line, count);
    buffer_printf(&line, ": semel dead ls --cause %s", cause);
    print_line("similar", &line);
    buffer_free(&line);
}

/* What http, exec and worker handlers give to other services; a sql handler gives nothing. */
static void add_passed_on(buffer *to, const dead_work *w, const whole_letter *kept)
{
    char key[SEMEL_IDEMPOTENCY_KEY_SIZE];
    const inbox_config *from = inbox_of(w, &kept->is);
    semel_inbox *inbox = NULL;
    if (!from || !kept->message || from->handler == HANDLER_SQL || from->handler == HANDLER_NONE)
        return;
    if (!semel_inbox_open(&inbox, w->tool.store, from->name, &from->options, NULL) &&
        !semel_inbox_idempotency_key(key, inbox, kept->message, NULL))
        buffer_printf(to, "; passed on as %s", key);
    semel_inbox_close(inbox);
}

static void print_key(const dead_work *w, const whole_letter *kept)
{
    buffer line = {0};
    const inbox_config *from = inbox_of(w, &kept->is);
    if (!kept->is.key.len)
        return;
    show_stored_key(&line, kept->is.key);
    if (from)
        buffer_printf(&line, " (%s)", from->options.key ? from->options.key : "id");
    add_passed_on(&line, w, kept);
    print_line("key", &line);
    buffer_free(&line);
}

static void add_part(buffer *to, const char *before, const char *text)
{
    if (!text)
        return;
    buffer_printf(to, "%s%s", to->len ? ", " : "", before);
    show_text(to, text, strlen(text), 0);
}

static void print_message(const dead_work *w, const whole_letter *kept)
{
    buffer line = {0};
    const inbox_config *from = inbox_of(w, &kept->is);
    const semel_message *m = kept->message;
    if (!m) {
        buffer_text(&line, "cannot be read: the row is damaged");
        print_line("message", &line);
        buffer_free(&line);
        return;
    }
    if (m->id.len)
        show_text(&line, m->id.data, m->id.len, 0);
    add_part(&line, "", m->type);
    add_part(&line, "source ", m->source);
    add_part(&line, "group ", m->group);
    add_part(&line, "from queue ", from ? from->from : NULL);
    if (m->time_ms) {
        buffer_text(&line, line.len ? ", " : "");
        dead_show_moment(&line, w, m->time_ms);
    }
    print_line("message", &line);
    buffer_free(&line);
}

static void print_letter(const dead_work *w, const whole_letter *kept)
{
    pager_begin(w->options->tool.no_pager);
    print_first(w, &kept->is);
    print_error(&kept->is);
    print_retry(&kept->is);
    print_similar(w, &kept->is);
    print_key(w, kept);
    print_message(w, kept);
    if (kept->message) {
        char how[64];
        (void)snprintf(how, sizeof how, "semel dead show %lld --body", (long long)kept->is.id);
        message_show_headers(kept->message);
        message_show_body(kept->message->body, how);
    }
    pager_end();
    (void)fflush(stdout);
    if (kept->message)
        tool_say(&w->tool, "next: semel dead retry %lld", (long long)kept->is.id);
    else
        tool_say(&w->tool, "next: semel dead discard %lld", (long long)kept->is.id);
}

/* --- JSON ------------------------------------------------------------------------------------- */

/* The row of `dead ls`, and the message. */
static void print_json(const whole_letter *kept)
{
    buffer message = {0};
    table_column columns[TABLE_COLUMNS_MAX] = {0};
    size_t count = 0;
    for (; dead_columns[count].heading || dead_columns[count].field; count++)
        columns[count] = dead_columns[count];
    columns[count] = (table_column){NULL, "message", 0, 0};
    table t = {.columns = columns, .json = 1};
    dead_add_cells(&t, &kept->is);
    if (kept->message)
        message_show_json(&message, kept->message);
    table_cell(&t, NULL, kept->message ? message.data : NULL);
    table_end_row(&t);
    table_print(&t, stdout);
    buffer_free(&message);
}

/* --- the body alone --------------------------------------------------------------------------- */

static int print_raw(const dead_work *w, const whole_letter *kept)
{
    const semel_message *m = kept->message;
    if (!m)
        return tool_refuse(&w->tool, CLI_FAILED, "letter %lld is damaged: %s",
                           (long long)kept->is.id, kept->is.error);
    int on_terminal = tool_on_terminal(&w->tool);
    pager_begin(w->options->tool.no_pager);
    message_show_raw(m->body, on_terminal);
    pager_end();
    return CLI_OK;
}

int dead_show(dead_work *w)
{
    int status = CLI_OK;
    whole_letter kept = {0};
    semel_error why = {0};
    semel_status found = dead_visit(w, w->ids[0], keep_letter, &kept, &why);
    if (found == SEMEL_ENOTFOUND)
        status = dead_say_gone(w, w->ids[0]);
    else if (found)
        status = tool_failed(&w->tool, &why);
    else if (w->options->body)
        status = print_raw(w, &kept);
    else if (w->options->tool.json)
        print_json(&kept);
    else
        print_letter(w, &kept);
    free_letter(&kept);
    return status;
}
