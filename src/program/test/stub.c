/* See stub.h. The messages of `send` are sent in both cases. */
#include "program/test/stub.h"

#include "program/handler/handler.h"
#include "program/support/memory.h"

#include <stdlib.h>
#include <string.h>

struct stub {
    handler *real;        /* with the real work, or with `send` alone; NULL: neither is left */
    inbox_config without; /* the inbox without its handler: what is left is to send */
    int answers;          /* the work is stubbed */
    config_list words;
};

static int is_outside(handler_kind kind)
{
    return kind == HANDLER_EXEC || kind == HANDLER_HTTP || kind == HANDLER_WORKER;
}

static config_list words_for(const test_config *test, const char *inbox)
{
    for (size_t i = 0; i < test->answer_count; i++)
        if (strcmp(test->answers[i].inbox, inbox) == 0)
            return test->answers[i].words;
    return (config_list){0};
}

semel_status stub_open(stub **out, const config *all, const inbox_config *inbox,
                       const test_config *test, int call_handlers, semel_error *err)
{
    stub *s = must_alloc(sizeof *s);
    s->answers = is_outside(inbox->handler) && !call_handlers;
    s->words = words_for(test, inbox->name);
    s->without = *inbox;
    s->without.handler = HANDLER_NONE;
    semel_status status = SEMEL_OK;
    if (!s->answers || inbox->send_count)
        status = handler_open(&s->real, all, s->answers ? &s->without : inbox, err);
    if (status)
        free(s);
    else
        *out = s;
    return status;
}

void stub_close(stub *s)
{
    if (!s)
        return;
    if (s->real)
        handler_close(s->real);
    free(s);
}

static const char *answer_to(const stub *s, uint32_t attempt)
{
    size_t at = attempt ? attempt - 1 : 0;
    if (!s->words.count)
        return "done";
    return s->words.items[at < s->words.count ? at : s->words.count - 1];
}

semel_status stub_run(semel_unit *unit, const semel_message *message, void *context,
                      semel_error *err)
{
    stub *s = context;
    const char *answer = s->answers ? answer_to(s, semel_unit_attempt(unit)) : "done";
    if (strcmp(answer, "retry") == 0)
        return semel_fail(err, SEMEL_EHANDLER, "the test's answer is retry");
    if (strcmp(answer, "dead") == 0)
        return semel_fail(err, SEMEL_EGIVEUP, "the test's answer is dead");
    return s->real ? handler_run(unit, message, s->real, err) : SEMEL_OK;
}
