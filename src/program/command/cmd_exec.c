/* semel exec: a command that is run once per key.
 *
 * The key is claimed with a lease, the command runs without an open transaction, and its success
 * completes the claim. Of several calls with one key one runs the command; the others wait, and
 * then find that it is done, or run it as the next attempt. */
#include "program/cli.h"
#include "program/command/exec_run.h"
#include "program/command/exec_store.h"
#include "program/handler/child.h"
#include "program/support/show.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RECORD_MS = 60000, PAUSE_MS = 200 };

typedef struct exec_call {
    exec_options options;
    exec_store store;
    exec_run run;
    semel_message message;
    semel_outcome outcome;
    semel_result *result;
    semel_error err;
} exec_call;

/* --- what is said ----------------------------------------------------------------------------- */

/* When the key was last changed; in `text` as people read it. */
static void moment_of_key(exec_call *call, buffer *text, int lease)
{
    semel_marker *marker = NULL;
    if (semel_inbox_look(&marker, call->store.inbox, &call->message, NULL) == SEMEL_OK)
        show_moment(text, lease ? marker->lease_until_ms : marker->last_ms);
    else
        buffer_text(text, "an unknown time");
    semel_marker_free(marker);
}

/* Cron mails all output, so a duplicate is not worth a word there. */
static int say_duplicate(exec_call *call)
{
    const exec_options *o = &call->options;
    if (o->verbose || isatty(STDERR_FILENO)) {
        buffer when = {0};
        moment_of_key(call, &when, 0);
        const char *what = !o->replay     ? "not run again"
                           : call->result ? "output replayed"
                                          : "its output was not stored; not run again";
        (void)fprintf(stderr, "semel exec: %s was already done at %s; %s\n", o->shown_key,
                      when.data, what);
        buffer_free(&when);
    }
    return o->fail_on_duplicate ? EXEC_DUPLICATE : CLI_OK;
}

static int replay(exec_call *call)
{
    semel_bytes output = call->result ? semel_result_bytes(call->result) : (semel_bytes){"", 0};
    if (output.len && fwrite(output.data, 1, output.len, stdout) != output.len)
        return cli_failed("exec", "cannot write the output: %s", strerror(errno));
    (void)fflush(stdout);
    return say_duplicate(call);
}

static int say_busy(exec_call *call)
{
    buffer until = {0};
    moment_of_key(call, &until, 1);
    cli_failed("exec",
               "%s is being run by another call, whose lease ends at %s unless it is "
               "renewed; not run",
               call->options.shown_key, until.data);
    buffer_free(&until);
    return EXEC_BUSY;
}

static int say_failed(const exec_call *call)
{
    const exec_run *run = &call->run;
    const char *name = call->options.command[0], *key = call->options.shown_key;
    unsigned next = run->attempt + 1;
    const char *abbreviation = run->signal ? sigabbrev_np(run->signal) : NULL;
    if (run->signal)
        cli_failed("exec",
                   "%s was ended by signal %d (%s); %s is not done; the next call runs it "
                   "again, as attempt %u",
                   name, run->signal, abbreviation ? abbreviation : "?", key, next);
    else
        cli_failed("exec",
                   "%s exited with %d; %s is not done; the next call runs it again, as "
                   "attempt %u",
                   name, run->exit_status, key, next);
    return run->exit_status;
}

static int say_lost(const exec_call *call)
{
    cli_failed("exec", "%s: %s; %s was ended", call->options.shown_key, call->err.text,
               call->options.command[0]);
    return EXEC_BUSY;
}

static int say_not_recorded(const exec_call *call)
{
    return cli_failed("exec",
                      "%s succeeded, but that could not be stored: %s; the next call runs "
                      "it again",
                      call->options.command[0], call->err.text);
}

/* --- what is done ----------------------------------------------------------------------------- */

static void receive(exec_call *call)
{
    call->err = (semel_error){0};
    semel_result_free(call->result);
    call->result = NULL;
    (void)semel_inbox_receive_result(&call->outcome, &call->result, call->store.inbox,
                                     &call->message, exec_run_handle, &call->run, &call->err);
}

static void pause_shortly(void)
{
    const struct timespec shortly = {.tv_nsec = PAUSE_MS * 1000000L};
    (void)nanosleep(&shortly, NULL);
}

/* The command has succeeded, and the store did not take that: a locked file, a lost connection, a
 * lost answer. As long as the claim is there, no other call runs the command; when its lease has
 * ended, this one claims the key again and completes it. */
static void insist(exec_call *call)
{
    int64_t until = child_clock_ms() + RECORD_MS;
    while (!semel_outcome_settled(call->outcome) && child_clock_ms() < until) {
        pause_shortly();
        receive(call);
    }
}

/* Retention is swept here, in bounded steps: no process runs all the time. */
static void sweep(exec_call *call)
{
    size_t swept;
    int more;
    if (call->options.retention_ms != SEMEL_RETENTION_FOREVER)
        (void)semel_inbox_sweep(&swept, &more, call->store.inbox, 0, NULL);
}

static int say_outcome(exec_call *call)
{
    const exec_run *run = &call->run;
    if (run->not_run)
        return run->not_run;
    if (run->lost)
        return say_lost(call);
    if (run->ran && run->exit_status)
        return say_failed(call);
    if (run->ran) {
        if (run->output_too_long)
            cli_failed("exec", "the output is larger than 1 MiB; it was not stored");
        return semel_outcome_settled(call->outcome) ? CLI_OK : say_not_recorded(call);
    }
    switch (call->outcome) {
    case SEMEL_DUPLICATE:
        return say_duplicate(call);
    case SEMEL_REPLAYED:
        return replay(call);
    case SEMEL_IN_PROGRESS:
        return say_busy(call);
    default:
        cli_failed("exec", "%s", call->err.text);
        return call->err.status == SEMEL_EBUSY ? EXEC_BUSY : EXEC_FAILED;
    }
}

static int run_call(exec_call *call)
{
    call->run.options = &call->options;
    call->message = (semel_message){.size = sizeof call->message, .id = call->options.key};
    receive(call);
    if (call->run.ran && !call->run.exit_status)
        insist(call);
    sweep(call);
    return say_outcome(call);
}

int cmd_exec(int argc, char **argv)
{
    exec_call call = {0};
    int status = exec_options_read(&call.options, argc, argv);
    if (!status) {
        status = exec_store_open(&call.store, &call.options);
        if (!status)
            status = run_call(&call);
        semel_result_free(call.result);
        exec_run_free(&call.run);
        exec_store_close(&call.store);
    }
    region_free(&call.options.memory);
    return status;
}
