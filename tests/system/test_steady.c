/* In the steady state the core path allocates nothing: after a warm-up, mem_allocations() stands
 * still while messages are received (first copies and duplicates, one by one and in batches) and
 * relayed. What the memory store is given to keep, results and outgoing messages, it must put
 * somewhere: there they are left out, or only the relay is looked at. A sweep is called by the
 * hour, and may allocate. */
#include "base/mem.h"
#include "support/base/sanitizer.h"
#include "support/base/scratch.h"
#include "support/fake/stub_transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
/* cmocka needs the first two. */
#include <cmocka.h>
#include <semel/semel.h>
#include <semel/sys/transport.h>
#include <semel/test.h>
#include <stdlib.h>
#include <string.h>

enum {
    WARM_UP = 4000 / SANITIZER_SLOWDOWN,
    MEASURED = 1000,
    BATCH = 50,
    RETENTION_MS = 1000,
    STEP_MS = 10 /* so a hundred keys are remembered at a time */
};

typedef struct steady {
    scratch dir;
    semel_test_seam *seam;
    semel_store *store;
    semel_inbox *inbox;
    semel_outbox *outbox;
    semel_transport *transport;
    semel_relay *relay;
    int keeps;      /* handlers store a result and send a message */
    unsigned next;  /* number of the next message */
    long receiving; /* allocations since the warm-up */
    long relaying;
    char ids[BATCH][32];
} steady;

/* --- a broker that takes everything ----------------------------------------------------------- */

static semel_status confirm_all(void *context, semel_publish_result results[],
                                const semel_message *const messages[], size_t count,
                                semel_error *err)
{
    (void)context;
    (void)messages;
    (void)err;
    for (size_t i = 0; i < count; i++)
        results[i] = SEMEL_PUBLISH_CONFIRMED;
    return SEMEL_OK;
}

/* --- the surroundings ------------------------------------------------------------------------- */

static void must(semel_status status, const semel_error *err)
{
    if (status)
        fail_msg("%s", err->text);
}

static steady *open_steady(int sqlite, semel_mode mode)
{
    steady *s = calloc(1, sizeof *s);
    semel_error err;
    char url[SCRATCH_PATH];
    assert_non_null(s);
    scratch_open(&s->dir);
    scratch_sqlite(url, &s->dir, "shop.db");
    must(semel_test_seam_open(&s->seam, 1, &err), &err);
    semel_store_options options = {.size = sizeof options, .seam = semel_test_seam_get(s->seam)};
    must(semel_store_open(&s->store, sqlite ? url : "memory:", &options, &err), &err);
    must(semel_store_migrate(s->store, &err), &err);
    semel_inbox_options inbox = {.size = sizeof inbox,
                                 .mode = mode,
                                 .on_duplicate = SEMEL_DUPLICATE_SKIP,
                                 .retention_ms = RETENTION_MS};
    must(semel_inbox_open(&s->inbox, s->store, "in", &inbox, &err), &err);
    must(semel_outbox_open(&s->outbox, s->store, "out", &err), &err);
    must(stub_transport_open(&s->transport, confirm_all, NULL, &err), &err);
    semel_relay_options relay = {.size = sizeof relay, .batch = BATCH};
    must(semel_relay_open(&s->relay, s->outbox, s->transport, &relay, &err), &err);
    return s;
}

static void close_steady(steady *s)
{
    semel_relay_close(s->relay);
    semel_transport_close(s->transport);
    semel_inbox_close(s->inbox);
    semel_outbox_close(s->outbox);
    semel_store_close(s->store);
    semel_test_seam_close(s->seam);
    scratch_close(&s->dir);
    free(s);
}

static semel_status handler(semel_unit *unit, const semel_message *message, void *context,
                            semel_error *err)
{
    steady *s = context;
    semel_message out = {.size = sizeof out, .topic = "out", .body = message->body};
    if (!s->keeps)
        return SEMEL_OK;
    semel_status status = semel_unit_set_result(unit, "done", 4, err);
    return status ? status : semel_unit_send(unit, s->outbox, &out, err);
}

static semel_message next_message(steady *s, unsigned place)
{
    (void)snprintf(s->ids[place], sizeof s->ids[place], "order-%010u", s->next++);
    return (semel_message){.size = sizeof(semel_message),
                           .id = semel_str(s->ids[place]),
                           .type = "order.placed",
                           .body = semel_str("some text that stands for a body")};
}

static void sweep(steady *s)
{
    semel_error err;
    size_t swept;
    int more = 1;
    while (more)
        must(semel_inbox_sweep(&swept, &more, s->inbox, 0, &err), &err);
}

static void relay_all(steady *s)
{
    semel_error err;
    size_t sent = 1;
    long before = mem_allocations();
    while (sent)
        must(semel_relay_step(&sent, s->relay, 0, &err), &err);
    s->relaying += mem_allocations() - before;
}

/* --- what is repeated ------------------------------------------------------------------------- */

/* One first copy and one duplicate of it. */
static void receive_one(steady *s)
{
    semel_error err;
    semel_message message = next_message(s, 0);
    semel_outcome outcome;
    long before = mem_allocations();
    must(semel_inbox_receive(&outcome, s->inbox, &message, handler, s, &err), &err);
    assert_int_equal(outcome, SEMEL_PROCESSED);
    must(semel_inbox_receive(&outcome, s->inbox, &message, handler, s, &err), &err);
    assert_int_equal(outcome, SEMEL_DUPLICATE);
    s->receiving += mem_allocations() - before;
    semel_test_advance_ms(s->seam, STEP_MS);
    if (s->next % BATCH == 0) {
        sweep(s);
        relay_all(s);
    }
}

static void receive_batch(steady *s)
{
    semel_error err;
    semel_message messages[BATCH];
    const semel_message *list[BATCH];
    semel_outcome outcomes[BATCH];
    for (unsigned i = 0; i < BATCH; i++) {
        messages[i] = next_message(s, i);
        list[i] = &messages[i];
    }
    long before = mem_allocations();
    must(semel_inbox_receive_batch(outcomes, s->inbox, list, BATCH, handler, s, &err), &err);
    s->receiving += mem_allocations() - before;
    assert_int_equal(outcomes[BATCH - 1], SEMEL_PROCESSED);
    semel_test_advance_ms(s->seam, STEP_MS * BATCH);
    sweep(s);
    relay_all(s);
}

static void measure(int sqlite, semel_mode mode, int keeps, void (*repeated)(steady *s))
{
    steady *s = open_steady(sqlite, mode);
    s->keeps = keeps;
    while (s->next < WARM_UP)
        repeated(s);
    s->receiving = s->relaying = 0;
    while (s->next < WARM_UP + MEASURED)
        repeated(s);
    if (sqlite || !keeps)
        assert_int_equal(s->receiving, 0);
    assert_int_equal(s->relaying, 0);
    close_steady(s);
}

#define STEADY(name, sqlite, mode, keeps, repeated) \
    static void name(void **state)                  \
    {                                               \
        (void)state;                                \
        measure(sqlite, mode, keeps, repeated);     \
    }

STEADY(receiving_on_sqlite, 1, SEMEL_TRANSACTION, 0, receive_one)
STEADY(receiving_by_claim_on_sqlite, 1, SEMEL_CLAIM, 0, receive_one)
STEADY(receiving_and_sending_on_sqlite, 1, SEMEL_TRANSACTION, 1, receive_one)
STEADY(receiving_and_sending_by_claim_on_sqlite, 1, SEMEL_CLAIM, 1, receive_one)
STEADY(batches_on_sqlite, 1, SEMEL_TRANSACTION, 0, receive_batch)
STEADY(batches_that_send_on_sqlite, 1, SEMEL_TRANSACTION, 1, receive_batch)
STEADY(receiving_on_memory, 0, SEMEL_TRANSACTION, 0, receive_one)
STEADY(receiving_by_claim_on_memory, 0, SEMEL_CLAIM, 0, receive_one)
STEADY(batches_on_memory, 0, SEMEL_TRANSACTION, 0, receive_batch)
STEADY(relaying_on_memory, 0, SEMEL_TRANSACTION, 1, receive_batch)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(receiving_on_sqlite),
        cmocka_unit_test(receiving_by_claim_on_sqlite),
        cmocka_unit_test(receiving_and_sending_on_sqlite),
        cmocka_unit_test(receiving_and_sending_by_claim_on_sqlite),
        cmocka_unit_test(batches_on_sqlite),
        cmocka_unit_test(batches_that_send_on_sqlite),
        cmocka_unit_test(receiving_on_memory),
        cmocka_unit_test(receiving_by_claim_on_memory),
        cmocka_unit_test(batches_on_memory),
        cmocka_unit_test(relaying_on_memory),
    };
    return cmocka_run_group_tests_name("steady state", tests, NULL, NULL);
}
