/* What unit.c and commit.c need of a unit's buffer, besides keyed.h. */
#ifndef SEMEL_STORE_KEYED_BUFFER_H
#define SEMEL_STORE_KEYED_BUFFER_H

#include "store/keyed/keyed.h"

/* A change of no record: a statement of the application's own. NULL: out of memory. */
keyed_change *keyed_unit_append(keyed_unit *unit);

/* A savepoint; the one before it, if there is one, is kept. */
void keyed_unit_save(keyed_unit *unit);
void keyed_unit_keep(keyed_unit *unit);
void keyed_unit_undo(keyed_unit *unit);

#endif
