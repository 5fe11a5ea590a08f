/* Values: from the text to word and argument. See value.h for the grammar. Nothing here looks at a
 * message; a configuration is checked with it before anything is opened. */
#include "program/handler/value.h"
#include "program/support/nearest.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char valid[] = "valid: words of a key expression, body, key, time, topic, group, "
                            "attempt; long form: :{header:X-Id}";

static const char *const words[VALUE_WORDS] = {
    [VALUE_ID] = "id",           [VALUE_CORRELATION_ID] = "correlation-id",
    [VALUE_SOURCE] = "source",   [VALUE_TYPE] = "type",
    [VALUE_HEADER] = "header",   [VALUE_JSON] = "json",
    [VALUE_DIGEST] = "digest",   [VALUE_BODY] = "body",
    [VALUE_KEY] = "key",         [VALUE_TIME] = "time",
    [VALUE_TOPIC] = "topic",     [VALUE_GROUP] = "group",
    [VALUE_ATTEMPT] = "attempt", [VALUE_INBOX] = "inbox"};

typedef struct reader {
    const char *text;
    size_t start; /* of the value: its colon */
    size_t at;
    size_t end;
    value_name *out;
    region *memory;
    value_mistake *wrong;
} reader;

/* --- mistakes --------------------------------------------------------------------------------- */

/* Control characters of a text that is shown become question marks. */
static void make_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

int value_wrong(value_mistake *wrong, size_t offset, size_t len, const char *help,
                const char *format, ...)
{
    va_list arguments;
    *wrong = (value_mistake){.offset = offset, .len = len, .help = help};
    va_start(arguments, format);
    (void)vsnprintf(wrong->text, sizeof wrong->text, format, arguments);
    va_end(arguments);
    make_printable(wrong->text);
    return 0;
}

/* What of a text an error shows. */
static int shown(size_t len)
{
    enum { SHOWN_MAX = 60 };
    return (int)(len > SHOWN_MAX ? SHOWN_MAX : len);
}

/* The word that was probably meant, or NULL. */
static const char *nearest_word(const char *typed, size_t len)
{
    enum { TYPED_MAX = 31 };
    char copy[TYPED_MAX + 1];
    if (!len || len > TYPED_MAX)
        return NULL;
    memcpy(copy, typed, len);
    copy[len] = 0;
    nearest best = {.typed = copy};
    for (int i = 0; i < VALUE_WORDS; i++)
        nearest_offer(&best, words[i]);
    return best.name;
}

static int unknown(const reader *r, const char *prefix, size_t offset, size_t word_len, size_t len)
{
    const char *typed = r->text + r->at, *meant = nearest_word(typed, word_len);
    if (!meant)
        return value_wrong(r->wrong, offset, len, valid, "unknown value \"%s%.*s\"", prefix,
                           shown(word_len), typed);
    return value_wrong(r->wrong, offset, len, valid,
                       "unknown value \"%s%.*s\"; did you mean \"%s%s\"?", prefix, shown(word_len),
                       typed, prefix, meant);
}

/* --- words ------------------------------------------------------------------------------------ */

static int is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}

static size_t name_length(const reader *r, size_t from)
{
    size_t len = 0;
    while (from + len < r->end && is_name(r->text[from + len]))
        len++;
    return len;
}

static value_word find_word(const char *text, size_t len)
{
    int word = 0;
    while (word < VALUE_WORDS &&
           (strlen(words[word]) != len || memcmp(words[word], text, len) != 0))
        word++;
    return (value_word)word;
}

static int takes_argument(value_word word)
{
    return word == VALUE_HEADER || word == VALUE_JSON;
}

static size_t finish(reader *r, value_word word, const char *argument)
{
    size_t len = r->at - r->start;
    *r->out = (value_name){word, argument, region_copy(r->memory, r->text + r->start, len)};
    return len;
}

/* --- the long form ---------------------------------------------------------------------------- */

/* `at` is at the opening quote. */
static const char *read_quoted(reader *r)
{
    size_t opening = r->at++, len = 0;
    char *copy = region_alloc(r->memory, r->end - opening + 1);
    for (;; r->at++) {
        if (r->at == r->end) {
            value_wrong(r->wrong, opening, r->end - opening, NULL, "this quote is not closed");
            return NULL;
        }
        if (r->text[r->at] == '\'' && (++r->at == r->end || r->text[r->at] != '\''))
            return copy;
        copy[len++] = r->text[r->at];
    }
}

static const char *read_bare(reader *r)
{
    size_t from = r->at;
    while (r->at < r->end && r->text[r->at] != '}' && r->text[r->at] != '+')
        r->at++;
    return region_copy(r->memory, r->text + from, r->at - from);
}

static int check_pointer(const reader *r, const char *pointer, size_t offset, size_t len)
{
    int ok = *pointer == '/';
    for (const char *at = pointer; ok && *at; at++)
        ok = *at != '~' || at[1] == '0' || at[1] == '1';
    return ok || value_wrong(r->wrong, offset, len, NULL,
                             "not a JSON Pointer: it begins with / and escapes ~ as ~0");
}

/* Behind the word and its colon. */
static const char *read_argument(reader *r, value_word word)
{
    size_t from = r->at;
    int quoted = from < r->end && r->text[from] == '\'';
    const char *argument = quoted ? read_quoted(r) : read_bare(r);
    if (!argument)
        return NULL;
    if (!*argument || memchr(r->text + from, 0, r->at - from)) {
        value_wrong(r->wrong, r->start, r->at - r->start, valid, "%s: needs a %s", words[word],
                    word == VALUE_JSON ? "pointer, as in :{json:/order_id}"
                                       : "name, as in :{header:X-Id}");
        return NULL;
    }
    if (word == VALUE_JSON && !check_pointer(r, argument, from, r->at - from))
        return NULL;
    return argument;
}

static int unclosed(const reader *r)
{
    return value_wrong(r->wrong, r->start, r->end - r->start, NULL,
                       "\":{\" without a closing \"}\"");
}

static size_t read_end(reader *r, value_word word, const char *argument)
{
    if (r->at == r->end)
        return (size_t)unclosed(r);
    if (r->text[r->at] != '}')
        return (size_t)value_wrong(
            r->wrong, r->at, 1, NULL,
            "\"}\" is expected here; a name with + or } is quoted, as in :{header:'a+b'}");
    r->at++;
    return finish(r, word, argument);
}

/* `at` is behind ":{". */
static size_t read_long(reader *r)
{
    size_t len = 0;
    while (r->at + len < r->end && !strchr(":}+'\n ", r->text[r->at + len]))
        len++;
    value_word word = find_word(r->text + r->at, len);
    if (r->at + len == r->end)
        return (size_t)unclosed(r);
    if (word == VALUE_WORDS)
        return (size_t)unknown(r, "", r->at, len, len ? len : 1);
    r->at += len;
    int has_colon = r->at < r->end && r->text[r->at] == ':';
    if (takes_argument(word) != has_colon)
        return (size_t)value_wrong(r->wrong, r->start, r->at - r->start, valid,
                                   has_colon ? "%s takes no argument" : "%s: needs an argument",
                                   words[word]);
    r->at += (size_t)has_colon;
    const char *argument = has_colon ? read_argument(r, word) : "";
    return argument ? read_end(r, word, argument) : 0;
}

/* --- the short forms -------------------------------------------------------------------------- */

/* How far a value goes that is none, for the caret: a name, and names behind slashes. */
static size_t extent(const reader *r, size_t from)
{
    size_t at = from + name_length(r, from), more;
    while (at < r->end && r->text[at] == '/' && (more = name_length(r, at + 1)))
        at += 1 + more;
    return at - r->start;
}

/* `at` is behind ":json". */
static size_t read_short_pointer(reader *r)
{
    size_t name = r->at < r->end && r->text[r->at] == '/' ? name_length(r, r->at + 1) : 0;
    size_t pointer = r->at;
    if (!name)
        return (size_t)value_wrong(r->wrong, r->start, r->at - r->start, valid,
                                   "\":json\" needs a name, as in :json/order_id");
    r->at += 1 + name;
    if (extent(r, r->start + 1) > r->at - r->start)
        return (size_t)value_wrong(
            r->wrong, r->start, extent(r, r->start + 1), NULL,
            "\"%.*s\" can be read in two ways; write :{json:/a/b} for a pointer, :json/a / b for "
            "a division",
            shown(extent(r, r->start + 1)), r->text + r->start);
    return finish(r, VALUE_JSON, region_copy(r->memory, r->text + pointer, 1 + name));
}

/* The one word with a dash: behind any other, a dash is an operator of SQL. */
static size_t short_word_length(const reader *r)
{
    size_t len = name_length(r, r->at), whole = strlen(words[VALUE_CORRELATION_ID]);
    if (r->end - r->at >= whole && memcmp(r->text + r->at, words[VALUE_CORRELATION_ID], whole) == 0)
        return whole + name_length(r, r->at + whole);
    return len;
}

/* `at` is behind ":". */
static size_t read_short(reader *r)
{
    size_t len = short_word_length(r);
    value_word word = find_word(r->text + r->at, len);
    if (word == VALUE_WORDS)
        return (size_t)unknown(r, ":", r->start, len, extent(r, r->at));
    r->at += len;
    if (word == VALUE_JSON)
        return read_short_pointer(r);
    if (word == VALUE_HEADER)
        return (size_t)value_wrong(r->wrong, r->start, r->at - r->start, valid,
                                   "\":header\" needs a name, as in :{header:X-Id}");
    return finish(r, word, "");
}

/* --- whole values ----------------------------------------------------------------------------- */

size_t value_read(value_name *out, region *memory, const char *text, size_t offset, size_t end,
                  value_mistake *wrong)
{
    reader r = {text, offset, offset + 1, end, out, memory, wrong};
    if (end - offset > VALUE_WRITTEN_MAX) /* no value is so long: it ends before */
        r.end = offset + VALUE_WRITTEN_MAX;
    if (r.at < r.end && text[r.at] == '{') {
        r.at++;
        return read_long(&r);
    }
    return read_short(&r);
}

int value_parse(value_name *out, region *memory, const char *text, value_mistake *wrong)
{
    size_t len = strlen(text);
    if (*text != ':')
        return value_wrong(wrong, 0, len, valid, "a value begins with a colon");
    size_t used = value_read(out, memory, text, 0, len, wrong);
    if (!used)
        return 0;
    if (used < len)
        return value_wrong(wrong, used, len - used, NULL,
                           "unexpected text behind the value \"%.*s\"", shown(used), text);
    return 1;
}
