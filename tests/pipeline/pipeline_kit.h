/* Surroundings for pipelines: a fresh SQLite file with a table `effect`, handlers that write into
 * it in their unit, messages to send, and waiting for what comes of them. */
#ifndef SEMEL_TESTS_PIPELINE_KIT_H
#define SEMEL_TESTS_PIPELINE_KIT_H

#include "support/base/check.h"
#include "support/fixture/effect.h"
#include "support/process/deadline.h"
#include "support/process/process.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { KIT_TEXT = 128, KIT_LATE_MS = 60000 };

typedef struct pipeline_case {
    store_place place;
    semel_pipeline *pipeline; /* a test closes it: its specification is the test's */
} pipeline_case;

/* For cmocka. */
int kit_setup(void **state);
int kit_teardown(void **state);

#define PIPELINE_TEST(function)                            \
    {                                                      \
#function, function, kit_setup, kit_teardown, NULL \
    }

/* Opens it as c->pipeline; closes it. */
void kit_open(pipeline_case *c, const semel_pipeline_spec *spec);
void kit_close(pipeline_case *c);

/* Stops, waits, and must have gone well. */
void kit_end(pipeline_case *c);

/* Writes "CONTEXT:ID" into the table, in the unit; the context is a text. */
semel_handler kit_effect;
semel_status kit_write(semel_unit *unit, const char *what, const semel_message *message,
                       semel_error *err);

/* Sends a message of this type with the id NAME-NUMBER to an outbox of the pipeline. */
void kit_send(semel_pipeline *pipeline, const char *outbox, const char *type, const char *name,
              unsigned number);

int64_t kit_effects(const pipeline_case *c);               /* all there are */
int64_t kit_times(const pipeline_case *c, const char *of); /* of one */

/* Until there are so many; the test ends if they do not come. */
void kit_wait_effects(const pipeline_case *c, int64_t count);
void kit_wait_flag(atomic_int *flag, int value); /* until it is at least that */

#endif
