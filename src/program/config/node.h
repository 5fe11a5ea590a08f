/* What a handler reads of a part of the configuration that it keeps as a tree: the body of a
 * message to send. */
#ifndef SEMEL_PROGRAM_CONFIG_NODE_H
#define SEMEL_PROGRAM_CONFIG_NODE_H

#include "program/config/config.h"

int node_is_list(const config_node *node);
int node_is_map(const config_node *node); /* neither: it is a scalar */

/* Of a scalar: its text, with substitutions done, never NULL; and whether it is quoted or a block,
 * and so a text, whatever it says. */
const char *node_text(const config_node *node);
int node_is_quoted(const config_node *node);

/* Of a list or map. */
size_t node_count(const config_node *node);
const config_node *node_child(const config_node *node, size_t index);
const char *node_name(const config_node *node, size_t index); /* of a map's child */

#endif
