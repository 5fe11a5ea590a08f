/* JSON by json-c, where it is built in. */
#ifndef SEMEL_BASE_JSON_H
#define SEMEL_BASE_JSON_H

#include "base/mem.h"

#include <semel/message.h>

enum { JSON_DEPTH_MAX = 64 };

int json_built_in(void);

/* 1 if the text is a JSON Pointer (RFC 6901); else *position is where it stops being one. */
int json_pointer_valid(const char *pointer, size_t *position);

/* The scalar that the pointer names in `body`, as text in the arena: a string's own bytes, a number or
 * true/false as they are written in JSON (canonical: 1.0 stays 1.0, no spaces). {NULL, 0} if the body is
 * not JSON, nothing is there, or it is null, an object or an array. SEMEL_EUNSUPPORTED if not built in. */
semel_status json_lookup(semel_bytes *out, mem_arena *arena, semel_bytes body, const char *pointer,
                         semel_error *err);

#ifdef SEMEL_WITH_JSON
struct json_object;

/* json-c's tree of a text that json_text_check() found good; json_object_put() frees it. The JSON value
 * null is the tree NULL, as json-c has it. Fails for want of memory only. */
semel_status json_tree(struct json_object **out, semel_bytes text, semel_error *err);
#endif

#endif
