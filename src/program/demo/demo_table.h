/* The result, on stdout. */
#ifndef SEMEL_CLI_DEMO_TABLE_H
#define SEMEL_CLI_DEMO_TABLE_H

#include "program/demo/demo_check.h"
#include "program/demo/demo_screen.h"
#include "program/demo/demo_supervisor.h"

void demo_table_print(const screen *on, const supervisor supervisors[SHOPS],
                      const verdict verdicts[SHOPS]);

/* What it comes to, in a sentence or two. */
void table_conclude(const screen *on, const supervisor supervisors[SHOPS],
                    const verdict verdicts[SHOPS]);

#endif
