/* The page of the admin server: static files that are compiled into the program. */
#ifndef SEMEL_PROGRAM_ADMIN_PAGE_H
#define SEMEL_PROGRAM_ADMIN_PAGE_H

#include "program/http/server.h"

/* Answers a request for a file of the page, or with 404 (405 for other methods than GET and HEAD).
 * Always 1: it was answered. */
int page_handle(http_request *request);

#endif
