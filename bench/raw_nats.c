/* The same work by hand on nats.c, as a careful programmer writes it: asynchronous publishing with
 * so many PubAcks outstanding, a pull consumer that fetches as many as the prefetch says, and
 * acknowledgements that the server confirms. What is refused ends the program.
 *
 * nats.c collects what it sends for a millisecond, which pays if many messages are outstanding.
 * With few of them each is written at once.
 *
 * A place is a stream of its name, with a durable consumer of the same name, for the subjects below
 * that name. There is no feeding of one stream by another. */
#include "broker.h"

#include <nats/nats.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 60000, AT_ONCE_MAX = 10, NAME = 64, INFO_ROOM = 4096 };

struct broker {
    char url[512];
    natsConnection *on;
    jsCtx *js;
    natsConnection *sender; /* for so many outstanding: */
    jsCtx *sending;
    size_t outstanding;
    natsSubscription *subscription;
    size_t prefetch;
    natsMsgList fetched;
    int next, taken; /* of those that are fetched */
    semel_message *messages;
    const semel_message **pointers;
};

static void must_do(natsStatus code, const char *what)
{
    natsStatus same;
    if (code != NATS_OK)
        die("nats, %s: %s (%s)", what, natsStatus_GetText(code), nats_GetLastError(&same));
}

/* --- connection ------------------------------------------------------------------------------- */

static void connect_to(natsConnection **out, const char *url, int at_once)
{
    natsOptions *how = NULL;
    must_do(natsOptions_Create(&how), "options");
    must_do(natsOptions_SetURL(how, url), "the URL");
    must_do(natsOptions_SetSendAsap(how, at_once), "options");
    must_do(natsConnection_Connect(out, how), "connecting");
    natsOptions_Destroy(how);
}

static broker *nats_open(const char *url)
{
    jsOptions how;
    broker *b = must_alloc(sizeof *b);
    snprintf(b->url, sizeof b->url, "%s", url);
    connect_to(&b->on, url, 1);
    must_do(jsOptions_Init(&how), "options");
    how.Wait = PATIENCE_MS;
    must_do(natsConnection_JetStream(&b->js, b->on, &how), "JetStream");
    return b;
}

static void close_sender(broker *b)
{
    jsCtx_Destroy(b->sending);
    natsConnection_Destroy(b->sender);
}

static void nats_close_all(broker *b)
{
    natsMsgList_Destroy(&b->fetched);
    natsSubscription_Destroy(b->subscription);
    close_sender(b);
    jsCtx_Destroy(b->js);
    natsConnection_Destroy(b->on);
    free(b->messages);
    free((void *)b->pointers);
    free(b);
}

/* The first line that a server sends; nats.c keeps it to itself. */
static void read_info(char out[INFO_ROOM], const char *host, const char *port)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    ssize_t got = -1;
    if (getaddrinfo(host, port, &hints, &found) != 0)
        die("nats: there is no host %s", host);
    int socket_number = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket_number >= 0 && connect(socket_number, found->ai_addr, found->ai_addrlen) == 0)
        got = read(socket_number, out, INFO_ROOM - 1);
    out[got > 0 ? got : 0] = 0;
    freeaddrinfo(found);
    close(socket_number);
}

static void nats_version(broker *b, char out[32])
{
    static const char name[] = "\"version\":\"";
    char host[128] = "", port[16] = "", info[INFO_ROOM];
    const char *place = strrchr(b->url, '@');
    place = place ? place + 1 : strstr(b->url, "://") + 3;
    if (sscanf(place, "%127[^:]:%15[0-9]", host, port) != 2)
        die("nats: this URL has no host and port");
    read_info(info, host, port);
    const char *at = strstr(info, name);
    if (at)
        snprintf(out, 32, "%.*s", (int)strcspn(at + strlen(name), "\""), at + strlen(name));
}

/* --- places ----------------------------------------------------------------------------------- */

static void nats_remove(broker *b, const char *place)
{
    jsErrCode number = 0;
    natsStatus code = js_DeleteStream(b->js, place, NULL, &number);
    if (number != JSStreamNotFoundErr)
        must_do(code, "deleting a stream");
}

static void nats_make(broker *b, const char *place, const char *queue)
{
    char subject[NAME];
    jsStreamConfig stream;
    jsConsumerConfig consumer;
    (void)queue;
    nats_remove(b, place);
    snprintf(subject, sizeof subject, "%s.>", place);
    must_do(jsStreamConfig_Init(&stream), "options");
    stream.Name = place;
    stream.Subjects = (const char *[]){subject};
    stream.SubjectsLen = 1;
    stream.Retention = js_WorkQueuePolicy;
    must_do(js_AddStream(NULL, b->js, &stream, NULL, NULL), "making a stream");
    must_do(jsConsumerConfig_Init(&consumer), "options");
    consumer.Durable = place;
    consumer.AckPolicy = js_AckExplicit;
    must_do(js_AddConsumer(NULL, b->js, place, &consumer, NULL, NULL), "making a consumer");
}

static void nats_empty(broker *b, const char *place)
{
    must_do(js_PurgeStream(b->js, place, NULL, NULL), "emptying a stream");
}

static void nats_place_url(char out[1024], const char *server_url, const char *place,
                           const char *queue, size_t prefetch)
{
    const char *authority = strstr(server_url, "://") + 3;
    size_t len = (size_t)(authority - server_url) + strcspn(authority, "/?");
    (void)queue;
    snprintf(out, 1024, "%.*s/%s?subject=%s%s%s", (int)len, server_url, place, place,
             prefetch ? "&consumer=" : "", prefetch ? place : "");
}

/* --- publishing ------------------------------------------------------------------------------- */

static void on_refused(jsCtx *js, jsPubAckErr *trouble, void *closure)
{
    (void)js;
    (void)closure;
    die("nats: a message is not confirmed: %s", trouble->ErrText);
}

/* In the round that is not counted. */
static void open_sender(broker *b, size_t outstanding)
{
    jsOptions how;
    if (b->outstanding == outstanding)
        return;
    close_sender(b);
    connect_to(&b->sender, b->url, outstanding <= AT_ONCE_MAX);
    must_do(jsOptions_Init(&how), "options");
    how.PublishAsync.MaxPending = (int64_t)outstanding;
    how.PublishAsync.StallWait = PATIENCE_MS;
    how.PublishAsync.ErrHandler = on_refused;
    must_do(natsConnection_JetStream(&b->sending, b->sender, &how), "JetStream");
    b->outstanding = outstanding;
}

static void publish(broker *b, const char *place, const semel_message *message)
{
    char subject[NAME], id[NAME], when[32];
    natsMsg *out = NULL;
    snprintf(subject, sizeof subject, "%s.%s", place, message->topic);
    snprintf(id, sizeof id, "%.*s", (int)message->id.len, (const char *)message->id.data);
    snprintf(when, sizeof when, "%lld", (long long)message->time_ms);
    must_do(natsMsg_Create(&out, subject, NULL, message->body.data, (int)message->body.len),
            "a message");
    must_do(natsMsgHeader_Set(out, "Nats-Msg-Id", id), "a header");
    must_do(natsMsgHeader_Set(out, "type", message->type), "a header");
    must_do(natsMsgHeader_Set(out, "time", when), "a header");
    must_do(js_PublishMsgAsync(b->sending, &out, NULL), "publishing");
}

static void wait_for_all(broker *b)
{
    jsPubOptions how;
    must_do(jsPubOptions_Init(&how), "options");
    how.MaxWait = PATIENCE_MS;
    must_do(js_PublishAsyncComplete(b->sending, &how), "waiting for PubAcks");
}

/* nats.c waits until fewer are outstanding. */
static void publish_window(broker *b, const char *place, const semel_message *const messages[],
                           size_t count, size_t outstanding)
{
    open_sender(b, outstanding);
    for (size_t i = 0; i < count; i++)
        publish(b, place, messages[i]);
    wait_for_all(b);
}

static void publish_batches(broker *b, const char *place, const semel_message *const messages[],
                            size_t count, size_t outstanding)
{
    open_sender(b, outstanding);
    for (size_t i = 0; i < count;) {
        for (size_t end = i + outstanding; i < count && i < end; i++)
            publish(b, place, messages[i]);
        wait_for_all(b);
    }
}

/* --- consuming -------------------------------------------------------------------------------- */

static void nats_consume(broker *b, const char *place, size_t prefetch)
{
    jsSubOptions how;
    must_do(jsSubOptions_Init(&how), "options");
    how.Stream = place;
    how.Consumer = place;
    must_do(js_PullSubscribe(&b->subscription, b->js, NULL, NULL, NULL, &how, NULL), "subscribing");
    b->prefetch = prefetch;
    b->messages = must_alloc(prefetch * sizeof *b->messages);
    b->pointers = must_alloc(prefetch * sizeof(semel_message *));
}

static void keep(broker *b, natsMsg *from)
{
    semel_message *message = &b->messages[b->taken];
    const char *id = NULL;
    must_do(natsMsgHeader_Get(from, "Nats-Msg-Id", &id), "a message's id");
    *message =
        (semel_message){.size = sizeof *message,
                        .id = {id, strlen(id)},
                        .body = {natsMsg_GetData(from), (size_t)natsMsg_GetDataLength(from)}};
    b->pointers[b->taken++] = message;
}

/* Of what is fetched, and all of it has to be acknowledged before more is. */
static void fetch_more(broker *b)
{
    natsMsgList_Destroy(&b->fetched);
    b->next = 0;
    must_do(
        natsSubscription_Fetch(&b->fetched, b->subscription, (int)b->prefetch, PATIENCE_MS, NULL),
        "fetching");
}

static const semel_message *const *nats_take(broker *b, size_t count)
{
    if (b->taken || count > b->prefetch)
        die("nats: the last deliveries are not acknowledged yet, or more are wanted than fetched");
    if (b->next == b->fetched.Count)
        fetch_more(b);
    if ((size_t)(b->fetched.Count - b->next) < count)
        die("nats: %d messages in place of %zu", b->fetched.Count - b->next, count);
    for (size_t i = 0; i < count; i++)
        keep(b, b->fetched.Msgs[b->next++]);
    return b->pointers;
}

static natsMsg *taken_at(const broker *b, int number)
{
    return b->fetched.Msgs[b->next - b->taken + number];
}

static void ack_each(broker *b)
{
    for (int i = 0; i < b->taken; i++)
        must_do(natsMsg_AckSync(taken_at(b, i), NULL, NULL), "acknowledging");
    b->taken = 0;
}

/* The server takes them in order: when it has the last one it has all. */
static void ack_together(broker *b)
{
    for (int i = 0; i + 1 < b->taken; i++)
        must_do(natsMsg_Ack(taken_at(b, i), NULL), "acknowledging");
    must_do(natsMsg_AckSync(taken_at(b, b->taken - 1), NULL, NULL), "acknowledging");
    b->taken = 0;
}

/* --- the table -------------------------------------------------------------------------------- */

static const char *const queues[] = {"", NULL};

const broker_kind nats_broker = {.name = "NATS JetStream",
                                 .server = "nats",
                                 .queues = queues,
                                 .open = nats_open,
                                 .close = nats_close_all,
                                 .version = nats_version,
                                 .make = nats_make,
                                 .empty = nats_empty,
                                 .remove = nats_remove,
                                 .url = nats_place_url,
                                 .publish_window = publish_window,
                                 .publish_batches = publish_batches,
                                 .consume = nats_consume,
                                 .take = nats_take,
                                 .ack_each = ack_each,
                                 .ack_together = ack_together};
