/* kafka://user:password@host:port,host:port/topic?name=value. All parts and the values of
 * parameters may have %-escapes. Nothing is guessed: a parameter that would have no effect where it
 * stands is refused, because its author counts on it. An error names what is wrong; it shows
 * nothing of the part before the ?, and no value of a setting of librdkafka, which may be a secret.
 *
 * The settings of librdkafka (X.name=value) are in settings.c. */
#include "transport/kafka/address.h"

#include "base/authority.h"
#include "base/text.h"
#include "transport/kafka/settings.h"

#include <stdio.h>
#include <string.h>

enum { PORT_DEFAULT = 9092 };
enum { PREFETCH_DEFAULT = 500, PREFETCH_MAX = 100000 };
enum { AHEAD_DEFAULT = 10000, AHEAD_MAX = 1000000 };
enum { CONNECT_DEFAULT_MS = 5000, CONNECT_MAX_MS = 3600000 };

#define PARAMETERS \
    "group,from,assignment,instance,dead,prefetch,ahead,envelope,loss,name,connect_ms"

static int is_given(const url *parsed, const char *name)
{
    return url_text(parsed, name, NULL) != NULL;
}

static semel_status no_memory(semel_error *err)
{
    return semel_fail(err, SEMEL_ENOMEM, "out of memory reading a URL");
}

/* --- hosts ------------------------------------------------------------------------------------ */

static semel_status append_server(text_buffer *servers, const authority *place, semel_error *err)
{
    char port[16];
    const char *host = place->host ? place->host : "localhost";
    int is_address = strchr(host, ':') != NULL;
    if (strpbrk(host, ", /\\") || place->user || place->password)
        return semel_fail(
            err, SEMEL_EINVAL,
            "URL: the hosts read host:port, joined with commas, behind one @ at most");
    (void)snprintf(port, sizeof port, ":%u", (unsigned)(place->port ? place->port : PORT_DEFAULT));
    if (servers->len)
        text_append_z(servers, ",");
    text_append_z(servers, is_address ? "[" : "");
    text_append_z(servers, host);
    text_append_z(servers, is_address ? "]" : "");
    text_append_z(servers, port);
    return SEMEL_OK;
}

/* One host of the list; its text ends with a NUL in place of the comma. */
static semel_status read_server(text_buffer *servers, mem_arena *arena, const char *from,
                                size_t len, semel_error *err)
{
    authority place;
    const char *piece = arena_copy(arena, from, len);
    if (!piece)
        return no_memory(err);
    semel_status status = authority_read(&place, arena, piece, "host", err);
    return status ? status : append_server(servers, &place, err);
}

static semel_status read_servers(kafka_address *out, const char *from, size_t len, semel_error *err)
{
    text_buffer servers = {0};
    semel_status status = SEMEL_OK;
    for (const char *at = from, *end = from + len; !status && at;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        size_t piece = comma ? (size_t)(comma - at) : (size_t)(end - at);
        if (!piece && len)
            status = semel_fail(err, SEMEL_EINVAL, "URL: there is a comma without a host");
        else
            status = read_server(&servers, &out->arena, at, piece, err);
        at = comma ? comma + 1 : NULL;
    }
    if (!status && !servers.failed)
        out->servers = arena_copy(&out->arena, servers.bytes, servers.len);
    mem_free(servers.bytes);
    return status ? status : out->servers ? SEMEL_OK : no_memory(err);
}

/* --- user:password@hosts/topic ---------------------------------------------------------------- */

int kafka_topic_is_valid(const char *topic)
{
    static const char known[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t len = strlen(topic);
    return len && len <= KAFKA_TOPIC_MAX && strspn(topic, known) == len &&
           strcmp(topic, ".") != 0 && strcmp(topic, "..") != 0;
}

static semel_status check_topic(const char *what, const char *topic, semel_error *err)
{
    return !*topic || kafka_topic_is_valid(topic)
               ? SEMEL_OK
               : semel_fail(err, SEMEL_EINVAL,
                            "URL: the %s is no name of a topic: 1 to %d letters, digits and . _ -",
                            what, KAFKA_TOPIC_MAX);
}

static semel_status read_text(const char **out, mem_arena *arena, const char *what,
                              const char *from, size_t len, semel_error *err)
{
    semel_status status = authority_decode(out, arena, what, from, len, err);
    if (!status && !*out)
        *out = "";
    return status;
}

static semel_status read_user(kafka_address *out, const char *from, size_t len, semel_error *err)
{
    const char *colon = memchr(from, ':', len);
    size_t user = colon ? (size_t)(colon - from) : len;
    semel_status status = read_text(&out->user, &out->arena, "user", from, user, err);
    if (!status && colon)
        status = read_text(&out->password, &out->arena, "password", colon + 1, len - user - 1, err);
    if (!status && (!*out->user || !*out->password))
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: before the @ it takes user:password, for SASL; other logins are "
                          "settings of the client (X.sasl.mechanism=...)");
    return status;
}

static semel_status read_place(kafka_address *out, const url *parsed, semel_error *err)
{
    const char *rest = parsed->rest, *slash = strchr(rest, '/');
    size_t len = slash ? (size_t)(slash - rest) : strlen(rest);
    const char *at = memchr(rest, '@', len);
    const char *hosts = at ? at + 1 : rest, *path = slash ? slash + 1 : "";
    semel_status status = at ? read_user(out, rest, (size_t)(at - rest), err) : SEMEL_OK;
    if (!status)
        status = read_servers(out, hosts, len - (size_t)(hosts - rest), err);
    if (!status)
        status = read_text(&out->topic, &out->arena, "topic", path, strlen(path), err);
    return status ? status : check_topic("path", out->topic, err);
}

/* --- parameters ------------------------------------------------------------------------------- */

static semel_status read_texts(kafka_address *out, const url *parsed, semel_error *err)
{
    const struct {
        const char *name;
        const char **value;
    } texts[] = {{"group", &out->group},
                 {"instance", &out->instance},
                 {"dead", &out->dead},
                 {"name", &out->name}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *value = url_text(parsed, texts[i].name, NULL);
        semel_status status =
            value ? read_text(texts[i].value, &out->arena, texts[i].name, value, strlen(value), err)
                  : SEMEL_OK;
        if (!status && value && !**texts[i].value)
            status = semel_fail(err, SEMEL_EINVAL, "URL: %s is empty; leave it out", texts[i].name);
        if (status)
            return status;
    }
    return check_topic("topic of dead=", out->dead, err);
}

static semel_status read_numbers(kafka_address *out, const url *parsed, semel_error *err)
{
    semel_status status =
        url_number(&out->prefetch, parsed, "prefetch", PREFETCH_DEFAULT, 1, PREFETCH_MAX, err);
    uint32_t ahead = out->prefetch > AHEAD_DEFAULT ? out->prefetch : AHEAD_DEFAULT;
    if (!status)
        status = url_number(&out->ahead, parsed, "ahead", ahead, out->prefetch, AHEAD_MAX, err);
    if (!status)
        status = url_number(&out->connect_ms, parsed, "connect_ms", CONNECT_DEFAULT_MS, 1,
                            CONNECT_MAX_MS, err);
    return status;
}

/* Each is on if it is the first of its two words; none is by default. */
static semel_status read_switches(kafka_address *out, const url *parsed, semel_error *err)
{
    static const char *const froms[] = {"latest", "earliest", NULL};
    static const char *const assignments[] = {"cooperative", "eager", NULL};
    static const char *const envelopes[] = {"cloudevents", "plain", NULL};
    static const char *const losses[] = {"warn", "refuse", NULL};
    const struct {
        const char *name;
        const char *const *words;
        int *value;
    } switches[] = {{"from", froms, &out->latest},
                    {"assignment", assignments, &out->cooperative},
                    {"envelope", envelopes, &out->cloudevents},
                    {"loss", losses, &out->allow_loss}};
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < sizeof switches / sizeof *switches; i++) {
        int index = 1;
        status = url_choice(&index, parsed, switches[i].name, switches[i].words, 1, err);
        *switches[i].value = index == 0;
    }
    return status;
}

static semel_status check_companions(const kafka_address *out, const url *parsed, semel_error *err)
{
    static const char *const need_group[] = {"from",     "assignment", "instance",
                                             "prefetch", "ahead",      "dead"};
    if (*out->group && !*out->topic)
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: a group needs the topic that it receives, as in "
                          "kafka://host/topic?group=name");
    for (size_t i = 0; i < sizeof need_group / sizeof *need_group; i++)
        if (is_given(parsed, need_group[i]) && !*out->group)
            return semel_fail(err, SEMEL_EINVAL, "URL: %s says nothing without group",
                              need_group[i]);
    if (*out->dead && strcmp(out->dead, out->topic) == 0)
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: dead names the topic that is received: what is rejected would come "
                          "again for ever");
    return SEMEL_OK;
}

static semel_status read_parameters(kafka_address *out, const url *parsed, semel_error *err)
{
    semel_status status = url_only(parsed, PARAMETERS, err);
    if (!status)
        status = read_numbers(out, parsed, err);
    if (!status)
        status = read_switches(out, parsed, err);
    if (!status)
        status = read_texts(out, parsed, err);
    return status ? status : check_companions(out, parsed, err);
}

/* --- all of it -------------------------------------------------------------------------------- */

static semel_status check_scheme(const url *parsed, const char *text, semel_error *err)
{
    if (strcmp(parsed->scheme, "kafka") != 0)
        return semel_fail(err, SEMEL_EINVAL, "URL: it begins with kafka:");
    return url_has_slashes(parsed, text, "host/topic", err);
}

/* The parameters without those of librdkafka, whose names all begin in one way. */
static url without_settings(const url *parsed)
{
    url own = *parsed;
    own.parameter_count = 0;
    for (size_t i = 0; i < parsed->parameter_count; i++)
        if (!kafka_setting_is_named(parsed->parameters[i].name))
            own.parameters[own.parameter_count++] = parsed->parameters[i];
    return own;
}

/* An & that was not escaped in a secret makes the rest of it a name, and names are shown. */
static semel_status check_names(const url *parsed, semel_error *err)
{
    int behind_secret = 0;
    for (size_t i = 0; i < parsed->parameter_count; i++) {
        url one = {.scheme = parsed->scheme, .parameter_count = 1};
        const char *name = parsed->parameters[i].name;
        int is_setting = kafka_setting_is_named(name);
        one.parameters[0] = parsed->parameters[i];
        if (behind_secret && !is_setting && url_only(&one, PARAMETERS, NULL) != SEMEL_OK)
            return semel_fail(err, SEMEL_EINVAL,
                              "URL: a name behind a secret is not known, and not shown; an & in a "
                              "value is written %%26");
        behind_secret |= is_setting && kafka_setting_is_secret(name);
    }
    return SEMEL_OK;
}

semel_status kafka_address_read(kafka_address *out, const char *text, semel_error *err)
{
    url parsed;
    *out = (kafka_address){.user = "",
                           .password = "",
                           .topic = "",
                           .group = "",
                           .instance = "",
                           .dead = "",
                           .name = "semel"};
    semel_status status = url_parse(&parsed, text, err);
    if (!status)
        status = check_scheme(&parsed, text, err);
    if (!status)
        status = url_one_place(&parsed, err);
    if (!status)
        status = check_names(&parsed, err);
    if (!status)
        status = read_place(out, &parsed, err);
    if (!status) {
        url own = without_settings(&parsed);
        status = read_parameters(out, &own, err);
    }
    if (!status)
        status = kafka_settings_read(out, &parsed, err);
    explicit_bzero(&parsed, sizeof parsed);
    if (status)
        kafka_address_free(out);
    return status;
}

/* The memory belongs to the address: it was read into there. */
static void overwrite(const char *text)
{
    union {
        const char *from;
        char *to;
    } memory = {text};
    if (*text)
        explicit_bzero(memory.to, strlen(text));
}

void kafka_address_free(kafka_address *address)
{
    overwrite(address->password);
    for (size_t i = 0; i < address->setting_count; i++)
        overwrite(address->settings[i].value);
    arena_free(&address->arena);
    address->setting_count = 0;
    address->password = "";
}

static void hide(char *text, const char *secret)
{
    size_t len = strlen(secret);
    if (len)
        for (char *at = text; (at = strstr(at, secret)) != NULL; at += len)
            memset(at, '*', len);
}

void kafka_address_hide(const kafka_address *address, char *text)
{
    hide(text, address->password);
    for (size_t i = 0; i < address->setting_count; i++)
        if (kafka_setting_is_secret(address->settings[i].name))
            hide(text, address->settings[i].value);
}
