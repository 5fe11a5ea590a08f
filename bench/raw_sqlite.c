/* The reference: what a careful programmer writes by hand for the same effect. The same tables
 * (semel's own migrations), the same settings of the connection, statements prepared once, BEGIN
 * IMMEDIATE, the marker inserted first and the work skipped if it was there. The same columns are
 * stored: the fingerprint is a number at hand, since this programmer computes none. */
#include "bench.h"
#include "generated/sqlite_migrations.h"

#include <time.h>

int64_t raw_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void raw_prepare(sqlite3_stmt **out, sqlite3 *db, const char *sql)
{
    must_sqlite(sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL), db);
}

void raw_step(sqlite3_stmt *statement)
{
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW)
        continue;
    must_sqlite(code, sqlite3_db_handle(statement));
    sqlite3_reset(statement);
}

void raw_adopt(raw_db *raw, sqlite3 *db)
{
    raw->db = db;
    must_sqlite(sqlite3_exec(db, EFFECT_TABLE, NULL, NULL, NULL), db);
    raw_prepare(&raw->begin, db, "BEGIN IMMEDIATE");
    raw_prepare(&raw->commit, db, "COMMIT");
    raw_prepare(&raw->savepoint, db, "SAVEPOINT one");
    raw_prepare(&raw->release, db, "RELEASE one");
    raw_prepare(&raw->marker, db,
                "INSERT INTO semel_marker (inbox, key, state, at_ms, fingerprint) "
                "VALUES (1, ?, 0, ?, ?) ON CONFLICT DO NOTHING");
    raw_prepare(&raw->effect, db, EFFECT_INSERT);
    if (!raw->batch)
        raw->batch = 1;
}

void raw_open(raw_db *raw, const char *path)
{
    sqlite3 *db;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    must_sqlite(sqlite3_open_v2(path, &db, flags, NULL), NULL);
    must_sqlite(sqlite3_exec(db,
                             "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; "
                             "PRAGMA cache_size = -16384; PRAGMA journal_size_limit = 67108864",
                             NULL, NULL, NULL),
                db);
    must_sqlite(sqlite3_exec(db,
                             "CREATE TABLE semel_schema (version INTEGER PRIMARY KEY, "
                             "name TEXT NOT NULL, applied_ms INTEGER NOT NULL)",
                             NULL, NULL, NULL),
                db);
    for (const sql_migration *step = sqlite_migrations; step->version; step++)
        must_sqlite(sqlite3_exec(db, step->sql, NULL, NULL, NULL), db);
    raw_adopt(raw, db);
}

void raw_release(raw_db *raw)
{
    sqlite3_finalize(raw->begin);
    sqlite3_finalize(raw->commit);
    sqlite3_finalize(raw->savepoint);
    sqlite3_finalize(raw->release);
    sqlite3_finalize(raw->marker);
    sqlite3_finalize(raw->effect);
}

void raw_close(raw_db *raw)
{
    raw_release(raw);
    sqlite3_close(raw->db);
}

void effect_insert(sqlite3_stmt *insert, semel_bytes body)
{
    sqlite3_bind_blob(insert, 1, body.data, (int)body.len, SQLITE_STATIC);
    raw_step(insert);
}

static void raw_receive_one(raw_db *raw, const semel_message *message, int64_t now_ms)
{
    sqlite3_bind_blob(raw->marker, 1, message->id.data, (int)message->id.len, SQLITE_STATIC);
    sqlite3_bind_int64(raw->marker, 2, now_ms);
    sqlite3_bind_int64(raw->marker, 3, INT64_C(0x5eed5eed5eed5eed));
    raw_step(raw->marker);
    if (sqlite3_changes(raw->db) == 1)
        effect_insert(raw->effect, message->body);
}

void raw_receive(void *context, const message_set *set)
{
    raw_db *raw = context;
    for (size_t done = 0; done < set->count;) {
        size_t end = set->count - done < raw->batch ? set->count : done + raw->batch;
        int64_t now_ms = raw_now_ms();
        raw_step(raw->begin);
        for (; done < end; done++) {
            if (raw->with_savepoints)
                raw_step(raw->savepoint);
            raw_receive_one(raw, set->pointers[done], now_ms);
            if (raw->with_savepoints)
                raw_step(raw->release);
        }
        raw_step(raw->commit);
    }
}

int64_t raw_number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    int64_t value = -1;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}
