/* What a configuration does, in lines for people: one for each inbox, and one that counts. */
#ifndef SEMEL_PROGRAM_CONFIG_SUMMARY_H
#define SEMEL_PROGRAM_CONFIG_SUMMARY_H

#include "program/config/config.h"

#include <stdio.h>

/* "orders -> payments  sql  once per json:/order_id, retention 14d  exactly-once effects" */
void summary_routes(FILE *out, const config *all, int json);
void summary_counts(FILE *out, const config *all); /* "1 queue, 2 inboxes, 1 test" */

/* What the store and the kind of handler can give, as far as their names tell; the store itself is
 * asked when it is opened. */
semel_grade summary_grade(const config *all, const inbox_config *inbox);

#endif
