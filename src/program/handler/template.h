/* Templates: JSON with values in it, as the configuration has it in YAML. A text that begins with a
 * colon is a value, and keeps its type; a text that begins with two colons is that text without the
 * first one. What is not quoted has the types of YAML 1.2: null, true, false, integers, reals. */
#ifndef SEMEL_PROGRAM_HANDLER_TEMPLATE_H
#define SEMEL_PROGRAM_HANDLER_TEMPLATE_H

#include "program/config/node.h"
#include "program/handler/value.h"

/* A text field: a value, or a constant text. */
typedef struct template_text {
    const char *constant; /* NULL: it is the value */
    value_name of;
} template_text;

/* 1, or 0 and *wrong. */
int template_text_read(template_text *out, region *memory, const char *written,
                       value_mistake *wrong);

/* {NULL, 0} if the message does not have it. */
semel_status template_text_get(semel_bytes *out, const template_text *of, value_source *source,
                               semel_error *err);

typedef struct template_node template_node;

/* 1, or 0, *wrong and the node that is wrong. */
int template_read(template_node **out, region *memory, const config_node *from,
                  const config_node **at, value_mistake *wrong);

/* The JSON text, in the source's memory. */
semel_status template_fill(semel_bytes *out, const template_node *from, value_source *source,
                           semel_error *err);

/* 1 if all of it is the value :body, and nothing needs to be made of it. */
int template_is_body(const template_node *of);

#endif
