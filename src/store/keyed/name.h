/* Names and their numbers, as their records' values have them. */
#ifndef SEMEL_STORE_KEYED_NAME_H
#define SEMEL_STORE_KEYED_NAME_H

#include "store/keyed/keyed.h"

int64_t keyed_name_number(const semel_keyed_record *record);   /* of n/KIND */
semel_bytes keyed_name_text(const semel_keyed_record *record); /* of N/KIND; borrowed */

/* ESCHEMA unless the layout is one that this library knows. Asked once. */
semel_status keyed_check_layout(keyed_store *store, semel_error *err);

#endif
