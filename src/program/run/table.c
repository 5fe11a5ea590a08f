/* See table.h.
 *
 * On PostgreSQL the function semel_capture_table() does it all, in one transaction: it compares
 * the trigger that is there, replaces it if it is another one, and sends the rows that were in the
 * table before the trigger was. For that it must see what was committed while it waited for the
 * table, so the transaction is READ COMMITTED, whatever the URL or the role asks for. MariaDB
 * creates no trigger in a function and commits with each of them; so the trigger is created unless
 * it is there, and rows from before it are not sent. One that is there and does something else is
 * refused: between dropping it and creating another one, rows would be lost. That is looked at
 * before, which also finds out whether the functions are there, and after, when another program may
 * have created it first.
 *
 * All names were checked (check_table.c): they have letters, digits, underscores and dots. */
#include "program/run/table.h"

#include "program/support/memory.h"

#include <string.h>

enum { STATEMENTS_MAX = 3 };

/* The table as the preset and the options describe it; "" is a column that is absent. */
static table_config complete(const table_config *given)
{
    static const table_config debezium = {.id = "id",
                                          .type = "type",
                                          .group = "aggregateid",
                                          .topic = "aggregatetype",
                                          .body = "payload",
                                          .prefix = "outbox.event."};
    static const table_config none = {
        .id = "", .type = "", .group = "", .topic = "", .body = "", .prefix = ""};
    table_config found = given->preset == TABLE_DEBEZIUM ? debezium : none;
    found.name = given->name;
    found.id = given->id ? given->id : found.id;
    found.type = given->type ? given->type : found.type;
    found.group = given->group ? given->group : found.group;
    found.topic = given->topic ? given->topic : found.topic;
    found.body = given->body ? given->body : found.body;
    found.prefix = given->prefix ? given->prefix : found.prefix;
    return found;
}

/* Where the value of a parameter of the URL stands; NULL if it is not there. */
static const char *find_value(const char *url, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = strchr(url, '?'); at; at = strchr(at + 1, '&'))
        if (strncmp(at + 1, name, len) == 0 && at[1 + len] == '=')
            return at + len + 2;
    return NULL;
}

static const char *parameter(region *to, const char *url, const char *name, const char *otherwise)
{
    const char *value = find_value(url, name);
    return value ? region_copy(to, value, strcspn(value, "&#")) : otherwise;
}

static const char *at_read_committed(region *to, const char *url)
{
    const char *value = find_value(url, "isolation");
    if (!value)
        return region_printf(to, "%s%cisolation=read-committed", url, strchr(url, '?') ? '&' : '?');
    return region_printf(to, "%.*sread-committed%s", (int)(value - url), url,
                         value + strcspn(value, "&#"));
}

static const char *for_postgres(region *to, const char *url, const outbox_config *outbox)
{
    table_config t = complete(&outbox->table);
    return region_printf(
        to,
        "SELECT %s.semel_capture_table('%s', '%s', id => '%s', type => '%s', grp => '%s', "
        "topic => '%s', body => '%s', prefix => '%s')",
        parameter(to, url, "schema", "public"), outbox->name, t.name, t.id, t.type, t.group,
        t.topic, t.body, t.prefix);
}

/* A value of the new row. */
static const char *column(region *to, const char *name)
{
    return *name ? region_printf(to, "NEW.`%s`", name) : "NULL";
}

/* What the trigger does for each row. */
static const char *trigger_body(region *to, const table_config *t, const char *prefix,
                                const char *outbox)
{
    const char *topic =
        *t->topic ? region_printf(to, "CONCAT('%s', NEW.`%s`)", t->prefix, t->topic) : "NULL";
    return region_printf(
        to, "SET @semel = %ssend_message('%s', %s, %s, %s, NULL, %s, %s, NULL, NULL, NULL, NULL)",
        prefix, outbox, column(to, t->type), column(to, t->body), column(to, t->id), topic,
        column(to, t->group));
}

/* As a literal of SQL. */
static const char *quoted(region *to, const char *text)
{
    char *out = region_alloc(to, 2 * strlen(text) + 3), *end = out;
    *end++ = '\'';
    for (; *text; text++) {
        if (*text == '\'')
            *end++ = '\'';
        *end++ = *text;
    }
    memcpy(end, "'", sizeof "'");
    return out;
}

static size_t for_mariadb(region *to, const char *url, const outbox_config *outbox,
                          const char *out[STATEMENTS_MAX])
{
    table_config t = complete(&outbox->table);
    const char *prefix = parameter(to, url, "prefix", "semel_");
    const char *body = trigger_body(to, &t, prefix, outbox->name);
    out[0] =
        region_printf(to, "SELECT %scheck_capture('%s', %s)", prefix, t.name, quoted(to, body));
    out[1] = region_printf(
        to, "CREATE TRIGGER IF NOT EXISTS `semel_capture_%s` AFTER INSERT ON `%s` FOR EACH ROW %s",
        t.name, t.name, body);
    out[2] = out[0];
    return 3;
}

static int is_postgres(const char *url)
{
    return strncmp(url, "postgres", strlen("postgres")) == 0;
}

/* How many there are: 0 if the outbox has no table, or the store no way to do it. */
static size_t statements(region *to, const char *url, const outbox_config *outbox,
                         const char *out[STATEMENTS_MAX])
{
    if (!outbox->table.name)
        return 0;
    if (is_postgres(url)) {
        out[0] = for_postgres(to, url, outbox);
        return 1;
    }
    int is_maria = strncmp(url, "mariadb:", strlen("mariadb:")) == 0 ||
                   strncmp(url, "mysql:", strlen("mysql:")) == 0;
    return is_maria ? for_mariadb(to, url, outbox, out) : 0;
}

/* On a store of its own: the isolation of a store is that of its URL. */
static semel_status run_read_committed(region *to, const config *all, const char *statement,
                                       semel_error *err)
{
    semel_store *store = NULL;
    const char *url = at_read_committed(to, all->store_url);
    semel_status status = semel_store_open(&store, url, &all->store, err);
    if (!status)
        status = semel_store_run(store, &statement, 1, NULL, err);
    semel_store_close(store);
    return status;
}

static semel_status capture(region *to, semel_store *store, const config *all,
                            const outbox_config *outbox, semel_error *err)
{
    const char *found[STATEMENTS_MAX];
    size_t count = statements(to, all->store_url, outbox, found);
    if (!count)
        return SEMEL_OK;
    return is_postgres(all->store_url) ? run_read_committed(to, all, found[0], err)
                                       : semel_store_run(store, found, count, NULL, err);
}

semel_status table_capture(semel_store *store, const config *all, semel_error *err)
{
    semel_status status = SEMEL_OK;
    region memory = {0};
    for (size_t i = 0; !status && i < all->outbox_count; i++)
        status = capture(&memory, store, all, &all->outboxes[i], err);
    region_free(&memory);
    return status;
}
