/* The transport store: a durable queue by name, in any store that has an outbox and can extend
 * leases.
 *
 *     store:sqlite:shop.db#orders      the queue "orders" in that store, which is opened and
 *     migrated here (address.c) semel_queue_open()               the same in a store that is
 *     open
 *
 * A queue is rows like those of an outbox, under a scope of its own kind. Publishing puts them
 * in one unit; receiving leases them; a verdict settles them, each in a short unit of its own:
 * none is open while a handler runs. So what is true of an outbox is true here: a message of a
 * group is out only if every earlier one of its group is gone or was received by the same call,
 * and a lease that ends gives the message to the next consumer that asks.
 *
 * If the process dies
 *   - before a publish is committed: nothing was published; after it, all was;
 *   - before a lease is committed: nothing was received; after it, the message comes again when
 *     the lease has ended;
 *   - before a lease is extended: the message comes again when the old lease has ended; after
 *     it, when the new one has;
 *   - before a verdict is committed: the message comes again when its lease has ended; after it,
 *     it does not. Each of these moments is a fault point (struct queue_step).
 *
 * A consumer whose inbox is in the same store gives its verdicts in the unit that handles the
 * messages (queue_settle_in): then a message is handled and gone, or neither. */
#include "transport/store/queue.h"

#include "base/due.h"
#include "base/message.h"

#include <string.h>
#include <unistd.h>

enum { LEASE_DEFAULT_MS = 30000, POLL_DEFAULT_MS = 200 };

/* --- units ------------------------------------------------------------------------------------ */

static semel_status transact_once(store_queue *queue, work_unit *unit, const queue_step *step,
                                  void *context, int *committed, semel_error *err)
{
    unit->operation = SEMEL_OPERATION_QUEUE;
    semel_status status = unit_tx_begin(unit, step->durability, err);
    if (!status)
        status = step->work(queue, unit, context, err);
    if (!status && unit->phase == UNIT_OPEN) {
        status = store_fault(queue->store, step->stored, err);
        if (!status)
            status = unit_tx_commit(unit, err);
        *committed = !status;
    }
    unit_tx_rollback(unit);
    return status;
}

semel_status queue_transact(store_queue *queue, const queue_step *step, void *context,
                            semel_error *err)
{
    work_unit *unit = NULL;
    uint32_t tries = 0;
    int committed = 0;
    semel_status status = unit_new(&unit, queue->store, err);
    if (status)
        return status;
    do
        status = transact_once(queue, unit, step, context, &committed, err);
    while (store_retry_after_pause(queue->store, status, NULL, &tries));
    unit_free(unit);
    return committed ? store_fault(queue->store, step->committed, err) : status;
}

semel_status queue_outage(semel_status status, semel_error *err)
{
    semel_error why;
    if (status != SEMEL_EUNKNOWN)
        return status;
    why = err ? *err : (semel_error){.text = ""};
    return semel_fail(err, SEMEL_EUNAVAILABLE, "%s", why.text);
}

/* --- opening ---------------------------------------------------------------------------------- */

/* What semel_queue_open() gives to its driver's open. */
typedef struct queue_request {
    semel_store *store;
    const char *name;
    semel_queue_options options;
} queue_request;

static semel_status queue_start(store_queue *queue, const queue_request *asked, semel_error *err)
{
    semel_store *store = asked->store;
    semel_status status = store_can_keep_queue(store, err);
    if (!status)
        status =
            store->driver->scope(store->state, SEMEL_SCOPE_QUEUE, asked->name, &queue->scope, err);
    if (status)
        return status;
    if (!queue_deliveries_init(&queue->out))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory opening a queue");
    queue->store = store;
    queue->pid = getpid();
    queue->lease_ms = asked->options.lease_ms ? asked->options.lease_ms : LEASE_DEFAULT_MS;
    queue->poll_ms = asked->options.poll_ms ? asked->options.poll_ms : POLL_DEFAULT_MS;
    memcpy(queue->name, asked->name, strlen(asked->name) + 1);
    pthread_mutex_init(&queue->lock, NULL);
    return SEMEL_OK;
}

static semel_status open_in_store(void *transport, const char *argument,
                                  const semel_transport_settings *settings, semel_error *err)
{
    queue_request asked;
    (void)settings;
    memcpy(&asked, argument, sizeof asked);
    return queue_start(transport, &asked, err);
}

static semel_status open_by_url(void *transport, const char *text,
                                const semel_transport_settings *settings, semel_error *err)
{
    store_queue *queue = transport;
    queue_address address = {0};
    queue_request asked = {.name = address.name};
    semel_store_options options = {.size = sizeof options, .seam = settings->seam};
    semel_status status = queue_address_read(&address, text, err);
    if (!status)
        status = semel_store_open(&asked.store, address.store_url, &options, err);
    if (!status)
        status = semel_store_migrate(asked.store, err);
    asked.options.lease_ms = address.lease_ms;
    asked.options.poll_ms = address.poll_ms;
    if (!status)
        status = queue_start(queue, &asked, err);
    if (status)
        semel_store_close(asked.store);
    queue->owns_store = 1;
    mem_free(address.store_url);
    return status;
}

static semel_status check_url(const char *url, int receives, semel_error *err)
{
    queue_address address = {0};
    semel_status status = queue_address_read(&address, url, err);
    (void)receives;
    if (!status)
        status = semel_store_check_url(address.store_url, err);
    mem_free(address.store_url);
    return status;
}

/* --- closing ---------------------------------------------------------------------------------- */

static void queue_close(void *transport)
{
    store_queue *queue = transport;
    queue_give_back(queue);
    for (queue_waiter *one = queue->waiters, *next; one; one = next) {
        next = one->next;
        store_unwatch(queue->store, &one->watcher);
        mem_free(one);
    }
    queue_deliveries_free(&queue->out);
    pthread_mutex_destroy(&queue->lock);
    if (queue->owns_store)
        semel_store_close(queue->store);
}

/* --- what it promises ------------------------------------------------------------------------- */

static semel_durability queue_durability(const void *transport)
{
    const store_queue *queue = transport;
    return semel_store_durability(queue->store);
}

static const char *queue_warnings(const void *transport)
{
    switch (queue_durability(transport)) {
    case SEMEL_DURABLE_NOT:
        return "The queue is in the memory of this process, and is gone with it.";
    case SEMEL_DURABLE_PROCESS:
        return "Messages that were confirmed last may be lost with the power: the store is set up "
               "so.";
    default:
        return "";
    }
}

/* As a dead letter of the queue. */
static int queue_keeps_rejected(const void *transport)
{
    (void)transport;
    return 1;
}

static semel_store *queue_store_of(const void *transport)
{
    const store_queue *queue = transport;
    return queue->store;
}

/* clang-format off */
#define QUEUE_DRIVER(opener)                                                                     \
    {                                                                                            \
        .version = SEMEL_TRANSPORT_DRIVER_VERSION,                                               \
        .abilities = SEMEL_TRANSPORT_SHARED | SEMEL_TRANSPORT_ORDERED | SEMEL_TRANSPORT_COUNTS | \
                     SEMEL_TRANSPORT_DELAYS,                                                     \
        .scheme = "store",                                                                       \
        .transport_size = sizeof(store_queue),                                                   \
        .open = (opener),                                                                        \
        .close = queue_close,                                                                    \
        .durability = queue_durability,                                                          \
        .publish = queue_publish,                                                                \
        .receive = queue_receive,                                                                \
        .settle = queue_settle,                                                                  \
        .extend = queue_extend,                                                                  \
        .warnings = queue_warnings,                                                              \
        .give_back = queue_give_back,                                                            \
        .keeps_rejected = queue_keeps_rejected,                                                  \
        .store_of = queue_store_of,                                                              \
        .settle_in = queue_settle_in,                                                            \
        .settled = queue_settled,                                                                \
        .check_url = check_url,                                                                  \
    }
/* clang-format on */

extern const semel_transport_driver store_transport_driver;
const semel_transport_driver store_transport_driver = QUEUE_DRIVER(open_by_url);
static const semel_transport_driver driver_in_store = QUEUE_DRIVER(open_in_store);

semel_status semel_queue_open(semel_transport **out, semel_store *store, const char *name,
                              const semel_queue_options *options, semel_error *err)
{
    queue_request asked = {.store = store, .name = name};
    semel_transport_options chosen = {.size = sizeof chosen, .seam = &store->seam};
    semel_status status = store_check_name("queue", name, err);
    if (!status)
        status =
            options_read(&asked.options, sizeof asked.options, options, "semel_queue_options", err);
    return status ? status
                  : semel_transport_open_driver(out, &driver_in_store, &asked, &chosen, err);
}

/* --- replaying -------------------------------------------------------------------------------- */

typedef struct queue_letter {
    int64_t id;
    mem_arena arena; /* holds the message */
    semel_message *message;
} queue_letter;

static semel_status keep_letter(const semel_dead *dead, void *context, semel_error *err)
{
    queue_letter *letter = context;
    if (dead->id != letter->id)
        return SEMEL_OK;
    if (!dead->message)
        return semel_fail(err, SEMEL_ESTORE, "dead letter %lld is damaged: %s", (long long)dead->id,
                          dead->error);
    letter->message = message_copy_into(&letter->arena, dead->message);
    return letter->message ? SEMEL_OK
                           : semel_fail(err, SEMEL_ENOMEM, "out of memory for a dead letter");
}

static semel_status put_letter_back(store_queue *queue, work_unit *unit, void *context,
                                    semel_error *err)
{
    const semel_store_driver *driver = queue->store->driver;
    queue_letter *letter = context;
    semel_dead_filter filter = {.size = sizeof filter,
                                .origin = SEMEL_DEAD_QUEUE,
                                .name = queue->name,
                                .after_id = letter->id > 0 ? letter->id - 1 : 0,
                                .limit = 1};
    arena_reset(&letter->arena);
    letter->message = NULL;
    semel_status status = driver->dead->list(unit->state, &filter, keep_letter, letter, err);
    if (!status && !letter->message)
        status = semel_fail(err, SEMEL_ENOTFOUND, "\"%s\" has no dead letter %lld (any more)",
                            queue->name, (long long)letter->id);
    if (!status) /* its age counts from now on */
        status = due_set_if_room(letter->message, &letter->arena, seam_wall_ms(&queue->store->seam),
                                 err);
    if (!status)
        status = driver->outbox->put(unit->state, queue->scope, letter->message, err);
    return status ? status : driver->dead->drop(unit->state, letter->id, err);
}

static store_queue *queue_of(const semel_transport *transport)
{
    void *state = semel_transport_state(transport, &store_transport_driver);
    return state ? state : semel_transport_state(transport, &driver_in_store);
}

semel_status queue_find(store_queue **out, semel_transport *transport, semel_error *err)
{
    store_queue *queue = queue_of(transport);
    if (!queue)
        return semel_fail(err, SEMEL_EINVAL, "this transport is not a queue in a store");
    if (queue->pid != getpid())
        return semel_fail(err, SEMEL_EMISUSE,
                          "this queue was opened before fork(); open one in the child");
    *out = queue;
    return SEMEL_OK;
}

semel_status semel_queue_replay(semel_transport *transport, int64_t id, semel_error *err)
{
    static const queue_step step = {put_letter_back, SEMEL_BEGIN_DURABLE, "replay.begun",
                                    "replay.committed"};
    store_queue *queue = NULL;
    queue_letter letter = {.id = id};
    semel_status status = queue_find(&queue, transport, err);
    if (status)
        return status;
    status = queue_transact(queue, &step, &letter, err);
    arena_free(&letter.arena);
    if (!status)
        store_wake_scope(queue->store, queue->scope);
    return status;
}

semel_status semel_queue_list(semel_transport *transport, const semel_outgoing_filter *filter,
                              semel_outgoing_visitor *visitor, void *context, semel_error *err)
{
    store_queue *queue = NULL;
    semel_status status = queue_find(&queue, transport, err);
    return status ? status
                  : store_list_outgoing(queue->store, queue->scope, filter, visitor, context, err);
}
