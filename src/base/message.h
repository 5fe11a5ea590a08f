/* Messages as stores and transports need them: checked, copied, and their headers as one blob. */
#ifndef SEMEL_BASE_MESSAGE_H
#define SEMEL_BASE_MESSAGE_H

#include "base/mem.h"

#include <semel/message.h>

/* Limits, sizes, lengths without pointers; the error names the field. Nothing is changed. */
semel_status message_check(const semel_message *message, semel_error *err);

/* A deep copy whose parts all lie in the arena (texts NUL-terminated, bytes with a NUL behind);
 * NULL when out of memory. */
semel_message *message_copy_into(mem_arena *arena, const semel_message *message);

/* Headers as one blob: for each a 32-bit little-endian length of the name, the name, a 32-bit
 * length of the value, the value. No headers: no bytes. */
size_t headers_size(const semel_message *message);
void headers_write(unsigned char *out, const semel_message *message);

/* The reverse, into the arena. SEMEL_ESTORE if the blob is damaged, never a read past its end. */
semel_status headers_read(const semel_header **out, size_t *count, mem_arena *arena,
                          semel_bytes blob, semel_error *err);

#endif
