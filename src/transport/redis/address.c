/* The URL of a queue: the server's part (redis/address.c), the stream, and the group that reads
 * it.
 *
 * The stream of rejected messages is in the slot of the stream itself, because one script writes
 * both: a name in braces is hashed as the name alone. */
#include "transport/redis/address.h"

#include "base/authority.h"
#include "base/url.h"

#include <string.h>

enum {
    CLAIM_DEFAULT_MS = 60000,
    CLAIM_MIN_MS = 100,
    CLAIM_MAX_MS = 604800000,
    POLL_DEFAULT_MS = 500,
    POLL_MAX_MS = 60000
};

#define PARAMETERS "stream,group,dead,declare,keep,claim_ms,poll_ms,single_active," REDIS_PARAMETERS

/* --- slots ------------------------------------------------------------------------------------ */

/* What of a key is hashed: what is between its first brace and the next, if there is something. */
static semel_bytes hashed_part(const char *key)
{
    const char *open = strchr(key, '{');
    const char *close = open ? strchr(open, '}') : NULL;
    if (!close || close == open + 1)
        return semel_str(key);
    return (semel_bytes){open + 1, (size_t)(close - open - 1)};
}

int stream_same_slot(const char *one, const char *other)
{
    semel_bytes a = hashed_part(one), b = hashed_part(other);
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

static semel_status name_dead(stream_address *out, mem_arena *arena, semel_error *err)
{
    static const char suffix[] = ":dead";
    size_t len = strlen(out->stream);
    int hashed_whole = hashed_part(out->stream).len == len;
    if (hashed_whole && strchr(out->stream, '}'))
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: stream has a } that ends no hash tag, so no other name is sure to "
                          "be in its slot: say which stream is for dead letters, dead=NAME");
    char *name = arena_alloc(arena, len + sizeof suffix + 2);
    if (!name)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a URL");
    size_t at = 0;
    if (hashed_whole)
        name[at++] = '{';
    memcpy(name + at, out->stream, len);
    at += len;
    if (hashed_whole)
        name[at++] = '}';
    memcpy(name + at, suffix, sizeof suffix);
    out->dead = name;
    return SEMEL_OK;
}

/* --- parameters ------------------------------------------------------------------------------- */

static semel_status read_name(const char **out, mem_arena *arena, const url *parsed,
                              const char *name, semel_error *err)
{
    const char *value = url_text(parsed, name, NULL);
    semel_status status = authority_decode(out, arena, name, value, value ? strlen(value) : 0, err);
    if (status || !*out)
        return status;
    if (!**out || strlen(*out) > STREAM_NAME_MAX)
        return semel_fail(err, SEMEL_EINVAL, "URL: %s is a name of 1 to %d bytes", name,
                          STREAM_NAME_MAX);
    return SEMEL_OK;
}

static semel_status read_names(stream_address *out, mem_arena *arena, const url *parsed,
                               semel_error *err)
{
    semel_status status = read_name(&out->stream, arena, parsed, "stream", err);
    if (!status)
        status = read_name(&out->group, arena, parsed, "group", err);
    if (!status)
        status = read_name(&out->dead, arena, parsed, "dead", err);
    if (status)
        return status;
    if (!out->stream)
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: a queue in Redis is a stream, which stream= names, as in "
                          "redis://host:6379/0?stream=orders&group=shipping");
    if (out->dead && strcmp(out->dead, out->stream) == 0)
        return semel_fail(err, SEMEL_EINVAL, "URL: dead and stream are the same");
    return out->dead ? SEMEL_OK : name_dead(out, arena, err);
}

static semel_status read_choices(stream_address *out, const url *parsed, semel_error *err)
{
    static const char *const declares[] = {"check", "yes", "no", NULL};
    static const char *const keeps[] = {"auto", "yes", "no", NULL};
    static const char *const no_yes[] = {"no", "yes", NULL};
    semel_status status = url_choice(&out->declare, parsed, "declare", declares, 0, err);
    out->declare = out->declare == 1; /* "no" is RabbitMQ's word, and the same as "check" here */
    if (!status)
        status = url_choice(&out->keep, parsed, "keep", keeps, STREAM_KEEP_AUTO, err);
    if (!status)
        status = url_choice(&out->single_active, parsed, "single_active", no_yes, 0, err);
    if (!status)
        status = url_number(&out->claim_ms, parsed, "claim_ms", CLAIM_DEFAULT_MS, CLAIM_MIN_MS,
                            CLAIM_MAX_MS, err);
    return status
               ? status
               : url_number(&out->poll_ms, parsed, "poll_ms", POLL_DEFAULT_MS, 1, POLL_MAX_MS, err);
}

/* Parameters that have no effect without a group: their author counts on it. */
static semel_status check_together(const stream_address *out, const url *parsed, semel_error *err)
{
    static const char *const of_group[] = {"dead",     "declare", "keep",
                                           "claim_ms", "poll_ms", "single_active"};
    for (size_t i = 0; !out->group && i < sizeof of_group / sizeof *of_group; i++)
        if (url_text(parsed, of_group[i], NULL))
            return semel_fail(err, SEMEL_EINVAL, "URL: %s says nothing without group", of_group[i]);
    return SEMEL_OK;
}

semel_status stream_address_read(stream_address *out, mem_arena *arena, const char *text,
                                 semel_error *err)
{
    url parsed = {.parameter_count = 0};
    memset(out, 0, sizeof *out);
    semel_status status = redis_address_read(&out->server, &parsed, arena, text, PARAMETERS, err);
    if (status && (url_text(&parsed, "namespace", NULL) || url_text(&parsed, "pool", NULL)))
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: namespace and pool are of a store in Redis; this is a queue, and "
                          "takes stream= and group=");
    if (!status)
        status = read_names(out, arena, &parsed, err);
    if (!status)
        status = read_choices(out, &parsed, err);
    return status ? status : check_together(out, &parsed, err);
}
