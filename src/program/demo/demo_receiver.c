/* The provider receives events through inboxes of its own, one for each shop, so that an event
 * which is sent twice under one id counts once. Two events of one payment with ids of their own
 * count as two: that is what the check looks for.
 *
 * The demo does not kill the provider, so its store need not wait for the disk. */
#include "program/demo/demo_receiver.h"

#include "program/demo/demo_sql.h"

#include <semel/sqlite.h>
#include <stdio.h>

const char *const shop_names[SHOPS] = {"naive", "semel"};

typedef struct arrival {
    const char *shop;
    const frame *event;
} arrival;

static semel_status keep_event(semel_unit *unit, const semel_message *message, void *context,
                               semel_error *err)
{
    const arrival *came = context;
    sqlite3 *db = semel_unit_sqlite(unit);
    (void)message;
    if (sql_run(db,
                "INSERT INTO received (shop, event, payment, cents) VALUES "
                "(?1, ?2, json_extract(?3, '$.payment'), json_extract(?3, '$.cents'))",
                came->shop, came->event->id, came->event->body) != SQLITE_OK)
        return semel_fail(err, SEMEL_EHANDLER, "%s", sqlite3_errmsg(db));
    return SEMEL_OK;
}

semel_status receiver_receive(int *duplicate, receiver *self, uint32_t shop, const frame *event,
                              semel_error *err)
{
    arrival came = {shop_names[shop], event};
    semel_outcome outcome;
    semel_message message = {.size = sizeof message,
                             .id = semel_str(event->id),
                             .type = "charged",
                             .body = semel_str(event->body)};
    semel_status status =
        semel_inbox_receive(&outcome, self->inboxes[shop], &message, keep_event, &came, err);
    if (!status)
        *duplicate = outcome == SEMEL_DUPLICATE;
    return status;
}

static int write_plan(sqlite3 *db, const plan *due)
{
    int code = sql_run(db, "CREATE TABLE due (payment TEXT PRIMARY KEY, cents INTEGER NOT NULL)",
                       NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sql_run(db,
                       "CREATE TABLE received (shop TEXT NOT NULL, event TEXT NOT NULL, "
                       "payment TEXT NOT NULL, cents INTEGER NOT NULL)",
                       NULL, NULL, NULL);
    for (uint32_t i = 0; code == SQLITE_OK && i < due->payment_count; i++) {
        char cents[16];
        (void)snprintf(cents, sizeof cents, "%u", due->payments[i].cents);
        code = sql_run(db, "INSERT INTO due (payment, cents) VALUES (?1, ?2)", due->payments[i].id,
                       cents, NULL);
    }
    return code;
}

static semel_status create_books(semel_store *store, const plan *due, semel_error *err)
{
    semel_unit *unit;
    semel_status status = semel_unit_begin(&unit, store, err);
    if (status)
        return status;
    sqlite3 *db = semel_unit_sqlite(unit);
    if (write_plan(db, due) != SQLITE_OK) {
        status = semel_fail(err, SEMEL_ESTORE, "%s", sqlite3_errmsg(db));
        semel_unit_rollback(unit);
        return status;
    }
    return semel_unit_commit(unit, err);
}

semel_status receiver_open(receiver *out, const plan *due, semel_error *err)
{
    *out = (receiver){0};
    semel_status status =
        semel_store_open(&out->store, "sqlite:" PROVIDER_DATABASE "?synchronous=normal", NULL, err);
    if (!status)
        status = semel_store_migrate(out->store, err);
    if (!status)
        status = create_books(out->store, due, err);
    for (uint32_t shop = 0; !status && shop < SHOPS; shop++)
        status = semel_inbox_open(&out->inboxes[shop], out->store, shop_names[shop], NULL, err);
    return status;
}

void receiver_close(receiver *self)
{
    for (uint32_t shop = 0; shop < SHOPS; shop++)
        semel_inbox_close(self->inboxes[shop]);
    semel_store_close(self->store);
    self->store = NULL;
}
