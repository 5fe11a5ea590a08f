/* What errors have in common: the text with numbers, ids and quoted parts taken out, so that a
 * thousand failures of one kind are one. */
#ifndef SEMEL_PROGRAM_RUN_CAUSE_H
#define SEMEL_PROGRAM_RUN_CAUSE_H

#include "program/support/memory.h"

enum { CAUSE_ID_SIZE = 5, CAUSE_TEXT_MAX = 200 };

/* Appends the text as it is for all errors of the kind: "no tax rate for order <n>". */
void cause_text(buffer *to, const char *error);

/* A short name for an inbox and a cause: four hexadecimal digits. */
void cause_id(char out[CAUSE_ID_SIZE], const char *inbox, const char *cause);

#endif
