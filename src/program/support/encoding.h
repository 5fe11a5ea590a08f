/* Is this text? Bytes of a message may be anything; databases and JSON take UTF-8. */
#ifndef SEMEL_PROGRAM_SUPPORT_ENCODING_H
#define SEMEL_PROGRAM_SUPPORT_ENCODING_H

#include <stddef.h>
#include <stdint.h>

/* 1 if the bytes are UTF-8 (RFC 3629) without U+0000. */
int encoding_is_text(const void *data, size_t len);

/* 1 if there is a control character in it, which a CloudEvent does not allow: an id without one is
 * one line wherever it is printed. */
int encoding_has_controls(const char *text, size_t len);

/* The length of the UTF-8 sequence at the beginning of these bytes, of which there is one at least;
 * 0: there is none. */
size_t encoding_sequence(const void *at, size_t left);

/* Of UTF-8: how many characters it has, and how many bytes the first of them take (all, if there
 * are fewer). */
uint32_t encoding_characters(const char *text, size_t len);
size_t encoding_bytes(const char *text, size_t len, size_t characters);

#endif
