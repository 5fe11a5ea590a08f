/* semel-bench-plain upstream PORT | proxy PORT URL: what the gateway is measured against. The
 * upstream answers every request; the proxy passes every request on, by the same server and the
 * same calls of libcurl as the gateway, and keeps nothing. Both say on stderr that they are
 * ready, as `semel run` does, and end with SIGTERM. */
#include "program/gateway/proxy.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 32, CONNECTIONS = 1000, BODY_MAX = 1 << 20, MEMORY_MAX = 64 << 20 };

static const char said[] = "{\"charge\": 4711, \"status\": \"succeeded\", \"amount\": 1250}\n";

typedef struct plain_proxy {
    route_config route;
    http_pool pool;
} plain_proxy;

static void answer(http_request *request, void *context)
{
    static const http_header headers[] = {{"Content-Type", "application/json"}, {NULL, NULL}};
    (void)context;
    http_respond(request, &(http_response){.status = 201,
                                           .headers = headers,
                                           .body = said,
                                           .len = sizeof said - 1,
                                           .is_static = 1});
}

static void pass_on(http_request *request, void *context)
{
    plain_proxy *proxy = context;
    upstream_call call = {.route = &proxy->route, .request = request, .pool = &proxy->pool};
    upstream_run(&call);
    if (call.end == UPSTREAM_ANSWERED)
        http_respond(request, &(http_response){.status = call.status,
                                               .headers = call.headers,
                                               .body = call.body.data,
                                               .len = call.body.len});
    else
        http_respond_problem(request, &(http_problem){.status = 502,
                                                      .type = "no-answer",
                                                      .title = "No answer",
                                                      .detail = call.why.text});
    buffer_free(&call.body);
}

static int serve(const char *port, http_serve *handle, void *context, const sigset_t *ends)
{
    char listen[64];
    int number = 0;
    semel_error why;
    http_server *server = NULL;
    const http_server_options options = {.listen = listen,
                                         .workers = WORKERS,
                                         .connections = CONNECTIONS,
                                         .body_bytes = BODY_MAX,
                                         .header_bytes = 16 << 10,
                                         .memory_bytes = MEMORY_MAX,
                                         .request_ms = 10000,
                                         .idle_ms = 60000,
                                         .handle = handle,
                                         .context = context};
    (void)snprintf(listen, sizeof listen, "127.0.0.1:%s", port);
    if (http_server_open(&server, &options, &why)) {
        (void)fprintf(stderr, "%s\n", why.text);
        return EXIT_FAILURE;
    }
    (void)fputs("{\"event\":\"ready\"}\n", stderr);
    (void)sigwait(ends, &number);
    http_server_close(server);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static plain_proxy proxy = {
        .route = {.timeout_ms = 30000, .response_bytes = BODY_MAX, .private_addresses = 1}};
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &ends, NULL);
    if (argc == 3 && strcmp(argv[1], "upstream") == 0)
        return serve(argv[2], answer, NULL, &ends);
    if (argc != 4 || strcmp(argv[1], "proxy") != 0) {
        (void)fputs("usage: semel-bench-plain upstream PORT | proxy PORT URL\n", stderr);
        return 2;
    }
    proxy.route.proxy = argv[3];
    http_pool_open(&proxy.pool);
    int status = serve(argv[2], pass_on, &proxy, &ends);
    http_pool_close(&proxy.pool);
    return status;
}
