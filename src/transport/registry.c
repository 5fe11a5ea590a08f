/* The transports by scheme, from the list in cmake/Backends.cmake. A scheme that is known but
 * not built in is told from one that is unknown. Only the scheme is read here: what is behind it
 * is the driver's, and may hold another URL. */
#include "base/scheme.h"
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

static const char *const known[] = {
#define KNOWN(scheme, name) scheme,
#define UNKNOWN(scheme)
    TRANSPORT_SCHEMES(KNOWN, UNKNOWN)};
enum { KNOWN_COUNT = sizeof known / sizeof *known };

semel_status transport_driver_find(const semel_transport_driver **out, const char *text,
                                   semel_error *err)
{
    size_t len = 0;
    semel_status status = url_scheme(&len, text, err);
    if (status)
        return status;
    for (size_t i = 0; i < sizeof transports / sizeof *transports; i++) {
        const char *scheme = transports[i].scheme;
        if (strlen(scheme) != len || memcmp(scheme, text, len) != 0)
            continue;
        if (!transports[i].driver)
            return scheme_left_out(scheme, known, KNOWN_COUNT, err);
        *out = transports[i].driver;
        return SEMEL_OK;
    }
    return scheme_unknown("transport", text, len, known, KNOWN_COUNT, err);
}
