/* Workflows of retention: a round as a run makes it between its turns, and a purge. */
#include "core/retention.h"
#include "support/process/process.h"
#include "support/scenario/crash.h"

static void deliver_each(crash_world *w, const char *const keys[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        (void)crash_deliver(w, keys[i], 1);
}

/* Six old keys and three fresh ones. */
void crash_prepare_old(crash_world *w)
{
    static const char *const old[] = {"old-1", "old-2", "old-3", "old-4", "old-5", "old-6"};
    static const char *const fresh[] = {"new-1", "new-2", "new-3"};
    semel_test_advance_ms(w->base.seam, -CRASH_OLDER_MS);
    deliver_each(w, old, sizeof old / sizeof *old);
    crash_world_pass_ms(w, CRASH_OLDER_MS);
    deliver_each(w, fresh, sizeof fresh / sizeof *fresh);
}

void crash_run_purge(crash_world *w)
{
    size_t removed;
    PROCESS_REQUIRE_OK(semel_inbox_purge(&removed, w->inbox, CRASH_OLD_MS, &w->err), &w->err);
}

static void refuse_trouble(void *context, const semel_error *trouble)
{
    (void)context;
    PROCESS_REQUIRE(!trouble);
}

/* The process that was killed may have set the note: the second one then waits until the interval
 * is over, by the store's clock. */
void crash_run_round(crash_world *w)
{
    enum { EVERY_MS = 50, DEADLINE_MS = 60000 };
    retention r = {0};
    int64_t deadline = process_now_ms() + DEADLINE_MS;
    w->inbox->options.sweep_every_ms = EVERY_MS;
    PROCESS_REQUIRE_OK(
        retention_open(&r, 1, semel_test_seam_get(w->base.seam), refuse_trouble, NULL, &w->err),
        &w->err);
    retention_add(&r, w->inbox);
    retention_start(&r);
    while (!semel_test_passed(w->base.seam, "round.committed") || r.inboxes[0].in_round) {
        PROCESS_REQUIRE(process_now_ms() < deadline);
        semel_test_advance_ms(w->base.seam, EVERY_MS);
        retention_step(&r);
        process_nap();
    }
    retention_close(&r);
}
