/* A store that semel makes of five functions: examples/own_keyed/liststore.c.
 *
 *     cc -o own_keyed own_keyed.c own_keyed/liststore.c $(pkg-config --cflags --libs semel)
 *     ./own_keyed */
#include <semel/semel.h>
#include <semel/sys/keyed.h>
#include <stdio.h>
#include <stdlib.h>

extern const semel_keyed_driver liststore_driver;

static semel_error err;

static void check(semel_status status)
{
    if (status == SEMEL_OK)
        return;
    fprintf(stderr, "own_keyed: %s: %s\n", semel_status_name(status), err.text);
    exit(1);
}

/* The answer leaves if, and only if, the message is marked as handled. */
static semel_status confirm(semel_unit *unit, const semel_message *message, void *context,
                            semel_error *why)
{
    semel_message answer = {.size = sizeof answer, .topic = "confirmed", .body = message->body};
    printf("order %.*s\n", (int)message->body.len, (const char *)message->body.data);
    return semel_unit_send(unit, context, &answer, why);
}

int main(void)
{
    semel_store *store;
    semel_inbox *inbox;
    semel_outbox *outbox;
    semel_outcome outcome;
    semel_counters counters;
    semel_message message = {
        .size = sizeof message, .id = semel_str("order-1"), .body = semel_str("1")};

    check(semel_store_open_keyed(&store, &liststore_driver, NULL, NULL, &err));
    check(semel_store_migrate(store, &err));
    check(semel_inbox_open(&inbox, store, "orders", NULL, &err));
    check(semel_outbox_open(&outbox, store, "answers", &err));
    for (int copy = 1; copy <= 2; copy++) {
        check(semel_inbox_receive(&outcome, inbox, &message, confirm, outbox, &err));
        printf("copy %d: %s\n", copy, semel_outcome_name(outcome));
    }
    check(semel_store_counters(&counters, sizeof counters, store, &err));
    printf("%llu answer to be sent\n", (unsigned long long)counters.unsent);
    semel_outbox_close(outbox);
    semel_inbox_close(inbox);
    semel_store_close(store);
    return 0;
}
