/* What the targets for envelopes share: what holds for every message that was read, and of one that
 * was written and read again. */
#ifndef SEMEL_FUZZ_TRIP_H
#define SEMEL_FUZZ_TRIP_H

#include "property.h"

/* Within all limits but that of the body, which is passed on as it is. */
void check_limits(const semel_message *message);

/* 1 if a header of this name can come back. */
typedef int trip_is_sent(const semel_message *message, const char *name);

/* The same message, delivery and delay aside. Headers have their order; those that are not sent do
 * not come back (NULL: all are sent). */
void check_same(const semel_message *first, const semel_message *back, trip_is_sent *is_sent);

/* What means something else when it is written and read again: an event in an event, and its
 * attributes within attributes. */
int is_event_in_body(const semel_message *message);
int has_header_of(const semel_message *message, const char *prefix);

int begins_with(const char *text, const char *prefix); /* whatever the case of letters; NULL: 0 */

#endif
