/* A message: what became of its key, when, and what was sent because of it; and the search for a
 * key in all inboxes and dead letters. */
#include "program/admin/api_keys.h"
#include "program/gateway/proxy_inbox.h"
#include "program/operate/dead.h"
#include "program/support/show.h"
#include "program/support/typed_key.h"

#include <string.h>

enum { TIMELINE_MAX = 500, LETTERS_MAX = 10, FOUND_MAX = 20 };

/* --- the timeline ----------------------------------------------------------------------------- */

typedef struct timeline {
    region *memory;
    const char *inbox;
    const char *unknown;      /* why the outcome of the request is not known; NULL: it is */
    char *rows[TIMELINE_MAX]; /* JSON, the newest first */
    size_t count;
    buffer message; /* of the oldest delivery that was kept */
} timeline;

static const char *kind_of(const semel_history *row)
{
    if (row->kind == SEMEL_HISTORY_SENT)
        return row->outcome == SEMEL_PROCESSED ? "sent"
               : row->outcome == SEMEL_DEAD    ? "send_dead"
                                               : "send_failed";
    switch (row->outcome) {
    case SEMEL_PROCESSED:
        return "processed";
    case SEMEL_REPLAYED:
        return "replayed";
    case SEMEL_IN_PROGRESS:
        return "waiting";
    case SEMEL_MISMATCH:
        return "mismatch";
    case SEMEL_STALE:
        return "stale";
    case SEMEL_MISSING_KEY:
        return "missing_key";
    case SEMEL_FAILED:
        return "failed";
    default:
        return row->outcome == SEMEL_DEAD && row->letter ? "dead" : "duplicate";
    }
}

/* A request whose outcome is unknown is stored with that note, which is all that was processed. */
static void put_event(buffer *to, const semel_history *row, const char *unknown)
{
    buffer id = {0};
    if (row->message_id.len)
        show_key(&id, row->message_id);
    put_open(to, NULL, '{');
    put_int(to, "at", row->at_ms);
    put_text(to, "kind", unknown ? "unknown" : kind_of(row));
    put_text(to, "outcome", semel_outcome_name(row->outcome));
    put_text(to, "name", row->name);
    put_text(to, "type", row->type);
    put_int(to, "attempt", row->attempt);
    put_int(to, "delivery", row->delivery);
    put_ms(to, "took_ms", row->took_ns > 0 ? row->took_ns : -1);
    put_text(to, "message_id", id.data);
    put_text(to, "process", row->process && *row->process ? row->process : NULL);
    put_text(to, "error", row->error && *row->error ? row->error : unknown);
    put_time(to, "letter", row->letter);
    put_time(to, "retry_ms", row->retry_ms);
    put_int(to, "sent", (int64_t)row->count);
    put_close(to, '}');
    buffer_free(&id);
}

static semel_status add_event(const semel_history *row, void *context, semel_error *err)
{
    timeline *t = context;
    buffer event = {0};
    (void)err;
    if (row->kind == SEMEL_HISTORY_RECEIVED && strcmp(row->name, t->inbox) != 0)
        return SEMEL_OK;
    put_event(&event, row, row->outcome == SEMEL_PROCESSED ? t->unknown : NULL);
    /* an element of a list has no comma before it yet */
    t->rows[t->count++] = region_copy(t->memory, event.data, event.len);
    buffer_free(&event);
    /* an older semel has kept the checksum of a proxied request as its body */
    if (row->message && row->kind == SEMEL_HISTORY_RECEIVED && !proxy_inbox_is(t->inbox)) {
        t->message.len = 0;
        put_message(&t->message, NULL, row->message, row->body_len);
    }
    return SEMEL_OK;
}

static semel_status read_timeline(timeline *t, const api_place *at, semel_bytes key,
                                  semel_error *err)
{
    const semel_history_filter rows = {
        .size = sizeof rows, .key = key, .limit = TIMELINE_MAX, .contents = 1};
    semel_status status = semel_history_list(at->store, &rows, add_event, t, err);
    return status == SEMEL_EUNSUPPORTED ? SEMEL_OK : status;
}

static void put_timeline(buffer *to, const timeline *t)
{
    put_open(to, "timeline", '[');
    for (size_t i = t->count; i > 0; i--)
        put_raw(to, NULL, t->rows[i - 1]);
    put_close(to, ']');
}

/* --- the letter ------------------------------------------------------------------------------- */

typedef struct letter {
    buffer message;
    int64_t id;
} letter;

static semel_status keep_letter(const semel_dead *dead, void *context, semel_error *err)
{
    letter *l = context;
    (void)err;
    l->id = dead->id;
    l->message.len = 0;
    if (dead->message)
        put_message(&l->message, NULL, dead->message, dead->message->body.len);
    return SEMEL_OK;
}

/* A dead letter has all of its message. */
static semel_status read_letter(letter *l, const api_place *at, const char *inbox, semel_bytes key,
                                semel_error *err)
{
    const semel_dead_filter filter = {.size = sizeof filter,
                                      .origin = SEMEL_DEAD_INBOX,
                                      .name = inbox,
                                      .key = key,
                                      .limit = LETTERS_MAX};
    return semel_dead_list(at->store, &filter, keep_letter, l, err);
}

/* --- the page --------------------------------------------------------------------------------- */

static void put_verdict(buffer *to, const key_facts *k, const inbox_facts *f, int64_t id)
{
    int is_waiting = strcmp(k->state, "waiting") == 0;
    put_open(to, "verdict", '{');
    put_text(to, "state", k->state);
    put_int(to, "attempts", k->attempts);
    put_int(to, "failures", k->failures);
    put_int(to, "copies", k->copies);
    put_known(to, "sent", k->sent);
    put_time(to, "at", k->at_ms ? k->at_ms : k->last_ms);
    put_time(to, "due", is_waiting ? k->due_ms : 0);
    put_time(to, "dead_letter", id);
    put_text(to, "mode", f->mode);
    put_close(to, '}');
}

static void put_marker(buffer *to, const key_facts *k)
{
    if (!k->has_marker) {
        put_null(to, "marker");
        return;
    }
    put_open(to, "marker", '{');
    put_text(to, "state",
             k->marker == SEMEL_MARKER_DONE      ? "done"
             : k->marker == SEMEL_MARKER_CLAIMED ? "claimed"
             : k->marker == SEMEL_MARKER_DEAD    ? "dead"
                                                 : "failed");
    put_int(to, "attempts", k->marker_attempts);
    put_time(to, "first_ms", k->marker_first_ms);
    put_time(to, "last_ms", k->marker_last_ms);
    put_time(to, "lease_until_ms", k->marker == SEMEL_MARKER_CLAIMED ? k->lease_until_ms : 0);
    put_text(to, "error", k->marker_error && *k->marker_error ? k->marker_error : NULL);
    put_bool(to, "has_result", k->has_result);
    put_close(to, '}');
}

/* A dead letter's key is remembered as long as the letter. */
static void put_memory(buffer *to, const key_facts *k, const inbox_facts *f)
{
    int ends = k->has_marker && k->marker == SEMEL_MARKER_DONE &&
               f->retention_ms < (uint64_t)INT64_MAX / 2;
    put_known(to, "remembered_until", ends ? k->marker_last_ms + (int64_t)f->retention_ms : -1);
}

static void put_page(asking *q, buffer *to, const snapshot *s, const inbox_facts *f,
                     const key_facts *k, const timeline *t, const letter *l)
{
    put_text(to, "inbox", f->name);
    put_key(to, "key", k->key);
    put_text(to, "state", k->state);
    put_verdict(to, k, f, l->id);
    put_marker(to, k);
    if (l->message.len)
        put_raw(to, "message", l->message.data);
    else if (t->message.len)
        put_raw(to, "message", t->message.data);
    else
        put_null(to, "message");
    put_bool(to, "keeps_messages", s->has_history && !proxy_inbox_is(f->name));
    put_timeline(to, t);
    put_memory(to, k, f);
    put_bool(to, "history", s->has_history);
    put_text(to, "type", k->type);
    put_text(to, "source", k->source);
    (void)q;
}

static void answer(asking *q, api_answer *out, const snapshot *s, const inbox_facts *f,
                   semel_bytes key)
{
    static const row_filter every;
    api_place at;
    key_facts k;
    semel_error why = {0};
    semel_inbox *inbox = NULL;
    timeline *t = region_alloc(&q->memory, sizeof *t);
    letter l = {0};
    if (!api_begin_use(q->a, &at)) {
        api_no_store(out, q->a);
        return;
    }
    t->memory = &q->memory;
    t->inbox = f->name;
    semel_status status = key_open_inbox(&inbox, &at, f->name, &why);
    if (!status)
        status = key_read(&k, &q->memory, &at, inbox, f->name, key, &every, &why);
    t->unknown = status ? NULL : k.unknown_why;
    if (!status)
        status = read_timeline(t, &at, key, &why);
    if (!status)
        status = read_letter(&l, &at, f->name, key, &why);
    semel_inbox_close(inbox);
    api_end_use(q->a);
    if (status)
        api_store_failed(out, &why);
    else if (!k.has_marker && !k.rows && !l.id)
        api_not_found(out,
                      "The key is not known in %s: it never arrived, was forgotten, or is "
                      "another one.",
                      f->name);
    else
        put_page(q, &out->body, s, f, &k, t, &l);
    buffer_free(&t->message);
    buffer_free(&l.message);
}

/* 1, or 0 after a problem. */
static int read_key(semel_bytes *out, asking *q, api_answer *to)
{
    const char *typed = api_query_get(&q->query, "key");
    const char *wrong = typed ? typed_key_stored(out, &q->memory, typed) : "there is none";
    if (wrong)
        api_bad_query(to, "The key is not one: %s.", wrong);
    return !wrong;
}

void api_message(asking *q, api_answer *out)
{
    static const char *const known[] = {"inbox", "key", NULL};
    semel_bytes key = {0};
    const char *name = api_query_get(&q->query, "inbox");
    if (!api_knows(q, out, known) || !read_key(&key, q, out))
        return;
    snapshot *s = api_take_facts(q->a);
    const inbox_facts *f = name ? snapshot_inbox(s, name) : NULL;
    if (f)
        answer(q, out, s, f, key);
    else
        api_not_found(out, "There is no inbox \"%.255s\".", name ? name : "");
    api_return_facts(q->a, s);
}

/* --- the search ------------------------------------------------------------------------------- */

static semel_status find_in(asking *q, buffer *to, const api_place *at, const char *name,
                            semel_bytes key, semel_error *err)
{
    static const row_filter every;
    semel_inbox *inbox = NULL;
    key_facts k;
    semel_status status = key_open_inbox(&inbox, at, name, err);
    if (!status)
        status = key_read(&k, &q->memory, at, inbox, name, key, &every, err);
    semel_inbox_close(inbox);
    if (status || (!k.has_marker && !k.rows))
        return status;
    put_open(to, NULL, '{');
    put_text(to, "inbox", name);
    put_key(to, "key", k.key);
    put_text(to, "state", k.state);
    put_text(to, "type", k.type);
    put_time(to, "last_ms", k.last_ms);
    key_put_strip(to, &k);
    put_close(to, '}');
    return SEMEL_OK;
}

static semel_status add_letter(const semel_dead *dead, void *context, semel_error *err)
{
    buffer *to = context;
    (void)err;
    put_open(to, NULL, '{');
    put_int(to, "letter", dead->id);
    put_text(to, "origin",
             dead->origin == SEMEL_DEAD_OUTBOX  ? "outbox"
             : dead->origin == SEMEL_DEAD_QUEUE ? "queue"
                                                : "inbox");
    put_text(to, "name", dead->name);
    put_key(to, "key", dead->key);
    put_text(to, "error", dead->error);
    put_int(to, "at", dead->at_ms);
    put_close(to, '}');
    return SEMEL_OK;
}

void api_find(asking *q, api_answer *out)
{
    static const char *const known[] = {"key", NULL};
    semel_bytes key = {0};
    api_place at;
    semel_error why = {0};
    semel_status status = SEMEL_OK;
    if (!api_knows(q, out, known) || !read_key(&key, q, out))
        return;
    if (!api_begin_use(q->a, &at)) {
        api_no_store(out, q->a);
        return;
    }
    const semel_dead_filter letters = {
        .size = sizeof letters, .key = key, .limit = LETTERS_MAX, .brief = 1};
    snapshot *s = api_take_facts(q->a);
    put_open(&out->body, "results", '[');
    for (size_t i = 0; !status && i < s->inbox_count; i++)
        status = find_in(q, &out->body, &at, s->inboxes[i].name, key, &why);
    if (!status)
        status = semel_dead_list(at.store, &letters, add_letter, &out->body, &why);
    put_close(&out->body, ']');
    if (status)
        api_store_failed(out, &why);
    api_return_facts(q->a, s);
    api_end_use(q->a);
}
