/* Inboxes, outboxes and queues: each a list that fits on a page, from what was looked at last.
 * And the messages that wait in one outbox, from the store. */
#include "program/admin/api_internal.h"
#include "program/cli.h"
#include "program/operate/outboxes.h"
#include "program/run/live_internal.h"
#include "program/support/show.h"
#include "program/watch/peers.h"

#include <string.h>
#include <unistd.h>

/* --- inboxes ---------------------------------------------------------------------------------- */

static void put_rates(buffer *to, const history *h, const inbox_view *v)
{
    put_real(to, "processed_rate", v ? history_rate(h, v, METER_PROCESSED) : -1);
    put_real(to, "suppressed_rate", v ? history_rate(h, v, METER_DUPLICATES) : -1);
    put_real(to, "failed_rate", v ? history_rate(h, v, METER_FAILED) : -1);
    put_ms(to, "p50_ms", v ? history_quantile(h, v, 0.5) : -1);
    put_ms(to, "p99_ms", v ? history_quantile(h, v, 0.99) : -1);
    put_int(to, "in_progress", v ? v->in_progress : 0);
    put_known(to, "dead", v ? v->dead : -1);
    put_int(to, "processed", v ? (int64_t)v->counts[METER_PROCESSED] : 0);
    put_int(to, "suppressed", v ? (int64_t)v->counts[METER_DUPLICATES] : 0);
    put_int(to, "failed", v ? (int64_t)v->counts[METER_FAILED] : 0);
}

void api_put_inbox(buffer *to, const char *name, api *a, const snapshot *s, const inbox_facts *f)
{
    const looked *l = &a->looked;
    view *newest = history_newest(&l->views);
    const inbox_view *v = newest ? view_inbox(newest, f->name) : NULL;
    size_t at = (size_t)(f - s->inboxes);
    put_open(to, name, '{');
    put_text(to, "name", f->name);
    put_text(to, "from", f->from);
    put_text(to, "handler", f->handler);
    put_text(to, "mode", f->mode);
    put_known(to, "grade", f->grade ? f->grade : -1);
    put_text(to, "grade_name", f->grade ? semel_grade_name((semel_grade)f->grade) : NULL);
    put_text(to, "key", f->key);
    put_known(to, "retention", f->retention_ms >= INT64_MAX ? -1 : (int64_t)f->retention_ms);
    put_rates(to, &l->views, v);
    put_known(to, "keys", at < l->key_count ? l->keys[at] : -1);
    api_put_spark(to, l, f->name, 0);
    put_text(to, "warning", f->warning);
    put_close(to, '}');
}

void api_inboxes(asking *q, api_answer *out)
{
    static const char *const known[] = {NULL};
    snapshot *s;
    if (!api_knows(q, out, known))
        return;
    s = api_take_facts(q->a);
    pthread_mutex_lock(&q->a->look_lock);
    put_time(&out->body, "at", q->a->looked.store_at_ms);
    put_open(&out->body, "inboxes", '[');
    for (size_t i = 0; i < s->inbox_count; i++)
        api_put_inbox(&out->body, NULL, q->a, s, &s->inboxes[i]);
    put_close(&out->body, ']');
    pthread_mutex_unlock(&q->a->look_lock);
    api_return_facts(q->a, s);
}

/* --- outboxes --------------------------------------------------------------------------------- */

static const outbox_view *find_outbox(const view *v, const char *name)
{
    for (size_t i = 0; v && i < v->outbox_count; i++)
        if (strcmp(v->outboxes[i].name, name) == 0)
            return &v->outboxes[i];
    return NULL;
}

static int grade_to(const snapshot *s, const char *queue)
{
    for (size_t i = 0; queue && i < s->queue_count; i++)
        if (strcmp(s->queues[i].name, queue) == 0)
            for (size_t b = 0; b < s->broker_count; b++)
                if (s->queues[i].broker && strcmp(s->brokers[b].name, s->queues[i].broker) == 0)
                    return s->brokers[b].grade;
    return s->store_grade;
}

static void put_relays(buffer *to, live *l)
{
    put_open(to, "relays", '[');
    put_open(to, NULL, '{');
    put_text(to, "process", l->id);
    put_text(to, "host", l->host);
    put_int(to, "pid", getpid());
    put_close(to, '}');
    put_close(to, ']');
}

static void put_outbox(buffer *to, const char *name, asking *q, const snapshot *s,
                       const outbox_facts *f)
{
    const looked *l = &q->a->looked;
    const outbox_view *v = find_outbox(history_newest(&l->views), f->name);
    const trouble *t = looked_trouble(l, region_printf(&q->memory, "outbox %s", f->name));
    int grade = grade_to(s, f->to);
    put_open(to, name, '{');
    put_text(to, "name", f->name);
    put_text(to, "to", f->to);
    put_known(to, "unsent", v ? v->waiting : -1);
    put_known(to, "oldest_ms", v ? v->oldest_ms : -1);
    put_real(to, "sent_rate", v ? history_sent(&l->views, v) : -1);
    put_int(to, "sent", v ? (int64_t)v->sent : 0);
    put_int(to, "failed", v ? (int64_t)v->failed : 0);
    put_real(to, "failed_rate", v ? history_unsent(&l->views, v) : -1);
    put_text(to, "state", !t ? "ok" : strcmp(t->msg, "stalled") == 0 ? "stuck" : "unreachable");
    put_text(to, "error", t ? t->error : NULL);
    put_time(to, "since", t ? t->since_ms : 0);
    put_relays(to, q->a->live);
    put_known(to, "grade", grade ? grade : -1);
    put_text(to, "grade_name", grade ? semel_grade_name((semel_grade)grade) : NULL);
    api_put_spark(to, l, f->name, 1);
    put_close(to, '}');
}

void api_outboxes(asking *q, api_answer *out)
{
    static const char *const known[] = {NULL};
    snapshot *s;
    if (!api_knows(q, out, known))
        return;
    s = api_take_facts(q->a);
    pthread_mutex_lock(&q->a->look_lock);
    put_time(&out->body, "at", q->a->looked.store_at_ms);
    put_open(&out->body, "outboxes", '[');
    for (size_t i = 0; i < s->outbox_count; i++)
        put_outbox(&out->body, NULL, q, s, &s->outboxes[i]);
    put_close(&out->body, ']');
    pthread_mutex_unlock(&q->a->look_lock);
    api_return_facts(q->a, s);
}

/* --- one outbox ------------------------------------------------------------------------------- */

typedef struct listing {
    buffer *to;
    int64_t last;
    uint32_t count;
} listing;

static semel_status add_message(const semel_outgoing *m, void *context, semel_error *err)
{
    listing *l = context;
    buffer id = {0};
    (void)err;
    l->last = m->seq;
    l->count++;
    if (m->message)
        show_key(&id, m->message->id);
    put_open(l->to, NULL, '{');
    put_int(l->to, "seq", m->seq);
    put_text(l->to, "id", id.data);
    put_text(l->to, "type", m->message ? m->message->type : NULL);
    put_text(l->to, "topic", m->message ? m->message->topic : NULL);
    put_text(l->to, "group", m->message ? m->message->group : NULL);
    put_int(l->to, "attempts", m->attempts);
    put_int(l->to, "captured_ms", m->captured_ms);
    put_int(l->to, "due_ms", m->due_ms);
    put_bool(l->to, "leased", m->leased);
    put_text(l->to, "error", *m->error ? m->error : NULL);
    put_close(l->to, '}');
    buffer_free(&id);
    return SEMEL_OK;
}

static const outbox_facts *known_outbox(const snapshot *s, const char *name)
{
    for (size_t i = 0; i < s->outbox_count; i++)
        if (strcmp(s->outboxes[i].name, name) == 0)
            return &s->outboxes[i];
    return NULL;
}

static semel_status list_outbox(listing *l, const api_place *at, const char *name, int64_t after,
                                semel_error *err)
{
    semel_outgoing_filter filter = {.size = sizeof filter, .after_seq = after, .limit = API_PAGE};
    semel_outbox *outbox = NULL;
    semel_status status = semel_outbox_open(&outbox, at->store, name, err);
    if (!status)
        status = semel_outbox_list(outbox, &filter, add_message, l, err);
    semel_outbox_close(outbox);
    return status;
}

static void answer_outbox(asking *q, api_answer *out, const snapshot *s, const outbox_facts *f,
                          int64_t after)
{
    api_place at;
    semel_error why = {0};
    listing l = {.to = &out->body};
    if (!api_begin_use(q->a, &at)) {
        api_no_store(out, q->a);
        return;
    }
    pthread_mutex_lock(&q->a->look_lock);
    put_outbox(l.to, "outbox", q, s, f);
    pthread_mutex_unlock(&q->a->look_lock);
    put_open(l.to, "rows", '[');
    if (list_outbox(&l, &at, f->name, after, &why))
        api_store_failed(out, &why);
    put_close(l.to, ']');
    put_known(l.to, "next", l.count == API_PAGE ? l.last : -1);
    api_end_use(q->a);
}

/* An outbox that is not configured is not opened: that would make it known. */
void api_outbox(asking *q, api_answer *out)
{
    static const char *const known[] = {"after", NULL};
    int64_t after = 0;
    const char *name = q->query.segments[1];
    if (!api_knows(q, out, known))
        return;
    snapshot *s = api_take_facts(q->a);
    const outbox_facts *f = known_outbox(s, name);
    if (!f)
        api_not_found(out, "There is no outbox \"%.255s\".", name);
    else if (!api_query_number(&after, api_query_get(&q->query, "after")))
        api_bad_query(out, "after is the seq of the last row of the page before.");
    else
        answer_outbox(q, out, s, f, after);
    api_return_facts(q->a, s);
}

/* --- queues ----------------------------------------------------------------------------------- */

static const queue_view *find_queue(const view *v, const char *name)
{
    for (size_t i = 0; v && i < v->queue_count; i++)
        if (strcmp(v->queues[i].name, name) == 0)
            return &v->queues[i];
    return NULL;
}

static void put_users(buffer *to, const snapshot *s, const char *queue)
{
    put_open(to, "readers", '[');
    for (size_t i = 0; i < s->inbox_count; i++)
        if (s->inboxes[i].from && strcmp(s->inboxes[i].from, queue) == 0)
            put_text(to, NULL, s->inboxes[i].name);
    put_close(to, ']');
    put_open(to, "writers", '[');
    for (size_t i = 0; i < s->outbox_count; i++)
        if (s->outboxes[i].to && strcmp(s->outboxes[i].to, queue) == 0)
            put_text(to, NULL, s->outboxes[i].name);
    put_close(to, ']');
}

/* What leaves a queue is what its inboxes have decided about. What comes in is not known: others
 * publish, too. */
static void put_queue(buffer *to, const looked *l, const snapshot *s, size_t at)
{
    const queue_facts *f = &s->queues[at];
    const view *newest = history_newest(&l->views);
    const queue_view *v = f->broker ? NULL : find_queue(newest, f->name);
    int64_t depth = f->broker && at < l->depth_count ? l->depths[at] : -1;
    put_open(to, NULL, '{');
    put_text(to, "name", f->name);
    put_text(to, "at", f->location);
    put_text(to, "kind", f->broker ? "broker" : "store");
    put_known(to, "ready", v && v->waiting >= 0 ? v->waiting - v->leased - v->delayed : depth);
    put_known(to, "leased", v && v->waiting >= 0 ? v->leased : -1);
    put_known(to, "delayed", v && v->waiting >= 0 ? v->delayed : -1);
    put_known(to, "oldest_ms", v ? v->oldest_ms : -1);
    put_users(to, s, f->name);
    put_real(to, "out_rate", newest ? history_into(&l->views, f->name) : -1);
    put_text(to, "warning", f->is_read ? NULL : "No inbox of this configuration reads this queue.");
    put_close(to, '}');
}

void api_queues(asking *q, api_answer *out)
{
    static const char *const known[] = {NULL};
    snapshot *s;
    if (!api_knows(q, out, known))
        return;
    s = api_take_facts(q->a);
    pthread_mutex_lock(&q->a->look_lock);
    put_time(&out->body, "at", q->a->looked.store_at_ms);
    put_open(&out->body, "queues", '[');
    for (size_t i = 0; i < s->queue_count; i++)
        put_queue(&out->body, &q->a->looked, s, i);
    put_close(&out->body, ']');
    pthread_mutex_unlock(&q->a->look_lock);
    api_return_facts(q->a, s);
}
