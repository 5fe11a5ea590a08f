/* Statements that travel with the commit: on a database server marker, writes and outgoing message
 * are one round trip.
 *
 *     queued                                   a file, queued.db
 *     queued postgres://user@localhost/shop    the same on a server, where the application has
 *     queued mariadb://user@localhost/shop     its table:
 *
 *     CREATE TABLE example_charge (order_id VARCHAR(36), cents INT)
 *
 * The handler does nothing by itself: it says what is to be done, in SQL that all of them
 * understand. A database without SQL has statements of its own:
 *
 *     queued redis://localhost 'HINCRBY {semel}example_charge ? ?'
 *     queued dynamodb://semel "INSERT INTO example_charge VALUE {'order_id': ?, 'cents': ?}" */
#include <semel/semel.h>
#include <stdio.h>

typedef struct shop {
    semel_outbox *outbox;
    const char *statement;
} shop;

static semel_status charge(semel_unit *unit, const semel_message *order, void *context,
                           semel_error *err)
{
    const shop *s = context;
    semel_message receipt = {.size = sizeof receipt, .type = "charged", .body = order->id};
    semel_value row[] = {semel_blob(order->id), semel_int(990)};
    semel_status status = semel_unit_queue(unit, s->statement, row, 2, err);
    return status ? status : semel_unit_send(unit, s->outbox, &receipt, err);
}

/* The application's own table, beside semel's. (Servers have other ways to do that; in MariaDB it
 * would commit.) */
static semel_status create_table(semel_store *store, semel_error *err)
{
    semel_unit *unit;
    semel_status status = semel_unit_begin(&unit, store, err);
    if (!status)
        status = semel_unit_queue(unit,
                                  "CREATE TABLE IF NOT EXISTS example_charge "
                                  "(order_id VARCHAR(36) NOT NULL, cents INTEGER NOT NULL)",
                                  NULL, 0, err);
    if (!status)
        return semel_unit_commit(unit, err);
    semel_unit_rollback(unit);
    return status;
}

int main(int argc, char **argv)
{
    semel_store *store;
    semel_inbox *inbox;
    semel_outcome first, second;
    semel_error err;
    semel_message order = {.size = sizeof order, .id = semel_str("order-1"), .type = "order"};
    semel_inbox_options queued = {.size = sizeof queued, .mode = SEMEL_QUEUED};
    shop s = {.statement = "INSERT INTO example_charge (order_id, cents) VALUES (?, ?)"};
    if (argc > 2)
        s.statement = argv[2];

    if (semel_store_open(&store, argc > 1 ? argv[1] : "sqlite:queued.db", NULL, &err) ||
        semel_store_migrate(store, &err) || (argc == 1 && create_table(store, &err)) ||
        semel_outbox_open(&s.outbox, store, "receipts", &err) ||
        semel_inbox_open(&inbox, store, "payments", &queued, &err) ||
        semel_inbox_receive(&first, inbox, &order, charge, &s, &err) ||
        semel_inbox_receive(&second, inbox, &order, charge, &s, &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    printf("first copy: %s, second copy: %s\n", semel_outcome_name(first),
           semel_outcome_name(second));
    semel_inbox_close(inbox);
    semel_outbox_close(s.outbox);
    semel_store_close(store);
    return first == SEMEL_UNDECIDED || second != SEMEL_DUPLICATE;
}
