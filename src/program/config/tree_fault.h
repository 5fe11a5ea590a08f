/* What is wrong with a text that is not YAML, in words that help: the three mistakes that are made
 * most often, and otherwise what libyaml says. */
#ifndef SEMEL_PROGRAM_CONFIG_TREE_FAULT_H
#define SEMEL_PROGRAM_CONFIG_TREE_FAULT_H

#include "program/config/tree.h"

struct yaml_parser_s;

/* The parser has failed. */
void tree_fault_explain(tree_fault *out, region *memory, const config_source *source,
                        const struct yaml_parser_s *parser);

/* An alias begins at the place. */
void tree_fault_alias(tree_fault *out, region *memory, place at);

#endif
