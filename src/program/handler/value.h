/* Values of a received message, as statements, templates and headers name them. One grammar:
 *
 *     value      = ":{" expression "}" | ":" word | ":json/" name        name: letters, digits, _
 *     expression = word | "header:" argument | "json:" argument          json: a JSON Pointer
 *     argument   = quoted | any text without "+" and "}"                 not beginning with a quote
 *     quoted     = "'" text "'"                                          in which '' is one quote
 *     word       = id | correlation-id | source | type | digest          as in a key expression
 *                | body | key | time | topic | group | attempt | inbox
 *
 * The short form of a pointer has one name: behind :json/a a slash is an operator of SQL, so that
 * :json/a/b is refused in favour of :{json:/a/b} or of :json/a / b.
 *
 * JSON keeps its types: integer, real, text, boolean, null; an object or array is JSON text where a
 * scalar is wanted. What a message does not have is NULL. A body that is not JSON has no pointers:
 * to ask it for one is an error that no further attempt can change (SEMEL_EGIVEUP). The time is RFC
 * 3339 in UTC, the digest 64 hexadecimal digits. Bytes that are not UTF-8 are bytes in SQL, and an
 * error where text is needed.
 *
 * Errors name expressions, never values. */
#ifndef SEMEL_PROGRAM_HANDLER_VALUE_H
#define SEMEL_PROGRAM_HANDLER_VALUE_H

#include "program/support/memory.h"

#include <semel/semel.h>

typedef enum value_word {
    VALUE_ID,
    VALUE_CORRELATION_ID,
    VALUE_SOURCE,
    VALUE_TYPE,
    VALUE_HEADER,
    VALUE_JSON,
    VALUE_DIGEST,
    VALUE_BODY,
    VALUE_KEY,
    VALUE_TIME,
    VALUE_TOPIC,
    VALUE_GROUP,
    VALUE_ATTEMPT,
    VALUE_INBOX,
    VALUE_WORDS
} value_word;

typedef struct value_name {
    value_word word;
    const char *argument; /* the header's name or the pointer, else "" */
    const char *written;  /* as it was written, for errors */
} value_name;

/* What is wrong with a text, and where: bytes from its beginning. */
typedef struct value_mistake {
    size_t offset;
    size_t len;
    const char *help; /* what is valid, or NULL */
    char text[200];   /* unknown value ":jason"; did you mean ":json"? */
} value_mistake;

enum { VALUE_WRITTEN_MAX = 1024, VALUE_DEPTH_MAX = 32 };

/* value_parse.c: reads the value that begins at text[offset], a colon, up to `end`, and returns its
 * length; 0 and *wrong if it is none. Arguments are copied to `memory`. */
size_t value_read(value_name *out, region *memory, const char *text, size_t offset, size_t end,
                  value_mistake *wrong);

/* 1 if the whole text is one value, else 0 and *wrong. */
int value_parse(value_name *out, region *memory, const char *text, value_mistake *wrong);

/* Fills *wrong; returns 0. */
int value_wrong(value_mistake *wrong, size_t offset, size_t len, const char *help,
                const char *format, ...) SEMEL_PRINTF(5, 6);

/* --- values of one message -------------------------------------------------------------------- */

struct json_object;

/* The message that is handled, and what was found in it so far: its body is parsed when a value
 * first needs that, and once. The caller sets the first three members and zeroes the rest. What the
 * calls below return lives until value_source_free(). */
typedef struct value_source {
    const semel_message *message;
    const semel_unit *unit; /* NULL: no key, and the first attempt */
    const char *inbox;
    region memory;
    struct json_object *body;
    enum { BODY_UNREAD = 0, BODY_JSON, BODY_NOT_JSON } state;
    int may_be_cut; /* the body has an integer that 64 bits do not hold */
} value_source;

void value_source_free(value_source *source);

/* For a statement. */
semel_status value_get(semel_value *out, const value_name *of, value_source *source,
                       semel_error *err);

/* For JSON: the caller owns *out, which json-c has as NULL for null. */
semel_status value_get_json(struct json_object **out, const value_name *of, value_source *source,
                            semel_error *err);

/* For a text field: {NULL, 0} if the message does not have it. With a NUL behind it. */
semel_status value_get_text(semel_bytes *out, const value_name *of, value_source *source,
                            semel_error *err);

#endif
