/* http_server.py as a child, and what it was asked. */
#ifndef SEMEL_TESTS_WEB_KIT_H
#define SEMEL_TESTS_WEB_KIT_H

#include "support/base/scratch.h"

#include <stddef.h>
#include <sys/types.h>

typedef struct web_kit {
    scratch directory;
    pid_t pid;
    unsigned port;
    unsigned secure_port;
} web_kit;

void web_kit_start(web_kit *web);
void web_kit_stop(web_kit *web);

/* "http://127.0.0.1:PORT/PATH" in one of a few static places. */
const char *web_kit_url(const web_kit *web, const char *path);

size_t web_kit_count(const web_kit *web);       /* requests so far */
size_t web_kit_connections(const web_kit *web); /* of them */
void web_kit_release(const web_kit *web);       /* what /hold holds */
void web_kit_forget(const web_kit *web);        /* all requests, and the release */

/* Of the last request, in static places: a header, NULL if it has none; and the body. */
const char *web_kit_header(const web_kit *web, const char *name);
const char *web_kit_body(const web_kit *web);

#endif
