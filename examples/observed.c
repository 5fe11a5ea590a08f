/* An observer: one line for each outcome, as metrics, traces and logs would have it; and at the end
 * the counters of the inbox and the health of the relay. */
#include <semel/semel.h>
#include <stdio.h>

static void observe(void *context, const semel_event *event)
{
    (void)context;
    printf("%s %s: %.*s is %s, attempt %u%s%s\n",
           event->kind == SEMEL_EVENT_SENT ? "outbox" : "inbox", event->name,
           (int)event->message->id.len, (const char *)event->message->id.data,
           semel_outcome_name(event->outcome), event->attempt, event->error ? ": " : "",
           event->error ? event->error : "");
}

static semel_status charge(semel_unit *unit, const semel_message *order, void *outbox,
                           semel_error *err)
{
    semel_message receipt = {.size = sizeof receipt, .id = semel_str("receipt-1")};
    (void)order;
    if (semel_unit_attempt(unit) == 1)
        return semel_fail(err, SEMEL_EHANDLER, "the card reader is away");
    return semel_unit_send(unit, outbox, &receipt, err);
}

/* The relay hands the receipt to an inbox of the same store. */
static semel_status print(semel_unit *unit, const semel_message *receipt, void *context,
                          semel_error *err)
{
    (void)unit, (void)receipt, (void)context, (void)err;
    return SEMEL_OK;
}

static int report(semel_inbox *inbox, semel_relay *relay, semel_error *err)
{
    semel_counters counters;
    semel_health health;
    semel_health_query query = {.size = sizeof query, .relay = relay};
    if (semel_health_check(&health, sizeof health, &query, err))
        return 1;
    semel_inbox_counters(&counters, sizeof counters, inbox);
    printf("processed %llu, failed %llu; the store is %s, the relay is %s\n",
           (unsigned long long)counters.processed, (unsigned long long)counters.failed,
           semel_health_name(health.store.state), semel_health_name(health.relay.state));
    return counters.processed != 1 || counters.failed != 1 || health.store.state != SEMEL_HEALTH_OK;
}

int main(void)
{
    semel_store_options options = {.size = sizeof options, .observer = observe};
    semel_store *store;
    semel_outbox *outbox;
    semel_inbox *payments, *receipts;
    semel_relay *relay;
    semel_outcome outcome;
    semel_error err;
    size_t sent;
    semel_message order = {.size = sizeof order, .id = semel_str("order-1"), .type = "order"};

    if (semel_store_open(&store, "sqlite:observed.db", &options, &err) ||
        semel_store_migrate(store, &err) || semel_outbox_open(&outbox, store, "receipts", &err) ||
        semel_inbox_open(&payments, store, "payments", NULL, &err) ||
        semel_inbox_open(&receipts, store, "printer", NULL, &err) ||
        semel_relay_open_local(&relay, outbox, receipts, print, NULL, NULL, &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    for (int copy = 1; copy <= 3; copy++)
        (void)semel_inbox_receive(&outcome, payments, &order, charge, outbox, &err);
    if (semel_relay_step(&sent, relay, 0, &err) || report(payments, relay, &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    semel_relay_close(relay);
    semel_inbox_close(receipts);
    semel_inbox_close(payments);
    semel_outbox_close(outbox);
    semel_store_close(store);
    return 0;
}
