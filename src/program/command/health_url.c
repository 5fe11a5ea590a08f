/* See health_url.h. */
#include "program/command/health_url.h"

#include "program/cli.h"
#include "program/support/memory.h"
#include "program/support/show.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

enum { TIMEOUT_DEFAULT_MS = 10000, ANSWER_MOST = 1 << 20, STATUS_OK = 200, STATUS_NOT_READY = 503 };

static const char unix_prefix[] = "unix:";

static size_t keep(char *data, size_t size, size_t count, void *context)
{
    buffer *to = context;
    if (to->len + size * count > ANSWER_MOST)
        return 0;
    buffer_add(to, data, size * count);
    return size * count;
}

/* "http://127.0.0.1:8481" and "http://127.0.0.1:8481/" mean the same. */
static void write_url(buffer *to, const char *url, int ready)
{
    size_t len = strlen(url);
    if (strncmp(url, unix_prefix, sizeof unix_prefix - 1) == 0) {
        buffer_text(to, "http://localhost");
    } else {
        while (len && url[len - 1] == '/')
            len--;
        buffer_text(to, strstr(url, "://") ? "" : "http://");
        buffer_add(to, url, len);
    }
    buffer_text(to, ready ? "/readyz?verbose" : "/readyz?verbose&exclude=draining");
}

static CURLcode get(CURL *curl, const char *url, int ready, int64_t timeout_ms, buffer *answer)
{
    buffer whole = {0};
    write_url(&whole, url, ready);
    (void)curl_easy_setopt(curl, CURLOPT_URL, whole.data);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS,
                           (long)(timeout_ms ? timeout_ms : TIMEOUT_DEFAULT_MS));
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, keep);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    if (strncmp(url, unix_prefix, sizeof unix_prefix - 1) == 0)
        (void)curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, url + sizeof unix_prefix - 1);
    CURLcode code = curl_easy_perform(curl);
    buffer_free(&whole);
    return code;
}

/* What another program says may be anything: lines as they are, if they are text. */
static void print_answer(const buffer *answer)
{
    const char *at = answer->data ? answer->data : "", *end = at + answer->len;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        buffer line = {0};
        show_text(&line, at, (size_t)((newline ? newline : end) - at), 0);
        (void)printf("%s\n", line.data ? line.data : "");
        buffer_free(&line);
        at = newline ? newline + 1 : end;
    }
}

static int show_answer(const char *url, long status, const buffer *answer)
{
    if (status == STATUS_OK || status == STATUS_NOT_READY) {
        print_answer(answer);
        return status == STATUS_OK ? CLI_OK : CLI_FAILED;
    }
    (void)fprintf(stderr,
                  "semel: %s answers with status %ld: is it the admin server of semel run?\n", url,
                  status);
    return CLI_FAILED;
}

int health_ask_url(const char *url, int ready, int64_t timeout_ms)
{
    buffer answer = {0};
    long status = 0;
    CURL *curl = curl_easy_init();
    if (!curl) {
        (void)fputs("semel: out of memory\n", stderr);
        return CLI_FAILED;
    }
    CURLcode code = get(curl, url, ready, timeout_ms, &answer);
    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    int result = CLI_FAILED;
    if (code)
        (void)fprintf(stderr, "semel: %s: %s\n", url, curl_easy_strerror(code));
    else
        result = show_answer(url, status, &answer);
    curl_easy_cleanup(curl);
    buffer_free(&answer);
    return result;
}
