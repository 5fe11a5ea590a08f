/* The changes that the page can make, by the code of the commands: first a look at what would be
 * changed, then the change of exactly that. */
#include "program/admin/api_internal.h"
#include "program/cli.h"
#include "program/operate/dead.h"
#include "program/operate/inboxes.h"
#include "program/operate/outboxes.h"
#include "program/operate/queues.h"
#include "program/support/show.h"
#include "program/support/typed_key.h"

#include <string.h>

enum { SAMPLE = 3 };

static const char *const commands[API_VERBS] = {
    "",           "dead retry", "dead discard", "inbox forget", "outbox requeue", "outbox skip",
    "queue purge"};

/* What both need. */
typedef struct work {
    region *memory;
    const api_place *at;
    const api_action *action;
    const tool_host *host;
    work_found *found; /* NULL: it is done, not looked at */
} work;

static int borrow(tool *out, const work *w, const tool_options *options)
{
    return tool_borrow(out, commands[w->action->verb], options, w->host, (config *)w->at->all,
                       w->at->store);
}

static void add(argument_list *to, const char *text)
{
    if (text)
        to->items[to->count++] = text;
}

static void read_filter(filter_options *to, const work *w)
{
    const api_action *a = w->action;
    add(&to->inboxes, a->inbox);
    if (a->verb != API_OUTBOX_REQUEUE)
        add(&to->outboxes, a->outbox);
    add(&to->types, a->type);
    to->error = a->error;
    to->cause = a->cause;
    to->key = a->key;
    to->since = a->since;
    to->until = a->until;
    if (a->until_id)
        to->up_to = region_printf(w->memory, "%lld", (long long)a->until_id);
}

static semel_bytes keep(region *memory, semel_bytes from)
{
    return (semel_bytes){region_copy(memory, from.len ? from.data : "", from.len), from.len};
}

static void keep_command(const work *w, const buffer *line)
{
    w->found->command = region_printf(w->memory, "semel %s", line->data);
}

/* --- dead letters ----------------------------------------------------------------------------- */

static void find_letters(const work *w, dead_work *d, dead_options *options,
                         const dead_summary *set)
{
    work_found *f = w->found;
    buffer line = {0};
    f->count = set->count;
    f->until_id = set->last_id;
    f->irreversible = w->action->verb == API_DEAD_DISCARD;
    for (size_t i = 0; i < set->name_count; i++)
        f->names[f->name_count++] = region_copy(w->memory, set->names[i], strlen(set->names[i]));
    for (size_t i = 0; i < set->sampled && i < SAMPLE; i++) {
        const dead_letter *l = &set->sample[i];
        f->sample[f->sampled++] = keep(w->memory, l->key.len ? l->key : l->message_id);
    }
    if (!d->ids && set->last_id)
        options->filter.up_to = region_printf(w->memory, "%lld", (long long)set->last_id);
    dead_show_command(&line, d);
    keep_command(w, &line);
    buffer_free(&line);
}

static int change_letters(const work *w, dead_work *d, const dead_summary *set)
{
    if (!set->count)
        return CLI_OK;
    return w->action->verb == API_DEAD_RETRY ? dead_retry_set(d, set) : dead_discard_set(d, set);
}

static int work_dead(const work *w)
{
    dead_options *options = region_alloc(w->memory, sizeof *options);
    dead_work d = {0};
    dead_summary set = {0};
    options->tool.utc = 1;
    options->forget = w->action->forget;
    for (size_t i = 0; i < w->action->id_count; i++)
        add(&options->letters, w->action->ids[i]);
    read_filter(&options->filter, w);
    int status = borrow(&d.tool, w, &options->tool);
    if (!status)
        status = dead_begin_borrowed(&d, options);
    if (!status)
        status = dead_summarize(&set, &d);
    if (!status && w->found)
        find_letters(w, &d, options, &set);
    else if (!status)
        status = change_letters(w, &d, &set);
    region_free(&set.memory);
    dead_end_borrowed(&d);
    return status;
}

/* --- a key ------------------------------------------------------------------------------------ */

static int work_forget(const work *w)
{
    const api_action *a = w->action;
    inbox_work *i = region_alloc(w->memory, sizeof *i);
    buffer line = {0};
    semel_bytes key = {0};
    i->options.utc = 1;
    i->options.dry_run = w->found != NULL;
    int status = borrow(&i->tool, w, &i->options);
    if (!status && (!a->inbox || !a->key))
        status = tool_usage(&i->tool, "the filter needs inbox and key");
    add(&i->rest, a->inbox);
    add(&i->rest, a->key);
    if (!status)
        status = inbox_forget_typed(i);
    if (!status && w->found && !typed_key_stored(&key, w->memory, a->key)) {
        buffer_printf(&line, "inbox forget %s ", a->inbox);
        show_argument(&line, a->key);
        keep_command(w, &line);
        w->found->count = w->found->sampled = w->found->name_count = 1;
        w->found->sample[0] = key;
        w->found->names[0] = a->inbox;
        w->found->irreversible = 1;
    }
    buffer_free(&line);
    tool_return(&i->tool);
    return status;
}

/* --- outboxes --------------------------------------------------------------------------------- */

static void find_waiting(const work *w, outbox_work *o, const waiting_set *set)
{
    work_found *f = w->found;
    buffer line = {0};
    f->count = set->count;
    f->until_ms = o->tool.now_ms + 1;
    f->names[f->name_count++] = w->action->outbox;
    for (size_t i = 0; i < set->count && i < SAMPLE; i++)
        f->sample[f->sampled++] = keep(w->memory, set->items[i].id);
    buffer_text(&line, "outbox requeue ");
    show_argument(&line, w->action->outbox);
    filters_text(&line, &o->filter);
    keep_command(w, &line);
    buffer_free(&line);
}

static int work_requeue(const work *w)
{
    outbox_work *o = region_alloc(w->memory, sizeof *o);
    waiting_place where = {0};
    waiting_set set = {0};
    o->options.utc = 1;
    read_filter(&o->filter, w);
    int status = borrow(&o->tool, w, &o->options);
    if (!status && !w->action->outbox)
        status = tool_usage(&o->tool, "the filter needs outbox");
    add(&o->rest, w->action->outbox);
    if (!status)
        status = filters_read(&o->filters, &o->tool, &o->filter);
    if (!status)
        status = outbox_find_waiting(&set, &where, o);
    if (!status && w->found)
        find_waiting(w, o, &set);
    else if (!status && set.count)
        status = outbox_wake_set(o, &where, &set);
    waiting_close(&where);
    waiting_set_free(&set);
    filters_free(&o->filters);
    tool_return(&o->tool);
    return status;
}

/* The message is the one with this id in this outbox, wherever else there is one. */
static int find_message(outbox_message *out, outbox_work *o, const api_action *a)
{
    semel_error why = {0};
    int status = waiting_read_id(&out->id, &o->tool, a->id);
    if (!status)
        status = outbox_open_named(&out->where, &o->tool, a->outbox);
    if (!status && out->where.outbox && waiting_find(&out->seq, &out->where, out->id, &why))
        status = tool_failed(&o->tool, &why);
    if (!status && !out->seq)
        status = tool_refuse(&o->tool, CLI_NOT_FOUND, "message \"%s\" does not wait in %s any more",
                             a->id, a->outbox);
    return status;
}

static void find_one(const work *w, semel_bytes id, const char *typed)
{
    buffer line = {0};
    buffer_printf(&line, "outbox skip %s", typed);
    keep_command(w, &line);
    w->found->count = w->found->sampled = w->found->name_count = 1;
    w->found->sample[0] = keep(w->memory, id);
    w->found->names[0] = w->action->outbox;
    w->found->irreversible = 1;
    buffer_free(&line);
}

static int work_skip(const work *w)
{
    const api_action *a = w->action;
    outbox_work *o = region_alloc(w->memory, sizeof *o);
    outbox_message found = {.seq = 0};
    buffer id = {0};
    o->options.utc = 1;
    int status = borrow(&o->tool, w, &o->options);
    if (!status && (!a->outbox || !a->id))
        status = tool_usage(&o->tool, "the filter needs outbox and id");
    if (!status)
        status = find_message(&found, o, a);
    if (!status)
        show_argument(&id, a->id);
    if (!status && w->found)
        find_one(w, found.id, id.data);
    else if (!status)
        status = outbox_skip_found(o, &found, id.data);
    buffer_free(&id);
    waiting_close(&found.where);
    tool_return(&o->tool);
    return status;
}

/* --- queues ----------------------------------------------------------------------------------- */

/* What came after the look stays: the bounds are those that the look has found. */
static int purge(const work *w, queue_work *q, const waiting_place *where)
{
    int64_t until_ms = 0;
    const api_action *a = w->action;
    if (!where->queue || a->count <= 0)
        return CLI_OK;
    if (!a->until_id || !a->until || !filters_time(&until_ms, a->until, q->tool.now_ms, 1))
        return tool_usage(&q->tool, "the filter needs until_id and until, as the preview had them");
    const queue_count counted = {
        .waiting = (uint64_t)a->count, .last_seq = a->until_id, .newest_ms = until_ms};
    return queue_purge_counted(q, where, &counted);
}

static int look_at_queue(const work *w, queue_work *q, const waiting_place *where)
{
    queue_count count = {0};
    semel_error why = {0};
    buffer line = {0};
    if (where->queue && queue_count_waiting(&count, where, &why))
        return tool_failed(&q->tool, &why);
    w->found->count = count.waiting;
    w->found->until_id = count.last_seq;
    w->found->until_ms = count.newest_ms;
    w->found->irreversible = 1;
    w->found->names[w->found->name_count++] = w->action->queue;
    buffer_text(&line, "queue purge ");
    show_argument(&line, w->action->queue);
    keep_command(w, &line);
    buffer_free(&line);
    return CLI_OK;
}

static int work_purge(const work *w)
{
    queue_work *q = region_alloc(w->memory, sizeof *q);
    waiting_place where = {0};
    q->options.utc = 1;
    int status = borrow(&q->tool, w, &q->options);
    if (!status && !w->action->queue)
        status = tool_usage(&q->tool, "the filter needs queue");
    if (!status)
        status = queue_open_named(&where, &q->tool, w->action->queue);
    if (!status)
        status = w->found ? look_at_queue(w, q, &where) : purge(w, q, &where);
    waiting_close(&where);
    tool_return(&q->tool);
    return status;
}

/* --- all of them ------------------------------------------------------------------------------ */

static int run(const work *w)
{
    static int (*const verbs[API_VERBS])(const work *) = {
        [API_DEAD_RETRY] = work_dead,     [API_DEAD_DISCARD] = work_dead,
        [API_INBOX_FORGET] = work_forget, [API_OUTBOX_REQUEUE] = work_requeue,
        [API_OUTBOX_SKIP] = work_skip,    [API_QUEUE_PURGE] = work_purge};
    return verbs[w->action->verb](w);
}

int work_look(work_found *out, region *memory, const api_place *at, const api_action *action,
              const tool_host *host)
{
    *out = (work_found){0};
    return run(&(work){memory, at, action, host, out});
}

int work_do(const api_place *at, const api_action *action, const tool_host *host)
{
    region memory = {0};
    int status = run(&(work){&memory, at, action, host, NULL});
    region_free(&memory);
    return status;
}
