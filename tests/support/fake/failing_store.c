/* See failing_store.h. */
#include "support/fake/failing_store.h"

#include "core/store.h"

#include <stdatomic.h>

static struct {
    const semel_store_driver *original;
    semel_store_driver driver;
    semel_store_units units;
    semel_store_dead dead;
    atomic_uint commits; /* that are to fail ... */
    atomic_int status;   /* ... with this */
    atomic_size_t body_max;
} failing;

static int takes_one_commit(void)
{
    unsigned left = atomic_load(&failing.commits);
    while (left && !atomic_compare_exchange_weak(&failing.commits, &left, left - 1))
        continue;
    return left > 0;
}

static semel_status commit(void *unit, semel_error *err)
{
    if (!takes_one_commit())
        return failing.original->units->commit(unit, err);
    failing.original->units->rollback(unit);
    return semel_fail(err, (semel_status)atomic_load(&failing.status),
                      "the commit was told to fail");
}

static semel_status dead_put(void *unit, const semel_dead *dead, semel_error *err)
{
    if (dead->message->body.len > atomic_load(&failing.body_max))
        return semel_fail(err, SEMEL_ELIMIT, "a letter of %zu bytes", dead->message->body.len);
    return failing.original->dead->put(unit, dead, err);
}

void failing_store_open(fixture *f)
{
    failing.original = f->store->driver;
    failing.driver = *failing.original;
    failing.units = *failing.original->units;
    failing.units.commit = commit;
    failing.driver.units = &failing.units;
    failing.dead = *failing.original->dead;
    failing.dead.put = dead_put;
    failing.driver.dead = &failing.dead;
    failing_store_break_commits(0, SEMEL_OK);
    failing_store_limit_letters(SIZE_MAX);
    f->store->driver = &failing.driver;
}

void failing_store_break_commits(unsigned count, semel_status status)
{
    atomic_store(&failing.status, (int)status);
    atomic_store(&failing.commits, count);
}

void failing_store_limit_letters(size_t body_max)
{
    atomic_store(&failing.body_max, body_max);
}
