/* An inventory service: every order that arrives takes its goods out of the stock, once.
 *
 *     inventory add 100 espresso    goods come in; the first time, this makes the tables
 *     inventory                     serves orders, until SIGTERM or SIGINT
 *     inventory show                the stock, and the orders that could not be served
 *
 * SEMEL_STORE says where its database is (postgres://user@host/inventory), SEMEL_BROKER where
 * RabbitMQ is (amqp://user:password@host/vhost). orders.c is on the other end.
 *
 * RabbitMQ delivers at least once: copies come. Run several of this, kill any of them at any time:
 * the change of the stock and the marker "this order is done" are one transaction. */
#include <libpq-fe.h>
#include <semel/postgres.h>
#include <semel/semel.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static semel_pipeline *pipeline; /* for the signal handler, too */

static const char *setting(const char *name)
{
    const char *value = getenv(name);
    if (!value)
        fprintf(stderr, "inventory: set %s; examples/inventory.c says how\n", name), exit(2);
    return value;
}

static int add(int amount, const char *item, semel_error *err)
{
    static const char table[] = "CREATE TABLE IF NOT EXISTS stock (item TEXT PRIMARY KEY, "
                                "amount INTEGER NOT NULL, served INTEGER NOT NULL DEFAULT 0)";
    static const char arrival[] =
        "INSERT INTO stock (item, amount) VALUES (?, ?) "
        "ON CONFLICT (item) DO UPDATE SET amount = stock.amount + excluded.amount";
    semel_value row[] = {semel_text(item), semel_int(amount)};
    semel_unit *unit = NULL;
    if (semel_unit_begin(&unit, semel_pipeline_find_store(pipeline, "inventory"), err) ||
        semel_unit_queue(unit, table, NULL, 0, err) || semel_unit_queue(unit, arrival, row, 2, err))
        return semel_unit_rollback(unit), 1;
    return semel_unit_commit(unit, err) != SEMEL_OK;
}

/* The work, on the connection that the unit's transaction is open on. The database reads the JSON.
 * What is printed may be taken back, by a kill before the commit; then it is printed again. */
static semel_status serve(semel_unit *unit, const semel_message *order, void *context,
                          semel_error *err)
{
    static const char take[] =
        "UPDATE stock SET amount = stock.amount - wanted.amount, served = served + 1 "
        "FROM json_to_record($1) AS wanted (item TEXT, amount INTEGER) "
        "WHERE stock.item = wanted.item AND wanted.amount BETWEEN 1 AND stock.amount "
        "RETURNING format('%s %s, %s left', wanted.amount, stock.item, stock.amount)";
    const char *body[] = {order->body.data};
    int length[] = {(int)order->body.len}, is_binary[] = {1};
    PGresult *taken =
        PQexecParams(semel_unit_postgres(unit), take, 1, NULL, body, length, is_binary, 0);
    semel_status status = SEMEL_OK;
    (void)context;
    if (PQresultStatus(taken) != PGRES_TUPLES_OK) /* it is tried again, later, a few times */
        status = semel_fail(err, SEMEL_EHANDLER, "%s", PQresultErrorMessage(taken));
    else if (PQntuples(taken) == 0) /* it becomes a dead letter, for a person to look at */
        status = semel_fail(err, SEMEL_EGIVEUP, "not in stock: %.*s", length[0], body[0]);
    puts(status ? err->text : PQgetvalue(taken, 0, 0));
    PQclear(taken);
    return status;
}

static semel_status show_dead(const semel_dead *dead, void *context, semel_error *err)
{
    (void)context, (void)err;
    printf("order %.*s: %s\n", (int)dead->key.len, (const char *)dead->key.data, dead->error);
    return SEMEL_OK;
}

static int show(semel_error *err)
{
    static const char stock[] = "SELECT format('%s: %s left, %s orders served', item, amount, "
                                "served) FROM stock ORDER BY item";
    semel_store *store = semel_pipeline_find_store(pipeline, "inventory");
    semel_unit *unit;
    if (semel_unit_begin(&unit, store, err))
        return 1;
    PGresult *rows = PQexec(semel_unit_postgres(unit), stock);
    int failed = PQresultStatus(rows) != PGRES_TUPLES_OK;
    if (failed)
        semel_fail(err, SEMEL_ESTORE, "%s", PQresultErrorMessage(rows));
    for (int i = 0; i < PQntuples(rows); i++)
        puts(PQgetvalue(rows, i, 0));
    PQclear(rows);
    semel_unit_rollback(unit);
    return failed || semel_dead_list(store, NULL, show_dead, NULL, err);
}

static void stop(int signal_number)
{
    (void)signal_number;
    semel_pipeline_stop(pipeline);
}

static void tell(void *context, const char *component, const semel_error *trouble)
{
    (void)context;
    fprintf(stderr, "inventory: %s: %s\n", component, trouble ? trouble->text : "that is over");
}

static const char *const placed[] = {"order.placed", NULL};
static const semel_consumer_options options = {
    .size = sizeof options, .workers = 4, .backoff_max_ms = 2000};

static semel_pipeline_store stores[] = {{.name = "inventory"}, {0}};
static semel_pipeline_queue queues[] = {{.name = "orders", .consumer = &options}, {0}};
static const semel_pipeline_inbox inboxes[] = {{.name = "inventory",
                                                .from = "orders",
                                                .types = placed,
                                                .handler = serve,
                                                .require = SEMEL_GRADE_EXACTLY_ONCE_EFFECTS},
                                               {0}};
static const semel_pipeline_spec service = {
    .size = sizeof service, .stores = stores, .queues = queues, .inboxes = inboxes, .notice = tell};
static const semel_pipeline_spec tool = {.size = sizeof tool, .stores = stores};

static int work(semel_error *err)
{
    char text[4000];
    semel_pipeline_describe(text, sizeof text, pipeline);
    fputs(text, stdout);
    signal(SIGTERM, stop), signal(SIGINT, stop);
    int failed = semel_pipeline_run(pipeline, err) != SEMEL_OK;
    signal(SIGTERM, SIG_IGN), signal(SIGINT, SIG_IGN); /* there is nothing to stop any more */
    return failed;
}

int main(int argc, char **argv)
{
    int amount = argc == 4 && strcmp(argv[1], "add") == 0 ? (int)strtol(argv[2], NULL, 10) : 0;
    int is_show = argc == 2 && strcmp(argv[1], "show") == 0;
    char url[1000] = "";
    semel_error err;
    if (argc > 1 && !is_show && amount <= 0)
        return fputs("inventory [add AMOUNT ITEM | show]\n", stderr), 2;
    setvbuf(stdout, NULL, _IOLBF, 0); /* line by line, into a file too */
    stores[0].url = setting("SEMEL_STORE");
    if (argc == 1)
        snprintf(url, sizeof url, "%s?exchange=shop&queue=inventory&bind=order.placed&declare=yes",
                 setting("SEMEL_BROKER"));
    queues[0].url = url;
    int failed = semel_pipeline_open(&pipeline, argc == 1 ? &service : &tool, &err) ||
                 (is_show      ? show(&err)
                  : amount > 0 ? add(amount, argv[3], &err)
                               : work(&err));
    semel_pipeline_close(pipeline);
    if (failed)
        fprintf(stderr, "inventory: %s\n", err.text);
    return failed;
}
