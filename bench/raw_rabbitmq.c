/* The same work by hand on rabbitmq-c: what a careful programmer writes, knowing that one message
 * at a time is slow. Confirms are read as frames, because the library (0.11) has no call for them;
 * they may come for many at once (`multiple`) and out of order, so each number that is outstanding
 * is remembered. A message that the broker returns or refuses ends the program: here nothing of the
 * kind should happen. */
#include "raw_rabbitmq.h"

#include <amqp_tcp_socket.h>
#include <stdlib.h>
#include <string.h>

enum { RING = 4096 }; /* a power of two, more than is ever outstanding */

void must_rabbit(int code)
{
    if (code != AMQP_STATUS_OK)
        die("rabbitmq: %s", amqp_error_string2(code));
}

void must_reply(amqp_rpc_reply_t reply)
{
    if (reply.reply_type == AMQP_RESPONSE_NORMAL)
        return;
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION)
        die("rabbitmq: %s", amqp_error_string2(reply.library_error));
    if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION &&
        reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
        const amqp_channel_close_t *why = reply.reply.decoded;
        die("rabbitmq: %.*s", (int)why->reply_text.len, (const char *)why->reply_text.bytes);
    }
    die("rabbitmq: the broker closed the connection");
}

static amqp_bytes_t bytes_of(semel_bytes bytes)
{
    return (amqp_bytes_t){.len = bytes.len, .bytes = (void *)(uintptr_t)bytes.data};
}

/* --- connection ------------------------------------------------------------------------------- */

static void connect_to(broker *b, const char *url)
{
    struct amqp_connection_info at;
    char *copy = strdup(url); /* the parts point into it */
    if (!copy)
        die("out of memory");
    copy[strcspn(copy, "?")] = 0;
    must_rabbit(amqp_parse_url(copy, &at));
    b->connection = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(b->connection);
    if (!socket)
        die("out of memory");
    must_rabbit(amqp_socket_open(socket, at.host, at.port));
    must_reply(amqp_login(b->connection, *at.vhost ? at.vhost : "/", 0, AMQP_DEFAULT_FRAME_SIZE, 0,
                          AMQP_SASL_METHOD_PLAIN, at.user, at.password));
    free(copy);
}

static broker *rabbitmq_open(const char *url)
{
    broker *b = must_alloc(sizeof *b);
    connect_to(b, url);
    b->is_confirmed = must_alloc(RING);
    (void)amqp_channel_open(b->connection, CHANNEL);
    must_reply(amqp_get_rpc_reply(b->connection));
    (void)amqp_confirm_select(b->connection, CHANNEL);
    must_reply(amqp_get_rpc_reply(b->connection));
    return b;
}

static void rabbitmq_close(broker *b)
{
    (void)amqp_connection_close(b->connection, AMQP_REPLY_SUCCESS);
    must_rabbit(amqp_destroy_connection(b->connection));
    free(b->is_confirmed);
    free(b->envelopes);
    free(b->messages);
    free((void *)b->pointers);
    free(b);
}

/* --- places ----------------------------------------------------------------------------------- */

static void rabbitmq_remove(broker *b, const char *place)
{
    amqp_bytes_t name = amqp_cstring_bytes(place);
    (void)amqp_queue_delete(b->connection, CHANNEL, name, 0, 0);
    must_reply(amqp_get_rpc_reply(b->connection));
    (void)amqp_exchange_delete(b->connection, CHANNEL, name, 0);
    must_reply(amqp_get_rpc_reply(b->connection));
    amqp_maybe_release_buffers(b->connection);
}

static void rabbitmq_empty(broker *b, const char *place)
{
    (void)amqp_queue_purge(b->connection, CHANNEL, amqp_cstring_bytes(place));
    must_reply(amqp_get_rpc_reply(b->connection));
    amqp_maybe_release_buffers(b->connection);
}

static void rabbitmq_feed(broker *b, const char *place, const char *from)
{
    (void)amqp_queue_bind(b->connection, CHANNEL, amqp_cstring_bytes(place),
                          amqp_cstring_bytes(from), amqp_cstring_bytes(BROKER_TOPIC),
                          amqp_empty_table);
    must_reply(amqp_get_rpc_reply(b->connection));
}

static void rabbitmq_make(broker *b, const char *place, const char *queue)
{
    amqp_bytes_t name = amqp_cstring_bytes(place);
    amqp_table_entry_t type = {
        .key = amqp_cstring_bytes("x-queue-type"),
        .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(queue)}};
    const amqp_table_t arguments = {.num_entries = 1, .entries = &type};
    rabbitmq_remove(b, place);
    (void)amqp_exchange_declare(b->connection, CHANNEL, name, amqp_cstring_bytes("topic"), 0, 1, 0,
                                0, amqp_empty_table);
    must_reply(amqp_get_rpc_reply(b->connection));
    (void)amqp_queue_declare(b->connection, CHANNEL, name, 0, 1, 0, 0, arguments);
    must_reply(amqp_get_rpc_reply(b->connection));
    rabbitmq_feed(b, place, place);
}

static void rabbitmq_url(char out[1024], const char *server_url, const char *place,
                         const char *queue, size_t prefetch)
{
    int len = snprintf(out, 1024, "%s%cexchange=%s", server_url,
                       strchr(server_url, '?') ? '&' : '?', place);
    if (prefetch && len > 0 && len < 1024)
        snprintf(out + len, 1024 - (size_t)len, "&queue=%s&type=%s&prefetch=%zu", place, queue,
                 prefetch);
}

static void rabbitmq_version(broker *b, char out[32])
{
    const amqp_table_t *about = amqp_get_server_properties(b->connection);
    for (int i = 0; i < about->num_entries; i++) {
        amqp_bytes_t key = about->entries[i].key, value = about->entries[i].value.value.bytes;
        if (key.len == strlen("version") && memcmp(key.bytes, "version", key.len) == 0)
            snprintf(out, 32, "%.*s", (int)value.len, (const char *)value.bytes);
    }
}

/* --- publishing ------------------------------------------------------------------------------- */

static void publish(broker *b, const char *place, const semel_message *message)
{
    const amqp_basic_properties_t properties = {
        ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG |
                  AMQP_BASIC_TYPE_FLAG | AMQP_BASIC_TIMESTAMP_FLAG,
        .delivery_mode = AMQP_DELIVERY_PERSISTENT,
        .message_id = bytes_of(message->id),
        .type = amqp_cstring_bytes(message->type),
        .timestamp = (uint64_t)(message->time_ms / 1000)};
    must_rabbit(amqp_basic_publish(b->connection, CHANNEL, amqp_cstring_bytes(place),
                                   amqp_cstring_bytes(message->topic), 1, 0, &properties,
                                   bytes_of(message->body)));
    b->sent++;
    b->outstanding++;
}

static void confirm_one(broker *b, uint64_t number)
{
    char *is_confirmed = &b->is_confirmed[number % RING];
    if (number <= b->confirmed || *is_confirmed)
        return;
    *is_confirmed = 1;
    b->outstanding--;
}

static void confirm(broker *b, const amqp_basic_ack_t *ack)
{
    if (ack->delivery_tag > b->sent)
        die("rabbitmq: confirmed what was not sent");
    for (uint64_t i = ack->multiple ? b->confirmed + 1 : ack->delivery_tag; i <= ack->delivery_tag;
         i++)
        confirm_one(b, i);
    while (b->confirmed < b->sent && b->is_confirmed[(b->confirmed + 1) % RING])
        b->is_confirmed[++b->confirmed % RING] = 0;
}

static void read_frame(broker *b)
{
    const struct timeval patience = {.tv_sec = PATIENCE_S, .tv_usec = 0};
    amqp_frame_t frame;
    must_rabbit(amqp_simple_wait_frame_noblock(b->connection, &frame, &patience));
    if (frame.frame_type != AMQP_FRAME_METHOD || frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
        die("rabbitmq: not a confirm but frame %d, method %s", frame.frame_type,
            frame.frame_type == AMQP_FRAME_METHOD ? amqp_method_name(frame.payload.method.id)
                                                  : "-");
    confirm(b, frame.payload.method.decoded);
}

/* One, and those that have come already. */
static void read_confirms(broker *b)
{
    do
        read_frame(b);
    while (b->outstanding &&
           (amqp_frames_enqueued(b->connection) || amqp_data_in_buffer(b->connection)));
    amqp_maybe_release_buffers(b->connection);
}

static void publish_window(broker *b, const char *place, const semel_message *const messages[],
                           size_t count, size_t outstanding)
{
    for (size_t i = 0; i < count;) {
        while (i < count && b->outstanding < outstanding && b->sent - b->confirmed < RING)
            publish(b, place, messages[i++]);
        read_confirms(b);
    }
    while (b->outstanding)
        read_confirms(b);
}

static void publish_batches(broker *b, const char *place, const semel_message *const messages[],
                            size_t count, size_t outstanding)
{
    for (size_t i = 0; i < count;) {
        for (size_t end = i + outstanding; i < count && i < end; i++)
            publish(b, place, messages[i]);
        while (b->outstanding)
            read_confirms(b);
    }
}

/* --- the table -------------------------------------------------------------------------------- */

static const char *const queues[] = {"quorum", "classic", NULL};

const broker_kind rabbitmq_broker = {.name = "RabbitMQ",
                                     .server = "rabbitmq",
                                     .queues = queues,
                                     .open = rabbitmq_open,
                                     .close = rabbitmq_close,
                                     .version = rabbitmq_version,
                                     .make = rabbitmq_make,
                                     .empty = rabbitmq_empty,
                                     .remove = rabbitmq_remove,
                                     .feed = rabbitmq_feed,
                                     .url = rabbitmq_url,
                                     .publish_window = publish_window,
                                     .publish_batches = publish_batches,
                                     .consume = rabbitmq_consume,
                                     .take = rabbitmq_take,
                                     .ack_each = rabbitmq_ack_each,
                                     .ack_together = rabbitmq_ack_together};
