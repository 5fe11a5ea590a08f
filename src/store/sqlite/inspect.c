/* What the store can tell about its file: how safely it is written, who may write it, where it is
 * and how much room is left there. All of it is read on the reading connection, and nothing is
 * changed. The look at the file's integrity ends after a second. */
#include "store/sql/inspect.h"
#include "base/wait.h"
#include "generated/sqlite_migrations.h"
#include "store/sqlite/sqlite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

typedef struct inspection {
    sqlite_store *store;
    sql_findings found;
    const char *path;
    const char *directory;
} inspection;

/* The text that a statement answers with; "" if it does not. */
static const char *read_text(inspection *in, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    const char *text = "";
    if (sqlite3_prepare_v2(in->store->reader.db, sql, -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_text(stmt, 0))
        text = sql_find_text(&in->found, "%s", (const char *)sqlite3_column_text(stmt, 0));
    (void)sqlite3_finalize(stmt);
    return text;
}

static void find_store(inspection *in)
{
    sql_find(&in->found, SEMEL_SEVERITY_OK, "store", NULL, "SQLite %s, file %s",
             sqlite3_libversion(), in->path);
}

static void find_durability(inspection *in)
{
    const char *mode = read_text(in, "PRAGMA journal_mode");
    if (strcmp(mode, "wal") != 0)
        sql_find(&in->found, SEMEL_SEVERITY_WARNING, "durability",
                 "PRAGMA journal_mode = WAL; on the file",
                 "the journal mode is %s, not wal, so readers and writers wait for each other",
                 mode);
    if (in->store->relaxed_always)
        sql_find(&in->found, SEMEL_SEVERITY_WARNING, "durability",
                 "remove synchronous=normal from the URL of the store",
                 "synchronous is normal, so a power failure can undo the last commits");
    else
        sql_find(&in->found, SEMEL_SEVERITY_OK, "durability", NULL,
                 "commits survive power loss (journal mode %s, synchronous full)", mode);
}

/* --- the file --------------------------------------------------------------------------------- */

/* The file, its directory (for the journal), and who owns it. Root may write everything. */
static void find_rights(inspection *in)
{
    struct stat file = {0};
    sql_findings *found = &in->found;
    int bad = 0;
    if (access(in->path, R_OK | W_OK) != 0 && ++bad)
        sql_find(found, SEMEL_SEVERITY_ERROR, "rights",
                 sql_find_text(found, "chmod u+rw %s, or run semel as its owner", in->path),
                 "%s cannot be read and written: %s", in->path, strerror(errno));
    if (access(in->directory, W_OK | X_OK) != 0 && ++bad)
        sql_find(found, SEMEL_SEVERITY_ERROR, "rights",
                 sql_find_text(found, "chmod u+wx %s, or run semel as its owner", in->directory),
                 "%s cannot be written, and the journal of the store is made there: %s",
                 in->directory, strerror(errno));
    if (stat(in->path, &file) == 0 && file.st_uid != geteuid() && ++bad)
        sql_find(found, SEMEL_SEVERITY_WARNING, "rights",
                 sql_find_text(found, "run semel as user %lu, or chown the file",
                               (unsigned long)file.st_uid),
                 "%s belongs to user %lu, and this process to user %lu: files that one makes, the "
                 "other may not be able to write",
                 in->path, (unsigned long)file.st_uid, (unsigned long)geteuid());
    if (!bad)
        sql_find(found, SEMEL_SEVERITY_OK, "rights", NULL,
                 "the file and its directory can be written");
}

static const char *network_name(long type)
{
    static const struct {
        long type;
        const char *name;
    } known[] = {{0x6969, "NFS"},      {0x517B, "SMB"},        {0xFF534D42, "CIFS"},
                 {0xFE534D42, "SMB2"}, {0x00C36400, "Ceph"},   {0x5346414F, "AFS"},
                 {0x01021997, "9P"},   {0x0BD00BD0, "Lustre"}, {0x47504653, "GPFS"},
                 {0x7461636F, "OCFS2"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].type == type)
            return known[i].name;
    return NULL;
}

static void find_file_system(inspection *in)
{
    struct statfs where = {0};
    const char *name = statfs(in->directory, &where) == 0 ? network_name((long)where.f_type) : NULL;
    if (name)
        sql_find(&in->found, SEMEL_SEVERITY_WARNING, "store",
                 "move the file to a disk of this host, or use PostgreSQL or MariaDB",
                 "the file is on a network file system (%s), where locks may not be kept", name);
}

static void find_space(inspection *in)
{
    enum { WARNING_MIB = 1024, ERROR_MIB = 64 };
    struct statvfs where = {0};
    if (statvfs(in->directory, &where) != 0)
        return;
    unsigned long long free_mib =
        (unsigned long long)where.f_bavail * where.f_frsize / (1024 * 1024);
    semel_severity severity = free_mib < ERROR_MIB     ? SEMEL_SEVERITY_ERROR
                              : free_mib < WARNING_MIB ? SEMEL_SEVERITY_WARNING
                                                       : SEMEL_SEVERITY_OK;
    sql_find(&in->found, severity, "disk",
             severity == SEMEL_SEVERITY_OK
                 ? NULL
                 : sql_find_text(&in->found, "make room in %s, or move the file", in->directory),
             severity == SEMEL_SEVERITY_OK ? "%llu MiB are free where the store is"
                                           : "only %llu MiB are free where the store is",
             free_mib);
}

/* --- what is in it ---------------------------------------------------------------------------- */

static int is_too_late(void *deadline_ms)
{
    return wait_clock_ms() > *(const int64_t *)deadline_ms;
}

static void find_damage(inspection *in)
{
    enum { LOOK_MS = 1000, STEPS = 10000 };
    sqlite3 *db = in->store->reader.db;
    int64_t deadline = wait_clock_ms() + LOOK_MS;
    sqlite3_progress_handler(db, STEPS, is_too_late, &deadline);
    const char *answer = read_text(in, "PRAGMA quick_check(1)");
    sqlite3_progress_handler(db, 0, NULL, NULL);
    if (strcmp(answer, "ok") == 0)
        sql_find(&in->found, SEMEL_SEVERITY_OK, "store", NULL, "the file is sound");
    else if (!*answer)
        sql_find(&in->found, SEMEL_SEVERITY_OK, "store", NULL,
                 "the file is too large to be looked through in a second");
    else
        sql_find(&in->found, SEMEL_SEVERITY_ERROR, "store",
                 "restore a backup; sqlite3 FILE .recover saves what can be read",
                 "the file is damaged: %s", answer);
}

/* The store's clock, as a process would go on with it in this boot; in another one it is set by
 * this host's clock. */
static void find_clock(inspection *in)
{
    const semel_seam *seam = in->store->seam;
    int64_t host_ms = seam_wall_ms(seam), steady_ms = seam_steady_ms(seam), store_ms = host_ms;
    char boot_id[37] = "";
    sqlite3_stmt *stmt = NULL;
    seam->boot_id(seam->context, boot_id);
    if (sqlite3_prepare_v2(in->store->reader.db,
                           "SELECT store_ms, steady_ms, boot_id FROM semel_clock", -1, &stmt,
                           NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_text(stmt, 2) &&
        strcmp((const char *)sqlite3_column_text(stmt, 2), boot_id) == 0 &&
        sqlite3_column_int64(stmt, 1) <= steady_ms)
        store_ms = sqlite3_column_int64(stmt, 0) + steady_ms - sqlite3_column_int64(stmt, 1);
    (void)sqlite3_finalize(stmt);
    sql_find_clock(&in->found, host_ms, store_ms);
}

static semel_status find_schema(inspection *in, semel_error *err)
{
    semel_error why = {0};
    sql_versions versions = {0};
    semel_status status = sqlite_schema_versions(&versions, &in->store->reader, &why);
    return sql_find_schema(&in->found, sqlite_migrations, &versions, status, &why, err);
}

/* --- all -------------------------------------------------------------------------------------- */

static void name_directory(inspection *in)
{
    const char *slash = strrchr(in->path, '/');
    in->directory = !slash ? "."
                    : slash == in->path
                        ? "/"
                        : sql_find_text(&in->found, "%.*s", (int)(slash - in->path), in->path);
}

static semel_status inspect_on(inspection *in, semel_error *err)
{
    in->path = sql_find_text(&in->found, "%s", sqlite3_db_filename(in->store->reader.db, "main"));
    name_directory(in);
    find_store(in);
    find_file_system(in);
    find_damage(in);
    find_durability(in);
    sql_find(&in->found, SEMEL_SEVERITY_OK, "isolation", NULL,
             "transactions are serializable: SQLite has one writer at a time");
    find_rights(in);
    find_clock(in);
    find_space(in);
    return find_schema(in, err);
}

static semel_status sqlite_inspect(void *state, semel_finding_visitor *visitor, void *context,
                                   semel_error *err)
{
    inspection in = {.store = state};
    semel_status status = sqlite_reader_enter(in.store, err);
    if (status)
        return status;
    status = inspect_on(&in, err);
    sqlite_reader_leave(in.store);
    return sql_findings_show(&in.found, status, visitor, context, err);
}

const semel_store_inspection sqlite_inspection = {
    .schema = sqlite_schema,
    .migrate_to = sqlite_migrate_to,
    .inspect = sqlite_inspect,
};
