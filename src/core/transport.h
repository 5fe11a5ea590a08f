/* The transport as the core sees it. */
#ifndef SEMEL_CORE_TRANSPORT_H
#define SEMEL_CORE_TRANSPORT_H

#include "base/seam.h"

#include <semel/sys/transport.h>
#include <sys/types.h>

struct semel_transport {
    const semel_transport_driver *driver;
    void *state; /* the driver's */
    pid_t pid;   /* of the process that opened it */
    semel_seam seam;
    semel_transport_settings settings;
};

/* src/transport/registry.c: the driver for a URL's scheme, or why there is none. */
semel_status transport_driver_find(const semel_transport_driver **out, const char *url,
                                   semel_error *err);

/* 0 in a child of the process that opened it: there nothing of the driver's may be touched. */
int transport_is_ours(const semel_transport *transport);

/* The driver's give_back, if it has one. */
void transport_give_back(const semel_transport *transport);

/* The driver's keeps_rejected: 0 if it has none. */
int transport_keeps_rejected(const semel_transport *transport);

/* 1 if its deliveries are rows of this store, and can be settled in units of it. */
int transport_is_in(const semel_transport *transport, const semel_store *store);

/* The driver's extend, which it has. */
semel_status transport_extend(const semel_transport *transport, const uint64_t tags[], size_t count,
                              uint32_t *hold_ms, semel_error *err);

/* semel_transport_publish(), with something to do in between: `meanwhile` (or NULL) is called
 * exactly once, with `context`, if possible before the answers are waited for. */
semel_status transport_publish(semel_publish_result results[], semel_transport *transport,
                               const semel_message *const messages[], size_t count,
                               uint32_t wait_ms, semel_meanwhile *meanwhile, void *context,
                               semel_error *err);

#endif
