/* See top.h. */
#include "program/watch/top.h"

#include "program/cli.h"
#include "program/support/encoding.h"
#include "program/support/show.h"
#include "program/watch/gatherer.h"
#include "program/watch/screen.h"
#include "program/watch/top_json.h"
#include "program/watch/top_page.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { WIDTH_PLAIN = 200, FIRST_MS = 1000, FILTER_SIZE = 64, KEY_ESCAPE = 27, KEY_DELETE = 127 };

/* --- blocks of text --------------------------------------------------------------------------- */

static void add_view(history *h, tool *t, const top_options *options)
{
    view *read = must_alloc(sizeof *read);
    view_read(read, t, options->inboxes, 1);
    history_add(h, read);
}

/* Or, with --json, one line. */
static int print_block(const tool *t, const history *h)
{
    buffer text = {0};
    if (t->options->json) {
        top_json_write(&text, h);
    } else {
        top_page_write(&text,
                       &(top_page){.tool = t, .history = h, .filter = "", .columns = WIDTH_PLAIN});
        buffer_text(&text, "\n");
    }
    (void)fwrite(text.data, 1, text.len, stdout);
    buffer_free(&text);
    return fflush(stdout) == 0;
}

/* 0: the reader has gone. */
static int pause_for(uint64_t ms)
{
    struct pollfd end = {.fd = STDOUT_FILENO};
    (void)poll(&end, 1, ms > INT32_MAX ? INT32_MAX : (int)ms);
    return !(end.revents & (POLLERR | POLLNVAL));
}

int top_print(tool *t, const top_options *options)
{
    history h = {0};
    add_view(&h, t, options);
    int goes_on = pause_for(options->every_ms < FIRST_MS ? options->every_ms : FIRST_MS);
    while (goes_on) {
        add_view(&h, t, options);
        goes_on =
            print_block(t, &h) && pause_for(view_pause_ms(history_newest(&h), options->every_ms));
    }
    history_free(&h);
    return CLI_OK;
}

/* --- the screen ------------------------------------------------------------------------------- */

typedef enum top_mode { MODE_LIVE = 0, MODE_FILTER, MODE_GROUPS, MODE_HELP } top_mode;

typedef struct top_state {
    const tool *tool;
    gatherer *gatherer;
    history history;
    top_mode mode;
    top_order order;
    int is_paused;
    char filter[FILTER_SIZE], typed[FILTER_SIZE];
} top_state;

static const char page_help[] =
    "semel top\n\n"
    "DONE/S, DUPL/S, FAIL/S   outcomes in a second, over the last minute\n"
    "P50, P99                 how long handlers took: half of them, and all but one in a hundred\n"
    "IN PROGRESS              handlers that run right now\n"
    "DEAD                     dead letters in the store: semel dead groups\n"
    "IN/S, WAITING, OLDEST    what comes into a queue, waits there, and since when\n"
    "SENT/S                   what a relay has sent from an outbox\n\n"
    "q quit   p pause or go on   s sort by config, rate, failures, dead letters\n"
    "/ filter inboxes by a part of their name   d dead letters by cause   ? this page\n";

static void draw_live(const top_state *s)
{
    buffer text = {0}, bottom = {0};
    size_t rows, columns;
    screen_size(&rows, &columns);
    if (!s->history.count) {
        buffer_text(&text, "semel top  reading...\n");
    } else {
        top_page page = {.tool = s->tool,
                         .history = &s->history,
                         .filter = s->filter,
                         .order = s->order,
                         .is_paused = s->is_paused,
                         .columns = columns};
        top_page_write(&text, &page);
    }
    if (s->mode == MODE_FILTER)
        buffer_printf(&bottom, "filter: %s_   (Enter: use, Esc: leave)", s->typed);
    else
        buffer_printf(&bottom,
                      "quit q   pause p   sort s%s%s%s   filter /%s%s   dead letters d   "
                      "help ?",
                      s->order ? " (" : "", s->order ? top_order_name(s->order) : "",
                      s->order ? ")" : "", *s->filter ? " " : "", s->filter);
    screen_draw(text.data, bottom.data);
    buffer_free(&text);
    buffer_free(&bottom);
}

static void draw(const top_state *s)
{
    buffer text = {0};
    if (s->mode == MODE_HELP) {
        screen_draw(page_help, "back ?   quit q");
    } else if (s->mode == MODE_GROUPS) {
        gatherer_copy_groups(s->gatherer, &text);
        screen_draw(text.len ? text.data : "reading...\n", "back d   quit q");
    } else {
        draw_live(s);
    }
    buffer_free(&text);
}

/* Printable ASCII: what names are made of. */
static void type_filter(top_state *s, int key)
{
    size_t len = strlen(s->typed);
    if (key == '\n' || key == '\r') {
        memcpy(s->filter, s->typed, sizeof s->filter);
        s->mode = MODE_LIVE;
    } else if (key == KEY_ESCAPE) {
        s->mode = MODE_LIVE;
    } else if ((key == KEY_DELETE || key == '\b') && len) {
        s->typed[len - 1] = 0;
    } else if (key > ' ' && key < KEY_DELETE && len + 1 < sizeof s->typed) {
        s->typed[len] = (char)key;
        s->typed[len + 1] = 0;
    }
}

static void change_mode(top_state *s, top_mode mode)
{
    s->mode = s->mode == mode ? MODE_LIVE : mode;
    gatherer_want_groups(s->gatherer, s->mode == MODE_GROUPS);
}

/* 0: quit. */
static int take_key(top_state *s, int key)
{
    if (s->mode == MODE_FILTER) {
        type_filter(s, key);
        return 1;
    }
    switch (key) {
    case 'q':
        return 0;
    case 'p':
        s->is_paused = !s->is_paused;
        break;
    case 's':
        s->order = (s->order + 1) % TOP_ORDERS;
        break;
    case '/':
        s->mode = MODE_FILTER;
        s->typed[0] = 0;
        break;
    case 'd':
        change_mode(s, MODE_GROUPS);
        break;
    case '?':
        change_mode(s, MODE_HELP);
        break;
    default:
        break;
    }
    return 1;
}

/* While it is paused, what was gathered is thrown away. */
static void take_view(top_state *s)
{
    view *fresh = gatherer_take(s->gatherer);
    if (fresh && !s->is_paused) {
        history_add(&s->history, fresh);
    } else if (fresh) {
        view_free(fresh);
        free(fresh);
    }
}

static int run_screen(top_state *s, int wake_fd)
{
    int key = 0;
    for (;;) {
        draw(s);
        switch (screen_wait(&key, wake_fd)) {
        case SCREEN_KEY:
            if (!take_key(s, key))
                return CLI_OK;
            break;
        case SCREEN_WOKEN:
            take_view(s);
            break;
        case SCREEN_ENDED:
            return key;
        default:
            break;
        }
    }
}

int top_screen(tool *t, const top_options *options)
{
    top_state s = {.tool = t};
    int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd < 0 || screen_open() != 0)
        return tool_refuse(t, CLI_FAILED, "the terminal cannot be used; try --plain");
    s.gatherer = gatherer_open(t, options->inboxes, options->every_ms, wake_fd);
    int status = s.gatherer ? run_screen(&s, wake_fd) : CLI_FAILED;
    screen_close();
    if (s.gatherer && !gatherer_close(s.gatherer))
        _exit(status); /* a store that does not answer is not waited for */
    history_free(&s.history);
    (void)close(wake_fd);
    return status;
}
