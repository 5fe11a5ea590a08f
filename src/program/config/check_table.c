/* Tables of the application whose rows are sent (outboxes.NAME.table). Their names become parts of
 * statements, so nothing but letters, digits and underscores is accepted. */
#include "program/config/check.h"
#include "program/config/read.h"
#include "program/handler/value_sql.h"

#include <string.h>
#include <strings.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"

static void check_name(const checking *c, const config_node *table, const char *option_name)
{
    const config_node *node =
        read_find(&section_table, table, option_find(&section_table, option_name));
    int is_table = strcmp(option_name, "name") == 0, is_prefix = strcmp(option_name, "prefix") == 0;
    const char *allowed = is_prefix  ? LETTERS DIGITS "_.-"
                          : is_table ? LETTERS DIGITS "_."
                                     : LETTERS DIGITS "_";
    if (!node || !node->text || !node->text[strspn(node->text, allowed)])
        return;
    diagnostic_at(c->found, "table", node, "character %zu is not a letter, digit or _%s",
                  strspn(node->text, allowed) + 1,
                  is_prefix  ? ", dot or dash"
                  : is_table ? ", nor the dot behind a schema"
                             : "");
}

static void check_body(const checking *c, const outbox_config *outbox, const config_node *table)
{
    if (outbox->table.preset != TABLE_DEBEZIUM && !outbox->table.body)
        diagnostic_at(c->found, "table", table, "name the column of the body, or use the preset");
}

/* Only PostgreSQL has tables of other schemas that a trigger can belong to. */
static void check_store(const checking *c, const config_node *table, const char *name)
{
    const char *url = c->all->store_url;
    if (!url)
        return;
    if (!sql_kind_of(url))
        diagnostic_at(c->found, "table", table,
                      "the store has no tables of yours; use sqlite:, postgres: or mariadb:");
    else if (strchr(name, '.') && sql_kind_of(url) != SQL_KIND_POSTGRES)
        diagnostic_at(c->found, "table", table,
                      "write the table without a dot: it is one of the store's own database");
}

/* A table has one trigger of semel's. */
static void check_twice(const checking *c, const outbox_config *outbox, const config_node *table)
{
    for (const outbox_config *other = c->all->outboxes; other != outbox; other++)
        if (other->table.name && strcasecmp(other->table.name, outbox->table.name) == 0)
            diagnostic_at(c->found, "table", table, "the outbox \"%s\" has this table already",
                          other->name);
}

void check_tables(const checking *c)
{
    static const char *const names[] = {"name", "id", "type", "group", "topic", "body", "prefix"};
    const config_node *map = tree_find(c->all->root, "outboxes");
    for (size_t i = 0; i < c->all->outbox_count; i++) {
        const outbox_config *outbox = &c->all->outboxes[i];
        const config_node *table = read_find(&section_outbox, tree_find(map, outbox->name),
                                             option_find(&section_outbox, "table"));
        if (!outbox->table.name || !table)
            continue;
        check_store(c, table, outbox->table.name);
        check_twice(c, outbox, table);
        check_body(c, outbox, table);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            check_name(c, table, names[k]);
    }
}
