/* Values that must not be shown: what was substituted into a configuration, and what is written
 * into it and looks like a password. They are shown as ******. */
#ifndef SEMEL_PROGRAM_CONFIG_SECRET_H
#define SEMEL_PROGRAM_CONFIG_SECRET_H

#include "program/support/memory.h"

#include <stdint.h>

#define SECRET_MASK "******"

/* Why --store and --set take none. */
#define SECRET_ARGUMENT                                                            \
    "other users on this host can read a password in an argument; use ${NAME} or " \
    "${file:PATH} instead"

/* Values that were substituted. A zeroed one is empty. */
typedef struct secrets {
    region memory;
    const char **items;
    size_t count;
    size_t room;
} secrets;

void secret_remember(secrets *all, const char *value, size_t len);
void secret_free(secrets *all);

/* The length of the longest remembered value that the text begins with; 0: none. Values of fewer
 * than four characters are not looked for. */
size_t secret_at(const secrets *all, const char *text);

/* Adds the text without any remembered value, and without the passwords of URLs. Values of fewer
 * than four characters are not looked for: they would be found in every text. What shows values
 * therefore shows what was written (${NAME}), never what it became. */
void secret_add_masked(buffer *out, const secrets *all, const char *text);

/* A password, token or the like in a line of a file, which may not even be YAML. */
typedef struct secret_span {
    size_t from;
    size_t len;
} secret_span;

/* The first one at or behind `from`; len is 0 if there is none. */
secret_span secret_in_line(const char *line, size_t len, size_t from);

/* The password that is written into a URL; len is 0 if there is none, or it is a ${...}. */
secret_span secret_in_url(const char *text, size_t len);

/* 1 if a value is ${...}, or a word and one ("Bearer ${file:x}"), so that nothing of it is secret.
 * A ${NAME:-default} shows its default. */
int secret_is_substituted(const char *value, size_t len);

/* 1 if an option or header of this name holds a secret. */
int secret_is_name(const char *name, size_t len);

#endif
