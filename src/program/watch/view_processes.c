/* What running processes count. One of this host is asked; of one that cannot be asked, the
 * counters in its row are taken, which are some seconds old and have no durations. */
#include "program/support/show.h"
#include "program/watch/peers.h"
#include "program/watch/view_internal.h"

#include <json-c/json.h>
#include <string.h>

enum { ASK_MS = 5000, DATA_DEPTH_MAX = 8 };

static struct json_object *member(struct json_object *of, const char *name)
{
    struct json_object *found = NULL;
    return json_object_object_get_ex(of, name, &found) ? found : NULL;
}

static const char *text_of(struct json_object *of, const char *name)
{
    struct json_object *found = member(of, name);
    return json_object_is_type(found, json_type_string) ? json_object_get_string(found) : NULL;
}

static uint64_t number_of(struct json_object *of, const char *name)
{
    int64_t number = json_object_get_int64(member(of, name));
    return number > 0 ? (uint64_t)number : 0;
}

static size_t length_of(struct json_object *list)
{
    return json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
}

/* --- one process ------------------------------------------------------------------------------ */

static void add_took(inbox_view *to, struct json_object *pairs)
{
    for (size_t i = 0; i < length_of(pairs); i++) {
        struct json_object *pair = json_object_array_get_idx(pairs, i);
        if (length_of(pair) != 2)
            continue;
        int64_t bucket = json_object_get_int64(json_object_array_get_idx(pair, 0));
        int64_t count = json_object_get_int64(json_object_array_get_idx(pair, 1));
        if (bucket >= 0 && bucket < HISTOGRAM_BUCKETS && count > 0)
            to->took[bucket] += (uint64_t)count;
    }
}

static void add_inbox(view *v, struct json_object *from, const argument_list *wanted)
{
    const char *name = text_of(from, "inbox"), *queue = text_of(from, "from");
    inbox_view *to = name && filters_match(wanted, name) ? view_add_inbox(v, name) : NULL;
    if (!to)
        return;
    if (queue && !*to->from)
        to->from = region_copy(&v->memory, queue, strlen(queue));
    for (size_t i = 0; i < METER_OTHERS; i++)
        to->counts[i] += number_of(from, meter_names[i]);
    to->in_progress += (int64_t)number_of(from, "in_progress");
    to->has_counters = 1;
    add_took(to, member(from, "took"));
}

static void add_inboxes(view *v, struct json_object *list, const argument_list *wanted)
{
    for (size_t i = 0; i < length_of(list); i++)
        add_inbox(v, json_object_array_get_idx(list, i), wanted);
}

static void add_outboxes(view *v, struct json_object *list)
{
    for (size_t i = 0; i < length_of(list); i++) {
        struct json_object *from = json_object_array_get_idx(list, i);
        const char *name = text_of(from, "outbox");
        outbox_view *to = name ? view_add_outbox(v, name) : NULL;
        if (!to)
            continue;
        to->sent += number_of(from, "sent");
        to->failed += number_of(from, "failed");
    }
}

static void add_queues(view *v, struct json_object *list)
{
    for (size_t i = 0; i < length_of(list); i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(list, i));
        if (name)
            (void)view_add_queue(v, name);
    }
}

/* --- all of them ------------------------------------------------------------------------------ */

static int ask(view *v, const peer *p, const argument_list *wanted)
{
    struct json_object *answer = NULL;
    if (p->reach != PEER_LOCAL || peer_ask(&answer, p, "{\"ask\":\"stats\"}\n", ASK_MS))
        return 0;
    add_inboxes(v, member(answer, "inboxes"), wanted);
    add_outboxes(v, member(answer, "outboxes"));
    add_queues(v, member(answer, "queues"));
    json_object_put(answer);
    return 1;
}

static void read_row(view *v, const peer *p, const argument_list *wanted)
{
    struct json_object *data = json_tokener_parse(p->data);
    add_inboxes(v, member(data, "counts"), wanted);
    json_object_put(data);
}

static void add_other(view *v, buffer *names, const peer *p)
{
    buffer_text(names, names->len ? ", " : "");
    peer_name(names, p);
    v->unreachable++;
}

void view_read_processes(view *v, tool *t, const argument_list *inboxes)
{
    peers all;
    buffer names = {0};
    if (peers_in_store(&all, t->store, &v->trouble))
        return;
    for (size_t i = 0; i < all.count; i++) {
        const peer *p = &all.items[i];
        if (!v->since_ms || p->started_ms < v->since_ms)
            v->since_ms = p->started_ms;
        if (!ask(v, p, inboxes)) {
            read_row(v, p, inboxes);
            add_other(v, &names, p);
        }
    }
    v->processes = all.count;
    v->others = names.len ? region_copy(&v->memory, names.data, names.len) : "";
    buffer_free(&names);
    peers_free(&all);
}
