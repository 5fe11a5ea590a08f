/* Fingerprints: what is compared between two messages with the same key. */
#ifndef SEMEL_CORE_FINGERPRINT_H
#define SEMEL_CORE_FINGERPRINT_H

#include "core/key.h"

typedef enum fingerprint_kind {
    FINGERPRINT_BODY, /* type and body */
    FINGERPRINT_NONE, /* nothing is compared */
    FINGERPRINT_PARTS /* the parts of an expression */
} fingerprint_kind;

typedef struct fingerprint_plan {
    fingerprint_kind kind;
    key_plan parts;
} fingerprint_plan;

/* The expression of an inbox whose options name none. */
const char *fingerprint_default(const key_plan *key);

/* Errors are those of key_parse(). */
semel_status fingerprint_parse(fingerprint_plan *out, const char *expression, semel_error *err);

/* 0 if nothing is compared, and never otherwise. */
semel_status fingerprint_compute(uint64_t *out, mem_arena *arena, const fingerprint_plan *plan,
                                 const semel_message *message, semel_error *err);

#endif
