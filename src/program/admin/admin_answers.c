/* How requests to the admin server are answered. The Host comes first: a web page must not learn
 * from the answer what there is. */
#include "program/admin/admin_internal.h"
#include "program/admin/exposition.h"
#include "program/admin/page.h"

#include <string.h>

const http_header admin_headers[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cache-Control", "no-store"},
    {0}};

static void respond_text(http_request *request, unsigned status, const char *type, buffer *text)
{
    const http_header headers[] = {{"Content-Type", type}, {0}};
    http_respond(request,
                 &(http_response){
                     .status = status, .headers = headers, .body = text->data, .len = text->len});
    buffer_free(text);
}

/* --- what there is ---------------------------------------------------------------------------- */

static void answer_livez(admin *a, http_request *request)
{
    buffer text = {0};
    (void)a;
    buffer_text(&text, "alive\n");
    respond_text(request, 200, "text/plain; charset=utf-8", &text);
}

static void answer_readyz(admin *a, http_request *request)
{
    buffer text = {0};
    int verbose = http_request_query(request, "verbose") != NULL;
    int is_ready =
        readiness_write(a->readiness, &text, verbose, http_request_query(request, "exclude"));
    respond_text(request, is_ready ? 200 : 503, "text/plain; charset=utf-8", &text);
}

static void answer_metrics(admin *a, http_request *request)
{
    buffer text = {0};
    int is_open = exposition_wants_open_metrics(http_request_header(request, "Accept"));
    pthread_rwlock_rdlock(&a->lock);
    metrics_write(a, &text, is_open);
    pthread_rwlock_unlock(&a->lock);
    respond_text(request, 200, exposition_content_type(is_open), &text);
}

/* --- which of them ---------------------------------------------------------------------------- */

typedef struct place_of_admin {
    const char *path;
    void (*answer)(admin *a, http_request *request);
} place_of_admin;

static const place_of_admin places[] = {
    {"/livez", answer_livez}, {"/readyz", answer_readyz}, {"/metrics", answer_metrics}};

static void refuse_method(http_request *request)
{
    static const char body[] =
        "{\"type\":\"urn:semel:problem:method\",\"title\":\"The method is not allowed\","
        "\"status\":405,\"detail\":\"This resource is read with GET.\"}\n";
    const http_header headers[] = {
        {"Content-Type", "application/problem+json"}, {"Allow", "GET, HEAD"}, {0}};
    http_respond(request, &(http_response){405, headers, body, sizeof body - 1, 1});
}

static void refuse_host(http_request *request)
{
    http_respond_problem(
        request, &(http_problem){
                     .status = 421,
                     .type = "misdirected",
                     .title = "The admin server is not called by this name",
                     .detail = "Call it by a loopback address, or add the name to admin.hosts."});
}

static int is_reading(const http_request *request)
{
    const char *method = http_request_method(request);
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

static void answer_none(http_request *request)
{
    http_respond_problem(
        request,
        &(http_problem){.status = 404,
                        .type = "not-found",
                        .title = "There is no such resource",
                        .detail = "Health is at /livez and /readyz, numbers at /metrics."});
}

void admin_handle(http_request *request, void *context)
{
    admin *a = context;
    const char *path = http_request_path(request);
    pthread_rwlock_rdlock(&a->lock);
    int is_permitted = admin_names_permit(&a->names, http_request_header(request, "Host"));
    int has_page = a->names.has_page;
    pthread_rwlock_unlock(&a->lock);
    if (!is_permitted) {
        refuse_host(request);
        return;
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (strcmp(path, places[i].path) == 0) {
            if (is_reading(request))
                places[i].answer(a, request);
            else
                refuse_method(request);
            return;
        }
    if (!has_page)
        answer_none(request);
    else if (strncmp(path, "/api/", 5) == 0)
        (void)api_handle(a->api, request);
    else
        (void)page_handle(request);
}
