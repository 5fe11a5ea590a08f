/* Key expressions: what makes two deliveries the same message. */
#ifndef SEMEL_CORE_KEY_H
#define SEMEL_CORE_KEY_H

#include "base/mem.h"

#include <semel/inbox.h>

enum {
    KEY_PARTS_MAX = 8,
    KEY_EXPRESSION_MAX = 1024,
    KEY_COMPUTED_MAX = 65536,
    KEY_LENGTH_SIZE = 8
};

typedef enum key_kind {
    KEY_ID,
    KEY_CORRELATION_ID,
    KEY_SOURCE,
    KEY_TYPE,
    KEY_HEADER,
    KEY_JSON,
    KEY_DIGEST,
    KEY_FUNCTION,
    KEY_LITERAL
} key_kind;

typedef struct key_part {
    key_kind kind;
    const char *argument; /* header name, JSON Pointer or literal, into plan.text */
} key_part;

typedef struct key_plan {
    key_part parts[KEY_PARTS_MAX];
    size_t count;
    semel_key_function *function;
    void *context;
    char text[KEY_EXPRESSION_MAX + 1];
} key_plan;

/* key_parse.c: SEMEL_EINVAL names the option, the mistake and its position, counted from 1. */
semel_status key_parse(key_plan *out, const char *option, const char *expression, semel_error *err);

size_t key_literals(const key_plan *plan); /* how many of the parts are literals */
int key_reads_body(const key_plan *plan);  /* 1 if a part is taken from the body */

/* The value of one part, empty if the message has none. */
semel_status key_part_value(semel_bytes *out, mem_arena *arena, const key_plan *plan,
                            const key_part *part, const semel_message *message, semel_error *err);

/* A length as bytes, to precede what is digested or hashed together with other things. */
void key_write_length(unsigned char out[KEY_LENGTH_SIZE], size_t len);

/* The key of a message; length 0 if it has none. It points into the message or into the arena. */
semel_status key_compute(semel_bytes *out, mem_arena *arena, const key_plan *plan,
                         const semel_message *message, semel_error *err);

/* SHA-256 of type and body, in the arena. */
semel_status key_digest(semel_bytes *out, mem_arena *arena, const semel_message *message,
                        semel_error *err);

/* The key as it is stored: itself, or its digest (in the arena) if it is too long. */
semel_status key_stored(semel_bytes *out, mem_arena *arena, semel_bytes key, semel_error *err);

/* A checksum of type and body that detects a key used for two contents by mistake; never 0. It does
 * not stop an attacker, who could as well send the right content. */
uint64_t key_fingerprint(const semel_message *message);

#endif
