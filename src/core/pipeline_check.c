/* The specification of a pipeline: what contradicts itself is refused before anything is opened, so
 * that nothing is left behind by it.
 *
 * All elements have their name first, so finding, counting and comparing names is written once. The
 * checks of an element do not repeat its kind and name: check_all() puts them before the error. */
#include "core/pipeline.h"

#include "base/nearest.h"

#include <stdio.h>
#include <string.h>

_Static_assert(offsetof(semel_pipeline_store, name) == 0 &&
                   offsetof(semel_pipeline_queue, name) == 0 &&
                   offsetof(semel_pipeline_inbox, name) == 0 &&
                   offsetof(semel_pipeline_outbox, name) == 0,
               "pipeline_name() reads the first member");

/* --- names ------------------------------------------------------------------------------------ */

const char *pipeline_name(const pipeline_list *list, size_t at)
{
    const char *name;
    memcpy(&name, (const char *)list->elements + at * list->size, sizeof name);
    return name;
}

size_t pipeline_index(const pipeline_list *list, const char *name)
{
    for (size_t i = 0; name && i < list->count; i++)
        if (strcmp(pipeline_name(list, i), name) == 0)
            return i;
    return PIPELINE_NONE;
}

size_t pipeline_store_index(const pipeline_table *table, const char *name)
{
    return name ? pipeline_index(&table->stores, name) : 0;
}

semel_status pipeline_blame(semel_status status, const char *kind, const char *name,
                            semel_error *err)
{
    if (!status || !err)
        return status;
    semel_error why = *err;
    (void)semel_fail(err, status, "%s \"%s\": %s", kind, name, why.text);
    err->native = why.native;
    err->retryable = why.retryable;
    memcpy(err->sqlstate, why.sqlstate, sizeof err->sqlstate);
    return status;
}

static const char *nearest_name(const pipeline_list *list, const char *written)
{
    const char *found = NULL;
    size_t best = NEAREST_NONE;
    for (size_t i = 0; i < list->count; i++) {
        size_t far = nearest_rank(written, pipeline_name(list, i));
        if (far < best) {
            best = far;
            found = pipeline_name(list, i);
        }
    }
    return found;
}

/* A name that refers to another element, or NULL. */
static semel_status check_reference(const char *member, const pipeline_list *list, const char *name,
                                    semel_error *err)
{
    if (!name || pipeline_index(list, name) != PIPELINE_NONE)
        return SEMEL_OK;
    const char *meant = nearest_name(list, name);
    return meant ? semel_fail(err, SEMEL_EINVAL, "%s: there is no %s \"%s\"; did you mean \"%s\"?",
                              member, list->kind, name, meant)
                 : semel_fail(err, SEMEL_EINVAL,
                              "%s: there is no %s \"%s\"; declare it in the pipeline's .%s", member,
                              list->kind, name, list->member);
}

static int same_store(const pipeline_table *table, const char *one, const char *other)
{
    return pipeline_store_index(table, one) == pipeline_store_index(table, other);
}

/* Before anything else: a name that is written wrong makes the other end look forgotten. */
static semel_status check_queue_names(const pipeline_table *table, size_t at, semel_error *err)
{
    return check_reference("store", &table->stores, table->spec.queues[at].store, err);
}

static semel_status check_inbox_names(const pipeline_table *table, size_t at, semel_error *err)
{
    const semel_pipeline_inbox *inbox = &table->spec.inboxes[at];
    semel_status status = check_reference("store", &table->stores, inbox->store, err);
    if (!status)
        status = check_reference("from", &table->queues, inbox->from, err);
    return status ? status : check_reference("faults", &table->outboxes, inbox->faults, err);
}

static semel_status check_outbox_names(const pipeline_table *table, size_t at, semel_error *err)
{
    const semel_pipeline_outbox *outbox = &table->spec.outboxes[at];
    semel_status status = check_reference("store", &table->stores, outbox->store, err);
    if (!status)
        status = check_reference("to", &table->queues, outbox->to, err);
    return status ? status : check_reference("inbox", &table->inboxes, outbox->inbox, err);
}

/* --- relations -------------------------------------------------------------------------------- */

int pipeline_is_read(const pipeline_table *table, size_t queue)
{
    const char *name = pipeline_name(&table->queues, queue);
    for (size_t i = 0; i < table->inboxes.count; i++) {
        const char *from = table->spec.inboxes[i].from;
        if (from && strcmp(from, name) == 0)
            return 1;
    }
    return 0;
}

static int is_written(const pipeline_table *table, size_t queue)
{
    const char *name = pipeline_name(&table->queues, queue);
    for (size_t i = 0; i < table->outboxes.count; i++) {
        const char *to = table->spec.outboxes[i].to;
        if (to && strcmp(to, name) == 0)
            return 1;
    }
    return 0;
}

/* The outbox that is handed off to the inbox, or PIPELINE_NONE. */
static size_t handing_outbox(const pipeline_table *table, size_t inbox)
{
    const char *name = pipeline_name(&table->inboxes, inbox);
    for (size_t i = 0; i < table->outboxes.count; i++) {
        const char *to = table->spec.outboxes[i].inbox;
        if (to && strcmp(to, name) == 0)
            return i;
    }
    return PIPELINE_NONE;
}

int pipeline_is_handed(const pipeline_table *table, size_t inbox)
{
    return handing_outbox(table, inbox) != PIPELINE_NONE;
}

/* --- stores ----------------------------------------------------------------------------------- */

static semel_status check_store(const pipeline_table *table, size_t at, semel_error *err)
{
    const semel_pipeline_store *store = &table->spec.stores[at];
    semel_store_options options;
    if (!store->url == !store->opened)
        return semel_fail(err, SEMEL_EINVAL,
                          "it needs either a url, or in .opened a store that is open already");
    if (store->opened && store->options)
        return semel_fail(err, SEMEL_EINVAL,
                          "options: they are for opening it, and it is open already");
    for (size_t i = 0; store->opened && i < at; i++)
        if (table->spec.stores[i].opened == store->opened)
            return semel_fail(err, SEMEL_EINVAL, "opened: it is store \"%s\" already",
                              table->spec.stores[i].name);
    return options_read(&options, sizeof options, store->options, "semel_store_options", err);
}

/* --- queues ----------------------------------------------------------------------------------- */

static semel_status check_queue_place(const pipeline_table *table, size_t at, semel_error *err)
{
    const semel_pipeline_queue *queue = &table->spec.queues[at];
    semel_queue_options options;
    if (queue->url && queue->opened)
        return semel_fail(err, SEMEL_EINVAL, "it has a url, and is open already: choose one");
    if (!pipeline_is_in_store(queue) && queue->store)
        return semel_fail(err, SEMEL_EINVAL,
                          "store: it is for a queue in a store, and this one has a %s",
                          queue->url ? "url" : "transport that is open already");
    if (!pipeline_is_in_store(queue) && queue->options)
        return semel_fail(
            err, SEMEL_EINVAL, "options: they are for a queue in a store, and this one has a %s",
            queue->url ? "url, which has parameters" : "transport that is open already");
    for (size_t i = 0; queue->opened && i < at; i++)
        if (table->spec.queues[i].opened == queue->opened)
            return semel_fail(err, SEMEL_EINVAL, "opened: it is queue \"%s\" already",
                              table->spec.queues[i].name);
    return options_read(&options, sizeof options, queue->options, "semel_queue_options", err);
}

static semel_status check_consumer(const pipeline_table *table, size_t at, semel_error *err)
{
    const semel_pipeline_queue *queue = &table->spec.queues[at];
    semel_consumer_options options;
    semel_status status =
        options_read(&options, sizeof options, queue->consumer, "semel_consumer_options", err);
    if (status)
        return status;
    if (queue->consumer && !pipeline_is_read(table, at))
        return semel_fail(err, SEMEL_EINVAL,
                          "consumer: no inbox reads from this queue, so it has no consumer");
    if (options.store || options.shared_inboxes)
        return semel_fail(err, SEMEL_EINVAL,
                          "consumer: leave .%s to the pipeline, which knows it from the inboxes",
                          options.store ? "store" : "shared_inboxes");
    return SEMEL_OK;
}

static semel_status check_queue(const pipeline_table *table, size_t at, semel_error *err)
{
    semel_status status = check_queue_place(table, at, err);
    if (!status)
        status = check_consumer(table, at, err);
    if (!status && !pipeline_is_read(table, at) && !is_written(table, at))
        return semel_fail(err, SEMEL_EINVAL,
                          "no inbox reads from it and no outbox sends to it: name it in the .from "
                          "of an inbox or the .to of an outbox, or leave it out");
    return status;
}

/* --- inboxes ---------------------------------------------------------------------------------- */

static semel_status check_reader(const pipeline_table *table, size_t at, semel_error *err)
{
    const semel_pipeline_inbox *inbox = &table->spec.inboxes[at];
    size_t outbox = handing_outbox(table, at);
    int has_loop = inbox->from || outbox != PIPELINE_NONE;
    if (inbox->from && outbox != PIPELINE_NONE)
        return semel_fail(err, SEMEL_EINVAL,
                          "it reads from queue \"%s\", and outbox \"%s\" is handed off to it: "
                          "choose one, or give each handler an inbox of its own",
                          inbox->from, table->spec.outboxes[outbox].name);
    if (has_loop && !inbox->handler)
        return semel_fail(err, SEMEL_EINVAL, "it needs a handler");
    if (!has_loop && inbox->handler)
        return semel_fail(err, SEMEL_EINVAL,
                          "nothing calls its handler: name a queue in .from, or the inbox in the "
                          ".inbox of an outbox");
    if (!inbox->from && inbox->types)
        return semel_fail(err, SEMEL_EINVAL,
                          "types: they choose from what a queue delivers, and it has no .from");
    return SEMEL_OK;
}

static semel_status check_types(const semel_pipeline_inbox *inbox, semel_error *err)
{
    size_t count = 0;
    if (!inbox->types)
        return SEMEL_OK;
    for (; inbox->types[count]; count++) {
        if (count == SEMEL_ROUTES_MAX)
            return semel_fail(err, SEMEL_ELIMIT,
                              "types: more than %zu; does the array end with NULL?",
                              SEMEL_ROUTES_MAX);
        if (!*inbox->types[count])
            return semel_fail(err, SEMEL_EINVAL, "types: number %zu is empty", count + 1);
    }
    return count ? SEMEL_OK
                 : semel_fail(err, SEMEL_EINVAL,
                              "types: there is none in it; leave it out if all types are meant");
}

/* The consumer takes two such routes for one if they have the same handler and context; and it has
 * one store for all of them. */
static semel_status check_unkeyed_pair(const pipeline_table *table, const semel_pipeline_inbox *a,
                                       const semel_pipeline_inbox *b, semel_error *err)
{
    if (!a->unkeyed || !a->from || strcmp(a->from, b->from) != 0)
        return SEMEL_OK;
    if (!same_store(table, a->store, b->store))
        return semel_fail(err, SEMEL_EINVAL,
                          "unkeyed: inbox \"%s\" of the same queue is unkeyed in another store: "
                          "all of one queue are in one",
                          a->name);
    if (a->handler == b->handler && a->context == b->context)
        return semel_fail(err, SEMEL_EINVAL,
                          "unkeyed: inbox \"%s\" of the same queue has the same handler and "
                          "context: give one of them the types of both",
                          a->name);
    return SEMEL_OK;
}

static semel_status check_unkeyed(const pipeline_table *table, size_t at, semel_error *err)
{
    const semel_pipeline_inbox *inbox = &table->spec.inboxes[at];
    semel_status status = SEMEL_OK;
    if (!inbox->unkeyed)
        return SEMEL_OK;
    if (!inbox->from)
        return semel_fail(err, SEMEL_EINVAL, "unkeyed: it is for what a queue delivers: set .from");
    if (inbox->options || inbox->faults)
        return semel_fail(err, SEMEL_EINVAL,
                          "unkeyed: there is no inbox in the store that .%s could apply to",
                          inbox->options ? "options" : "faults");
    if (inbox->require > SEMEL_GRADE_AT_LEAST_ONCE)
        return semel_fail(
            err, SEMEL_EINVAL,
            "unkeyed: every copy runs the handler, which is less than the grade \"%s\" "
            "that is required",
            semel_grade_name(inbox->require));
    for (size_t i = 0; !status && i < at; i++)
        status = check_unkeyed_pair(table, &table->spec.inboxes[i], inbox, err);
    return status;
}

static semel_status check_faults(const pipeline_table *table, const semel_pipeline_inbox *inbox,
                                 semel_error *err)
{
    if (!inbox->faults)
        return SEMEL_OK;
    const semel_pipeline_outbox *faults =
        &table->spec.outboxes[pipeline_index(&table->outboxes, inbox->faults)];
    if (!same_store(table, faults->store, inbox->store))
        return semel_fail(err, SEMEL_EINVAL,
                          "faults: outbox \"%s\" is in another store, and the announcement commits "
                          "together with the dead letter",
                          inbox->faults);
    return SEMEL_OK;
}

static semel_status check_inbox_options(const semel_pipeline_inbox *inbox, semel_error *err)
{
    semel_inbox_options options;
    semel_status status =
        options_read(&options, sizeof options, inbox->options, "semel_inbox_options", err);
    if (!status && options.faults)
        return semel_fail(err, SEMEL_EINVAL,
                          "options.faults: name the outbox in .faults of the inbox instead");
    if (!status && (unsigned)inbox->require > SEMEL_GRADE_EXACTLY_ONCE_EFFECTS)
        return semel_fail(err, SEMEL_EINVAL, "require: there is no grade %d", (int)inbox->require);
    return status;
}

static semel_status check_inbox(const pipeline_table *table, size_t at, semel_error *err)
{
    const semel_pipeline_inbox *inbox = &table->spec.inboxes[at];
    semel_status status = check_reader(table, at, err);
    if (!status)
        status = check_types(inbox, err);
    if (!status)
        status = check_inbox_options(inbox, err);
    if (!status)
        status = check_faults(table, inbox, err);
    return status ? status : check_unkeyed(table, at, err);
}

/* --- outboxes --------------------------------------------------------------------------------- */

static semel_status check_hand_off(const pipeline_table *table, const semel_pipeline_outbox *outbox,
                                   semel_error *err)
{
    if (!outbox->inbox)
        return SEMEL_OK;
    const semel_pipeline_inbox *inbox =
        &table->spec.inboxes[pipeline_index(&table->inboxes, outbox->inbox)];
    semel_inbox_options options;
    if (!same_store(table, outbox->store, inbox->store))
        return semel_fail(err, SEMEL_EINVAL,
                          "inbox: \"%s\" is in another store; a local hand-off is one transaction, "
                          "so send to a queue (.to) that the inbox reads from",
                          outbox->inbox);
    if (inbox->unkeyed)
        return semel_fail(err, SEMEL_EINVAL,
                          "inbox: \"%s\" is unkeyed, and a local hand-off needs an inbox",
                          outbox->inbox);
    semel_status status =
        options_read(&options, sizeof options, inbox->options, "semel_inbox_options", err);
    if (!status && options.remember == SEMEL_REMEMBER_POSITIONS)
        return semel_fail(err, SEMEL_EINVAL,
                          "inbox: \"%s\" remembers positions, and a local hand-off has none",
                          outbox->inbox);
    if (!status && options.mode == SEMEL_CLAIM)
        return semel_fail(err, SEMEL_EINVAL,
                          "inbox: \"%s\" is in claim mode; a local hand-off is one transaction",
                          outbox->inbox);
    return status;
}

static semel_status check_outbox(const pipeline_table *table, size_t at, semel_error *err)
{
    const semel_pipeline_outbox *outbox = &table->spec.outboxes[at];
    semel_relay_options options;
    semel_status status = SEMEL_OK;
    if (outbox->to && outbox->inbox)
        status = semel_fail(err, SEMEL_EINVAL,
                            "it has two destinations, queue \"%s\" and inbox \"%s\": a message "
                            "leaves an outbox once",
                            outbox->to, outbox->inbox);
    if (!status && !outbox->to && !outbox->inbox && (outbox->options || outbox->relays))
        status = semel_fail(err, SEMEL_EINVAL,
                            "%s: it has no relay, since neither .to nor .inbox is set",
                            outbox->options ? "options" : "relays");
    if (!status && outbox->relays > SEMEL_WORKERS_MAX)
        status = semel_fail(err, SEMEL_ELIMIT, "relays is %u; SEMEL_WORKERS_MAX is %zu",
                            (unsigned)outbox->relays, SEMEL_WORKERS_MAX);
    if (!status)
        status = check_hand_off(table, outbox, err);
    return status ? status
                  : options_read(&options, sizeof options, outbox->options, "semel_relay_options",
                                 err);
}

/* --- all of them ------------------------------------------------------------------------------ */

static semel_status count_elements(pipeline_list *list, semel_error *err)
{
    while (list->elements && list->count <= SEMEL_PIPELINE_MAX && pipeline_name(list, list->count))
        list->count++;
    if (list->count <= SEMEL_PIPELINE_MAX)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_ELIMIT,
                      "pipeline: more than %zu %s (SEMEL_PIPELINE_MAX); does the array end with an "
                      "element whose name is NULL?",
                      SEMEL_PIPELINE_MAX, list->member);
}

static semel_status check_names(const pipeline_list *list, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < list->count; i++) {
        const char *name = pipeline_name(list, i);
        status = store_check_name(list->kind, name, err);
        if (!status && pipeline_index(list, name) != i)
            status = semel_fail(err, SEMEL_EINVAL,
                                "%s \"%s\": there are two of this name in the pipeline's .%s",
                                list->kind, name, list->member);
    }
    return status;
}

typedef semel_status check_element(const pipeline_table *table, size_t at, semel_error *err);

static semel_status check_all(const pipeline_table *table, const pipeline_list *list,
                              check_element *check, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < list->count; i++)
        status = pipeline_blame(check(table, i, err), list->kind, pipeline_name(list, i), err);
    return status;
}

static semel_status read_lists(pipeline_table *out, semel_error *err)
{
    const semel_pipeline_spec *spec = &out->spec;
    out->stores = (pipeline_list){"store", "stores", spec->stores, sizeof *spec->stores, 0};
    out->queues = (pipeline_list){"queue", "queues", spec->queues, sizeof *spec->queues, 0};
    out->inboxes = (pipeline_list){"inbox", "inboxes", spec->inboxes, sizeof *spec->inboxes, 0};
    out->outboxes =
        (pipeline_list){"outbox", "outboxes", spec->outboxes, sizeof *spec->outboxes, 0};
    pipeline_list *const lists[] = {&out->stores, &out->queues, &out->inboxes, &out->outboxes};
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < sizeof lists / sizeof *lists; i++) {
        status = count_elements(lists[i], err);
        if (!status)
            status = check_names(lists[i], err);
    }
    if (!status && !out->stores.count)
        return semel_fail(err, SEMEL_EINVAL, "pipeline: it needs at least one store in .stores");
    return status;
}

semel_status pipeline_table_read(pipeline_table *out, const semel_pipeline_spec *spec,
                                 semel_error *err)
{
    memset(out, 0, sizeof *out);
    if (!spec)
        return semel_fail(err, SEMEL_EINVAL, "pipeline: the specification is NULL");
    semel_status status =
        options_read(&out->spec, sizeof out->spec, spec, "semel_pipeline_spec", err);
    if (!status)
        status = read_lists(out, err);
    const struct {
        const pipeline_list *list;
        check_element *check;
    } steps[] = {
        {&out->queues, check_queue_names},    {&out->inboxes, check_inbox_names},
        {&out->outboxes, check_outbox_names}, {&out->stores, check_store},
        {&out->inboxes, check_inbox},         {&out->outboxes, check_outbox},
        {&out->queues, check_queue},
    };
    for (size_t i = 0; !status && i < sizeof steps / sizeof *steps; i++)
        status = check_all(out, steps[i].list, steps[i].check, err);
    return status;
}

semel_status semel_pipeline_check(const semel_pipeline_spec *spec, semel_error *err)
{
    pipeline_table table;
    return pipeline_table_read(&table, spec, err);
}
