/* A new id for a message: a UUID of version 7 (RFC 9562), in the order of time. */
#ifndef SEMEL_PROGRAM_SUPPORT_UNIQUE_ID_H
#define SEMEL_PROGRAM_SUPPORT_UNIQUE_ID_H

enum { UNIQUE_ID_SIZE = 37 };

void unique_id(char out[UNIQUE_ID_SIZE]);

#endif
