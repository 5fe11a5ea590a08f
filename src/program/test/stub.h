/* The handler of an inbox in a test: the real one for sql and send; for exec, http and worker what
 * `answers` says, so that a test sends no mail. */
#ifndef SEMEL_PROGRAM_TEST_STUB_H
#define SEMEL_PROGRAM_TEST_STUB_H

#include "program/config/config.h"

typedef struct stub stub;

semel_status stub_open(stub **out, const config *all, const inbox_config *inbox,
                       const test_config *test, int call_handlers, semel_error *err);
void stub_close(stub *s);

/* A semel_handler; the context is the stub. The answer to the nth attempt at a message is the nth
 * word, and the last one to all that follow: done, retry or dead. */
semel_status stub_run(semel_unit *unit, const semel_message *message, void *context,
                      semel_error *err);

#endif
