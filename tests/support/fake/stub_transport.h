/* A transport that only publishes, by a function of the test's. Nothing is ever received, and
 * settling does nothing. */
#ifndef SEMEL_TESTS_STUB_TRANSPORT_H
#define SEMEL_TESTS_STUB_TRANSPORT_H

#include <semel/sys/transport.h>

/* As the driver's `publish`, without the time to wait; `context` is the one of
 * stub_transport_open(). */
typedef semel_status stub_publish(void *context, semel_publish_result results[],
                                  const semel_message *const messages[], size_t count,
                                  semel_error *err);

semel_status stub_transport_open(semel_transport **out, stub_publish *publish, void *context,
                                 semel_error *err);

#endif
