/* Inboxes and the patterns that set options for several of them. */
#ifndef SEMEL_PROGRAM_CONFIG_INBOXES_H
#define SEMEL_PROGRAM_CONFIG_INBOXES_H

#include "program/config/read.h"

/* Reads the map `inboxes`: each pattern is read once and its problems reported; an inbox has the
 * defaults, then what the patterns say that match it, from the shortest to the longest, then its
 * own. */
void read_inboxes(const reading *r, const option *of, const config_node *map, void *base);

/* 1 if the name is a pattern: it ends in *. */
int inboxes_is_pattern(const char *name);
int inboxes_match(const char *pattern, const char *name);

/* The entries of the map that set options of the inbox, the one that counts most last: patterns
 * from the shortest to the longest, then the inbox itself. The array belongs to the memory. */
typedef struct inbox_layers {
    const config_node **items;
    size_t count;
} inbox_layers;

inbox_layers inboxes_layers(region *memory, const config_node *map, const char *name);

/* The node that sets an option in layers of a section; NULL: none does. *layer is the one that
 * does. `layer` may be NULL. */
const config_node *inboxes_pick(const section *of, const inbox_layers *layers, const option *wanted,
                                const config_node **layer);

/* The node that sets an option of an inbox: its own, or that of the pattern that counts; NULL: the
 * default. */
const config_node *inboxes_find(region *memory, const config *all, const char *inbox,
                                const char *option_name);

#endif
