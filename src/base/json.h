/* JSON by json-c, where it is built in. */
#ifndef SEMEL_BASE_JSON_H
#define SEMEL_BASE_JSON_H

#include "base/mem.h"

#include <semel/message.h>

enum { JSON_DEPTH_MAX = 64 };

int json_built_in(void);

/* 1 if the text is a JSON Pointer (RFC 6901); else *position is where it stops being one. */
int json_pointer_valid(const char *pointer, size_t *position);

/* The scalar that the pointer names in `body`, as text in the arena: a string's own bytes, a number
 * or true/false as they are written in JSON (canonical: 1.0 stays 1.0, no spaces). {NULL, 0} if the
 * body is not JSON, nothing is there, or it is null, an object or an array. SEMEL_EUNSUPPORTED if
 * not built in. */
semel_status json_lookup(semel_bytes *out, mem_arena *arena, semel_bytes body, const char *pointer,
                         semel_error *err);

typedef enum json_kind { JSON_NULL = 1, JSON_STRING, JSON_SCALAR, JSON_CONTAINER } json_kind;

typedef struct json_member {
    const char *name;
    json_kind kind;
    semel_bytes text; /* a string's own bytes; of all others the JSON text, without spaces */
} json_member;

/* The members of the JSON object that `text` is, all in the arena; of those with one name, the
 * last. SEMEL_EINVAL if it is none, SEMEL_ELIMIT if it is over JSON_DEPTH_MAX deep,
 * SEMEL_EUNSUPPORTED if json-c would change a number in it, or is not built in. */
semel_status json_members(const json_member **out, size_t *count, mem_arena *arena,
                          semel_bytes text, semel_error *err);

#endif
