/* A message as `show` prints it: for people in lines with a title, for programs as JSON. What a
 * message contains is shown so that no terminal obeys it. */
#ifndef SEMEL_PROGRAM_OPERATE_MESSAGE_SHOW_H
#define SEMEL_PROGRAM_OPERATE_MESSAGE_SHOW_H

#include "program/support/memory.h"

#include <semel/message.h>

/* "error     http 422: ..."; "-" if there is no text. */
void message_show_line(const char *title, const char *text);

/* Its headers and its body; of a long or binary body, how to get all of it. */
void message_show_headers(const semel_message *m);
void message_show_body(semel_bytes body, const char *how);

/* {"id":...,"headers":[{"name":...,"value":...}],"body":...}. A body is `body` (JSON), `body_text`
 * or `body_base64`. */
void message_show_json(buffer *to, const semel_message *m);

/* The body alone: to a terminal neutralised, else its bytes. */
void message_show_raw(semel_bytes body, int on_terminal);

#endif
