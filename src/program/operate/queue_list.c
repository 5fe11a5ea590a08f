/* semel queue ls and semel queue purge. Queues in the store are counted by reading them; a broker
 * is asked for the number (queue_depth.c). A queue that cannot be counted hides no other one. */
#include "program/cli.h"
#include "program/config/complete.h"
#include "program/operate/brokers.h"
#include "program/operate/bulk.h"
#include "program/operate/queues.h"
#include "program/operate/table.h"
#include "program/support/show.h"
#include "program/watch/peers.h"

#include <string.h>

/* --- counting --------------------------------------------------------------------------------- */

static semel_status count_message(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    queue_count *count = context;
    (void)err;
    count->all++;
    if (!outgoing->leased) {
        count->waiting++;
        if (!count->oldest_ms || outgoing->captured_ms < count->oldest_ms)
            count->oldest_ms = outgoing->captured_ms;
        if (outgoing->captured_ms > count->newest_ms)
            count->newest_ms = outgoing->captured_ms;
        count->last_seq = outgoing->seq;
    }
    return count->all == QUEUE_COUNTED_MAX ? SEMEL_EGIVEUP : SEMEL_OK;
}

semel_status queue_count_waiting(queue_count *out, const waiting_place *where, semel_error *err)
{
    *out = (queue_count){0};
    semel_status status = waiting_each(where, count_message, out, err);
    return status == SEMEL_EGIVEUP ? SEMEL_OK : status;
}

/* --- the list --------------------------------------------------------------------------------- */

static const table_column columns[] = {{"QUEUE", "queue", 0, 0},     {"WAITING", "waiting", 1, 0},
                                       {"OLDEST", NULL, 0, 0},       {NULL, "oldest_at", 0, 0},
                                       {"READERS", "readers", 1, 0}, {"LOCATION", "location", 0, 0},
                                       {NULL, "reason", 0, 0},       {0}};

/* Threads of running processes that read it. */
static int64_t readers_of(const queue_config *queue, size_t processes)
{
    uint32_t workers = queue && queue->consumer.workers ? queue->consumer.workers : 1;
    if (!queue)
        return -1;
    return queue->is_read ? (int64_t)(processes * workers) : 0;
}

static int count_named(queue_count *out, tool *t, const char *name)
{
    semel_error why = {0};
    waiting_place where = {0};
    semel_status status = waiting_open(&where, t, SEMEL_NAME_QUEUE, name, &why);
    if (!status)
        status = queue_count_waiting(out, &where, &why);
    waiting_close(&where);
    return status ? tool_failed(t, &why) : CLI_OK;
}

/* In the store or at a broker. `count` gets what else is known of one in the store. */
static queue_depth depth_of(queue_count *count, queue_depths *brokers, const known_name *known,
                            const queue_config *queue)
{
    int status = CLI_OK;
    if (queue && queue->url)
        return queue_depth_of(brokers, queue);
    if (known->in_store)
        status = count_named(count, brokers->tool, known->name);
    return (queue_depth){.ready = status ? -1 : (int64_t)count->waiting, .status = status};
}

static int add_queue(table *to, queue_depths *brokers, const known_name *known, size_t processes)
{
    tool *t = brokers->tool;
    const queue_config *queue = t->all ? config_queue(t->all, known->name) : NULL;
    const char *url = queue ? queue->url : NULL;
    queue_count count = {0};
    const queue_depth depth = depth_of(&count, brokers, known, queue);
    table_text(to, known->name);
    table_number(to, depth.ready);
    if (count.oldest_ms)
        table_duration(to, t->now_ms > count.oldest_ms ? t->now_ms - count.oldest_ms : 0);
    else
        table_text(to, NULL);
    table_moment(to, count.oldest_ms);
    table_number(to, readers_of(queue, processes));
    table_text(to, url ? broker_queue_location(&t->memory, url) : "store");
    table_text(to, depth.why);
    table_end_row(to);
    return depth.status;
}

/* The status of the first one that could not be counted. */
static int add_queues(table *to, tool *t, const known_names *all, size_t processes)
{
    queue_depths brokers = {.tool = t};
    int status = CLI_OK;
    for (size_t i = 0; i < all->count; i++) {
        int failed = add_queue(to, &brokers, &all->items[i], processes);
        status = status ? status : failed;
    }
    return status;
}

static int list_queues(queue_work *w)
{
    known_names all;
    peers running = {0};
    semel_error why = {0};
    table to = {.columns = columns, .json = w->options.json, .utc = w->options.utc};
    int status = names_read(&all, &w->tool, SEMEL_NAME_QUEUE);
    if (!status && peers_in_store(&running, w->tool.store, &why))
        status = tool_failed(&w->tool, &why);
    if (!status)
        status = add_queues(&to, &w->tool, &all, running.count);
    if (!status && !all.count)
        tool_say(&w->tool, "%s defines no queues", w->tool.all ? w->tool.all->path : "this store");
    names_free(&all);
    peers_free(&running);
    table_print(&to, stdout);
    return status;
}

/* --- one queue -------------------------------------------------------------------------------- */

int queue_open_named(waiting_place *out, tool *t, const char *name)
{
    known_names all;
    semel_error why = {0};
    const queue_config *queue = t->all ? config_queue(t->all, name) : NULL;
    *out = (waiting_place){.name = name};
    int status = names_read(&all, t, SEMEL_NAME_QUEUE);
    const known_name *known = status ? NULL : names_find(&all, name);
    if (!status && !known)
        status = tool_no_such_name(t, "queue", name);
    else if (!status && queue && queue->url)
        status = tool_refuse(t, CLI_FAILED,
                             "queue \"%s\" is at a broker (%s); only queues in the store can be "
                             "read and purged here",
                             name, broker_queue_location(&t->memory, queue->url));
    else if (!status && known->in_store && waiting_open(out, t, SEMEL_NAME_QUEUE, name, &why))
        status = tool_failed(t, &why);
    names_free(&all);
    return status;
}

static int list_one(queue_work *w, const char *name)
{
    waiting_place where;
    int status = queue_open_named(&where, &w->tool, name);
    if (!status && where.queue)
        status = waiting_list(&w->tool, &w->filters, &where, "queue");
    else if (!status)
        tool_say(&w->tool, "no messages wait in %s", name);
    waiting_close(&where);
    return status;
}

int queue_ls(int argc, char **argv)
{
    static queue_work w;
    const argument_option options[] = {TOOL_OPTIONS(&w.options), FILTER_TYPE(&w.filter),
                                       FILTER_ERROR(&w.filter),  FILTER_SINCE(&w.filter),
                                       FILTER_UNTIL(&w.filter),  FILTER_LIMIT(&w.filter),
                                       FILTER_AFTER(&w.filter),  {0}};
    int status = arguments_read("queue ls", argc, argv, options, &w.rest);
    if (!status && w.rest.count > 1)
        status = cli_usage("queue ls", "it takes one queue, not %zu", w.rest.count);
    if (status)
        return status;
    status = tool_open(&w.tool, "queue ls", &w.options);
    if (!status)
        status = filters_read(&w.filters, &w.tool, &w.filter);
    if (!status)
        status = w.rest.count ? list_one(&w, w.rest.items[0]) : list_queues(&w);
    filters_free(&w.filters);
    tool_close(&w.tool);
    return status;
}

/* --- purge ------------------------------------------------------------------------------------ */

/* What came after it was counted stays. */
int queue_purge_counted(queue_work *w, const waiting_place *where, const queue_count *counted)
{
    bulk b;
    uint64_t total = counted->waiting;
    buffer again = {0};
    size_t removed = 1;
    buffer_text(&again, "semel queue purge ");
    show_argument(&again, where->name);
    int status = bulk_begin(&b, &w->tool, total, "%s", again.data + strlen("semel "));
    while (!status && removed && b.done < total && !bulk_is_stopped(&b)) {
        semel_error why = {0};
        uint64_t left = total - b.done;
        uint32_t rows = bulk_step(&b);
        if (semel_queue_purge(&removed, where->queue, counted->last_seq, counted->newest_ms,
                              left < rows ? (uint32_t)left : rows, &why))
            status = tool_failed(&w->tool, &why);
        else if (removed)
            status = bulk_did(&b, removed, "removed");
    }
    status = bulk_end(&b, status, "removed", again.data);
    buffer_free(&again);
    return status;
}

static int purge(queue_work *w, const waiting_place *where)
{
    semel_error why = {0};
    queue_count count = {0};
    buffer shown = {0};
    if (where->queue && queue_count_waiting(&count, where, &why))
        return tool_failed(&w->tool, &why);
    show_number(&shown, count.waiting);
    const char *what =
        region_printf(&w->tool.memory, "%s message%s", shown.data, count.waiting == 1 ? "" : "s");
    buffer_free(&shown);
    const confirmation about = {
        .question =
            region_printf(&w->tool.memory, "permanently remove %s from %s?", what, where->name),
        .action = region_printf(&w->tool.memory, "removing %s", what),
        .count = count.waiting,
        .irreversible = 1};
    if (!count.waiting)
        tool_say(&w->tool, "no messages wait in %s", where->name);
    else if (w->options.dry_run)
        tool_say(&w->tool, "would remove %s from %s; nothing was changed", what, where->name);
    if (!count.waiting || w->options.dry_run)
        return CLI_OK;
    int status = confirm(&w->tool, &about);
    return status ? status : queue_purge_counted(w, where, &count);
}

int queue_purge(int argc, char **argv)
{
    static queue_work w;
    const argument_option options[] = {
        TOOL_OPTIONS(&w.options), TOOL_CHANGE_OPTIONS(&w.options), {0}};
    waiting_place where = {0};
    int status = arguments_read("queue purge", argc, argv, options, &w.rest);
    if (!status && w.rest.count != 1)
        status = cli_usage("queue purge", "it takes one queue");
    if (status)
        return status;
    status = tool_open(&w.tool, "queue purge", &w.options);
    if (!status)
        status = queue_open_named(&where, &w.tool, w.rest.items[0]);
    if (!status)
        status = purge(&w, &where);
    waiting_close(&where);
    tool_close(&w.tool);
    return status;
}
