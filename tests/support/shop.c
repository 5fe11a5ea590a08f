/* The shop of shop.h. */
#include "support/shop.h"

#include "support/effect.h"
#include "support/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE_OK(call) PROCESS_REQUIRE_OK(call, &err)

static const semel_store_options patient = {.size = sizeof patient, .busy_ms = 30000};

void shop_build(const char *url)
{
    semel_error err;
    semel_store *store;
    REQUIRE_OK(semel_store_open(&store, url, &patient, &err));
    REQUIRE_OK(semel_store_migrate(store, &err));
    semel_store_close(store);
    effect_build(url, "effect");
}

void shop_open(shop *s, const char *url, const semel_inbox_options *options, shop_tally *tally)
{
    semel_error err;
    *s = (shop){.tally = tally};
    (void)snprintf(s->url, sizeof s->url, "%s", url);
    REQUIRE_OK(semel_store_open(&s->store, url, &patient, &err));
    REQUIRE_OK(semel_outbox_open(&s->outbox, s->store, "out", &err));
    REQUIRE_OK(semel_inbox_open(&s->inbox, s->store, "orders", options, &err));
}

void shop_close(shop *s)
{
    semel_inbox_close(s->inbox);
    semel_outbox_close(s->outbox);
    semel_store_close(s->store);
}

semel_message shop_message(char text[SHOP_TEXT], unsigned key)
{
    (void)snprintf(text, SHOP_TEXT, "%u", key);
    return (semel_message){.size = sizeof(semel_message),
                           .id = semel_str(text),
                           .type = "order.placed",
                           .body = semel_str(text)};
}

semel_status shop_handler(semel_unit *unit, const semel_message *message, void *context,
                          semel_error *err)
{
    shop *s = context;
    char text[SHOP_TEXT];
    (void)snprintf(text, sizeof text, "%.*s", (int)message->body.len,
                   (const char *)message->body.data);
    unsigned key = (unsigned)strtoul(text, NULL, 10);
    atomic_fetch_add(&s->tally->runs[key], 1);
    semel_message out = {
        .size = sizeof out, .type = "order.charged", .topic = "out", .body = message->body};
    semel_status status = effect_write(unit, s->url, "effect", text, s->queued, err);
    if (!status)
        status = semel_unit_send(unit, s->outbox, &out, err);
    if (!status && s->during)
        status = s->during(unit, key, s->context, err);
    if (!status)
        atomic_fetch_add(&s->tally->effects[key], 1);
    return status;
}

semel_outcome shop_receive(shop *s, unsigned key, uint32_t delivery, semel_status *status)
{
    char text[SHOP_TEXT];
    semel_message message = shop_message(text, key);
    semel_outcome outcome;
    message.delivery = delivery;
    do
        *status = semel_inbox_receive(&outcome, s->inbox, &message, shop_handler, s, NULL);
    while (*status == SEMEL_EBUSY && outcome == SEMEL_UNDECIDED);
    return outcome;
}

uint32_t shop_random(uint32_t *seed, uint32_t below)
{
    uint32_t x = *seed ? *seed : 1;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    *seed = x;
    return below ? x % below : 0;
}

void shop_shuffle(unsigned keys[], unsigned count, uint32_t *seed)
{
    for (unsigned i = count; i > 1; i--) {
        unsigned j = shop_random(seed, i), kept = keys[i - 1];
        keys[i - 1] = keys[j];
        keys[j] = kept;
    }
}
