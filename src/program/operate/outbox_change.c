/* semel outbox requeue and semel outbox skip. */
#include "program/cli.h"
#include "program/operate/bulk.h"
#include "program/operate/outboxes.h"
#include "program/support/show.h"

#include <stdlib.h>
#include <string.h>

/* --- requeue ---------------------------------------------------------------------------------- */

enum { SAMPLE = 2, AUDIT_EVERY = 100 };

static void add_one(waiting_set *set, const semel_outgoing *outgoing)
{
    semel_bytes id = outgoing->message ? outgoing->message->id : (semel_bytes){0};
    if (set->count == set->room) {
        set->room = set->room ? 2 * set->room : 1024;
        set->items = must_realloc(set->items, set->room * sizeof *set->items);
    }
    if (id.len)
        id.data = region_copy(&set->work->tool.memory, id.data, id.len);
    set->items[set->count++] = (waiting_one){outgoing->seq, id};
}

static void add_sample(buffer *to, const semel_outgoing *outgoing)
{
    const semel_message *m = outgoing->message;
    buffer_text(to, to->len ? "\n  " : "  ");
    if (m)
        show_key(to, m->id);
    buffer_text(to, "  ");
    show_text(to, *outgoing->error ? outgoing->error : "-",
              strlen(*outgoing->error ? outgoing->error : "-"), 0);
}

static semel_status collect(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    waiting_set *set = context;
    const filters *f = &set->work->filters;
    (void)err;
    if (outgoing->leased || outgoing->due_ms <= set->work->tool.now_ms ||
        !waiting_is_meant(f, outgoing))
        return SEMEL_OK;
    if (set->count < SAMPLE)
        add_sample(&set->sample, outgoing);
    add_one(set, outgoing);
    return f->given->limit && set->count == f->given->limit ? SEMEL_EGIVEUP : SEMEL_OK;
}

static const char *message_count(region *memory, uint64_t count)
{
    buffer shown = {0};
    show_number(&shown, count);
    const char *text = region_printf(memory, "%s message%s", shown.data, count == 1 ? "" : "s");
    buffer_free(&shown);
    return text;
}

static const char *as_typed(outbox_work *w, const char *name)
{
    buffer line = {0};
    buffer_text(&line, "outbox requeue ");
    show_argument(&line, name);
    filters_text(&line, &w->filter);
    const char *text = region_copy(&w->tool.memory, line.data, line.len);
    buffer_free(&line);
    return text;
}

/* One that was sent or is being sent meanwhile needs nothing. */
int outbox_wake_set(outbox_work *w, const waiting_place *where, const waiting_set *set)
{
    bulk b;
    uint64_t woken = 0;
    const char *typed = as_typed(w, where->name);
    int status = bulk_begin(&b, &w->tool, set->count, "%s", typed);
    for (size_t i = 0; !status && i < set->count && !bulk_is_stopped(&b); i++) {
        semel_error why = {0};
        semel_status done =
            semel_outbox_wake(where->outbox, set->items[i].seq, set->items[i].id, &why);
        woken += !done;
        if (done && done != SEMEL_ENOTFOUND && done != SEMEL_EBUSY)
            status = tool_failed(&w->tool, &why);
        if (!status && woken && (i + 1) % AUDIT_EVERY == 0) {
            status = bulk_did(&b, woken, "now due");
            woken = 0;
        }
    }
    b.done += woken;
    return bulk_end(&b, status, "now due", region_printf(&w->tool.memory, "semel %s", typed));
}

static int confirm_requeue(outbox_work *w, const char *name, uint64_t count)
{
    region *memory = &w->tool.memory;
    const confirmation about = {
        .question =
            region_printf(memory, "make %s in %s due now?", message_count(memory, count), name),
        .action = region_printf(memory, "making %s due", message_count(memory, count)),
        .count = count};
    return confirm(&w->tool, &about);
}

static int requeue_set(outbox_work *w, const waiting_place *where, const waiting_set *set)
{
    if (!set->count) {
        tool_say(&w->tool, "no matching messages in %s wait for their next attempt", where->name);
        return CLI_OK;
    }
    if (w->options.dry_run) {
        tool_say(&w->tool,
                 "would make %s in %s due now:", message_count(&w->tool.memory, set->count),
                 where->name);
        (void)printf("%s\n", set->sample.data);
        (void)fflush(stdout);
        if (set->count > SAMPLE)
            tool_say(&w->tool, "%zu more; nothing was changed", set->count - SAMPLE);
        else
            tool_say(&w->tool, "nothing was changed");
        return CLI_OK;
    }
    int status = confirm_requeue(w, where->name, set->count);
    return status ? status : outbox_wake_set(w, where, set);
}

int outbox_find_waiting(waiting_set *out, waiting_place *where, outbox_work *w)
{
    semel_error why = {0};
    *out = (waiting_set){.work = w};
    int status = outbox_open_named(where, &w->tool, w->rest.items[0]);
    if (status || !where->outbox)
        return status;
    semel_status walked = waiting_each(where, collect, out, &why);
    return walked && walked != SEMEL_EGIVEUP ? tool_failed(&w->tool, &why) : CLI_OK;
}

void waiting_set_free(waiting_set *set)
{
    buffer_free(&set->sample);
    free(set->items);
}

static int requeue(outbox_work *w)
{
    waiting_place where;
    waiting_set set;
    int status = outbox_find_waiting(&set, &where, w);
    if (!status)
        status = requeue_set(w, &where, &set);
    waiting_close(&where);
    waiting_set_free(&set);
    return status;
}

int outbox_requeue(int argc, char **argv)
{
    static outbox_work w;
    const argument_option options[] = {TOOL_OPTIONS(&w.options), TOOL_CHANGE_OPTIONS(&w.options),
                                       FILTER_TYPE(&w.filter),   FILTER_ERROR(&w.filter),
                                       FILTER_SINCE(&w.filter),  FILTER_UNTIL(&w.filter),
                                       FILTER_LIMIT(&w.filter),  {0}};
    int status = arguments_read("outbox requeue", argc, argv, options, &w.rest);
    if (!status && w.rest.count != 1)
        status = cli_usage("outbox requeue", "it takes one outbox");
    if (status)
        return status;
    status = tool_open(&w.tool, "outbox requeue", &w.options);
    if (!status)
        status = filters_read(&w.filters, &w.tool, &w.filter);
    if (!status)
        status = requeue(&w);
    filters_free(&w.filters);
    tool_close(&w.tool);
    return status;
}

/* --- skip ------------------------------------------------------------------------------------- */

int outbox_skip_found(outbox_work *w, const outbox_message *found, const char *id)
{
    bulk b;
    int64_t letter = 0;
    semel_error why = {0};
    int status = bulk_begin(&b, &w->tool, 1, "outbox skip %s", id);
    if (status)
        return status;
    const char *reason = region_printf(&w->tool.memory, "given up by %s (audit %lld)", b.entry.who,
                                       (long long)b.entry.id);
    if (semel_outbox_skip(&letter, found->where.outbox, found->seq, found->id, reason, &why))
        status = tool_failed(&w->tool, &why);
    b.done = !status;
    status = bulk_end(&b, status, "given up",
                      region_printf(&w->tool.memory, "semel outbox skip %s", id));
    if (!status)
        tool_say(&w->tool, "next: semel dead show %lld", (long long)letter);
    return status;
}

static int skip(outbox_work *w, const outbox_message *found)
{
    const char *outbox = found->where.name;
    buffer id = {0};
    show_argument(&id, w->rest.items[0]);
    int status = CLI_OK;
    const confirmation about = {
        .question = region_printf(&w->tool.memory, "give up on %s in %s? It becomes a dead letter.",
                                  id.data, outbox),
        .action = region_printf(&w->tool.memory, "giving up on %s", id.data),
        .count = 1};
    if (w->options.dry_run)
        tool_say(&w->tool, "would give up on %s in %s; nothing was changed", id.data, outbox);
    else
        status = confirm(&w->tool, &about);
    if (!status && !w->options.dry_run)
        status = outbox_skip_found(w, found, id.data);
    buffer_free(&id);
    return status;
}

int outbox_skip(int argc, char **argv)
{
    static outbox_work w;
    const argument_option options[] = {
        TOOL_OPTIONS(&w.options), TOOL_CHANGE_OPTIONS(&w.options), {0}};
    outbox_message found = {.seq = 0};
    int status = arguments_read("outbox skip", argc, argv, options, &w.rest);
    if (!status && w.rest.count != 1)
        status = cli_usage("outbox skip", "it takes the id of one message");
    if (status)
        return status;
    status = tool_open(&w.tool, "outbox skip", &w.options);
    if (!status)
        status = outboxes_find(&found, &w.tool, w.rest.items[0]);
    if (!status)
        status = skip(&w, &found);
    waiting_close(&found.where);
    tool_close(&w.tool);
    return status;
}
