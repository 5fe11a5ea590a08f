/* The gateway in the life of `semel run`: it listens before the store is open, uses each pipeline
 * that is opened, and is drained with it. With --once there is none: such a process ends when
 * nothing is left to do, and would refuse whoever had just found it. */
#include "program/cli.h"
#include "program/handler/drain.h"
#include "program/run/service_internal.h"

enum { WAIT_MS = 50 };

static gateway_links links_of(service *s)
{
    return (gateway_links){
        .log = s->log, .tracer = s->tracer, .observer = service_observe, .observer_context = s};
}

static int wants_gateway(const service *s, const config *all)
{
    return all->gateway.listen && !s->options->once;
}

int service_open_gateway(service *s)
{
    semel_error why = {0};
    const gateway_links links = links_of(s);
    if (!wants_gateway(s, s->all))
        return CLI_OK;
    if (!gateway_open(&s->gateway, s->all, &links, &why)) {
        admin_use_gateway(s->admin, s->gateway);
        return CLI_OK;
    }
    log_write(s->log, &(log_entry){.level = LOG_ERROR,
                                   .event = "failed",
                                   .subject = "gateway",
                                   .msg = why.text,
                                   .fields = {{"component", "gateway", 0}}});
    return CLI_FAILED;
}

semel_status service_prepare_gateway(service *s, const config *fresh, semel_error *err)
{
    const gateway_links links = links_of(s);
    if (!wants_gateway(s, fresh))
        return SEMEL_OK;
    semel_status status = s->gateway ? gateway_prepare(s->gateway, fresh, err)
                                     : gateway_open(&s->gateway, fresh, &links, err);
    admin_use_gateway(s->admin, s->gateway);
    return status;
}

void service_use_gateway(service *s, const config *all)
{
    if (!wants_gateway(s, all))
        service_close_gateway(s);
    else if (s->gateway)
        gateway_use(s->gateway, all, s->store, s->now.pipeline, s->now.assembly);
}

void service_pause_gateway(service *s)
{
    if (s->gateway)
        gateway_use(s->gateway, NULL, NULL, NULL, NULL);
}

void service_drain_gateway(service *s)
{
    if (s->gateway)
        gateway_drain(s->gateway);
}

int service_gateway_is_idle(const service *s)
{
    return !s->gateway || !gateway_pending(s->gateway);
}

/* Where the main thread waits it must go on telling that it is alive. A second signal ends the
 * process meanwhile, and closing as a whole has a limit. */
void service_close_gateway(service *s)
{
    service_drain_gateway(s);
    while (!service_gateway_is_idle(s)) {
        service_wait(s, WAIT_MS);
        if (s->stop_signal) /* it came while a configuration without a gateway is exchanged */
            drain_begin(s->all->drain_ms);
    }
    admin_use_gateway(s->admin, NULL);
    gateway_close(s->gateway);
    s->gateway = NULL;
}
