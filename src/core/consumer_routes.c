/* Jobs through the routes of a consumer: each route takes those that fit it, through its own
 * inbox, and routes that share an inbox take theirs together, in one unit.
 *
 * What has no route, or cannot be used, is kept first: a message behind it moves the position of
 * its partition past it.
 *
 * If the process dies on the way the deliveries come again, and the routes that were done see
 * duplicates; routes without an inbox run again. When the store fails on the way, nothing is
 * said to the broker, and all is tried again, except for routes without an inbox that are done:
 * the job remembers them as long as it is in flight. */
#include "base/message.h"
#include "core/consumer.h"
#include "core/dead.h"
#include "core/positions.h"

#include <stdio.h>
#include <string.h>

/* `*` stands for any run of characters, also none. Linear: after a mismatch only the last star
 * moves. */
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

int route_fits(const semel_route *route, const semel_message *message)
{
    return pattern_fits(route->pattern, name_of(message));
}

/* 1 if a route before this one fits, too, and has the same handler and context: it has run. */
static int has_run(const route_group *group, size_t at, const semel_message *message)
{
    const semel_route *route = &group->routes[at];
    for (size_t i = 0; i < at; i++)
        if (group->routes[i].handler == route->handler &&
            group->routes[i].context == route->context && route_fits(&group->routes[i], message))
            return 1;
    return 0;
}

semel_status route_group_run(semel_unit *unit, const semel_message *message, void *context,
                             semel_error *err)
{
    const route_group *group = context;
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < group->count; i++) {
        const semel_route *route = &group->routes[i];
        if (route_fits(route, message) && !has_run(group, i, message))
            status = route->handler(unit, message, route->context, err);
    }
    return status;
}

int group_fits(const route_group *group, const semel_message *message)
{
    size_t i = 0;
    while (i < group->count && !route_fits(&group->routes[i], message))
        i++;
    return i < group->count;
}

/* Routes without an inbox that are done with a job while the consumer holds it. */
enum { DONE_BITS = 64 };

static int is_done(const job *j, size_t group)
{
    return (j->done[group / DONE_BITS] >> (group % DONE_BITS)) & 1;
}

static void set_done(job *j, size_t group)
{
    j->done[group / DONE_BITS] |= UINT64_C(1) << (group % DONE_BITS);
}

/* The messages that this group takes. What a group before had no time for is left out, unless this
 * one remembers positions: it would move past the message with those behind it. */
static size_t choose_messages(worker *self, const route_group *group)
{
    size_t chosen = 0, number = (size_t)(group - self->consumer->groups);
    for (size_t i = 0; i < self->count; i++) {
        job *j = self->jobs[i];
        int left = j->left && !group->inbox->positions;
        if (j->unusable || left || j->revoked || !group_fits(group, j->message))
            continue;
        if (is_done(j, number))
            continue;
        self->chosen[chosen] = j->message;
        self->chosen_index[chosen++] = i;
    }
    return chosen;
}

/* Turns the outcomes of one group into what they mean for the deliveries. */
static semel_status apply_outcomes(worker *self, const route_group *group, size_t chosen,
                                   int stopped, int left, semel_error *err)
{
    semel_status status = SEMEL_OK;
    size_t number = (size_t)(group - self->consumer->groups);
    for (size_t i = 0; i < chosen; i++) {
        job *j = self->jobs[self->chosen_index[i]];
        semel_outcome outcome = self->outcomes[i];
        int settled = semel_outcome_settled(outcome);
        if (outcome_is_refusal(outcome)) { /* kept where a person can find it */
            semel_status buried =
                semel_inbox_bury_refused(group->inbox, j->message, outcome, status ? NULL : err);
            settled = !buried;
            j->dead |= !buried;
            status = status ? status : buried;
        }
        if (outcome == SEMEL_DEAD && (self->buried[i] || j->redelivered))
            j->dead = 1;
        if (!settled)
            j->unsettled = 1;
        else if (group->unkeyed)
            set_done(j, number);
        if (outcome == SEMEL_FAILED)
            j->failed = 1;
        if (outcome == SEMEL_UNDECIDED && stopped)
            j->stopped = 1;
        else if (outcome == SEMEL_UNDECIDED && left)
            j->left = 1;
    }
    return status;
}

/* Those from `from` on. */
static semel_status receive_rest(worker *self, const route_group *group, size_t from, size_t chosen,
                                 semel_error *err)
{
    const unit_terms *terms = &self->terms;
    semel_outcome *outcomes = self->outcomes + from;
    if (chosen - from > 1)
        return inbox_receive_batch(outcomes, self->buried + from, group->inbox, self->chosen + from,
                                   chosen - from, group->handler, group->context, terms, err);
    semel_status status =
        inbox_receive(outcomes, self->buried + from, group->inbox, self->chosen[from],
                      group->handler, group->context, terms, err);
    return inbox_status_among_others(outcomes, status);
}

/* Where the run ends that begins at `from`. */
static size_t end_of_run(const worker *self, size_t from, size_t chosen)
{
    const job *before = self->jobs[self->chosen_index[from]];
    size_t end = from + 1;
    for (; end < chosen; end++) {
        const job *j = self->jobs[self->chosen_index[end]];
        if (j->chain != before->chain || j->position <= before->position ||
            strcmp(j->partition, before->partition) != 0)
            break;
        before = j;
    }
    return end;
}

static semel_status receive_run(worker *self, const route_group *group, size_t from, size_t end,
                                semel_error *err)
{
    const job *first = self->jobs[self->chosen_index[from]];
    for (size_t i = from; i < end; i++)
        self->positions[i] = self->jobs[self->chosen_index[i]]->position;
    const semel_run run = {.size = sizeof run,
                           .partition = first->partition,
                           .origin = first->origin,
                           .positions = self->positions + from,
                           .messages = self->chosen + from,
                           .count = end - from};
    return inbox_receive_run(self->outcomes + from, self->buried + from, group->inbox, &run,
                             group->handler, group->context, &self->terms, err);
}

static semel_status check_partitions(const worker *self, size_t chosen, semel_error *err)
{
    for (size_t i = 0; i < chosen; i++) {
        const job *j = self->jobs[self->chosen_index[i]];
        if (!j->partition || !*j->partition || j->position < 0)
            return semel_fail(err, SEMEL_EINVAL,
                              "%s: the transport has delivered a message without a position",
                              self->consumer->transport->driver->scheme);
    }
    return SEMEL_OK;
}

/* 1 if what comes next is of the same chain, and has to wait for the last one. Only partitions
 * whose hashes are the same could make two runs of one chain. */
static int is_held_up(const worker *self, size_t end, size_t chosen)
{
    return end < chosen && !semel_outcome_settled(self->outcomes[end - 1]) &&
           self->jobs[self->chosen_index[end]]->chain ==
               self->jobs[self->chosen_index[end - 1]]->chain;
}

/* Each run has a transaction of its own, and each may use the time of a batch. */
static semel_status receive_runs(worker *self, const route_group *group, size_t chosen,
                                 semel_error *err)
{
    int64_t longest_ms = 0;
    semel_status status = check_partitions(self, chosen, err);
    for (size_t i = 0; i < chosen; i++)
        self->outcomes[i] = SEMEL_UNDECIDED;
    for (size_t from = 0, end; !status && from < chosen; from = end) {
        end = end_of_run(self, from, chosen);
        status = receive_run(self, group, from, end, err);
        if (self->pace.used_ms > longest_ms)
            longest_ms = self->pace.used_ms;
        if (is_held_up(self, end, chosen))
            break;
    }
    self->pace.used_ms = longest_ms;
    return status;
}

static semel_status receive_chosen(worker *self, const route_group *group, size_t chosen,
                                   semel_error *err)
{
    size_t decided = 0;
    if (group->inbox->positions)
        return receive_runs(self, group, chosen, err);
    semel_status status = can_settle_in_unit(self, group, chosen)
                              ? receive_settling(self, group, chosen, &decided, err)
                              : SEMEL_OK;
    if (status || decided == chosen || (decided && self->pace.cut))
        return status;
    return receive_rest(self, group, decided, chosen, err);
}

/* A refused duplicate (policy reject) is a duplicate here: the broker needs no answer, only an end
 * to it. A handler that ends early because the consumer stops is no error of the step, either. */
static semel_status handle_group(worker *self, const route_group *group, semel_error *err)
{
    semel_error
        failed; /* a handler's failure does not end the worker's step, but leaves its text */
    size_t chosen = choose_messages(self, group);
    if (!chosen)
        return SEMEL_OK;
    self->pace.used_ms = 0;
    self->pace.cut = 0;
    semel_status status = receive_chosen(self, group, chosen, &failed);
    if (self->pace.used_ms > self->handlers_ms)
        self->handlers_ms = self->pace.used_ms;
    int stopped = status == SEMEL_ESTOPPED;
    if (stopped)
        status = SEMEL_OK;
    if (status)
        *err = failed;
    int left = self->pace.cut || (!status && group->inbox->positions);
    semel_status kept = apply_outcomes(self, group, chosen, stopped, left, status ? NULL : err);
    return status ? status : kept;
}

/* What is over a limit no store could keep; but that it came can be kept, and what it was. The
 * broker may have a place for the rest of it. */
static semel_status note_unusable(const semel_consumer *consumer, job *j, semel_error *err)
{
    const semel_message *message = j->message;
    semel_error why;
    if (!j->unusable || j->revoked)
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
    semel_status status = inbox_bury_refused(consumer->letters, LETTER_UNUSABLE, kept,
                                             SEMEL_UNDECIDED, why.text, err);
    j->unsettled = status != SEMEL_OK;
    return status;
}

/* The patterns of the routes, as many as there is room for, in quotes: a cause leaves out what is
 * quoted, so letters that differ in nothing else are of one cause. */
static void list_patterns(char *out, size_t room, const semel_consumer *consumer)
{
    size_t len = 0;
    *out = 0;
    for (size_t i = 0; i < consumer->route_count; i++) {
        const char *pattern = consumer->routes[i].pattern;
        int wants = snprintf(out + len, room - len, "%s\"%s\"", i ? ", " : "", pattern);
        if (wants < 0 || len + (size_t)wants + sizeof ", ..." > room) {
            (void)snprintf(out + len, room - len, "%s...", i ? ", " : "");
            return;
        }
        len += (size_t)wants;
    }
}

static void say_unrouted(semel_error *why, const semel_consumer *consumer,
                         const semel_message *message)
{
    enum { PATTERNS_ROOM = 200, NAME_SHOWN = 128 };
    char patterns[PATTERNS_ROOM];
    list_patterns(patterns, sizeof patterns, consumer);
    const char *queue = consumer->queue;
    semel_fail(why, SEMEL_EREJECTED, "no route fits the %s \"%.*s\"%s%s%s; there are routes for %s",
               has_type(message) ? "type" : "topic", NAME_SHOWN, name_of(message),
               queue ? " in queue \"" : "", queue ? queue : "", queue ? "\"" : "", patterns);
}

static int is_routed(const semel_consumer *consumer, const semel_message *message)
{
    size_t i = 0;
    while (i < consumer->group_count && !group_fits(&consumer->groups[i], message))
        i++;
    return i < consumer->group_count;
}

static semel_status keep_unrouted(const semel_consumer *consumer, job *j, semel_error *err)
{
    semel_error why;
    if (j->unusable || j->revoked || j->dead || is_routed(consumer, j->message) ||
        consumer->options.on_unrouted == SEMEL_UNROUTED_IGNORE)
        return SEMEL_OK;
    say_unrouted(&why, consumer, j->message);
    semel_status status = inbox_bury_refused(consumer->letters, LETTER_UNROUTED, j->message,
                                             SEMEL_UNDECIDED, why.text, err);
    j->unsettled = status != SEMEL_OK;
    j->dead = !j->unsettled;
    return status;
}

semel_status route_jobs(worker *self, semel_error *err)
{
    const semel_consumer *consumer = self->consumer;
    semel_status status = SEMEL_OK;
    self->handlers_ms = 0;
    for (size_t i = 0; !status && i < self->count; i++)
        if (!(status = note_unusable(consumer, self->jobs[i], err)))
            status = keep_unrouted(consumer, self->jobs[i], err);
    for (size_t i = 0; !status && i < consumer->group_count; i++)
        status = handle_group(self, &consumer->groups[i], err);
    return status;
}
