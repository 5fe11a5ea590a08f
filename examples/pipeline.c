/* A whole shop as one declaration: its store, its queue, its handlers and its outboxes.
 *
 * An order goes to two handlers, each with an inbox of its own: one reserves the goods and sends a
 * parcel, which a local hand-off ships; the other one writes a mail, which no transaction can take
 * back, so that it is in claim mode. Every order is placed twice, as by a client that has got no
 * answer: each handler runs once.
 *
 * The store is a file and the queue is in it; with SEMEL_STORE (postgres://user@host/shop) and
 * SEMEL_BROKER (amqp://user:password@host/vhost) the same shop runs on servers. */
#include <semel/semel.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ORDERS = 5, EFFECTS = 3 * ORDERS, COPIES = 2 * ORDERS };

static semel_pipeline *pipeline;
static atomic_int effects, copies;

static semel_status say(semel_unit *unit, const semel_message *message, void *what,
                        semel_error *err)
{
    (void)unit, (void)err;
    printf("%s %.*s\n", (const char *)what, (int)message->id.len, (const char *)message->id.data);
    return SEMEL_OK;
}

static semel_status reserve(semel_unit *unit, const semel_message *order, void *what,
                            semel_error *err)
{
    semel_message parcel = {.size = sizeof parcel, .id = order->id, .type = "parcel"};
    semel_status status = say(unit, order, what, err);
    return status ? status
                  : semel_unit_send(unit, semel_unit_outbox(unit, "parcels"), &parcel, err);
}

/* Called after each commit. A service would run until SIGTERM; this one ends when all is done. */
static void count(void *context, const semel_event *event)
{
    (void)context;
    if (event->kind == SEMEL_EVENT_RECEIVED)
        atomic_fetch_add(event->outcome == SEMEL_DUPLICATE ? &copies : &effects, 1);
    if (atomic_load(&effects) >= EFFECTS && atomic_load(&copies) >= COPIES)
        semel_pipeline_stop(pipeline);
}

static const semel_store_options observed = {.size = sizeof observed, .observer = count};
static const semel_inbox_options claim = {.size = sizeof claim, .mode = SEMEL_CLAIM};

static semel_pipeline_store stores[] = {
    {.name = "shop", .url = "sqlite:pipeline.db", .options = &observed}, {0}};
static semel_pipeline_queue queues[] = {{.name = "orders"}, {0}};
static const semel_pipeline_inbox inboxes[] = {
    {.name = "stock", .from = "orders", .handler = reserve, .context = "reserve"},
    {.name = "mail", .from = "orders", .handler = say, .context = "mail", .options = &claim},
    {.name = "shipping", .handler = say, .context = "ship"},
    {0}};
static const semel_pipeline_outbox outboxes[] = {
    {.name = "orders", .to = "orders"}, {.name = "parcels", .inbox = "shipping"}, {0}};
static const semel_pipeline_spec shop = {.size = sizeof shop,
                                         .stores = stores,
                                         .queues = queues,
                                         .inboxes = inboxes,
                                         .outboxes = outboxes};

static semel_status place_orders(semel_outbox *outbox, semel_error *err)
{
    semel_status status = SEMEL_OK;
    long long now = (long long)time(NULL); /* other orders at the next start */
    for (int i = 0; !status && i < 2 * ORDERS; i++) {
        char id[40];
        snprintf(id, sizeof id, "%lld-%d", now, i / 2);
        semel_message order = {.size = sizeof order, .id = semel_str(id), .topic = "order.placed"};
        status = semel_outbox_send(outbox, &order, err);
    }
    return status;
}

int main(void)
{
    char url[1000], text[4000];
    semel_error err;
    if (getenv("SEMEL_STORE") && getenv("SEMEL_BROKER")) {
        snprintf(url, sizeof url, "%s?exchange=once&queue=once&bind=order.placed&declare=yes",
                 getenv("SEMEL_BROKER"));
        stores[0].url = getenv("SEMEL_STORE");
        queues[0].url = url;
    }
    int failed = semel_pipeline_open(&pipeline, &shop, &err) != SEMEL_OK;
    if (!failed && semel_pipeline_describe(text, sizeof text, pipeline))
        fputs(text, stdout);
    failed = failed || place_orders(semel_pipeline_find_outbox(pipeline, "orders"), &err) ||
             semel_pipeline_run(pipeline, &err);
    semel_pipeline_close(pipeline);
    if (failed)
        return fprintf(stderr, "%s\n", err.text), 1;
    return printf("%d effects, %d copies without one\n", effects, copies), effects != EFFECTS;
}
