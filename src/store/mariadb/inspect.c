/* What the store can tell about its server and its own rights there. Settings are read; rights are
 * found out by preparing statements that would need them, which the server refuses by number. That
 * is true for roles and patterns of names, too, which information_schema does not show. Nothing is
 * run, and nothing is changed. */
#include "store/sql/inspect.h"
#include "generated/mariadb_migrations.h"
#include "store/mariadb/mariadb.h"
#include "store/sql/sql.h"

#include <mysqld_error.h>
#include <stdio.h>
#include <string.h>

typedef struct inspection {
    mariadb_store *store;
    maria_connection *on;
    sql_findings found;
    const char *account; /* as GRANT takes it: 'shop_app'@'%' */
    int64_t host_ms;
    int distrusts; /* it has a binary log, and only users with SUPER create functions */
} inspection;

/* The columns of ST_INSPECT. */
enum {
    AT_VERSION,
    AT_ACCOUNT,
    AT_FLUSH,
    AT_BINLOG,
    AT_BINLOG_SYNC,
    AT_DOUBLEWRITE,
    AT_ISOLATION,
    AT_READ_ONLY,
    AT_CONNECTIONS,
    AT_USER_CONNECTIONS,
    AT_PACKET,
    AT_MODE,
    AT_LOCK_WAIT,
    AT_NOW,
    AT_TRUST
};

/* shop_app@% becomes 'shop_app'@'%'. */
static const char *quote_account(sql_findings *found, const char *account)
{
    const char *at = strrchr(account, '@');
    return at ? sql_find_text(found, "'%.*s'@'%s'", (int)(at - account), account, at + 1) : account;
}

static void find_store(inspection *in, const maria_row *r)
{
    sql_find(&in->found, SEMEL_SEVERITY_OK, "store", NULL, "MariaDB %s, database %s, account %s",
             maria_column_text(r, AT_VERSION), in->store->at.database, in->account);
    if (maria_column_int(r, AT_READ_ONLY))
        sql_find(&in->found, SEMEL_SEVERITY_ERROR, "store",
                 "use the address of the primary, or SET GLOBAL read_only = 0;",
                 "read_only is on, as it is on a replica, so nothing can be written");
}

static void find_durability(inspection *in, const maria_row *r)
{
    sql_findings *found = &in->found;
    int64_t flush = maria_column_int(r, AT_FLUSH), sync = maria_column_int(r, AT_BINLOG_SYNC);
    int weak = flush != 1, unsynced = maria_column_int(r, AT_BINLOG) && sync != 1;
    if (weak)
        sql_find(found, SEMEL_SEVERITY_WARNING, "durability",
                 "SET GLOBAL innodb_flush_log_at_trx_commit = 1;",
                 "innodb_flush_log_at_trx_commit is %lld, so a power failure can undo the last "
                 "commits",
                 (long long)flush);
    if (unsynced)
        sql_find(found, SEMEL_SEVERITY_WARNING, "durability", "SET GLOBAL sync_binlog = 1;",
                 "sync_binlog is %lld, so replicas can lack commits after a power failure",
                 (long long)sync);
    if (!maria_column_int(r, AT_DOUBLEWRITE))
        sql_find(found, SEMEL_SEVERITY_WARNING, "durability",
                 "set innodb_doublewrite = ON in the server's configuration and restart it",
                 "innodb_doublewrite is off, so a power failure can damage pages");
    else if (!weak && !unsynced)
        sql_find(found, SEMEL_SEVERITY_OK, "durability", NULL, "commits survive power loss");
}

static void find_isolation(inspection *in, const maria_row *r)
{
    static const char *const names[] = {"", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"};
    maria_isolation asked = in->store->at.level;
    sql_find(&in->found, SEMEL_SEVERITY_OK, "isolation", NULL,
             asked ? "transactions are %s, as the URL asks" : "transactions are %s by default",
             asked ? names[asked] : maria_column_text(r, AT_ISOLATION));
    sql_find(&in->found, SEMEL_SEVERITY_OK, "isolation", NULL,
             "innodb_lock_wait_timeout is %lld s; semel's own sessions wait for %u ms",
             (long long)maria_column_int(r, AT_LOCK_WAIT), (unsigned)in->store->limits.busy_ms);
}

/* Without it the server cuts what is too long, in the application's tables. */
static void find_mode(inspection *in, const maria_row *r)
{
    const char *mode = maria_column_text(r, AT_MODE);
    if (mode && (strstr(mode, "STRICT_TRANS_TABLES") || strstr(mode, "STRICT_ALL_TABLES")))
        sql_find(&in->found, SEMEL_SEVERITY_OK, "store", NULL, "sql_mode is strict");
    else
        sql_find(&in->found, SEMEL_SEVERITY_WARNING, "store",
                 "SET GLOBAL sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES');",
                 "sql_mode is not strict, so values that do not fit are stored cut, without an "
                 "error");
}

static void find_limits(inspection *in, const maria_row *r)
{
    enum { PACKET_MIN = 16 << 20 };
    int64_t packet = maria_column_int(r, AT_PACKET);
    uint64_t all = maria_column_uint(r, AT_CONNECTIONS);
    uint64_t own = maria_column_uint(r, AT_USER_CONNECTIONS);
    int by_user = own && own < all;
    sql_find_connections(&in->found, in->store->at.pool, by_user ? own : all,
                         by_user ? "max_user_connections" : "max_connections");
    if (packet < PACKET_MIN)
        sql_find(&in->found, SEMEL_SEVERITY_WARNING, "limits",
                 "SET GLOBAL max_allowed_packet = 67108864;",
                 "max_allowed_packet is %lld bytes, so larger messages cannot be stored",
                 (long long)packet);
}

static semel_status read_server(const maria_row *r, void *context, semel_error *err)
{
    (void)err;
    inspection *in = context;
    const char *account = maria_column_text(r, AT_ACCOUNT);
    in->host_ms = seam_wall_ms(in->store->seam);
    in->account = quote_account(&in->found, account ? account : "");
    in->distrusts = maria_column_int(r, AT_BINLOG) && !maria_column_int(r, AT_TRUST);
    find_store(in, r);
    find_mode(in, r);
    find_durability(in, r);
    find_isolation(in, r);
    sql_find_clock(&in->found, in->host_ms, maria_column_int(r, AT_NOW));
    find_limits(in, r);
    return SEMEL_OK;
}

/* --- rights ----------------------------------------------------------------------------------- */

/* A statement that needs this right and no other. */
static const char *statement_for(inspection *in, const sql_needed_right *needed)
{
    static const char *const forms[] = {[RIGHT_SELECT] = "SELECT * FROM `%s%s` WHERE FALSE",
                                        [RIGHT_INSERT] = "INSERT INTO `%s%s` (`%s`) VALUES (1)",
                                        [RIGHT_UPDATE] = "UPDATE `%s%s` SET `%s` = 1",
                                        [RIGHT_DELETE] = "DELETE FROM `%s%s`"};
    char text[512];
    (void)snprintf(text, sizeof text, forms[needed->right], in->store->name, needed->table,
                   needed->column);
    return sql_find_text(&in->found, "%s", text);
}

static int is_denied(const semel_error *why)
{
    unsigned number = (unsigned)why->native;
    return number == ER_TABLEACCESS_DENIED_ERROR || number == ER_COLUMNACCESS_DENIED_ERROR ||
           number == ER_DBACCESS_DENIED_ERROR;
}

static int lacks(inspection *in, const sql_needed_right *needed, semel_status *status,
                 semel_error *err)
{
    semel_error why = {0};
    const char *text = statement_for(in, needed);
    semel_status got = maria_check_text(in->on, text, 0, &why);
    if (got && in->on->lost) {
        *status = got;
        if (err)
            *err = why;
    }
    return got && is_denied(&why);
}

static void find_missing(inspection *in, const sql_needed_right *missing)
{
    const maria_address *at = &in->store->at;
    const char *right = sql_right_names[missing->right];
    const char *table =
        sql_find_text(&in->found, "%s.%s%s", at->database, at->prefix, missing->table);
    sql_find(&in->found, missing->severity, "rights",
             sql_find_text(&in->found, "GRANT %s ON `%s`.`%s%s` TO %s;", right, at->database,
                           at->prefix, missing->table, in->account),
             "account %s has no %s privilege on %s, so %s", in->account, right, table,
             missing->otherwise);
}

static semel_status find_rights(inspection *in, semel_error *err)
{
    semel_status status = SEMEL_OK;
    int missing = 0;
    for (const sql_needed_right *at = sql_needed_rights; !status && at->table; at++)
        if (lacks(in, at, &status, err)) {
            find_missing(in, at);
            missing++;
        }
    if (!status && !missing)
        sql_find(&in->found, SEMEL_SEVERITY_OK, "rights", NULL,
                 "account %s has the rights that run needs on semel's tables", in->account);
    return status;
}

/* --- tables ----------------------------------------------------------------------------------- */

static semel_status read_engine(const maria_row *r, void *context, semel_error *err)
{
    (void)err;
    inspection *in = context;
    const char *table = maria_column_text(r, 0), *engine = maria_column_text(r, 1);
    sql_find(&in->found, SEMEL_SEVERITY_ERROR, "schema",
             sql_find_text(&in->found, "ALTER TABLE `%s`.`%s` ENGINE = InnoDB;",
                           in->store->at.database, table),
             "the table %s has the engine %s, which has no transactions", table,
             engine ? engine : "?");
    return SEMEL_OK;
}

static semel_status find_engines(inspection *in, semel_error *err)
{
    maria_query q = maria_enqueue(in->on, ST_INSPECT_ENGINES);
    maria_text(&q, in->store->at.database);
    maria_text(&q, in->store->at.prefix);
    maria_text(&q, in->store->at.prefix);
    maria_step *s = maria_end(&q);
    s->call = read_engine;
    s->context = in;
    return maria_flush(in->on, NULL, "reading the engines of tables", err);
}

/* --- functions -------------------------------------------------------------------------------- */

static const char *functions_fix(const inspection *in)
{
    return in->distrusts ? "SET GLOBAL log_bin_trust_function_creators = 1; then semel migrate up"
                         : "semel migrate up, with an account that has CREATE ROUTINE and ALTER "
                           "ROUTINE; or for a DBA: semel migrate sql";
}

/* `run` itself does without them. */
static void find_functions_in(inspection *in, const maria_functions *all,
                              maria_function_state state, const char *which, const char *so)
{
    const char *names = "";
    if (!maria_functions_count(all, state))
        return;
    for (size_t i = 0; i < all->count; i++)
        if (all->all[i].state == state)
            names =
                sql_find_text(&in->found, "%s%s%s", names, *names ? ", " : "", all->all[i].name);
    sql_find(&in->found, SEMEL_SEVERITY_WARNING, "schema", functions_fix(in), "%s: %s; so %s",
             which, names, so);
}

static semel_status find_functions(inspection *in, int64_t version, semel_error *err)
{
    maria_functions all;
    semel_status status = maria_functions_look(&all, in->store, in->on, version, err);
    if (status)
        return status;
    find_functions_in(in, &all, FUNCTION_MISSING, "functions for SQL are missing",
                      "applications cannot receive and send by them");
    find_functions_in(in, &all, FUNCTION_OUTDATED,
                      "functions for SQL are those of another version of semel",
                      "they may do something else than is documented");
    if (maria_functions_count(&all, FUNCTION_HIDDEN))
        sql_find(&in->found, SEMEL_SEVERITY_OK, "rights",
                 sql_find_text(&in->found, "GRANT EXECUTE ON `%s`.* TO %s;", in->store->at.database,
                               in->account),
                 "account %s has no EXECUTE privilege on functions of database %s, so it cannot "
                 "receive and send in SQL",
                 in->account, in->store->at.database);
    return SEMEL_OK;
}

/* SELECT on the table of versions may be what is missing: then the rights say why. */
static semel_status find_schema(inspection *in, semel_error *err)
{
    semel_error why = {0};
    sql_versions versions = {0};
    semel_status status = maria_schema_versions(&versions, in->store, in->on, &why);
    if (status && is_denied(&why)) {
        sql_find(&in->found, SEMEL_SEVERITY_ERROR, "schema", NULL,
                 "the version of semel's tables cannot be read");
        return SEMEL_OK;
    }
    if (!status && versions.version <= sql_schema_newest(mariadb_migrations))
        status = find_functions(in, versions.version, &why);
    return sql_find_schema(&in->found, mariadb_migrations, &versions, status, &why, err);
}

/* --- all -------------------------------------------------------------------------------------- */

static semel_status inspect_on(inspection *in, semel_error *err)
{
    maria_query q = maria_enqueue(in->on, ST_INSPECT);
    maria_step *s = maria_end(&q);
    s->call = read_server;
    s->context = in;
    semel_status status = maria_flush(in->on, NULL, "reading the server's settings", err);
    if (!status)
        status = find_rights(in, err);
    if (!status)
        status = find_schema(in, err);
    return status ? status : find_engines(in, err);
}

static semel_status mariadb_inspect(void *state, semel_finding_visitor *visitor, void *context,
                                    semel_error *err)
{
    inspection in = {.store = state};
    semel_status status = maria_borrow_pooled(&in.on, state, err);
    if (status)
        return status;
    status = inspect_on(&in, err);
    if (!in.on->lost)
        maria_push_rollback(in.on);
    maria_give_back(state, in.on);
    return sql_findings_show(&in.found, status, visitor, context, err);
}

const semel_store_inspection mariadb_inspection = {
    .schema = mariadb_schema,
    .migrate_to = mariadb_migrate_to,
    .inspect = mariadb_inspect,
};
