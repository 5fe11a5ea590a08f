/* The transports by scheme, from the list in cmake/Backends.cmake. A scheme that is known but not built in is told from
 * one that is unknown. */
#include "base/url.h"
#include "generated/backends.h"

#include <semel/sys/transport.h>
#include <string.h>

#define DECLARE(name) extern const semel_transport_driver name##_transport_driver;
TRANSPORT_DRIVERS(DECLARE)

semel_status transport_driver_find(const semel_transport_driver **out, const char *url,
                                   semel_error *err);

static const struct {
    const char *scheme;
    const semel_transport_driver *driver; /* NULL: not built in */
} transports[] = {
#define BUILT_IN(scheme, name) {scheme, &name##_transport_driver},
#define LEFT_OUT(scheme)       {scheme, NULL},
    TRANSPORT_SCHEMES(BUILT_IN, LEFT_OUT)};

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
    return semel_fail(err, SEMEL_EINVAL,
                      "\"%s:\" is not a transport; known are " TRANSPORT_SCHEMES_TEXT,
                      parsed.scheme);
}
