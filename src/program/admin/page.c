/* The page of a program that was built without it. */
#include "program/admin/page.h"

int page_handle(http_request *request)
{
    http_respond_problem(
        request,
        &(http_problem){.status = 404,
                        .type = "not-found",
                        .title = "There is no such resource",
                        .detail = "Health is at /livez and /readyz, numbers at /metrics."});
    return 1;
}

int page_is_built_in(void)
{
    return 0;
}
