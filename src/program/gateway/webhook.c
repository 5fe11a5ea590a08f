/* Webhooks: the signature first, over the raw bytes; then the id; then the message is stored in a
 * queue and answered with 202, or handled by an inbox and answered with what became of it.
 *
 * A stranger learns that a signature is not good and nothing more. What was wrong with it is in the
 * log, for a person who sets up a route: the first of a while is a line, the others are counted, so
 * that nobody can fill the log. */
#include "program/gateway/delivery.h"
#include "program/gateway/webhook_event.h"
#include "program/support/show.h"

#include <stdlib.h>
#include <string.h>

#define QUIET_NS INT64_C(10000000000)

enum { RETRY_AFTER_S = 5 };

typedef struct webhook {
    delivery *delivery; /* of `to`; NULL: `inbox` */
    semel_inbox *inbox;
    semel_handler *handler;
    void *context;
    semel_store *key_store; /* in memory: its inbox evaluates the key expression */
    semel_inbox *keys;
    pthread_mutex_t lock;
    int64_t said_ns; /* when the log was told of a bad signature; 0: never */
    uint64_t unsaid; /* those since then */
} webhook;

/* --- opening ---------------------------------------------------------------------------------- */

static semel_status open_keys(webhook *w, const route_config *route, semel_error *err)
{
    const semel_inbox_options options = {.size = sizeof options, .key = route->key};
    semel_status status = semel_store_open(&w->key_store, "memory:", NULL, err);
    if (!status)
        status = semel_store_migrate(w->key_store, err);
    if (!status)
        status = semel_inbox_open(&w->keys, w->key_store, "keys", &options, err);
    return status;
}

static semel_status find_inbox(webhook *w, const gateway_route *route, semel_error *err)
{
    const semel_pipeline_inbox *i = assembly_handlers(route->assembly)->inboxes;
    while (i && i->name && strcmp(i->name, route->config->inbox) != 0)
        i++;
    w->inbox = semel_pipeline_find_inbox(route->pipeline, route->config->inbox);
    if (!w->inbox || !i || !i->name)
        return semel_fail(err, SEMEL_EINVAL, "inbox \"%s\" does not exist", route->config->inbox);
    w->handler = i->handler;
    w->context = i->context;
    return SEMEL_OK;
}

semel_status webhook_open(gateway_route *route, semel_error *err)
{
    webhook *w = must_alloc(sizeof *w);
    semel_status status = SEMEL_OK;
    pthread_mutex_init(&w->lock, NULL);
    route->state = w;
    if (route->config->key)
        status = open_keys(w, route->config, err);
    if (!status)
        status = route->config->inbox ? find_inbox(w, route, err)
                                      : delivery_open(&w->delivery, route, err);
    if (status)
        webhook_close(route);
    return status;
}

void webhook_close(gateway_route *route)
{
    webhook *w = route->state;
    route->state = NULL;
    delivery_close(w->delivery);
    semel_inbox_close(w->keys);
    semel_store_close(w->key_store);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

/* --- bad signatures --------------------------------------------------------------------------- */

static const char *verdict_text(signature_verdict verdict)
{
    switch (verdict) {
    case SIGNATURE_MISSING:
        return "there is none";
    case SIGNATURE_WRONG:
        return "no secret fits";
    case SIGNATURE_OLD:
        return "it is good, but older than the tolerance: a replay, or clocks that differ";
    case SIGNATURE_EARLY:
        return "it is good, but from the future: clocks differ by more than the tolerance";
    case SIGNATURE_MALFORMED:
    case SIGNATURE_FAILED:
    case SIGNATURE_GOOD:
        break;
    }
    return "it cannot be computed";
}

/* 1 if the log is to be told now; *more is how many it was not told of. */
static int may_say(webhook *w, uint64_t *more)
{
    int64_t now = steady_clock_ns();
    pthread_mutex_lock(&w->lock);
    int says = !w->said_ns || now - w->said_ns > QUIET_NS;
    *more = w->unsaid;
    w->unsaid = says ? 0 : w->unsaid + 1;
    if (says)
        w->said_ns = now;
    pthread_mutex_unlock(&w->lock);
    return says;
}

static void say_bad(const gateway_route *route, const http_request *request,
                    signature_verdict verdict, const signature_facts *facts)
{
    uint64_t more = 0;
    buffer subject = {0}, text = {0};
    if (!may_say(route->state, &more))
        return;
    buffer_printf(&subject, "route %s", route->config->name);
    buffer_printf(&text, "bad signature from %s: %s%s%s", http_request_peer(request), facts->header,
                  *facts->header ? ": " : "", facts->why ? facts->why : verdict_text(verdict));
    if (more)
        buffer_printf(&text, " (and %llu more before it)", (unsigned long long)more);
    log_write(route->log, &(log_entry){.level = LOG_WARNING,
                                       .event = "bad_signature",
                                       .subject = subject.data,
                                       .msg = text.data,
                                       .fields = {{"route", route->config->name, 0},
                                                  {"peer", http_request_peer(request), 0},
                                                  {"more", NULL, (int64_t)more}}});
    buffer_free(&subject);
    buffer_free(&text);
}

/* To a sender whose clock is wrong the time is told: its signature was good. */
static route_outcome refuse_signature(http_request *request, signature_verdict verdict)
{
    int is_time = verdict == SIGNATURE_OLD || verdict == SIGNATURE_EARLY;
    int is_ours = verdict == SIGNATURE_FAILED;
    const http_problem problem = {
        .status = is_ours ? 503 : 401,
        .type = is_ours   ? "unavailable"
                : is_time ? "signature-time"
                          : "bad-signature",
        .title = is_ours   ? "Signatures cannot be verified for the moment"
                 : is_time ? "The time of the signature is not near the time here"
                           : "The signature is not good",
        .detail =
            is_time ? "It is older than the tolerance of this route, or from the future." : NULL,
        .retry_after_s = is_ours ? RETRY_AFTER_S : 0};
    route_problem(request, &problem, NULL, NULL);
    return is_ours ? ROUTE_UNAVAILABLE : ROUTE_BAD_SIGNATURE;
}

/* --- answers ---------------------------------------------------------------------------------- */

static void answer(http_request *request, unsigned status, const char *outcome, semel_bytes id)
{
    static const http_header headers[] = {
        {"Content-Type", "application/json"}, {"Cache-Control", "no-store"}, {NULL, NULL}};
    buffer text = {0};
    buffer_printf(&text, "{\"outcome\":\"%s\",\"id\":", outcome);
    show_json(&text, id.data, id.len);
    buffer_text(&text, "}\n");
    http_respond(
        request,
        &(http_response){.status = status, .headers = headers, .body = text.data, .len = text.len});
    buffer_free(&text);
}

static route_outcome answer_challenge(http_request *request, const char *challenge)
{
    static const http_header headers[] = {{"Content-Type", "text/plain; charset=utf-8"},
                                          {"X-Content-Type-Options", "nosniff"},
                                          {NULL, NULL}};
    http_respond(request, &(http_response){.status = 200,
                                           .headers = headers,
                                           .body = challenge,
                                           .len = strlen(challenge)});
    return ROUTE_EXECUTED;
}

/* The event is in the memory of the request, which is gone once that is answered. */
static route_outcome refuse_id(http_request *request, const webhook_event *event)
{
    region *memory = http_request_memory(request);
    int is_missing = event->missing != NULL;
    const char *detail = is_missing
                             ? region_printf(memory, "It was expected in %s.", event->missing)
                             : region_printf(memory, "The id: %s.", event->wrong);
    route_problem(request,
                  &(http_problem){.status = 400,
                                  .type = is_missing ? "missing-id" : "bad-id",
                                  .title = is_missing ? "The message has no id"
                                                      : "The id of the message cannot be used",
                                  .detail = detail},
                  NULL, NULL);
    return is_missing ? ROUTE_MISSING_KEY : ROUTE_BAD_REQUEST;
}

static route_outcome store(webhook *w, http_request *request, webhook_event *event)
{
    semel_error why = {0};
    if (delivery_send(w->delivery, &event->message, 1, &why))
        return delivery_refuse(request, &why);
    answer(request, 202, "accepted", event->message.id);
    return ROUTE_ACCEPTED;
}

/* --- handled and answered --------------------------------------------------------------------- */

typedef struct ending {
    semel_outcome outcome;
    route_outcome counted;
    http_problem problem;
} ending;

static const char kept[] = "It is kept as a dead letter.";

/* What is not a success. The error of a handler is in the log and with the key, not here: it may
 * quote what the sender must not see. */
static const ending endings[] = {
    {SEMEL_DEAD,
     ROUTE_BAD_REQUEST,
     {422, "dead-letter", "It was given up on, and is kept as a dead letter",
      "It is not handled again when it is sent again.", 0}},
    {SEMEL_MISMATCH,
     ROUTE_MISMATCH,
     {422, "mismatch", "Another content was handled under the same id", kept, 0}},
    {SEMEL_STALE,
     ROUTE_BAD_REQUEST,
     {422, "stale", "It is so old that it may have been handled before", kept, 0}},
    {SEMEL_MISSING_KEY,
     ROUTE_MISSING_KEY,
     {422, "missing-key", "The inbox finds no key in it", kept, 0}},
    {SEMEL_DUPLICATE,
     ROUTE_REPLAYED, /* and not settled: the inbox rejects copies */
     {409, "duplicate", "It was handled before", NULL, 0}},
    {SEMEL_IN_PROGRESS,
     ROUTE_CONFLICT,
     {409, "in-progress", "A copy of it is being handled", NULL, RETRY_AFTER_S}},
    {SEMEL_FAILED,
     ROUTE_EXECUTED,
     {500, "failed", "It could not be handled", "It is handled when it is sent again.",
      RETRY_AFTER_S}},
};

static route_outcome answer_ending(http_request *request, semel_outcome outcome)
{
    static const http_problem unavailable = {503, "unavailable",
                                             "It cannot be handled for the moment",
                                             "Send it again, with the same id.", RETRY_AFTER_S};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (endings[i].outcome == outcome) {
            route_problem(request, &endings[i].problem, NULL, NULL);
            return endings[i].counted;
        }
    route_problem(request, &unavailable, NULL, NULL);
    return ROUTE_UNAVAILABLE;
}

static int is_refusal(semel_outcome outcome)
{
    return outcome == SEMEL_MISMATCH || outcome == SEMEL_STALE || outcome == SEMEL_MISSING_KEY;
}

/* What the inbox refuses is kept, as of a queue: a sender gives up after a while, and nobody would
 * know. If it cannot be kept the sender is told to come again. */
static void keep_refused(webhook *w, const semel_message *message, semel_outcome *outcome)
{
    semel_error why = {0};
    if (is_refusal(*outcome) && semel_inbox_bury_refused(w->inbox, message, *outcome, &why))
        *outcome = SEMEL_UNDECIDED;
}

static route_outcome handle(webhook *w, http_request *request, const webhook_event *event)
{
    semel_outcome outcome = SEMEL_UNDECIDED;
    semel_error why = {0};
    semel_status status =
        semel_inbox_receive(&outcome, w->inbox, &event->message, w->handler, w->context, &why);
    keep_refused(w, &event->message, &outcome);
    if (status || outcome == SEMEL_DEAD)
        return answer_ending(request, outcome);
    answer(request, 200, outcome == SEMEL_PROCESSED ? "processed" : "duplicate", event->message.id);
    return outcome == SEMEL_PROCESSED ? ROUTE_EXECUTED : ROUTE_REPLAYED;
}

/* --- requests --------------------------------------------------------------------------------- */

static const char *header_of(size_t *count, const void *from, const char *name)
{
    *count = http_request_header_count(from, name);
    return http_request_header(from, name);
}

static route_outcome work(gateway_route *route, http_request *request)
{
    webhook *w = route->state;
    signature_facts facts;
    const signed_request read = {.header = header_of,
                                 .from = request,
                                 .body = http_request_body(request),
                                 .now_ms = wall_clock_ms()};
    signature_verdict verdict = signature_verify(&facts, route->config, &read);
    if (verdict) {
        say_bad(route, request, verdict, &facts);
        return refuse_signature(request, verdict);
    }
    webhook_event *event = region_alloc(http_request_memory(request), sizeof *event);
    webhook_event_read(event, route->config, request, &facts, w->keys);
    if (event->challenge)
        return answer_challenge(request, event->challenge);
    if (event->missing || event->wrong)
        return refuse_id(request, event);
    return w->inbox ? handle(w, request, event) : store(w, request, event);
}

void webhook_handle(gateway_route *route, http_request *request)
{
    int64_t began = steady_clock_ns();
    route_outcome outcome = work(route, request);
    route_count(route, outcome, began);
}
