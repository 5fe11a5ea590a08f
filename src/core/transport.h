/* The transport as the core sees it. */
#ifndef SEMEL_CORE_TRANSPORT_H
#define SEMEL_CORE_TRANSPORT_H

#include "base/seam.h"

#include <semel/sys/transport.h>

struct semel_transport {
    const semel_transport_driver *driver;
    void *state; /* the driver's */
    semel_seam seam;
    semel_transport_settings settings;
};

/* src/transport/registry.c: the driver for a URL's scheme, or why there is none. */
semel_status transport_driver_find(const semel_transport_driver **out, const char *url,
                                   semel_error *err);

#endif
