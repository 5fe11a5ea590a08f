/* Is this text JSON (RFC 8259), exactly? No memory, no library. */
#ifndef SEMEL_BASE_JSON_TEXT_H
#define SEMEL_BASE_JSON_TEXT_H

#include <semel/message.h>

typedef struct json_facts {
    size_t wrong_at;    /* not JSON: the byte at which it stops being that */
    int too_deep;       /* not JSON, for this reason only */
    int beyond_64_bits; /* JSON, but with an integer that needs more than 64 bits */
} json_facts;

/* 1 if all of the text is one JSON value with spaces around it and at most `depth_max` levels deep
 * (a scalar is one level). Two things that the grammar allows are refused, since they have no
 * meaning that two readers agree on: escapes that are half a surrogate pair, and member names with
 * U+0000. */
int json_text_check(json_facts *facts, semel_bytes text, int depth_max);

#endif
