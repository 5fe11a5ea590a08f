/* See route.h. */
#include "program/gateway/route.h"
#include "program/support/show.h"

semel_status proxy_open(gateway_route *route, semel_error *err)
{
    (void)route;
    (void)err;
    return SEMEL_OK;
}

void proxy_close(gateway_route *route)
{
    (void)route;
}

void proxy_handle(gateway_route *route, http_request *request)
{
    route_count(route, ROUTE_UNAVAILABLE, steady_clock_ns());
    http_respond_problem(request, &(http_problem){.status = 501,
                                                  .type = "not-implemented",
                                                  .title = "This route is not implemented"});
}
