/* See follow.h. Processes come and go while they are followed, so the rows of the store are read
 * again every two seconds. A store that is away for a moment ends nothing: the connections that
 * are open go on. */
#include "program/watch/follow.h"

#include "program/cli.h"
#include "program/support/show.h"
#include "program/watch/outcome_line.h"
#include "program/watch/peers.h"
#include "program/watch/watching.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SOURCES_MAX = 64, LOOK_MS = 2000, LINE_MAX_BYTES = 1 << 20, PAST_MS = 600000 };

/* A process that is followed. */
typedef struct source {
    int fd;
    char *id;
    char *name; /* for people */
    buffer line;
} source;

typedef struct following {
    tool *t;
    const filters *wanted;
    buffer question;
    source sources[SOURCES_MAX];
    size_t count;
    outcome_widths widths;
    int said_none;       /* that no process runs */
    char *unreachable;   /* what was last said of others */
    int64_t last_letter; /* of the store, that was shown */
    int is_first_look;
} following;

/* --- what is asked ---------------------------------------------------------------------------- */

static void add_list(buffer *to, const char *name, const argument_list *list)
{
    buffer_printf(to, ",\"%s\":[", name);
    for (size_t i = 0; i < list->count; i++) {
        buffer_text(to, i ? "," : "");
        show_json(to, list->items[i], strlen(list->items[i]));
    }
    buffer_text(to, "]");
}

static void make_question(buffer *to, const filters *wanted)
{
    const filter_options *given = wanted->given;
    buffer_text(to, "{\"ask\":\"tail\"");
    add_list(to, "inboxes", &given->inboxes);
    add_list(to, "types", &given->types);
    if (given->outcome) {
        buffer_text(to, ",\"outcome\":");
        show_json(to, given->outcome, strlen(given->outcome));
    }
    if (wanted->key.len) {
        buffer_text(to, ",\"key\":\"");
        for (size_t i = 0; i < wanted->key.len; i++)
            buffer_printf(to, "%02x", (unsigned char)wanted->key.data[i]);
        buffer_text(to, "\"");
    }
    buffer_text(to, "}\n");
}

/* --- processes -------------------------------------------------------------------------------- */

static void forget(following *f, size_t i)
{
    (void)close(f->sources[i].fd);
    free(f->sources[i].id);
    free(f->sources[i].name);
    buffer_free(&f->sources[i].line);
    f->sources[i] = f->sources[--f->count];
}

static int is_followed(const following *f, const peer *p)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->sources[i].id, p->id) == 0)
            return 1;
    return 0;
}

static void begin(following *f, const peer *p)
{
    buffer name = {0};
    int fd = f->count < SOURCES_MAX ? peer_begin(p, f->question.data) : -1;
    if (fd < 0)
        return;
    peer_name(&name, p);
    if (!f->is_first_look || f->t->options->verbose)
        tool_say(f->t, "showing %s", name.data);
    f->sources[f->count++] = (source){.fd = fd, .id = must_copy(p->id), .name = name.data};
}

/* Says it again only if it has changed. */
static void say_unreachable(following *f, const peers *all)
{
    buffer names = {0};
    buffer_text(&names, "");
    for (size_t i = 0; i < all->count; i++) {
        if (all->items[i].reach == PEER_LOCAL)
            continue;
        buffer_text(&names, names.len ? ", " : "");
        peer_name(&names, &all->items[i]);
    }
    if (names.len && (!f->unreachable || strcmp(f->unreachable, names.data) != 0))
        tool_say(f->t, "not reachable from here, and not shown: %s", names.data);
    free(f->unreachable);
    f->unreachable = must_copy(names.data ? names.data : "");
    buffer_free(&names);
}

static void look_for_processes(following *f)
{
    peers all;
    semel_error why = {0};
    if (peers_in_store(&all, f->t->store, &why))
        return;
    for (size_t i = 0; i < all.count; i++)
        if (all.items[i].reach == PEER_LOCAL && !is_followed(f, &all.items[i]))
            begin(f, &all.items[i]);
    say_unreachable(f, &all);
    if (f->count)
        f->said_none = 0;
    else if (!f->said_none && !all.count) {
        watching_say_none(f->t);
        f->said_none = 1;
    }
    f->is_first_look = 0;
    peers_free(&all);
}

/* --- lines ------------------------------------------------------------------------------------ */

static void print_outcome(following *f, const outcome_line *line)
{
    buffer text = {0};
    outcome_line_write(&text, line, &f->widths);
    (void)fwrite(text.data, 1, text.len, stdout);
    buffer_free(&text);
}

static void print_line(following *f, const char *json, size_t len)
{
    region memory = {0};
    outcome_line line;
    uint64_t lost = outcome_line_lost(json, len);
    if (lost)
        tool_say(f->t, "%llu outcomes are not shown: they came faster than they were read",
                 (unsigned long long)lost);
    else if (!outcome_line_read(&line, json, len, &memory))
        tool_say(f->t, "a line that is not understood: %.*s", (int)(len < 80 ? len : 80), json);
    else if (f->t->options->json)
        (void)printf("%.*s\n", (int)len, json);
    else
        print_outcome(f, &line);
    region_free(&memory);
}

static void print_lines(following *f, source *from)
{
    char *at = from->line.data, *end = at + from->line.len, *newline;
    for (; (newline = memchr(at, '\n', (size_t)(end - at))); at = newline + 1)
        print_line(f, at, (size_t)(newline - at));
    from->line.len = (size_t)(end - at);
    memmove(from->line.data, at, from->line.len);
}

/* 0: the process has ended, or sends no lines. */
static int read_source(following *f, source *from)
{
    char data[65536];
    ssize_t len = recv(from->fd, data, sizeof data, MSG_DONTWAIT);
    if (len < 0)
        return errno == EAGAIN || errno == EINTR;
    if (len == 0)
        return 0;
    buffer_add(&from->line, data, (size_t)len);
    print_lines(f, from);
    return from->line.len < LINE_MAX_BYTES;
}

/* --- the store alone -------------------------------------------------------------------------- */

static semel_status print_letter(const semel_dead *letter, void *context, semel_error *err)
{
    following *f = context;
    buffer key = {0};
    (void)err;
    f->last_letter = letter->id;
    if (!filters_match_letter(f->wanted, letter))
        return SEMEL_OK;
    if (letter->key.len)
        show_stored_key(&key, letter->key);
    outcome_line line = {.at_ms = letter->at_ms,
                         .inbox = letter->name,
                         .key = key.data ? key.data : "-",
                         .outcome = semel_outcome_name(SEMEL_DEAD),
                         .attempt = letter->attempts,
                         .error = letter->error};
    print_outcome(f, &line);
    buffer_free(&key);
    return SEMEL_OK;
}

/* Letters of the last ten minutes, and then those that are new. */
static void look_for_letters(following *f)
{
    const char *outcome = f->wanted->given->outcome;
    semel_dead_filter wanted = filters_for_letters(f->wanted);
    if (f->t->options->json || (outcome && strcmp(outcome, semel_outcome_name(SEMEL_DEAD)) != 0))
        return;
    wanted.origin = SEMEL_DEAD_INBOX;
    wanted.after_id = f->last_letter;
    wanted.since_ms = f->t->now_ms - PAST_MS;
    wanted.limit = SEMEL_PAGE_DEFAULT;
    wanted.brief = 1;
    (void)semel_dead_list(f->t->store, &wanted, print_letter, f, NULL);
}

/* --- the loop --------------------------------------------------------------------------------- */

/* -1: the reader of the output has gone. */
static int wait_for_lines(following *f, int64_t wait_ms)
{
    struct pollfd fds[1 + SOURCES_MAX];
    fds[0] = (struct pollfd){.fd = STDOUT_FILENO};
    for (size_t i = 0; i < f->count; i++)
        fds[1 + i] = (struct pollfd){.fd = f->sources[i].fd, .events = POLLIN};
    if (poll(fds, 1 + f->count, wait_ms > 0 ? (int)wait_ms : 0) <= 0)
        return 0;
    for (size_t i = f->count; i-- > 0;)
        if (fds[1 + i].revents && !read_source(f, &f->sources[i])) {
            tool_say(f->t, "%s has ended", f->sources[i].name);
            forget(f, i);
        }
    return fds[0].revents & POLLERR ? -1 : 0;
}

static int64_t steady_ms(void)
{
    return steady_clock_ns() / 1000000;
}

int follow(tool *t, const filters *wanted)
{
    following f = {.t = t, .wanted = wanted, .is_first_look = 1};
    int64_t due = 0;
    make_question(&f.question, wanted);
    for (size_t i = 0; t->all && i < t->all->inbox_count; i++) {
        size_t len = strlen(t->all->inboxes[i].name);
        if (filters_match(&wanted->given->inboxes, t->all->inboxes[i].name))
            f.widths.inbox = len > f.widths.inbox ? len : f.widths.inbox;
    }
    for (int gone = 0; !gone && !ferror(stdout);) {
        if (steady_ms() >= due) {
            look_for_processes(&f);
            if (f.said_none)
                look_for_letters(&f);
            due = steady_ms() + LOOK_MS;
        }
        (void)fflush(stdout);
        gone = wait_for_lines(&f, due - steady_ms());
        (void)fflush(stdout);
    }
    while (f.count)
        forget(&f, 0);
    buffer_free(&f.question);
    free(f.unreachable);
    return CLI_OK;
}
