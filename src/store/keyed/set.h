/* Records that a unit writes, also several times: what the first write expects stays. */
#ifndef SEMEL_STORE_KEYED_SET_H
#define SEMEL_STORE_KEYED_SET_H

#include "store/keyed/keyed.h"

/* The record is to be `now`, whose value and body are in the unit's arena. `found` is the record as
 * keyed_unit_get() gave it; NULL: none. With keep_body the body is the one that is there. If the
 * database has another record at commit, the unit is done again. */
semel_status keyed_set(keyed_unit *unit, const semel_keyed_record *found,
                       const semel_keyed_record *now, int keep_body, semel_error *err);

/* The record is not to be there. */
semel_status keyed_unset(keyed_unit *unit, const semel_keyed_record *found, semel_error *err);

/* A number for a new record of a space whose keys are numbers, larger than all that are there. */
semel_status keyed_next_number(keyed_store *store, char space, int64_t *out, semel_error *err);

/* --- lists ------------------------------------------------------------------------------------ */

/* Visits one record; *left is how many more are wanted, and the visitor lowers it for each that
 * counts. */
typedef semel_status keyed_visit(const semel_keyed_record *record, void *context, uint32_t *left,
                                 semel_error *err);

/* Visits the records of the range in their order, by pages. The limit of the range is how many the
 * visitor may count. With a unit, the records are as the unit has them (ascending ranges only);
 * NULL: as they are in the database. */
semel_status keyed_list(keyed_store *store, const keyed_unit *unit, const semel_keyed_range *range,
                        keyed_visit *visit, void *context, semel_error *err);

/* How many records a space has. */
semel_status keyed_count(keyed_store *store, semel_bytes space, uint64_t *out, semel_error *err);

#endif
