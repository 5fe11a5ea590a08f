/* The table of options as a page: for `semel help config`, as docs/CONFIG.md, and in roff as a part
 * of the manual page semel.yaml(5). */
#ifndef SEMEL_PROGRAM_CONFIG_REFERENCE_H
#define SEMEL_PROGRAM_CONFIG_REFERENCE_H

#include "program/support/memory.h"

void reference_help(buffer *out);
void reference_markdown(buffer *out);
void reference_manual(buffer *out);

#endif
