/* The configuration with the origin of each value, and the checks: what `semel check` warns of,
 * what transports warn of, and health. */
#include "program/admin/api_internal.h"
#include "program/run/live_internal.h"
#include "program/support/show.h"

#include <string.h>

static void put_check(buffer *to, const char *state, const char *what, const char *text,
                      const char *help)
{
    put_open(to, NULL, '{');
    put_text(to, "state", state);
    put_text(to, "what", what);
    put_text(to, "text", text);
    put_text(to, "help", help);
    put_close(to, '}');
}

static void put_store(buffer *to, const looked *l)
{
    const trouble *t = looked_trouble(l, "store");
    buffer text = {0};
    if (t) {
        put_check(to, "fail", "store", t->error, "Messages wait; nothing is acknowledged.");
        return;
    }
    buffer_text(&text, "answers");
    if (l->ping_ns >= 0) {
        buffer_text(&text, " in ");
        show_duration(&text, l->ping_ns);
    }
    put_check(to, "ok", "store", text.data, NULL);
    buffer_free(&text);
}

static void put_troubles(buffer *to, const looked *l)
{
    for (size_t i = 0; i < l->trouble_count; i++) {
        const trouble *t = &l->troubles[i];
        if (!t->until_ms && strcmp(t->component, "store") != 0)
            put_check(to, "fail", t->component, *t->error ? t->error : t->msg, NULL);
    }
}

static void put_moving(buffer *to, api *a)
{
    int64_t last = meters_last_ms(a->live->meters), now = wall_clock_ms();
    buffer text = {0};
    if (last) {
        buffer_text(&text, "the last outcome was ");
        show_duration(&text, (now > last ? now - last : 0) * INT64_C(1000000));
        buffer_text(&text, " ago");
    } else {
        buffer_text(&text, "no message has come since the start");
    }
    put_check(to, "ok", "moving", text.data, NULL);
    buffer_free(&text);
    pthread_mutex_lock(&a->live->lock);
    int stops = a->live->is_stopping;
    pthread_mutex_unlock(&a->live->lock);
    put_check(to, stops ? "warn" : "ok", "draining", stops ? "yes" : "no", NULL);
}

void api_config(asking *q, api_answer *out)
{
    static const char *const known[] = {NULL};
    buffer *to = &out->body;
    snapshot *s;
    if (!api_knows(q, out, known))
        return;
    s = api_take_facts(q->a);
    put_text(to, "path", s->path);
    put_raw(to, "values", s->values);
    put_open(to, "checks", '[');
    pthread_mutex_lock(&q->a->look_lock);
    put_store(to, &q->a->looked);
    put_troubles(to, &q->a->looked);
    pthread_mutex_unlock(&q->a->look_lock);
    for (size_t i = 0; i < s->check_count; i++)
        put_check(to, s->checks[i].state, s->checks[i].what, s->checks[i].text, s->checks[i].help);
    put_moving(to, q->a);
    put_close(to, ']');
    api_return_facts(q->a, s);
}
