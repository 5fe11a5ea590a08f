/* Reading and changing the text of a URL: its parameters and its path. Its user and password are
 * left as they are. What is returned lives in `memory`. */
#ifndef SEMEL_PROGRAM_SUPPORT_URL_TEXT_H
#define SEMEL_PROGRAM_SUPPORT_URL_TEXT_H

#include "program/support/memory.h"

/* The value of a parameter, decoded; NULL: it has none, or an empty one. */
const char *url_parameter(region *memory, const char *url, const char *name);

/* The URL with this value of the parameter, in place of any other. */
const char *url_with_parameter(region *memory, const char *url, const char *name,
                               const char *value);

/* scheme://authority/PATH?parameters, in place of any other path. */
const char *url_with_path(region *memory, const char *url, const char *path);

#endif
