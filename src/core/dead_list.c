/* Listing dead letters, by one filter for all that lists.
 *
 * The driver knows most of the filter. Two things are decided here: whether an error contains a
 * text, and the cause of a letter that was stored without one, by an older semel or with a new
 * error. With such a filter a page of the driver's may show fewer letters than there are, so the
 * list goes on with the next page until its own is full or the driver has no more. Each page is a
 * transaction of its own: a search through many letters keeps no writer waiting for long. */
#include "base/text.h"
#include "core/dead.h"

enum { LIMIT_DEFAULT = 100, SEARCH_ROWS = 100, SEARCH_ROWS_BRIEF = 1000 };

semel_status dead_filter_read(semel_dead_filter *out, const semel_dead_filter *given,
                              semel_error *err)
{
    semel_status status = options_read(out, sizeof *out, given, "semel_dead_filter", err);
    out->size = sizeof *out;
    if (!out->limit)
        out->limit = LIMIT_DEFAULT;
    if (!out->key.len)
        out->key.data = NULL; /* for the drivers: any key */
    if (!status && out->retry != 0 && out->retry != 1)
        status = semel_fail(err, SEMEL_EINVAL, "semel_dead_filter.retry: %d is neither 0 nor 1",
                            out->retry);
    return status;
}

typedef struct listing {
    const semel_dead_filter *wanted;
    semel_dead_filter page; /* what the driver is asked for */
    semel_dead_visitor *visitor;
    void *context;
    uint32_t left; /* letters that may still be shown */
    uint32_t seen; /* letters of the driver's page */
    int64_t last_id;
} listing;

static int is_wanted(const semel_dead_filter *filter, const semel_dead *dead)
{
    return (!filter->cause || dead->cause == filter->cause) &&
           (!filter->error || text_contains(dead->error, filter->error));
}

static semel_status show_letter(const semel_dead *dead, void *context, semel_error *err)
{
    listing *l = context;
    semel_dead shown = *dead;
    if (!l->left)
        return SEMEL_OK;
    l->seen++;
    l->last_id = dead->id;
    if (!shown.cause)
        shown.cause = semel_cause(shown.name, shown.error);
    if (!is_wanted(l->wanted, &shown))
        return SEMEL_OK;
    l->left--;
    return l->visitor(&shown, l->context, err);
}

static semel_status list_page(work_unit *unit, void *context, semel_error *err)
{
    listing *l = context;
    return unit->store->driver->dead->list(unit->state, &l->page, show_letter, l, err);
}

/* Nearly all letters have a cause, so a search for one asks for as many as are wanted first. */
static semel_status list_pages(semel_store *store, listing *l, semel_error *err)
{
    uint32_t search = l->wanted->brief ? SEARCH_ROWS_BRIEF : SEARCH_ROWS, asked;
    semel_status status;
    l->left = l->wanted->limit;
    l->page = *l->wanted;
    if (l->wanted->error)
        l->page.limit = search;
    do {
        l->seen = 0;
        asked = l->page.limit;
        status = store_transact(store, SEMEL_BEGIN_RELAXED, list_page, l, err);
        l->page.after_id = l->last_id;
        l->page.limit = search;
    } while (!status && l->left && l->seen == asked);
    return status;
}

semel_status semel_dead_list(semel_store *store, const semel_dead_filter *filter,
                             semel_dead_visitor *visitor, void *context, semel_error *err)
{
    semel_dead_filter wanted;
    listing l = {.wanted = &wanted, .visitor = visitor, .context = context};
    semel_status status = dead_filter_read(&wanted, filter, err);
    if (!status)
        status = store_can_keep_dead(store, err);
    return status ? status : list_pages(store, &l, err);
}
