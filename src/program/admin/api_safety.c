/* May a request change something? Another site that is open in the same browser can send requests
 * here, but neither a header of its own nor JSON without being asked by the browser first, which is
 * refused; and it does not know the token. Each of these alone would be enough. */
#include "program/admin/api_internal.h"
#include "program/support/show.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>
#include <strings.h>

enum { NS_PER_S = 1000000000, UUID_LEN = 36 };

/* Both are digested first, so that neither the length nor the place of a difference shows. */
int api_token_is_right(const snapshot *s, const char *given)
{
    unsigned char a[32], b[32];
    size_t len_a = 0, len_b = 0;
    if (!s->token || !given)
        return 0;
    (void)EVP_Q_digest(NULL, "SHA256", NULL, s->token, strlen(s->token), a, &len_a);
    (void)EVP_Q_digest(NULL, "SHA256", NULL, given, strlen(given), b, &len_b);
    return len_a == sizeof a && len_b == sizeof b && CRYPTO_memcmp(a, b, sizeof a) == 0;
}

/* The authority of an origin: http://127.0.0.1:8481 -> 127.0.0.1:8481. */
static int is_same_origin(const char *origin, const char *host)
{
    const char *authority = strstr(origin, "://");
    return authority && host && strcasecmp(authority + 3, host) == 0;
}

static int is_own_page(http_request *request, api_answer *out)
{
    const char *origin = http_request_header(request, "Origin");
    const char *site = http_request_header(request, "Sec-Fetch-Site");
    const char *host = http_request_header(request, "Host");
    int is_foreign = (origin && !is_same_origin(origin, host)) ||
                     (site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0);
    if (is_foreign)
        api_problem(out, 403, "foreign-origin", "Refused",
                    "The request comes from a page of another site; nothing was changed.");
    return !is_foreign;
}

static int is_json(http_request *request, api_answer *out)
{
    const char *type = http_request_header(request, "Content-Type");
    size_t len = type ? strcspn(type, "; \t") : 0;
    int is_right = len == 16 && strncasecmp(type, "application/json", 16) == 0;
    if (!is_right)
        api_problem(out, 415, "bad-body", "Wrong type of body",
                    "A change is asked for with Content-Type: application/json.");
    return is_right;
}

static int has_request_id(http_request *request, api_answer *out)
{
    const char *id = http_request_header(request, "X-Semel-Request");
    int is_right =
        id && strlen(id) == UUID_LEN && strspn(id, "0123456789abcdefABCDEF-") == UUID_LEN;
    if (!is_right)
        api_problem(out, 400, "missing-request-id", "No request id",
                    "A change needs the header X-Semel-Request with a UUID, which is new for each "
                    "change and the same when one is sent again.");
    return is_right;
}

static int has_token(const snapshot *s, http_request *request, api_answer *out)
{
    const char *given = http_request_header(request, "X-Semel-Token");
    if (!s->has_token)
        api_problem(out, 403, "read-only", "Read-only",
                    "No admin.token is configured, so nothing can be changed here. Set admin.token "
                    "(as ${file:PATH}) and reload, or use the commands.");
    else if (!given)
        api_problem(out, 401, "token-missing", "No token",
                    "A change needs the token of admin.token in the header X-Semel-Token.");
    else if (!api_token_is_right(s, given))
        api_problem(out, 401, "token-wrong", "Wrong token",
                    "The token is not that of admin.token; nothing was changed.");
    return !out->type;
}

int api_may_change(api *a, http_request *request, api_answer *out)
{
    snapshot *s = api_take_facts(a);
    int may = is_own_page(request, out) && has_token(s, request, out) && is_json(request, out) &&
              has_request_id(request, out);
    api_return_facts(a, s);
    return may;
}

const char *api_actor(region *memory, const char *who, const char *peer)
{
    buffer shown = {0};
    show_text(&shown, who ? who : "", who ? strlen(who) : 0, API_WHO_MAX);
    const char *actor = region_printf(memory, "%s (%s)", shown.len ? shown.data : "page", peer);
    buffer_free(&shown);
    return actor;
}

void api_count_refused(api *a)
{
    pthread_mutex_lock(&a->job_lock);
    a->refused++;
    pthread_mutex_unlock(&a->job_lock);
}

/* A caller without a token must not be able to fill the audit: an entry a second. `all` is how many
 * it speaks of. */
static int may_audit(api *a, uint64_t *all)
{
    int64_t now = steady_clock_ns();
    pthread_mutex_lock(&a->job_lock);
    int may = a->refused && (!a->refused_ns || now - a->refused_ns >= NS_PER_S);
    *all = a->refused;
    if (may)
        a->refused_ns = now;
    pthread_mutex_unlock(&a->job_lock);
    return may;
}

static void forget_refused(api *a, uint64_t written)
{
    pthread_mutex_lock(&a->job_lock);
    a->refused -= written;
    pthread_mutex_unlock(&a->job_lock);
}

void api_audit_refused(api *a, const char *who, const char *what, const char *why)
{
    api_place at;
    uint64_t all;
    buffer result = {0};
    if (!may_audit(a, &all) || !api_begin_use(a, &at))
        return;
    buffer_printf(&result, "refused: %s", why);
    if (all > 1)
        buffer_printf(&result, "; %llu more before it", (unsigned long long)(all - 1));
    semel_audit entry = {.size = sizeof entry, .who = who, .what = what, .result = result.data};
    semel_error error = {0};
    if (semel_audit_write(&entry, at.store, &error))
        log_write(a->log, &(log_entry){.level = LOG_WARNING,
                                       .event = "audit",
                                       .subject = "admin",
                                       .msg = error.text});
    else
        forget_refused(a, all);
    api_end_use(a);
    buffer_free(&result);
}

void api_session(asking *q, api_answer *out)
{
    snapshot *s = api_take_facts(q->a);
    put_bool(&out->body, "token_configured", s->has_token);
    put_bool(&out->body, "token_valid", api_token_is_right(s, q->token));
    api_return_facts(q->a, s);
}
