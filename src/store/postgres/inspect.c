/* What the store can tell about its server and its own rights there. It reads settings and asks the
 * server about privileges; it tries nothing, and changes nothing. */
#include "store/sql/inspect.h"
#include "generated/postgres_migrations.h"
#include "store/postgres/postgres.h"

#include <stdio.h>
#include <string.h>

/* The columns of ST_INSPECT. */
enum {
    AT_VERSION,
    AT_ROLE,
    AT_DATABASE,
    AT_FSYNC,
    AT_COMMIT,
    AT_PAGES,
    AT_ISOLATION,
    AT_STANDBY,
    AT_READ_ONLY,
    AT_CONNECTIONS,
    AT_ROLE_CONNECTIONS,
    AT_NOW,
    AT_USAGE
};

typedef struct inspection {
    postgres_store *store;
    pg_connection *on;
    sql_findings found;
    const PGresult *server; /* one row */
} inspection;

static const char *setting(const inspection *in, int column)
{
    const char *text = pg_answer_text(in->server, 0, column);
    return text ? text : "";
}

static void find_store(inspection *in)
{
    sql_findings *found = &in->found;
    sql_find(found, SEMEL_SEVERITY_OK, "store", NULL, "PostgreSQL %s, database %s, role %s",
             setting(in, AT_VERSION), setting(in, AT_DATABASE), setting(in, AT_ROLE));
    if (pg_answer_int(in->server, 0, AT_STANDBY))
        sql_find(found, SEMEL_SEVERITY_ERROR, "store",
                 "use the address of the primary, or target_session_attrs=read-write",
                 "the server is a standby, which takes no writes");
    else if (pg_answer_int(in->server, 0, AT_READ_ONLY))
        sql_find(found, SEMEL_SEVERITY_ERROR, "store",
                 sql_find_text(found, "ALTER ROLE %s SET default_transaction_read_only = off;",
                               setting(in, AT_ROLE)),
                 "default_transaction_read_only is on, so nothing can be written");
    if (!in->store->direct)
        sql_find(found, SEMEL_SEVERITY_OK, "store", NULL,
                 "a pooler is in between: sessions are not kept between transactions");
}

static void find_durability(inspection *in)
{
    sql_findings *found = &in->found;
    int safe = pg_answer_int(in->server, 0, AT_FSYNC) && strcmp(setting(in, AT_COMMIT), "off") != 0;
    if (!pg_answer_int(in->server, 0, AT_FSYNC))
        sql_find(found, SEMEL_SEVERITY_WARNING, "durability",
                 "set fsync = on in postgresql.conf and restart the server",
                 "fsync is off, so a power failure can destroy the whole database");
    if (strcmp(setting(in, AT_COMMIT), "off") == 0)
        sql_find(found, SEMEL_SEVERITY_WARNING, "durability",
                 sql_find_text(found, "ALTER ROLE %s SET synchronous_commit = on;",
                               setting(in, AT_ROLE)),
                 "synchronous_commit is off, so a power failure can undo the last commits");
    if (!pg_answer_int(in->server, 0, AT_PAGES))
        sql_find(found, SEMEL_SEVERITY_WARNING, "durability",
                 "set full_page_writes = on in postgresql.conf and reload the server",
                 "full_page_writes is off, so a power failure can damage pages");
    else if (safe)
        sql_find(found, SEMEL_SEVERITY_OK, "durability", NULL,
                 "commits survive power loss (synchronous_commit is %s)", setting(in, AT_COMMIT));
}

static void find_isolation(inspection *in)
{
    const char *asked = in->store->at.isolation;
    sql_find(&in->found, SEMEL_SEVERITY_OK, "isolation", NULL,
             asked ? "transactions are %s, as the URL asks" : "transactions are %s by default",
             asked ? asked : setting(in, AT_ISOLATION));
}

static void find_limits(inspection *in)
{
    int64_t allowed = pg_answer_int(in->server, 0, AT_CONNECTIONS);
    int64_t of_role = pg_answer_int(in->server, 0, AT_ROLE_CONNECTIONS);
    int by_role = of_role >= 0 && of_role < allowed;
    sql_find_connections(&in->found, in->store->at.pool, (uint64_t)(by_role ? of_role : allowed),
                         by_role ? "the role's CONNECTION LIMIT" : "max_connections");
}

/* --- rights ----------------------------------------------------------------------------------- */

static size_t count_rights(void)
{
    size_t count = 0;
    while (sql_needed_rights[count].table && !sql_needed_rights[count].mariadb_only)
        count++;
    return count; /* those that only MariaDB needs are the last */
}

static void find_missing(inspection *in, const sql_needed_right *missing)
{
    const char *role = setting(in, AT_ROLE), *schema = in->store->at.schema;
    const char *right = sql_right_names[missing->right];
    sql_find(&in->found, missing->severity, "rights",
             sql_find_text(&in->found, "GRANT %s ON %s.semel_%s TO %s;", right, schema,
                           missing->table, role),
             "role %s has no %s privilege on %s.semel_%s, so %s", role, right, schema,
             missing->table, missing->otherwise);
}

/* Tables and privileges as two arrays; the answer has the numbers of those that are not granted. */
static void bind_rights(pg_query *q, mem_arena *arena, size_t count)
{
    enum { NAME_TEXT = 32 };
    pg_array tables = pg_array_start(arena, ARRAY_TEXT, count, count * NAME_TEXT);
    pg_array rights = pg_array_start(arena, ARRAY_TEXT, count, count * NAME_TEXT);
    for (size_t i = 0; i < count; i++) {
        char name[NAME_TEXT];
        const char *right = sql_right_names[sql_needed_rights[i].right];
        (void)snprintf(name, sizeof name, "semel_%s", sql_needed_rights[i].table);
        pg_array_add(&tables, name, strlen(name));
        pg_array_add(&rights, right, strlen(right));
    }
    pg_array_bind(q, &tables);
    pg_array_bind(q, &rights);
}

static semel_status find_rights_on_tables(inspection *in, semel_error *err)
{
    PGresult *answer = NULL;
    size_t count = count_rights();
    pg_query q = pg_start(in->on, ST_INSPECT_RIGHTS);
    pg_text(&q, in->store->at.schema);
    bind_rights(&q, &in->found.arena, count);
    semel_status status = pg_execute_alone(&answer, &q, "reading privileges", err);
    int missing = status ? 0 : PQntuples(answer);
    for (int row = 0; row < missing; row++)
        find_missing(in, &sql_needed_rights[pg_answer_int(answer, row, 0) - 1]);
    if (!status && !missing)
        sql_find(&in->found, SEMEL_SEVERITY_OK, "rights", NULL,
                 "role %s has the rights that run needs on semel's tables", setting(in, AT_ROLE));
    PQclear(answer);
    return status;
}

/* Of the functions for SQL (docs/SQL.md): `run` does without them. */
static semel_status find_rights_on_functions(inspection *in, semel_error *err)
{
    PGresult *answer = NULL;
    const char *role = setting(in, AT_ROLE), *schema = in->store->at.schema;
    pg_query q = pg_start(in->on, ST_INSPECT_FUNCTIONS);
    pg_text(&q, schema);
    semel_status status = pg_execute_alone(&answer, &q, "reading privileges", err);
    if (!status && pg_answer_int(answer, 0, 0))
        sql_find(&in->found, SEMEL_SEVERITY_OK, "rights",
                 sql_find_text(&in->found, "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA %s TO %s;",
                               schema, role),
                 "role %s has no EXECUTE privilege on functions of schema %s, so it cannot receive "
                 "and send in SQL",
                 role, schema);
    PQclear(answer);
    return status;
}

/* Of a schema that is not there there are no rights. */
static semel_status find_rights(inspection *in, int *usable, semel_error *err)
{
    int64_t usage = pg_answer_int(in->server, 0, AT_USAGE); /* -1: no schema */
    const char *role = setting(in, AT_ROLE), *schema = in->store->at.schema;
    *usable = usage > 0;
    if (usage == 0)
        sql_find(&in->found, SEMEL_SEVERITY_ERROR, "rights",
                 sql_find_text(&in->found, "GRANT USAGE ON SCHEMA %s TO %s;", schema, role),
                 "role %s has no USAGE privilege on schema %s, so nothing can be read or written",
                 role, schema);
    if (usage < 0)
        sql_find(&in->found, SEMEL_SEVERITY_OK, "rights", NULL,
                 "there are no tables of semel's yet");
    semel_status status = usage > 0 ? find_rights_on_tables(in, err) : SEMEL_OK;
    return usage > 0 && !status ? find_rights_on_functions(in, err) : status;
}

/* SELECT on the table of versions may be what is missing: then the schema is not known, and the
 * rights say why. */
static semel_status find_schema(inspection *in, int usable, semel_error *err)
{
    semel_error why = {0};
    sql_versions versions = {0};
    semel_status status = pg_schema_versions(&versions, in->store, in->on, &why);
    if (strcmp(why.sqlstate, "42501") == 0 || (!usable && status && status != SEMEL_ESCHEMA)) {
        sql_find(&in->found, SEMEL_SEVERITY_ERROR, "schema", NULL,
                 "the version of semel's tables cannot be read");
        return SEMEL_OK;
    }
    return sql_find_schema(&in->found, postgres_migrations, &versions, status, &why, err);
}

/* --- all -------------------------------------------------------------------------------------- */

static semel_status inspect_on(inspection *in, semel_error *err)
{
    PGresult *answer = NULL;
    int usable = 0;
    pg_query q = pg_start(in->on, ST_INSPECT);
    pg_text(&q, in->store->at.schema);
    semel_status status = pg_execute_alone(&answer, &q, "reading the server's settings", err);
    int64_t host_ms = seam_wall_ms(in->store->seam);
    in->server = answer;
    if (!status) {
        find_store(in);
        find_durability(in);
        find_isolation(in);
        sql_find_clock(&in->found, host_ms, pg_answer_int(answer, 0, AT_NOW));
        find_limits(in);
        status = find_rights(in, &usable, err);
    }
    if (!status)
        status = find_schema(in, usable, err);
    PQclear(answer);
    return status;
}

static semel_status postgres_inspect(void *state, semel_finding_visitor *visitor, void *context,
                                     semel_error *err)
{
    inspection in = {.store = state};
    semel_status status = pg_store_borrow(&in.on, state, err);
    if (status)
        return status;
    status = inspect_on(&in, err);
    pg_store_give_back(state, in.on);
    return sql_findings_show(&in.found, status, visitor, context, err);
}

const semel_store_inspection postgres_inspection = {
    .schema = postgres_schema,
    .migrate_to = postgres_migrate_to,
    .inspect = postgres_inspect,
};
