/* See nats_kit.h. A look has a connection of its own, but for those of a nats_client. */
#include "support/servers/nats/nats_kit.h"

#include "support/servers/server_internal.h"

enum { ASK_MS = 30000, SETTLE_MS = 150, NS_PER_MS = 1000000 };

/* --- URLs ------------------------------------------------------------------------------------- */

static void print_url(char url[SERVER_URL_ROOM], const char *place, const char *parameters)
{
    char name[SERVER_NAME_ROOM];
    server_invent_name(name);
    server_print(url, SERVER_URL_ROOM, "%s/%s?consumer=%s&subject=%s&connect_ms=20000%s%s", place,
                 name, name, name, *parameters ? "&" : "", parameters);
}

void nats_fresh(char url[SERVER_URL_ROOM], const server_place *where, const char *parameters)
{
    char place[SERVER_URL_ROOM];
    server_print(place, sizeof place, "nats://semel:semel@%s:%u", where->host, where->port);
    print_url(url, place, parameters);
}

void nats_fresh_tls(char url[SERVER_URL_ROOM], const server_place *where, const char *parameters)
{
    char port[16], ca[SCRATCH_PATH], place[SERVER_URL_ROOM], more[SERVER_URL_ROOM];
    server_entry(port, sizeof port, where, "TLS_PORT");
    server_entry(ca, sizeof ca, where, "CA");
    server_print(place, sizeof place, "natss://semel:semel@localhost:%s", port);
    server_print(more, sizeof more, "ca=%s%s%s", ca, *parameters ? "&" : "", parameters);
    print_url(url, place, more);
}

void nats_stream_of(char name[NATS_KIT_NAME], const char *url)
{
    server_parameter(name, url, "consumer", "");
}

/* --- a client --------------------------------------------------------------------------------- */

static void must(natsStatus code, const char *what)
{
    natsStatus same;
    if (code != NATS_OK)
        server_die("nats: %s: %s (%s)", what, natsStatus_GetText(code), nats_GetLastError(&same));
}

static void open_at(nats_client *client, const char *url, const char *ca)
{
    natsOptions *options = NULL;
    jsOptions js;
    must(natsOptions_Create(&options), "options");
    must(natsOptions_SetURL(options, url), "url");
    must(natsOptions_SetTimeout(options, ASK_MS), "timeout");
    if (ca)
        must(natsOptions_LoadCATrustedCertificates(options, ca), "ca");
    must(natsConnection_Connect(&client->connection, options), "connect");
    natsOptions_Destroy(options);
    must(jsOptions_Init(&js), "options");
    js.Wait = ASK_MS;
    must(natsConnection_JetStream(&client->js, client->connection, &js), "JetStream");
}

void nats_client_open(nats_client *client, const server_place *where)
{
    char url[SERVER_URL_ROOM];
    server_print(url, sizeof url, "nats://semel:semel@%s:%u", where->host, where->port);
    open_at(client, url, NULL);
}

/* By the URL of a transport. */
static void open_by_url(nats_client *client, const char *url)
{
    char place[SERVER_URL_ROOM], ca[SERVER_NAME_ROOM];
    const char *rest = strstr(url, "://");
    int tls = strncmp(url, "natss", 5) == 0;
    server_print(place, sizeof place, "%s%.*s", tls ? "tls" : "nats",
                 (int)strcspn(rest + 3, "/") + 3, rest);
    server_parameter(ca, url, "ca", "");
    open_at(client, place, tls ? ca : NULL);
}

void nats_client_close(nats_client *client)
{
    jsCtx_Destroy(client->js);
    natsConnection_Destroy(client->connection);
    *client = (nats_client){NULL, NULL};
}

void nats_client_publish(nats_client *client, const char *subject, const char *body)
{
    must(js_Publish(NULL, client->js, subject, body, (int)strlen(body), NULL, NULL), "publish");
}

void nats_client_make(nats_client *client, jsStreamConfig *stream)
{
    must(js_AddStream(NULL, client->js, stream, NULL, NULL), "make a stream");
}

void nats_client_consume(nats_client *client, const char *stream, jsConsumerConfig *consumer)
{
    must(js_AddConsumer(NULL, client->js, stream, consumer, NULL, NULL), "make a consumer");
}

uint64_t nats_client_count(nats_client *client, const char *stream)
{
    jsStreamInfo *info = NULL;
    must(js_GetStreamInfo(&info, client->js, stream, NULL, NULL), "look at a stream");
    uint64_t count = info->State.Msgs;
    jsStreamInfo_Destroy(info);
    return count;
}

natsMsg *nats_client_message(nats_client *client, const char *stream, uint64_t sequence)
{
    natsMsg *message = NULL;
    must(js_GetMsg(&message, client->js, stream, sequence, NULL, NULL), "get a message");
    return message;
}

void nats_drop(const char *url)
{
    char name[NATS_KIT_NAME];
    nats_client client;
    jsErrCode number = 0;
    nats_stream_of(name, url);
    open_by_url(&client, url);
    natsStatus code = js_DeleteStream(client.js, name, NULL, &number);
    if (code != NATS_OK && number != JSStreamNotFoundErr)
        must(code, "delete a stream");
    nats_client_close(&client);
}

void nats_pass_ms(const char *url, int64_t ms)
{
    char name[NATS_KIT_NAME];
    nats_client client;
    jsConsumerInfo *info = NULL;
    nats_stream_of(name, url);
    open_by_url(&client, url);
    must(js_GetConsumerInfo(&info, client.js, name, name, NULL, NULL), "look at a consumer");
    info->Config->AckWait -= ms * NS_PER_MS;
    if (info->Config->AckWait <= 0)
        server_die("nats: more time passed than the ack wait has");
    must(js_UpdateConsumer(NULL, client.js, name, info->Config, NULL, NULL), "change a consumer");
    jsConsumerInfo_Destroy(info);
    nats_client_close(&client);
}

/* --- a transport ------------------------------------------------------------------------------ */

void nats_kit_prepare(nats_kit *kit, const server_place *where, const char *parameters)
{
    *kit = (nats_kit){.server = *where};
    nats_fresh(kit->url, where, parameters);
    nats_stream_of(kit->stream, kit->url);
    nats_client_open(&kit->client, where);
}

void nats_kit_open(nats_kit *kit, const char *parameters)
{
    server_place shared;
    char all[SERVER_URL_ROOM];
    server_find(&shared, SERVER_NATS);
    server_print(all, sizeof all, "declare=yes%s%s", *parameters ? "&" : "", parameters);
    nats_kit_prepare(kit, &shared, all);
    nats_kit_reopen(kit);
}

void nats_kit_reopen(nats_kit *kit)
{
    semel_transport_close(kit->transport);
    kit->transport = NULL;
    OK(semel_transport_open(&kit->transport, kit->url, NULL, &last_error));
}

void nats_kit_close(nats_kit *kit)
{
    semel_transport_close(kit->transport);
    (void)js_DeleteStream(kit->client.js, kit->stream, NULL, NULL); /* it may not be there */
    nats_client_close(&kit->client);
}

semel_publish_result nats_kit_publish(nats_kit *kit, const semel_message *message)
{
    semel_publish_result result = SEMEL_PUBLISH_UNKNOWN;
    OK(semel_transport_publish(&result, kit->transport, &message, 1, NATS_KIT_WAIT_MS,
                               &last_error));
    return result;
}

void nats_kit_send(nats_kit *kit, const char *id)
{
    semel_message message = text_message(id, "10 EUR");
    assert_int_equal(nats_kit_publish(kit, &message), SEMEL_PUBLISH_CONFIRMED);
}

void nats_kit_take(nats_kit *kit, semel_delivery deliveries[], size_t count)
{
    for (size_t have = 0, got; have < count; have += got) {
        OK(semel_transport_receive(kit->transport, deliveries + have, count - have, &got,
                                   NATS_KIT_WAIT_MS, &last_error));
        assert_in_range(got, 1, count - have);
    }
}

semel_delivery nats_kit_take_id(nats_kit *kit, const char *id)
{
    semel_delivery one;
    nats_kit_take(kit, &one, 1);
    BYTES_EQUAL(semel_str(id), one.message->id);
    return one;
}

void nats_kit_settle(nats_kit *kit, semel_delivery delivery, semel_verdict verdict, uint32_t ms)
{
    semel_delivery_settlement one = {delivery.tag, verdict, ms};
    OK(semel_transport_settle(kit->transport, &one, 1, &last_error));
}

void nats_kit_nothing(nats_kit *kit)
{
    semel_delivery one;
    size_t got = 9;
    OK(semel_transport_receive(kit->transport, &one, 1, &got, SETTLE_MS, &last_error));
    assert_int_equal(got, 0);
}
