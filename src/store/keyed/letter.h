/* What operation.c and stats.c need of dead letters. */
#ifndef SEMEL_STORE_KEYED_LETTER_H
#define SEMEL_STORE_KEYED_LETTER_H

#include "store/keyed/keyed.h"

/* As set_retry of the store table. */
semel_status keyed_dead_set_retry(void *unit, int64_t id, semel_retry from, semel_retry to,
                                  const char *error, semel_error *err);

/* Of an origin and a name; 0 or NULL: all. */
semel_status keyed_letters_count(keyed_store *store, int origin, const char *name, uint64_t *out,
                                 semel_error *err);

#endif
