/* An order service: each order is stored together with the message that tells the others of it.
 *
 *     orders setup               once: its table and those of semel
 *     orders place 3 espresso    takes an order ...
 *     orders place 100           ... or a hundred of them, by chance
 *     orders relay               carries the messages to the broker, until SIGTERM or SIGINT
 *
 * SEMEL_STORE says where its database is (postgres://user@host/orders; another SQL store will do), SEMEL_BROKER
 * where RabbitMQ is (amqp://user:password@host/vhost). inventory.c is on the other end.
 *
 * To take an order no broker is needed: it may be down, and so may the relay. Run several relays, kill any of
 * them at any time: what is not known to have arrived is sent again, and the inbox on the other end knows it. */
#include <semel/semel.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static semel_relay *relay; /* for the signal handler */

static const char *setting(const char *name)
{
    const char *value = getenv(name);
    if (!value)
        fprintf(stderr, "orders: set %s; examples/orders.c says how\n", name), exit(2);
    return value;
}

static int setup(semel_store *store, semel_error *err)
{
    static const char table[] = "CREATE TABLE IF NOT EXISTS orders (id VARCHAR(60) PRIMARY KEY, "
                                "item VARCHAR(60) NOT NULL, amount INTEGER NOT NULL)";
    semel_unit *unit = NULL;
    if (semel_store_migrate(store, err) || semel_unit_begin(&unit, store, err) ||
        semel_unit_queue(unit, table, NULL, 0, err))
        return semel_unit_rollback(unit), 1;
    return semel_unit_commit(unit, err) != SEMEL_OK;
}

/* Either the order and its message are in the database, or neither is. */
static int place(semel_outbox *outbox, semel_store *store, int amount, const char *item,
                 semel_error *err)
{
    static int count;
    char id[60], body[120];
    snprintf(id, sizeof id, "%lld-%d-%d", (long long)time(NULL), (int)getpid(), ++count);
    snprintf(body, sizeof body, "{\"item\": \"%s\", \"amount\": %d}", item, amount);
    semel_value row[] = {semel_text(id), semel_text(item), semel_int(amount)};
    semel_message placed = {.size = sizeof placed,
                            .id = semel_str(id),
                            .source = "orders",
                            .type = "order.placed",
                            .topic = "order.placed",
                            .content_type = "application/json",
                            .body = semel_str(body)};
    semel_unit *unit = NULL;
    if (semel_unit_begin(&unit, store, err) ||
        semel_unit_queue(unit, "INSERT INTO orders (id, item, amount) VALUES (?, ?, ?)", row, 3,
                         err) ||
        semel_unit_send(unit, outbox, &placed, err))
        return semel_unit_rollback(unit), 1;
    return semel_unit_commit(unit, err) != SEMEL_OK;
}

static int place_some(semel_outbox *outbox, semel_store *store, int count, semel_error *err)
{
    static const char *const menu[] = {"espresso", "cappuccino", "latte"};
    int failed = 0;
    srand((unsigned)time(NULL) ^ (unsigned)getpid());
    for (int i = 0; !failed && i < count; i++)
        failed = place(outbox, store, 1 + rand() % 3, menu[rand() % 3], err);
    return failed;
}

static void stop(int signal_number)
{
    (void)signal_number;
    semel_relay_stop(relay);
}

static void tell(void *context, const semel_error *trouble)
{
    (void)context;
    fprintf(stderr, "orders: %s\n", trouble ? trouble->text : "that is over");
}

static int carry(semel_outbox *outbox, semel_error *err)
{
    char url[1000];
    semel_transport *broker = NULL;
    /* What a relay had in hand when it was killed, another one takes when the lease is over. */
    semel_relay_options options = {
        .size = sizeof options, .lease_ms = 5000, .backoff_max_ms = 2000, .notice = tell};
    snprintf(url, sizeof url, "%s?exchange=shop&declare=yes", setting("SEMEL_BROKER"));
    int failed = semel_transport_open(&broker, url, NULL, err) ||
                 semel_relay_open(&relay, outbox, broker, &options, err);
    if (!failed) {
        fputs(semel_transport_warnings(broker), stderr);
        signal(SIGTERM, stop), signal(SIGINT, stop);
        failed = semel_relay_run(relay, err) != SEMEL_OK;
        signal(SIGTERM, SIG_IGN), signal(SIGINT, SIG_IGN); /* there is nothing to stop any more */
    }
    semel_relay_close(relay);
    semel_transport_close(broker);
    return failed;
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "", *item = argc == 4 ? argv[3] : NULL;
    int is_setup = argc == 2 && strcmp(command, "setup") == 0;
    int is_relay = argc == 2 && strcmp(command, "relay") == 0;
    int amount = argc > 2 && strcmp(command, "place") == 0 ? (int)strtol(argv[2], NULL, 10) : 0;
    if (argc > 4 || (!is_setup && !is_relay && amount <= 0))
        return fputs("orders setup | place AMOUNT ITEM | place COUNT | relay\n", stderr), 2;
    if (item && (strlen(item) > 60 || strpbrk(item, "\"\\")))
        return fputs("orders: there is no such item\n", stderr), 2;

    semel_store *store = NULL;
    semel_outbox *outbox = NULL;
    semel_error err;
    int failed = semel_store_open(&store, setting("SEMEL_STORE"), NULL, &err) != SEMEL_OK;
    if (!failed && is_setup)
        failed = setup(store, &err);
    else if (!failed)
        failed = semel_outbox_open(&outbox, store, "orders", &err) ||
                 (is_relay ? carry(outbox, &err)
                  : item   ? place(outbox, store, amount, item, &err)
                           : place_some(outbox, store, amount, &err));
    semel_outbox_close(outbox);
    semel_store_close(store);
    if (failed)
        fprintf(stderr, "orders: %s\n", err.text);
    return failed;
}
