/* See confirm.h. */
#include "program/operate/confirm.h"

#include "program/cli.h"
#include "program/support/show.h"

#include <ctype.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { ASKED_BY_NUMBER = 10, NS_PER_S = 1000000000, PIPE_EVERY_S = 10 };

/* --- asking ----------------------------------------------------------------------------------- */

/* A line of the standard input without the blanks around it. Not by stdio, which would read what is
 * meant for another program. */
static void read_answer(char *out, size_t room)
{
    size_t len = 0;
    char c;
    while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n')
        if (len + 1 < room && !(isspace((unsigned char)c) && !len))
            out[len++] = c;
    while (len && isspace((unsigned char)out[len - 1]))
        len--;
    out[len] = 0;
}

/* 40, or 1,204 as it was shown. */
static int is_number(const char *answer, uint64_t count)
{
    buffer shown = {0}, plain = {0};
    show_number(&shown, count);
    buffer_printf(&plain, "%llu", (unsigned long long)count);
    int same = strcmp(answer, shown.data) == 0 || strcmp(answer, plain.data) == 0;
    buffer_free(&shown);
    buffer_free(&plain);
    return same;
}

static int is_yes(const char *answer)
{
    return strcmp(answer, "y") == 0 || strcmp(answer, "Y") == 0 || strcmp(answer, "yes") == 0;
}

static int ask(const confirmation *about)
{
    char answer[32];
    int by_number = about->irreversible && about->count > ASKED_BY_NUMBER;
    (void)fprintf(cli_errors(), "%s ", about->question);
    if (by_number)
        (void)fprintf(stderr, "Type %llu to confirm: ", (unsigned long long)about->count);
    else
        (void)fprintf(stderr, "[y/N] ");
    (void)fflush(stderr);
    read_answer(answer, sizeof answer);
    return by_number ? is_number(answer, about->count) : is_yes(answer);
}

int confirm(const tool *t, const confirmation *about)
{
    if (t->options->yes || t->host)
        return CLI_OK;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
        (void)cli_failed(t->command, "%s needs confirmation, but there is no terminal; pass --yes",
                         about->action);
        return CLI_USAGE;
    }
    if (ask(about))
        return CLI_OK;
    (void)fprintf(stderr, "nothing was changed\n");
    return CLI_FAILED;
}

/* --- progress --------------------------------------------------------------------------------- */

void progress_begin(progress *p, const tool *t, uint64_t total)
{
    *p = (progress){.tool = t, .total = total, .begun_ns = steady_clock_ns()};
    p->said_ns = p->begun_ns;
}

static void show_count(buffer *to, uint64_t done, uint64_t total)
{
    show_number(to, done);
    buffer_text(to, " of ");
    show_number(to, total);
}

void progress_show(progress *p, uint64_t done, const char *text)
{
    int on_terminal = isatty(STDERR_FILENO);
    int64_t now = steady_clock_ns(), every = on_terminal ? 1 : PIPE_EVERY_S;
    if (p->tool->options->quiet || p->tool->host || now - p->said_ns < every * NS_PER_S)
        return;
    buffer line = {0};
    show_count(&line, done, p->total);
    if (*text)
        buffer_printf(&line, ": %s", text);
    if (on_terminal)
        (void)fprintf(stderr, "\r%-*s", p->open_line, line.data);
    else
        (void)fprintf(stderr, "%s\n", line.data);
    (void)fflush(stderr);
    p->open_line = on_terminal ? (int)line.len : 0;
    p->said_ns = now;
    buffer_free(&line);
}

/* What is said at the end takes the place of the line. */
void progress_end(progress *p)
{
    if (p->open_line)
        (void)fprintf(stderr, "\r%*s\r", p->open_line, "");
    p->open_line = 0;
}

/* --- interruption ----------------------------------------------------------------------------- */

static volatile sig_atomic_t was_interrupted;
static struct sigaction before_interrupt, before_terminate;

/* The second one finds the default action. */
static void interrupt(int number)
{
    was_interrupted = number;
}

void interruption_begin(void)
{
    struct sigaction action = {.sa_handler = interrupt,
                               .sa_flags = (int)(SA_RESTART | SA_RESETHAND)};
    (void)sigemptyset(&action.sa_mask);
    was_interrupted = 0;
    (void)sigaction(SIGINT, &action, &before_interrupt);
    (void)sigaction(SIGTERM, &action, &before_terminate);
}

int interrupted(void)
{
    return was_interrupted;
}

void interruption_end(void)
{
    (void)sigaction(SIGINT, &before_interrupt, NULL);
    (void)sigaction(SIGTERM, &before_terminate, NULL);
}

void tool_begin_work(const tool *t)
{
    if (!t->host)
        interruption_begin();
}

void tool_end_work(const tool *t)
{
    if (!t->host)
        interruption_end();
}

int tool_is_stopped(const tool *t)
{
    return t->host ? t->host->is_stopped(t->host->context) : interrupted();
}
