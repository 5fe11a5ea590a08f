/* Passwords that are written into a file that others can read. What comes from ${NAME} or
 * ${file:PATH} is not in the file. */
#include "program/config/check.h"
#include "program/config/interpolate.h"
#include "program/config/readable.h"

#include <string.h>

static const char *file_name_for(const char *url)
{
    if (strncmp(url, "postgres", 8) == 0)
        return "pg.password";
    if (strncmp(url, "redis", 5) == 0 || strncmp(url, "valkey", 6) == 0)
        return "redis.password";
    if (strncmp(url, "nats", 4) == 0)
        return "nats.password";
    return strncmp(url, "amqp", 4) == 0 ? "mq.password" : "db.password";
}

static void report(const checking *c, const config_node *node, place at, const char *what,
                   const char *file)
{
    diagnostic *d = diagnostic_add(
        c->found, LEVEL_ERROR, "password", at, tree_path(&c->found->memory, node),
        "%s in a file that other users can read (mode %04o)", what, node->at.source->mode);
    diagnostic_help(c->found, d, "fix: chmod 600 %s, or better, replace the %s with ${file:%s}",
                    c->all->path, what, file);
}

static void check_scalar(const checking *c, const config_node *node)
{
    secret_span password = secret_in_url(node->raw, strlen(node->raw));
    const config_node *named = node->key || !node->parent ? node : node->parent; /* of a list */
    const char *name = named->key ? named->key->text : "";
    if (password.len)
        report(c, node, tree_part(node, password.from, password.len), "password",
               file_name_for(node->raw));
    else if (secret_is_name(name, strlen(name)) && node->len &&
             !secret_is_substituted(node->raw, strlen(node->raw)))
        report(c, node, node->at, "secret", region_printf(&c->found->memory, "%s.secret", name));
}

/* Messages that are sent, and those of tests, hold no secrets of the configuration. */
static int is_message(const config_node *node)
{
    return node->key &&
           (strcmp(node->key->text, "send") == 0 || strcmp(node->key->text, "tests") == 0);
}

static void check_tree(const checking *c, const config_node *node)
{
    if (is_message(node))
        return;
    if (node->kind == NODE_SCALAR && node->at.source->text)
        check_scalar(c, node);
    for (size_t i = 0; i < node->count; i++)
        check_tree(c, node->items[i]);
}

void check_passwords(const checking *c)
{
    if (readable_by_others(c->all->root->at.source->mode, 0))
        check_tree(c, c->all->root);
}
