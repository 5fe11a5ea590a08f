/* See exec_run.h. stdin and stderr are the command's own; so is stdout, unless it is stored for
 * --replay: then it passes through here, and a reader that is slow slows the command down, while
 * the lease is renewed all the time.
 *
 * At a terminal the command stays in our process group, so that it may read from the terminal and
 * gets Ctrl-C and Ctrl-Z itself; elsewhere it has its own. Signals that are sent to semel alone are
 * passed on. If semel is killed, the kernel kills the command; the claim stays until its lease has
 * ended, and the next call after that is the next attempt. */
#include "program/command/exec_run.h"

#include "program/cli.h"
#include "program/handler/attempt.h"
#include "program/handler/child.h"
#include "program/handler/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <semel/semel.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { PENDING_MAX = 64 * 1024, OF_SIGNAL = 128, OTHERS = 2 };

typedef struct running {
    exec_run *run;
    child child;
    int signals;    /* a signalfd */
    buffer pending; /* read from the command, and not yet written to stdout */
    size_t written;
    int no_reader; /* stdout is closed */
} running;

/* --- signals ---------------------------------------------------------------------------------- */

static const int passed_on[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2};

static int hangup_is_ignored(void)
{
    struct sigaction now;
    return sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

/* They stay blocked until semel ends: a command that has succeeded is recorded, whatever comes. */
static int take_signals(void)
{
    sigset_t all;
    (void)sigemptyset(&all);
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
        if (passed_on[i] != SIGHUP || !hangup_is_ignored())
            (void)sigaddset(&all, passed_on[i]);
    (void)sigprocmask(SIG_BLOCK, &all, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* What a terminal sends to the whole group has reached the command already. */
static void pass_on(running *r)
{
    struct signalfd_siginfo info;
    while (read(r->signals, &info, sizeof info) == (ssize_t)sizeof info)
        if (r->child.has_group || info.ssi_code <= 0)
            child_signal(&r->child, (int)info.ssi_signo);
}

/* --- output ----------------------------------------------------------------------------------- */

static void keep_output(exec_run *run, const buffer *more)
{
    if (run->output_too_long)
        return;
    if (run->output.len + more->len > SEMEL_RESULT_MAX) {
        run->output_too_long = 1;
        buffer_free(&run->output);
        return;
    }
    buffer_add(&run->output, more->data, more->len);
}

static void take_output(running *r)
{
    buffer *got = &r->child.output;
    if (!got->len)
        return;
    keep_output(r->run, got);
    if (!r->no_reader)
        buffer_add(&r->pending, got->data, got->len);
    got->len = 0;
}

/* poll() promises room for PIPE_BUF bytes, so that stdout, which may be shared with others and is
 * therefore left as it is, does not block. A reader that has gone does not end the command. */
static void write_output(running *r)
{
    size_t left = r->pending.len - r->written;
    ssize_t written =
        write(STDOUT_FILENO, r->pending.data + r->written, left < PIPE_BUF ? left : PIPE_BUF);
    if (written > 0)
        r->written += (size_t)written;
    else if (written < 0 && errno != EINTR && errno != EAGAIN)
        r->no_reader = 1;
    if (r->no_reader || r->written == r->pending.len)
        r->written = r->pending.len = 0;
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* The command has ended, and all that it wrote was read and passed on. What it has left running may
 * still hold its stdout; that is not waited for. */
static int is_finished(running *r)
{
    if (r->pending.len || !child_is_done(&r->child))
        return 0;
    child_step(&r->child, 0, NULL, 0);
    take_output(r);
    return !r->pending.len;
}

static semel_status wait_for(running *r, semel_unit *unit, semel_error *err)
{
    attempt a;
    attempt_begin(&a, unit, (uint32_t)r->run->options->lease_ms, 0, "");
    while (!is_finished(r)) {
        semel_status status = attempt_continue(&a, err);
        if (status)
            return status;
        struct pollfd others[OTHERS] = {
            {.fd = r->signals, .events = POLLIN},
            {.fd = r->pending.len ? STDOUT_FILENO : -1, .events = POLLOUT}};
        r->child.output_paused = r->pending.len - r->written > PENDING_MAX;
        child_step(&r->child, attempt_wake_ms(&a), others, OTHERS);
        if (others[0].revents)
            pass_on(r);
        if (others[1].revents)
            write_output(r);
        take_output(r);
    }
    return SEMEL_OK;
}

/* --- the handler ------------------------------------------------------------------------------ */

/* SEMEL_ESTOPPED: nothing has happened, and no attempt is counted. */
static semel_status not_run(exec_run *run, int code, const char *why, semel_error *err)
{
    cli_failed("exec", "%s", why);
    run->not_run = code;
    return semel_fail(err, SEMEL_ESTOPPED, "%s", why);
}

static semel_status start(running *r, region *memory, const char *const *env, semel_error *err)
{
    const char *const *words = r->run->options->command;
    int at_terminal = isatty(STDIN_FILENO) || isatty(STDOUT_FILENO) || isatty(STDERR_FILENO);
    child_spec spec = {.argv = words,
                       .env = env,
                       .in = CHILD_INHERIT,
                       .out = r->run->options->replay ? CHILD_PIPE : CHILD_INHERIT,
                       .err = CHILD_INHERIT,
                       .output_max = SIZE_MAX,
                       .shares_group = at_terminal,
                       .keeps_ignored_hangup = hangup_is_ignored(),
                       .spares_descendants = 1};
    int code = child_find(&spec.path, memory, words[0], NULL, getenv("PATH"));
    if (code)
        return not_run(
            r->run, code,
            region_printf(memory, "%s %s", words[0],
                          code == CHILD_NOT_FOUND ? "does not exist" : "is not executable"),
            err);
    r->signals = take_signals();
    semel_error why = {0};
    semel_status status = child_start(&r->child, &spec, &why);
    if (status == SEMEL_EHANDLER)
        return not_run(r->run, why.native, why.text, err);
    return status ? not_run(r->run, EXEC_FAILED, why.text, err) : SEMEL_OK;
}

static semel_status complete(exec_run *run, semel_unit *unit, semel_error *err)
{
    if (!run->options->replay || run->output_too_long)
        return SEMEL_OK;
    return semel_unit_set_result(unit, run->output.data ? run->output.data : "", run->output.len,
                                 err);
}

static semel_status judge(running *r, semel_unit *unit, semel_error *err)
{
    exec_run *run = r->run;
    run->ran = 1;
    run->signal = r->child.signal;
    run->exit_status = run->signal ? OF_SIGNAL + run->signal : r->child.exit_status;
    if (!run->exit_status)
        return complete(run, unit, err);
    buffer how = {0};
    child_describe(&how, &r->child);
    semel_status status = semel_fail(err, SEMEL_EHANDLER, "%s", how.data);
    buffer_free(&how);
    return status;
}

static semel_status run_command(running *r, region *memory, const char *const *env,
                                semel_unit *unit, semel_error *err)
{
    semel_status status = start(r, memory, env, err);
    if (status)
        return status;
    status = wait_for(r, unit, err);
    if (status) {
        r->run->lost = 1;
        child_stop(&r->child);
    } else {
        status = judge(r, unit, err);
    }
    child_close(&r->child);
    return status;
}

semel_status exec_run_handle(semel_unit *unit, const semel_message *message, void *context,
                             semel_error *err)
{
    exec_run *run = context;
    if (run->ran)
        return complete(run, unit, err);
    region memory = {0};
    environment own = {0};
    const char **env = NULL;
    running r = {.run = run, .signals = -1};
    run->attempt = semel_unit_attempt(unit);
    semel_status status = environment_open(&own, environ, &(config_pairs){0}, err);
    if (!status)
        status = environment_of(&env, &memory, &own, run->options->inbox, unit, message, err);
    if (!status)
        status = run_command(&r, &memory, env, unit, err);
    if (r.signals >= 0)
        (void)close(r.signals);
    buffer_free(&r.pending);
    environment_close(&own);
    region_free(&memory);
    return status;
}

void exec_run_free(exec_run *run)
{
    buffer_free(&run->output);
}
