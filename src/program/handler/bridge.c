/* `send` alone: the inbox does nothing but pass messages on, each once. */
#include "program/handler/handler.h"

static semel_status open_bridge(void **out, const config *all, const inbox_config *inbox,
                                semel_error *err)
{
    (void)all;
    *out = NULL;
    return inbox->send_count ? SEMEL_OK : semel_fail(err, SEMEL_EINVAL, "it has no handler");
}

static void close_bridge(void *state)
{
    (void)state;
}

static semel_status handle_nothing(semel_unit *unit, const semel_message *message, void *context,
                                   semel_error *err)
{
    (void)unit;
    (void)message;
    (void)context;
    (void)err;
    return SEMEL_OK;
}

const handler_class bridge_handler = {HANDLER_NONE, "send",       SEMEL_QUEUED,
                                      open_bridge,  close_bridge, handle_nothing};
