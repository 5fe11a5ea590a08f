/* The schema: which version is there, and the steps from it to ours.
 *
 * The steps are the files in sql/sqlite/, embedded at build time. Each is applied in a transaction
 * of its own together with the row that says so; dying in between leaves the step before, and
 * calling again goes on from there. Several processes may migrate at once: the version is read
 * again inside each transaction.
 *
 * Three things are refused, since going on would destroy: tables of a newer semel that say that
 * this one must not use them, tables named semel_... that are not semel's, and no tables at all
 * (which migrate makes). */
#include "generated/sqlite_migrations.h"
#include "store/sqlite/sqlite.h"

#include <string.h>

/* The first `count` numbers of the one row of a query without parameters. */
static semel_status read_numbers(sqlite_connection *on, const char *sql, int64_t *out, int count,
                                 semel_error *err)
{
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(on->db, sql, -1, &stmt, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(stmt);
    semel_status status = SEMEL_OK;
    if (code != SQLITE_ROW)
        status = sqlite_connection_fail(on, code, "reading the schema", err);
    for (int i = 0; !status && i < count; i++)
        out[i] = sqlite3_column_int64(stmt, i);
    sqlite3_finalize(stmt);
    return status;
}

#define COUNT_TABLES "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name "

static semel_status read_recorded(sqlite_connection *on, sql_versions *out, semel_error *err)
{
    int64_t found[2] = {0};
    semel_status status = read_numbers(on, SQL_SCHEMA_VERSIONS("semel_schema"), found, 2, err);
    *out = (sql_versions){.version = found[0], .needs = found[1]};
    return status;
}

semel_status sqlite_schema_versions(sql_versions *out, sqlite_connection *on, semel_error *err)
{
    int64_t ours = 0, others = 0;
    semel_status status = read_numbers(on, COUNT_TABLES "= 'semel_schema'", &ours, 1, err);
    if (!status)
        status = read_numbers(on, COUNT_TABLES "GLOB 'semel_*'", &others, 1, err);
    if (status)
        return status;
    *out = (sql_versions){0};
    if (!ours && others)
        return semel_fail(
            err, SEMEL_ESCHEMA,
            "the database has tables named semel_... that semel did not make (there is no "
            "semel_schema): rename them, or use another file");
    if (!ours)
        return SEMEL_OK;
    int64_t shape = 0;
    status = read_numbers(on,
                          "SELECT count(*) FROM pragma_table_info('semel_schema') "
                          "WHERE name IN ('version', 'name', 'applied_ms')",
                          &shape, 1, err);
    if (!status && shape != 3)
        return semel_fail(err, SEMEL_ESCHEMA,
                          "the table semel_schema is not semel's: rename it, or use another file");
    return status ? status : read_recorded(on, out, err);
}

semel_status sqlite_schema_check(sqlite_connection *on, semel_error *err)
{
    sql_versions found;
    semel_status status = sqlite_schema_versions(&found, on, err);
    return status ? status : sql_schema_check(sqlite_migrations, &found, err);
}

#define MAKE_SCHEMA                                                                              \
    "CREATE TABLE IF NOT EXISTS semel_schema (version INTEGER PRIMARY KEY, name TEXT NOT NULL, " \
    "applied_ms INTEGER NOT NULL)"

/* Takes the statement. */
static semel_status run_made(sqlite_store *store, char *sql, semel_error *err)
{
    if (!sql)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory migrating");
    semel_status status = sqlite_connection_exec(&store->writer, sql, "recording a migration", err);
    sqlite3_free(sql);
    return status;
}

static semel_status record_step(sqlite_store *store, const sql_migration *step, semel_error *err)
{
    semel_status status =
        run_made(store,
                 sqlite3_mprintf("INSERT INTO semel_schema (version, name, applied_ms) "
                                 "VALUES (%d, %Q, %lld)",
                                 step->version, step->name, (long long)seam_wall_ms(store->seam)),
                 err);
    if (status || step->version < SQL_NEEDS_VERSION)
        return status;
    return run_made(store,
                    sqlite3_mprintf("UPDATE semel_schema SET needs = %d WHERE version = %d",
                                    step->needs, step->version),
                    err);
}

static semel_status apply_step(sqlite_store *store, const sql_migration *step, semel_error *err)
{
    semel_status status =
        sqlite_connection_exec(&store->writer, MAKE_SCHEMA, "creating semel_schema", err);
    if (!status)
        status = sqlite_connection_exec(&store->writer, step->sql, step->name, err);
    if (!status)
        status = record_step(store, step, err);
    return status ? status : seam_fault(store->seam, "migrate.applied", err);
}

/* One step, if one is due up to this version. *more is 0 when there is none. */
static semel_status migrate_step(sqlite_store *store, int32_t last, int *more, semel_error *err)
{
    sqlite_unit unit = {.alone = 1};
    sql_versions found = {0};
    semel_status status = sqlite_begin(store, &unit, SEMEL_BEGIN_DURABLE, store->busy_ms, err);
    if (status)
        return status;
    status = sqlite_schema_versions(&found, &store->writer, err);
    if (!status)
        status = sql_schema_check_usable(sqlite_migrations, &found, err);
    const sql_migration *due = sql_schema_next(sqlite_migrations, found.version);
    *more = !status && due && due->version <= last;
    if (*more)
        status = apply_step(store, due, err);
    if (status || !*more) {
        sqlite_rollback(&unit);
        return status;
    }
    status = sqlite_commit(&unit, err);
    return status ? status : seam_fault(store->seam, "migrate.committed", err);
}

semel_status sqlite_migrate_to(void *state, int32_t version, semel_error *err)
{
    int more = 1;
    semel_status status = sql_schema_check_target(sqlite_migrations, version, err);
    while (!status && more)
        status = migrate_step(state, version, &more, err);
    return status;
}

semel_status sqlite_migrate(void *state, semel_error *err)
{
    return sqlite_migrate_to(state, sql_schema_newest(sqlite_migrations), err);
}

/* --- the steps, for a tool -------------------------------------------------------------------- */

/* The shell goes on behind an error unless it is told not to; the row comes first, so that a second
 * run fails before it has changed anything. */
static const sql_script_frame frame = {
    .before = ".bail on\n"
              "BEGIN IMMEDIATE;\n" MAKE_SCHEMA ";\n"
              "-- if the step was taken already, this line fails, and nothing is changed:\n"
              "INSERT INTO semel_schema (version, name, applied_ms) VALUES ({version}, '{name}', "
              "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER));\n",
    .record = "",
    .needs = "UPDATE semel_schema SET needs = {needs} WHERE version = {version};\n",
    .after = "COMMIT;\n",
    .name = ""};

static semel_status read_applied(sqlite_connection *on, sql_applied *out, semel_error *err)
{
    sql_versions found = {0};
    semel_status status = sqlite_schema_versions(&found, on, err);
    if (status || !found.version)
        return status;
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(on->db, SQL_SCHEMA_STEPS("semel_schema"), -1, &stmt, NULL);
    while (code == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW)
        sql_applied_note(out, sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1),
                         sqlite3_column_int64(stmt, 2), (const char *)sqlite3_column_text(stmt, 3));
    if (sqlite3_finalize(stmt) != SQLITE_OK || code != SQLITE_OK)
        status = sqlite_connection_fail(on, code, "reading the schema", err);
    return status;
}

semel_status sqlite_schema(void *state, semel_schema_visitor *visitor, void *context,
                           semel_error *err)
{
    sqlite_store *store = state;
    sql_applied applied = {0};
    semel_status status = sqlite_reader_enter(store, err);
    if (status)
        return status;
    status = read_applied(&store->reader, &applied, err);
    sqlite_reader_leave(store);
    return status ? status
                  : sql_schema_show(sqlite_migrations, &applied, &frame, visitor, context, err);
}
