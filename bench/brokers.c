/* The table of brokers; see broker.h. */
#include "broker.h"

#include <string.h>

#ifdef SEMEL_WITH_RABBITMQ
extern const broker_kind rabbitmq_broker;
#endif
#ifdef SEMEL_WITH_REDIS
extern const broker_kind redis_broker;
#endif
#ifdef SEMEL_WITH_NATS
extern const broker_kind nats_broker;
#endif
#ifdef SEMEL_WITH_KAFKA
extern const broker_kind kafka_broker;
#endif

const broker_kind *const brokers[] = {
#ifdef SEMEL_WITH_RABBITMQ
    &rabbitmq_broker,
#endif
#ifdef SEMEL_WITH_REDIS
    &redis_broker,
#endif
#ifdef SEMEL_WITH_NATS
    &nats_broker,
#endif
#ifdef SEMEL_WITH_KAFKA
    &kafka_broker,
#endif
    NULL};

static int is_chosen[sizeof brokers / sizeof *brokers], some_are_chosen;

void broker_choose(const char *server)
{
    size_t i = 0;
    while (brokers[i] && strcmp(brokers[i]->server, server) != 0)
        i++;
    if (!brokers[i])
        die("there is no broker \"%s\"", server);
    is_chosen[i] = some_are_chosen = 1;
}

static int is_wanted(size_t number)
{
    const broker_kind *on = brokers[number];
    if (broker_is_off(on))
        return 0;
    return some_are_chosen ? is_chosen[number] : !on->is_apart || broker_is_given(on);
}

void each_broker(int first, void (*measure)(const broker_case *b))
{
    for (size_t number = 0; brokers[number]; number++) {
        const broker_kind *on = brokers[number];
        for (size_t i = 0; on->queues[i] && !(first && i) && is_wanted(number); i++)
            measure(&(broker_case){on, on->queues[i], broker_url(on)});
    }
}

const char *broker_title(char out[100], const broker_case *b, const char *what)
{
    char version[32] = "";
    broker *connection = b->on->open(b->url);
    b->on->version(connection, version);
    b->on->close(connection);
    snprintf(out, 100, "%s %s%s%s: %s", b->on->name, version, *b->queue ? ", " : "", b->queue,
             what);
    return out;
}

const char *place_url(char out[1024], const broker_case *b, const char *place, size_t prefetch)
{
    b->on->url(out, b->url, place, b->queue, prefetch);
    return out;
}
