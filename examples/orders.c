/* An order service: each order is stored together with the message that tells the others of it.
 *
 *     orders setup               once: its table and those of semel
 *     orders place 3 espresso    takes an order ...
 *     orders place 100           ... or a hundred of them, by chance
 *     orders relay               carries the messages to the broker, until SIGTERM or SIGINT
 *
 * SEMEL_STORE says where its database is (postgres://user@host/orders; another SQL store will do),
 * SEMEL_BROKER where RabbitMQ is (amqp://user:password@host/vhost). inventory.c is on the other
 * end.
 *
 * To take an order no broker is needed: it may be down, and so may the relay. Run several relays,
 * kill any of them at any time: what is not known to have arrived is sent again, and the inbox on
 * the other end knows it. */
#include <semel/semel.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static semel_pipeline *pipeline; /* for the signal handler, too */

static const char *setting(const char *name)
{
    const char *value = getenv(name);
    if (!value)
        fprintf(stderr, "orders: set %s; examples/orders.c says how\n", name), exit(2);
    return value;
}

static int setup(semel_error *err)
{
    static const char table[] = "CREATE TABLE IF NOT EXISTS orders (id VARCHAR(60) PRIMARY KEY, "
                                "item VARCHAR(60) NOT NULL, amount INTEGER NOT NULL)";
    semel_unit *unit = NULL;
    if (semel_unit_begin(&unit, semel_pipeline_find_store(pipeline, "orders"), err) ||
        semel_unit_queue(unit, table, NULL, 0, err))
        return semel_unit_rollback(unit), 1;
    return semel_unit_commit(unit, err) != SEMEL_OK;
}

/* Either the order and its message are in the database, or neither is. */
static int place(int amount, const char *item, semel_error *err)
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
    if (semel_unit_begin(&unit, semel_pipeline_find_store(pipeline, "orders"), err) ||
        semel_unit_queue(unit, "INSERT INTO orders (id, item, amount) VALUES (?, ?, ?)", row, 3,
                         err) ||
        semel_unit_send(unit, semel_unit_outbox(unit, "orders"), &placed, err))
        return semel_unit_rollback(unit), 1;
    return semel_unit_commit(unit, err) != SEMEL_OK;
}

static int place_some(int count, semel_error *err)
{
    static const char *const menu[] = {"espresso", "cappuccino", "latte"};
    int failed = 0;
    srand((unsigned)time(NULL) ^ (unsigned)getpid());
    for (int i = 0; !failed && i < count; i++)
        failed = place(1 + rand() % 3, menu[rand() % 3], err);
    return failed;
}

static void stop(int signal_number)
{
    (void)signal_number;
    semel_pipeline_stop(pipeline);
}

static void tell(void *context, const char *component, const semel_error *trouble)
{
    (void)context;
    fprintf(stderr, "orders: %s: %s\n", component, trouble ? trouble->text : "that is over");
}

/* What a relay had leased when it was killed, another one takes when the lease is over. */
static const semel_relay_options options = {
    .size = sizeof options, .lease_ms = 5000, .backoff_max_ms = 2000};

/* Only `setup` makes the tables. To take orders, the outbox is enough. */
static semel_pipeline_store stores[] = {{.name = "orders", .keep_schema = 1}, {0}};
static semel_pipeline_queue queues[] = {{.name = "shop"}, {0}};
static const semel_pipeline_outbox kept[] = {{.name = "orders"}, {0}};
static const semel_pipeline_outbox relayed[] = {
    {.name = "orders", .to = "shop", .options = &options}, {0}};
static const semel_pipeline_spec taking = {
    .size = sizeof taking, .stores = stores, .outboxes = kept};
static const semel_pipeline_spec relaying = {.size = sizeof relaying,
                                             .stores = stores,
                                             .queues = queues,
                                             .outboxes = relayed,
                                             .notice = tell};

static int relay(semel_error *err)
{
    char text[4000];
    semel_pipeline_describe(text, sizeof text, pipeline);
    fputs(text, stderr);
    signal(SIGTERM, stop), signal(SIGINT, stop);
    int failed = semel_pipeline_run(pipeline, err) != SEMEL_OK;
    signal(SIGTERM, SIG_IGN), signal(SIGINT, SIG_IGN); /* there is nothing to stop any more */
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

    char url[1000] = "";
    semel_error err;
    stores[0].url = setting("SEMEL_STORE");
    stores[0].keep_schema = !is_setup;
    if (is_relay)
        snprintf(url, sizeof url, "%s?exchange=shop&declare=yes", setting("SEMEL_BROKER"));
    queues[0].url = url;
    int failed = semel_pipeline_open(&pipeline, is_relay ? &relaying : &taking, &err) ||
                 (is_setup   ? setup(&err)
                  : is_relay ? relay(&err)
                  : item     ? place(amount, item, &err)
                             : place_some(amount, &err));
    semel_pipeline_close(pipeline);
    if (failed)
        fprintf(stderr, "orders: %s\n", err.text);
    return failed;
}
