/* A file or the standard input as a whole, up to a limit. */
#ifndef SEMEL_PROGRAM_SUPPORT_INPUT_H
#define SEMEL_PROGRAM_SUPPORT_INPUT_H

#include "program/support/memory.h"

#define INPUT_MAX ((size_t)1 << 30)

/* "-" is the standard input. 0, or an errno; EFBIG if there is more than `most`. */
int input_read(buffer *out, const char *path, size_t most);

#endif
