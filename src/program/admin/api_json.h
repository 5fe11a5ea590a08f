/* JSON as the API writes it, member by member. A name of NULL is an element of a list. Commas are
 * put by what stands before. */
#ifndef SEMEL_PROGRAM_ADMIN_API_JSON_H
#define SEMEL_PROGRAM_ADMIN_API_JSON_H

#include "program/support/memory.h"

#include <semel/message.h>
#include <stdint.h>

void put_open(buffer *to, const char *name, char bracket); /* { or [ */
void put_close(buffer *to, char bracket);
void put_text(buffer *to, const char *name, const char *text); /* NULL: null */
void put_bytes(buffer *to, const char *name, semel_bytes text);
void put_int(buffer *to, const char *name, int64_t number);
void put_known(buffer *to, const char *name, int64_t number); /* a negative one: null */
void put_time(buffer *to, const char *name, int64_t ms);      /* 0: null */
void put_real(buffer *to, const char *name, double number);   /* NaN or negative: null */
void put_ms(buffer *to, const char *name, int64_t ns);        /* in milliseconds; negative: null */
void put_bool(buffer *to, const char *name, int value);
void put_null(buffer *to, const char *name);
void put_raw(buffer *to, const char *name, const char *json);

/* {"text": "order-7", "shown": "order-7"} or {"hex": "00ff", "shown": "hex:00ff"}, of a key as it
 * is stored; null without one. */
void put_key(buffer *to, const char *name, semel_bytes key);

/* {"base64": ..., "len": ..., "kept": ...}: as much of it as is there, and how long it is. */
void put_body(buffer *to, const char *name, semel_bytes body, size_t len);

/* A message with its headers and its body; null: it was not kept. */
void put_message(buffer *to, const char *name, const semel_message *m, size_t body_len);

#endif
