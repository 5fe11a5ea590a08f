#include <semel/semel.h>
#include <stdio.h>

static semel_status charge(semel_unit *unit, const semel_message *order, void *outbox,
                           semel_error *err)
{
    semel_message receipt = {.size = sizeof receipt, .type = "charged", .body = order->id};
    printf("charging %.*s\n", (int)order->id.len, (const char *)order->id.data);
    return semel_unit_send(unit, outbox, &receipt, err); /* leaves if, and only if, this commits */
}

int main(void)
{
    semel_store *store;
    semel_outbox *outbox;
    semel_inbox *inbox;
    semel_outcome outcome;
    semel_error err;
    semel_message order = {.size = sizeof order, .id = semel_str("order-1"), .type = "order"};

    if (semel_store_open(&store, "sqlite:shop.db", NULL, &err) ||
        semel_store_migrate(store, &err) || semel_outbox_open(&outbox, store, "receipts", &err) ||
        semel_inbox_open(&inbox, store, "payments", NULL, &err))
        return fprintf(stderr, "%s\n", err.text), 1;

    for (int copy = 1; copy <= 2; copy++) {
        if (semel_inbox_receive(&outcome, inbox, &order, charge, outbox, &err))
            return fprintf(stderr, "%s\n", err.text), 1;
        printf("copy %d: %s\n", copy, semel_outcome_name(outcome));
    }
    semel_inbox_close(inbox);
    semel_outbox_close(outbox);
    semel_store_close(store);
    return 0;
}
