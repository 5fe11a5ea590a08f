/* What is wrong with a configuration: all of it at once, in the order of the file. Each problem has
 * a place, a path, a text and lines of help; none of it shows a secret. */
#ifndef SEMEL_PROGRAM_CONFIG_DIAGNOSTIC_H
#define SEMEL_PROGRAM_CONFIG_DIAGNOSTIC_H

#include "program/config/secret.h"
#include "program/config/tree.h"

#include <stdio.h>

typedef enum diagnostic_level { LEVEL_ERROR, LEVEL_WARNING } diagnostic_level;

enum { DIAGNOSTIC_HELPS_MAX = 2, DIAGNOSTIC_SHOWN = 20 };

typedef struct diagnostic {
    diagnostic_level level;
    const char *code; /* stable, for programs: "unknown-option" */
    place at;
    const char *path; /* "" if none */
    const char *text;
    const char *help[DIAGNOSTIC_HELPS_MAX];
    size_t order; /* in which it was found */
} diagnostic;

/* A zeroed one is empty. It keeps copies of the sources, so the configuration may go before it. */
typedef struct diagnostics {
    region memory;
    diagnostic **items;
    size_t count;
    size_t room;
    size_t errors;
    size_t warnings;
    secrets hidden;
    secrets written; /* into the file, where a line does not tell that they are secrets */
    struct known_source *sources;
} diagnostics;

void diagnostic_free(diagnostics *all);

/* Removes everything found so far; what is hidden stays hidden. */
void diagnostic_clear(diagnostics *all);

/* `path` is copied. The result is for diagnostic_help(). With `to` NULL nothing is kept. */
diagnostic *diagnostic_add(diagnostics *to, diagnostic_level level, const char *code, place at,
                           const char *path, const char *format, ...) SEMEL_PRINTF(6, 7);
void diagnostic_help(diagnostics *all, diagnostic *of, const char *format, ...) SEMEL_PRINTF(3, 4);

/* An error about a node: its own place and path. */
diagnostic *diagnostic_at(diagnostics *to, const char *code, const config_node *node,
                          const char *format, ...) SEMEL_PRINTF(4, 5);

typedef struct diagnostic_form {
    int json;
    int all;         /* more than the first twenty, too */
    int errors_only; /* nothing, if there are only warnings */
} diagnostic_form;

/* Writes them as text or JSON lines, and in text a closing line that counts: "bad.yaml: 9 errors".
 * `name` is that of the file. Nothing is written if there are none. */
void diagnostic_print(FILE *out, diagnostics *all, const char *name, diagnostic_form form);

#endif
