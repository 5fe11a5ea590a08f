/* The one list of transports. A scheme that is known but not built in is told from one that is unknown. */
#include "base/url.h"

#include <semel/sys/transport.h>
#include <string.h>

extern const semel_transport_driver memory_transport_driver;
#ifdef SEMEL_WITH_RABBITMQ
extern const semel_transport_driver rabbitmq_transport_driver;
#define RABBITMQ_DRIVER &rabbitmq_transport_driver
#else
#define RABBITMQ_DRIVER NULL
#endif

semel_status transport_driver_find(const semel_transport_driver **out, const char *url,
                                   semel_error *err);

static const struct {
    const char *scheme;
    const semel_transport_driver *driver; /* NULL: not built in */
} transports[] = {{"memory", &memory_transport_driver},
                  {"amqp", RABBITMQ_DRIVER},
                  {"amqps", RABBITMQ_DRIVER},
                  {"kafka", NULL},
                  {"nats", NULL}};

semel_status transport_driver_find(const semel_transport_driver **out, const char *text,
                                   semel_error *err)
{
    url parsed;
    semel_status status = url_parse(&parsed, text, err);
    if (status)
        return status;
    for (size_t i = 0; i < sizeof transports / sizeof *transports; i++) {
        if (strcmp(transports[i].scheme, parsed.scheme) != 0)
            continue;
        if (!transports[i].driver)
            return semel_fail(err, SEMEL_EUNSUPPORTED,
                              "%s: support was not built into this libsemel", parsed.scheme);
        *out = transports[i].driver;
        return SEMEL_OK;
    }
    return semel_fail(
        err, SEMEL_EINVAL,
        "\"%s:\" is not a transport; known are memory:, amqp: and amqps:", parsed.scheme);
}
