/* A tree of the configuration as JSON: plain words have the types of YAML 1.2, quoted ones are
 * texts. */
#ifndef SEMEL_PROGRAM_CONFIG_NODE_JSON_H
#define SEMEL_PROGRAM_CONFIG_NODE_JSON_H

#include "program/config/config.h"
#include "program/support/memory.h"

void json_of_node(buffer *to, const config_node *node);

#endif
