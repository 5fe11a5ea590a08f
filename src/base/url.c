#include "base/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An & in a password that is a parameter itself (libpq takes it so) would make the rest of it a
 * name. */
const char *url_shown_name(const url *parsed, const char *name)
{
    for (size_t i = 0; i < parsed->parameter_count; i++) {
        if (parsed->parameters[i].name == name)
            break;
        if (strstr(parsed->parameters[i].name, "password"))
            return "(behind a password, and not shown; an & in one is written %26)";
    }
    return name;
}

static semel_status add_parameter(url *out, const char *name, const char *value, semel_error *err)
{
    if (url_text(out, name, NULL))
        return semel_fail(err, SEMEL_EINVAL, "URL: parameter \"%s\" is there twice",
                          url_shown_name(out, name));
    if (out->parameter_count == URL_PARAMETERS_MAX)
        return semel_fail(err, SEMEL_ELIMIT, "URL: more than %d parameters", URL_PARAMETERS_MAX);
    out->parameters[out->parameter_count++] = (url_parameter){name, value};
    return SEMEL_OK;
}

static semel_status split_parameters(url *out, char *query, semel_error *err)
{
    semel_status status = SEMEL_OK;
    while (!status && query && *query) {
        char *next = strchr(query, '&');
        if (next)
            *next++ = 0;
        char *equals = strchr(query, '=');
        if (!equals || equals == query)
            return semel_fail(err, SEMEL_EINVAL,
                              "URL: after '?' it takes name=value, joined with '&'");
        *equals = 0;
        status = add_parameter(out, query, equals + 1, err);
        query = next;
    }
    return status;
}

/* A letter, then letters, digits and + - . as RFC 3986 has it: what is put into errors as the
 * scheme cannot be the first half of a connection string that was never meant to be a URL. */
semel_status url_scheme(size_t *len, const char *text, semel_error *err)
{
    static const char known[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.";
    size_t good = text ? strspn(text, known) : 0;
    if (!good || strchr("0123456789+-.", text[0]) || text[good] != ':')
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: it must begin with a scheme, such as sqlite: or amqp:");
    *len = good;
    return SEMEL_OK;
}

/* A ? in a password would make the rest of it look like parameters, whose names and values are
 * shown. */
static semel_status check_marks(const char *text, semel_error *err)
{
    const char *query = strchr(text, '?');
    return query && strchr(query, '@')
               ? semel_fail(err, SEMEL_EINVAL,
                            "URL: there is an @ behind the ?; in a user's name, a password or a "
                            "parameter write %%3F for ? and %%40 for @")
               : SEMEL_OK;
}

/* Two URLs that were put together, or a value that would swallow what follows. */
static semel_status check_query(const char *text, semel_error *err)
{
    const char *query = strchr(text, '?');
    return query && strchr(query + 1, '?')
               ? semel_fail(err, SEMEL_EINVAL,
                            "URL: there is a second ?; parameters are joined by &, and a ? in a "
                            "value is written %%3F")
               : SEMEL_OK;
}

/* Readers of URLs do not agree on which @ ends the password, nor on whether a # ends the URL. What
 * one of them takes for the host, and shows, is a part of the password to the other. */
semel_status url_one_place(const url *parsed, semel_error *err)
{
    const char *rest = parsed->rest;
    size_t len = strcspn(rest, "/");
    const char *at = memchr(rest, '@', len);
    if (strchr(rest + len, '@'))
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: there is an @ behind the / that ends the host; in a user's name "
                          "or a password write %%2F for / and %%40 for @");
    if (at && memchr(at + 1, '@', len - (size_t)(at + 1 - rest)))
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: there is more than one @ before the host; an @ in a user's name or "
                          "a password is written %%40");
    if (memchr(rest, '#', len))
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: there is a # before the path; in a user's name or a password it is "
                          "written %%23");
    return SEMEL_OK;
}

semel_status url_has_slashes(const url *parsed, const char *text, const char *example,
                             semel_error *err)
{
    const char *scheme = parsed->scheme;
    return strncmp(text + strlen(scheme), "://", 3) == 0
               ? SEMEL_OK
               : semel_fail(err, SEMEL_EINVAL, "URL: after %s: it takes //, as in %s://%s", scheme,
                            scheme, example);
}

semel_status url_parse(url *out, const char *text, semel_error *err)
{
    size_t scheme = 0;
    memset(out, 0, sizeof *out);
    semel_status status = url_scheme(&scheme, text, err);
    if (status)
        return status;
    if (strlen(text) >= URL_MAX)
        return semel_fail(err, SEMEL_ELIMIT, "URL: longer than %d bytes", URL_MAX - 1);
    status = check_marks(text, err);
    if (!status)
        status = check_query(text, err);
    if (status)
        return status;
    memcpy(out->text, text, strlen(text) + 1);
    out->text[scheme] = 0;
    char *rest = out->text + scheme + 1;
    char *query = strchr(rest, '?');
    if (query)
        *query++ = 0;
    if (strncmp(rest, "//", 2) == 0)
        rest += 2;
    out->scheme = out->text;
    out->rest = rest;
    return split_parameters(out, query, err);
}

static int listed(const char *names, const char *name)
{
    size_t len = strlen(name);
    if (strchr(name, ','))
        return 0;
    for (const char *at = names; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, len) == 0 && (at[len] == ',' || at[len] == 0))
            return 1;
    }
    return 0;
}

semel_status url_only(const url *parsed, const char *names, semel_error *err)
{
    for (size_t i = 0; i < parsed->parameter_count; i++)
        if (!listed(names, parsed->parameters[i].name))
            return semel_fail(err, SEMEL_EINVAL, "URL: unknown parameter \"%s\"; %s: knows %s",
                              parsed->parameters[i].name, parsed->scheme, *names ? names : "none");
    return SEMEL_OK;
}

/* If the last @ is behind a ?, what is before the ? may be a part of a password: then only the
 * scheme is shown. (check_marks() refuses to open such a URL.) */
void url_shown(char out[URL_MAX], const char *text, size_t len)
{
    const char *colon = memchr(text, ':', len), *query = memchr(text, '?', len), *end = text + len;
    const char *place = colon ? colon + 1 : text, *after_at = end;
    out[0] = 0;
    if (!colon)
        return;
    if (end - place >= 2 && place[0] == '/' && place[1] == '/')
        place += 2;
    while (after_at > place && after_at[-1] != '@')
        after_at--;
    const char *stop = !query ? end : query >= after_at ? query : after_at;
    (void)snprintf(out, URL_MAX, "%.*s%.*s", (int)(place - text), text, (int)(stop - after_at),
                   after_at);
}

const char *url_text(const url *parsed, const char *name, const char *fallback)
{
    for (size_t i = 0; i < parsed->parameter_count; i++)
        if (strcmp(parsed->parameters[i].name, name) == 0)
            return parsed->parameters[i].value;
    return fallback;
}

semel_status url_number(uint32_t *out, const url *parsed, const char *name, uint32_t fallback,
                        uint32_t min, uint32_t max, semel_error *err)
{
    const char *text = url_text(parsed, name, NULL);
    char *end = NULL;
    unsigned long long value = text ? strtoull(text, &end, 10) : fallback;
    if (text && (*text < '0' || *text > '9' || *end || value < min || value > max))
        return semel_fail(err, SEMEL_EINVAL, "URL: %s must be a number from %u to %u, not \"%s\"",
                          name, min, max, text);
    *out = (uint32_t)value;
    return SEMEL_OK;
}

/* "a", "a or b", "a, b or c" */
static void list_words(char *out, size_t room, const char *const words[])
{
    size_t len = 0;
    for (size_t i = 0; words[i] && len < room; i++) {
        const char *before = !i ? "" : words[i + 1] ? ", " : " or ";
        len += (size_t)snprintf(out + len, room - len, "%s%s", before, words[i]);
    }
}

semel_status url_choice(int *out, const url *parsed, const char *name, const char *const words[],
                        int fallback, semel_error *err)
{
    const char *given = url_text(parsed, name, NULL);
    char list[128] = "";
    *out = fallback;
    if (!given)
        return SEMEL_OK;
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], given) == 0) {
            *out = i;
            return SEMEL_OK;
        }
    list_words(list, sizeof list, words);
    return semel_fail(err, SEMEL_EINVAL, "URL: %s is %s, not \"%s\"", name, list, given);
}
