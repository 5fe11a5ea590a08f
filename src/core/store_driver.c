/* What a store driver table must have, and what a store can do by its table. Decided when a store,
 * an inbox or an outbox is opened, so that no message runs into a member that is not there. */
#include "core/store.h"

static int has_units(const semel_store_units *u)
{
    return u && u->begin && u->commit && u->rollback && !u->savepoint == !u->keep &&
           !u->savepoint == !u->undo;
}

static int has_markers(const semel_store_markers *m)
{
    return !m || (m->look && m->claim && m->fail && m->forget && (m->mark || m->finish) &&
                  !m->finish == !m->renew && !m->result_set == !m->result_get);
}

static int has_notes(const semel_store_notes *n)
{
    return !n || (n->read && n->write);
}

static int has_outbox(const semel_store_outbox *o)
{
    return !o || (o->put && o->lease && o->settle && o->unsent);
}

/* An outbox needs a place for what no broker takes. */
static int has_dead(const semel_store_driver *d)
{
    const semel_store_dead *dead = d->dead;
    if (!dead)
        return !d->outbox;
    return dead->put && dead->drop && dead->list && (!d->markers || d->markers->bury);
}

static int has_watch(const semel_store_watch *w)
{
    return !w || (w->watch && w->heard && w->unwatch);
}

static int has_lists(const semel_store_lists *l)
{
    return !l || (l->markers && !l->sent == !l->sweep_sent);
}

static int has_history(const semel_store_history *h)
{
    return !h || (h->put && h->list && h->trim && h->bounds);
}

/* The group of members that lacks one which is not optional; NULL if the table is complete. */
static const char *find_gap(const semel_store_driver *d)
{
    if (!d->scheme || !d->store_size || !d->unit_size || !d->open || !d->close || !d->now ||
        !d->durability || !d->scope)
        return "store";
    return !has_units(d->units)       ? "units"
           : !has_markers(d->markers) ? "markers"
           : !has_notes(d->notes)     ? "notes"
           : !has_outbox(d->outbox)   ? "outbox"
           : !has_dead(d)             ? "dead"
           : !has_watch(d->watch)     ? "watch"
           : !has_lists(d->lists)     ? "lists"
           : !has_history(d->history) ? "history"
                                      : NULL;
}

semel_status store_driver_check(const semel_store_driver *driver, semel_error *err)
{
    if (driver->version != SEMEL_STORE_DRIVER_VERSION)
        return semel_fail(err, SEMEL_EUNSUPPORTED,
                          "the store driver is of version %u, this library knows version %d: "
                          "build the driver with this library's headers",
                          (unsigned)driver->version, SEMEL_STORE_DRIVER_VERSION);
    const char *gap = find_gap(driver);
    if (gap)
        return semel_fail(
            err, SEMEL_EINVAL,
            "%s: the driver table lacks a member of the group \"%s\" that is not optional",
            driver->scheme ? driver->scheme : "store driver", gap);
    if (!(driver->abilities & SEMEL_STORE_JOIN) != !driver->units->join)
        return semel_fail(err, SEMEL_EINVAL,
                          "%s: the driver table must have `join` if and only if it has the "
                          "ability SEMEL_STORE_JOIN",
                          driver->scheme);
    return SEMEL_OK;
}

static semel_status refuse(const semel_store *store, const char *what, const char *instead,
                           semel_error *err)
{
    return semel_fail(err, SEMEL_EUNSUPPORTED, "%s: this store cannot keep %s%s",
                      store->driver->scheme, what, instead);
}

semel_status store_can_keep_inbox(const semel_store *store, const semel_inbox_options *options,
                                  semel_error *err)
{
    const semel_store_markers *markers = store->driver->markers;
    if (!markers)
        return refuse(store, "an inbox", ": use another store", err);
    if (options->mode == SEMEL_CLAIM && !markers->finish)
        return refuse(store, "an inbox in claim mode", ": use SEMEL_TRANSACTION", err);
    if (options->mode != SEMEL_CLAIM && !markers->mark)
        return refuse(store, "an inbox in transaction mode", ": use SEMEL_CLAIM", err);
    if (options->mode == SEMEL_QUEUED && !store->driver->units->queue)
        return refuse(store, "an inbox in queued mode",
                      ", because it takes no statements to be queued: use SEMEL_TRANSACTION", err);
    if (options->remember == SEMEL_REMEMBER_POSITIONS && !store->driver->notes)
        return refuse(store, "positions", ": use SEMEL_REMEMBER_KEYS", err);
    if (options->on_duplicate == SEMEL_DUPLICATE_REPLAY && !markers->result_get)
        return refuse(store, "results", ": use SEMEL_DUPLICATE_SKIP or SEMEL_DUPLICATE_REJECT",
                      err);
    return SEMEL_OK;
}

semel_status store_can_keep_outbox(const semel_store *store, semel_error *err)
{
    return store->driver->outbox ? SEMEL_OK
                                 : refuse(store, "an outbox", ": use another store", err);
}

semel_status store_can_keep_queue(const semel_store *store, semel_error *err)
{
    const semel_store_outbox *outbox = store->driver->outbox;
    return outbox && outbox->extend ? SEMEL_OK
                                    : refuse(store, "a queue", ": use another store", err);
}

semel_status store_can_keep_dead(const semel_store *store, semel_error *err)
{
    return store->driver->dead ? SEMEL_OK
                               : refuse(store, "dead letters",
                                        ": use another store, or receive without a consumer and "
                                        "let the broker limit deliveries",
                                        err);
}
