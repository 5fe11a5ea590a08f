/* The schema: which version is there, and the steps from it to ours.
 *
 * The steps are the files in sql/mariadb/, embedded at build time. MariaDB commits after each
 * CREATE TABLE, so a step cannot be undone; instead every statement of one may be run again, and
 * the version is recorded when all of it is done. Dying in between leaves a part, and calling again
 * goes on. One process at a time: a named lock, which the server drops if its owner dies.
 *
 * Functions are the exception. With a binary log the server lets only users with SUPER create
 * them, unless log_bin_trust_function_creators is set, and nothing of the library needs them:
 * without that right the step goes on without them. Every migration looks for functions that are
 * missing, or that another text has made, and tries to create them.
 *
 * Three things are refused, since going on would destroy: tables of a newer semel that say that
 * this one must not use them, tables of our names that are not semel's, and no tables at all (which
 * migrate makes). */
#include "base/hash.h"
#include "generated/mariadb_migrations.h"
#include "store/mariadb/mariadb.h"
#include "store/sql/sql.h"

#include <mysqld_error.h>
#include <stdio.h>
#include <string.h>

static semel_status keep_number(const maria_row *r, void *context, semel_error *err)
{
    (void)err;
    *(int64_t *)context = maria_column_int(r, 0);
    return SEMEL_OK;
}

static semel_status execute_number(maria_connection *on, maria_query *q, int64_t *out,
                                   maria_failure *failed, const char *doing, semel_error *err)
{
    maria_step *s = maria_end(q);
    s->call = keep_number;
    s->context = out;
    return maria_flush(on, failed, doing, err);
}

/* --- which version is there ------------------------------------------------------------------- */

/* No table of ours that tells the version: are there others of our names? */
static semel_status check_strangers(mariadb_store *store, maria_connection *on, semel_error *err)
{
    static const char *const names[] = {"meta",  "scope", "marker", "outbox", "dead",
                                        "group", "note",  "sent",   "audit",  "process"};
    char name[SQL_NAME_MAX + 16];
    int64_t strangers = 0;
    maria_query q = maria_enqueue(on, ST_SCHEMA_STRANGERS);
    maria_text(&q, store->at.database);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(name, sizeof name, "%s%s", store->at.prefix, names[i]);
        maria_text(&q, name);
    }
    semel_status status = execute_number(on, &q, &strangers, NULL, "reading the schema", err);
    if (status || !strangers)
        return status;
    return semel_fail(err, SEMEL_ESCHEMA,
                      "the database has tables named %smarker or the like that semel did not make "
                      "(there is no %sschema): rename them, or choose another ?prefix=",
                      store->at.prefix, store->at.prefix);
}

static semel_status keep_versions(const maria_row *r, void *context, semel_error *err)
{
    (void)err;
    *(sql_versions *)context =
        (sql_versions){.version = maria_column_int(r, 0), .needs = maria_column_int(r, 1)};
    return SEMEL_OK;
}

semel_status maria_schema_versions(sql_versions *out, mariadb_store *store, maria_connection *on,
                                   semel_error *err)
{
    maria_failure failed;
    *out = (sql_versions){0};
    maria_query q = maria_enqueue(on, ST_SCHEMA_VERSIONS);
    maria_step *s = maria_end(&q);
    s->call = keep_versions;
    s->context = out;
    semel_status status = maria_flush(on, &failed, "reading the schema", err);
    if (failed.number == ER_NO_SUCH_TABLE)
        return check_strangers(store, on, err);
    if (failed.number == ER_BAD_FIELD_ERROR)
        return semel_fail(
            err, SEMEL_ESCHEMA,
            "the table %sschema is not semel's: rename it, or choose another ?prefix=",
            store->at.prefix);
    return status;
}

semel_status maria_schema_check(mariadb_store *store, maria_connection *on, semel_error *err)
{
    sql_versions found;
    semel_status status = maria_schema_versions(&found, store, on, err);
    return status ? status : sql_schema_check(mariadb_migrations, &found, err);
}

/* --- one at a time ---------------------------------------------------------------------------- */

/* Named locks are the server's, of all databases, and their names at most 64 characters. */
static void name_lock(char name[64], const mariadb_store *store, const char *what)
{
    static const hash_key key = {3, 5};
    (void)snprintf(name, 64, "semel:%016llx:%s",
                   (unsigned long long)hash_bytes(key, store->name, strlen(store->name)), what);
}

semel_status maria_get_lock(maria_connection *on, const mariadb_store *store, const char *what,
                            uint32_t wait_ms, int *got, semel_error *err)
{
    char name[64];
    int64_t answer = 0;
    name_lock(name, store, what);
    maria_query q = maria_enqueue(on, ST_LOCK);
    maria_text(&q, name);
    maria_uint(&q, wait_ms / 1000 + (wait_ms % 1000 != 0));
    semel_status status = execute_number(on, &q, &answer, NULL, "getting a lock", err);
    *got = answer == 1;
    return status;
}

void maria_release_lock(maria_connection *on, const mariadb_store *store, const char *what)
{
    char name[64];
    name_lock(name, store, what);
    maria_query q = maria_enqueue(on, ST_UNLOCK);
    maria_text(&q, name);
    (void)maria_end(&q);
    if (maria_flush(on, NULL, "releasing a lock", NULL))
        on->lost = 1; /* with the connection goes the lock */
}

/* --- migrating -------------------------------------------------------------------------------- */

/* To the beginning of the next statement of a file, over comments, which stand between statements
 * only. */
static const char *next_statement(const char *at)
{
    while (*(at += strspn(at, "; \n")) == '-')
        at += strcspn(at, "\n");
    return at;
}

static int is_function(const char *text)
{
    return strncmp(text, MARIA_CREATE_FUNCTION, strlen(MARIA_CREATE_FUNCTION)) == 0;
}

/* A statement ends with a semicolon; one that creates a function, whose body has semicolons of its
 * own, with the first line that begins with END. */
static size_t statement_length(const char *text)
{
    static const char end[] = MARIA_FUNCTION_END;
    const char *found = is_function(text) ? strstr(text, end) : NULL;
    return found ? (size_t)(found - text) + sizeof end - 2 : strcspn(text, ";");
}

/* Which statements of a file. */
typedef enum file_part {
    WHOLE_FILE,
    FUNCTIONS_OF_FILE /* and what sets the mode that they keep */
} file_part;

static int is_wanted(const char *text, file_part part)
{
    return part == WHOLE_FILE || is_function(text) || strncmp(text, "SET ", 4) == 0;
}

/* Names are filled in when the statements are told apart: a database may have a semicolon in its
 * name. */
static semel_status enqueue_file(maria_connection *on, const char *text, const char *name,
                                 file_part part, semel_error *err)
{
    for (size_t len; *(text = next_statement(text)); text += len) {
        len = statement_length(text);
        if (!is_wanted(text, part))
            continue;
        const char *one = arena_copy(&on->scratch, text, len);
        const char *filled = one ? sql_fill(&on->scratch, one, name) : NULL;
        if (!filled)
            return semel_fail(err, SEMEL_ENOMEM, "out of memory migrating");
        maria_query q = maria_start(&on->out, "", (maria_bound){PATIENT, 0});
        text_append_z(&on->out.text, filled);
        (void)maria_end(&q);
    }
    return SEMEL_OK;
}

enum { MIGRATION_MS = 3600000 }; /* a table of many rows takes as long as it takes */

/* The file sets a mode of the session, and resets it at its end. */
static semel_status leave_functions_out(maria_connection *on, semel_error *err)
{
    maria_enqueue_plain(on, ST_SCHEMA_MODE);
    return maria_flush(on, NULL, "making semel's tables", err);
}

static semel_status run_file(mariadb_store *store, maria_connection *on, const sql_migration *step,
                             file_part part, semel_error *err)
{
    semel_error why = {0};
    maria_failure failed = {0};
    semel_status status = enqueue_file(on, step->sql, store->name, part, err);
    if (status)
        return status;
    on->wait_ms = MIGRATION_MS;
    status = maria_flush(on, &failed, "making semel's tables", &why);
    on->wait_ms = 0;
    if (failed.number == ER_BINLOG_CREATE_ROUTINE_NEED_SUPER ||
        failed.number == ER_BINLOG_UNSAFE_ROUTINE)
        return leave_functions_out(on, err);
    if (status && err)
        *err = why;
    return status;
}

static void enqueue_record(maria_connection *on, const sql_migration *next)
{
    maria_query q = maria_enqueue(on, ST_SCHEMA_RECORD);
    maria_int(&q, next->version);
    maria_text(&q, next->name);
    (void)maria_end(&q);
    if (next->version < SQL_NEEDS_VERSION)
        return;
    q = maria_enqueue(on, ST_SCHEMA_NEEDS);
    maria_int(&q, next->needs);
    maria_int(&q, next->version);
    (void)maria_end(&q);
}

static semel_status apply_step(mariadb_store *store, maria_connection *on,
                               const sql_migration *next, semel_error *err)
{
    maria_enqueue_plain(on, ST_SCHEMA_MAKE);
    semel_status status = run_file(store, on, next, WHOLE_FILE, err);
    if (status)
        return status;
    enqueue_record(on, next);
    status = maria_flush(on, NULL, "making semel's tables", err);
    return status ? status : seam_fault(store->seam, "migrate.applied", err);
}

/* One step, if one is due up to this version. *more is 0 when there is none. */
static semel_status migrate_step(mariadb_store *store, maria_connection *on, int32_t last,
                                 sql_versions *found, int *more, semel_error *err)
{
    semel_status status = maria_schema_versions(found, store, on, err);
    if (!status)
        status = sql_schema_check_usable(mariadb_migrations, found, err);
    const sql_migration *next = sql_schema_next(mariadb_migrations, found->version);
    *more = !status && next && next->version <= last;
    if (!*more)
        return status;
    status = apply_step(store, on, next, err);
    if (status)
        return status;
    maria_enqueue_plain(on, ST_COMMIT);
    status = maria_flush(on, NULL, "committing a migration", err);
    return status ? status : seam_fault(store->seam, "migrate.committed", err);
}

/* Those that a step had to leave out, or that another version made; it is no reason to fail. A
 * later step may replace functions of an earlier one, so all of them are made, in the order of
 * their steps. Functions of newer tables are a newer semel's. */
static void complete_functions(mariadb_store *store, maria_connection *on, int64_t version)
{
    maria_functions found;
    semel_status status = maria_functions_look(&found, store, on, version, NULL);
    if (status || (!maria_functions_count(&found, FUNCTION_MISSING) &&
                   !maria_functions_count(&found, FUNCTION_OUTDATED)))
        return;
    for (const sql_migration *at = mariadb_migrations; at->version && at->version <= version; at++)
        if (strstr(at->sql, MARIA_CREATE_FUNCTION) && !on->lost &&
            run_file(store, on, at, FUNCTIONS_OF_FILE, NULL) && !on->lost)
            (void)leave_functions_out(on, NULL);
}

static semel_status migrate_locked(mariadb_store *store, maria_connection *on, int32_t last,
                                   semel_error *err)
{
    int more = 1, got = 0;
    sql_versions found = {0};
    semel_status status = maria_get_lock(on, store, "migrate", store->limits.busy_ms, &got, err);
    if (status)
        return status;
    if (!got)
        return semel_fail(err, SEMEL_EBUSY, "another process is migrating semel's tables");
    while (!status && more)
        status = migrate_step(store, on, last, &found, &more, err);
    if (!status && found.version <= sql_schema_newest(mariadb_migrations))
        complete_functions(store, on, found.version);
    maria_script_clear(&on->out);
    maria_enqueue_plain(on, ST_ROLLBACK);
    maria_release_lock(on, store, "migrate");
    return status;
}

semel_status mariadb_migrate_to(void *state, int32_t version, semel_error *err)
{
    mariadb_store *store = state;
    maria_connection *on = NULL;
    semel_status status = sql_schema_check_target(mariadb_migrations, version, err);
    if (!status)
        status = maria_borrow_pooled(&on, store, err);
    if (status)
        return status;
    status = migrate_locked(store, on, version, err);
    maria_give_back(store, on);
    return status;
}

semel_status mariadb_migrate(void *state, semel_error *err)
{
    return mariadb_migrate_to(state, sql_schema_newest(mariadb_migrations), err);
}

/* --- the steps, for a tool -------------------------------------------------------------------- */

static const char before[] = MARIA_MAKE_SCHEMA ";\n";
static const char record[] =
    "INSERT IGNORE INTO `{}schema` (version, name, applied_ms) VALUES ({version}, '{name}',\n"
    "    TIMESTAMPDIFF(MICROSECOND, DATE'1970-01-01', UTC_TIMESTAMP(3)) DIV 1000);\n";
static const char needs[] = "UPDATE `{}schema` SET needs = {needs} WHERE version = {version};\n";
static const char after[] = "COMMIT;\n";

static semel_status note_applied(const maria_row *r, void *context, semel_error *err)
{
    (void)err;
    sql_applied_note(context, maria_column_int(r, 0), maria_column_int(r, 1),
                     maria_column_int(r, 2), maria_column_text(r, 3));
    return SEMEL_OK;
}

/* Functions of a newer version are left alone. */
static semel_status note_functions(sql_applied *all, mariadb_store *store, maria_connection *on,
                                   int64_t version, semel_error *err)
{
    maria_functions found;
    if (version > sql_schema_newest(mariadb_migrations))
        return SEMEL_OK;
    semel_status status = maria_functions_look(&found, store, on, version, err);
    for (size_t i = 0; !status && i < found.count; i++)
        if (found.all[i].state == FUNCTION_MISSING || found.all[i].state == FUNCTION_OUTDATED)
            all->incomplete[found.all[i].step] = 1;
    return status;
}

static semel_status read_applied(sql_applied *out, mariadb_store *store, maria_connection *on,
                                 semel_error *err)
{
    sql_versions found;
    semel_status status = maria_schema_versions(&found, store, on, err);
    if (status || !found.version)
        return status;
    maria_query q = maria_enqueue(on, ST_SCHEMA_STEPS);
    maria_step *s = maria_end(&q);
    s->call = note_applied;
    s->context = out;
    status = maria_flush(on, NULL, "reading the schema's steps", err);
    return status ? status : note_functions(out, store, on, found.version, err);
}

semel_status mariadb_schema(void *state, semel_schema_visitor *visitor, void *context,
                            semel_error *err)
{
    mariadb_store *store = state;
    maria_connection *on = NULL;
    sql_applied applied = {0};
    sql_script_frame frame = {before,
                              record,
                              needs,
                              after,
                              store->name,
                              {{MARIA_CREATE_FUNCTION, "DELIMITER //\n" MARIA_CREATE_FUNCTION},
                               {MARIA_FUNCTION_END, "\nEND//\nDELIMITER ;"}}};
    semel_status status = maria_borrow_pooled(&on, store, err);
    if (status)
        return status;
    status = read_applied(&applied, store, on, err);
    if (!on->lost)
        maria_push_rollback(on); /* the end of what it sees */
    maria_give_back(store, on);
    return status ? status
                  : sql_schema_show(mariadb_migrations, &applied, &frame, visitor, context, err);
}
