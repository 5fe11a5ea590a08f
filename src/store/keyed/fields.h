/* The values of records: fields by number, in any order; unknown ones are skipped, so that an older
 * program reads what a newer one wrote. A field is its number, its length and its bytes; an integer
 * is as short as it can be, and 0 and "" are not written. */
#ifndef SEMEL_STORE_KEYED_FIELDS_H
#define SEMEL_STORE_KEYED_FIELDS_H

#include "base/mem.h"

#include <semel/message.h>
#include <stdint.h>

/* Grows in an arena. Failures stick until fields_end(). */
typedef struct fields_writer {
    mem_arena *arena;
    unsigned char *data;
    size_t len, capacity;
    int failed;
} fields_writer;

void fields_int(fields_writer *to, uint8_t field, int64_t value);
void fields_bytes(fields_writer *to, uint8_t field, semel_bytes value);
void fields_text(fields_writer *to, uint8_t field, const char *value); /* NULL: as "" */
int fields_end(semel_bytes *out, fields_writer *from);                 /* 0: out of memory */

/* Reads one field after the other; 0 at the end. A value that is damaged ends early, with
 * `damaged` set. */
typedef struct fields_reader {
    semel_bytes rest;
    uint8_t field;
    semel_bytes bytes; /* of the field */
    int damaged;
} fields_reader;

int fields_next(fields_reader *from);
int64_t fields_int_of(const fields_reader *at); /* of the field that was read */

#endif
