/* The memory store: markers, outgoing messages and dead letters in this process, and gone with
 * it. */
#ifndef SEMEL_STORE_MEMORY_H
#define SEMEL_STORE_MEMORY_H

#include <semel/sys/store.h>

extern const semel_store_driver memory_store_driver;

#endif
