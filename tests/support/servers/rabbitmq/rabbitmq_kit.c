/* See rabbitmq_kit.h. */
#include "support/servers/rabbitmq/rabbitmq_kit.h"

#include "support/process/shell.h"

semel_status kit_open_transport(semel_transport **out, const char *url, semel_error *err)
{
    int64_t until = process_now_ms() + KIT_WAIT_MS;
    semel_status status;
    do
        status = semel_transport_open(out, url, NULL, err);
    while (status == SEMEL_EUNAVAILABLE && process_now_ms() < until);
    return status;
}

void kit_prepare(rabbit_kit *kit, const server_place *where, const char *parameters)
{
    *kit = (rabbit_kit){.broker = *where};
    broker_fresh(kit->url, where, parameters);
    broker_queue_of(kit->queue, kit->url);
}

void kit_open(rabbit_kit *kit, const char *parameters)
{
    server_place shared;
    server_find(&shared, SERVER_RABBITMQ);
    kit_prepare(kit, &shared, parameters);
    OK(kit_open_transport(&kit->transport, kit->url, &last_error));
}

void kit_reopen(rabbit_kit *kit)
{
    semel_transport_close(kit->transport);
    kit->transport = NULL;
    OK(kit_open_transport(&kit->transport, kit->url, &last_error));
}

void kit_publish_only(rabbit_kit *kit, const char *parameters)
{
    char url[2 * SERVER_URL_ROOM];
    (void)snprintf(url, sizeof url, "%s?exchange=%s&" BROKER_PATIENCE "%s%s", kit->broker.url,
                   kit->queue, *parameters ? "&" : "", parameters);
    semel_transport_close(kit->transport);
    kit->transport = NULL;
    OK(kit_open_transport(&kit->transport, url, &last_error));
}

void kit_close(rabbit_kit *kit)
{
    semel_transport_close(kit->transport);
    broker_drop(kit->url);
}

/* --- messages --------------------------------------------------------------------------------- */

semel_status kit_publish(rabbit_kit *kit, semel_publish_result results[],
                         const semel_message messages[], size_t count, uint32_t wait_ms)
{
    const semel_message **all = calloc(count + 1, sizeof *all);
    for (size_t i = 0; i < count; i++)
        all[i] = &messages[i];
    semel_status status =
        semel_transport_publish(results, kit->transport, all, count, wait_ms, &last_error);
    free((void *)all);
    return status;
}

semel_publish_result kit_publish_one(rabbit_kit *kit, const semel_message *message)
{
    semel_publish_result result;
    OK(kit_publish(kit, &result, message, 1, KIT_WAIT_MS));
    return result;
}

void kit_send(rabbit_kit *kit, const char *id)
{
    semel_message message = text_message(id, "10 EUR");
    assert_int_equal(kit_publish_one(kit, &message), SEMEL_PUBLISH_CONFIRMED);
}

void kit_take(rabbit_kit *kit, semel_delivery deliveries[], size_t count)
{
    for (size_t have = 0, got; have < count; have += got) {
        OK(semel_transport_receive(kit->transport, deliveries + have, count - have, &got,
                                   KIT_WAIT_MS, &last_error));
        if (!got)
            fail_msg("%zu of %zu messages came, and no more", have, count);
    }
}

semel_delivery kit_take_id(rabbit_kit *kit, const char *id)
{
    semel_delivery one;
    kit_take(kit, &one, 1);
    BYTES_EQUAL(semel_str(id), one.message->id);
    return one;
}

semel_status kit_settle(rabbit_kit *kit, semel_delivery delivery, semel_verdict verdict)
{
    semel_delivery_settlement settle = {.tag = delivery.tag, .verdict = verdict};
    return semel_transport_settle(kit->transport, &settle, 1, &last_error);
}

void kit_ack(rabbit_kit *kit, semel_delivery delivery)
{
    OK(kit_settle(kit, delivery, SEMEL_VERDICT_ACK));
}

/* --- other clients ---------------------------------------------------------------------------- */

void kit_run(char said[KIT_SAID], const char *command)
{
    shell_run(said, KIT_SAID, command);
}

void kit_pika(char said[KIT_SAID], const rabbit_kit *kit, const char *script)
{
    char command[KIT_COMMAND];
    int len = snprintf(command, sizeof command,
                       "/usr/bin/python3 -c 'import pika, sys\n"
                       "at = pika.URLParameters(\"%s\")\n"
                       "at.socket_timeout = at.stack_timeout = 60\n" /* for a busy machine */
                       "connection = pika.BlockingConnection(at)\n"
                       "channel, queue = connection.channel(), \"%s\"\n"
                       "%s\n"
                       "connection.close()'",
                       kit->broker.url, kit->queue, script);
    assert_in_range(len, 1, (int)sizeof command - 1);
    kit_run(said, command);
}
