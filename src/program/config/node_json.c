/* See node_json.h. */
#include "program/config/node_json.h"

#include "program/config/tree.h"
#include "program/support/show.h"
#include "program/support/strict_json.h"

/* A number of YAML (+1, .5, 0x10) need not be one of JSON: then it stays a text. */
static void add_scalar(buffer *to, const config_node *node)
{
    scalar_type type = tree_scalar(node);
    if (type == SCALAR_NULL)
        buffer_text(to, "null");
    else if (type == SCALAR_TRUE || type == SCALAR_FALSE)
        buffer_text(to, type == SCALAR_TRUE ? "true" : "false");
    else if (type != SCALAR_STRING &&
             strict_json_check((semel_bytes){node->text, node->len}, 1, NULL))
        buffer_add(to, node->text, node->len);
    else
        show_json(to, node->text, node->len);
}

void json_of_node(buffer *to, const config_node *node)
{
    if (node->kind == NODE_SCALAR) {
        add_scalar(to, node);
        return;
    }
    buffer_text(to, node->kind == NODE_MAP ? "{" : "[");
    for (size_t i = 0; i < node->count; i++) {
        if (i)
            buffer_text(to, ",");
        if (node->kind == NODE_MAP) {
            show_json(to, node->items[i]->key->text, node->items[i]->key->len);
            buffer_text(to, ":");
        }
        json_of_node(to, node->items[i]);
    }
    buffer_text(to, node->kind == NODE_MAP ? "}" : "]");
}
