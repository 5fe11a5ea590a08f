/* The memory transport: one queue in this process. */
#ifndef SEMEL_TRANSPORT_MEMORY_H
#define SEMEL_TRANSPORT_MEMORY_H

#include <semel/sys/transport.h>

extern const semel_transport_driver memory_transport_driver;

#endif
