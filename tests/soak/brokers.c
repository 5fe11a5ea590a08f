/* The table of brokers.h: one line for each. */
#include "brokers.h"

#include <stdio.h>
#include <string.h>

#ifdef SEMEL_WITH_RABBITMQ
extern const soak_broker soak_rabbitmq;
#endif
#ifdef SEMEL_WITH_REDIS
extern const soak_broker soak_redis;
#endif
#ifdef SEMEL_WITH_KAFKA
extern const soak_broker soak_kafka;
#endif
#ifdef SEMEL_WITH_NATS
extern const soak_broker soak_nats;
#endif

static const soak_broker *const brokers[] = {
#ifdef SEMEL_WITH_RABBITMQ
    &soak_rabbitmq,
#endif
#ifdef SEMEL_WITH_REDIS
    &soak_redis,
#endif
#ifdef SEMEL_WITH_KAFKA
    &soak_kafka,
#endif
#ifdef SEMEL_WITH_NATS
    &soak_nats,
#endif
    NULL};

const soak_broker *soak_broker_find(const char *name)
{
    for (const soak_broker *const *each = brokers; *each; each++)
        if (strcmp((*each)->name, name) == 0)
            return *each;
    return NULL;
}

void soak_broker_list(char *out, size_t room)
{
    size_t len = 0;
    out[0] = 0;
    for (const soak_broker *const *each = brokers; *each && len < room; each++)
        len += (size_t)snprintf(out + len, room - len, "%s%s", len ? ", " : "", (*each)->name);
}
