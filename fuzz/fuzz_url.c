/* URLs: the input is one, and every reader of addresses reads it, whatever its scheme.
 *
 *  - What was understood of it, written again, is the URL; parameters are refused or found by their
 *    names.
 *  - User, password, host, port and path come back when every character of them is written as an
 *    escape.
 *  - No error shows a password, also if it holds characters that should have been escaped; and
 *    nothing of it is taken for a host, a path or a user, which are shown later. A password is what
 *    stands between the first colon behind the // and the last @, and the value of a parameter
 *    named password. Since errors may show other parts, and words of their own, what is looked for
 *    is the word s3cret, where it is in a password and nowhere else.
 *  - Each reader has properties of its own: url_postgres.c, url_mariadb.c, url_redis.c,
 *    url_dynamodb.c, url_rabbitmq.c, url_kafka.c, url_nats.c. */
#include "base/authority.h"
#include "base/text.h"
#include "base/url.h"
#include "property.h"
#include "url_parts.h"

/* --- passwords -------------------------------------------------------------------------------- */

typedef struct span {
    const char *from, *to;
} span;

static span between_colon_and_at(const char *text)
{
    const char *place = strstr(text, "://"), *at = strrchr(text, '@');
    const char *colon = place ? strchr(place + 3, ':') : NULL;
    return colon && at && colon < at ? (span){colon + 1, at} : (span){NULL, NULL};
}

static span parameter_password(const char *text)
{
    static const char name[] = "?password=";
    const char *query = strchr(text, '?');
    const char *found = query ? strstr(query, "&password=") : NULL;
    if (query && strncmp(query, name, sizeof name - 1) == 0)
        found = query;
    if (!found)
        return (span){NULL, NULL};
    found += sizeof name - 1;
    return (span){found, found + strcspn(found, "&")};
}

/* 1 if the word stands in passwords and nowhere else. */
static int only_in_passwords(const char *text, const char *word)
{
    const span passwords[] = {between_colon_and_at(text), parameter_password(text)};
    for (const char *at = text; (at = strstr(at, word)); at++) {
        const char *end = at + strlen(word);
        if (!(passwords[0].from && at >= passwords[0].from && end <= passwords[0].to) &&
            !(passwords[1].from && at >= passwords[1].from && end <= passwords[1].to))
            return 0;
    }
    return 1;
}

/* An escape elsewhere may be a part of the same word. */
static int holds_secret(const char *text)
{
    return strstr(text, SECRET) && only_in_passwords(text, SECRET) && only_in_passwords(text, "%");
}

static void check_silence(const char *text, semel_status status, const semel_error *err)
{
    if (!status)
        return;
    check_error(status, err);
    HOLDS(status == SEMEL_EINVAL || status == SEMEL_ELIMIT);
    HOLDS_FOR(err->text, !holds_secret(text) || !strstr(err->text, SECRET));
}

/* --- the parts -------------------------------------------------------------------------------- */

static void write_again(text_buffer *t, const url *parsed)
{
    text_append_z(t, parsed->scheme);
    text_append_z(t, ":");
    if (parsed->rest - parsed->text >= 2 && parsed->rest[-1] == '/')
        text_append_z(t, "//");
    text_append_z(t, parsed->rest);
    for (size_t i = 0; i < parsed->parameter_count; i++) {
        text_append_z(t, i ? "&" : "?");
        text_append_z(t, parsed->parameters[i].name);
        text_append_z(t, "=");
        text_append_z(t, parsed->parameters[i].value);
    }
}

static void check_parts(const url *parsed, const char *text)
{
    text_buffer again = {0};
    write_again(&again, parsed);
    HOLDS(again.len <= strlen(text) && strncmp(again.bytes, text, again.len) == 0);
    HOLDS(strcmp(text + again.len, "") == 0 || strcmp(text + again.len, "?") == 0 ||
          strcmp(text + again.len, "&") == 0);
    mem_free(again.bytes);
    HOLDS(parsed->parameter_count <= URL_PARAMETERS_MAX);
    for (size_t i = 0; i < parsed->parameter_count; i++)
        HOLDS(url_text(parsed, parsed->parameters[i].name, NULL) == parsed->parameters[i].value);
}

static void check_parameters(const url *parsed, const char *text)
{
    static const char *const words[] = {"off", "on", "verify", NULL};
    for (size_t i = 0; i < parsed->parameter_count; i++) {
        const char *name = parsed->parameters[i].name;
        uint32_t number = 0;
        int choice = 0;
        semel_error err = {0};
        if (url_number(&number, parsed, name, 0, 1, 1000, NULL) == SEMEL_OK)
            HOLDS(number >= 1 && number <= 1000);
        if (url_choice(&choice, parsed, name, words, -1, NULL) == SEMEL_OK)
            HOLDS(choice >= 0 && strcmp(words[choice], parsed->parameters[i].value) == 0);
        HOLDS(strchr(name, ',') || url_only(parsed, name, NULL) == SEMEL_OK ||
              parsed->parameter_count > 1);
        check_silence(text, url_only(parsed, "", &err), &err);
    }
}

/* --- where the server is ---------------------------------------------------------------------- */

static void append_escaped(text_buffer *t, const char *text)
{
    char escape[8];
    for (; text && *text; text++) {
        (void)snprintf(escape, sizeof escape, "%%%02X", (unsigned char)*text);
        text_append_z(t, escape);
    }
}

static void write_authority(text_buffer *t, const authority *place)
{
    char port[16] = "";
    append_escaped(t, place->user);
    if (place->password)
        text_append_z(t, ":");
    append_escaped(t, place->password);
    if (place->user || place->password)
        text_append_z(t, "@");
    append_escaped(t, place->host);
    if (place->port)
        (void)snprintf(port, sizeof port, ":%u", place->port);
    text_append_z(t, port);
    text_append_z(t, "/");
    append_escaped(t, place->path);
    text_append(t, "", 1);
}

static void check_escaped(mem_arena *arena, const authority *place)
{
    text_buffer again = {0};
    authority back;
    write_authority(&again, place);
    HOLDS(authority_read(&back, arena, again.bytes, "path", NULL) == SEMEL_OK);
    HOLDS(same_text(place->user, back.user) && same_text(place->password, back.password));
    HOLDS(same_text(place->host, back.host) && same_text(place->path, back.path));
    HOLDS(place->port == back.port);
    mem_free(again.bytes);
}

static void check_authority(const url *parsed, const char *text)
{
    mem_arena arena = {0};
    authority place;
    semel_error err = {0};
    semel_status status = authority_read(&place, &arena, parsed->rest, "path", &err);
    check_silence(text, status, &err);
    if (!status) {
        HOLDS(place.path && place.port <= 65535);
        check_escaped(&arena, &place);
    }
    arena_free(&arena);
}

/* --- all of it -------------------------------------------------------------------------------- */

static void check_url(const char *text)
{
    static url parsed;
    semel_error err = {0};
    semel_status status = url_parse(&parsed, text, &err);
    check_silence(text, status, &err);
    if (status)
        return;
    check_parts(&parsed, text);
    check_parameters(&parsed, text);
    check_authority(&parsed, text);
    check_silence(text, url_one_place(&parsed, &err), &err);
}

static void check_addresses(const char *text)
{
    semel_error err = {0};
    int secret = holds_secret(text);
    (void)secret, (void)err; /* where none of them is built in */
#define X(name) check_silence(text, check_##name##_address(text, secret, &err), &err);
    FUZZ_BACKENDS
#undef X
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = exact_text(data, size);
    check_url(text);
    check_addresses(text);
    free(text);
    return 0;
}
