/* The JSON API of a program that was built without it. */
#include "program/admin/api.h"

api *api_open(const config *all, const api_links *links)
{
    (void)all, (void)links;
    return NULL;
}

void api_use_store(api *a, semel_store *store)
{
    (void)a, (void)store;
}

void api_use_pipeline(api *a, const config *all, semel_pipeline *pipeline)
{
    (void)a, (void)all, (void)pipeline;
}

void api_close(api *a)
{
    (void)a;
}

int api_handle(api *a, http_request *request)
{
    (void)a;
    http_respond_problem(
        request,
        &(http_problem){.status = 404, .type = "not-found", .title = "There is no such resource"});
    return 1;
}
