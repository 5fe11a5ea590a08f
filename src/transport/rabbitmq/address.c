/* amqp[s]://user:password@host:port/vhost?name=value. All parts and the values of parameters may
 * have %-escapes. Nothing is guessed: a parameter that would have no effect where it stands is
 * refused, because its author counts on it. An error names what is wrong; it shows nothing of the
 * part before the ?.
 *
 * Which of it can lose messages is in address_losses.c. */
#include "transport/rabbitmq/address.h"

#include "base/authority.h"
#include "base/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORT_PLAIN = 5672, PORT_TLS = 5671 };
enum { PREFETCH_DEFAULT = 200, PREFETCH_MAX = 65535, HEARTBEAT_DEFAULT_S = 30 };
enum { HEARTBEAT_MAX_S = 3600, CONNECT_DEFAULT_MS = 5000, CONNECT_MAX_MS = 3600000 };
enum { DELIVERY_LIMIT_MAX = 1000000000 };

#define PARAMETERS                                                                               \
    "queue,exchange,exchange_type,bind,declare,type,durable,delivery_limit,dead_letter,"         \
    "dead_letter_key,single_active,prefetch,heartbeat,connect_ms,persistent,envelope,loss,name," \
    "ca,certificate,key,verify"

static int is_given(const url *parsed, const char *name)
{
    return url_text(parsed, name, NULL) != NULL;
}

/* --- texts ------------------------------------------------------------------------------------ */

static semel_status put_text(char *out, size_t room, const char *what, const char *text,
                             semel_error *err)
{
    if (strlen(text) >= room)
        return semel_fail(err, SEMEL_EINVAL, "URL: the %s has over %zu bytes", what, room - 1);
    memcpy(out, text, strlen(text) + 1);
    return SEMEL_OK;
}

static semel_status put_parameter(char *out, size_t room, mem_arena *arena, const url *parsed,
                                  const char *name, semel_error *err)
{
    const char *value = url_text(parsed, name, NULL), *decoded = NULL;
    if (!value)
        return SEMEL_OK;
    semel_status status = authority_decode(&decoded, arena, name, value, strlen(value), err);
    return status ? status : put_text(out, room, name, decoded, err);
}

static semel_status read_texts(rabbit_address *out, mem_arena *arena, const url *parsed,
                               semel_error *err)
{
    const struct {
        const char *name;
        char *value;
        size_t room;
    } texts[] = {{"exchange", out->exchange, sizeof out->exchange},
                 {"exchange_type", out->exchange_type, sizeof out->exchange_type},
                 {"queue", out->queue, sizeof out->queue},
                 {"dead_letter", out->dead_letter, sizeof out->dead_letter},
                 {"dead_letter_key", out->dead_letter_key, sizeof out->dead_letter_key},
                 {"name", out->name, sizeof out->name},
                 {"ca", out->ca, sizeof out->ca},
                 {"certificate", out->certificate, sizeof out->certificate},
                 {"key", out->key, sizeof out->key}};
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < sizeof texts / sizeof *texts; i++)
        status = put_parameter(texts[i].value, texts[i].room, arena, parsed, texts[i].name, err);
    out->has_dead_letter = is_given(parsed, "dead_letter");
    return status;
}

/* --- user:password@host:port/vhost ------------------------------------------------------------ */

/* The broker's own default user and password, as with every client, if the URL names neither. */
static semel_status read_user(rabbit_address *out, const authority *place, semel_error *err)
{
    int anonymous = !place->user && !place->password;
    const char *user = anonymous ? "guest" : place->user ? place->user : "";
    const char *password = anonymous ? "guest" : place->password ? place->password : "";
    semel_status status = put_text(out->user, sizeof out->user, "user", user, err);
    return status ? status
                  : put_text(out->password, sizeof out->password, "password", password, err);
}

static semel_status read_place(rabbit_address *out, mem_arena *arena, const url *parsed,
                               semel_error *err)
{
    authority place;
    const char *slash = strchr(parsed->rest, '/');
    semel_status status = authority_read(&place, arena, parsed->rest, "virtual host", err);
    if (status)
        return status;
    if (slash && strchr(slash + 1, '/'))
        return semel_fail(err, SEMEL_EINVAL, "URL: a / in the virtual host's name is written %%2F");
    out->port = place.port ? place.port : out->tls ? PORT_TLS : PORT_PLAIN;
    status = read_user(out, &place, err);
    if (!status)
        status = put_text(out->host, sizeof out->host, "host",
                          place.host ? place.host : "localhost", err);
    return status ? status
                  : put_text(out->vhost, sizeof out->vhost, "virtual host",
                             *place.path ? place.path : "/", err);
}

/* --- numbers and choices ---------------------------------------------------------------------- */

static semel_status read_numbers(rabbit_address *out, const url *parsed, semel_error *err)
{
    semel_status status =
        url_number(&out->prefetch, parsed, "prefetch", PREFETCH_DEFAULT, 1, PREFETCH_MAX, err);
    if (!status)
        status = url_number(&out->heartbeat_s, parsed, "heartbeat", HEARTBEAT_DEFAULT_S, 0,
                            HEARTBEAT_MAX_S, err);
    if (!status)
        status = url_number(&out->connect_ms, parsed, "connect_ms", CONNECT_DEFAULT_MS, 1,
                            CONNECT_MAX_MS, err);
    return status;
}

static semel_status read_delivery_limit(rabbit_address *out, const url *parsed, semel_error *err)
{
    const char *text = url_text(parsed, "delivery_limit", NULL);
    uint32_t limit = 0;
    out->delivery_limit = RABBIT_LIMIT_UNSET;
    if (!text)
        return SEMEL_OK;
    if (strcmp(text, "-1") != 0 &&
        url_number(&limit, parsed, "delivery_limit", 0, 0, DELIVERY_LIMIT_MAX, NULL))
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: delivery_limit is -1 for none, or a number from 0 to %d, not "
                          "\"%s\"",
                          DELIVERY_LIMIT_MAX, text);
    out->delivery_limit = strcmp(text, "-1") == 0 ? -1 : (int64_t)limit;
    return SEMEL_OK;
}

/* Each is on if it is the first of its two words. */
static semel_status read_switches(rabbit_address *out, const url *parsed, semel_error *err)
{
    static const char *const yes_no[] = {"yes", "no", NULL};
    static const char *const types[] = {"quorum", "classic", NULL};
    static const char *const envelopes[] = {"cloudevents", "plain", NULL};
    static const char *const losses[] = {"warn", "refuse", NULL};
    const struct {
        const char *name;
        const char *const *words;
        int *value;
        int usual;
    } switches[] = {{"durable", yes_no, &out->durable, 1},
                    {"single_active", yes_no, &out->single_active, 0},
                    {"persistent", yes_no, &out->persistent, 1},
                    {"verify", yes_no, &out->verify, 1},
                    {"type", types, &out->quorum, 1},
                    {"envelope", envelopes, &out->cloudevents, 0},
                    {"loss", losses, &out->allow_loss, 0}};
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < sizeof switches / sizeof *switches; i++) {
        int index = 0;
        status = url_choice(&index, parsed, switches[i].name, switches[i].words, !switches[i].usual,
                            err);
        *switches[i].value = index == 0;
    }
    return status;
}

static semel_status read_declare(rabbit_address *out, const url *parsed, semel_error *err)
{
    static const char *const words[] = {"check", "yes", "no", NULL};
    int index = 0;
    semel_status status = url_choice(&index, parsed, "declare", words, RABBIT_CHECK, err);
    out->declare = (rabbit_declare)index;
    return status;
}

/* The broker's own, and those of plug-ins, which begin with "x-". */
static semel_status check_exchange_type(const rabbit_address *out, semel_error *err)
{
    static const char *const known[] = {"topic", "direct", "fanout", "headers"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(out->exchange_type, known[i]) == 0)
            return SEMEL_OK;
    if (strncmp(out->exchange_type, "x-", 2) == 0)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_EINVAL,
                      "URL: exchange_type is topic, direct, fanout, headers or one of a plug-in "
                      "(x-...), not \"%.32s\"",
                      out->exchange_type);
}

/* --- bindings --------------------------------------------------------------------------------- */

/* Adds one pattern behind the others; there is always room for the empty one at the end. */
static semel_status add_binding(rabbit_address *out, size_t *used, mem_arena *arena,
                                const char *from, size_t len, semel_error *err)
{
    const char *pattern = NULL;
    semel_status status = authority_decode(&pattern, arena, "bind", from, len, err);
    if (status)
        return status;
    if (!*pattern || strlen(pattern) >= RABBIT_NAME_ROOM)
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: bind takes patterns of 1 to %d bytes, joined with commas",
                          RABBIT_NAME_ROOM - 1);
    size_t room = sizeof out->bindings - *used - 1;
    if (strlen(pattern) >= room)
        return semel_fail(err, SEMEL_EINVAL, "URL: bind has over %zu bytes",
                          sizeof out->bindings - 2);
    memcpy(out->bindings + *used, pattern, strlen(pattern) + 1);
    *used += strlen(pattern) + 1;
    return SEMEL_OK;
}

static semel_status read_bindings(rabbit_address *out, mem_arena *arena, const url *parsed,
                                  semel_error *err)
{
    const char *at = url_text(parsed, "bind", "#");
    semel_status status = SEMEL_OK;
    size_t used = 0;
    if (!out->exchange[0] || !out->queue[0])
        return SEMEL_OK;
    while (!status && at) {
        size_t len = strcspn(at, ",");
        status = add_binding(out, &used, arena, at, len, err);
        at = at[len] ? at + len + 1 : NULL;
    }
    return status;
}

/* --- what makes no sense ---------------------------------------------------------------------- */

/* Parameters that need another one. */
static semel_status check_companions(const url *parsed, semel_error *err)
{
    static const struct {
        const char *name, *needs;
    } pairs[] = {{"key", "certificate"},
                 {"certificate", "key"},
                 {"dead_letter", "queue"},
                 {"dead_letter_key", "dead_letter"},
                 {"exchange_type", "exchange"},
                 {"bind", "exchange"},
                 {"bind", "queue"},
                 {"type", "queue"},
                 {"prefetch", "queue"},
                 {"single_active", "queue"},
                 {"delivery_limit", "queue"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (is_given(parsed, pairs[i].name) && !is_given(parsed, pairs[i].needs))
            return semel_fail(err, SEMEL_EINVAL, "URL: %s says nothing without %s", pairs[i].name,
                              pairs[i].needs);
    return SEMEL_OK;
}

static semel_status check_tls(const url *parsed, semel_error *err)
{
    static const char *const names[] = {"ca", "certificate", "key", "verify"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_given(parsed, names[i]))
            return semel_fail(err, SEMEL_EINVAL, "URL: %s is for amqps:, which has TLS", names[i]);
    return SEMEL_OK;
}

static semel_status check_queue(const rabbit_address *a, semel_error *err)
{
    if (a->quorum && !a->durable && a->queue[0])
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: a quorum queue is always durable: durable=no goes with "
                          "type=classic");
    if (!a->quorum && a->delivery_limit != RABBIT_LIMIT_UNSET)
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: delivery_limit is for quorum queues; a classic queue has none");
    if (a->has_dead_letter && !a->dead_letter[0] && !a->dead_letter_key[0])
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: an empty dead_letter is the default exchange, which needs the "
                          "name of a queue as dead_letter_key");
    return SEMEL_OK;
}

static semel_status check_emptiness(const rabbit_address *a, const url *parsed, semel_error *err)
{
    const struct {
        const char *name, *value;
    } texts[] = {{"queue", a->queue}, {"exchange", a->exchange},       {"name", a->name},
                 {"ca", a->ca},       {"certificate", a->certificate}, {"key", a->key}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (is_given(parsed, texts[i].name) && !*texts[i].value)
            return semel_fail(err, SEMEL_EINVAL, "URL: %s is empty; leave it out", texts[i].name);
    return SEMEL_OK;
}

/* A direct exchange takes a binding for a routing key, not a pattern: all of them cannot be asked
 * for. */
static semel_status check_bindings(const rabbit_address *a, const url *parsed, semel_error *err)
{
    if (a->declare == RABBIT_DECLARE && a->queue[0] && a->exchange[0] &&
        strcmp(a->exchange_type, "direct") == 0 && !is_given(parsed, "bind"))
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: exchange_type=direct needs bind, the routing keys of the queue");
    return SEMEL_OK;
}

static semel_status check_sense(const rabbit_address *a, const url *parsed, semel_error *err)
{
    semel_status status = check_companions(parsed, err);
    if (!status && !a->tls)
        status = check_tls(parsed, err);
    if (!status)
        status = check_emptiness(a, parsed, err);
    if (!status)
        status = check_exchange_type(a, err);
    if (!status)
        status = check_queue(a, err);
    return status ? status : check_bindings(a, parsed, err);
}

/* --- all of it -------------------------------------------------------------------------------- */

static semel_status read_parameters(rabbit_address *out, mem_arena *arena, const url *parsed,
                                    semel_error *err)
{
    semel_status status = read_numbers(out, parsed, err);
    if (!status)
        status = read_delivery_limit(out, parsed, err);
    if (!status)
        status = read_switches(out, parsed, err);
    if (!status)
        status = read_declare(out, parsed, err);
    if (!status)
        status = read_texts(out, arena, parsed, err);
    if (!status)
        status = read_bindings(out, arena, parsed, err);
    return status ? status : check_sense(out, parsed, err);
}

static semel_status read_scheme(rabbit_address *out, const url *parsed, const char *text,
                                semel_error *err)
{
    out->tls = strcmp(parsed->scheme, "amqps") == 0;
    if (!out->tls && strcmp(parsed->scheme, "amqp") != 0)
        return semel_fail(err, SEMEL_EINVAL, "URL: it begins with amqp: or amqps:");
    return url_has_slashes(parsed, text, "host", err);
}

semel_status rabbit_address_read(rabbit_address *out, const char *text, semel_error *err)
{
    url parsed;
    mem_arena arena = {0};
    *out = (rabbit_address){.exchange_type = "topic", .name = "semel"};
    semel_status status = url_parse(&parsed, text, err);
    if (!status)
        status = read_scheme(out, &parsed, text, err);
    if (!status)
        status = url_one_place(&parsed, err);
    if (!status)
        status = url_only(&parsed, PARAMETERS, err);
    if (!status)
        status = read_place(out, &arena, &parsed, err);
    if (!status)
        status = read_parameters(out, &arena, &parsed, err);
    arena_free(&arena);
    return status;
}
