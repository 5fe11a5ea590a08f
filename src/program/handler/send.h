/* `send` of an inbox: messages that are stored if and only if the handler's work commits. */
#ifndef SEMEL_PROGRAM_HANDLER_SEND_H
#define SEMEL_PROGRAM_HANDLER_SEND_H

#include "program/config/config.h"
#include "program/handler/value.h"

typedef struct send_plan send_plan;

/* What is wrong with one message of several. */
typedef struct send_mistake {
    size_t send;           /* its number, from 0 on */
    const char *field;     /* "type", "headers", "body" ... */
    const config_node *at; /* of a body: the node; else NULL */
    value_mistake what;
} send_mistake;

/* Reads all templates. SEMEL_EINVAL and *wrong. `wrong` may be NULL. */
semel_status send_open(send_plan **out, const config *all, const inbox_config *inbox,
                       send_mistake *wrong, semel_error *err);
void send_close(send_plan *plan);

/* Sends all of them in the unit. */
semel_status send_all(const send_plan *plan, semel_unit *unit, const semel_message *message,
                      semel_error *err);

#endif
