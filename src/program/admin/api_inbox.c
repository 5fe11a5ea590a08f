/* One inbox: what arrived recently and what became of it, the newest first, a row for each key. The
 * rows come from the history, which has an index by name; a page looks at a bounded number of them,
 * however many there are. Without a history they are the markers, in the order of keys. */
#include "program/admin/api_keys.h"
#include "program/operate/filters.h"
#include "program/operate/inboxes.h"
#include "program/support/show.h"
#include "program/support/typed_key.h"

#include <string.h>

enum { LOOKED_AT = 2000, STEP = 250 };

static const char undecided[] = "outcome_unknown"; /* of a request to an upstream */

typedef struct listing {
    asking *q;
    api_place at;
    semel_inbox *inbox;
    const char *name;
    const char *state;
    row_filter filter;
    int64_t before;         /* the page begins behind this row of the history; 0: the newest */
    semel_bytes keys[STEP]; /* of the step at hand, each once */
    size_t key_count;
    semel_bytes shown[API_PAGE];
    size_t count;
    int64_t last; /* the last row that was looked at */
    size_t rows;  /* of this step, or of all markers */
    buffer after; /* the last marker */
    buffer *to;
} listing;

/* --- rows ------------------------------------------------------------------------------------- */

static void put_row(buffer *to, const key_facts *k)
{
    put_open(to, NULL, '{');
    put_key(to, "key", k->key);
    put_text(to, "type", k->type);
    put_text(to, "source", k->source);
    put_text(to, "state", k->state);
    put_int(to, "attempts", k->attempts);
    put_int(to, "copies", k->copies);
    put_int(to, "failures", k->failures);
    put_time(to, "first_ms", k->first_ms);
    put_time(to, "last_ms", k->last_ms);
    put_ms(to, "took_ms", k->took_ns);
    put_text(to, "message_id", k->message_id);
    key_put_strip(to, k);
    put_close(to, '}');
}

static int is_same(semel_bytes a, semel_bytes b)
{
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

static int is_in(const semel_bytes *keys, size_t count, semel_bytes key)
{
    for (size_t i = 0; i < count; i++)
        if (is_same(keys[i], key))
            return 1;
    return 0;
}

static semel_status add_key(const semel_history *row, void *context, semel_error *err)
{
    listing *l = context;
    (void)err;
    l->rows++;
    l->last = row->id;
    if (!row->key.len || is_in(l->shown, l->count, row->key) ||
        is_in(l->keys, l->key_count, row->key) || l->count + l->key_count == API_PAGE)
        return l->count + l->key_count == API_PAGE ? SEMEL_EGIVEUP : SEMEL_OK;
    l->keys[l->key_count++] =
        (semel_bytes){region_copy(&l->q->memory, row->key.data, row->key.len), row->key.len};
    return l->count + l->key_count == API_PAGE ? SEMEL_EGIVEUP : SEMEL_OK;
}

/* A key that has a newer row that matches was on an earlier page. */
static semel_status show_key_of(listing *l, semel_bytes key, semel_error *err)
{
    key_facts k;
    semel_status status =
        key_read_history(&k, &l->q->memory, &l->at, l->inbox, l->name, key, &l->filter, err);
    if (status || (l->before && k.newest_match >= l->before) ||
        (l->state && strcmp(l->state, k.state) != 0))
        return status;
    l->shown[l->count++] = key;
    put_row(l->to, &k);
    return SEMEL_OK;
}

static semel_status list_step(listing *l, int64_t before, semel_error *err)
{
    const semel_history_filter rows = {.size = sizeof rows,
                                       .kind = SEMEL_HISTORY_RECEIVED,
                                       .name = l->name,
                                       .outcome = l->filter.outcome,
                                       .type = l->filter.type,
                                       .since_ms = l->filter.since_ms,
                                       .before_id = before,
                                       .limit = STEP};
    l->rows = l->key_count = 0;
    semel_status status = semel_history_list(l->at.store, &rows, add_key, l, err);
    if (status == SEMEL_EGIVEUP)
        status = SEMEL_OK;
    for (size_t i = 0; !status && i < l->key_count; i++)
        status = show_key_of(l, l->keys[i], err);
    return status;
}

static semel_status list_history(listing *l, semel_error *err)
{
    size_t seen = 0;
    semel_status status;
    l->last = l->before;
    do {
        status = list_step(l, l->last, err);
        seen += l->rows;
    } while (!status && l->rows && (l->rows == STEP || l->key_count) && l->count < API_PAGE &&
             seen < LOOKED_AT);
    put_close(l->to, ']');
    put_known(l->to, "next", l->count == API_PAGE || seen >= LOOKED_AT ? l->last : -1);
    return status;
}

/* --- markers ---------------------------------------------------------------------------------- */

static semel_status add_marker(const semel_marker *m, void *context, semel_error *err)
{
    listing *l = context;
    int is_undecided = inbox_unknown_outcome(&l->q->memory, l->name, m) != NULL;
    key_facts k = {.key = m->key,
                   .type = m->type,
                   .source = m->source,
                   .attempts = m->attempts,
                   .first_ms = m->first_ms,
                   .last_ms = m->last_ms,
                   .took_ns = -1,
                   .processed = m->state == SEMEL_MARKER_DONE,
                   .dead = m->state == SEMEL_MARKER_DEAD,
                   .state = is_undecided                       ? undecided
                            : m->state == SEMEL_MARKER_DONE    ? "processed"
                            : m->state == SEMEL_MARKER_CLAIMED ? "progress"
                            : m->state == SEMEL_MARKER_DEAD    ? "dead"
                                                               : "waiting"};
    (void)err;
    l->rows++;
    l->after.len = 0;
    buffer_add(&l->after, m->key.data, m->key.len);
    if (!l->state || m->state != SEMEL_MARKER_DONE || strcmp(l->state, k.state) == 0)
        put_row(l->to, &k);
    return SEMEL_OK;
}

static semel_marker_state marker_state(const char *state)
{
    if (!state)
        return SEMEL_MARKER_NONE;
    return strcmp(state, "processed") == 0  ? SEMEL_MARKER_DONE
           : strcmp(state, undecided) == 0  ? SEMEL_MARKER_DONE
           : strcmp(state, "progress") == 0 ? SEMEL_MARKER_CLAIMED
           : strcmp(state, "dead") == 0     ? SEMEL_MARKER_DEAD
                                            : SEMEL_MARKER_OPEN;
}

static semel_status list_markers(listing *l, semel_bytes after, semel_error *err)
{
    const semel_marker_filter filter = {.size = sizeof filter,
                                        .state = marker_state(l->state),
                                        .after = after,
                                        .limit = API_PAGE,
                                        .results = inbox_keeps_answers(l->name)};
    semel_status status =
        l->inbox ? semel_inbox_list(l->inbox, &filter, add_marker, l, err) : SEMEL_OK;
    buffer next = {0};
    put_close(l->to, ']');
    if (l->rows == API_PAGE)
        show_stored_key(&next, (semel_bytes){l->after.data, l->after.len});
    put_text(l->to, "next", next.data);
    buffer_free(&next);
    return status;
}

/* --- one key ---------------------------------------------------------------------------------- */

static semel_status list_key(listing *l, semel_bytes key, semel_error *err)
{
    key_facts k;
    semel_status status =
        key_read(&k, &l->q->memory, &l->at, l->inbox, l->name, key, &l->filter, err);
    if (!status && (k.has_marker || k.rows))
        put_row(l->to, &k);
    put_close(l->to, ']');
    put_null(l->to, "next");
    return status;
}

/* --- the route -------------------------------------------------------------------------------- */

static const struct {
    const char *word;
    semel_outcome outcome;
} states[] = {{"processed", SEMEL_PROCESSED}, {"dead", SEMEL_DEAD},
              {"waiting", SEMEL_FAILED},      {"mismatch", SEMEL_MISMATCH},
              {"stale", SEMEL_STALE},         {"progress", SEMEL_UNDECIDED},
              {"unknown", SEMEL_UNDECIDED},   {undecided, SEMEL_PROCESSED}};

static int read_state(listing *l, api_answer *out)
{
    l->state = api_query_get(&l->q->query, "state");
    for (size_t i = 0; l->state && i < sizeof states / sizeof *states; i++)
        if (strcmp(states[i].word, l->state) == 0) {
            l->filter.outcome = states[i].outcome;
            return 1;
        }
    if (l->state)
        api_bad_query(out, "state is one of processed, waiting, progress, dead, mismatch, stale, "
                           "outcome_unknown.");
    return !l->state;
}

/* What `before` means depends on where the rows come from. */
static int read_before(listing *l, api_answer *out, semel_bytes *after, int from_history)
{
    const char *before = api_query_get(&l->q->query, "before");
    if (from_history ? api_query_number(&l->before, before)
                     : !before || !typed_key_stored(after, &l->q->memory, before))
        return 1;
    api_bad_query(out, "before is what next was on the page before.");
    return 0;
}

static void list(listing *l, api_answer *out, const snapshot *s)
{
    semel_error why = {0};
    semel_bytes key = {0}, after = {0};
    const char *typed = api_query_get(&l->q->query, "key");
    const char *wrong = typed ? typed_key_stored(&key, &l->q->memory, typed) : NULL;
    int from_history = s->has_history && !(l->state && strcmp(l->state, "progress") == 0);
    if (wrong)
        api_bad_query(out, "The key is not one: %s.", wrong);
    if (wrong || !read_before(l, out, &after, from_history))
        return;
    put_text(l->to, "from", from_history ? "history" : "markers");
    put_open(l->to, "rows", '[');
    semel_status status = key_open_inbox(&l->inbox, &l->at, l->name, &why);
    if (!status)
        status = typed          ? list_key(l, key, &why)
                 : from_history ? list_history(l, &why)
                                : list_markers(l, after, &why);
    if (status)
        api_store_failed(out, &why);
    semel_inbox_close(l->inbox);
    buffer_free(&l->after);
}

static void answer(asking *q, api_answer *out, const snapshot *s, const inbox_facts *f)
{
    listing *l = region_alloc(&q->memory, sizeof *l);
    l->q = q;
    l->name = f->name;
    l->to = &out->body;
    l->filter.type = api_query_get(&q->query, "type");
    if (!read_state(l, out) || !api_query_time(&l->filter.since_ms, q, out, "since"))
        return;
    if (!api_begin_use(q->a, &l->at)) {
        api_no_store(out, q->a);
        return;
    }
    pthread_mutex_lock(&q->a->look_lock);
    api_put_inbox(l->to, "inbox", q->a, s, f);
    pthread_mutex_unlock(&q->a->look_lock);
    list(l, out, s);
    api_end_use(q->a);
}

void api_inbox(asking *q, api_answer *out)
{
    static const char *const known[] = {"state", "type", "source", "since", "key", "before", NULL};
    const char *name = q->query.segments[1];
    if (!api_knows(q, out, known))
        return;
    snapshot *s = api_take_facts(q->a);
    const inbox_facts *f = snapshot_inbox(s, name);
    if (f)
        answer(q, out, s, f);
    else
        api_not_found(out, "There is no inbox \"%.255s\".", name);
    api_return_facts(q->a, s);
}

int api_query_time(int64_t *out_ms, const asking *q, api_answer *to, const char *name)
{
    const char *text = api_query_get(&q->query, name);
    int64_t ms = 0;
    if (!text)
        return 1;
    if ((api_query_number(&ms, text) && ms > 0) || filters_time(&ms, text, wall_clock_ms(), 1)) {
        *out_ms = ms;
        return 1;
    }
    api_bad_query(to, "%s is 2h, a time like 2026-03-14T01:40:00Z, or milliseconds since 1970.",
                  name);
    return 0;
}
