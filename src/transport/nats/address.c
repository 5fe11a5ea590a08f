/* nats[s]://user:password@host:port/STREAM?name=value. All parts and the values of parameters may
 * have %-escapes. Nothing is guessed: a parameter that would have no effect where it stands is
 * refused, because its author counts on it. An error names what is wrong; it shows nothing of the
 * part before the ?. */
#include "transport/nats/address.h"

#include "base/authority.h"
#include "base/url.h"
#include "transport/nats/subject.h"

#include <stdlib.h>
#include <string.h>

enum { PORT = 4222, HEARTBEAT_DEFAULT_S = 30, HEARTBEAT_MAX_S = 3600 };
enum { CONNECT_DEFAULT_MS = 5000, CONNECT_MAX_MS = 3600000 };
enum { ACK_MIN_MS = 100, DUPLICATES_MIN_MS = 100, WEEK_MS = 604800000, REPLICAS_MAX = 5 };
enum { LIMIT_MAX = 1000000000 };

#define PARAMETERS                                                                            \
    "consumer,subject,dead,declare,subjects,storage,retention,replicas,duplicates_ms,filter," \
    "ack_ms,max_deliver,max_ack_pending,sync,msg_id,loss,heartbeat,connect_ms,name,servers,"  \
    "credentials,ca,certificate,key,verify"

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
    if (!status && !*decoded)
        return semel_fail(err, SEMEL_EINVAL, "URL: %s is empty; leave it out", name);
    return status ? status : put_text(out, room, name, decoded, err);
}

static semel_status read_texts(jet_address *out, mem_arena *arena, const url *parsed,
                               semel_error *err)
{
    const struct {
        const char *name;
        char *value;
        size_t room;
    } texts[] = {{"consumer", out->consumer, sizeof out->consumer},
                 {"subject", out->subject, sizeof out->subject},
                 {"subjects", out->subjects, sizeof out->subjects},
                 {"filter", out->filter, sizeof out->filter},
                 {"dead", out->dead, sizeof out->dead},
                 {"servers", out->servers, sizeof out->servers},
                 {"name", out->name, sizeof out->name},
                 {"credentials", out->credentials, sizeof out->credentials},
                 {"ca", out->ca, sizeof out->ca},
                 {"certificate", out->certificate, sizeof out->certificate},
                 {"key", out->key, sizeof out->key}};
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < sizeof texts / sizeof *texts; i++)
        status = put_parameter(texts[i].value, texts[i].room, arena, parsed, texts[i].name, err);
    return status;
}

/* --- user:password@host:port/STREAM ----------------------------------------------------------- */

static semel_status read_place(jet_address *out, mem_arena *arena, const url *parsed,
                               semel_error *err)
{
    authority place;
    semel_status status = authority_read(&place, arena, parsed->rest, "stream", err);
    if (status)
        return status;
    if (place.password && !place.user)
        return semel_fail(err, SEMEL_EINVAL, "URL: there is a password, but no user");
    out->port = place.port ? place.port : PORT;
    const struct {
        const char *what, *text;
        char *value;
        size_t room;
    } parts[] = {{"user", place.user, out->user, sizeof out->user},
                 {"password", place.password, out->password, sizeof out->password},
                 {"host", place.host ? place.host : "localhost", out->host, sizeof out->host},
                 {"stream", place.path, out->stream, sizeof out->stream}};
    for (size_t i = 0; !status && i < sizeof parts / sizeof *parts; i++)
        if (parts[i].text)
            status = put_text(parts[i].value, parts[i].room, parts[i].what, parts[i].text, err);
    return status;
}

/* --- numbers and choices ---------------------------------------------------------------------- */

static semel_status read_numbers(jet_address *out, const url *parsed, semel_error *err)
{
    const struct {
        const char *name;
        uint32_t *value;
        uint32_t usual, least, most;
    } numbers[] = {{"replicas", &out->replicas, 0, 1, REPLICAS_MAX},
                   {"duplicates_ms", &out->duplicates_ms, 0, DUPLICATES_MIN_MS, WEEK_MS},
                   {"ack_ms", &out->ack_ms, 0, ACK_MIN_MS, UINT32_MAX},
                   {"heartbeat", &out->heartbeat_s, HEARTBEAT_DEFAULT_S, 1, HEARTBEAT_MAX_S},
                   {"connect_ms", &out->connect_ms, CONNECT_DEFAULT_MS, 1, CONNECT_MAX_MS}};
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < sizeof numbers / sizeof *numbers; i++)
        status = url_number(numbers[i].value, parsed, numbers[i].name, numbers[i].usual,
                            numbers[i].least, numbers[i].most, err);
    return status;
}

/* -1 for no limit, or a number from 1 on; 0 if it is not given. */
static semel_status read_limit(int64_t *out, const url *parsed, const char *name, semel_error *err)
{
    const char *text = url_text(parsed, name, NULL);
    uint32_t limit = 0;
    *out = 0;
    if (!text)
        return SEMEL_OK;
    if (strcmp(text, "-1") != 0 && url_number(&limit, parsed, name, 0, 1, LIMIT_MAX, NULL))
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: %s is -1 for none, or a number from 1 to %d, not \"%s\"", name,
                          LIMIT_MAX, text);
    *out = strcmp(text, "-1") == 0 ? -1 : (int64_t)limit;
    return SEMEL_OK;
}

/* The index of the word; `usual` if none is given. */
static semel_status read_choices(jet_address *out, const url *parsed, semel_error *err)
{
    static const char *const declares[] = {"check", "yes", "no", NULL};
    static const char *const storages[] = {"file", "memory", NULL};
    static const char *const retentions[] = {"limits", "interest", "workqueue", NULL};
    static const char *const syncs[] = {"interval", "always", NULL};
    static const char *const no_yes[] = {"no", "yes", NULL};
    static const char *const losses[] = {"refuse", "warn", NULL};
    int declare = 0, storage = 0, retention = 0;
    const struct {
        const char *name;
        const char *const *words;
        int *value;
        int usual;
    } choices[] = {
        {"declare", declares, &declare, JET_CHECK}, {"storage", storages, &storage, -1},
        {"retention", retentions, &retention, -1},  {"sync", syncs, &out->sync_always, 0},
        {"msg_id", no_yes, &out->message_ids, 1},   {"verify", no_yes, &out->verify, 1},
        {"loss", losses, &out->allow_loss, 0}};
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < sizeof choices / sizeof *choices; i++)
        status = url_choice(choices[i].value, parsed, choices[i].name, choices[i].words,
                            choices[i].usual, err);
    out->declare = (jet_declare)declare;
    out->storage = (jet_storage)(storage + 1);
    out->retention = (jet_retention)(retention + 1);
    return status;
}

/* --- what makes no sense ---------------------------------------------------------------------- */

/* Parameters that need another one. */
static semel_status check_companions(const url *parsed, semel_error *err)
{
    static const struct {
        const char *name, *needs;
    } pairs[] = {{"key", "certificate"},         {"certificate", "key"},
                 {"filter", "consumer"},         {"ack_ms", "consumer"},
                 {"dead", "consumer"},           {"max_deliver", "consumer"},
                 {"max_ack_pending", "consumer"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (is_given(parsed, pairs[i].name) && !is_given(parsed, pairs[i].needs))
            return semel_fail(err, SEMEL_EINVAL, "URL: %s says nothing without %s", pairs[i].name,
                              pairs[i].needs);
    return SEMEL_OK;
}

static semel_status check_stream(const jet_address *a, const url *parsed, semel_error *err)
{
    static const char *const names[] = {"consumer",  "subjects", "storage",
                                        "retention", "replicas", "duplicates_ms"};
    for (size_t i = 0; !a->stream[0] && i < sizeof names / sizeof *names; i++)
        if (is_given(parsed, names[i]))
            return semel_fail(err, SEMEL_EINVAL,
                              "URL: %s needs the name of a stream, as in nats://host/STREAM",
                              names[i]);
    if (a->declare == JET_DECLARE && !a->stream[0])
        return semel_fail(err, SEMEL_EINVAL, "URL: declare=yes needs the name of a stream");
    if (a->declare == JET_DECLARE && !a->subject[0] && !a->subjects[0])
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: declare=yes needs subject or subjects: what the stream takes");
    if (a->user[0] && a->credentials[0])
        return semel_fail(err, SEMEL_EINVAL, "URL: there is a user, and credentials as well");
    return SEMEL_OK;
}

static semel_status check_tls(const jet_address *a, const url *parsed, semel_error *err)
{
    static const char *const names[] = {"ca", "certificate", "key", "verify"};
    for (size_t i = 0; !a->tls && i < sizeof names / sizeof *names; i++)
        if (is_given(parsed, names[i]))
            return semel_fail(err, SEMEL_EINVAL, "URL: %s is for natss:, which has TLS", names[i]);
    return SEMEL_OK;
}

static semel_status check_patterns(const jet_address *a, semel_error *err)
{
    char one[JET_PATH_ROOM];
    for (const char *at = a->subjects; *at;) {
        size_t len = strcspn(at, ",");
        memcpy(one, at, len);
        one[len] = 0;
        if (!jet_subject_is_pattern(one))
            return semel_fail(err, SEMEL_EINVAL,
                              "URL: subjects are patterns such as orders.>, joined with commas");
        at += len + (at[len] == ',');
    }
    if (strchr(a->servers, '@'))
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: servers are host:port; user and password stand before the first");
    if (a->filter[0] && !jet_subject_is_pattern(a->filter))
        return semel_fail(err, SEMEL_EINVAL, "URL: filter is a subject such as orders.*.paid");
    return SEMEL_OK;
}

static semel_status check_names(const jet_address *a, semel_error *err)
{
    const struct {
        const char *what, *value;
    } names[] = {{"stream's name", a->stream}, {"consumer", a->consumer}},
      subjects[] = {{"subject", a->subject}, {"dead", a->dead}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (*names[i].value && !jet_name_is_valid(names[i].value))
            return semel_fail(err, SEMEL_EINVAL,
                              "URL: the %s has no spaces, dots, slashes or wildcards",
                              names[i].what);
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        if (*subjects[i].value && !jet_subject_is_plain(subjects[i].value))
            return semel_fail(err, SEMEL_EINVAL,
                              "URL: %s is a subject without spaces and wildcards",
                              subjects[i].what);
    return check_patterns(a, err);
}

static semel_status check_sense(const jet_address *a, const url *parsed, semel_error *err)
{
    semel_status status = check_companions(parsed, err);
    if (!status)
        status = check_stream(a, parsed, err);
    if (!status)
        status = check_tls(a, parsed, err);
    return status ? status : check_names(a, err);
}

/* --- all of it -------------------------------------------------------------------------------- */

static semel_status read_parameters(jet_address *out, mem_arena *arena, const url *parsed,
                                    semel_error *err)
{
    semel_status status = read_numbers(out, parsed, err);
    if (!status)
        status = read_limit(&out->max_deliver, parsed, "max_deliver", err);
    if (!status)
        status = read_limit(&out->max_ack_pending, parsed, "max_ack_pending", err);
    if (!status)
        status = read_choices(out, parsed, err);
    if (!status)
        status = read_texts(out, arena, parsed, err);
    return status ? status : check_sense(out, parsed, err);
}

static semel_status read_scheme(jet_address *out, const url *parsed, const char *text,
                                semel_error *err)
{
    out->tls = strcmp(parsed->scheme, "natss") == 0;
    if (!out->tls && strcmp(parsed->scheme, "nats") != 0)
        return semel_fail(err, SEMEL_EINVAL, "URL: it begins with nats: or natss:");
    return url_has_slashes(parsed, text, "host", err);
}

semel_status jet_address_read(jet_address *out, const char *text, semel_error *err)
{
    url parsed;
    mem_arena arena = {0};
    *out = (jet_address){.name = "semel"};
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
