/* A pipeline: opening and closing what its specification names.
 *
 * The order of opening is the order in which things need each other: stores and their tables,
 * queues, outboxes, inboxes (which announce dead letters in outboxes), consumers, relays. Closing
 * goes backwards, over everything that there is: so an opening that fails is closed in the same
 * way. Opening receives and sends nothing. If the process dies while it opens, it leaves tables and
 * the names of queues, inboxes and outboxes, all of which the next opening finds; if it dies while
 * it closes, deliveries that the consumers still held come again as they would after any crash.
 *
 * In a child after fork() the handles are the parent's: there closing frees memory only. */
#include "core/pipeline.h"

#include "base/mem.h"
#include "core/consumer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

semel_status pipeline_check_process(const semel_pipeline *pipeline, semel_error *err)
{
    return pipeline->pid == getpid()
               ? SEMEL_OK
               : semel_fail(err, SEMEL_EMISUSE,
                            "this pipeline was opened before fork(); open one in the child");
}

/* --- stores, queues, outboxes ----------------------------------------------------------------- */

static semel_status open_store(semel_pipeline *p, size_t at, semel_error *err)
{
    const semel_pipeline_store *store = &p->table.spec.stores[at];
    semel_status status = SEMEL_OK;
    if (store->opened)
        p->stores[at] = store->opened;
    else
        status = semel_store_open(&p->stores[at], store->url, store->options, err);
    return status || store->keep_schema ? status : semel_store_migrate(p->stores[at], err);
}

static semel_store *store_of(const semel_pipeline *p, const char *name)
{
    return p->stores[pipeline_store_index(&p->table, name)];
}

/* A broker has no clock of its own: it goes by that of the first store. */
static semel_status open_queue(semel_pipeline *p, size_t at, semel_error *err)
{
    const semel_pipeline_queue *queue = &p->table.spec.queues[at];
    semel_transport_options options = {.size = sizeof options, .seam = &p->stores[0]->seam};
    if (queue->opened) {
        p->queues[at] = queue->opened;
        return SEMEL_OK;
    }
    return queue->url ? semel_transport_open(&p->queues[at], queue->url, &options, err)
                      : semel_queue_open(&p->queues[at], store_of(p, queue->store), queue->name,
                                         queue->options, err);
}

static semel_status open_outbox(semel_pipeline *p, size_t at, semel_error *err)
{
    const semel_pipeline_outbox *outbox = &p->table.spec.outboxes[at];
    return semel_outbox_open(&p->outboxes[at], store_of(p, outbox->store), outbox->name, err);
}

/* --- inboxes ---------------------------------------------------------------------------------- */

/* Of what arrives by a local hand-off, or by the program itself, the store alone decides. */
static semel_status check_grade(const semel_pipeline *p, size_t at, semel_error *err)
{
    const semel_pipeline_inbox *inbox = &p->table.spec.inboxes[at];
    const semel_transport *from =
        inbox->from ? p->queues[pipeline_index(&p->table.queues, inbox->from)] : NULL;
    semel_grade grade = semel_inbox_grade(p->inboxes[at], from);
    if (grade >= inbox->require)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_EUNSUPPORTED,
                      "require: its grade is \"%s\", and \"%s\" is required; the store, its "
                      "durability, the mode of the inbox and the queue decide that",
                      semel_grade_name(grade), semel_grade_name(inbox->require));
}

static semel_status open_inbox(semel_pipeline *p, size_t at, semel_error *err)
{
    const semel_pipeline_inbox *inbox = &p->table.spec.inboxes[at];
    semel_inbox_options options;
    if (inbox->unkeyed)
        return SEMEL_OK;
    semel_status status =
        options_read(&options, sizeof options, inbox->options, "semel_inbox_options", err);
    if (status)
        return status;
    options.size = sizeof options;
    if (inbox->faults)
        options.faults = p->outboxes[pipeline_index(&p->table.outboxes, inbox->faults)];
    status =
        semel_inbox_open(&p->inboxes[at], store_of(p, inbox->store), inbox->name, &options, err);
    return status ? status : check_grade(p, at, err);
}

/* --- consumers -------------------------------------------------------------------------------- */

typedef struct route_list {
    semel_route routes[SEMEL_ROUTES_MAX];
    size_t count;
    semel_store *unkeyed; /* the store of those without an inbox */
} route_list;

static semel_status add_routes(route_list *list, const semel_pipeline *p, size_t at,
                               semel_error *err)
{
    static const char *const all[] = {"*", NULL};
    const semel_pipeline_inbox *inbox = &p->table.spec.inboxes[at];
    if (inbox->unkeyed)
        list->unkeyed = store_of(p, inbox->store);
    for (const char *const *type = inbox->types ? inbox->types : all; *type; type++) {
        if (list->count == SEMEL_ROUTES_MAX)
            return semel_fail(err, SEMEL_ELIMIT,
                              "the inboxes that read from it have more than %zu types together "
                              "(SEMEL_ROUTES_MAX)",
                              SEMEL_ROUTES_MAX);
        list->routes[list->count++] =
            (semel_route){*type, p->inboxes[at], inbox->handler, inbox->context};
    }
    return SEMEL_OK;
}

static semel_status collect_routes(route_list *list, const semel_pipeline *p, const char *queue,
                                   semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < p->table.inboxes.count; i++) {
        const char *from = p->table.spec.inboxes[i].from;
        if (from && strcmp(from, queue) == 0)
            status = add_routes(list, p, i, err);
    }
    return status;
}

/* It is there for good before its handle is opened, because its notice refers to it. */
static pipeline_loop *add_loop(semel_pipeline *p, const char *element, const char *name)
{
    pipeline_loop *loop = &p->loops[p->loop_count++];
    *loop = (pipeline_loop){.pipeline = p, .element = element, .name = name};
    return loop;
}

static semel_status open_consumer(semel_pipeline *p, size_t at, semel_error *err)
{
    const semel_pipeline_queue *queue = &p->table.spec.queues[at];
    semel_consumer_options options;
    route_list list = {.count = 0};
    if (!pipeline_is_read(&p->table, at))
        return SEMEL_OK;
    semel_status status =
        options_read(&options, sizeof options, queue->consumer, "semel_consumer_options", err);
    if (!status)
        status = collect_routes(&list, p, queue->name, err);
    if (status)
        return status;
    pipeline_loop *loop = add_loop(p, "queue", queue->name);
    options.size = sizeof options;
    options.shared_inboxes = 1;
    options.store = list.unkeyed;
    if (!options.notice) {
        options.notice = pipeline_notice_loop;
        options.notice_context = loop;
    }
    status =
        semel_consumer_open(&loop->consumer, p->queues[at], list.routes, list.count, &options, err);
    p->consumers[at] = loop->consumer;
    if (!status)
        loop->consumer->queue = queue->name;
    return status;
}

/* --- relays ----------------------------------------------------------------------------------- */

static uint32_t relays_of(const semel_pipeline_outbox *outbox)
{
    if (!outbox->to && !outbox->inbox)
        return 0;
    return outbox->relays ? outbox->relays : 1;
}

static semel_status open_relay(semel_pipeline *p, size_t at, semel_error *err)
{
    const semel_pipeline_outbox *outbox = &p->table.spec.outboxes[at];
    semel_relay_options options;
    semel_status status =
        options_read(&options, sizeof options, outbox->options, "semel_relay_options", err);
    if (status)
        return status;
    pipeline_loop *loop = add_loop(p, "outbox", outbox->name);
    options.size = sizeof options;
    if (!options.notice) {
        options.notice = pipeline_notice_loop;
        options.notice_context = loop;
    }
    if (outbox->to)
        return semel_relay_open(&loop->relay, p->outboxes[at],
                                p->queues[pipeline_index(&p->table.queues, outbox->to)], &options,
                                err);
    size_t to = pipeline_index(&p->table.inboxes, outbox->inbox);
    const semel_pipeline_inbox *inbox = &p->table.spec.inboxes[to];
    return semel_relay_open_local(&loop->relay, p->outboxes[at], p->inboxes[to], inbox->handler,
                                  inbox->context, &options, err);
}

static semel_status open_relays(semel_pipeline *p, size_t at, semel_error *err)
{
    semel_status status = SEMEL_OK;
    uint32_t count = relays_of(&p->table.spec.outboxes[at]);
    for (uint32_t i = 0; !status && i < count; i++)
        status = open_relay(p, at, err);
    return status;
}

/* A consumer's workers and the relays of several outboxes may use one transport at a time. */
static semel_status check_sharing(semel_pipeline *p, size_t at, semel_error *err)
{
    const semel_transport_driver *driver = p->queues[at]->driver;
    const semel_pipeline_queue *queue = &p->table.spec.queues[at];
    semel_consumer_options options;
    semel_status status =
        options_read(&options, sizeof options, queue->consumer, "semel_consumer_options", err);
    size_t users = !pipeline_is_read(&p->table, at) ? 0 : options.workers ? options.workers : 1;
    for (size_t i = 0; i < p->table.outboxes.count; i++) {
        const semel_pipeline_outbox *outbox = &p->table.spec.outboxes[i];
        if (outbox->to && strcmp(outbox->to, queue->name) == 0)
            users += relays_of(outbox);
    }
    if (status || users <= 1 || driver->abilities & SEMEL_TRANSPORT_SHARED)
        return status;
    return semel_fail(err, SEMEL_EUNSUPPORTED,
                      "%zu threads would use this transport, which %s: does not allow; declare one "
                      "queue for each",
                      users, driver->scheme);
}

/* --- retention -------------------------------------------------------------------------------- */

/* Looks at notes are made even without rounds, as consumers do: what another process has forgotten
 * must be known here. A store that needs neither is left out. */
static semel_status open_sweep(semel_pipeline *p, size_t at, semel_error *err)
{
    const semel_pipeline_inbox *inbox = &p->table.spec.inboxes[at];
    if (inbox->unkeyed || inbox->from || pipeline_is_handed(&p->table, at))
        return SEMEL_OK;
    pipeline_sweep *sweep = &p->sweeps[p->sweep_count];
    *sweep = (pipeline_sweep){.pipeline = p, .name = inbox->name};
    semel_status status = retention_open(&sweep->retention, 1, &p->inboxes[at]->store->seam,
                                         pipeline_notice_sweep, sweep, err);
    if (status)
        return status;
    retention_add(&sweep->retention, p->inboxes[at]);
    if (sweep->retention.count)
        p->sweep_count++;
    else
        retention_close(&sweep->retention);
    return SEMEL_OK;
}

/* --- the whole -------------------------------------------------------------------------------- */

static size_t loops_max(const pipeline_table *table)
{
    size_t loops = table->queues.count + 1;
    for (size_t i = 0; i < table->outboxes.count; i++)
        loops += relays_of(&table->spec.outboxes[i]);
    return loops;
}

/* With one place more than needed: nothing of the size 0 is asked for. */
static semel_status alloc_places(semel_pipeline *p, semel_error *err)
{
    const pipeline_table *table = &p->table;
    p->stores = mem_alloc((table->stores.count + 1) * sizeof(semel_store *));
    p->queues = mem_alloc((table->queues.count + 1) * sizeof(semel_transport *));
    p->inboxes = mem_alloc((table->inboxes.count + 1) * sizeof(semel_inbox *));
    p->outboxes = mem_alloc((table->outboxes.count + 1) * sizeof(semel_outbox *));
    p->consumers = mem_alloc((table->queues.count + 1) * sizeof(semel_consumer *));
    p->sweeps = mem_alloc((table->inboxes.count + 1) * sizeof *p->sweeps);
    p->loops = mem_alloc(loops_max(table) * sizeof *p->loops);
    if (p->stores && p->queues && p->inboxes && p->outboxes && p->consumers && p->sweeps &&
        p->loops)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_ENOMEM, "out of memory for a pipeline");
}

typedef semel_status open_element(semel_pipeline *p, size_t at, semel_error *err);

static semel_status open_each(semel_pipeline *p, const pipeline_list *list, open_element *open_one,
                              semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < list->count; i++)
        status = pipeline_blame(open_one(p, i, err), list->kind, pipeline_name(list, i), err);
    return status;
}

static semel_status open_all(semel_pipeline *p, semel_error *err)
{
    const pipeline_table *table = &p->table;
    const struct {
        const pipeline_list *list;
        open_element *open_one;
    } steps[] = {
        {&table->stores, open_store},    {&table->queues, open_queue},
        {&table->queues, check_sharing}, {&table->outboxes, open_outbox},
        {&table->inboxes, open_inbox},   {&table->queues, open_consumer},
        {&table->outboxes, open_relays}, {&table->inboxes, open_sweep},
    };
    semel_status status = alloc_places(p, err);
    for (size_t i = 0; !status && i < sizeof steps / sizeof *steps; i++)
        status = open_each(p, steps[i].list, steps[i].open_one, err);
    if (!status && p->sweep_count)
        (void)add_loop(p, "inbox", p->sweeps[0].name);
    return status;
}

static semel_status new_pipeline(semel_pipeline **out, const pipeline_table *table,
                                 semel_error *err)
{
    semel_pipeline *p = mem_alloc(sizeof *p);
    if (!p)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a pipeline");
    if (pipe2(p->wake, O_CLOEXEC | O_NONBLOCK) != 0) {
        mem_free(p);
        return semel_fail(err, SEMEL_ENOMEM, "no pipe to stop a pipeline by: %s", strerror(errno));
    }
    p->table = *table;
    p->pid = getpid();
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_init(&p->first_lock, NULL);
    pthread_mutex_init(&p->notice_lock, NULL);
    *out = p;
    return SEMEL_OK;
}

semel_status semel_pipeline_open(semel_pipeline **out, const semel_pipeline_spec *spec,
                                 semel_error *err)
{
    pipeline_table table;
    semel_pipeline *p = NULL;
    semel_status status = pipeline_table_read(&table, spec, err);
    if (!status)
        status = new_pipeline(&p, &table, err);
    if (status)
        return status;
    status = open_all(p, err);
    if (status)
        semel_pipeline_close(p);
    else
        *out = p;
    return status;
}

/* --- closing ---------------------------------------------------------------------------------- */

static void close_loops(semel_pipeline *p)
{
    for (size_t i = p->loop_count; i-- > 0;)
        semel_relay_close(p->loops[i].relay);
    for (size_t i = p->loop_count; i-- > 0;)
        semel_consumer_close(p->loops[i].consumer);
    for (size_t i = 0; i < p->sweep_count; i++)
        retention_close(&p->sweeps[i].retention);
}

/* What was open before stays open. */
static void close_things(semel_pipeline *p)
{
    const pipeline_table *table = &p->table;
    for (size_t i = table->inboxes.count; p->inboxes && i-- > 0;)
        semel_inbox_close(p->inboxes[i]);
    for (size_t i = table->outboxes.count; p->outboxes && i-- > 0;)
        semel_outbox_close(p->outboxes[i]);
    for (size_t i = table->queues.count; p->queues && i-- > 0;)
        if (!table->spec.queues[i].opened)
            semel_transport_close(p->queues[i]);
    for (size_t i = table->stores.count; p->stores && i-- > 0;)
        if (!table->spec.stores[i].opened)
            semel_store_close(p->stores[i]);
}

static void free_places(semel_pipeline *p)
{
    mem_free(p->stores);
    mem_free(p->queues);
    mem_free(p->inboxes);
    mem_free(p->outboxes);
    mem_free(p->consumers);
    mem_free(p->sweeps);
    mem_free(p->loops);
    close(p->wake[0]);
    close(p->wake[1]);
    mem_free(p);
}

void semel_pipeline_close(semel_pipeline *pipeline)
{
    if (!pipeline)
        return;
    if (pipeline->pid == getpid()) {
        semel_pipeline_stop(pipeline);
        if (pipeline->phase == PIPELINE_STARTED)
            (void)semel_pipeline_wait(pipeline, NULL); /* its error is that of a run that is over */
        close_loops(pipeline);
        close_things(pipeline);
        pthread_mutex_destroy(&pipeline->lock);
        pthread_mutex_destroy(&pipeline->first_lock);
        pthread_mutex_destroy(&pipeline->notice_lock);
    }
    free_places(pipeline);
}

/* --- finding ---------------------------------------------------------------------------------- */

semel_store *semel_pipeline_find_store(const semel_pipeline *pipeline, const char *name)
{
    size_t at = pipeline_index(&pipeline->table.stores, name);
    return at == PIPELINE_NONE ? NULL : pipeline->stores[at];
}

semel_transport *semel_pipeline_find_queue(const semel_pipeline *pipeline, const char *name)
{
    size_t at = pipeline_index(&pipeline->table.queues, name);
    return at == PIPELINE_NONE ? NULL : pipeline->queues[at];
}

semel_inbox *semel_pipeline_find_inbox(const semel_pipeline *pipeline, const char *name)
{
    size_t at = pipeline_index(&pipeline->table.inboxes, name);
    return at == PIPELINE_NONE ? NULL : pipeline->inboxes[at];
}

semel_outbox *semel_pipeline_find_outbox(const semel_pipeline *pipeline, const char *name)
{
    size_t at = pipeline_index(&pipeline->table.outboxes, name);
    return at == PIPELINE_NONE ? NULL : pipeline->outboxes[at];
}

semel_consumer *semel_pipeline_find_consumer(const semel_pipeline *pipeline, const char *queue)
{
    size_t at = pipeline_index(&pipeline->table.queues, queue);
    return at == PIPELINE_NONE ? NULL : pipeline->consumers[at];
}
