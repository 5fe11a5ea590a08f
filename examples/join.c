/* Inside a transaction that the application already has open, on its own connection.
 *
 * semel adds the marker and the outgoing message to it and commits nothing: that remains the
 * application's to do, together with its own work. */
#include <semel/semel.h>
#include <semel/sqlite.h>
#include <stdio.h>

typedef struct shop {
    sqlite3 *db;
    semel_store *store;
    semel_inbox *inbox;
    semel_outbox *outbox;
} shop;

static int run(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static semel_status take_order(semel_outcome *outcome, shop *s, const semel_message *order,
                               semel_error *err)
{
    semel_message receipt = {.size = sizeof receipt, .type = "charged", .body = order->id};
    semel_unit *unit;
    if (run(s->db, "BEGIN IMMEDIATE"))
        return semel_fail(err, SEMEL_EBUSY, "%s", sqlite3_errmsg(s->db));
    semel_status status = semel_unit_join_sqlite(&unit, s->store, s->db, err);
    if (status) {
        run(s->db, "ROLLBACK");
        return status;
    }
    status = semel_unit_claim(outcome, unit, s->inbox, order, err);
    if (status || *outcome != SEMEL_CLAIMED) {
        semel_unit_rollback(unit);
        run(s->db, "ROLLBACK");
        return status;
    }
    run(s->db, "INSERT INTO charge (cents) VALUES (990)");
    status = semel_unit_send(unit, s->outbox, &receipt, err);
    if (status)
        semel_unit_rollback(unit);
    else
        status = semel_unit_commit(unit, err);
    if (run(s->db, status ? "ROLLBACK" : "COMMIT") && !status)
        status = semel_fail(err, SEMEL_ESTORE, "%s", sqlite3_errmsg(s->db));
    return status;
}

int main(void)
{
    shop s;
    semel_outcome first = SEMEL_UNDECIDED, second = SEMEL_UNDECIDED;
    semel_error err;
    semel_message order = {.size = sizeof order, .id = semel_str("order-1"), .type = "order"};

    if (semel_store_open(&s.store, "sqlite:join.db", NULL, &err) ||
        semel_store_migrate(s.store, &err) ||
        semel_inbox_open(&s.inbox, s.store, "payments", NULL, &err) ||
        semel_outbox_open(&s.outbox, s.store, "receipts", &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    if (sqlite3_open("join.db", &s.db) ||
        run(s.db, "CREATE TABLE IF NOT EXISTS charge (cents INTEGER)"))
        return fprintf(stderr, "%s\n", sqlite3_errmsg(s.db)), 1;
    if (take_order(&first, &s, &order, &err) || take_order(&second, &s, &order, &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    printf("first copy: %s, second copy: %s\n", first == SEMEL_CLAIMED ? "handled" : "not handled",
           semel_outcome_name(second));
    sqlite3_close(s.db);
    semel_outbox_close(s.outbox);
    semel_inbox_close(s.inbox);
    semel_store_close(s.store);
    return first != SEMEL_CLAIMED || second != SEMEL_DUPLICATE;
}
