/* Single values: texts, numbers, durations, sizes, booleans and words. */
#ifndef SEMEL_PROGRAM_CONFIG_READ_VALUE_H
#define SEMEL_PROGRAM_CONFIG_READ_VALUE_H

#include "program/config/read.h"

/* The default of the option, which is right: the table was tested. */
void read_fallback(const option *of, void *out);

int read_scalar_value(const reading *r, const option *of, const config_node *node, void *out);

const option_word *read_word(const option *of, const char *text); /* NULL: it is none of them */

#endif
