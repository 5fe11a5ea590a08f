/* The pipeline that a configuration describes: its handlers, and the specification that the library
 * opens. */
#ifndef SEMEL_PROGRAM_RUN_ASSEMBLY_H
#define SEMEL_PROGRAM_RUN_ASSEMBLY_H

#include "program/config/config.h"

#include <semel/pipeline.h>

struct live;

typedef struct assembly assembly;

typedef struct assembly_options {
    semel_pipeline_notice *notice;
    void *notice_context;
    struct live *live;         /* counts the handlers that run */
    const char *const *accept; /* paths whose change is accepted: inboxes.NAME */
    size_t accept_count;
} assembly_options;

/* Opens the handlers and makes the specification; the store stays the caller's, and so does the
 * configuration, which must outlive it. */
semel_status assembly_open(assembly **out, const config *all, semel_store *store,
                           const assembly_options *options, semel_error *err);
void assembly_close(assembly *a);

/* For the pipeline: an inbox that no queue leads to has no handler in it. */
const semel_pipeline_spec *assembly_spec(const assembly *a);

/* The same with the handler of each inbox: for the gateway, and for dead letters. */
const semel_pipeline_spec *assembly_handlers(const assembly *a);

/* The grade of an inbox's handler on its queue; NULL pipeline members give what the store alone
 * can. */
semel_grade assembly_grade(const semel_pipeline *pipeline, const inbox_config *inbox);

#endif
