/* The table of options: each option of the configuration once, with its type, default, range,
 * words, text, example and the member of config.h that it sets. Parsing, defaults, `semel help
 * config`, docs/CONFIG.md, the JSON Schema and `semel config explain` read it, so no name or
 * default is written twice. Where the library has a default, the table's is the same (a test
 * compares them). */
#ifndef SEMEL_PROGRAM_CONFIG_OPTIONS_H
#define SEMEL_PROGRAM_CONFIG_OPTIONS_H

#include "program/config/config.h"

#include <stddef.h>

typedef enum option_type {
    OPTION_TEXT,          /* const char * */
    OPTION_URL,           /* const char *; may hold a password */
    OPTION_KEY,           /* const char *: a key expression */
    OPTION_DURATION,      /* uint32_t, milliseconds */
    OPTION_LONG_DURATION, /* uint64_t, milliseconds */
    OPTION_SIZE,          /* uint64_t, bytes */
    OPTION_NUMBER,        /* uint32_t */
    OPTION_LONG_NUMBER,   /* uint64_t */
    OPTION_COUNT,         /* int64_t */
    OPTION_BOOLEAN,       /* int */
    OPTION_WORD,          /* an enumeration */
    OPTION_LIST,          /* config_list; one item needs no brackets */
    OPTION_PAIRS,         /* config_pairs: names and texts */
    OPTION_VALUE,         /* const config_node *: any YAML */
    OPTION_SECTION,       /* the struct of `inner`, at the offset */
    OPTION_SECTIONS,      /* an array of them: a list; one item needs no brackets */
    OPTION_NAMED          /* an array of them: a map, whose names are kept in each */
} option_type;

enum {
    OPTION_MAIN = 1, /* the section may be written as the value of this option alone */
    OPTION_REQUIRED = 2,
    OPTION_SECRET = 4,     /* its value is never shown */
    OPTION_NO_PATTERN = 8, /* not in a pattern of inboxes */
    OPTION_HANDLER = 16,   /* an inbox has one of these, or `send` alone */
    OPTION_EMPTY = 32      /* may be an empty text or list */
};

typedef struct option_word {
    const char *name; /* NULL ends the list */
    uint64_t value;
} option_word;

typedef struct section section;

typedef struct option {
    const char *name;
    option_type type;
    unsigned flags;
    size_t offset;
    size_t count_offset;      /* of the number of elements, for OPTION_SECTIONS and OPTION_NAMED */
    const char *fallback;     /* the default as it would be written; NULL: not set */
    const char *otherwise;    /* what not being set means, if that needs words: "by preset" */
    uint64_t least, most;     /* both 0: what the type can hold */
    const option_word *words; /* of OPTION_WORD and of lists; of numbers: words they may be, too */
    const section *inner;
    const char *text;    /* what it is, one sentence without its end */
    const char *example; /* in YAML */
    const char *c_name;  /* the member of the library that it sets, or NULL */
} option;

enum { SECTION_NO_OFFSET = 65535 };

struct section {
    const char *title;
    const char *text;
    const option *options;
    size_t count;
    size_t size;        /* of its struct */
    size_t name_offset; /* where its name goes, in an OPTION_NAMED; or SECTION_NO_OFFSET */
    size_t at_offset;   /* where its node goes; or SECTION_NO_OFFSET */
};

extern const section section_config; /* the whole file */
extern const section section_store, section_queue, section_inbox, section_outbox, section_send;
extern const section section_http, section_exec, section_worker, section_limits;
extern const section section_log, section_test, section_table;
extern const section section_gateway, section_route, section_hmac;
extern const section section_admin, section_history, section_tracing;

const option *option_find(const section *in, const char *name);
const option *option_main(const section *of); /* NULL: none */

/* "a duration", "one of: none, group": what may be written, for people. */
const char *option_type_name(option_type type);

#endif
