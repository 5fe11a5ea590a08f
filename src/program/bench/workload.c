/* See workload.h. */
#include "program/bench/workload.h"

#include "program/support/memory.h"

#include <semel/semel.h>
#include <stdio.h>
#include <stdlib.h>

enum { ID_SIZE = 32 };

struct workload {
    semel_store *store;
    semel_inbox *inbox;
    semel_outbox *outbox;
    semel_transport *queue;
    semel_relay *relay;
    uint64_t next;               /* number of the next new message */
    uint64_t received, repeated; /* messages that were received one by one, and copies of them */
    char ids[WORKLOAD_BATCH][ID_SIZE];
    semel_message messages[WORKLOAD_BATCH];
    const semel_message *pointers[WORKLOAD_BATCH];
    semel_outcome outcomes[WORKLOAD_BATCH];
};

/* --- opening ---------------------------------------------------------------------------------- */

static semel_status open_parts(workload *w, semel_error *err)
{
    static const char *const tables[] = {
        "CREATE TABLE semel_bench_key (id VARCHAR(40) PRIMARY KEY)",
        "CREATE TABLE semel_bench_effect (id VARCHAR(40), amount BIGINT)"};
    semel_inbox_options queued = {.size = sizeof queued, .mode = SEMEL_QUEUED};
    semel_status status = semel_store_run(w->store, tables, 2, NULL, err);
    if (!status)
        status = semel_inbox_open(&w->inbox, w->store, "bench", &queued, err);
    if (!status)
        status = semel_outbox_open(&w->outbox, w->store, "bench", err);
    if (!status)
        status = semel_queue_open(&w->queue, w->store, "bench", NULL, err);
    return status ? status : semel_relay_open(&w->relay, w->outbox, w->queue, NULL, err);
}

semel_status workload_open(workload **out, semel_store *store, semel_error *err)
{
    workload *w = must_alloc(sizeof *w);
    w->store = store;
    for (size_t i = 0; i < WORKLOAD_BATCH; i++)
        w->pointers[i] = &w->messages[i];
    semel_status status = open_parts(w, err);
    if (status)
        workload_close(w);
    else
        *out = w;
    return status;
}

void workload_close(workload *w)
{
    if (!w)
        return;
    semel_relay_close(w->relay);
    semel_transport_close(w->queue);
    semel_outbox_close(w->outbox);
    semel_inbox_close(w->inbox);
    free(w);
}

/* --- messages --------------------------------------------------------------------------------- */

static void make_message(workload *w, size_t at, const char *kind, uint64_t number)
{
    (void)snprintf(w->ids[at], ID_SIZE, "%s-%llu", kind, (unsigned long long)number);
    w->messages[at] = (semel_message){.size = sizeof w->messages[at],
                                      .id = semel_str(w->ids[at]),
                                      .type = "bench",
                                      .topic = "bench",
                                      .body = semel_str("{\"amount\":1250}")};
}

static void make_messages(workload *w, const char *kind)
{
    for (size_t i = 0; i < WORKLOAD_BATCH; i++)
        make_message(w, i, kind, w->next++);
}

static semel_status queue_effect(semel_unit *unit, const semel_message *message, void *context,
                                 semel_error *err)
{
    const semel_value row[] = {semel_text(message->id.data), semel_int(1250)};
    (void)context;
    return semel_unit_queue(unit, "INSERT INTO semel_bench_effect (id, amount) VALUES (?, ?)", row,
                            2, err);
}

/* --- raw -------------------------------------------------------------------------------------- */

static semel_status queue_both(semel_unit *unit, const semel_message *message, semel_error *err)
{
    const semel_value key = semel_text(message->id.data);
    semel_status status =
        semel_unit_queue(unit, "INSERT INTO semel_bench_key (id) VALUES (?)", &key, 1, err);
    return status ? status : queue_effect(unit, message, NULL, err);
}

static semel_status raw(workload *w, size_t count, semel_error *err)
{
    semel_unit *unit = NULL;
    semel_status status = semel_unit_begin(&unit, w->store, err);
    for (size_t i = 0; !status && i < count; i++)
        status = queue_both(unit, &w->messages[i], err);
    if (!status)
        return semel_unit_commit(unit, err);
    semel_unit_rollback(unit);
    return status;
}

static semel_status raw_one(void *context, size_t *messages, semel_error *err)
{
    workload *w = context;
    make_message(w, 0, "raw", w->next++);
    *messages = 1;
    return raw(w, 1, err);
}

static semel_status raw_batch(void *context, size_t *messages, semel_error *err)
{
    workload *w = context;
    make_messages(w, "raw");
    *messages = WORKLOAD_BATCH;
    return raw(w, WORKLOAD_BATCH, err);
}

/* --- receiving -------------------------------------------------------------------------------- */

static semel_status receive(workload *w, semel_outcome wanted, semel_error *err)
{
    semel_outcome outcome = SEMEL_UNDECIDED;
    semel_status status =
        semel_inbox_receive(&outcome, w->inbox, &w->messages[0], queue_effect, NULL, err);
    if (!status && outcome != wanted)
        status = semel_fail(err, SEMEL_ESTORE, "a message is %s, not %s",
                            semel_outcome_name(outcome), semel_outcome_name(wanted));
    return status;
}

static semel_status receive_one(void *context, size_t *messages, semel_error *err)
{
    workload *w = context;
    make_message(w, 0, "one", w->received++);
    *messages = 1;
    return receive(w, SEMEL_PROCESSED, err);
}

static semel_status receive_copy(void *context, size_t *messages, semel_error *err)
{
    workload *w = context;
    make_message(w, 0, "one", w->repeated++ % w->received);
    *messages = 1;
    return receive(w, SEMEL_DUPLICATE, err);
}

static semel_status receive_batch(void *context, size_t *messages, semel_error *err)
{
    workload *w = context;
    make_messages(w, "batch");
    *messages = WORKLOAD_BATCH;
    semel_status status = semel_inbox_receive_batch(w->outcomes, w->inbox, w->pointers,
                                                    WORKLOAD_BATCH, queue_effect, NULL, err);
    for (size_t i = 0; !status && i < WORKLOAD_BATCH; i++)
        if (w->outcomes[i] != SEMEL_PROCESSED)
            status = semel_fail(err, SEMEL_ESTORE, "a message of a batch is %s",
                                semel_outcome_name(w->outcomes[i]));
    return status;
}

/* --- the relay -------------------------------------------------------------------------------- */

static semel_status fill_outbox(void *context, semel_error *err)
{
    workload *w = context;
    semel_unit *unit = NULL;
    semel_status status = semel_unit_begin(&unit, w->store, err);
    make_messages(w, "sent");
    for (size_t i = 0; !status && i < WORKLOAD_BATCH; i++)
        status = semel_unit_send(unit, w->outbox, &w->messages[i], err);
    if (!status)
        return semel_unit_commit(unit, err);
    semel_unit_rollback(unit);
    return status;
}

static semel_status relay_batch(void *context, size_t *messages, semel_error *err)
{
    enum { STEPS_MAX = 1000, WAIT_MS = 1000 };
    workload *w = context;
    semel_status status = SEMEL_OK;
    for (int i = 0; !status && *messages < WORKLOAD_BATCH && i < STEPS_MAX; i++) {
        size_t sent = 0;
        status = semel_relay_step(&sent, w->relay, WAIT_MS, err);
        *messages += sent;
    }
    if (!status && *messages < WORKLOAD_BATCH)
        status = semel_fail(err, SEMEL_ESTORE, "the relay sends nothing");
    return status;
}

#define OF_RAW_ONE   0
#define OF_RAW_BATCH 2

const workload_part workload_parts[WORKLOAD_PARTS] = {
    [OF_RAW_ONE] = {"raw, one by one", "raw", {NULL, raw_one}, -1},
    {"receive, one by one", "receive", {NULL, receive_one}, OF_RAW_ONE},
    [OF_RAW_BATCH] = {"raw, batches of 100", "raw_batch", {NULL, raw_batch}, -1},
    {"receive, batches of 100", "receive_batch", {NULL, receive_batch}, OF_RAW_BATCH},
    {"duplicates, one by one", "duplicate", {NULL, receive_copy}, OF_RAW_ONE},
    {"relay, batches of 100", "relay_batch", {fill_outbox, relay_batch}, OF_RAW_BATCH}};
