/* What the calls of <semel/operate.h> share. */
#ifndef SEMEL_CORE_OPERATE_H
#define SEMEL_CORE_OPERATE_H

#include "core/unit.h"

/* The members of the driver's group; all are NULL if it has none. */
const semel_store_operation *store_operation(const semel_store *store);

/* EUNSUPPORTED: the store cannot do `what`. */
semel_status operate_refuse(const semel_store *store, const char *what, semel_error *err);

/* A transaction of its own, begun anew after a conflict. */
semel_status operate_change(semel_store *store, semel_begin durability, unit_work *work,
                            void *context, semel_error *err);

/* A copy in the arena that a database takes as text: at most `most` bytes, UTF-8; "" of NULL. NULL
 * if memory is out. */
const char *operate_text(mem_arena *arena, const char *text, size_t most);

#endif
