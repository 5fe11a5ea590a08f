/* `semel migrate sql`: the triggers of tables whose rows are sent, for a database administrator. */
#ifndef SEMEL_PROGRAM_COMMAND_MIGRATE_TABLES_H
#define SEMEL_PROGRAM_COMMAND_MIGRATE_TABLES_H

#include "program/operate/tool.h"

/* Prints the script of each trigger that is not as the configuration wants it; with --json as an
 * object. Returns how many. `is_there` is 0 if the store only stands in for a file. */
size_t migrate_print_tables(const tool *t, int is_there);

#endif
