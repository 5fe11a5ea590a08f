/* Which protection for which effect: the handlers of docs/CHOOSING.md, each of which gets every
 * message twice. The program counts what the outside world saw of them, and fails if that is not
 * what the document says. */
#include <semel/semel.h>
#include <semel/sqlite.h>
#include <stdio.h>
#include <string.h>

/* What stands for the world outside of the database. */
typedef struct world {
    int charges, mails, orders_counted, cache_removals;
    char charge_key[SEMEL_IDEMPOTENCY_KEY_SIZE];
    semel_outbox *outbox;
} world;

static int post_charge(world *w, const char *idempotency_key)
{
    w->charges += strcmp(w->charge_key, idempotency_key) != 0; /* the provider remembers the key */
    (void)snprintf(w->charge_key, sizeof w->charge_key, "%s", idempotency_key);
    return 0;
}

static int smtp_send(world *w, semel_bytes address)
{
    printf("mail to %.*s\n", (int)address.len, (const char *)address.data);
    w->mails++;
    return 0;
}

static void cache_remove(world *w, const char *key)
{
    printf("%s is no longer in the cache\n", key);
    w->cache_removals++;
}

/* --- state that overwrites -------------------------------------------------------------------- */

static semel_status set_price(semel_unit *unit, const semel_message *price, void *context,
                              semel_error *err)
{
    (void)context;
    semel_value row[] = {semel_text(price->group), semel_blob(price->body),
                         semel_int(price->time_ms)};
    return semel_unit_queue(unit,
                            "INSERT INTO price (sku, price, changed_ms) VALUES (?, ?, ?) "
                            "ON CONFLICT (sku) DO UPDATE SET price = excluded.price, "
                            "changed_ms = excluded.changed_ms "
                            "WHERE excluded.changed_ms > price.changed_ms",
                            row, 3, err);
}

/* --- a row that depends on others ------------------------------------------------------------- */

static semel_status take_from_stock(semel_unit *unit, const semel_message *order, void *context,
                                    semel_error *err)
{
    world *w = context;
    semel_message taken = {.size = sizeof taken, .type = "stock.taken", .body = order->id};
    sqlite3 *db = semel_unit_sqlite(unit);
    if (sqlite3_exec(db, "UPDATE stock SET count = count - 1 WHERE count > 0", NULL, NULL, NULL))
        return semel_fail(err, SEMEL_EHANDLER, "stock: %s", sqlite3_errmsg(db));
    if (sqlite3_changes(db) == 0)
        return semel_fail(err, SEMEL_EGIVEUP, "nothing is left in stock");
    return semel_unit_send(unit, w->outbox, &taken, err);
}

/* --- a row that is inserted ------------------------------------------------------------------- */

static semel_status book(semel_unit *unit, const semel_message *order, void *context,
                         semel_error *err)
{
    (void)context;
    semel_value row[] = {semel_blob(order->id), semel_int(order->time_ms)};
    return semel_unit_queue(unit, "INSERT INTO ledger (order_id, at_ms) VALUES (?, ?)", row, 2,
                            err);
}

/* --- a charge at a provider ------------------------------------------------------------------- */

static semel_status charge(semel_unit *unit, const semel_message *order, void *context,
                           semel_error *err)
{
    (void)order;
    char key[SEMEL_IDEMPOTENCY_KEY_SIZE];
    semel_status status = semel_unit_idempotency_key(key, unit, err);
    if (status)
        return status;
    if (post_charge(context, key)) /* with "Idempotency-Key: ..." among its headers */
        return semel_fail(err, SEMEL_EHANDLER, "the provider does not answer");
    return semel_unit_set_result(unit, "charged", strlen("charged"), err);
}

/* --- an email --------------------------------------------------------------------------------- */

static semel_status accept_order(semel_unit *unit, const semel_message *order, void *context,
                                 semel_error *err)
{
    world *w = context;
    semel_message mail = {.size = sizeof mail, .type = "mail.wanted", .body = order->body};
    semel_status status = book(unit, order, NULL, err);
    return status ? status : semel_unit_send(unit, w->outbox, &mail, err);
}

static semel_status send_mail(semel_unit *unit, const semel_message *mail, void *context,
                              semel_error *err)
{
    (void)unit;
    return smtp_send(context, mail->body)
               ? semel_fail(err, SEMEL_EHANDLER, "the mail server does not answer")
               : SEMEL_OK;
}

static semel_status open_mail_inbox(semel_inbox **out, semel_store *store, semel_error *err)
{
    semel_inbox_options at_most_once = {
        .size = sizeof at_most_once, .mode = SEMEL_CLAIM, .attempts_max = 1};
    return semel_inbox_open(out, store, "mail", &at_most_once, err);
}

/* --- a metric --------------------------------------------------------------------------------- */

static semel_status receive_and_count(world *w, semel_inbox *inbox, const semel_message *order,
                                      semel_error *err)
{
    semel_outcome outcome;
    semel_status status = semel_inbox_receive(&outcome, inbox, order, book, NULL, err);
    if (outcome == SEMEL_PROCESSED)
        w->orders_counted++;
    return status;
}

/* --- a cache ---------------------------------------------------------------------------------- */

static semel_status rename_product(semel_unit *unit, const semel_message *product, void *context,
                                   semel_error *err)
{
    world *w = context;
    semel_value row[] = {semel_blob(product->body), semel_text(product->group)};
    semel_message changed = {
        .size = sizeof changed, .type = "product.changed", .group = product->group};
    semel_status status =
        semel_unit_queue(unit, "UPDATE product SET name = ? WHERE sku = ?", row, 2, err);
    return status ? status : semel_unit_send(unit, w->outbox, &changed, err);
}

static semel_status forget_cached(semel_unit *unit, const semel_message *changed, void *context,
                                  semel_error *err)
{
    (void)unit, (void)err;
    cache_remove(context, changed->group);
    return SEMEL_OK;
}

/* --- all of them, twice ----------------------------------------------------------------------- */

static int failed(const char *what, const semel_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->text);
    return 1;
}

/* Runs it without an inbox: every copy is handled. */
static int run_each(semel_store *store, const semel_message *message, semel_handler *handler,
                    world *w)
{
    semel_unit *unit;
    semel_error err;
    for (int copy = 0; copy < 2; copy++) {
        if (semel_unit_begin(&unit, store, &err))
            return failed("begin", &err);
        if (handler(unit, message, w, &err)) {
            semel_unit_rollback(unit);
            return failed("handler", &err);
        }
        if (semel_unit_commit(unit, &err))
            return failed("commit", &err);
    }
    return 0;
}

static int run_once(semel_store *store, const char *name, semel_mode mode,
                    const semel_message *message, semel_handler *handler, world *w)
{
    semel_inbox_options options = {.size = sizeof options, .mode = mode};
    semel_inbox *inbox;
    semel_outcome outcome = SEMEL_UNDECIDED;
    semel_error err;
    if (semel_inbox_open(&inbox, store, name, &options, &err))
        return failed(name, &err);
    for (int copy = 0; copy < 2; copy++)
        if (semel_inbox_receive(&outcome, inbox, message, handler, w, &err))
            return failed(name, &err);
    semel_inbox_close(inbox);
    return outcome != SEMEL_DUPLICATE;
}

static int run_prices(semel_store *store, world *w)
{
    semel_message price = {.size = sizeof price, .group = "espresso", .time_ms = 2};
    price.body = semel_str("2.50");
    int wrong = run_each(store, &price, set_price, w);
    price.body = semel_str("2.20"), price.time_ms = 1; /* an older one, late */
    return wrong || run_each(store, &price, set_price, w);
}

static int run_mail(semel_store *store, world *w)
{
    semel_message mail = {
        .size = sizeof mail, .id = semel_str("mail-1"), .body = semel_str("ada@example.org")};
    semel_inbox *inbox;
    semel_outcome outcome = SEMEL_UNDECIDED;
    semel_error err;
    if (open_mail_inbox(&inbox, store, &err))
        return failed("mail", &err);
    for (int copy = 0; copy < 2; copy++)
        if (semel_inbox_receive(&outcome, inbox, &mail, send_mail, w, &err))
            return failed("mail", &err);
    semel_inbox_close(inbox);
    return outcome != SEMEL_DUPLICATE;
}

static int run_metric(semel_store *store, world *w)
{
    semel_message order = {.size = sizeof order, .id = semel_str("order-3")};
    semel_inbox *inbox;
    semel_error err;
    if (semel_inbox_open(&inbox, store, "counted", NULL, &err))
        return failed("counted", &err);
    for (int copy = 0; copy < 2; copy++)
        if (receive_and_count(w, inbox, &order, &err))
            return failed("counted", &err);
    semel_inbox_close(inbox);
    return 0;
}

static int query(semel_store *store, const char *sql, sqlite3_callback callback, void *context)
{
    semel_unit *unit;
    semel_error err;
    if (semel_unit_begin(&unit, store, &err))
        return failed("begin", &err);
    int wrong = sqlite3_exec(semel_unit_sqlite(unit), sql, callback, context, NULL) != SQLITE_OK;
    return semel_unit_commit(unit, &err) ? failed(sql, &err) : wrong;
}

static int keep_text(void *room, int count, char **values, char **names)
{
    (void)count, (void)names;
    (void)snprintf(room, 64, "%s", values[0]);
    return 0;
}

static int check(semel_store *store, const world *w)
{
    char rows[64] = "";
    int wrong =
        query(store,
              "SELECT (SELECT group_concat(price) FROM price) || ', ' || (SELECT count FROM stock) "
              "|| ' left, ' || (SELECT count(*) FROM ledger) || ' booked, ' || "
              "(SELECT name FROM product)",
              keep_text, rows);
    printf("%s; %d charged, %d mailed, %d counted, %d removed from the cache\n", rows, w->charges,
           w->mails, w->orders_counted, w->cache_removals);
    return wrong || strcmp(rows, "2.50, 9 left, 3 booked, Ristretto") != 0 || w->charges != 1 ||
           w->mails != 1 || w->orders_counted != 1 || w->cache_removals != 2;
}

static int run_all(semel_store *store, world *w)
{
    semel_message order = {.size = sizeof order,
                           .id = semel_str("order-1"),
                           .group = "espresso",
                           .body = semel_str("Ristretto")};
    semel_message other = {
        .size = sizeof other, .id = semel_str("order-2"), .body = semel_str("ada@example.org")};
    return run_prices(store, w) ||
           run_once(store, "stock", SEMEL_TRANSACTION, &order, take_from_stock, w) ||
           run_once(store, "ledger", SEMEL_QUEUED, &order, book, w) ||
           run_once(store, "payments", SEMEL_CLAIM, &order, charge, w) ||
           run_once(store, "orders", SEMEL_QUEUED, &other, accept_order, w) || run_mail(store, w) ||
           run_metric(store, w) ||
           run_once(store, "products", SEMEL_QUEUED, &order, rename_product, w) ||
           run_each(store, &order, forget_cached, w);
}

int main(void)
{
    static const char tables[] =
        "CREATE TABLE price (sku TEXT PRIMARY KEY, price, changed_ms INTEGER);"
        "CREATE TABLE stock (count INTEGER); INSERT INTO stock VALUES (10);"
        "CREATE TABLE ledger (order_id, at_ms);"
        "CREATE TABLE product (sku TEXT, name); INSERT INTO product VALUES ('espresso', 'Lungo');";
    semel_store *store;
    semel_error err;
    world w = {0};
    if (semel_store_open(&store, "sqlite:choosing.db", NULL, &err) ||
        semel_store_migrate(store, &err) || semel_outbox_open(&w.outbox, store, "events", &err))
        return failed("opening", &err);
    int wrong = query(store, tables, NULL, NULL) || run_all(store, &w) || check(store, &w);
    semel_outbox_close(w.outbox);
    semel_store_close(store);
    return wrong;
}
