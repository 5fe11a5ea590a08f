/* Outbox, relay, transport, consumer: a whole pipeline, its routing declared as a table.
 *
 * One order goes to two handlers, each with an inbox of its own. The relay sends it twice (as one that
 * died before it could mark it sent would); each handler runs once. */
#include <semel/semel.h>
#include <stdio.h>

typedef struct pipeline {
    semel_store *store;
    semel_outbox *outbox;
    semel_inbox *stock, *mail;
    semel_transport *transport;
    semel_relay *relay;
    semel_consumer *consumer;
    int reserved, mailed;
} pipeline;

static semel_status reserve(semel_unit *unit, const semel_message *message, void *context,
                            semel_error *err)
{
    (void)unit, (void)message, (void)err;
    ++*(int *)context;
    return SEMEL_OK;
}

static semel_status send_mail(semel_unit *unit, const semel_message *message, void *context,
                              semel_error *err)
{
    (void)unit, (void)message, (void)err;
    ++*(int *)context;
    return SEMEL_OK;
}

static semel_status build(pipeline *p, semel_error *err)
{
    semel_inbox_options mail = {.size = sizeof mail, .mode = SEMEL_CLAIM};
    semel_status status = semel_store_open(&p->store, "sqlite:pipeline.db", NULL, err);
    if (!status)
        status = semel_store_migrate(p->store, err);
    if (!status)
        status = semel_outbox_open(&p->outbox, p->store, "orders", err);
    if (!status)
        status = semel_inbox_open(&p->stock, p->store, "stock", NULL, err);
    if (!status)
        status = semel_inbox_open(&p->mail, p->store, "mail", &mail, err);
    if (!status)
        status = semel_transport_open(&p->transport, "memory:", NULL, err);
    if (!status)
        status = semel_relay_open(&p->relay, p->outbox, p->transport, NULL, err);
    const semel_route routes[] = {
        {"order.placed", p->stock, reserve, &p->reserved},
        {"order.*", p->mail, send_mail, &p->mailed},
    };
    return status ? status : semel_consumer_open(&p->consumer, p->transport, routes, 2, NULL, err);
}

static semel_status send_twice(pipeline *p, semel_error *err)
{
    semel_message order = {.size = sizeof order, .id = semel_str("o-1"), .type = "order.placed"};
    size_t sent = 0;
    semel_status status = SEMEL_OK;
    for (int i = 0; !status && i < 2; i++) {
        status = semel_outbox_send(p->outbox, &order, err);
        if (!status)
            status = semel_relay_step(&sent, p->relay, 0, err);
    }
    return status;
}

int main(void)
{
    pipeline p = {0};
    semel_error err;
    size_t settled = 0, total = 0;
    if (build(&p, &err) || send_twice(&p, &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    do {
        if (semel_consumer_step(&settled, p.consumer, 0, &err))
            return fprintf(stderr, "%s\n", err.text), 1;
        total += settled;
    } while (settled);
    printf("%zu deliveries, reserved %d times, mailed %d times\n", total, p.reserved, p.mailed);
    semel_consumer_close(p.consumer);
    semel_relay_close(p.relay);
    semel_transport_close(p.transport);
    semel_inbox_close(p.mail);
    semel_inbox_close(p.stock);
    semel_outbox_close(p.outbox);
    semel_store_close(p.store);
    return total != 2 || p.reserved != 1 || p.mailed != 1;
}
