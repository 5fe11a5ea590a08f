/* What handlers do, in any SQL store: rows in a table with the one column `item`, and nothing that would refuse
 * a second copy of one. */
#ifndef SEMEL_TESTS_SUPPORT_EFFECT_H
#define SEMEL_TESTS_SUPPORT_EFFECT_H

#include <semel/unit.h>

/* Makes the table, if it is not there. */
void effect_build(const char *url, const char *table);

/* Writes a row, on the unit's own connection or, if `queued`, by semel_unit_queue(). Where the unit has no
 * connection (claim and queued mode, the memory store) and nothing is to be queued, nothing happens. */
semel_status effect_write(semel_unit *unit, const char *url, const char *table, const char *item,
                          int queued, semel_error *err);

#endif
