/* `semel check`: does a database accept the statements of sql handlers, and has it the tables whose
 * rows are sent, and their triggers? */
#ifndef SEMEL_PROGRAM_COMMAND_CHECK_STATEMENTS_H
#define SEMEL_PROGRAM_COMMAND_CHECK_STATEMENTS_H

#include "program/config/diagnostic.h"

/* What the database does not accept is reported at its statement. If no database could be asked,
 * `unchecked` gets the reason. `offline` is why no connection may be made; NULL: it may. Nothing is
 * changed. */
void check_statements(diagnostics *found, buffer *unchecked, const config *all,
                      const char *offline);

#endif
