/* The handler's own writes, the marker and the outgoing message: one transaction.
 *
 * The work is done on the connection that the unit's transaction is open on. Whatever happens,
 * either the charge, its marker and its receipt are all there, or none of them is. */
#include <semel/semel.h>
#include <semel/sqlite.h>
#include <stdio.h>

static semel_status charge(semel_unit *unit, const semel_message *order, void *outbox,
                           semel_error *err)
{
    semel_message receipt = {.size = sizeof receipt, .type = "charged", .body = order->id};
    sqlite3 *db = semel_unit_sqlite(unit);
    sqlite3_stmt *insert = NULL;
    sqlite3_prepare_v2(db, "INSERT INTO charge (order_id, cents) VALUES (?, 990)", -1, &insert,
                       NULL);
    sqlite3_bind_text(insert, 1, order->id.data, (int)order->id.len, SQLITE_STATIC);
    int code = sqlite3_step(insert);
    sqlite3_finalize(insert);
    if (code != SQLITE_DONE)
        return semel_fail(err, SEMEL_EHANDLER, "no charge: %s", sqlite3_errmsg(db));
    return semel_unit_send(unit, outbox, &receipt, err);
}

/* The application's own table, in the same file. */
static semel_status create_tables(semel_store *store, semel_error *err)
{
    semel_unit *unit;
    semel_status status = semel_unit_begin(&unit, store, err);
    if (status)
        return status;
    sqlite3_exec(semel_unit_sqlite(unit),
                 "CREATE TABLE IF NOT EXISTS charge (order_id TEXT, cents INTEGER)", NULL, NULL,
                 NULL);
    return semel_unit_commit(unit, err);
}

int main(void)
{
    semel_store *store;
    semel_outbox *outbox;
    semel_inbox *inbox;
    semel_outcome first, second;
    semel_error err;
    semel_message order = {.size = sizeof order, .id = semel_str("order-1"), .type = "order"};

    if (semel_store_open(&store, "sqlite:transaction.db", NULL, &err) ||
        semel_store_migrate(store, &err) || create_tables(store, &err) ||
        semel_outbox_open(&outbox, store, "receipts", &err) ||
        semel_inbox_open(&inbox, store, "payments", NULL, &err) ||
        semel_inbox_receive(&first, inbox, &order, charge, outbox, &err) ||
        semel_inbox_receive(&second, inbox, &order, charge, outbox, &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    printf("first copy: %s, second copy: %s\n", semel_outcome_name(first),
           semel_outcome_name(second));
    semel_inbox_close(inbox);
    semel_outbox_close(outbox);
    semel_store_close(store);
    return first != SEMEL_PROCESSED || second != SEMEL_DUPLICATE;
}
