/* How long handlers may go on after `semel run` was asked to stop. The signal's handling calls
 * drain_begin(); every handler in claim mode asks drain_is_over() through attempt.h. */
#ifndef SEMEL_PROGRAM_HANDLER_DRAIN_H
#define SEMEL_PROGRAM_HANDLER_DRAIN_H

#include <stdint.h>

/* From now on work in progress has this long (0: it ends now). A later call can only shorten it.
 * From any thread, and from a signal handler. */
void drain_begin(uint32_t allowed_ms);

/* Back to the beginning: no end is set. For tests. */
void drain_reset(void);

/* 1: what still runs is to be ended. */
int drain_is_over(void);

#endif
