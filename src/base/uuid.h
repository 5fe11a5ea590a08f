/* UUIDv7: ids in time order, because keys in time order cost a sixth of random ones to store.
 * UUIDv8: 122 bits of the caller's. */
#ifndef SEMEL_BASE_UUID_H
#define SEMEL_BASE_UUID_H

#include <stddef.h>
#include <stdint.h>

enum { UUID_TEXT = 36 };

/* Writes 36 characters and a NUL. `noise` is 10 random bytes. */
void uuid_v7(char out[UUID_TEXT + 1], int64_t wall_ms, const unsigned char noise[10]);

/* The same from 16 bytes, six bits of which are overwritten. */
void uuid_v8(char out[UUID_TEXT + 1], const unsigned char bytes[16]);

/* The time inside a UUIDv7 or ULID, in milliseconds since 1970; 0 if the text is not one. */
int64_t uuid_v7_time(const char *text, size_t len);
int64_t ulid_time(const char *text, size_t len);

#endif
