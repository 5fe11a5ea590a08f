/* The admin server in the life of `semel run`: it listens before the store is open, follows each
 * configuration, and answers until the pipeline is closed, so that draining can be watched. With
 * --once there is none, as there is no gateway. */
#include "program/cli.h"
#include "program/run/service_internal.h"

#include <string.h>

static int wants_admin(const service *s, const config *all)
{
    return all->admin.listen && !s->options->once;
}

static semel_status open_admin(service *s, const config *all, semel_error *err)
{
    const admin_links links = {.log = s->log, .live = s->live};
    semel_status status = admin_open(&s->admin, all, &links, err);
    if (!status && s->store)
        admin_use_store(s->admin, s->store);
    if (!status)
        admin_use_gateway(s->admin, s->gateway);
    return status;
}

static void say_failed(const service *s, const semel_error *why)
{
    log_write(s->log, &(log_entry){.level = LOG_ERROR,
                                   .event = "failed",
                                   .subject = "admin",
                                   .msg = why->text,
                                   .fields = {{"component", "admin", 0}}});
}

static void say_listening(const service *s)
{
    buffer text = {0};
    buffer_printf(&text, "admin %s", admin_url(s->admin));
    log_write(s->log, &(log_entry){.level = LOG_INFO,
                                   .event = "listening",
                                   .msg = admin_url(s->admin),
                                   .text = text.data,
                                   .fields = {{"component", "admin", 0}}});
    buffer_free(&text);
}

int service_open_admin(service *s)
{
    semel_error why = {0};
    if (!wants_admin(s, s->all))
        return CLI_OK;
    if (open_admin(s, s->all, &why)) {
        say_failed(s, &why);
        return CLI_FAILED;
    }
    say_listening(s);
    return CLI_OK;
}

semel_status service_prepare_admin(service *s, const config *fresh, semel_error *err)
{
    if (!wants_admin(s, fresh))
        return SEMEL_OK;
    return s->admin ? admin_prepare(s->admin, fresh, err) : open_admin(s, fresh, err);
}

/* A configuration that is gone back to had its address before; if it cannot be had again, the
 * process works without. */
void service_use_admin(service *s, const config *all)
{
    semel_error why = {0};
    if (!wants_admin(s, all))
        service_close_admin(s);
    else if (!s->admin && open_admin(s, all, &why))
        say_failed(s, &why);
}

void service_follow_admin(service *s, const config *all, semel_pipeline *pipeline)
{
    const char *url = s->admin ? admin_url(s->admin) : "";
    buffer before = {0};
    buffer_text(&before, url);
    admin_use_pipeline(s->admin, all, pipeline);
    if (s->admin && pipeline && strcmp(before.data, admin_url(s->admin)) != 0)
        say_listening(s);
    buffer_free(&before);
}

void service_close_admin(service *s)
{
    admin_close(s->admin);
    s->admin = NULL;
}
