/* What the files of layout.h share. */
#ifndef SEMEL_PROGRAM_CAPTURE_LAYOUT_INTERNAL_H
#define SEMEL_PROGRAM_CAPTURE_LAYOUT_INTERNAL_H

#include "program/capture/layout.h"

const char *mariadb_trigger_body(region *memory, const capture_layout *layout);
size_t mariadb_statements(region *memory, const capture_layout *layout, capture_how how,
                          const char *out[CAPTURE_STATEMENTS_MAX]);

/* The whole statement that creates it, to the letter as SQLite keeps it. */
const char *sqlite_trigger(region *memory, const capture_layout *layout);
size_t sqlite_statements(region *memory, const capture_layout *layout, capture_how how,
                         const char *out[CAPTURE_STATEMENTS_MAX]);

#endif
