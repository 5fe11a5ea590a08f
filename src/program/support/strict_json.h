/* Is this JSON (RFC 8259), exactly? json-c, even when it is told to be strict, takes 'a', NaN and
 * 1. */
#ifndef SEMEL_PROGRAM_SUPPORT_STRICT_JSON_H
#define SEMEL_PROGRAM_SUPPORT_STRICT_JSON_H

#include <semel/message.h>

struct json_object;

/* 1 if all of the text is one JSON value, in UTF-8, at most `depth_max` levels deep (a list
 * of numbers has two); *beyond, which
 * may be NULL, is 1 if it has an integer that json-c would cut to 64 bits. Refused as well: half a
 * surrogate pair, and U+0000 in the name of a member, which would end there. */
int strict_json_check(semel_bytes text, int depth_max, int *beyond);

/* The tree of a text that is JSON as above; 1, or 0 if it is not. null is the tree NULL. */
int strict_json_parse(struct json_object **out, semel_bytes text, int depth_max, int *beyond);

#endif
