/* Copies that the inbox of a route does not see.
 *
 * The inbox reports what it receives. A copy whose answer a look has found, one that has waited for
 * the first request, and one that was refused because of it never come to the inbox. Counts and the
 * history take them for copies like all others, so the gateway tells the observer of the store of
 * them, each once and before it is answered: a client that has the answer finds it counted. */
#include "program/gateway/proxy.h"

semel_message proxy_message(const gateway_route *route, const http_request *request,
                            const proxy_key *key)
{
    return (semel_message){.size = sizeof(semel_message),
                           .id = {key->text, key->len},
                           .type = http_request_method(request),
                           .source = route->config->path,
                           .body = semel_str(key->fingerprint)};
}

/* A request that was handled without an answer that is known is not sent again. */
semel_outcome proxy_copy_outcome(const proxy_key *key, const flight_end *end)
{
    if (end->answer)
        return proxy_answer_fits(end->answer, key) ? SEMEL_REPLAYED : SEMEL_MISMATCH;
    return end->outcome == ROUTE_CONFLICT  ? SEMEL_IN_PROGRESS
           : end->outcome == ROUTE_UNKNOWN ? SEMEL_DUPLICATE
                                           : SEMEL_UNDECIDED;
}

static const char *reason_of(semel_outcome outcome)
{
    return outcome == SEMEL_MISMATCH      ? "a request with this key but other content came before"
           : outcome == SEMEL_IN_PROGRESS ? "a request with this key is being handled"
                                          : NULL;
}

void proxy_tell_copy(const gateway_route *route, const http_request *request, const proxy_key *key,
                     semel_outcome outcome)
{
    const proxy_state *state = route->state;
    const gateway_links *to = route->links;
    const semel_message message = proxy_message(route, request, key);
    if (!to->observer || outcome == SEMEL_UNDECIDED)
        return;
    to->observer(to->observer_context, &(semel_event){.size = sizeof(semel_event),
                                                      .kind = SEMEL_EVENT_RECEIVED,
                                                      .name = state->inbox_name,
                                                      .message = &message,
                                                      .key = message.id,
                                                      .outcome = outcome,
                                                      .error = reason_of(outcome)});
}
