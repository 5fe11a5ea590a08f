/* The shop on semel: the marker, the charge and the outgoing event are one transaction, and a relay
 * sends what the outbox holds. Wherever it is killed, either all three are there or none, and what
 * is there is sent. An event may be sent twice, if the kill falls between the provider's
 * confirmation and the relay's note of it: under the same id, which the provider's inbox knows. */
#include "program/cli.h"
#include "program/demo/demo_sql.h"
#include "program/demo/demo_worker.h"

#include <semel/semel.h>
#include <semel/sqlite.h>
#include <semel/sys/transport.h>
#include <stdio.h>

enum {
    RELAY_EVERY = 4, /* deliveries, if there is no pause in them */
    PAUSE_MS = 5,    /* without a delivery: time for the relay */
    DRAIN_WAIT_MS = 20,
    RECEIVE_TRIES = 10
};

typedef struct semel_shop {
    semel_store *store;
    semel_inbox *inbox;
    semel_outbox *outbox;
    semel_transport *events;
    semel_relay *relay;
} semel_shop;

/* --- the work --------------------------------------------------------------------------------- */

static semel_status semel_charge(semel_unit *unit, const semel_message *message, void *context,
                                 semel_error *err)
{
    const semel_shop *self = context;
    sqlite3 *db = semel_unit_sqlite(unit);
    /* The body is that of a frame, which ends with a NUL. */
    if (sql_run(db, SQL_CHARGE, message->body.data, NULL, NULL) != SQLITE_OK)
        return semel_fail(err, SEMEL_EHANDLER, "cannot charge: %s", sqlite3_errmsg(db));
    shop_write_receipt();
    semel_message event = {.size = sizeof event,
                           .type = "charged",
                           .topic = "charges",
                           .correlation_id = message->id,
                           .content_type = "application/json",
                           .body = message->body};
    return semel_unit_send(unit, self->outbox, &event, err);
}

static semel_status semel_receive(semel_outcome *outcome, const semel_shop *self,
                                  const frame *delivery, semel_error *err)
{
    semel_message message = {.size = sizeof message,
                             .id = semel_str(delivery->id),
                             .source = "provider",
                             .type = "payment",
                             .content_type = "application/json",
                             .body = semel_str(delivery->body),
                             .delivery = delivery->delivery};
    semel_status status;
    int tries = 0;
    do
        status =
            semel_inbox_receive(outcome, self->inbox, &message, semel_charge, (void *)self, err);
    while (status && err->retryable && ++tries < RECEIVE_TRIES);
    return status;
}

/* --- events: the smallest transport ----------------------------------------------------------- */

typedef struct events {
    uint32_t last_tag; /* tags are not used twice: a late answer must not be taken for another's */
} events;

static semel_status events_open(void *state, const char *argument,
                                const semel_transport_settings *settings, semel_error *err)
{
    (void)state, (void)argument, (void)settings, (void)err;
    return SEMEL_OK;
}

static void events_close(void *state)
{
    (void)state;
}

/* The provider's own store does not wait for the disk. */
static semel_durability events_durability(const void *state)
{
    (void)state;
    return SEMEL_DURABLE_PROCESS;
}

/* Not to be tried again: without its provider this shop has no more work. */
static semel_status provider_gone(semel_error *err)
{
    return semel_fail(err, SEMEL_ETRANSPORT, "the provider is gone");
}

static semel_status await_confirms(semel_publish_result results[], size_t count, uint32_t first_tag,
                                   uint32_t wait_ms, semel_error *err)
{
    int64_t deadline = now_us() + (int64_t)wait_ms * 1000;
    for (size_t missing = count; missing;) {
        uint32_t tag = 0;
        int64_t left_ms = (deadline - now_us()) / 1000;
        frame_result result = shop_await_confirm(&tag, left_ms > 0 ? (int)left_ms : 0);
        if (result == FRAME_END)
            return provider_gone(err);
        if (result == FRAME_NONE)
            return semel_fail(err, SEMEL_EUNAVAILABLE, "the provider does not answer");
        size_t index = tag - first_tag;
        if (index < count && results[index] != SEMEL_PUBLISH_CONFIRMED) {
            results[index] = SEMEL_PUBLISH_CONFIRMED;
            missing--;
        }
    }
    return SEMEL_OK;
}

static semel_status events_publish(void *state, semel_publish_result results[],
                                   const semel_message *const messages[], size_t count,
                                   uint32_t wait_ms, semel_error *err)
{
    events *self = state;
    uint32_t first_tag = self->last_tag + 1;
    shop_cross_network();
    for (size_t i = 0; i < count; i++) {
        const semel_message *message = messages[i];
        if (shop_send_event(++self->last_tag, message->id.data, message->id.len, message->body.data,
                            message->body.len))
            return provider_gone(err);
    }
    return await_confirms(results, count, first_tag, wait_ms, err);
}

static semel_status events_receive(void *state, semel_delivery deliveries[], size_t max,
                                   size_t *count, uint32_t wait_ms, semel_error *err)
{
    (void)state, (void)deliveries, (void)max, (void)count, (void)wait_ms;
    return semel_fail(err, SEMEL_EUNSUPPORTED, "events only go out");
}

static semel_status events_settle(void *state, const semel_delivery_settlement settles[],
                                  size_t count, semel_error *err)
{
    (void)state, (void)settles, (void)count;
    return semel_fail(err, SEMEL_EUNSUPPORTED, "events only go out");
}

static const semel_transport_driver events_driver = {
    .version = SEMEL_TRANSPORT_DRIVER_VERSION,
    .abilities = SEMEL_TRANSPORT_ORDERED,
    .scheme = "demo-events",
    .transport_size = sizeof(events),
    .open = events_open,
    .close = events_close,
    .durability = events_durability,
    .publish = events_publish,
    .receive = events_receive,
    .settle = events_settle,
};

/* --- the shop --------------------------------------------------------------------------------- */

static semel_status create_ledger(semel_store *store, semel_error *err)
{
    semel_unit *unit;
    semel_status status = semel_unit_begin(&unit, store, err);
    if (status)
        return status;
    sqlite3 *db = semel_unit_sqlite(unit);
    if (sql_run(db, SQL_LEDGER, NULL, NULL, NULL) != SQLITE_OK) {
        status = semel_fail(err, SEMEL_ESTORE, "%s", sqlite3_errmsg(db));
        semel_unit_rollback(unit);
        return status;
    }
    return semel_unit_commit(unit, err);
}

static semel_status semel_shop_open(semel_shop *self, const char *database, semel_error *err)
{
    char url[256];
    /* Here a message that was interrupted often is not a bad message: it is the demo that kills. */
    semel_inbox_options inbox = {.size = sizeof inbox, .attempts_max = UINT32_MAX};
    /* A killed relay's messages are free again when its lease ends: soon, so that the end is not
     * long. */
    semel_relay_options relay = {
        .size = sizeof relay, .batch = 16, .lease_ms = 1000, .poll_ms = 10, .backoff_ms = 20};
    (void)snprintf(url, sizeof url, "sqlite:%s", database);
    semel_status status = semel_store_open(&self->store, url, NULL, err);
    if (!status)
        status = semel_store_migrate(self->store, err);
    if (!status)
        status = create_ledger(self->store, err);
    if (!status)
        status = semel_inbox_open(&self->inbox, self->store, "payments", &inbox, err);
    if (!status)
        status = semel_outbox_open(&self->outbox, self->store, "charges", err);
    if (!status)
        status = semel_transport_open_driver(&self->events, &events_driver, NULL, NULL, err);
    if (!status)
        status = semel_relay_open(&self->relay, self->outbox, self->events, &relay, err);
    return status;
}

static void semel_shop_close(semel_shop *self)
{
    semel_relay_close(self->relay);
    semel_transport_close(self->events);
    semel_outbox_close(self->outbox);
    semel_inbox_close(self->inbox);
    semel_store_close(self->store);
}

/* What may pass by itself is tried again at the next step. */
static semel_status send_events(const semel_shop *self, uint32_t wait_ms, semel_error *err)
{
    size_t sent;
    semel_status status = semel_relay_step(&sent, self->relay, wait_ms, err);
    return status && err->retryable ? SEMEL_OK : status;
}

static semel_status serve_one(const semel_shop *self, const frame *delivery, semel_error *err)
{
    semel_outcome outcome;
    semel_status status = semel_receive(&outcome, self, delivery, err);
    if (!status && shop_acknowledge(delivery, outcome == SEMEL_DUPLICATE))
        return provider_gone(err);
    return status;
}

static semel_status serve_deliveries(const semel_shop *self, semel_error *err)
{
    int since_relay = 0;
    for (;;) {
        frame delivery;
        frame_result result = wire_receive(&delivery, DELIVERIES_FD, since_relay ? 0 : PAUSE_MS);
        if (result == FRAME_END)
            return SEMEL_OK;
        semel_status status = SEMEL_OK;
        if (result == FRAME_GOT) {
            since_relay++;
            status = serve_one(self, &delivery, err);
        }
        if (!status && (result == FRAME_NONE || since_relay >= RELAY_EVERY)) {
            since_relay = 0;
            status = send_events(self, 0, err);
        }
        if (status)
            return status;
    }
}

/* No more deliveries: what is still in the outbox has to go. */
static semel_status drain_outbox(const semel_shop *self, semel_error *err)
{
    semel_counters counters = {.unsent = 1};
    semel_status status = SEMEL_OK;
    while (!status && counters.unsent) {
        status = send_events(self, DRAIN_WAIT_MS, err);
        if (!status)
            status = semel_store_counters(&counters, sizeof counters, self->store, err);
    }
    return status;
}

int shop_semel(const char *database)
{
    semel_shop self = {0};
    semel_error err = {0};
    semel_status status = semel_shop_open(&self, database, &err);
    if (!status && shop_ready())
        status = provider_gone(&err);
    if (!status)
        status = serve_deliveries(&self, &err);
    if (!status)
        status = drain_outbox(&self, &err);
    semel_shop_close(&self);
    if (status == SEMEL_ETRANSPORT)
        return CLI_FAILED; /* no parent process is left that could be told */
    return status ? cli_failed("demo", "the shop on semel: %s", err.text) : CLI_OK;
}
