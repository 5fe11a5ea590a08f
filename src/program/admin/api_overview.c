/* The overview: what the process counts, from memory; what the store holds, as it was looked at
 * last, with its time; what needs attention, the most severe first. */
#include "program/admin/api_internal.h"
#include "program/run/live_internal.h"
#include "program/support/show.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { DAY_MS = 86400000 };

/* --- numbers ---------------------------------------------------------------------------------- */

static void put_process(buffer *to, live *l)
{
    pthread_mutex_lock(&l->lock);
    put_open(to, "process", '{');
    put_text(to, "id", l->id);
    put_text(to, "host", l->host);
    put_int(to, "pid", getpid());
    put_text(to, "version", semel_version());
    put_text(to, "config", l->names.config);
    put_int(to, "since", l->started_ms);
    put_close(to, '}');
    pthread_mutex_unlock(&l->lock);
}

static const struct {
    const char *name;
    series_kind kind;
} counted[] = {{"processed", SERIES_PROCESSED},
               {"suppressed", SERIES_SUPPRESSED},
               {"failed", SERIES_FAILED},
               {"dead", SERIES_BURIED},
               {"sent", SERIES_SENT}};

static void put_counts(buffer *to, const series *s)
{
    put_open(to, "totals", '{');
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
        put_int(to, counted[i].name, (int64_t)(series_total(s, counted[i].kind) + 0.5));
    put_close(to, '}');
    put_open(to, "rates", '{');
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
        put_real(to, counted[i].name, series_rate(s, counted[i].kind));
    put_close(to, '}');
    double copies = series_total(s, SERIES_SUPPRESSED);
    double all = copies + series_total(s, SERIES_PROCESSED);
    put_real(to, "deliveries_per_copy", copies >= 1 ? all / copies : -1);
}

static void put_levels(buffer *to, const looked *l)
{
    put_open(to, "outbox", '{');
    put_known(to, "unsent", l->unsent);
    put_known(to, "oldest_ms", l->oldest_ms);
    put_time(to, "at", l->store_at_ms);
    put_close(to, '}');
    put_open(to, "dead", '{');
    put_known(to, "letters", l->dead);
    put_time(to, "at", l->store_at_ms);
    put_close(to, '}');
}

static void put_outages(buffer *to, const looked *l)
{
    put_open(to, "outages", '[');
    for (size_t i = 0; i < l->trouble_count; i++) {
        const trouble *t = &l->troubles[i];
        if (strcmp(t->msg, "stalled") == 0)
            continue;
        put_open(to, NULL, '{');
        put_int(to, "from", t->since_ms);
        put_time(to, "to", t->until_ms);
        put_text(to, "component", t->component);
        put_close(to, '}');
    }
    put_close(to, ']');
}

/* --- attention -------------------------------------------------------------------------------- */

static void put_item(buffer *to, const char *severity, const char *title, const char *text,
                     const char *link, int64_t since_ms)
{
    put_open(to, NULL, '{');
    put_text(to, "severity", severity);
    put_text(to, "title", title);
    put_text(to, "text", text);
    put_text(to, "link", link);
    put_time(to, "since", since_ms);
    put_close(to, '}');
}

static int is_stuck(const trouble *t)
{
    return strcmp(t->msg, "stalled") == 0;
}

/* "Store", "Queue orders": a component at the beginning of a sentence. */
static const char *titled(region *memory, const char *component)
{
    char *title = region_copy(memory, component, strlen(component));
    if (*title >= 'a' && *title <= 'z')
        *title = (char)(*title - 'a' + 'A');
    return title;
}

static const char *link_of(region *memory, const char *component)
{
    if (strncmp(component, "outbox ", 7) == 0)
        return region_printf(memory, "#/outboxes/%s", component + 7);
    return strncmp(component, "queue ", 6) == 0 ? "#/queues" : "#/config";
}

static void put_troubles(buffer *to, region *memory, const looked *l, int stuck)
{
    for (size_t i = 0; i < l->trouble_count; i++) {
        const trouble *t = &l->troubles[i];
        if (t->until_ms || is_stuck(t) != stuck)
            continue;
        const char *title = region_printf(memory, stuck ? "%s does not move" : "%s is unreachable",
                                          titled(memory, t->component));
        if (strcmp(t->msg, "failed") == 0 || strcmp(t->msg, "stopped") == 0)
            title = region_printf(memory, "%s has %s", titled(memory, t->component), t->msg);
        buffer text = {0};
        if (*t->error)
            buffer_text(&text, t->error);
        if (stuck)
            buffer_printf(&text, "%s%llu message%s due", text.len ? "; " : "",
                          (unsigned long long)t->waiting, t->waiting == 1 ? " is" : "s are");
        put_item(to, stuck ? "stuck" : "unreachable", title, text.data,
                 link_of(memory, t->component), t->since_ms);
        buffer_free(&text);
    }
}

static void put_dead(buffer *to, region *memory, const looked *l)
{
    const view *v = history_newest(&l->views);
    for (size_t i = 0; v && i < v->group_count; i++) {
        const group_view *g = &v->groups[i];
        buffer count = {0};
        show_number(&count, g->letters);
        put_item(to, "dead",
                 region_printf(memory, "%s dead letter%s in %s", count.data,
                               g->letters == 1 ? "" : "s", g->name),
                 g->text, region_printf(memory, "#/dead/g/%08" PRIx32, g->cause), g->first_ms);
        buffer_free(&count);
    }
}

static void put_checks(buffer *to, const snapshot *s)
{
    for (size_t i = 0; i < s->check_count; i++)
        put_item(to, "config", *s->checks[i].what ? s->checks[i].what : "config", s->checks[i].text,
                 "#/config", 0);
}

static void put_resolved(buffer *to, region *memory, const looked *l)
{
    for (size_t i = 0; i < l->trouble_count; i++) {
        const trouble *t = &l->troubles[i];
        if (t->until_ms)
            put_item(to, "resolved",
                     region_printf(memory, is_stuck(t) ? "%s moves again" : "%s is back",
                                   titled(memory, t->component)),
                     t->error, link_of(memory, t->component), t->until_ms);
    }
}

static void put_attention(buffer *to, region *memory, const looked *l, const snapshot *s)
{
    put_open(to, "attention", '[');
    put_troubles(to, memory, l, 0);
    put_dead(to, memory, l);
    put_troubles(to, memory, l, 1);
    put_checks(to, s);
    put_resolved(to, memory, l);
    put_close(to, ']');
}

/* --- stores and brokers ----------------------------------------------------------------------- */

static void put_grade(buffer *to, int grade)
{
    put_known(to, "grade", grade ? grade : -1);
    put_text(to, "grade_name", grade ? semel_grade_name((semel_grade)grade) : NULL);
}

static void put_place(buffer *to, const char *kind, const char *name, const char *url,
                      const trouble *t)
{
    put_open(to, NULL, '{');
    put_text(to, "kind", kind);
    put_text(to, "name", name);
    put_text(to, "url", url);
    put_text(to, "state", t ? "unreachable" : "ok");
    put_text(to, "error", t ? t->error : NULL);
    put_time(to, "since", t ? t->since_ms : 0);
}

/* The trouble of a queue at this broker. */
static const trouble *broker_trouble(const looked *l, const snapshot *s, region *memory,
                                     const char *broker)
{
    for (size_t i = 0; i < s->queue_count; i++) {
        const queue_facts *q = &s->queues[i];
        if (!q->broker || strcmp(q->broker, broker) != 0)
            continue;
        const trouble *t = looked_trouble(l, region_printf(memory, "queue %s", q->name));
        for (size_t o = 0; o < s->outbox_count && !t; o++)
            if (s->outboxes[o].to && strcmp(s->outboxes[o].to, q->name) == 0)
                t = looked_trouble(l, region_printf(memory, "outbox %s", s->outboxes[o].name));
        if (t && !is_stuck(t))
            return t;
    }
    return NULL;
}

static void put_stores(buffer *to, region *memory, const looked *l, const snapshot *s)
{
    const trouble *t = looked_trouble(l, "store");
    put_open(to, "stores", '[');
    put_place(to, "store", "store", s->store_url, t);
    put_grade(to, s->store_grade);
    put_text(to, "text", t ? t->error : l->store_at_ms ? "answers" : "not asked yet");
    put_ms(to, "ping_ms", t ? -1 : l->ping_ns);
    put_close(to, '}');
    for (size_t i = 0; i < s->broker_count; i++) {
        const broker_facts *b = &s->brokers[i];
        t = broker_trouble(l, s, memory, b->name);
        put_place(to, "broker", b->name, b->url, t);
        put_grade(to, b->grade);
        put_text(to, "text", t ? t->error : "connected");
        put_null(to, "ping_ms");
        put_close(to, '}');
    }
    put_close(to, ']');
}

/* --- the whole -------------------------------------------------------------------------------- */

void api_overview(asking *q, api_answer *out)
{
    static const char *const known[] = {"after", NULL};
    buffer *to = &out->body;
    api *a = q->a;
    int64_t after = 0, started = a->live->started_ms, now = wall_clock_ms();
    if (!api_knows(q, out, known))
        return;
    if (!api_query_number(&after, api_query_get(&q->query, "after"))) {
        api_bad_query(out, "after is the second of the last point, as minute.end was.");
        return;
    }
    snapshot *s = api_take_facts(a);
    put_process(to, a->live);
    pthread_mutex_lock(&a->look_lock);
    const view *v = history_newest(&a->looked.views);
    put_int(to, "processes", v && v->processes ? (int64_t)v->processes : 1);
    put_counts(to, &a->series);
    put_int(to, "totals_since", now - started > DAY_MS ? now - DAY_MS : started);
    put_levels(to, &a->looked);
    series_put_minute(to, &a->series, after);
    series_put_day(to, &a->series, after);
    put_outages(to, &a->looked);
    put_attention(to, &q->memory, &a->looked, s);
    put_stores(to, &q->memory, &a->looked, s);
    pthread_mutex_unlock(&a->look_lock);
    put_open(to, "actions", '{');
    put_bool(to, "token_configured", s->has_token);
    put_close(to, '}');
    put_bool(to, "history", s->has_history);
    api_return_facts(a, s);
}
