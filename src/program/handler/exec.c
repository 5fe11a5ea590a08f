/* The exec handler: one process for each message, the body on stdin, what is known of the message
 * in the environment. Exit 0: done, 65: a dead letter, everything else: another attempt.
 *
 * The child's effects are its own: if semel dies while it runs, it is killed, and the message is
 * handled again when the lease has ended. What the child is to be recognized by is
 * SEMEL_IDEMPOTENCY_KEY. */
#include "program/handler/answer.h"
#include "program/handler/attempt.h"
#include "program/handler/handler.h"
#include "program/handler/program.h"
#include "program/support/show.h"

#include <stdlib.h>

enum { EXIT_DEAD = 65 }; /* EX_DATAERR; 75, EX_TEMPFAIL, is as every other one */

typedef struct exec_state {
    const config *all;
    const inbox_config *inbox;
    program program;
} exec_state;

static semel_status exec_open(void **state, const config *all, const inbox_config *inbox,
                              semel_error *err)
{
    const exec_config *exec = &inbox->exec;
    exec_state *s = must_alloc(sizeof *s);
    s->all = all;
    s->inbox = inbox;
    semel_status status =
        program_open(&s->program, all, &exec->command, &exec->env, &exec->limits, err);
    if (status)
        free(s);
    else
        *state = s;
    return status;
}

static void exec_close(void *state)
{
    exec_state *s = state;
    program_close(&s->program);
    free(s);
}

/* --- running ---------------------------------------------------------------------------------- */

/* A failure of the host to start a process is one of the handler: its next attempt may succeed. */
static semel_status start(child *c, const exec_state *s, const char *const *env,
                          const semel_message *message, semel_error *err)
{
    child_spec spec = program_child(&s->program);
    spec.env = env;
    spec.in = CHILD_PIPE;
    spec.out = s->inbox->exec.output == OUTPUT_NONE ? CHILD_NULL : CHILD_PIPE;
    spec.err = CHILD_PIPE;
    semel_status status = child_start(c, &spec, err);
    c->input = message->body;
    if (status && err)
        err->status = SEMEL_EHANDLER;
    return status ? SEMEL_EHANDLER : SEMEL_OK;
}

static semel_status too_much(const exec_state *s, semel_error *err)
{
    return semel_fail(err, SEMEL_EHANDLER, "exec: more than %llu bytes of output",
                      (unsigned long long)s->program.limits.output_bytes);
}

static semel_status wait_for(child *c, const exec_state *s, semel_unit *unit, semel_error *err)
{
    attempt a;
    attempt_begin(&a, unit, s->inbox->options.lease_ms, s->inbox->timeout_ms, "exec: did not end");
    while (!child_is_done(c)) {
        semel_status status = attempt_continue(&a, err);
        if (status)
            return status;
        if (c->output_exceeded)
            return too_much(s, err);
        child_step(c, attempt_wake_ms(&a), NULL, 0);
    }
    return SEMEL_OK;
}

/* --- judging ---------------------------------------------------------------------------------- */

static semel_status fail_with_end(const child *c, semel_error *err)
{
    buffer text = {0};
    if (!c->signal && c->exit_status == CHILD_NOT_FOUND)
        buffer_text(&text, "a program that it runs was not found: ");
    if (!c->signal && c->exit_status == CHILD_NOT_EXECUTABLE)
        buffer_text(&text, "a program that it runs cannot be executed: ");
    child_describe(&text, c);
    int dead = !c->signal && c->exit_status == EXIT_DEAD;
    semel_status status = semel_fail(err, dead ? SEMEL_EGIVEUP : SEMEL_EHANDLER, "%s", text.data);
    buffer_free(&text);
    return status;
}

static semel_status take_answer(const exec_state *s, const child *c, semel_unit *unit,
                                semel_error *err)
{
    answer a = {0};
    semel_status status = answer_parse(&a, (semel_bytes){c->output.data, c->output.len}, err);
    if (status)
        return status;
    status = answer_apply(&a, unit, s->all, err);
    answer_free(&a);
    return status;
}

static semel_status judge(const exec_state *s, const child *c, semel_unit *unit, semel_error *err)
{
    if (c->output_exceeded)
        return too_much(s, err);
    if (c->signal || c->exit_status)
        return fail_with_end(c, err);
    switch (s->inbox->exec.output) {
    case OUTPUT_RESULT:
        return semel_unit_set_result(unit, c->output.data ? c->output.data : "", c->output.len,
                                     err);
    case OUTPUT_ANSWER:
        return take_answer(s, c, unit, err);
    case OUTPUT_NONE:
        break;
    }
    return SEMEL_OK;
}

static semel_status exec_handle(semel_unit *unit, const semel_message *message, void *context,
                                semel_error *err)
{
    const exec_state *s = context;
    region memory = {0};
    const char **env = NULL;
    child c;
    semel_status status =
        environment_of(&env, &memory, &s->program.env, s->inbox->name, unit, message, err);
    if (!status)
        status = start(&c, s, env, message, err);
    if (!status) {
        status = wait_for(&c, s, unit, err);
        if (status)
            child_stop(&c);
        else
            status = judge(s, &c, unit, err);
        child_close(&c);
    }
    region_free(&memory);
    return status;
}

const handler_class exec_handler = {
    .kind = HANDLER_EXEC,
    .name = "exec",
    .mode = SEMEL_CLAIM,
    .open = exec_open,
    .close = exec_close,
    .handle = exec_handle,
};
