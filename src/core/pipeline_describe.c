/* A pipeline in words, for a review: a line for each element, in the order of the specification, in
 * columns that are as wide as their widest cell.
 *
 * The text is written twice. The first time only the widths of the columns are noted; nothing is
 * allocated, so describing cannot fail. Of a URL only what url_shown() lets through is shown. */
#include "core/pipeline.h"

#include "base/url.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- the writer ------------------------------------------------------------------------------- */

enum { COLUMNS = 4, GAP = 2, WIDTH_MAX = 64 };

typedef struct table_writer {
    int measuring; /* only the widths are noted */
    char *out;
    size_t room; /* 0: nothing is written */
    size_t len;  /* of the whole text */
    size_t widths[COLUMNS];
    size_t column;
    size_t cell_len;
    size_t pad; /* spaces that are due before the next text: none is left at the end of a line */
} table_writer;

static void put_char(table_writer *w, char c)
{
    if (!w->measuring && w->len + 1 < w->room)
        w->out[w->len] = c;
    w->len++;
}

static void put(table_writer *w, const char *text)
{
    for (; *text; text++, w->cell_len++) {
        for (; w->pad; w->pad--)
            put_char(w, ' ');
        put_char(w, *text == '\n' ? ' ' : *text);
    }
}

static void put_format(table_writer *w, const char *format, ...) SEMEL_PRINTF(2, 3);
static void put_format(table_writer *w, const char *format, ...)
{
    char text[SEMEL_NAME_MAX + 64];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put(w, text);
}

/* A cell that is too wide for its column does not make it wider. */
static void next_cell(table_writer *w)
{
    size_t *width = &w->widths[w->column];
    if (w->measuring && w->cell_len > *width && w->cell_len <= WIDTH_MAX)
        *width = w->cell_len;
    w->pad += w->cell_len < *width ? *width - w->cell_len + GAP : GAP;
    w->cell_len = 0;
    w->column += w->column + 1 < COLUMNS;
}

static void end_line(table_writer *w)
{
    w->column = 0;
    w->cell_len = 0;
    w->pad = 0;
    put_char(w, '\n');
}

/* --- URLs ------------------------------------------------------------------------------------- */

static void put_range(table_writer *w, const char *from, const char *end)
{
    for (; from < end; from++)
        put_format(w, "%c", *from);
}

static void put_url(table_writer *w, const char *text, size_t len)
{
    char shown[URL_MAX];
    url_shown(shown, text, len);
    put(w, shown);
}

/* store:URL#NAME?parameters has a URL inside. */
static void put_queue_url(table_writer *w, const char *text)
{
    static const char inner[] = "store:";
    size_t len = strlen(inner);
    const char *mark = strncmp(text, inner, len) == 0 ? strrchr(text, '#') : NULL;
    if (!mark) {
        put_url(w, text, strlen(text));
        return;
    }
    put(w, inner);
    put_url(w, text + len, (size_t)(mark - text) - len);
    put_range(w, mark, mark + strcspn(mark, "?"));
}

/* --- stores and queues ------------------------------------------------------------------------ */

static void describe_store(table_writer *w, const semel_pipeline *p, size_t at)
{
    static const char *const survives[] = {"", "lost when the process ends",
                                           "survives kill -9, not power loss",
                                           "survives power loss"};
    const semel_pipeline_store *store = &p->table.spec.stores[at];
    put(w, store->name);
    next_cell(w);
    if (store->url)
        put_url(w, store->url, strlen(store->url));
    else
        put_format(w, "%s: (opened before)", p->stores[at]->driver->scheme);
    next_cell(w);
    put(w, survives[semel_store_durability(p->stores[at])]);
}

static void put_count(table_writer *w, size_t count, const char *what)
{
    put_format(w, "%zu %s%s", count, what, count == 1 ? "" : "s");
}

static void put_consumer(table_writer *w, const semel_pipeline_queue *queue)
{
    semel_consumer_options options;
    (void)options_read(&options, sizeof options, queue->consumer, "", NULL); /* it was checked */
    put_count(w, options.workers ? options.workers : 1, "worker");
    if (options.batch > 1)
        put_format(w, ", batches of %u", (unsigned)options.batch);
    if (options.order == SEMEL_ORDER_GROUP)
        put(w, ", in order of groups");
}

static void describe_queue(table_writer *w, const semel_pipeline *p, size_t at)
{
    const semel_pipeline_queue *queue = &p->table.spec.queues[at];
    put(w, queue->name);
    next_cell(w);
    if (queue->url)
        put_queue_url(w, queue->url);
    else if (queue->opened)
        put_format(w, "%s: (opened before)", p->queues[at]->driver->scheme);
    else
        put_format(w, "in store %s",
                   p->table.spec.stores[pipeline_store_index(&p->table, queue->store)].name);
    next_cell(w);
    if (p->consumers[at])
        put_consumer(w, queue);
    else
        put(w, "not read here");
}

/* Behind the line of its queue, a line for each. */
static void describe_warnings(table_writer *w, const semel_pipeline *p, size_t at)
{
    const char *text = semel_transport_warnings(p->queues[at]);
    while (*text) {
        size_t len = strcspn(text, "\n");
        put(w, "warning");
        next_cell(w);
        put(w, p->table.spec.queues[at].name);
        next_cell(w);
        put_range(w, text, text + len);
        end_line(w);
        text += len + (text[len] == '\n');
    }
}

/* --- inboxes and outboxes --------------------------------------------------------------------- */

static void put_duration(table_writer *w, uint64_t ms)
{
    static const struct {
        uint64_t ms;
        const char *unit;
    } units[] = {{86400000, "d"}, {3600000, "h"}, {60000, "min"}, {1000, "s"}, {1, "ms"}};
    size_t i = 0;
    while (ms % units[i].ms)
        i++;
    put_format(w, "%llu%s", (unsigned long long)(ms / units[i].ms), units[i].unit);
}

static void put_retention(table_writer *w, uint64_t retention_ms)
{
    put(w, ", remembered ");
    if (retention_ms == SEMEL_RETENTION_FOREVER)
        put(w, "for ever");
    else if (retention_ms == SEMEL_RETENTION_NONE)
        put(w, "until the next sweep");
    else
        put_duration(w, retention_ms);
}

static void put_types(table_writer *w, const char *const *types)
{
    for (size_t i = 0; types && types[i]; i++) {
        put(w, i ? " " : ", types ");
        put(w, types[i]);
    }
}

/* Its key is the text that was given: the options have not changed since. */
static void put_protection(table_writer *w, const semel_pipeline_inbox *inbox,
                           const semel_inbox *opened)
{
    static const char *const modes[] = {"transaction", "claim", "queued"};
    const semel_inbox_options *options = &opened->options;
    semel_inbox_options given;
    (void)options_read(&given, sizeof given, inbox->options, "", NULL); /* it was checked */
    put(w, modes[options->mode]);
    put(w, ", once per ");
    put(w, given.key_function ? "key (a function)" : given.key ? given.key : "id");
    put_retention(w, options->retention_ms);
    if (inbox->faults)
        put_format(w, ", faults to %s", inbox->faults);
}

/* Only where there are several is it said. */
static void put_store(table_writer *w, const semel_pipeline *p, const char *before,
                      const char *name)
{
    if (p->table.stores.count > 1)
        put_format(w, "%sin store %s", before,
                   p->table.spec.stores[pipeline_store_index(&p->table, name)].name);
}

static void put_source(table_writer *w, const semel_pipeline *p, size_t at)
{
    const char *name = p->table.spec.inboxes[at].name, *from = p->table.spec.inboxes[at].from;
    for (size_t i = 0; !from && i < p->table.outboxes.count; i++) {
        const char *to = p->table.spec.outboxes[i].inbox;
        if (to && strcmp(to, name) == 0)
            from = p->table.spec.outboxes[i].name;
    }
    if (from)
        put_format(w, "%s -> ", from);
    put(w, name);
}

static semel_grade grade_of(const semel_pipeline *p, size_t at)
{
    size_t queue = pipeline_index(&p->table.queues, p->table.spec.inboxes[at].from);
    if (!p->inboxes[at])
        return SEMEL_GRADE_AT_LEAST_ONCE;
    return semel_inbox_grade(p->inboxes[at], queue == PIPELINE_NONE ? NULL : p->queues[queue]);
}

static void describe_inbox(table_writer *w, const semel_pipeline *p, size_t at)
{
    const semel_pipeline_inbox *inbox = &p->table.spec.inboxes[at];
    put_source(w, p, at);
    next_cell(w);
    put(w, semel_grade_name(grade_of(p, at)));
    next_cell(w);
    if (p->inboxes[at])
        put_protection(w, inbox, p->inboxes[at]);
    else
        put(w, "every copy runs the handler");
    put_types(w, inbox->types);
    put_store(w, p, ", ", inbox->store);
}

static void describe_outbox(table_writer *w, const semel_pipeline *p, size_t at)
{
    static const char *const presets[] = {"balanced", "throughput", "careful"};
    const semel_pipeline_outbox *outbox = &p->table.spec.outboxes[at];
    semel_relay_options options;
    (void)options_read(&options, sizeof options, outbox->options, "", NULL); /* it was checked */
    put(w, outbox->name);
    if (outbox->to || outbox->inbox)
        put_format(w, " -> %s", outbox->to ? outbox->to : outbox->inbox);
    next_cell(w);
    if (outbox->to || outbox->inbox) {
        put_count(w, outbox->relays ? outbox->relays : 1, "relay");
        put_format(w, ", %s%s", presets[options.preset], outbox->inbox ? ", local hand-off" : "");
    } else {
        put(w, "not relayed here");
    }
    next_cell(w);
    put_store(w, p, "", outbox->store);
}

/* --- all of it -------------------------------------------------------------------------------- */

typedef void describe_element(table_writer *w, const semel_pipeline *p, size_t at);

static void describe_list(table_writer *w, const semel_pipeline *p, const pipeline_list *list,
                          describe_element *describe)
{
    for (size_t i = 0; i < list->count; i++) {
        put(w, list->kind);
        next_cell(w);
        describe(w, p, i);
        end_line(w);
        if (list == &p->table.queues)
            describe_warnings(w, p, i);
    }
}

static void describe_all(table_writer *w, const semel_pipeline *p)
{
    w->len = 0;
    describe_list(w, p, &p->table.stores, describe_store);
    describe_list(w, p, &p->table.queues, describe_queue);
    describe_list(w, p, &p->table.inboxes, describe_inbox);
    describe_list(w, p, &p->table.outboxes, describe_outbox);
}

size_t semel_pipeline_describe(char *out, size_t room, const semel_pipeline *pipeline)
{
    table_writer w = {.measuring = 1, .out = out, .room = room};
    describe_all(&w, pipeline);
    w.measuring = 0;
    describe_all(&w, pipeline);
    if (room)
        out[w.len < room ? w.len : room - 1] = 0;
    return w.len;
}
