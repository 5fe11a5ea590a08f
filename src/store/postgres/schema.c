/* The schema and its versions. Each migration is a transaction of its own, one process at a time by
 * an advisory lock that ends with it. PostgreSQL's DDL is transactional: a step is there as a whole
 * or not at all. */
#include "store/postgres/postgres.h"

#include "generated/postgres_migrations.h"
#include "store/sql/sql.h"

#include <string.h>

typedef struct schema_state {
    int has_schema;
    int has_table;
    sql_versions found;
} schema_state;

static semel_status read_versions(sql_versions *out, pg_connection *on, semel_error *err)
{
    PGresult *answer = NULL;
    pg_query q = pg_start(on, ST_SCHEMA_VERSIONS);
    semel_status status = pg_execute_alone(&answer, &q, "reading the schema's version", err);
    if (!status)
        *out = (sql_versions){.version = pg_answer_int(answer, 0, 0),
                              .needs = pg_answer_int(answer, 0, 1)};
    PQclear(answer);
    return status;
}

static semel_status read_state(schema_state *out, postgres_store *store, pg_connection *on,
                               semel_error *err)
{
    PGresult *answer = NULL;
    pg_query q = pg_start(on, ST_SCHEMA_THERE);
    pg_text(&q, store->at.schema);
    semel_status status = pg_execute_alone(&answer, &q, "looking for semel's tables", err);
    if (status)
        return status;
    *out = (schema_state){.has_schema = (int)pg_answer_int(answer, 0, 0),
                          .has_table = (int)pg_answer_int(answer, 0, 1)};
    int is_ours = pg_answer_int(answer, 0, 2) == 3;
    PQclear(answer);
    if (out->has_table && !is_ours)
        return semel_fail(err, SEMEL_ESCHEMA,
                          "the table semel_schema is not semel's: rename it, or use another schema "
                          "(?schema=...)");
    return out->has_table ? read_versions(&out->found, on, err) : SEMEL_OK;
}

semel_status pg_schema_versions(sql_versions *out, postgres_store *store, pg_connection *on,
                                semel_error *err)
{
    schema_state state = {0};
    semel_status status = read_state(&state, store, on, err);
    *out = state.found;
    return status;
}

semel_status pg_schema_check(postgres_store *store, pg_connection *on, semel_error *err)
{
    sql_versions found;
    semel_status status = pg_schema_versions(&found, store, on, err);
    return status ? status : sql_schema_check(postgres_migrations, &found, err);
}

enum { MIGRATION_MS = 3600000 }; /* a table of many rows takes as long as it takes */

/* Several statements in one text, with the schema's name in it. */
static semel_status run_script(postgres_store *store, pg_connection *on, const char *script,
                               const char *doing, semel_error *err)
{
    mem_arena arena = {0};
    const char *text = sql_fill(&arena, script, store->quoted);
    semel_status status = text ? pg_execute_text(on, text, MIGRATION_MS, doing, err)
                               : semel_fail(err, SEMEL_ENOMEM, "out of memory migrating");
    arena_free(&arena);
    return status;
}

static semel_status record_needs(pg_connection *on, const sql_migration *due, semel_error *err)
{
    size_t changed = 0;
    pg_query q = pg_start(on, ST_SCHEMA_NEEDS);
    pg_int(&q, due->version);
    pg_int(&q, due->needs);
    return pg_execute_change(&q, &changed, "recording a migration", err);
}

static semel_status record_step(pg_connection *on, const sql_migration *due, semel_error *err)
{
    size_t changed = 0;
    pg_query q = pg_start(on, ST_SCHEMA_RECORD);
    pg_int(&q, due->version);
    pg_text(&q, due->name);
    semel_status status = pg_execute_change(&q, &changed, "recording a migration", err);
    return status || due->version < SQL_NEEDS_VERSION ? status : record_needs(on, due, err);
}

#define MAKE_SCHEMA                                                                       \
    "CREATE TABLE IF NOT EXISTS {}.semel_schema (version integer PRIMARY KEY, name text " \
    "NOT NULL, applied_ms bigint NOT NULL)"
#define MIGRATION_LOCK "pg_advisory_xact_lock(hashtextextended('semel {}', 0))"

static semel_status apply_step(postgres_store *store, pg_connection *on, const schema_state *state,
                               const sql_migration *due, semel_error *err)
{
    semel_status status = SEMEL_OK;
    if (!state->has_schema)
        status =
            run_script(store, on, "CREATE SCHEMA IF NOT EXISTS {}", "creating the schema", err);
    if (!status && !state->has_table)
        status = run_script(store, on, MAKE_SCHEMA, "creating semel_schema", err);
    if (!status)
        status = run_script(store, on, due->sql, due->name, err);
    if (!status)
        status = record_step(on, due, err);
    return status ? status : seam_fault(store->seam, "migrate.applied", err);
}

/* In the open transaction: one step, if one is due up to this version. *more is 0 when there is
 * none. */
static semel_status step_in_transaction(int *more, postgres_store *store, pg_connection *on,
                                        int32_t last, semel_error *err)
{
    schema_state state = {0};
    semel_status status =
        run_script(store, on, "SELECT " MIGRATION_LOCK, "waiting for another migration", err);
    if (!status)
        status = read_state(&state, store, on, err);
    if (!status)
        status = sql_schema_check_usable(postgres_migrations, &state.found, err);
    const sql_migration *due = sql_schema_next(postgres_migrations, state.found.version);
    *more = !status && due && due->version <= last;
    return *more ? apply_step(store, on, &state, due, err) : status;
}

static semel_status migrate_step(int *more, postgres_store *store, pg_connection *on, int32_t last,
                                 semel_error *err)
{
    semel_status status =
        run_script(store, on, "BEGIN ISOLATION LEVEL READ COMMITTED", "migrating", err);
    if (status)
        return status;
    pg_bound_alone(on);
    status = step_in_transaction(more, store, on, last, err);
    if (!status && *more) {
        status = run_script(store, on, "COMMIT", "committing a migration", err);
        return status ? status : seam_fault(store->seam, "migrate.committed", err);
    }
    if (run_script(store, on, "ROLLBACK", "ending a migration", NULL))
        on->lost = 1;
    return status;
}

semel_status postgres_migrate_to(void *state, int32_t version, semel_error *err)
{
    postgres_store *store = state;
    pg_connection *on = NULL;
    int more = 1;
    semel_status status = sql_schema_check_target(postgres_migrations, version, err);
    if (!status)
        status = pg_store_borrow(&on, store, err);
    if (status)
        return status;
    while (!status && more)
        status = migrate_step(&more, store, on, version, err);
    pg_store_give_back(store, on);
    return status;
}

semel_status postgres_migrate(void *state, semel_error *err)
{
    return postgres_migrate_to(state, sql_schema_newest(postgres_migrations), err);
}

/* --- the steps, for a tool -------------------------------------------------------------------- */

/* One statement that does all of it or nothing, and nothing if the step was taken already. */
static const char before[] =
    "BEGIN;\n"
    "DO $semel_step$\n"
    "BEGIN\n"
    "PERFORM " MIGRATION_LOCK ";\n"
    "IF to_regnamespace('{}') IS NULL THEN CREATE SCHEMA {}; END IF;\n"
    "IF to_regclass('{}.semel_schema') IS NULL THEN\n" MAKE_SCHEMA ";\n"
    "END IF;\n"
    "IF NOT EXISTS (SELECT FROM {}.semel_schema WHERE version = {version}) THEN\n";
static const char record[] = "INSERT INTO {}.semel_schema (version, name, applied_ms)\n"
                             "    VALUES ({version}, '{name}', floor(date_part('epoch', "
                             "clock_timestamp()) * 1000)::bigint);\n";
static const char needs[] =
    "UPDATE {}.semel_schema SET needs = {needs} WHERE version = {version};\n";
static const char after[] = "END IF;\n"
                            "END\n"
                            "$semel_step$;\n"
                            "COMMIT;\n";

static semel_status read_applied(sql_applied *out, postgres_store *store, pg_connection *on,
                                 semel_error *err)
{
    schema_state found = {0};
    PGresult *answer = NULL;
    semel_status status = read_state(&found, store, on, err);
    if (status || !found.has_table)
        return status;
    pg_query q = pg_start(on, ST_SCHEMA_STEPS);
    status = pg_execute_alone(&answer, &q, "reading the schema's steps", err);
    for (int row = 0; !status && row < PQntuples(answer); row++)
        sql_applied_note(out, pg_answer_int(answer, row, 0), pg_answer_int(answer, row, 1),
                         pg_answer_int(answer, row, 2), pg_answer_text(answer, row, 3));
    PQclear(answer);
    return status;
}

semel_status postgres_schema(void *state, semel_schema_visitor *visitor, void *context,
                             semel_error *err)
{
    postgres_store *store = state;
    pg_connection *on = NULL;
    sql_applied applied = {0};
    sql_script_frame frame = {
        .before = before, .record = record, .needs = needs, .after = after, .name = store->quoted};
    semel_status status = pg_store_borrow(&on, store, err);
    if (status)
        return status;
    status = read_applied(&applied, store, on, err);
    pg_store_give_back(store, on);
    return status ? status
                  : sql_schema_show(postgres_migrations, &applied, &frame, visitor, context, err);
}
