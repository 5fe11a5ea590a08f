/* The handler of an inbox: its kind, and the messages that it sends. See handler.h. */
#include "program/handler/handler.h"

#include "program/handler/send.h"

#include <stdlib.h>

struct handler {
    const handler_class *kind;
    void *state;
    send_plan *sends; /* NULL: none */
};

const handler_class *handler_class_of(handler_kind kind)
{
    static const handler_class *const classes[] = {[HANDLER_NONE] = &bridge_handler,
                                                   [HANDLER_SQL] = &sql_handler,
                                                   [HANDLER_HTTP] = &http_handler,
                                                   [HANDLER_EXEC] = &exec_handler,
                                                   [HANDLER_WORKER] = &worker_handler};
    return (size_t)kind < sizeof classes / sizeof *classes ? classes[kind] : NULL;
}

static semel_status open_parts(handler *opened, const config *all, const inbox_config *inbox,
                               semel_error *err)
{
    semel_status status =
        inbox->send_count ? send_open(&opened->sends, all, inbox, NULL, err) : SEMEL_OK;
    if (status)
        return status;
    status = opened->kind->open(&opened->state, all, inbox, err);
    if (status)
        send_close(opened->sends);
    return status;
}

semel_status handler_open(handler **out, const config *all, const inbox_config *inbox,
                          semel_error *err)
{
    handler *opened = must_alloc(sizeof *opened);
    opened->kind = handler_class_of(inbox->handler);
    semel_status status = opened->kind ? open_parts(opened, all, inbox, err)
                                       : semel_fail(err, SEMEL_EINVAL, "there is no such handler");
    if (status)
        free(opened);
    else
        *out = opened;
    return status;
}

void handler_close(handler *all)
{
    if (!all)
        return;
    all->kind->close(all->state);
    send_close(all->sends);
    free(all);
}

semel_status handler_run(semel_unit *unit, const semel_message *message, void *context,
                         semel_error *err)
{
    const handler *all = context;
    semel_status status = all->kind->handle(unit, message, all->state, err);
    return status || !all->sends ? status : send_all(all->sends, unit, message, err);
}
