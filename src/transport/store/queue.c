/* The transport store: a durable queue by name, in any store that has an outbox and can extend leases.
 *
 *     store:sqlite:shop.db#orders      the queue "orders" in that store, which is opened and migrated here
 *     semel_queue_open()               the same in a store that is open
 *
 * A queue is rows like those of an outbox, under a scope of its own kind. Publishing puts them in one unit; receiving
 * leases them; a verdict settles them, each in a short unit of its own: none is open while a handler runs. So what
 * is true of an outbox is true here: a message of a group is out only if every earlier one of its group is gone or
 * was received by the same call, and a lease that ends gives the message to the next who asks.
 *
 * If the process dies
 *   - before a publish is committed: nothing was published; after it, all was;
 *   - before a lease is committed: nothing was received; after it, the message comes again when the lease has ended;
 *   - before a verdict is committed: the same. */
#include "transport/store/queue.h"

#include "base/message.h"

#include <string.h>
#include <unistd.h>

enum { LEASE_DEFAULT_MS = 30000, POLL_DEFAULT_MS = 200 };

/* --- units ------------------------------------------------------------------------------------------------ */

static semel_status transact_once(store_queue *queue, work_unit *unit, semel_begin durability,
                                  queue_work *work, void *context, semel_error *err)
{
    semel_status status = unit_tx_begin(unit, durability, err);
    if (!status)
        status = work(queue, unit, context, err);
    if (!status && unit->phase == UNIT_OPEN)
        status = unit_tx_commit(unit, err);
    unit_tx_rollback(unit);
    return status;
}

semel_status queue_transact(store_queue *queue, semel_begin durability, queue_work *work,
                            void *context, semel_error *err)
{
    work_unit *unit = NULL;
    uint32_t tries = 0;
    semel_status status = unit_new(&unit, queue->store, err);
    if (status)
        return status;
    do
        status = transact_once(queue, unit, durability, work, context, err);
    while (store_retry_after_pause(queue->store, status, NULL, &tries));
    unit_free(unit);
    return status;
}

semel_status queue_outage(semel_status status, semel_error *err)
{
    semel_error why;
    if (status != SEMEL_EUNKNOWN)
        return status;
    why = err ? *err : (semel_error){.text = ""};
    return semel_fail(err, SEMEL_EUNAVAILABLE, "%s", why.text);
}

void queue_wake(store_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    for (const queue_waiter *one = queue->waiters; one; one = one->next)
        watcher_wake(&one->watcher);
    pthread_mutex_unlock(&queue->lock);
}

/* --- opening ---------------------------------------------------------------------------------------------- */

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

/* store:URL#QUEUE, split at the last #. Nothing of the text is repeated: the store's URL may hold a password, and a #
 * in it makes a part of it look like the queue's name. */
static semel_status split_url(char **url, const char **name, const char *text, semel_error *err)
{
    const char *inner = strchr(text, ':') + 1;
    const char *mark = strrchr(inner, '#');
    if (!mark)
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: store: needs the name of a queue behind a #, as in "
                          "store:sqlite:shop.db#orders");
    if (store_check_name("queue", mark + 1, NULL))
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: what is behind the last # is not the name of a queue: that has 1 "
                          "to %zu letters, digits, dots, dashes or _; a # in the URL of the store "
                          "is written %%23",
                          SEMEL_NAME_MAX);
    if (mark == inner)
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: store: needs the URL of a store before the #, as in "
                          "store:sqlite:shop.db#orders");
    size_t len = (size_t)(mark - inner);
    *url = mem_alloc(len + 1);
    if (!*url)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a URL");
    memcpy(*url, inner, len);
    *name = mark + 1;
    return SEMEL_OK;
}

static semel_status open_by_url(void *transport, const char *text,
                                const semel_transport_settings *settings, semel_error *err)
{
    store_queue *queue = transport;
    queue_request asked = {0};
    char *url = NULL;
    semel_store_options options = {.size = sizeof options, .seam = settings->seam};
    semel_status status = split_url(&url, &asked.name, text, err);
    if (!status)
        status = semel_store_open(&asked.store, url, &options, err);
    if (!status)
        status = semel_store_migrate(asked.store, err);
    if (!status)
        status = queue_start(queue, &asked, err);
    if (status)
        semel_store_close(asked.store);
    queue->owns_store = 1;
    mem_free(url);
    return status;
}

/* --- closing ---------------------------------------------------------------------------------------------- */

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

/* --- what it promises ------------------------------------------------------------------------------------- */

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

/* --- replaying -------------------------------------------------------------------------------------------- */

typedef struct queue_letter {
    int64_t id;
    mem_arena arena; /* holds the message */
    const semel_message *message;
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
    if (!status)
        status = driver->outbox->put(unit->state, queue->scope, letter->message, err);
    return status ? status : driver->dead->drop(unit->state, letter->id, err);
}

static store_queue *queue_of(const semel_transport *transport)
{
    void *state = semel_transport_state(transport, &store_transport_driver);
    return state ? state : semel_transport_state(transport, &driver_in_store);
}

semel_status semel_queue_replay(semel_transport *transport, int64_t id, semel_error *err)
{
    store_queue *queue = queue_of(transport);
    queue_letter letter = {.id = id};
    if (!queue)
        return semel_fail(err, SEMEL_EINVAL, "this transport is not a queue in a store");
    if (queue->pid != getpid())
        return semel_fail(err, SEMEL_EMISUSE,
                          "this queue was opened before fork(); open one in the child");
    semel_status status = queue_transact(queue, SEMEL_BEGIN_DURABLE, put_letter_back, &letter, err);
    arena_free(&letter.arena);
    if (!status)
        store_wake(queue->store);
    return status;
}
