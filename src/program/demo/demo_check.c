/* The check. Each number is one question in SQL; what is due comes from the provider's database, so
 * that nothing the demo keeps in memory can make a shop look better than its ledger. */
#include "program/demo/demo_check.h"

#include "program/demo/demo_sql.h"

#include <semel/semel.h>
#include <stdio.h>
#include <stdlib.h>

/* For each payment: how often it was charged, and how much in all. */
#define SQL_BY_PAYMENT \
    "(SELECT payment, count(*) AS times, sum(cents) AS cents FROM ledger.charge GROUP BY payment)"

static int check_failed(char *error, size_t size, const char *path, const char *what)
{
    (void)snprintf(error, size, "%s: %s", path, what);
    return -1;
}

static int ask_all(verdict *out, sqlite3 *db, const char *shop)
{
    const struct {
        int64_t *answer;
        const char *sql;
        const char *about; /* ?1 */
    } questions[] = {
        {&out->due, "SELECT count(*) FROM due", NULL},
        {&out->made, "SELECT count(*) FROM ledger.charge", NULL},
        {&out->twice, "SELECT sum(times - 1) FROM " SQL_BY_PAYMENT, NULL},
        {&out->never,
         "SELECT count(*) FROM due WHERE payment NOT IN (SELECT payment FROM ledger.charge)", NULL},
        {&out->wrong,
         "SELECT count(*) FROM ledger.charge AS c LEFT JOIN due AS d ON d.payment = c.payment "
         "WHERE d.cents IS NOT c.cents",
         NULL},
        {&out->over_cents,
         "SELECT sum(max(0, c.cents - coalesce(d.cents, 0))) FROM " SQL_BY_PAYMENT
         " AS c LEFT JOIN due AS d ON d.payment = c.payment",
         NULL},
        {&out->received, "SELECT count(*) FROM received WHERE shop = ?1", shop},
        {&out->events_lost,
         "SELECT count(*) FROM due WHERE payment NOT IN "
         "(SELECT payment FROM received WHERE shop = ?1)",
         shop},
        {&out->events_doubled,
         "SELECT sum(times - 1) FROM "
         "(SELECT count(*) AS times FROM received WHERE shop = ?1 GROUP BY payment)",
         shop},
        {&out->events_wrong,
         "SELECT count(*) FROM received AS r LEFT JOIN due AS d ON d.payment = r.payment "
         "WHERE r.shop = ?1 AND d.cents IS NOT r.cents",
         shop},
    };
    int code = SQLITE_OK;
    for (size_t i = 0; code == SQLITE_OK && i < sizeof questions / sizeof *questions; i++)
        code = sql_number(questions[i].answer, db, questions[i].sql, questions[i].about);
    return code;
}

int check_shop(verdict *out, const char *provider, const char *shop, const char *ledger,
               char *error, size_t error_size)
{
    sqlite3 *db = NULL;
    int code = sqlite3_open_v2(provider, &db, SQLITE_OPEN_READWRITE, NULL);
    *out = (verdict){0};
    if (code == SQLITE_OK)
        code = sql_run(db, "ATTACH ?1 AS ledger", ledger, NULL, NULL);
    if (code == SQLITE_OK)
        code = ask_all(out, db, shop);
    if (code != SQLITE_OK)
        (void)check_failed(error, error_size, ledger, sqlite3_errmsg(db));
    sqlite3_close(db);
    return code == SQLITE_OK ? 0 : -1;
}

/* --- the outbox ------------------------------------------------------------------------------- */

static semel_status count_dead(const semel_dead *letter, void *context, semel_error *err)
{
    int64_t *count = context;
    (void)letter, (void)err;
    ++*count;
    return SEMEL_OK;
}

int check_store(verdict *out, const char *ledger, char *error, size_t error_size)
{
    char url[1024];
    semel_store *store = NULL;
    semel_error err = {0};
    semel_counters counters = {0};
    semel_dead_filter all = {.size = sizeof all, .limit = UINT32_MAX};
    (void)snprintf(url, sizeof url, "sqlite:%s", ledger);
    semel_status status = semel_store_open(&store, url, NULL, &err);
    if (!status)
        status = semel_store_counters(&counters, sizeof counters, store, &err);
    out->dead = 0;
    if (!status)
        status = semel_dead_list(store, &all, count_dead, &out->dead, &err);
    out->unsent = (int64_t)counters.unsent;
    semel_store_close(store);
    return status ? check_failed(error, error_size, ledger, err.text) : 0;
}

/* --- the verdict ------------------------------------------------------------------------------ */

int verdict_is_exact(const verdict *v)
{
    char text[128];
    return !verdict_complaint(text, sizeof text, v, 0);
}

int verdict_complaint(char *out, size_t size, const verdict *v, size_t index)
{
    const struct {
        int64_t count;
        const char *what;
    } all[] = {
        {v->due == 0, "nothing was due"},
        {v->twice, "charges too many of a payment"},
        {v->never, "payments never charged"},
        {v->wrong, "charges of a wrong amount or of nothing that is due"},
        {llabs(v->made - v->due), "difference between charges made and due"},
        {v->over_cents, "cents charged too much"},
        {v->events_lost, "charges never announced"},
        {v->events_doubled, "announcements too many of a charge"},
        {v->events_wrong, "announcements of a wrong amount or of nothing that is due"},
        {llabs(v->received - v->due), "difference between events received and due"},
        {v->unsent, "events still in the outbox"},
        {v->dead, "dead letters"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i].count || index-- > 0)
            continue;
        (void)snprintf(out, size, "%s: %lld", all[i].what, (long long)all[i].count);
        return 1;
    }
    return 0;
}

void check_glance(int64_t *twice, int64_t *over_cents, sqlite3 *db)
{
    static const char extra[] =
        "FROM (SELECT count(*) AS times, max(cents) AS cents FROM charge GROUP BY payment)";
    char sql[160];
    (void)snprintf(sql, sizeof sql, "SELECT sum(times - 1) %s", extra);
    (void)sql_number(twice, db, sql, NULL);
    (void)snprintf(sql, sizeof sql, "SELECT sum((times - 1) * cents) %s", extra);
    (void)sql_number(over_cents, db, sql, NULL);
}
