/* Answers as they are stored with a key: a line with version, kind, status and fingerprint, a line
 * for each header that is kept, an empty line, the body.
 *
 *     semel 1 answer 201 9f86d081...
 *     Content-Type: application/json
 *
 *     {"charge": 7}
 */
#include "program/gateway/proxy.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const kinds[] = {
    [ANSWER_KEPT] = "answer", [ANSWER_UNKNOWN] = "unknown", [ANSWER_TOO_LARGE] = "too-large"};

enum { KINDS = sizeof kinds / sizeof *kinds };

static const char first_words[] = "semel 1 ";

/* --- whose it is ------------------------------------------------------------------------------ */

/* In place of a fingerprint. */
static const char of_all[DIGEST_HEX_SIZE] =
    "0000000000000000000000000000000000000000000000000000000000000000";

void proxy_answer_fits_all(proxy_answer *answer)
{
    memcpy(answer->fingerprint, of_all, sizeof answer->fingerprint);
}

int proxy_answer_fits(const proxy_answer *answer, const proxy_key *key)
{
    return strcmp(answer->fingerprint, key->fingerprint) == 0 ||
           strcmp(answer->fingerprint, of_all) == 0;
}

/* --- writing ---------------------------------------------------------------------------------- */

void proxy_answer_write(buffer *to, const proxy_answer *answer)
{
    buffer_printf(to, "%s%s %u %s\n", first_words, kinds[answer->kind], answer->status,
                  answer->fingerprint);
    for (const http_header *h = answer->headers; h && h->name; h++)
        buffer_printf(to, "%s: %s\n", h->name, h->value);
    buffer_text(to, "\n");
    if (answer->body.len)
        buffer_add(to, answer->body.data, answer->body.len);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* The next line, without its end; NULL if there is none. */
static char *take_line(region *memory, semel_bytes *left)
{
    const char *from = left->data;
    const char *end = left->len ? memchr(from, '\n', left->len) : NULL;
    if (!end)
        return NULL;
    left->data = end + 1;
    left->len -= (size_t)(end + 1 - from);
    return region_copy(memory, from, (size_t)(end - from));
}

static int read_first(proxy_answer *out, char *line)
{
    size_t kind = 0, len;
    if (strncmp(line, first_words, sizeof first_words - 1) != 0)
        return 0;
    line += sizeof first_words - 1;
    len = strcspn(line, " ");
    while (kind < KINDS && (strlen(kinds[kind]) != len || strncmp(kinds[kind], line, len) != 0))
        kind++;
    if (kind == KINDS)
        return 0;
    unsigned long status = strtoul(line + len, &line, 10);
    if (status < 200 || status > 599 || *line++ != ' ' || strlen(line) != DIGEST_HEX_SIZE - 1)
        return 0;
    out->kind = (answer_kind)kind;
    out->status = (unsigned)status;
    memcpy(out->fingerprint, line, DIGEST_HEX_SIZE);
    return 1;
}

static size_t count_lines(semel_bytes of)
{
    size_t count = 0;
    const char *at = of.data, *end = at + of.len;
    while (at < end && *at != '\n' && (at = memchr(at, '\n', (size_t)(end - at)))) {
        at++;
        count++;
    }
    return count;
}

/* A header and its value, in place of the line. */
static int split(http_header *out, char *line)
{
    char *colon = strstr(line, ": ");
    if (!colon)
        return 0;
    *colon = 0;
    *out = (http_header){line, colon + 2};
    return 1;
}

int proxy_answer_read(proxy_answer *out, region *memory, semel_bytes stored)
{
    *out = (proxy_answer){0};
    char *line = take_line(memory, &stored);
    if (!line || !read_first(out, line))
        return 0;
    http_header *headers = region_alloc(memory, (count_lines(stored) + 1) * sizeof *headers);
    out->headers = headers;
    while ((line = take_line(memory, &stored)) && *line)
        if (!split(headers++, line))
            return 0;
    out->body = stored;
    return line != NULL;
}

/* --- headers ---------------------------------------------------------------------------------- */

/* What describes the body, and where the result is. Not what is for one caller at one moment:
 * cookies, limits, the ids of requests. */
int proxy_header_is_kept(const route_config *route, const char *name)
{
    static const char *const always[] = {"Content-Type",
                                         "Content-Encoding",
                                         "Content-Language",
                                         "Content-Disposition",
                                         "Content-Location",
                                         "Location",
                                         "ETag",
                                         "Last-Modified",
                                         "Link",
                                         "Cache-Control",
                                         "Expires",
                                         "Vary"};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        if (strcasecmp(name, always[i]) == 0)
            return 1;
    for (size_t i = 0; i < route->replay_headers.count; i++)
        if (strcasecmp(name, route->replay_headers.items[i]) == 0)
            return 1;
    return 0;
}
