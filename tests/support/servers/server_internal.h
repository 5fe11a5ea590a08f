/* What the files about servers share among themselves. */
#ifndef SEMEL_TESTS_SERVER_INTERNAL_H
#define SEMEL_TESTS_SERVER_INTERNAL_H

#include <stddef.h>

enum { SERVER_NAME_ROOM = 64 };

/* Says why, and aborts. */
_Noreturn void server_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* snprintf that dies when there is no room. */
void server_print(char *out, size_t room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A parameter of a URL, or `fallback`. */
void server_parameter(char out[SERVER_NAME_ROOM], const char *url, const char *name,
                      const char *fallback);

/* A name that is unique over threads, processes, and processes that got a number for the second time. */
void server_invent_name(char name[SERVER_NAME_ROOM]);

#endif
