/* See proxy.h. A request with a key goes this way:
 *
 *   flights   another copy is here already: it waits for the answer, without a worker
 *   look      the store has the answer: it is replayed. This is one read
 *   receive   the key is claimed, the request sent, the answer stored with the key
 *
 * Between the look and the claim anything may happen: receive decides, whatever the look said. So
 * the look can be left out: after some new keys in a row it is, until a copy comes. */
#include "program/gateway/proxy.h"

#include "program/gateway/proxy_inbox.h"
#include "program/support/show.h"

#include <stdlib.h>
#include <string.h>

/* --- opening ---------------------------------------------------------------------------------- */

static int says_again(unsigned status)
{
    return status == 408 || status == 425 || status == 429;
}

int proxy_replays_parse(unsigned char out[600], const config_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const char *item = list->items[i];
        if (strlen(item) != 3 || *item < '2' || *item > '5')
            return 0;
        if (strcmp(item + 1, "xx") == 0) {
            unsigned first = (unsigned)(*item - '0') * 100;
            for (unsigned status = first; status < first + 100; status++)
                out[status] |= !says_again(status);
        } else if (strspn(item, "0123456789") == 3) {
            out[strtoul(item, NULL, 10)] = 1;
        } else {
            return 0;
        }
    }
    return 1;
}

/* By its definition the request was not handled, or is to come again. After any other answer that
 * is not kept (a 500, a redirect) nobody knows. */
static int says_not_handled(unsigned status)
{
    return says_again(status) || status == 501 || status == 503 || status == 505;
}

static void free_state(proxy_state *state)
{
    semel_inbox_close(state->inbox);
    http_pool_close(&state->pool);
    region_free(&state->memory);
    free(state);
}

static semel_status open_parts(proxy_state *state, gateway_route *route, semel_error *err)
{
    const route_config *from = route->config;
    semel_inbox_options options = proxy_inbox_options(from);
    semel_status status = http_url_check("proxy", from->proxy, err);
    if (!status && !proxy_replays_parse(state->replays, &from->replay))
        status = semel_fail(err, SEMEL_EINVAL, "replay: a status is 2xx to 5xx, or 200 to 599");
    if (!status)
        status = semel_inbox_open(&state->inbox, route->store, state->inbox_name, &options, err);
    if (status)
        return status;
    state->flights = flights_open(route);
    return state->flights ? SEMEL_OK : semel_fail(err, SEMEL_ENOMEM, "cannot start a thread");
}

semel_status proxy_open(gateway_route *route, semel_error *err)
{
    proxy_state *state = must_alloc(sizeof *state);
    http_pool_open(&state->pool);
    state->inbox_name = proxy_inbox_name(&state->memory, route->config);
    route->state = state;
    semel_status status = open_parts(state, route, err);
    if (status)
        free_state(state);
    return status;
}

void proxy_close(gateway_route *route)
{
    proxy_state *state = route->state;
    flights_close(state->flights);
    free_state(state);
}

void proxy_visit_flights(gateway_route *route, gateway_flight_visitor *visit, void *context)
{
    const proxy_state *state = route->state;
    flights_visit(state->flights, visit, context);
}

/* --- without a key ---------------------------------------------------------------------------- */

static const http_problem unreached = {
    .status = 502,
    .type = "upstream-unreachable",
    .title = "The upstream cannot be reached",
    .detail = "The request was not sent; a copy of it is sent when it comes.",
    .retry_after_s = 1};

static void log_upstream(const gateway_route *route, const char *event, const char *key,
                         const char *why)
{
    buffer subject = {0}, text = {0};
    char digest[DIGEST_HEX_SIZE];
    enum { DIGITS = 12 };
    buffer_printf(&subject, "route %s", route->config->name);
    if (key && !log_shows_keys(route->log)) {
        digest_hex(digest, key, strlen(key));
        digest[DIGITS] = 0;
        key = digest;
    }
    buffer_printf(&text, "%s%s%s", key ? key : "", key ? ": " : "", why);
    log_write(route->log, &(log_entry){.level = LOG_WARNING,
                                       .event = event,
                                       .subject = subject.data,
                                       .msg = why,
                                       .text = text.data,
                                       .fields = {{"route", route->config->name, 0},
                                                  {key ? "key" : NULL, key, 0}}});
    buffer_free(&subject);
    buffer_free(&text);
}

static void respond_unprotected(gateway_route *route, const upstream_call *call, int64_t began_ns)
{
    static const http_problem no_answer = {
        .status = 502,
        .type = "no-answer",
        .title = "The upstream has given no answer that could be used",
        .detail = "It may have handled the request."};
    if (call->end == UPSTREAM_ANSWERED) {
        proxy_respond_first(route, call, began_ns);
        return;
    }
    int is_unreached = call->end == UPSTREAM_UNREACHED;
    log_upstream(route, is_unreached ? "upstream" : "no_answer", NULL, call->why.text);
    route_count(route, is_unreached ? ROUTE_UNAVAILABLE : ROUTE_UNKNOWN, began_ns);
    http_respond_problem(call->request, is_unreached ? &unreached : &no_answer);
}

static void pass_on(gateway_route *route, http_request *request, int64_t began_ns)
{
    proxy_state *state = route->state;
    upstream_call call = {.route = route->config, .request = request, .pool = &state->pool};
    upstream_run(&call);
    respond_unprotected(route, &call, began_ns);
    buffer_free(&call.body);
}

/* --- the request that is sent ----------------------------------------------------------------- */

/* What became of the request in this call. */
typedef enum sending_end {
    SENT_NOT = 0,   /* another copy has the key, or the store has not answered */
    SENT_KEPT,      /* what is to be stored is in `answer` */
    SENT_RELEASED,  /* the answer is not to be kept, and the key is free again */
    SENT_UNREACHED, /* and the key is free again */
    SENT_UNKNOWN    /* and it is to be sent again */
} sending_end;

typedef struct sending {
    gateway_route *route;
    proxy_state *state;
    const proxy_key *key;
    flight *flight;
    upstream_call call;
    int64_t began_ns;
    sending_end end;
    proxy_answer answer;
    int took_over; /* an attempt did not end, and what it sent is not known */
    int is_told;   /* the inbox has reported what became of this request */
    int passes_on; /* the request gets what the upstream has answered, whatever is stored */
} sending;

static const http_header *kept_headers(const sending *s)
{
    size_t count = 0;
    const http_header *from = s->call.headers;
    while (from[count].name)
        count++;
    http_header *kept =
                    region_alloc(http_request_memory(s->call.request), (count + 1) * sizeof *kept),
                *to = kept;
    for (; from->name; from++)
        if (proxy_header_is_kept(s->route->config, from->name))
            *to++ = *from;
    return kept;
}

static void make_answer(sending *s, answer_kind kind, unsigned status, semel_bytes body)
{
    static const http_header none[] = {{NULL, NULL}};
    s->answer = (proxy_answer){.kind = kind,
                               .status = status,
                               .headers = kind == ANSWER_KEPT ? kept_headers(s) : none,
                               .body = body};
    memcpy(s->answer.fingerprint, s->key->fingerprint, sizeof s->answer.fingerprint);
    if (s->took_over)
        proxy_answer_fits_all(&s->answer);
}

/* Stores the answer with the key. One whose headers leave no room for it is too large. */
static semel_status keep_answer(sending *s, semel_unit *unit, semel_error *err)
{
    buffer stored = {0};
    proxy_answer_write(&stored, &s->answer);
    if (stored.len > SEMEL_RESULT_MAX) {
        buffer_free(&stored);
        make_answer(s, ANSWER_TOO_LARGE, s->answer.status, (semel_bytes){NULL, 0});
        proxy_answer_write(&stored, &s->answer);
    }
    s->end = SENT_KEPT;
    semel_status status = semel_unit_set_result(unit, stored.data, stored.len, err);
    buffer_free(&stored);
    return status;
}

static semel_status keep_unknown(sending *s, semel_unit *unit, const char *why, semel_error *err)
{
    const char *text = region_printf(http_request_memory(s->call.request), "%s", why);
    make_answer(s, ANSWER_UNKNOWN, 502, semel_str(text));
    log_upstream(s->route, "unknown_outcome", s->key->text, why);
    return keep_answer(s, unit, err);
}

static semel_status take_unknown(sending *s, semel_unit *unit, semel_error *err)
{
    if (s->route->config->on_unknown == UNKNOWN_REPORT)
        return keep_unknown(s, unit, s->call.why.text, err);
    s->end = SENT_UNKNOWN;
    log_upstream(s->route, "unknown_outcome", s->key->text, s->call.why.text);
    return semel_fail(err, SEMEL_EHANDLER, "unknown outcome: %s", s->call.why.text);
}

/* An answer that is not replayed. Its request gets it; copies are told what is known, or sent. */
static semel_status take_unkept(sending *s, semel_unit *unit, semel_error *err)
{
    unsigned status = s->call.status;
    if (says_not_handled(status) || s->route->config->on_unknown == UNKNOWN_RETRY) {
        s->end = SENT_RELEASED;
        return semel_fail(err, SEMEL_ESTOPPED, "http %u is not replayed", status);
    }
    s->passes_on = s->call.end == UPSTREAM_ANSWERED;
    return keep_unknown(s, unit,
                        region_printf(http_request_memory(s->call.request),
                                      "The upstream answered %u, which is not replayed", status),
                        err);
}

/* SEMEL_ESTOPPED gives the key back as if nothing had been tried. */
static semel_status take_end(sending *s, semel_unit *unit, semel_error *err)
{
    const upstream_call *call = &s->call;
    int is_kept = call->status < sizeof s->state->replays && s->state->replays[call->status];
    if (call->end == UPSTREAM_UNKNOWN)
        return take_unknown(s, unit, err);
    if (call->end == UPSTREAM_UNREACHED) {
        s->end = SENT_UNREACHED;
        return semel_fail(err, SEMEL_ESTOPPED, "%s", call->why.text);
    }
    if (call->end == UPSTREAM_ANSWERED)
        make_answer(s, ANSWER_KEPT, call->status, (semel_bytes){call->body.data, call->body.len});
    else
        make_answer(s, ANSWER_TOO_LARGE, call->status, (semel_bytes){NULL, 0});
    return is_kept ? keep_answer(s, unit, err) : take_unkept(s, unit, err);
}

/* The handler of the inbox: the key is claimed. An earlier attempt that did not end may have
 * reached the upstream, with this content or another one: nothing of this request is stored as
 * its content. The library calls this once for a claim; a second call would be a second attempt,
 * which is told by its number. */
static semel_status send_once(semel_unit *unit, const semel_message *message, void *context,
                              semel_error *err)
{
    sending *s = context;
    (void)message;
    s->took_over = s->end == SENT_NOT && semel_unit_attempt(unit) > 1 &&
                   s->route->config->on_unknown == UNKNOWN_REPORT;
    if (!s->took_over)
        flight_claimed(s->flight);
    if (s->end != SENT_NOT || s->took_over) {
        buffer_free(&s->call.body);
        return keep_unknown(s, unit,
                            "The process that had sent the request has ended before it stored an "
                            "answer",
                            err);
    }
    s->call.unit = unit;
    upstream_run(&s->call);
    s->call.unit = NULL;
    return take_end(s, unit, err);
}

/* --- what everyone gets ----------------------------------------------------------------------- */

static void land_problem(const sending *s, const http_problem *problem, route_outcome outcome)
{
    flight_land(s->flight, &(flight_end){.problem = problem, .outcome = outcome});
}

static void fail_all(const sending *s, const http_problem *problem, route_outcome outcome)
{
    land_problem(s, problem, outcome);
    route_count(s->route, outcome, s->began_ns);
    http_respond_problem(s->call.request, problem);
}

static void fail_store(const sending *s, const semel_error *why)
{
    static const http_problem away = {.status = 503,
                                      .type = "store-unavailable",
                                      .title = "The store of keys does not answer",
                                      .detail = "The request was not sent.",
                                      .retry_after_s = 1};
    log_upstream(s->route, "store", NULL, why->text);
    fail_all(s, &away, ROUTE_UNAVAILABLE);
}

static void give_copy(const sending *s, const flight_end *end)
{
    if (!s->is_told)
        proxy_tell_copy(s->route, s->call.request, s->key, proxy_copy_outcome(s->key, end));
    proxy_respond_copy(s->route, s->call.request, s->key, end, s->began_ns);
}

/* The leader is answered last: its memory has what the copies get. */
static void give_answer(const sending *s, const proxy_answer *answer, int is_first)
{
    const flight_end end = {.answer = answer, .outcome = ROUTE_REPLAYED};
    flight_land(s->flight, &end);
    if (is_first && (answer->kind == ANSWER_KEPT || s->passes_on))
        proxy_respond_first(s->route, &s->call, s->began_ns);
    else if (is_first && answer->kind == ANSWER_UNKNOWN)
        proxy_respond_unknown(
            s->route, s->call.request, s->key,
            region_copy(http_request_memory(s->call.request), answer->body.data, answer->body.len),
            0, s->began_ns);
    else if (is_first)
        proxy_respond_too_large(s->route, s->call.request, answer, 0, s->began_ns);
    else
        give_copy(s, &end);
}

/* Nothing is stored of it, and the next copy is sent or finds an attempt that did not end. */
static void give_unknown(sending *s, const char *why)
{
    make_answer(s, ANSWER_UNKNOWN, 502, semel_str(why));
    give_answer(s, &s->answer, 1);
}

static int give_stored(const sending *s, semel_bytes stored)
{
    proxy_answer answer;
    if (!proxy_answer_read(&answer, http_request_memory(s->call.request), stored))
        return 0;
    give_answer(s, &answer, 0);
    return 1;
}

static int expects_new(const proxy_state *state)
{
    enum { NEW_KEYS = 4 };
    return atomic_load_explicit(&state->new_keys, memory_order_relaxed) >= NEW_KEYS;
}

static void note_key(proxy_state *state, int is_new)
{
    if (!is_new)
        atomic_store_explicit(&state->new_keys, 0, memory_order_relaxed);
    else if (!expects_new(state))
        atomic_fetch_add_explicit(&state->new_keys, 1, memory_order_relaxed);
}

/* The look: 1 if that was all. */
static int look_first(const sending *s, semel_error *err)
{
    semel_marker *marker = NULL;
    int is_done = 1;
    const proxy_key *key = s->key;
    if (expects_new(s->state))
        return 0;
    if (semel_inbox_look_key(&marker, s->state->inbox, (semel_bytes){key->text, key->len}, err)) {
        fail_store(s, err);
        return 1;
    }
    note_key(s->state, marker->state == SEMEL_MARKER_NONE);
    if (marker->state == SEMEL_MARKER_DONE)
        is_done = give_stored(s, marker->result);
    else if (marker->state == SEMEL_MARKER_CLAIMED &&
             s->route->config->on_in_flight == SEMEL_IN_FLIGHT_WAIT)
        flight_elsewhere(s->flight, key, s->call.request, s->began_ns, s->is_told);
    else
        is_done = 0;
    semel_marker_free(marker);
    return is_done;
}

static int give_looked_up(const sending *s)
{
    semel_marker *marker = NULL;
    int is_done = 0;
    const proxy_key *key = s->key;
    if (!semel_inbox_look_key(&marker, s->state->inbox, (semel_bytes){key->text, key->len}, NULL) &&
        marker->state == SEMEL_MARKER_DONE)
        is_done = give_stored(s, marker->result);
    semel_marker_free(marker);
    return is_done;
}

/* The answer is here, and it is not certain that it was stored. What the store says now is what
 * copies will get. */
static void settle_unsure(sending *s, const semel_error *why)
{
    log_upstream(s->route, "unknown_outcome", s->key->text, why->text);
    if (!give_looked_up(s))
        give_unknown(s, "The upstream was reached, and its answer could not be stored");
}

/* By the content of the row. What is stored may be for any content. */
static void give_mismatch(const sending *s, const http_problem *to_others)
{
    if (give_looked_up(s))
        return;
    land_problem(s, to_others, ROUTE_CONFLICT);
    proxy_respond_mismatch(s->route, s->call.request, s->began_ns);
}

static void give_not_sent(sending *s, semel_outcome outcome, semel_bytes stored,
                          const semel_error *why)
{
    static const http_problem no_answer = {
        .status = 502,
        .type = "no-answer",
        .title = "A request with this key was handled, and its answer is not known",
        .detail = "The request is not sent again."};
    static const http_problem again = {.status = 409,
                                       .type = "in-flight",
                                       .title = "A request with this key is being handled",
                                       .retry_after_s = 1};
    int waits = s->route->config->on_in_flight == SEMEL_IN_FLIGHT_WAIT;
    if (outcome == SEMEL_REPLAYED && give_stored(s, stored))
        return;
    if (outcome == SEMEL_IN_PROGRESS && waits) {
        flight_elsewhere(s->flight, s->key, s->call.request, s->began_ns, s->is_told);
    } else if (outcome == SEMEL_IN_PROGRESS) {
        fail_all(s, &again, ROUTE_CONFLICT);
    } else if (outcome == SEMEL_MISMATCH) {
        give_mismatch(s, &again);
    } else if (outcome == SEMEL_UNDECIDED) {
        fail_store(s, why);
    } else {
        fail_all(s, &no_answer, ROUTE_UNKNOWN);
    }
}

static void give_outcome(sending *s, semel_status status, semel_outcome outcome, semel_bytes stored,
                         const semel_error *why)
{
    if (s->end == SENT_NOT) {
        give_not_sent(s, outcome, stored, why);
    } else if (s->end == SENT_UNREACHED) {
        log_upstream(s->route, "upstream", s->key->text, s->call.why.text);
        fail_all(s, &unreached, ROUTE_UNAVAILABLE);
    } else if (s->end == SENT_UNKNOWN) {
        give_unknown(s, s->call.why.text);
    } else if (s->end == SENT_RELEASED || (status == SEMEL_OK && outcome == SEMEL_PROCESSED)) {
        give_answer(s, &s->answer, 1);
    } else {
        settle_unsure(s, why);
    }
}

static void receive(sending *s)
{
    semel_outcome outcome;
    semel_result *result = NULL;
    semel_error why = {0};
    const semel_message message = proxy_message(s->route, s->call.request, s->key);
    semel_status status = semel_inbox_receive_result(&outcome, &result, s->state->inbox, &message,
                                                     send_once, s, &why);
    s->is_told = 1;
    semel_bytes stored = result ? semel_result_bytes(result) : (semel_bytes){NULL, 0};
    note_key(s->state, s->end != SENT_NOT);
    give_outcome(s, status, outcome, stored, &why);
    semel_result_free(result);
}

static void protect(gateway_route *route, http_request *request, const proxy_key *key,
                    int64_t began_ns)
{
    proxy_state *state = route->state;
    semel_error why = {0};
    sending s = {.route = route,
                 .state = state,
                 .key = key,
                 .call = {.route = route->config, .request = request, .pool = &state->pool},
                 .began_ns = began_ns};
    if (flights_enter(&s.flight, state->flights, key, request, began_ns) != FLIGHT_LEADS)
        return;
    if (!look_first(&s, &why))
        receive(&s);
    buffer_free(&s.call.body);
}

/* --- one request ------------------------------------------------------------------------------ */

/* A method that by its definition changes nothing needs no protection. */
static int is_safe(const char *method)
{
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 ||
           strcmp(method, "OPTIONS") == 0;
}

static void refuse_key(gateway_route *route, http_request *request, key_finding found,
                       const char *why, int64_t began_ns)
{
    int is_missing = found == KEY_MISSING;
    region *memory = http_request_memory(request);
    const char *name = route->config->key_header;
    route_count(route, is_missing ? ROUTE_MISSING_KEY : ROUTE_BAD_REQUEST, began_ns);
    http_respond_problem(
        request,
        &(http_problem){
            .status = 400,
            .type = is_missing ? "missing-key" : "bad-key",
            .title = region_printf(memory, "%s is %s", name, is_missing ? "missing" : "not valid"),
            .detail = is_missing
                          ? region_printf(memory,
                                          "Send the header %s: a new value for each operation, and "
                                          "the same value for each copy of it. %s",
                                          name, why)
                          : why});
}

void proxy_handle(gateway_route *route, http_request *request)
{
    int64_t began_ns = steady_clock_ns();
    proxy_key key = {0};
    const char *why = NULL;
    if (is_safe(http_request_method(request))) {
        pass_on(route, request, began_ns);
        return;
    }
    key_finding found = proxy_key_read(&key, route->config, request, &why);
    if (found == KEY_FOUND)
        protect(route, request, &key, began_ns);
    else if (found == KEY_MISSING && !route->config->key_required)
        pass_on(route, request, began_ns);
    else
        refuse_key(route, request, found, why, began_ns);
}
