/* See node.h. */
#include "program/config/node.h"

#include "program/config/tree.h"

int node_is_list(const config_node *node)
{
    return node->kind == NODE_LIST;
}

int node_is_map(const config_node *node)
{
    return node->kind == NODE_MAP;
}

const char *node_text(const config_node *node)
{
    return node->text;
}

int node_is_quoted(const config_node *node)
{
    return node->style != STYLE_PLAIN;
}

size_t node_count(const config_node *node)
{
    return node->count;
}

const config_node *node_child(const config_node *node, size_t index)
{
    return node->items[index];
}

const char *node_name(const config_node *node, size_t index)
{
    return node->items[index]->key->text;
}
