/* See layout.h. The SQL of SQLite is in layout_sqlite.c, that of MariaDB in layout_mariadb.c. On
 * PostgreSQL the function semel_capture_table() does it all in one transaction: it compares the
 * trigger that is there, replaces it if it is another one, and sends the rows that were in the
 * table before the trigger was. */
#include "program/capture/layout_internal.h"
#include "program/support/url_text.h"

#include <string.h>

static const table_config *preset_of(const table_config *given)
{
    static const table_config debezium = {.id = "id",
                                          .type = "type",
                                          .group = "aggregateid",
                                          .topic = "aggregatetype",
                                          .body = "payload",
                                          .prefix = "outbox.event."};
    static const table_config none = {
        .id = "", .type = "", .group = "", .topic = "", .body = "", .prefix = ""};
    return given->preset == TABLE_DEBEZIUM ? &debezium : &none;
}

static const char *place_of(region *memory, sql_kind kind, const char *url)
{
    int is_postgres = kind == SQL_KIND_POSTGRES;
    const char *given = url_parameter(memory, url, is_postgres ? "schema" : "prefix");
    return given ? given : is_postgres ? "public" : "semel_";
}

capture_layout capture_layout_of(region *memory, const config *all, const outbox_config *outbox)
{
    const table_config *given = &outbox->table, *preset = preset_of(given);
    sql_kind kind = sql_kind_of(all->store_url);
    return (capture_layout){.kind = kind,
                            .place = place_of(memory, kind, all->store_url),
                            .outbox = outbox->name,
                            .table = given->name,
                            .id = given->id ? given->id : preset->id,
                            .type = given->type ? given->type : preset->type,
                            .group = given->group ? given->group : preset->group,
                            .topic = given->topic ? given->topic : preset->topic,
                            .body = given->body ? given->body : preset->body,
                            .prefix = given->prefix ? given->prefix : preset->prefix};
}

/* --- PostgreSQL ------------------------------------------------------------------------------- */

/* As encode(tgargs, 'escape') shows them: a zero byte behind each. */
static const char *postgres_arguments(region *memory, const capture_layout *l, int body_is_bytes)
{
    return region_printf(memory, "%s\\000%s\\000%s\\000%s\\000%s\\000%s\\000%s\\000%s\\000",
                         l->outbox, l->id, l->type, l->group, l->topic, l->body, l->prefix,
                         body_is_bytes ? "yes" : "no");
}

static const char *postgres_call(region *memory, const capture_layout *l)
{
    return region_printf(
        memory,
        "SELECT \"%s\".semel_capture_table('%s', '%s', id => '%s', type => '%s', grp => '%s', "
        "topic => '%s', body => '%s', prefix => '%s')",
        l->place, l->outbox, l->table, l->id, l->type, l->group, l->topic, l->body, l->prefix);
}

/* --- all -------------------------------------------------------------------------------------- */

const char *capture_trigger_name(region *memory, const capture_layout *l)
{
    return l->kind == SQL_KIND_POSTGRES ? "semel_capture"
                                        : region_printf(memory, "semel_capture_%s", l->table);
}

const char *capture_definition(region *memory, const capture_layout *l, int body_is_bytes)
{
    return l->kind == SQL_KIND_POSTGRES  ? postgres_arguments(memory, l, body_is_bytes)
           : l->kind == SQL_KIND_MARIADB ? mariadb_trigger_body(memory, l)
                                         : sqlite_trigger(memory, l);
}

size_t capture_statements(region *memory, const capture_layout *l, capture_how how,
                          const char *out[CAPTURE_STATEMENTS_MAX])
{
    if (l->kind == SQL_KIND_SQLITE)
        return sqlite_statements(memory, l, how, out);
    if (l->kind == SQL_KIND_MARIADB)
        return mariadb_statements(memory, l, how, out);
    out[0] = postgres_call(memory, l);
    return 1;
}

const char *capture_removal(region *memory, sql_kind kind, const char *trigger, const char *table)
{
    return kind == SQL_KIND_POSTGRES
               ? region_printf(memory, "DROP TRIGGER %s ON %s", trigger, table)
               : region_printf(memory, "DROP TRIGGER %s", trigger);
}
