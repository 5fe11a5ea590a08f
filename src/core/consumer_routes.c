/* Jobs through the routes of a consumer: each route takes those that fit it, through its own inbox.
 *
 * If the process dies on the way the deliveries come again, and the routes that were done see duplicates. The
 * same holds when the store fails on the way: nothing is said to the broker, and all is tried again. */
#include "base/message.h"
#include "core/consumer.h"

/* `*` stands for any run of characters, also none. Linear: after a mismatch only the last star moves. */
static int pattern_fits(const char *pattern, const char *text)
{
    const char *star = NULL, *resume = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            resume = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++resume;
        } else {
            return 0;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == 0;
}

static int has_type(const semel_message *message)
{
    return message->type && *message->type;
}

/* What a message is routed by. */
static const char *name_of(const semel_message *message)
{
    if (has_type(message))
        return message->type;
    return message->topic ? message->topic : "";
}

/* The messages that this route takes. */
static size_t choose_messages(worker *self, const semel_route *route)
{
    size_t chosen = 0;
    for (size_t i = 0; i < self->count; i++) {
        job *j = self->jobs[i];
        if (j->unusable || !pattern_fits(route->pattern, name_of(j->message)))
            continue;
        j->routed = 1;
        self->chosen[chosen] = j->message;
        self->chosen_index[chosen++] = i;
    }
    return chosen;
}

static int is_refused(semel_outcome outcome)
{
    return outcome == SEMEL_MISSING_KEY || outcome == SEMEL_MISMATCH || outcome == SEMEL_STALE;
}

/* What the inbox will never accept is kept where a person can find it. */
static semel_status bury_refused(const semel_route *route, const semel_message *message,
                                 semel_outcome outcome, semel_error *err)
{
    semel_error why;
    semel_fail(&why, SEMEL_EREJECTED, "refused by the inbox: %s", semel_outcome_name(outcome));
    return inbox_bury_refused(route->inbox, route->inbox->name, message, why.text, err);
}

/* Turns the outcomes of one route into what they mean for the deliveries. */
static semel_status apply_outcomes(worker *self, const semel_route *route, size_t chosen,
                                   semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; i < chosen; i++) {
        job *j = self->jobs[self->chosen_index[i]];
        semel_outcome outcome = self->outcomes[i];
        int settled = semel_outcome_settled(outcome);
        if (is_refused(outcome)) {
            semel_status buried = bury_refused(route, j->message, outcome, status ? NULL : err);
            settled = !buried;
            status = status ? status : buried;
        }
        if (!settled)
            j->unsettled = 1;
        if (outcome == SEMEL_FAILED)
            j->failed = 1;
    }
    return status;
}

static semel_status receive_chosen(worker *self, const semel_route *route, size_t chosen,
                                   semel_error *err)
{
    if (chosen > 1)
        return semel_inbox_receive_batch(self->outcomes, route->inbox, self->chosen, chosen,
                                         route->handler, route->context, err);
    semel_status status = semel_inbox_receive(self->outcomes, route->inbox, self->chosen[0],
                                              route->handler, route->context, err);
    return inbox_status_among_others(self->outcomes, status);
}

/* A refused duplicate (policy reject) is a duplicate here: the broker needs no answer, only an end to it. */
static semel_status handle_route(worker *self, const semel_route *route, semel_error *err)
{
    semel_error
        failed; /* a handler's failure does not end the worker's step, but leaves its text */
    size_t chosen = choose_messages(self, route);
    if (!chosen)
        return SEMEL_OK;
    semel_status status = receive_chosen(self, route, chosen, &failed);
    if (status)
        *err = failed;
    semel_status kept = apply_outcomes(self, route, chosen, status ? NULL : err);
    return status ? status : kept;
}

/* What is over a limit no store could keep; but that it came can be kept, and what it was. The broker may have a
 * place for the rest of it. */
static semel_status note_unusable(const semel_consumer *consumer, job *j, semel_error *err)
{
    semel_inbox *first = consumer->routes[0].inbox;
    const semel_message *message = j->message;
    semel_error why;
    if (!j->unusable)
        return SEMEL_OK;
    message_check(message, &why);
    semel_message named = {.size = sizeof named,
                           .id = message->id,
                           .type = message->type,
                           .topic = message->topic,
                           .body = semel_str(why.text),
                           .delivery = 1};
    semel_message nameless = {.size = sizeof nameless, .body = named.body, .delivery = 1};
    const semel_message *kept = message_check(&named, NULL) == SEMEL_OK ? &named : &nameless;
    semel_status status = inbox_bury_refused(first, "unusable", kept, why.text, err);
    j->unsettled = status != SEMEL_OK;
    return status;
}

static semel_status keep_unrouted(const semel_consumer *consumer, job *j, semel_error *err)
{
    semel_inbox *first = consumer->routes[0].inbox;
    semel_error why;
    if (j->routed || j->unusable || consumer->options.on_unrouted == SEMEL_UNROUTED_IGNORE)
        return SEMEL_OK;
    semel_fail(&why, SEMEL_EREJECTED, "no route fits the %s \"%s\"",
               has_type(j->message) ? "type" : "topic", name_of(j->message));
    semel_status status = inbox_bury_refused(first, "unrouted", j->message, why.text, err);
    j->unsettled = status != SEMEL_OK;
    return status;
}

semel_status route_jobs(worker *self, semel_error *err)
{
    const semel_consumer *consumer = self->consumer;
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < consumer->route_count; i++)
        status = handle_route(self, &consumer->routes[i], err);
    for (size_t i = 0; !status && i < self->count; i++)
        if (!(status = note_unusable(consumer, self->jobs[i], err)))
            status = keep_unrouted(consumer, self->jobs[i], err);
    return status;
}
