/* Tables that a newer semel has changed, and that this one may use all the same: during an upgrade
 * both versions run. It is no error, but said once. */
#ifndef SEMEL_PROGRAM_SUPPORT_NEWER_TABLES_H
#define SEMEL_PROGRAM_SUPPORT_NEWER_TABLES_H

#include "program/support/memory.h"

#include <semel/operate.h>

/* Starts as {0}. */
typedef struct newer_tables {
    int32_t known; /* the last step that this semel has */
    int32_t there; /* the last one that was taken by a newer semel; 0: none */
} newer_tables;

/* For each step that the store shows. */
void newer_tables_note(newer_tables *found, const semel_schema_step *step);

/* Asks the store. A store that does not answer has none. */
newer_tables newer_tables_find(semel_store *store);

/* A sentence. */
void newer_tables_text(buffer *to, const newer_tables *found);

#endif
