/* The audit, the newest first. The library lists it in the order of ids, so the last id is searched
 * for, from one that is known to exist, and then windows of ids are read backwards: a page costs
 * the same however long the audit is.
 *
 * The table says who, what and with which result. A change from the page says so, and why, in a
 * comment behind the command: dead retry --cause 7f3a90c1 # page: the carrier is back */
#include "program/admin/api_internal.h"
#include "program/support/show.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW_LEAST = 64, WINDOW_MOST = 4096, LOOKED_AT = 20000, WINDOWS_MAX = 64 };

typedef struct entry {
    int64_t id, at_ms;
    char *who, *what, *result;
    uint64_t count;
} entry;

typedef struct listing {
    region *memory;
    int64_t before;
    const char *who, *what;
    int64_t since_ms;
    entry *found; /* of the window, ascending */
    size_t count, room, rows;
} listing;

/* --- the last id ------------------------------------------------------------------------------ */

static semel_status note_id(const semel_audit *e, void *context, semel_error *err)
{
    (void)err;
    *(int64_t *)context = e->id;
    return SEMEL_OK;
}

/* Is there an id behind this one? *found is the next one then. */
static semel_status find_behind(int64_t *found, semel_store *store, int64_t id, semel_error *err)
{
    const semel_audit_filter filter = {.size = sizeof filter, .after_id = id, .limit = 1};
    *found = 0;
    return semel_audit_list(store, &filter, note_id, found, err);
}

/* Steps that double, then halves. */
static semel_status find_last(int64_t *last, semel_store *store, int64_t from, semel_error *err)
{
    int64_t low = from, step = 1, found = 0, high = 0;
    semel_status status = SEMEL_OK;
    while (!status && !high && low < INT64_MAX / 4) {
        status = find_behind(&found, store, low + step - 1, err);
        if (found) {
            low = found;
            step *= 2;
        } else {
            high = low + step;
        }
    }
    while (!status && high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        status = find_behind(&found, store, middle - 1, err);
        if (found)
            low = found;
        else
            high = middle;
    }
    *last = low;
    return status;
}

/* --- windows ---------------------------------------------------------------------------------- */

static semel_status add_entry(const semel_audit *e, void *context, semel_error *err)
{
    listing *l = context;
    (void)err;
    if (e->id >= l->before)
        return SEMEL_EGIVEUP;
    l->rows++;
    if ((l->who && !strstr(e->who, l->who)) || (l->what && !strstr(e->what, l->what)) ||
        (l->since_ms && e->at_ms < l->since_ms))
        return SEMEL_OK;
    if (l->count == l->room) {
        l->room = l->room ? 2 * l->room : WINDOW_LEAST;
        l->found = must_realloc(l->found, l->room * sizeof *l->found);
    }
    l->found[l->count++] = (entry){.id = e->id,
                                   .at_ms = e->at_ms,
                                   .who = region_copy(l->memory, e->who, strlen(e->who)),
                                   .what = region_copy(l->memory, e->what, strlen(e->what)),
                                   .result = region_copy(l->memory, e->result, strlen(e->result)),
                                   .count = e->count};
    return SEMEL_OK;
}

static semel_status read_window(listing *l, semel_store *store, int64_t width, semel_error *err)
{
    const semel_audit_filter filter = {.size = sizeof filter,
                                       .after_id = l->before > width ? l->before - width - 1 : 0,
                                       .limit = (uint32_t)width + 1};
    l->count = 0;
    semel_status status = semel_audit_list(store, &filter, add_entry, l, err);
    return status == SEMEL_EGIVEUP ? SEMEL_OK : status;
}

/* --- entries ---------------------------------------------------------------------------------- */

/* Where the comment begins, outside of quotes: " # page"; NULL: a command was typed. */
static char *comment_of(char *what)
{
    static const char sign[] = " # page";
    int quoted = 0;
    for (char *at = what; *at; at++) {
        quoted ^= *at == '\'';
        if (!quoted && strncmp(at, sign, sizeof sign - 1) == 0 &&
            (!at[sizeof sign - 1] || at[sizeof sign - 1] == ':'))
            return at;
    }
    return NULL;
}

static void put_entry(buffer *to, const entry *e)
{
    char *comment = comment_of(e->what), *why = comment ? strchr(comment, ':') : NULL;
    if (comment)
        *comment = 0;
    put_open(to, NULL, '{');
    put_int(to, "id", e->id);
    put_int(to, "at", e->at_ms);
    put_text(to, "who", e->who);
    put_text(to, "how", comment ? "page" : "command");
    put_text(to, "what", e->what);
    put_int(to, "count", (int64_t)e->count);
    put_text(to, "result", *e->result ? e->result : NULL);
    put_text(to, "why", why && why[1] ? why + 2 : NULL);
    put_close(to, '}');
}

static semel_status put_entries(buffer *to, listing *l, semel_store *store, semel_error *err)
{
    size_t shown = 0, windows = 0;
    semel_status status = SEMEL_OK;
    put_open(to, "entries", '[');
    for (int64_t width = WINDOW_LEAST; !status && l->before > 1 && shown < API_PAGE &&
                                       l->rows < LOOKED_AT && windows++ < WINDOWS_MAX;
         width = width < WINDOW_MOST ? 2 * width : width) {
        int64_t next = l->before > width ? l->before - width : 1;
        status = read_window(l, store, width, err);
        for (size_t i = l->count; !status && i > 0 && shown < API_PAGE; i--, shown++) {
            put_entry(to, &l->found[i - 1]);
            if (shown + 1 == API_PAGE)
                next = l->found[i - 1].id;
        }
        l->before = next;
    }
    put_close(to, ']');
    put_known(to, "next", l->before > 1 ? l->before : -1);
    return status;
}

void api_audit(asking *q, api_answer *out)
{
    static const char *const known[] = {"who", "what", "since", "before", NULL};
    api_place at;
    semel_error why = {0};
    int64_t last = 0;
    listing l = {.memory = &q->memory,
                 .who = api_query_get(&q->query, "who"),
                 .what = api_query_get(&q->query, "what")};
    if (!api_knows(q, out, known) || !api_query_time(&l.since_ms, q, out, "since"))
        return;
    if (!api_query_number(&l.before, api_query_get(&q->query, "before"))) {
        api_bad_query(out, "before is what next was on the page before.");
        return;
    }
    if (!api_begin_use(q->a, &at)) {
        api_no_store(out, q->a);
        return;
    }
    semel_status status = find_last(&last, at.store, atomic_load(&q->a->last_audit), &why);
    if (!status)
        atomic_store(&q->a->last_audit, last);
    if (!l.before || l.before > last)
        l.before = last + 1;
    if (!status)
        status = put_entries(&out->body, &l, at.store, &why);
    if (status)
        api_store_failed(out, &why);
    free(l.found);
    api_end_use(q->a);
}
