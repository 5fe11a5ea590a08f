/* Bytes compressed by gzip, for requests to a collector. Without zlib there is none of it. */
#ifndef SEMEL_PROGRAM_TRACE_PACKED_H
#define SEMEL_PROGRAM_TRACE_PACKED_H

#include "program/support/memory.h"

/* 1 if this program was built with zlib. */
int packed_is_possible(void);

/* Replaces what is in *to. 0: it could not be done, and the bytes are sent as they are. */
int packed_write(buffer *to, const buffer *from);

#endif
