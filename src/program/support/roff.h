/* Text for manual pages, in the macros of man(7). */
#ifndef SEMEL_PROGRAM_SUPPORT_ROFF_H
#define SEMEL_PROGRAM_SUPPORT_ROFF_H

#include "program/support/memory.h"

void roff_text(buffer *out, const char *text, size_t len); /* escaped, within a line */
void roff_line(buffer *out, const char *text);             /* of a paragraph that is filled */
void roff_heading(buffer *out, const char *title);         /* of a subsection */
void roff_item(buffer *out, const char *tag);              /* of a list: lines follow */
void roff_example(buffer *out, const char *text);          /* one line as it is, below an item */

#endif
