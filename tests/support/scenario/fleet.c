/* The processes of fleet.h. Inside them nothing of cmocka: what must not happen ends them. */
#include "support/scenario/fleet_internal.h"

#include "support/fake/broker_file.h"
#include "support/fixture/shop.h"
#include "support/process/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEASE_MS = 400, BATCH = 10, FAILING_EVERY = 7, WAIT_MS = 1000, DELIVERIES_MAX = 2000 };

typedef struct member {
    fleet *f;
    fleet_role role;
    semel_store *store;
    semel_inbox *inbox;
    semel_outbox *outbox;
    effect effect, mirrored; /* of receivers; of the reader */
    semel_error err;
} member;

/* --- errors that pass ------------------------------------------------------------------------- */

/* What a broker's client would have the message delivered again for. */
static void wait_out(const member *m, semel_status status)
{
    static const semel_status passing[] = {SEMEL_EHANDLER, SEMEL_EBUSY,    SEMEL_ECONFLICT,
                                           SEMEL_ELOST,    SEMEL_EUNKNOWN, SEMEL_EUNAVAILABLE};
    size_t i = 0;
    while (i < sizeof passing / sizeof *passing && passing[i] != status)
        i++;
    if (i == sizeof passing / sizeof *passing)
        process_give_up(__FILE__, __LINE__, m->err.text);
    atomic_fetch_add(&m->f->shared->troubles[status], 1);
    process_nap();
}

#define UNTIL_OK(m, call)                                                      \
    do {                                                                       \
        semel_status until_ok;                                                 \
        while ((until_ok = (call)) != SEMEL_OK)                                \
            wait_out(m, until_ok); /* the server may be down at this moment */ \
    } while (0)

static void join(member *m, fleet *f, const char *inbox, semel_mode mode)
{
    semel_store_options store = {.size = sizeof store, .busy_ms = 3000};
    semel_inbox_options options = {.size = sizeof options,
                                   .mode = mode,
                                   .wait_ms = WAIT_MS,
                                   .lease_ms = LEASE_MS,
                                   .attempts_max = 1000000,
                                   .accept_changes = 1};
    *m = (member){.f = f, .role = f->starting};
    UNTIL_OK(m, semel_store_open(&m->store, f->place->url, &store, &m->err));
    UNTIL_OK(m, effect_open(&m->effect, f->place, m->store, "effect", &m->err));
    UNTIL_OK(m, effect_open(&m->mirrored, f->place, m->store, "mirrored", &m->err));
    m->effect.lease_ms = m->mirrored.lease_ms = LEASE_MS;
    UNTIL_OK(m, semel_outbox_open(&m->outbox, m->store, "out", &m->err));
    UNTIL_OK(m, semel_inbox_open(&m->inbox, m->store, inbox, &options, &m->err));
}

static void leave(member *m)
{
    effect_close(&m->effect);
    effect_close(&m->mirrored);
    semel_inbox_close(m->inbox);
    semel_outbox_close(m->outbox);
    semel_store_close(m->store);
}

/* --- receiving -------------------------------------------------------------------------------- */

/* The group of a key that only one process receives, and in order. A batch of which one message
 * fails goes on with the next one, so the process that receives batches has no order. */
static const char *group_of(const fleet *f, unsigned key)
{
    static const char *const groups[FLEET_RECEIVERS] = {"transaction", "queued", "claim", NULL};
    return key < f->common ? NULL : groups[(key - f->common) / f->own];
}

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    member *m = context;
    char text[SHOP_TEXT];
    (void)snprintf(text, sizeof text, "%.*s", (int)message->body.len,
                   (const char *)message->body.data);
    unsigned key = (unsigned)strtoul(text, NULL, 10);
    int queued =
        m->role == FLEET_QUEUED || m->role == FLEET_CLAIM || (m->role == FLEET_BATCH && key % 2);
    semel_message out = {.size = sizeof out,
                         .type = "order.charged",
                         .topic = "out",
                         .group = group_of(m->f, key),
                         .body = message->body};
    const effect *mine = m->role == FLEET_READER ? &m->mirrored : &m->effect;
    semel_status status = effect_write(mine, unit, text, queued, err);
    if (!status && m->role != FLEET_READER)
        status = semel_unit_send(unit, m->outbox, &out, err);
    if (!status && key < m->f->common && key % FAILING_EVERY == 0 && semel_unit_attempt(unit) == 1)
        status = semel_fail(err, SEMEL_EHANDLER, "not the first time");
    return status;
}

static void receive(member *m, const semel_message *message, uint32_t delivery)
{
    semel_message copy = *message;
    semel_outcome outcome;
    for (copy.delivery = delivery; copy.delivery < DELIVERIES_MAX; copy.delivery++) {
        semel_status status = semel_inbox_receive(&outcome, m->inbox, &copy, handle, m, &m->err);
        if (semel_outcome_settled(outcome)) {
            PROCESS_REQUIRE(outcome == SEMEL_PROCESSED || outcome == SEMEL_DUPLICATE);
            return;
        }
        wait_out(m, status);
    }
    process_give_up(__FILE__, __LINE__, "a message is never settled");
}

static void receive_batch(member *m, const unsigned keys[], unsigned count, uint32_t delivery)
{
    char texts[BATCH][SHOP_TEXT];
    semel_message messages[BATCH];
    const semel_message *list[BATCH];
    semel_outcome outcomes[BATCH] = {SEMEL_UNDECIDED};
    for (unsigned i = 0; i < count; i++) {
        messages[i] = shop_message(texts[i], keys[i]);
        messages[i].delivery = delivery;
        list[i] = &messages[i];
    }
    semel_status status =
        semel_inbox_receive_batch(outcomes, m->inbox, list, count, handle, m, &m->err);
    if (status)
        wait_out(m, status);
    for (unsigned i = 0; i < count; i++)
        if (!semel_outcome_settled(outcomes[i]))
            receive(m, &messages[i], delivery + 1);
}

static semel_mode mode_of(const fleet *f, fleet_role role)
{
    if (role == FLEET_CLAIM || (role == FLEET_QUEUED && !f->place->has_sql))
        return SEMEL_CLAIM;
    return role == FLEET_QUEUED ? SEMEL_QUEUED : SEMEL_TRANSACTION;
}

static int receiver(void *context)
{
    fleet *f = context;
    fleet_shared *shared = f->shared;
    fleet_role me = f->starting;
    unsigned size = me == FLEET_BATCH ? BATCH : 1;
    member m;
    join(&m, f, "orders", mode_of(f, me));
    for (unsigned i = atomic_load(&shared->acked[me]); i < f->planned; i += size) {
        char text[SHOP_TEXT];
        unsigned count = f->planned - i < size ? f->planned - i : size;
        semel_message message = shop_message(text, f->plan[me][i]);
        while (i >= atomic_load(&shared->allowed))
            process_nap();
        uint32_t delivery = i < atomic_load(&shared->reached[me]) ? 2 : 1;
        atomic_store(&shared->reached[me], i + count);
        if (size == 1)
            receive(&m, &message, delivery);
        else
            receive_batch(&m, &f->plan[me][i], count, delivery);
        atomic_store(&shared->acked[me], i + count);
    }
    leave(&m);
    return PROCESS_OK;
}

/* --- relaying --------------------------------------------------------------------------------- */

static int relay(void *context)
{
    fleet *f = context;
    member m;
    semel_relay *relay;
    semel_transport *transport;
    semel_counters counters = {.unsent = 1};
    broker_file file = {.path = f->broker};
    semel_relay_options options = {
        .size = sizeof options, .batch = 20, .lease_ms = LEASE_MS, .poll_ms = 10};
    join(&m, f, "orders", SEMEL_TRANSACTION);
    PROCESS_REQUIRE_OK(broker_file_open(&transport, &file, &m.err), &m.err);
    UNTIL_OK(&m, semel_relay_open(&relay, m.outbox, transport, &options, &m.err));
    for (int last = 0; counters.unsent || !last;) {
        size_t sent;
        /* before counting: what is captured after is not seen */
        last = atomic_load(&f->shared->last_sent);
        UNTIL_OK(&m, semel_relay_step(&sent, relay, 20, &m.err));
        UNTIL_OK(&m, effect_collect(&m.effect, &m.err));
        UNTIL_OK(&m, effect_collect(&m.mirrored, &m.err));
        UNTIL_OK(&m, semel_store_counters(&counters, sizeof counters, m.store, &m.err));
    }
    semel_relay_close(relay);
    semel_transport_close(transport);
    leave(&m);
    return PROCESS_OK;
}

/* --- reading ---------------------------------------------------------------------------------- */

static semel_message entry_message(const broker_entry *entry)
{
    return (semel_message){.size = sizeof(semel_message),
                           .id = semel_str(entry->id),
                           .type = "order.charged",
                           .body = semel_str(entry->body)};
}

static int reader(void *context)
{
    fleet *f = context;
    fleet_shared *shared = f->shared;
    member m;
    join(&m, f, "mirror", SEMEL_TRANSACTION);
    for (int last = 0; !last;) {
        broker_log log;
        last = atomic_load(&shared->last_published);
        broker_log_read(&log, f->broker);
        for (unsigned i = atomic_load(&shared->read); i < log.count; i++) {
            semel_message message = entry_message(&log.entries[i]);
            receive(&m, &message, 1);
            atomic_store(&shared->read, i + 1);
        }
        broker_log_free(&log);
        process_nap();
    }
    leave(&m);
    return PROCESS_OK;
}

/* --- at the end ------------------------------------------------------------------------------- */

/* A relay that was killed may have had some of them leased. */
int fleet_collect(void *context)
{
    fleet *f = context;
    member m;
    semel_counters left = {.unsent = 1};
    int64_t deadline = process_now_ms() + FLEET_DEADLINE_MS / 2;
    join(&m, f, "mirror", SEMEL_CLAIM);
    while (left.unsent) {
        PROCESS_REQUIRE(process_now_ms() < deadline);
        UNTIL_OK(&m, effect_collect(&m.effect, &m.err));
        UNTIL_OK(&m, effect_collect(&m.mirrored, &m.err));
        UNTIL_OK(&m, semel_store_counters(&left, sizeof left, m.store, &m.err));
    }
    leave(&m);
    return PROCESS_OK;
}

static void require_duplicate(member *m, const semel_message *message)
{
    semel_outcome outcome;
    PROCESS_REQUIRE_OK(semel_inbox_receive(&outcome, m->inbox, message, handle, m, &m->err),
                       &m->err);
    PROCESS_REQUIRE(outcome == SEMEL_DUPLICATE);
}

int fleet_deliver_again(void *context)
{
    fleet *f = context;
    member m;
    broker_log log;
    join(&m, f, "orders", SEMEL_CLAIM);
    for (unsigned key = 0; key < fleet_keys(f); key++) {
        char text[SHOP_TEXT];
        semel_message message = shop_message(text, key);
        require_duplicate(&m, &message);
    }
    leave(&m);
    join(&m, f, "mirror", SEMEL_CLAIM);
    broker_log_read(&log, f->broker);
    for (size_t i = 0; i < log.count; i++) {
        semel_message message = entry_message(&log.entries[i]);
        require_duplicate(&m, &message);
    }
    broker_log_free(&log);
    leave(&m);
    return PROCESS_OK;
}

process_body *const fleet_bodies[FLEET_SIZE] = {receiver, receiver, receiver, receiver,
                                                relay,    relay,    reader};
