/* One attempt of a handler in claim mode: the lease that it renews, the time that it may take, and
 * the end of the program. A handler that waits for something outside calls attempt_continue() at
 * least as often as attempt_wake_ms() says, from the thread that owns the unit. */
#ifndef SEMEL_PROGRAM_HANDLER_ATTEMPT_H
#define SEMEL_PROGRAM_HANDLER_ATTEMPT_H

#include <semel/semel.h>

typedef struct attempt {
    semel_unit *unit;
    uint32_t lease_ms;
    uint32_t timeout_ms;
    const char *late; /* what has not happened then: "exec: did not end" */
    int64_t renew_ms; /* when the lease is renewed next; all in the clock of child.h */
    int64_t lost_ms;  /* when it ends, if it is not renewed */
    int64_t late_ms;  /* when the attempt has taken too long */
} attempt;

/* lease_ms 0: the inbox's default; timeout_ms 0: as long as it takes. */
void attempt_begin(attempt *out, semel_unit *unit, uint32_t lease_ms, uint32_t timeout_ms,
                   const char *late);

/* The time that the attempt may take begins again: it has waited for its turn until now. */
void attempt_restart_timeout(attempt *a);

/* Renews the lease when that is due. SEMEL_OK: go on. Else the work has to be ended, and this is
 * the handler's status: SEMEL_ELOST, SEMEL_EHANDLER if it took too long, SEMEL_ESTOPPED if the
 * program ends and the time for draining is over. */
semel_status attempt_continue(attempt *a, semel_error *err);

/* No later than this, attempt_continue() is to be called again. */
int64_t attempt_wake_ms(const attempt *a);

#endif
