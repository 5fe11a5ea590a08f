/* The stores by scheme, from the list in cmake/Backends.cmake. A scheme that is known but not built
 * in is told from one that is unknown. */
#include "base/scheme.h"
#include "base/url.h"
#include "generated/backends.h"

#include <semel/sys/store.h>
#include <string.h>

#define DECLARE(name) extern const semel_store_driver name##_store_driver;
STORE_DRIVERS(DECLARE)

semel_status store_driver_find(const semel_store_driver **out, const char *url, semel_error *err);

static const struct {
    const char *scheme;
    const semel_store_driver *driver; /* NULL: not built in */
} stores[] = {
#define BUILT_IN(scheme, name) {scheme, &name##_store_driver},
#define LEFT_OUT(scheme)       {scheme, NULL},
    STORE_SCHEMES(BUILT_IN, LEFT_OUT)};

static const char *const known[] = {
#define KNOWN(scheme, name) scheme,
#define UNKNOWN(scheme)
    STORE_SCHEMES(KNOWN, UNKNOWN)};
enum { KNOWN_COUNT = sizeof known / sizeof *known };

semel_status store_driver_find(const semel_store_driver **out, const char *text, semel_error *err)
{
    url parsed;
    semel_status status = url_parse(&parsed, text, err);
    if (status)
        return status;
    for (size_t i = 0; i < sizeof stores / sizeof *stores; i++) {
        if (strcmp(stores[i].scheme, parsed.scheme) != 0)
            continue;
        if (!stores[i].driver)
            return scheme_left_out(parsed.scheme, known, KNOWN_COUNT, err);
        *out = stores[i].driver;
        return SEMEL_OK;
    }
    return scheme_unknown("store", parsed.scheme, strlen(parsed.scheme), known, KNOWN_COUNT, err);
}
