/* `semel top --json`: what the page shows, as one object in one line. */
#ifndef SEMEL_PROGRAM_WATCH_TOP_JSON_H
#define SEMEL_PROGRAM_WATCH_TOP_JSON_H

#include "program/watch/history.h"

void top_json_write(buffer *to, const history *h);

#endif
