/* The work of the loops by hand, done through semel. Its handler runs the business statement itself
 * on the native handle, or queues it on the unit. */
#include "server.h"

static semel_status queue_effect(semel_unit *unit, const semel_message *message, void *context,
                                 semel_error *err)
{
    const semel_server *p = context;
    semel_value body = semel_blob(message->body);
    return semel_unit_queue(unit, p->effect_sql, &body, 1, err);
}

semel_handler *semel_server_handler(const semel_server *p)
{
    return p->queues ? queue_effect : p->on->handler;
}

void semel_server_open(semel_server *p, const char *url, const char *room)
{
    char with_room[1024], with_pool[1100], table[100];
    semel_error err;
    semel_inbox_options inbox = {
        .size = sizeof inbox, .mode = p->mode, .keep_details = p->keep_details};
    snprintf(with_pool, sizeof with_pool, "%s&pool=%d", room_url(with_room, p->on, url, room),
             THREADS_MAX + 2);
    snprintf(p->effect_sql, sizeof p->effect_sql, "INSERT INTO %s (body) VALUES (?)",
             room_table(table, p->on, room, "effect"));
    must(semel_store_open(&p->store, with_pool, NULL, &err), &err);
    must(semel_outbox_open(&p->outbox, p->store, "bench", &err), &err);
    must(semel_inbox_open(&p->inbox, p->store, "bench", &inbox, &err), &err);
    if (!p->expected)
        p->expected = SEMEL_PROCESSED;
}

void semel_server_close(semel_server *p)
{
    semel_inbox_close(p->inbox);
    semel_outbox_close(p->outbox);
    semel_store_close(p->store);
}

static void semel_server_expect(const semel_server *p, semel_outcome outcome)
{
    if (outcome != p->expected && !(p->mixed && outcome == SEMEL_DUPLICATE))
        die("an outcome is \"%s\" and should be \"%s\"", semel_outcome_name(outcome),
            semel_outcome_name(p->expected));
}

static void semel_server_receive_one(semel_server *p, const semel_message *message,
                                     semel_handler *handler)
{
    semel_error err;
    semel_outcome outcome;
    double start = p->latencies_s ? now_s() : 0;
    must(semel_inbox_receive(&outcome, p->inbox, message, handler, p, &err), &err);
    semel_server_expect(p, outcome);
    if (!p->latencies_s)
        return;
    size_t at = atomic_fetch_add(&p->latency_count, 1);
    if (at < p->latency_room)
        p->latencies_s[at] = now_s() - start;
}

static void semel_server_receive_job(void *context, size_t worker,
                                     const semel_message *const messages[], size_t count)
{
    semel_server *p = context;
    semel_error err;
    semel_outcome outcomes[1000];
    semel_handler *handler = semel_server_handler(p);
    (void)worker;
    if (p->batch == 1) {
        semel_server_receive_one(p, messages[0], handler);
        return;
    }
    must(semel_inbox_receive_batch(outcomes, p->inbox, messages, count, handler, p, &err), &err);
    for (size_t i = 0; i < count; i++)
        semel_server_expect(p, outcomes[i]);
}

void semel_server_receive(void *context, const message_set *set)
{
    semel_server *p = context;
    threads_run(p->workers, p->batch, set, semel_server_receive_job, p);
}

static void semel_server_send_job(void *context, size_t worker,
                                  const semel_message *const messages[], size_t count)
{
    semel_server *p = context;
    semel_error err;
    semel_unit *unit;
    (void)worker;
    must(semel_unit_begin(&unit, p->store, &err), &err);
    for (size_t i = 0; i < count; i++) {
        semel_message outgoing = *messages[i];
        outgoing.topic = "orders";
        must(semel_unit_send(unit, p->outbox, &outgoing, &err), &err);
    }
    must(semel_unit_commit(unit, &err), &err);
}

void semel_server_send(void *context, const message_set *set)
{
    semel_server *p = context;
    threads_run(p->workers, p->batch, set, semel_server_send_job, p);
}
