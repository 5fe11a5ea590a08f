/* The consumer's turn: receive, route, handle, settle.
 *
 * Every delivery ends in exactly one verdict: ACK when each of its routes is settled, RETRY otherwise, and
 * REJECT for what is no message at all, which must not come again nor hold up the others. If
 * the process dies before a verdict reaches the broker, the delivery comes again, and the routes that
 * were done see a duplicate. When the store fails, everything not settled yet goes back, the step reports
 * it, and nothing is lost or blamed: intake stops because the caller (or run) waits before it calls again. */
#include "core/transport.h"
#include "core/unit.h"

#include "base/message.h"

#include <semel/consumer.h>
#include <string.h>

/* What is known of one delivery so far. */
typedef struct job {
    const semel_message *message;
    uint64_t tag;
    int routed;
    int again;    /* some route is not settled */
    int unusable; /* over a limit or malformed: no store could keep it, not even as a dead letter */
} job;

struct semel_consumer {
    semel_transport *transport;
    semel_route *routes;
    size_t route_count;
    char *patterns; /* the routes' pattern texts */
    semel_consumer_options options;
    uint32_t failures; /* steps in a row that failed */
    atomic_int stopped;
    semel_delivery *deliveries;
    job *jobs;
    const semel_message **chosen; /* of one route */
    size_t *chosen_index;
    semel_outcome *outcomes;
    semel_settle *settles;
    size_t count;
};

/* --- opening --------------------------------------------------------------------------------------------- */

static semel_status check_routes(const semel_route *routes, size_t count, semel_error *err)
{
    if (count == 0 || count > SEMEL_ROUTES_MAX)
        return semel_fail(err, SEMEL_EINVAL, "a consumer takes 1 to %zu routes, not %zu",
                          SEMEL_ROUTES_MAX, count);
    for (size_t i = 0; i < count; i++) {
        if (!routes[i].pattern || !*routes[i].pattern || !routes[i].inbox || !routes[i].handler)
            return semel_fail(err, SEMEL_EINVAL,
                              "route %zu needs a pattern, an inbox and a handler", i + 1);
        for (size_t j = 0; j < i; j++)
            if (routes[j].inbox->store == routes[i].inbox->store &&
                routes[j].inbox->scope == routes[i].inbox->scope &&
                (routes[j].handler != routes[i].handler || routes[j].context != routes[i].context))
                return semel_fail(
                    err, SEMEL_EINVAL,
                    "routes %zu and %zu share inbox \"%s\" but not handler and context: one would "
                    "swallow the other's messages; give each its own inbox",
                    j + 1, i + 1, routes[i].inbox->name);
    }
    return SEMEL_OK;
}

static semel_status copy_routes(semel_consumer *consumer, const semel_route *routes, size_t count,
                                semel_error *err)
{
    size_t texts = 0;
    for (size_t i = 0; i < count; i++)
        texts += strlen(routes[i].pattern) + 1;
    consumer->routes = mem_alloc(count * sizeof *routes);
    consumer->patterns = mem_alloc(texts);
    if (!consumer->routes || !consumer->patterns)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for %zu routes", count);
    char *text = consumer->patterns;
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(routes[i].pattern) + 1;
        consumer->routes[i] = routes[i];
        consumer->routes[i].pattern = memcpy(text, routes[i].pattern, len);
        text += len;
    }
    consumer->route_count = count;
    return SEMEL_OK;
}

static semel_status make_room(semel_consumer *consumer, semel_error *err)
{
    size_t batch = consumer->options.batch;
    consumer->deliveries = mem_alloc(batch * sizeof *consumer->deliveries);
    consumer->jobs = mem_alloc(batch * sizeof *consumer->jobs);
    consumer->chosen = mem_alloc(batch * sizeof *consumer->chosen);
    consumer->chosen_index = mem_alloc(batch * sizeof *consumer->chosen_index);
    consumer->outcomes = mem_alloc(batch * sizeof *consumer->outcomes);
    consumer->settles = mem_alloc(batch * sizeof *consumer->settles);
    if (consumer->deliveries && consumer->jobs && consumer->chosen && consumer->chosen_index &&
        consumer->outcomes && consumer->settles)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_ENOMEM, "out of memory for a consumer with a batch of %zu", batch);
}

static semel_status read_options(semel_consumer_options *out, const semel_consumer_options *given,
                                 semel_error *err)
{
    semel_status status = options_read(out, sizeof *out, given, "semel_consumer_options", err);
    if (status)
        return status;
    if ((unsigned)out->on_unrouted > SEMEL_UNROUTED_IGNORE)
        return semel_fail(err, SEMEL_EINVAL,
                          "semel_consumer_options.on_unrouted: there is no choice %d",
                          (int)out->on_unrouted);
    if (out->batch > SEMEL_BATCH_MAX)
        return semel_fail(err, SEMEL_ELIMIT,
                          "semel_consumer_options.batch is %u; SEMEL_BATCH_MAX is %zu", out->batch,
                          SEMEL_BATCH_MAX);
    out->batch = out->batch ? out->batch : 1;
    out->backoff_ms = out->backoff_ms ? out->backoff_ms : 200;
    out->backoff_max_ms = out->backoff_max_ms ? out->backoff_max_ms : 60000;
    return SEMEL_OK;
}

semel_status semel_consumer_open(semel_consumer **out, semel_transport *transport,
                                 const semel_route *routes, size_t count,
                                 const semel_consumer_options *options, semel_error *err)
{
    semel_consumer *consumer = mem_alloc(sizeof *consumer);
    if (!consumer)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a consumer");
    consumer->transport = transport;
    semel_status status = read_options(&consumer->options, options, err);
    if (!status)
        status = check_routes(routes, count, err);
    if (!status)
        status = copy_routes(consumer, routes, count, err);
    if (!status)
        status = make_room(consumer, err);
    if (status)
        semel_consumer_close(consumer);
    else
        *out = consumer;
    return status;
}

void semel_consumer_close(semel_consumer *consumer)
{
    if (!consumer)
        return;
    mem_free(consumer->routes);
    mem_free(consumer->patterns);
    mem_free(consumer->deliveries);
    mem_free(consumer->jobs);
    mem_free(consumer->chosen);
    mem_free(consumer->chosen_index);
    mem_free(consumer->outcomes);
    mem_free(consumer->settles);
    mem_free(consumer);
}

/* --- routing --------------------------------------------------------------------------------------------- */

/* `*` stands for any run of characters, also none. Linear: after a mismatch only the last star moves. */
static int fits(const char *pattern, const char *text)
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

/* The messages that this route takes. */
static size_t choose(semel_consumer *consumer, const semel_route *route)
{
    size_t chosen = 0;
    for (size_t i = 0; i < consumer->count; i++) {
        job *j = &consumer->jobs[i];
        const char *type = j->message->type ? j->message->type : "";
        if (j->unusable || !fits(route->pattern, type))
            continue;
        j->routed = 1;
        consumer->chosen[chosen] = j->message;
        consumer->chosen_index[chosen++] = i;
    }
    return chosen;
}

/* --- handling -------------------------------------------------------------------------------------------- */

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
static semel_status digest_outcomes(semel_consumer *consumer, const semel_route *route,
                                    size_t chosen, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; i < chosen; i++) {
        job *j = &consumer->jobs[consumer->chosen_index[i]];
        semel_outcome outcome = consumer->outcomes[i];
        int settled = semel_outcome_settled(outcome);
        if (is_refused(outcome)) {
            semel_status buried = bury_refused(route, j->message, outcome, err);
            settled = !buried;
            status = status ? status : buried;
        }
        if (!settled)
            j->again = 1;
    }
    return status;
}

/* A single message is a batch of one. A refused duplicate (policy reject) is a duplicate here: the broker
 * needs no answer, only an end to it. */
static semel_status handle_route(semel_consumer *consumer, const semel_route *route,
                                 semel_error *err)
{
    semel_error failed;
    size_t chosen = choose(consumer, route);
    if (!chosen)
        return SEMEL_OK;
    semel_status status =
        semel_inbox_receive_batch(consumer->outcomes, route->inbox, consumer->chosen, chosen,
                                  route->handler, route->context, &failed);
    if (status && err)
        *err = failed;
    semel_status kept = digest_outcomes(consumer, route, chosen, status ? NULL : err);
    return status ? status : kept;
}

static semel_status keep_unrouted(semel_consumer *consumer, job *j, semel_error *err)
{
    semel_inbox *first = consumer->routes[0].inbox;
    semel_error why;
    if (j->routed || j->unusable || consumer->options.on_unrouted == SEMEL_UNROUTED_IGNORE)
        return SEMEL_OK;
    semel_fail(&why, SEMEL_EREJECTED, "no route fits the type \"%s\"",
               j->message->type ? j->message->type : "");
    semel_status status = inbox_bury_refused(first, "unrouted", j->message, why.text, err);
    j->again = status != SEMEL_OK;
    return status;
}

static semel_status handle_all(semel_consumer *consumer, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < consumer->route_count; i++)
        status = handle_route(consumer, &consumer->routes[i], err);
    for (size_t i = 0; !status && i < consumer->count; i++)
        status = keep_unrouted(consumer, &consumer->jobs[i], err);
    return status;
}

/* --- settling -------------------------------------------------------------------------------------------- */

static uint32_t backoff_ms(const semel_consumer *consumer, uint32_t failures)
{
    return seam_backoff_ms(&consumer->transport->seam, consumer->options.backoff_ms,
                           consumer->options.backoff_max_ms, failures ? failures : 1);
}

static semel_status settle_all(semel_consumer *consumer, size_t *settled, semel_error *err)
{
    size_t acked = 0;
    for (size_t i = 0; i < consumer->count; i++) {
        const job *j = &consumer->jobs[i];
        semel_settle *verdict = &consumer->settles[i];
        *verdict = (semel_settle){.tag = j->tag,
                                  .verdict = j->unusable ? SEMEL_SETTLE_REJECT : SEMEL_SETTLE_ACK};
        if (j->again && !j->unusable)
            *verdict = (semel_settle){.tag = j->tag,
                                      .verdict = SEMEL_SETTLE_RETRY,
                                      .delay_ms = backoff_ms(consumer, j->message->delivery)};
        acked += verdict->verdict == SEMEL_SETTLE_ACK;
    }
    semel_status status =
        semel_transport_settle(consumer->transport, consumer->settles, consumer->count, err);
    if (!status)
        *settled = acked;
    return status;
}

/* --- the turn ---------------------------------------------------------------------------------------------- */

static int is_stopped(semel_consumer *consumer)
{
    return atomic_load(&consumer->stopped);
}

/* In slices, so that a stop from a signal handler is noticed soon. */
static semel_status receive(semel_consumer *consumer, uint32_t wait_ms, semel_error *err)
{
    enum { SLICE_MS = 100 };
    consumer->count = 0;
    for (;;) {
        uint32_t slice = wait_ms < SLICE_MS ? wait_ms : SLICE_MS;
        semel_status status =
            semel_transport_receive(consumer->transport, consumer->deliveries,
                                    consumer->options.batch, &consumer->count, slice, err);
        wait_ms -= slice;
        if (status || consumer->count || !wait_ms || is_stopped(consumer))
            return status;
    }
}

semel_status semel_consumer_step(size_t *settled, semel_consumer *consumer, uint32_t wait_ms,
                                 semel_error *err)
{
    semel_status status = receive(consumer, wait_ms, err);
    if (status)
        return status;
    for (size_t i = 0; i < consumer->count; i++)
        consumer->jobs[i] =
            (job){.message = consumer->deliveries[i].message,
                  .tag = consumer->deliveries[i].tag,
                  .unusable = message_check(consumer->deliveries[i].message, NULL) != SEMEL_OK};
    size_t acked = 0;
    semel_status handled = handle_all(consumer, err);
    if (handled) /* in trouble, nothing is acknowledged: what was done is a duplicate next time */
        for (size_t i = 0; i < consumer->count; i++)
            consumer->jobs[i].again = 1;
    if (consumer->count)
        status = settle_all(consumer, &acked, handled ? NULL : err);
    if (!handled && !status)
        *settled = acked;
    return handled ? handled : status;
}

static void back_off(semel_consumer *consumer)
{
    enum { PIECE_MS = 50 };
    consumer->failures++;
    uint32_t left = backoff_ms(consumer, consumer->failures);
    while (left && !is_stopped(consumer)) {
        uint32_t piece = left < PIECE_MS ? left : PIECE_MS;
        seam_sleep_ms(&consumer->transport->seam, piece);
        left -= piece;
    }
}

semel_status semel_consumer_run(semel_consumer *consumer, semel_error *err)
{
    enum { WAIT_MS = 1000 };
    semel_error why;
    while (!is_stopped(consumer)) {
        size_t settled;
        semel_status status = semel_consumer_step(&settled, consumer, WAIT_MS, &why);
        if (!status) {
            consumer->failures = 0;
            continue;
        }
        if (!why.retryable) {
            if (err)
                *err = why;
            return status;
        }
        back_off(consumer);
    }
    return SEMEL_OK;
}

void semel_consumer_stop(semel_consumer *consumer)
{
    atomic_store(&consumer->stopped, 1);
}

/* --- replay ------------------------------------------------------------------------------------------------ */

semel_status semel_consumer_replay(semel_outcome *out, semel_consumer *consumer, int64_t dead_id,
                                   semel_error *err)
{
    semel_status status = SEMEL_ENOTFOUND;
    *out = SEMEL_UNDECIDED;
    for (size_t i = 0; i < consumer->route_count; i++) {
        const semel_route *route = &consumer->routes[i];
        status =
            semel_inbox_replay(out, route->inbox, dead_id, route->handler, route->context, err);
        if (status != SEMEL_ENOTFOUND)
            return status;
    }
    return semel_fail(err, status, "none of the consumer's inboxes has a dead letter %lld",
                      (long long)dead_id);
}
