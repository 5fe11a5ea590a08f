/* See secret.h. */
#include "program/config/secret.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LOOKED_FOR_LEAST = 4 };

static const secret_span none = {0, 0};

/* --- what was substituted --------------------------------------------------------------------- */

void secret_remember(secrets *all, const char *value, size_t len)
{
    if (!len)
        return;
    if (all->count == all->room) {
        all->room = all->room ? all->room * 2 : 8;
        all->items = must_realloc((void *)all->items, all->room * sizeof *all->items);
    }
    all->items[all->count++] = region_copy(&all->memory, value, len);
}

void secret_free(secrets *all)
{
    region_free(&all->memory);
    free((void *)all->items);
    *all = (secrets){0};
}

size_t secret_at(const secrets *all, const char *text)
{
    size_t longest = 0;
    for (size_t i = 0; all && i < all->count; i++) {
        size_t len = strlen(all->items[i]);
        if (len >= LOOKED_FOR_LEAST && len > longest && strncmp(text, all->items[i], len) == 0)
            longest = len;
    }
    return longest;
}

void secret_add_masked(buffer *out, const secrets *all, const char *text)
{
    size_t len = strlen(text);
    secret_span password = secret_in_url(text, len);
    for (size_t i = 0; i < len;) {
        size_t hidden = secret_at(all, text + i);
        if (password.len && i == password.from && password.len > hidden)
            hidden = password.len;
        if (hidden)
            buffer_text(out, SECRET_MASK);
        else
            buffer_add(out, text + i, 1);
        i += hidden ? hidden : 1;
        if (password.len && i > password.from) {
            secret_span next = secret_in_url(text + i, len - i);
            password = (secret_span){next.from + i, next.len};
        }
    }
}

/* --- what is written -------------------------------------------------------------------------- */

int secret_is_name(const char *name, size_t len)
{
    static const char *const words[] = {"token",   "secret",  "password",   "authorization",
                                        "api-key", "api_key", "credential", "cookie"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t word = strlen(words[i]);
        for (size_t at = 0; at + word <= len; at++)
            if (strncasecmp(name + at, words[i], word) == 0)
                return 1;
    }
    return 0;
}

static int ends_text(char c)
{
    return isspace((unsigned char)c) || c == '"' || c == '\'';
}

/* To NATS a user without a password is a token. */
static int takes_token(const char *text, size_t start)
{
    return (start >= 7 && memcmp(text + start - 7, "nats://", 7) == 0) ||
           (start >= 8 && memcmp(text + start - 8, "natss://", 8) == 0);
}

/* user:password@ behind the //. The last @ ends it, as in the library. */
static secret_span password_of(const char *text, size_t start, size_t len)
{
    size_t end = start, colon = SIZE_MAX, at = SIZE_MAX;
    for (; end < len && !ends_text(text[end]); end++) {
        if (text[end] == ':' && colon == SIZE_MAX)
            colon = end;
        if (text[end] == '@')
            at = end;
        if (text[end] == '$' && end + 1 < len && text[end + 1] == '{') /* its colons are its own */
            while (end + 1 < len && text[end] != '}' && !ends_text(text[end]))
                end++;
    }
    if (at != SIZE_MAX && at > start && colon > at && takes_token(text, start))
        return (secret_span){start, at - start};
    if (colon == SIZE_MAX || at == SIZE_MAX || at <= colon + 1)
        return none;
    return (secret_span){colon + 1, at - colon - 1};
}

/* ${...} and nothing else. */
static int is_substitution(const char *text, size_t len)
{
    return len > 3 && text[0] == '$' && text[1] == '{' &&
           memchr(text, '}', len) == text + len - 1 && !memmem(text, len, ":-", 2);
}

/* Of a store that takes its password so, or a setting of Kafka's client. A file's path is none. */
static int holds_secret(const char *name, size_t len, const char *value, size_t value_len)
{
    static const char *const words[] = {"password", "secret", "pem", "sasl.oauthbearer.config",
                                        "sasl.kerberos.kinit.cmd"};
    static const char file[] = "file:";
    if (len > 2 && memcmp(name, "X.", 2) == 0 && value_len >= sizeof file - 1 &&
        memcmp(value, file, sizeof file - 1) == 0)
        return 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if ((i == 0 || memchr(name, '.', len)) && memmem(name, len, words[i], strlen(words[i])))
            return 1;
    return 0;
}

/* password=... behind a ? or &, at this place. */
static secret_span password_parameter(const char *text, size_t at, size_t len)
{
    size_t name = at + 1, equals = name;
    if (text[at] != '?' && text[at] != '&')
        return none;
    while (equals < len && !strchr("=&", text[equals]) && !ends_text(text[equals]))
        equals++;
    if (equals == len || text[equals] != '=')
        return none;
    size_t from = equals + 1, end = from;
    while (end < len && text[end] != '&' && !ends_text(text[end]))
        end++;
    return holds_secret(text + name, equals - name, text + from, end - from)
               ? (secret_span){from, end - from}
               : none;
}

secret_span secret_in_url(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        secret_span found = len - i > 3 && memcmp(text + i, "://", 3) == 0
                                ? password_of(text, i + 3, len)
                                : password_parameter(text, i, len);
        if (found.len && !is_substitution(text + found.from, found.len))
            return found;
    }
    return none;
}

int secret_is_substituted(const char *value, size_t len)
{
    const char *dollar = memmem(value, len, "${", 2);
    size_t words = dollar ? (size_t)(dollar - value) : 0;
    if (!dollar || (words && value[words - 1] != ' ' && !(words == 1 && ends_text(*value))))
        return 0;
    const char *close = memchr(dollar, '}', len - words);
    size_t behind = close ? (size_t)(value + len - close - 1) : len;
    return behind <= 1 && !memmem(dollar, len - words, ":-", 2);
}

/* --- lines ------------------------------------------------------------------------------------ */

static size_t skip_spaces(const char *line, size_t len, size_t at)
{
    while (at < len && (line[at] == ' ' || line[at] == '\t'))
        at++;
    return at;
}

static size_t value_end(const char *line, size_t len, size_t from)
{
    char quote = line[from] == '"' || line[from] == '\'' ? line[from] : 0;
    size_t end = from + 1;
    if (quote) {
        while (end < len && line[end] != quote)
            end++;
        return end < len ? end + 1 : end;
    }
    while (end < len && line[end] != ',' && line[end] != '}' &&
           !(line[end] == '#' && line[end - 1] == ' '))
        end++;
    while (end > from && line[end - 1] == ' ')
        end--;
    return end;
}

/* What is inside [...], as far as the line has it. */
static secret_span listed_values(const char *line, size_t len, size_t open)
{
    const char *close = memchr(line + open, ']', len - open);
    size_t end = close ? (size_t)(close - line) : len;
    if (end <= open + 1 || secret_is_substituted(line + open + 1, end - open - 1))
        return none;
    return (secret_span){open + 1, end - open - 1};
}

/* The value of a name that holds a secret; `colon` is behind the name. */
static secret_span named_value(const char *line, size_t len, size_t start, size_t colon)
{
    size_t name = colon;
    while (name > start && !strchr(" {,?&", line[name - 1]))
        name--;
    size_t from = skip_spaces(line, len, colon + 1);
    if (from >= len || line[from] == '{' || line[from] == '#' ||
        !secret_is_name(line + name, colon - name))
        return none;
    if (line[from] == '[')
        return listed_values(line, len, from);
    size_t end = value_end(line, len, from);
    return secret_is_substituted(line + from, end - from) ? none : (secret_span){from, end - from};
}

secret_span secret_in_line(const char *line, size_t len, size_t from)
{
    secret_span url = secret_in_url(line + from, len - from);
    url.from += from;
    for (size_t i = from; i + 1 < len && (!url.len || i < url.from); i++) {
        if (line[i] != ':' || (line[i + 1] != ' ' && line[i + 1] != '\t'))
            continue;
        secret_span named = named_value(line, len, from, i);
        if (named.len)
            return named;
    }
    return url;
}
