/* The handlers of `semel run`: each kind makes a semel_handler and its context out of the
 * configuration of an inbox.
 *
 * sql and send alone work in queued mode, in the marker's transaction; http, exec and worker in
 * claim mode. What a handler sends and its result are stored with the completion. */
#ifndef SEMEL_PROGRAM_HANDLER_HANDLER_H
#define SEMEL_PROGRAM_HANDLER_HANDLER_H

#include "program/config/config.h"

typedef struct handler handler;

/* What a kind of handler is made of. One table per kind, in its own file. */
typedef struct handler_class {
    handler_kind kind;
    const char *name; /* as in the configuration: "sql" */
    semel_mode mode;
    /* Reads what is constant (statements, templates, programs) and changes nothing. SEMEL_EINVAL if
     * the configuration cannot work. */
    semel_status (*open)(void **state, const config *all, const inbox_config *inbox,
                         semel_error *err);
    void (*close)(void *state);
    /* One message. Called by several threads at once. */
    semel_handler *handle; /* the context is the state */
} handler_class;

/* sql.c, http.c, exec.c, worker.c; `send` alone is bridge.c. */
extern const handler_class sql_handler, http_handler, exec_handler, worker_handler, bridge_handler;

semel_status handler_open(handler **out, const config *all, const inbox_config *inbox,
                          semel_error *err);
void handler_close(handler *all);

/* For the pipeline: runs the handler of the inbox, then queues the messages of `send`. The context
 * is the handler. */
semel_status handler_run(semel_unit *unit, const semel_message *message, void *context,
                         semel_error *err);

const handler_class *handler_class_of(handler_kind kind);

#endif
