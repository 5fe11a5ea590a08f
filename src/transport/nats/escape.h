/* Bytes as printable ASCII, for headers of NATS: a byte that is no such character, a space, a
 * quote or a percent sign becomes %XX, as CloudEvents wants it in headers. */
#ifndef SEMEL_TRANSPORT_NATS_ESCAPE_H
#define SEMEL_TRANSPORT_NATS_ESCAPE_H

#include "base/mem.h"

#include <semel/message.h>

/* The bytes behind `at`, for which there is room: three for each. `more` are characters that are
 * escaped as well. Returns the end. */
char *jet_escape(char *at, semel_bytes bytes, const char *more);

/* A text in the arena; NULL when out of memory. */
const char *jet_escape_text(mem_arena *arena, semel_bytes bytes);

/* The reverse. A percent sign without two hex digits behind it stands for itself. NULL when out of
 * memory; a NUL is behind the bytes. */
const char *jet_unescape(size_t *len, mem_arena *arena, const char *text, size_t text_len);

#endif
