/* What the details of markers (keep_details) cost: time on SQLite and on the servers, bytes on
 * SQLite. Both contenders are semel; one keeps the type of each message and when it was
 * received. */
#include "server.h"

enum { PLAIN, DETAILED, DETAIL_CONTENDERS, DETAIL_WORKERS = 4 };

static const char *const files[] = {"plain.db", "detailed.db"};
static const char *const rooms[] = {"bench_plain", "bench_detailed"};

static double marker_bytes(const char *file)
{
    char path[512];
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    must_sqlite(sqlite3_open(scratch_path(path, file), &db), db);
    must_sqlite(sqlite3_exec(db, "VACUUM", NULL, NULL, NULL), db);
    raw_prepare(&stmt, db,
                "SELECT 1.0 * page_count * page_size / (SELECT count(*) FROM semel_marker) "
                "FROM pragma_page_count(), pragma_page_size()");
    if (sqlite3_step(stmt) != SQLITE_ROW)
        die("%s: no size", file);
    double bytes = sqlite3_column_double(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return bytes;
}

static void measure_sqlite(size_t batch, size_t batches, const char *name)
{
    semel_sqlite stores[DETAIL_CONTENDERS];
    contender all[DETAIL_CONTENDERS];
    comparison d;
    key_source keys;
    for (int i = 0; i < DETAIL_CONTENDERS; i++) {
        char path[512], url[600];
        semel_inbox_options inbox = {.size = sizeof inbox, .keep_details = i == DETAILED};
        snprintf(url, sizeof url, "sqlite:%s", scratch_path(path, files[i]));
        semel_sqlite_open(&stores[i], url, &inbox, batch);
        all[i] = (contender){.context = &stores[i], .run = semel_sqlite_receive};
    }
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    comparison_run(&d, all, DETAIL_CONTENDERS, &keys, batch, batches, choose_rounds(25, 7), name);
    report_comparison(name, &d, DETAILED, PLAIN, NO_AIM);
    for (int i = 0; i < DETAIL_CONTENDERS; i++)
        semel_sqlite_close(&stores[i]);
    if (batch > 1)
        report_value("SQLite, bytes more for a marker with type and time",
                     marker_bytes(files[DETAILED]) - marker_bytes(files[PLAIN]), "", NO_AIM);
    for (int i = 0; i < DETAIL_CONTENDERS; i++)
        scratch_remove(files[i]);
}

static void measure_server(const server *on, const char *url)
{
    semel_server stores[DETAIL_CONTENDERS];
    contender all[DETAIL_CONTENDERS];
    comparison d;
    key_source keys;
    char name[100];
    for (int i = 0; i < DETAIL_CONTENDERS; i++) {
        room_make(on, url, rooms[i]);
        stores[i] = (semel_server){
            .on = on, .workers = DETAIL_WORKERS, .batch = 1, .keep_details = i == DETAILED};
        semel_server_open(&stores[i], url, rooms[i]);
        all[i] = (contender){.context = &stores[i], .run = semel_server_receive};
    }
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    server_title(name, on, "one in a transaction");
    comparison_run(&d, all, DETAIL_CONTENDERS, &keys, DETAIL_WORKERS, transactions(600, 300),
                   choose_rounds(15, 5), name);
    report_comparison(name, &d, DETAILED, PLAIN, NO_AIM);
    for (int i = 0; i < DETAIL_CONTENDERS; i++) {
        semel_server_close(&stores[i]);
        room_remove(on, url, rooms[i]);
    }
}

void section_details(void)
{
    report_section("details", "receive, with type and time of receipt kept", "without/s", "with/s");
    measure_sqlite(1, transactions(600, 300), "SQLite, one in a transaction");
    measure_sqlite(100, transactions(100, 50), "SQLite, 100 at once");
    each_server(measure_server);
}
