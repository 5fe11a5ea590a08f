/* See http_answer.h. A service may repeat in its answer what it was sent; so the words of
 * configured headers, which may be secrets, are masked in what an error shows of it. */
#include "program/handler/http_answer.h"

#include "program/handler/answer.h"
#include "program/support/encoding.h"
#include "program/support/json_scan.h"
#include "program/support/show.h"
#include "program/support/strict_json.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { SAID_MAX = 300, MASKED_LEAST = 4, HTTP_GONE = 410 };

/* --- what the service said -------------------------------------------------------------------- */

static void mask_word(char *text, const char *word, size_t len)
{
    for (char *at = text; len >= MASKED_LEAST && (at = strstr(at, word)); at += len)
        memset(at, '*', len);
}

/* "Bearer abc": each word of it. */
static void mask_header(char *text, const char *value)
{
    while (*value) {
        size_t len = strcspn(value, " ,;=");
        char *word = must_alloc(len + 1);
        memcpy(word, value, len);
        mask_word(text, word, len);
        free(word);
        value += len;
        value += strspn(value, " ,;=");
    }
}

static void mask_secrets(char *text, const config_pairs *headers)
{
    for (size_t i = 0; i < headers->count; i++)
        mask_header(text, headers->items[i].value);
}

static int is_type(const http_answer *got, const char *ends)
{
    size_t len = got->content_type ? strcspn(got->content_type, "; \t") : 0;
    size_t wanted = strlen(ends);
    return len >= wanted && strncasecmp(got->content_type + len - wanted, ends, wanted) == 0;
}

static int is_json(const http_answer *got)
{
    return is_type(got, "/json") || is_type(got, "+json");
}

static const char *text_member(region *memory, semel_bytes object, const char *name)
{
    size_t len = 0;
    return scan_text(&len, memory, scan_find(object, name));
}

/* Of JSON: what is usual, RFC 9457 included. Of plain text: its first line. Pages for people say
 * nothing here. */
static char *what_it_said(const http_answer *got, semel_bytes object, const config_pairs *headers)
{
    static const char *const names[] = {"error", "detail", "message", "title"};
    region memory = {0};
    const char *said = NULL;
    for (size_t i = 0; !said && i < sizeof names / sizeof *names; i++)
        said = text_member(&memory, object, names[i]);
    if (!said && is_type(got, "text/plain") && got->body.len &&
        encoding_is_text(got->body.data, got->body.len))
        said = got->body.data;
    char *copy = must_copy(said ? said : "");
    region_free(&memory);
    mask_secrets(copy, headers);
    buffer line = {0};
    show_text(&line, copy, strcspn(copy, "\r\n"), SAID_MAX);
    free(copy);
    return line.data;
}

/* --- what it means ---------------------------------------------------------------------------- */

static semel_status say(semel_status status, const http_answer *got, semel_bytes object,
                        const http_config *to, semel_error *err)
{
    char *said = what_it_said(got, object, &to->headers);
    if (got->code >= 300 && got->code < 400)
        semel_fail(err, status, "http %ld: redirects are not followed; use the address itself",
                   got->code);
    else if (*said)
        semel_fail(err, status, "http %ld: %s", got->code, said);
    else if (got->retry_after_s > 0)
        semel_fail(err, status, "http %ld: the service asks to wait", got->code);
    else
        semel_fail(err, status, "http %ld", got->code);
    free(said);
    return status;
}

static int says(semel_bytes object, const char *word, const char *other)
{
    region memory = {0};
    const char *status = text_member(&memory, object, "status");
    int is_said = status && (strcasecmp(status, word) == 0 || strcasecmp(status, other) == 0);
    region_free(&memory);
    return is_said;
}

/* A service that has never heard of semel may answer a 2xx with any JSON, and that is done. What
 * has `send` in it is an answer of answer.h, where a mistake must not lose a message. */
static semel_status read_answer(answer *out, semel_bytes object, semel_error *err)
{
    *out = (answer){0};
    if (scan_find(object, "send").len)
        return answer_parse(out, object, err);
    semel_bytes result = scan_find(object, "result");
    if (result.len > SEMEL_RESULT_MAX)
        return semel_fail(err, SEMEL_EHANDLER, "the answer's \"result\" is larger than 1 MiB");
    if (!scan_is_null(result))
        out->result = result;
    return SEMEL_OK;
}

static semel_status complete(semel_bytes object, const http_config *to, semel_unit *unit,
                             const config *all, semel_error *err)
{
    answer said;
    semel_status status = read_answer(&said, object, err);
    if (!status) {
        status = answer_apply(&said, unit, all, err);
        answer_free(&said);
    }
    if (status && err)
        mask_secrets(err->text, &to->headers);
    return status;
}

static semel_status take(const http_answer *got, semel_bytes object, const http_config *to,
                         semel_unit *unit, const config *all, semel_error *err)
{
    if (got->code == HTTP_GONE || says(object, "DROP", "dead"))
        return say(SEMEL_EGIVEUP, got, object, to, err);
    if (got->code < 200 || got->code >= 300 || says(object, "RETRY", "retry"))
        return say(SEMEL_EHANDLER, got, object, to, err);
    return complete(object, to, unit, all, err);
}

semel_status http_answer_take(const http_answer *got, const http_config *to, semel_unit *unit,
                              const config *all, semel_error *err)
{
    semel_bytes body = scan_trimmed((semel_bytes){got->body.data, got->body.len});
    semel_bytes object = {NULL, 0};
    if (is_json(got) && body.len) {
        if (!strict_json_check(body, ANSWER_DEPTH_MAX, NULL)) {
            if (got->code >= 200 && got->code < 300)
                return semel_fail(err, SEMEL_EHANDLER,
                                  "http %ld: the answer says that it is JSON and is not",
                                  got->code);
        } else if (*(const char *)body.data == '{') {
            object = body;
        }
    }
    return take(got, object, to, unit, all, err);
}
