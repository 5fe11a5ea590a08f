/* The worker handler: warm processes that get a message as a line of JSON (worker_request.h) and
 * answer with one (answer.h).
 *
 * The answer is stored with the completion. If semel or the process dies before, the message is
 * handled again: a process that died in the middle of it counts as a failed attempt. */
#include "program/handler/answer.h"
#include "program/handler/handler.h"
#include "program/handler/worker_pool.h"
#include "program/handler/worker_request.h"

#include <stdlib.h>
#include <string.h>

typedef struct worker_state {
    const config *all;
    const inbox_config *inbox;
    program program;
    const char **env;
    worker_pool *pool;
} worker_state;

/* What all messages have in common, which is all that the environment of a warm process can say. */
static const char **make_environment(program *p, const char *inbox)
{
    const char **env = region_alloc(&p->memory, (p->env.count + 2) * sizeof *env);
    memcpy(env, p->env.items, p->env.count * sizeof *env);
    env[p->env.count] = region_printf(&p->memory, "SEMEL_INBOX=%s", inbox);
    return env;
}

static semel_status worker_open(void **state, const config *all, const inbox_config *inbox,
                                semel_error *err)
{
    const worker_config *worker = &inbox->worker;
    worker_state *s = must_alloc(sizeof *s);
    s->all = all;
    s->inbox = inbox;
    semel_status status =
        program_open(&s->program, all, &worker->command, &worker->env, &worker->limits, err);
    if (!status) {
        s->env = make_environment(&s->program, inbox->name);
        status = worker_pool_open(&s->pool, &s->program, s->env, worker->processes, err);
        if (status)
            program_close(&s->program);
    }
    if (status)
        free(s);
    else
        *state = s;
    return status;
}

static void worker_close(void *state)
{
    worker_state *s = state;
    worker_pool_close(s->pool);
    program_close(&s->program);
    free(s);
}

/* An answer to another message would be stored with this one. */
static semel_status check_id(const answer *a, const char *id, semel_error *err)
{
    if (!a->id || (id && strcmp(a->id, id) == 0))
        return SEMEL_OK;
    return semel_fail(err, SEMEL_EHANDLER, "worker: the answer is for another message");
}

/* *keep: the process has kept to the protocol, whatever it answered. */
static semel_status take_answer(int *keep, const worker_state *s, semel_bytes text, const char *id,
                                semel_unit *unit, semel_error *err)
{
    answer a = {0};
    semel_status status = answer_parse(&a, text, err);
    if (status)
        return status;
    status = check_id(&a, id, err);
    *keep = !status;
    if (!status)
        status = answer_apply(&a, unit, s->all, err);
    answer_free(&a);
    return status;
}

static semel_status ask(const worker_state *s, semel_bytes line, const char *id, semel_unit *unit,
                        semel_error *err)
{
    attempt a;
    worker_process *w = NULL;
    attempt_begin(&a, unit, s->inbox->options.lease_ms, s->inbox->timeout_ms, "worker: no answer");
    a.late_ms = INT64_MAX; /* to wait for a free process is no failure */
    semel_status status = worker_pool_take(&w, s->pool, &a, err);
    if (status)
        return status;
    int keep = 0;
    semel_bytes text = {NULL, 0};
    attempt_restart_timeout(&a);
    status = worker_ask(&text, w, line, &a, err);
    if (!status)
        status = take_answer(&keep, s, text, id, unit, err);
    worker_pool_give_back(s->pool, w, keep);
    return status;
}

static semel_status worker_handle(semel_unit *unit, const semel_message *message, void *context,
                                  semel_error *err)
{
    const worker_state *s = context;
    region memory = {0};
    buffer line = {0};
    const char *id = NULL;
    semel_status status = worker_request(&line, &id, &memory, s->inbox->name, unit, message, err);
    if (!status)
        status = ask(s, (semel_bytes){line.data, line.len}, id, unit, err);
    buffer_free(&line);
    region_free(&memory);
    return status;
}

const handler_class worker_handler = {
    .kind = HANDLER_WORKER,
    .name = "worker",
    .mode = SEMEL_CLAIM,
    .open = worker_open,
    .close = worker_close,
    .handle = worker_handle,
};
