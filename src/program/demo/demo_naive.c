/* The naive shop, as most people write it: look the payment up, charge, remember the payment,
 * publish.
 *
 * Each step is right, and each commits as durably as the other shop does. What is wrong is what
 * lies between them:
 *   - killed after charging, before remembering: the redelivery charges again;
 *   - killed after remembering, before publishing: the redelivery is known, so the event is never
 *     published. */
#include "program/cli.h"
#include "program/demo/demo_sql.h"
#include "program/demo/demo_worker.h"

#include <stdio.h>
#include <string.h>

enum { BUSY_MS = 5000, ID_MAX = 40 };

static int naive_publish(const frame *delivery)
{
    char id[ID_MAX];
    uint32_t confirmed = 0;
    int len = snprintf(id, sizeof id, "charged:%s", delivery->id);
    shop_cross_network();
    if (shop_send_event(delivery->tag, id, (size_t)len, delivery->body, strlen(delivery->body)))
        return -1;
    return shop_await_confirm(&confirmed, -1) == FRAME_GOT ? 0 : -1;
}

/* Returns SQLite's code. */
static int naive_look_up(int *known, sqlite3 *db, const frame *delivery)
{
    int64_t rows;
    int code =
        sql_number(&rows, db, "SELECT count(*) FROM processed WHERE payment = ?1", delivery->id);
    *known = rows > 0;
    return code;
}

static int naive_charge(sqlite3 *db, const frame *delivery)
{
    return sql_run(db, SQL_CHARGE, delivery->body, NULL, NULL);
}

static int naive_remember(sqlite3 *db, const frame *delivery)
{
    return sql_run(db, "INSERT INTO processed (payment) VALUES (?1)", delivery->id, NULL, NULL);
}

static int naive_handle(sqlite3 *db, const frame *delivery)
{
    int known;
    if (naive_look_up(&known, db, delivery) != SQLITE_OK)
        return -1;
    if (known)
        return shop_acknowledge(delivery, 1);
    if (naive_charge(db, delivery) != SQLITE_OK)
        return -1;
    shop_write_receipt();
    if (naive_remember(db, delivery) != SQLITE_OK)
        return -1;
    if (naive_publish(delivery) != 0)
        return -1;
    return shop_acknowledge(delivery, 0);
}

static int open_ledger(sqlite3 **db, const char *database)
{
    if (sqlite3_open(database, db) != SQLITE_OK)
        return -1;
    sqlite3_busy_timeout(*db, BUSY_MS);
    const char *setup[] = {"PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", SQL_LEDGER,
                           "CREATE TABLE IF NOT EXISTS processed (payment TEXT PRIMARY KEY)"};
    for (size_t i = 0; i < sizeof setup / sizeof *setup; i++)
        if (sql_run(*db, setup[i], NULL, NULL, NULL) != SQLITE_OK)
            return -1;
    return 0;
}

int shop_naive(const char *database)
{
    sqlite3 *db = NULL;
    frame delivery;
    int failed = open_ledger(&db, database) || shop_ready();
    while (!failed && wire_receive(&delivery, DELIVERIES_FD, -1) == FRAME_GOT)
        failed = naive_handle(db, &delivery);
    if (failed && sqlite3_errcode(db) != SQLITE_OK && sqlite3_errcode(db) != SQLITE_DONE)
        failed = cli_failed("demo", "the naive shop: %s", sqlite3_errmsg(db));
    sqlite3_close(db);
    return failed ? CLI_FAILED : CLI_OK;
}
