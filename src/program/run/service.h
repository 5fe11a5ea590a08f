/* The life of `semel run`: wait for the store and the brokers, open the pipeline, run it until a
 * signal, read the configuration again on SIGHUP, drain, end. */
#ifndef SEMEL_PROGRAM_RUN_SERVICE_H
#define SEMEL_PROGRAM_RUN_SERVICE_H

#include "program/config/diagnostic.h"
#include "program/run/log.h"

/* Reads the configuration anew; 1, or 0 if it has errors. `context` is the caller's. */
typedef int service_loader(config **out, void *context, diagnostics *found);

typedef struct service_options {
    int once; /* end when nothing is due */
    service_loader *load;
    void *load_context;
    void (*unload)(config *all);
    int64_t started_ns;        /* when the program began, for "ready in" */
    const char *const *accept; /* paths of inboxes whose definition may change */
    size_t accept_count;
} service_options;

/* Runs until a signal ends it. Takes the configuration over. Returns the exit status. */
int service_run(config *all, const service_options *options);

#endif
