/* See bent.h. */
#include "support/fake/failing_store.h"

#include "core/store.h"

#include <stdatomic.h>

static struct {
    const semel_store_driver *straight;
    semel_store_driver driver;
    atomic_uint commits; /* that are to fail ... */
    atomic_int status;   /* ... with this */
    atomic_size_t body_max;
} bent;

static int takes_one_commit(void)
{
    unsigned left = atomic_load(&bent.commits);
    while (left && !atomic_compare_exchange_weak(&bent.commits, &left, left - 1))
        continue;
    return left > 0;
}

static semel_status commit(void *unit, semel_error *err)
{
    if (!takes_one_commit())
        return bent.straight->commit(unit, err);
    bent.straight->rollback(unit);
    return semel_fail(err, (semel_status)atomic_load(&bent.status), "the commit was told to fail");
}

static semel_status dead_put(void *unit, const semel_dead *dead, semel_error *err)
{
    if (dead->message->body.len > atomic_load(&bent.body_max))
        return semel_fail(err, SEMEL_ELIMIT, "a letter of %zu bytes", dead->message->body.len);
    return bent.straight->dead_put(unit, dead, err);
}

void bent_open(world *w)
{
    bent.straight = w->store->driver;
    bent.driver = *bent.straight;
    bent.driver.commit = commit;
    bent.driver.dead_put = dead_put;
    bent_break_commits(0, SEMEL_OK);
    bent_limit_letters(SIZE_MAX);
    w->store->driver = &bent.driver;
}

void bent_break_commits(unsigned count, semel_status status)
{
    atomic_store(&bent.status, (int)status);
    atomic_store(&bent.commits, count);
}

void bent_limit_letters(size_t body_max)
{
    atomic_store(&bent.body_max, body_max);
}
