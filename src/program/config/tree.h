/* A file of YAML as a tree of nodes that know their places, so that everything that is found wrong
 * with a value, however late, is reported with file, line and column.
 *
 * Scalars are texts; what a text means is decided where it is read. tree_scalar() says what it is
 * by the rules of YAML 1.2: of plain words only `true` and `false` are booleans. Keys are unique,
 * there are no aliases and no tags, and depth, size and the number of nodes are limited. */
#ifndef SEMEL_PROGRAM_CONFIG_TREE_H
#define SEMEL_PROGRAM_CONFIG_TREE_H

#include "program/config/config.h"
#include "program/support/memory.h"

#include <stdint.h>

enum {
    TREE_BYTES_MAX = 1024 * 1024,
    TREE_TEXT_MAX = 64 * 1024, /* of one scalar */
    TREE_NODES_MAX = 20000,
    TREE_DEPTH_MAX = 32
};

/* Where a text came from. A source without text (`--set`) has no lines to show. */
typedef struct config_source {
    const char *name; /* as it was given */
    const char *text; /* NULL: none */
    size_t len;
    uint32_t first_line; /* 1, or the line of a block in a larger file */
    unsigned mode;       /* permissions of the file; 0: there is no file */
} config_source;

/* Lines, columns and lengths count characters, from 1; line 0: the source as a whole. */
typedef struct place {
    const config_source *source;
    uint32_t line;
    uint32_t column;
    uint32_t length;
} place;

typedef enum node_kind { NODE_SCALAR, NODE_LIST, NODE_MAP } node_kind;

typedef enum node_style {
    STYLE_PLAIN,
    STYLE_SINGLE, /* 'quoted' */
    STYLE_DOUBLE, /* "quoted" */
    STYLE_BLOCK   /* | or > */
} node_style;

struct config_node {
    node_kind kind;
    node_style style; /* of a scalar */
    place at;
    const char *text; /* of a scalar: its value, with substitutions done; never NULL there */
    size_t len;
    const char *raw; /* as it was written, ${...} included. The same as text if there are none */
    int is_unset;    /* a substitution failed, which was reported; `text` is not meant */
    config_node *parent; /* NULL: the root */
    config_node *key;    /* in a map: the scalar that names this node; else NULL */
    size_t index;        /* in a list */
    config_node **items; /* of a list or a map, in the order of the file */
    size_t count;
    config_node *replaced; /* what was here before --set or --store; NULL: nothing */
};

/* What a scalar is by YAML 1.2 (its core schema); everything quoted is a string. */
typedef enum scalar_type {
    SCALAR_NULL,
    SCALAR_TRUE,
    SCALAR_FALSE,
    SCALAR_INTEGER,
    SCALAR_NUMBER,
    SCALAR_STRING
} scalar_type;

scalar_type tree_scalar(const config_node *node);

/* The value of a name in a map; NULL if there is none, or the node is NULL or no map. */
config_node *tree_find(const config_node *map, const char *name);

/* "inboxes[\"mail.receipt\"].timeout"; "" for the root. */
const char *tree_path(region *memory, const config_node *node);
void tree_add_name(buffer *path, const char *name); /* a further name behind a path */

/* A part of a scalar as it was written: `from` and `len` count bytes of `raw`. If the place cannot
 * be told exactly (a folded text), it is that of the whole scalar. */
place tree_part(const config_node *scalar, size_t from, size_t len);

/* The place of a name in its map, for errors about the name or about the element as a whole. */
place tree_name_place(const config_node *node);

/* The first thing that is wrong with a text. */
typedef struct tree_fault {
    place at;
    const char *code;
    const char *text;
} tree_fault;

/* Called for each name that is set twice; reading goes on. */
typedef void tree_twice(void *context, const config_node *map, place at, const char *name,
                        uint32_t first_line);

/* The root of the tree; NULL, and *fault, if the text is not YAML or exceeds a limit. */
config_node *tree_read(region *memory, const config_source *source, tree_twice *twice,
                       void *context, tree_fault *fault);

/* A node that is not in a file. */
config_node *tree_scalar_new(region *memory, place at, const char *text);
config_node *tree_map_new(region *memory, place at);
/* Replaces the value of the name, or adds it at the end. */
void tree_put(region *memory, config_node *map, const char *name, config_node *value);

/* The text of a line without its end, with the number that it has in the file; NULL if there is no
 * such line. */
const char *tree_line(const config_source *source, uint32_t line, size_t *len);

#endif
