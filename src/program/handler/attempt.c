/* See attempt.h. A lease is renewed when a third of it has passed. While the store does not answer,
 * the renewal is tried again and again until the lease has ended by this process's own clock,
 * counted from before the last renewal that succeeded: then another process may have the key, and
 * going on could do the work twice. */
#include "program/handler/attempt.h"

#include "program/handler/child.h"
#include "program/handler/drain.h"
#include "program/support/units.h"

#include <stddef.h>

enum { LEASE_DEFAULT_MS = 30000, LOOK_MS = 250, AGAIN_MS = 500, PARTS = 3 };

static void lease_renewed(attempt *a, int64_t asked_ms)
{
    a->renew_ms = asked_ms + a->lease_ms / PARTS;
    a->lost_ms = asked_ms + a->lease_ms;
}

void attempt_begin(attempt *out, semel_unit *unit, uint32_t lease_ms, uint32_t timeout_ms,
                   const char *late)
{
    *out = (attempt){.unit = unit,
                     .lease_ms = lease_ms ? lease_ms : LEASE_DEFAULT_MS,
                     .timeout_ms = timeout_ms,
                     .late = late};
    lease_renewed(out, child_clock_ms());
    attempt_restart_timeout(out);
}

void attempt_restart_timeout(attempt *a)
{
    a->late_ms = a->timeout_ms ? child_clock_ms() + a->timeout_ms : INT64_MAX;
}

static semel_status lost(semel_error *err)
{
    return semel_fail(err, SEMEL_ELOST, "the lease has ended while the handler was running");
}

static semel_status renew(attempt *a, int64_t now, semel_error *err)
{
    semel_status status = semel_unit_renew(a->unit, a->lease_ms, err);
    if (status == SEMEL_OK)
        lease_renewed(a, now);
    else if (status == SEMEL_ELOST || child_clock_ms() >= a->lost_ms)
        return lost(err);
    else
        a->renew_ms = child_clock_ms() + AGAIN_MS;
    return SEMEL_OK;
}

static semel_status too_late(const attempt *a, semel_error *err)
{
    return semel_fail(err, SEMEL_EHANDLER, "%s within %s", a->late,
                      units_show_duration(a->timeout_ms).text);
}

semel_status attempt_continue(attempt *a, semel_error *err)
{
    int64_t now = child_clock_ms();
    if (drain_is_over())
        return semel_fail(err, SEMEL_ESTOPPED, "the program ends");
    if (now >= a->late_ms)
        return too_late(a, err);
    return now < a->renew_ms ? SEMEL_OK : renew(a, now, err);
}

int64_t attempt_wake_ms(const attempt *a)
{
    int64_t wake = child_clock_ms() + LOOK_MS;
    if (a->renew_ms < wake)
        wake = a->renew_ms;
    return a->late_ms < wake ? a->late_ms : wake;
}
