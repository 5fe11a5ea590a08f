/* JSON as it is written, taken apart without being changed. All functions are for texts that
 * strict_json_check() accepts, and their values.
 *
 * A number or a text that only passes through semel, from a handler to a store or from a message to
 * a worker, must come out as it went in. So values are pieces of the original text here, and not a
 * tree that would have to be written again. */
#ifndef SEMEL_PROGRAM_SUPPORT_JSON_SCAN_H
#define SEMEL_PROGRAM_SUPPORT_JSON_SCAN_H

#include "program/support/memory.h"

#include <semel/message.h>

semel_bytes scan_trimmed(semel_bytes text); /* without the white space around it */

typedef struct scan_member {
    semel_bytes name; /* with its quotes; {NULL, 0} in an array */
    semel_bytes value;
} scan_member;

/* The members of an object or the elements of an array, one after the other: *at is NULL before the
 * first one. 0: there are no more. */
int scan_next(scan_member *out, const char **at, semel_bytes object);

/* The text of a string, with a NUL behind it. NULL if the value is no string, or half of a
 * surrogate pair is in it. */
const char *scan_text(size_t *len, region *memory, semel_bytes value);

/* The member of an object whose name is written like this; {NULL, 0}: there is none, or this is no
 * object. */
semel_bytes scan_find(semel_bytes object, const char *name);

int scan_is_null(semel_bytes value);

#endif
