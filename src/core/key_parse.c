/* Key expressions, and those of fingerprints: from the text to its parts.
 *
 *     expression = part *("+" part)
 *     part       = word | word ":" argument | quoted       quoted text by itself is a literal
 *     argument   = quoted | any text without "+"           that does not begin with a quote
 *     quoted     = "'" text "'"                            in which '' stands for one quote
 *
 * The plan has a copy of the text. Parts end with NUL there, and quoted text is unquoted in
 * place, which never makes it longer. Errors give the position in the expression as the caller
 * wrote it. */
#include "core/key.h"

#include "base/digest.h"
#include "base/json.h"
#include "base/utf8.h"

#include <string.h>

typedef struct key_word {
    const char *name;
    key_kind kind;
    int takes_argument;
} key_word;

typedef struct parser {
    key_plan *plan;
    const char *option; /* of the inbox, for errors */
    char *at;           /* in plan->text */
    int more;           /* a + is behind the part that was read last */
    semel_error *err;
} parser;

static semel_status fail_at(const parser *p, const char *place, const char *what)
{
    return semel_fail(p->err, SEMEL_EINVAL,
                      "%s expression, at character %zu: %s (known: %sid, correlation-id, source, "
                      "type, header:NAME, json:/pointer, digest, 'text', joined with +)",
                      p->option, (size_t)(place - p->plan->text) + 1, what,
                      strcmp(p->option, "key") == 0 ? "" : "body or none alone; ");
}

static semel_status fail_unbuilt(const parser *p, const char *word, const char *option)
{
    return semel_fail(p->err, SEMEL_EUNSUPPORTED,
                      "%s expression: %s is not built in; build semel with %s=ON", p->option, word,
                      option);
}

/* --- texts ------------------------------------------------------------------------------------ */

/* What is left up to the next +. */
static void take_bare(parser *p)
{
    char *end = p->at + strcspn(p->at, "+");
    p->more = *end == '+';
    *end = 0;
    p->at = end;
}

/* `at` is at the opening quote. */
static semel_status take_quoted(parser *p)
{
    char *from = p->at + 1, *to = from;
    for (;;) {
        if (!*from)
            return fail_at(p, p->at, "this quote is not closed");
        if (*from == '\'' && *++from != '\'')
            break;
        *to++ = *from++;
    }
    *to = 0;
    if (*from && *from != '+')
        return fail_at(p, from, "behind a closing quote there is a + or the end");
    p->more = *from == '+';
    p->at = from;
    return SEMEL_OK;
}

/* Where a character of an unquoted text is in the expression. */
static const char *written_at(const char *start, int quoted, const char *text, size_t index)
{
    size_t quotes = 0;
    for (size_t i = 0; quoted && i < index; i++)
        quotes += text[i] == '\'';
    return start + (quoted ? 1 : 0) + index + quotes;
}

/* --- parts ------------------------------------------------------------------------------------ */

static const key_word *find_word(const char *text, size_t len)
{
    static const key_word words[] = {
        {"id", KEY_ID, 0},         {"correlation-id", KEY_CORRELATION_ID, 0},
        {"source", KEY_SOURCE, 0}, {"type", KEY_TYPE, 0},
        {"header", KEY_HEADER, 1}, {"json", KEY_JSON, 1},
        {"digest", KEY_DIGEST, 0}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].name) == len && memcmp(words[i].name, text, len) == 0)
            return &words[i];
    return NULL;
}

static semel_status parse_literal(parser *p, key_part *out)
{
    const char *start = p->at;
    semel_status status = take_quoted(p);
    if (status)
        return status;
    *out = (key_part){KEY_LITERAL, start + 1};
    return start[1] ? SEMEL_OK : fail_at(p, start, "this text is empty");
}

static semel_status check_pointer(const parser *p, const key_part *part, const char *start,
                                  int quoted)
{
    size_t wrong = 0;
    if (!json_pointer_valid(part->argument, &wrong))
        return fail_at(p, written_at(start, quoted, part->argument, wrong),
                       "this is not a JSON Pointer; it begins with / and escapes ~ as ~0");
    return json_built_in() ? SEMEL_OK : fail_unbuilt(p, "json:", "SEMEL_JSON");
}

/* `at` is behind the word. */
static semel_status parse_argument(parser *p, key_part *out)
{
    const char *needs = out->kind == KEY_HEADER ? "header: needs a name" : "json: needs a pointer";
    if (*p->at != ':')
        return fail_at(p, p->at, needs);
    char *start = ++p->at;
    int quoted = *start == '\'';
    semel_status status = SEMEL_OK;
    if (quoted)
        status = take_quoted(p);
    else
        take_bare(p);
    if (status)
        return status;
    out->argument = start + quoted;
    if (!*out->argument)
        return fail_at(p, start, needs);
    return out->kind == KEY_JSON ? check_pointer(p, out, start, quoted) : SEMEL_OK;
}

static semel_status parse_part(parser *p, key_part *out)
{
    if (*p->at == '\'')
        return parse_literal(p, out);
    size_t len = strcspn(p->at, ":+");
    const key_word *word = find_word(p->at, len);
    if (!word)
        return fail_at(p, p->at, len ? "unknown word" : "a part is missing");
    *out = (key_part){word->kind, ""};
    p->at += len;
    if (word->takes_argument)
        return parse_argument(p, out);
    if (*p->at == ':')
        return fail_at(p, p->at, "this one takes no argument");
    take_bare(p);
    return word->kind == KEY_DIGEST && !digest_built_in()
               ? fail_unbuilt(p, "digest", "SEMEL_OPENSSL")
               : SEMEL_OK;
}

/* --- the expression --------------------------------------------------------------------------- */

/* The definition of an inbox contains the expression, and stores keep that as text. */
static semel_status check_utf8(const parser *p)
{
    for (const char *at = p->at; *at;) {
        size_t len = utf8_sequence((const unsigned char *)at, strlen(at));
        if (!len)
            return fail_at(p, at, "this is not UTF-8");
        at += len;
    }
    return SEMEL_OK;
}

static semel_status parse_parts(parser *p)
{
    key_plan *plan = p->plan;
    for (;;) {
        if (plan->count == KEY_PARTS_MAX)
            return fail_at(p, p->at, "more than 8 parts");
        semel_status status = parse_part(p, &plan->parts[plan->count++]);
        if (status || !p->more)
            return status;
        p->at++;
    }
}

semel_status key_parse(key_plan *out, const char *option, const char *expression, semel_error *err)
{
    size_t len = strlen(expression);
    if (len > KEY_EXPRESSION_MAX)
        return semel_fail(err, SEMEL_ELIMIT, "%s expression: longer than %d characters", option,
                          KEY_EXPRESSION_MAX);
    parser p = {.plan = out, .option = option, .at = out->text, .err = err};
    memset(out, 0, sizeof *out);
    memcpy(out->text, expression, len + 1);
    semel_status status = check_utf8(&p);
    if (!status)
        status = parse_parts(&p);
    if (!status && key_literals(out) == out->count)
        status = fail_at(&p, out->text, "quoted texts alone are the same for every message");
    return status;
}
