/* A change by hand of one thing or of many: an entry in the audit that is kept current, progress,
 * and Ctrl-C that ends it between two steps.
 *
 *     status = bulk_begin(&b, &tool, count, "outbox requeue %s", name);
 *     while (!status && there is more && !bulk_is_stopped(&b)) {
 *         one step;
 *         status = bulk_did(&b, changed, "due now");
 *     }
 *     return bulk_end(&b, status, "now due", "semel outbox requeue shipping");
 */
#ifndef SEMEL_PROGRAM_OPERATE_BULK_H
#define SEMEL_PROGRAM_OPERATE_BULK_H

#include "program/operate/confirm.h"

typedef struct bulk {
    tool *tool;
    semel_audit entry;
    progress progress;
    uint64_t total, done;
    int is_open;
    uint32_t rows;   /* of the step at hand; 0: there was none yet */
    int64_t step_ns; /* when that began */
} bulk;

/* Writes the entry before anything is changed. The format says what is done, as it is typed. */
int bulk_begin(bulk *b, tool *t, uint64_t total, const char *format, ...) SEMEL_PRINTF(4, 5);

int bulk_is_stopped(const bulk *b);

/* Before a step that is one transaction: how many rows it may change at most. A step that took
 * long makes the next one smaller, so that Ctrl-C is heeded soon and locks are held for a short
 * time. */
uint32_t bulk_step(bulk *b);

/* Brings the entry up to date: `changed` more rows are `word` (forgotten). */
int bulk_did(bulk *b, uint64_t changed, const char *word);

/* Says how many of how many are `word`; if it was stopped, how to continue, and the exit status is
 * that of the signal. `status` is of the step that failed, or 0; it is returned. */
int bulk_end(bulk *b, int status, const char *word, const char *again);

#endif
