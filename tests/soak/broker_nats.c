/* NATS JetStream in the soak.
 *
 *     stream "ordered"  consumer "ordered"             of the foreign client
 *     stream "free"     consumer "free"
 *     stream "out"      consumers "second", "foreign"  of the relays: both read all of it
 *
 * Of "ordered", "second" and "foreign" one message at a time is out: two processes share a consumer
 * message by message, and one that comes again would come after later ones. Messages of the foreign
 * client have no Nats-Msg-Id: a second copy must reach the inbox. The foreign client is nats.c
 * alone. */
#include "brokers.h"

#include <nats/nats.h>
#include <stdlib.h>
#include <string.h>

enum { ACK_MS = 5000, ANSWER_MS = 10000, NAME = 80, TEXT_ROOM = 256 };

static const struct place {
    const char *stream, *consumer; /* "": it only sends */
} places[SOAK_ROLES] = {[SOAK_ORDERED] = {"ordered", "ordered"},
                        [SOAK_FREE] = {"free", "free"},
                        [SOAK_RELAY] = {"out", ""},
                        [SOAK_SECOND] = {"out", "second"}};

/* A stream's name has no dots. */
static void stream_name(char out[NAME], const char *store, const char *stream)
{
    soak_print(out, NAME, "%s-%s", store, stream);
}

/* What only one consumer reads is removed when it is acknowledged; "out" keeps all. */
static void nats_url(char url[SOAK_URL], const soak_run *run, soak_role role, int declare)
{
    const char *server = run->servers->broker.at.url, *store = soak_store_name(run->store);
    const struct place *at = &places[role];
    char stream[NAME], consumer[SOAK_URL / 2] = "";
    stream_name(stream, store, at->stream);
    if (*at->consumer)
        soak_print(consumer, sizeof consumer, "&consumer=%s&ack_ms=%lld%s", at->consumer,
                   (long long)run->hold_ms, role == SOAK_FREE ? "" : "&max_ack_pending=1");
    soak_print(url, SOAK_URL, "%.*s/%s?subject=%s.%s&retention=%s&declare=%s&name=soak-%s%s",
               (int)(strrchr(server, '/') - server), server, stream, store, at->stream,
               strcmp(at->stream, "out") == 0 ? "limits" : "workqueue", declare ? "yes" : "check",
               soak_role_names[role], consumer);
}

/* --- a connection ----------------------------------------------------------------------------- */

typedef struct client {
    natsConnection *on;
    jsCtx *js;
    natsSubscription *subscription; /* NULL: it publishes */
    char store[NAME];
    natsMsgList received;
    char body[TEXT_ROOM];
} client;

/* A connection that is lost is not found again: the next client is. */
static int connect_to(client *c, const char *url)
{
    natsOptions *options = NULL;
    jsOptions js;
    if (natsOptions_Create(&options) != NATS_OK || jsOptions_Init(&js) != NATS_OK)
        soak_die("out of memory");
    js.Wait = ANSWER_MS;
    int is_connected = natsOptions_SetURL(options, url) == NATS_OK &&
                       natsOptions_SetAllowReconnect(options, false) == NATS_OK &&
                       natsOptions_SetTimeout(options, ANSWER_MS) == NATS_OK &&
                       natsConnection_Connect(&c->on, options) == NATS_OK &&
                       natsConnection_JetStream(&c->js, c->on, &js) == NATS_OK;
    natsOptions_Destroy(options);
    return is_connected;
}

/* The consumer may be there already, and is the same then. */
static int subscribe(client *c)
{
    char stream[NAME];
    jsConsumerConfig config;
    jsSubOptions options;
    stream_name(stream, c->store, "out");
    (void)jsConsumerConfig_Init(&config);
    config.Durable = "foreign";
    config.AckPolicy = js_AckExplicit;
    config.AckWait = ACK_MS * INT64_C(1000000);
    config.MaxAckPending = 1;
    (void)jsSubOptions_Init(&options);
    options.Stream = stream;
    options.Consumer = "foreign";
    return js_AddConsumer(NULL, c->js, stream, &config, NULL, NULL) == NATS_OK &&
           js_PullSubscribe(&c->subscription, c->js, NULL, NULL, NULL, &options, NULL) == NATS_OK;
}

static void close_client(void *context)
{
    client *c = context;
    natsMsgList_Destroy(&c->received);
    natsSubscription_Destroy(c->subscription);
    jsCtx_Destroy(c->js);
    natsConnection_Destroy(c->on);
    free(c);
}

static void *open_client(const char *url, const char *store, int receives)
{
    client *c = calloc(1, sizeof *c);
    if (!c)
        soak_die("out of memory");
    soak_print(c->store, sizeof c->store, "%s", store);
    if (connect_to(c, url) && (!receives || subscribe(c)))
        return c;
    close_client(c);
    return NULL;
}

/* --- publishing ------------------------------------------------------------------------------- */

static natsMsg *message_of(const client *c, const soak_item *item)
{
    char subject[TEXT_ROOM];
    natsMsg *message = NULL;
    soak_print(subject, sizeof subject, "%s.%s.%s", c->store, item->queue, item->group);
    if (natsMsg_Create(&message, subject, NULL, item->body, (int)strlen(item->body)) != NATS_OK)
        soak_die("out of memory");
    const struct {
        const char *name, *value;
    } headers[] = {{"ce-specversion", "1.0"},     {"ce-id", item->id},
                   {"ce-source", "/soak"},        {"ce-type", item->type},
                   {"ce-subject", item->group},   {"ce-partitionkey", item->group},
                   {"content-type", "text/plain"}};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        if (natsMsgHeader_Set(message, headers[i].name, headers[i].value) != NATS_OK)
            soak_die("out of memory");
    return message;
}

/* One after the other. A number is the server's "no"; the rest is a connection that is lost. */
static int publish(void *context, const soak_item items[], size_t count, int confirmed[])
{
    client *c = context;
    for (size_t i = 0; i < count; i++) {
        jsErrCode number = 0;
        natsMsg *message = message_of(c, &items[i]);
        natsStatus code = js_PublishMsg(NULL, c->js, message, NULL, &number);
        natsMsg_Destroy(message);
        if (code != NATS_OK && !number)
            return 0;
        confirmed[i] = code == NATS_OK;
    }
    return 1;
}

/* --- receiving -------------------------------------------------------------------------------- */

static soak_item item_of(client *c, natsMsg *message)
{
    const char *id = NULL;
    if (natsMsgHeader_Get(message, "ce-id", &id) != NATS_OK)
        soak_die("a message of the relay has no id");
    soak_print(c->body, TEXT_ROOM, "%.*s", natsMsg_GetDataLength(message),
               natsMsg_GetData(message));
    return (soak_item){.id = id, .body = c->body};
}

/* One: max_ack_pending=1 lets no second one come before it is settled, and a fetch of more would
 * wait for that. */
static int receive(void *context, soak_item items[], size_t max, unsigned wait_ms)
{
    client *c = context;
    (void)max;
    natsMsgList_Destroy(&c->received);
    natsStatus code = natsSubscription_Fetch(&c->received, c->subscription, 1, wait_ms, NULL);
    if (code == NATS_TIMEOUT)
        return 0;
    if (code != NATS_OK)
        return -1;
    for (int i = 0; i < c->received.Count; i++)
        items[i] = item_of(c, c->received.Msgs[i]);
    return c->received.Count;
}

static int acknowledge(void *context)
{
    client *c = context;
    for (int i = 0; i < c->received.Count; i++)
        if (natsMsg_Ack(c->received.Msgs[i], NULL) != NATS_OK)
            return 0;
    return natsConnection_FlushTimeout(c->on, ANSWER_MS) == NATS_OK;
}

/* --- counting --------------------------------------------------------------------------------- */

/* Not delivered yet, and delivered and not acknowledged. */
static int64_t in_consumer(const client *c, const struct place *at)
{
    char stream[NAME];
    jsConsumerInfo *info = NULL;
    stream_name(stream, c->store, at->stream);
    if (js_GetConsumerInfo(&info, c->js, stream, at->consumer, NULL, NULL) != NATS_OK)
        return -1;
    int64_t count = (int64_t)info->NumPending + info->NumAckPending;
    jsConsumerInfo_Destroy(info);
    return count;
}

static int64_t nats_queued(const soak_run *run)
{
    static const struct place all[] = {
        {"ordered", "ordered"}, {"free", "free"}, {"out", "second"}, {"out", "foreign"}};
    client *c = open_client(run->servers->broker.at.url, soak_store_name(run->store), 0);
    int64_t sum = c ? 0 : -1;
    for (size_t i = 0; sum >= 0 && i < sizeof all / sizeof *all; i++) {
        int64_t count = in_consumer(c, &all[i]);
        sum = count < 0 ? -1 : sum + count;
    }
    if (c)
        close_client(c);
    return sum;
}

static const soak_client by_hand = {open_client, close_client, publish, receive, acknowledge};

const soak_broker soak_nats = {.name = "nats",
                               .server = SERVER_NATS,
                               .url = nats_url,
                               .queued = nats_queued,
                               .client = &by_hand,
                               .one_by_one = 1};
