/* RabbitMQ in the soak.
 *
 *     exchange "in"   -> queue "ordered": quorum, one active consumer at a time; topics ordered.#
 *                     -> queue "free":    classic, all consumers take from it;   topics free.#
 *     exchange "out"  -> queue "second":  one active consumer; all topics
 *                     -> queue "foreign": declared by consume_rabbitmq.py
 *
 * The foreign client is pika, in Python. */
#include "brokers.h"

#include "support/servers/rabbitmq/broker.h"

static const struct place {
    const char *exchange, *queue, *settings;
    const char *types[SOAK_STORES]; /* of the queue: the second one has another in each run */
} places[SOAK_ROLES] = {
    [SOAK_ORDERED] = {"in",
                      "ordered",
                      "&bind=ordered.%23&single_active=yes",
                      {"quorum", "quorum", "quorum", "quorum"}},
    [SOAK_FREE] = {"in", "free", "&bind=free.%23", {"classic", "classic", "classic", "classic"}},
    [SOAK_RELAY] = {.exchange = "out"},
    [SOAK_SECOND] = {"out",
                     "second",
                     "&single_active=yes",
                     {"classic", "quorum", "classic", "quorum"}},
};

static void rabbitmq_url(char url[SOAK_URL], const soak_run *run, soak_role role, int declare)
{
    const char *name = soak_store_name(run->store);
    const struct place *at = &places[role];
    char queue[SOAK_URL / 2] = "";
    if (at->queue)
        soak_print(queue, sizeof queue, "&queue=%s.%s&type=%s&prefetch=200%s", name, at->queue,
                   at->types[run->store], at->settings);
    soak_print(url, SOAK_URL, "%s?exchange=%s.%s%s&heartbeat=10&name=soak-%s&declare=%s",
               run->servers->broker.at.url, name, at->exchange, queue, soak_role_names[role],
               declare ? "yes" : "check");
}

static int64_t rabbitmq_queued(const soak_run *run)
{
    static const char *const names[] = {"ordered", "free", "second", "foreign"};
    int64_t all = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char queue[SOAK_TEXT];
        soak_print(queue, sizeof queue, "%s.%s", soak_store_name(run->store), names[i]);
        int64_t count = broker_count(&run->servers->broker.at, queue);
        if (count < 0)
            return -1;
        all += count;
    }
    return all;
}

/* A queue that is not synced may be gone after a crash, see broker.h. */
static void rabbitmq_declared(const soak_run *run)
{
    broker_sync(&run->servers->broker.at);
}

const soak_broker soak_rabbitmq = {.name = "rabbitmq",
                                   .server = SERVER_RABBITMQ,
                                   .url = rabbitmq_url,
                                   .queued = rabbitmq_queued,
                                   .declared = rabbitmq_declared,
                                   .python_module = "pika"};
