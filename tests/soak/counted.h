/* A transport that counts its deliveries, copies included, and those of them that came again. One
 * in a process. */
#ifndef SEMEL_TESTS_COUNTED_H
#define SEMEL_TESTS_COUNTED_H

#include <semel/sys/transport.h>
#include <stdatomic.h>

semel_status counted_open(semel_transport **out, const char *url, atomic_uint_least64_t *count,
                          atomic_uint_least64_t *again, semel_error *err);

#endif
