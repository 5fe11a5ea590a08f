/* Raw connections to the broker, with rabbitmq-c alone: what a test sees by them owes nothing to
 * the library. See broker.h. */
#include "support/servers/rabbitmq/broker.h"

#include "support/process/process.h"
#include "support/servers/server_internal.h"

#include <amqp_tcp_socket.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

enum { CHANNEL = 1, PATIENCE_S = 30, LOGIN_MS = 60000, FRAME_MAX = 131072 };

/* --- a connection ----------------------------------------------------------------------------- */

/* With the text of the failure, which lies in different places. */
static void print_reply(char *out, size_t room, amqp_rpc_reply_t reply)
{
    const amqp_channel_close_t *channel = reply.reply.decoded;
    const amqp_connection_close_t *connection = reply.reply.decoded;
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION)
        server_print(out, room, "%s", amqp_error_string2(reply.library_error));
    else if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD)
        server_print(out, room, "%.*s", (int)channel->reply_text.len,
                     (const char *)channel->reply_text.bytes);
    else if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD)
        server_print(out, room, "%.*s", (int)connection->reply_text.len,
                     (const char *)connection->reply_text.bytes);
    else
        server_print(out, room, "the broker closed the connection");
}

static void check(amqp_rpc_reply_t reply, const char *doing, const char *what)
{
    char reason[SERVER_URL_ROOM];
    if (reply.reply_type == AMQP_RESPONSE_NORMAL)
        return;
    print_reply(reason, sizeof reason, reply);
    server_die("%s %s: %s", doing, what, reason);
}

static amqp_rpc_reply_t log_in(amqp_connection_state_t *out, const char *host, unsigned port)
{
    struct timeval patience = {.tv_sec = PATIENCE_S};
    amqp_connection_state_t raw = amqp_new_connection();
    amqp_socket_t *socket = raw ? amqp_tcp_socket_new(raw) : NULL;
    if (!socket)
        server_die("no memory for a connection");
    int code = amqp_socket_open_noblock(socket, host, (int)port, &patience);
    if (code || amqp_set_rpc_timeout(raw, &patience) || amqp_set_handshake_timeout(raw, &patience))
        server_die("no connection to %s:%u: %s", host, port, amqp_error_string2(code));
    *out = raw;
    return amqp_login(raw, "/", 0, FRAME_MAX, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest");
}

/* A busy broker closes a connection that has not logged in after ten seconds. */
static amqp_connection_state_t open_raw(const char *host, unsigned port)
{
    int64_t until = process_now_ms() + LOGIN_MS;
    amqp_connection_state_t raw;
    amqp_rpc_reply_t reply = log_in(&raw, host, port);
    while (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION && process_now_ms() < until) {
        (void)amqp_destroy_connection(raw);
        reply = log_in(&raw, host, port);
    }
    check(reply, "login", host);
    amqp_channel_open(raw, CHANNEL);
    check(amqp_get_rpc_reply(raw), "open a channel of", host);
    return raw;
}

static amqp_connection_state_t open_at(const server_place *where)
{
    return open_raw(where->host, where->port);
}

static void close_raw(amqp_connection_state_t raw)
{
    check(amqp_connection_close(raw, AMQP_REPLY_SUCCESS), "close", "the connection");
    (void)amqp_destroy_connection(raw); /* it has nothing to say but OK */
}

/* Looks at the answer of the call before it, and closes. */
static void finish(amqp_connection_state_t raw, const char *doing, const char *what)
{
    check(amqp_get_rpc_reply(raw), doing, what);
    close_raw(raw);
}

static amqp_bytes_t text(const char *bytes)
{
    return amqp_cstring_bytes(bytes);
}

/* --- URLs ------------------------------------------------------------------------------------- */

void broker_name(char name[BROKER_NAME_ROOM])
{
    _Static_assert((int)BROKER_NAME_ROOM == (int)SERVER_NAME_ROOM, "the same names");
    server_invent_name(name);
}

static const char *patience_beside(const char *parameters)
{
    return strstr(parameters, "connect_ms=") ? "" : "&" BROKER_PATIENCE;
}

void broker_fresh(char url[SERVER_URL_ROOM], const server_place *where, const char *parameters)
{
    char name[BROKER_NAME_ROOM];
    broker_name(name);
    server_print(url, SERVER_URL_ROOM, "%s?queue=%s&exchange=%s%s%s%s", where->url, name, name,
                 patience_beside(parameters), *parameters ? "&" : "", parameters);
}

void broker_fresh_tls(char url[SERVER_URL_ROOM], const server_place *where, const char *parameters)
{
    char name[BROKER_NAME_ROOM], port[16], ca[SCRATCH_PATH];
    broker_name(name);
    server_entry(port, sizeof port, where, "TLS_PORT");
    server_entry(ca, sizeof ca, where, "CA");
    server_print(url, SERVER_URL_ROOM,
                 "amqps://guest:guest@localhost:%s/%%2F?queue=%s&exchange=%s&ca=%s%s%s%s", port,
                 name, name, ca, patience_beside(parameters), *parameters ? "&" : "", parameters);
}

void broker_queue_of(char name[BROKER_NAME_ROOM], const char *url)
{
    server_parameter(name, url, "queue", "");
}

/* A URL with TLS has another port, so it is the shared broker's; a broker of the test's own ends
 * with its queues anyway. */
void broker_drop(const char *url)
{
    char queue[BROKER_NAME_ROOM], exchange[BROKER_NAME_ROOM];
    server_place where = {.kind = SERVER_RABBITMQ};
    if (strncmp(url, "amqps:", 6) == 0)
        server_find(&where, SERVER_RABBITMQ);
    else
        server_address(url, where.host, &where.port);
    broker_queue_of(queue, url);
    server_parameter(exchange, url, "exchange", "");
    if (*queue)
        broker_delete_queue(&where, queue);
    if (*exchange)
        broker_delete_exchange(&where, exchange);
}

/* --- exchanges and queues --------------------------------------------------------------------- */

void broker_make_exchange(const server_place *where, const char *exchange, const char *type)
{
    amqp_connection_state_t raw = open_at(where);
    amqp_exchange_declare(raw, CHANNEL, text(exchange), text(type), 0, 1, 0, 0, amqp_empty_table);
    finish(raw, "declare exchange", exchange);
}

void broker_make_queue(const server_place *where, const char *queue, const char *type)
{
    amqp_table_entry_t entry = {.key = text("x-queue-type"),
                                .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = text(type)}};
    amqp_table_t arguments = {.num_entries = 1, .entries = &entry};
    amqp_connection_state_t raw = open_at(where);
    amqp_queue_declare(raw, CHANNEL, text(queue), 0, 1, 0, 0, arguments);
    finish(raw, "declare queue", queue);
}

void broker_bind(const server_place *where, const char *queue, const char *exchange,
                 const char *key)
{
    amqp_connection_state_t raw = open_at(where);
    amqp_queue_bind(raw, CHANNEL, text(queue), text(exchange), text(key), amqp_empty_table);
    finish(raw, "bind queue", queue);
}

void broker_delete_queue(const server_place *where, const char *queue)
{
    amqp_connection_state_t raw = open_at(where);
    amqp_queue_delete(raw, CHANNEL, text(queue), 0, 0);
    finish(raw, "delete queue", queue);
}

void broker_delete_exchange(const server_place *where, const char *exchange)
{
    amqp_connection_state_t raw = open_at(where);
    amqp_exchange_delete(raw, CHANNEL, text(exchange), 0);
    finish(raw, "delete exchange", exchange);
}

void broker_purge(const server_place *where, const char *queue)
{
    amqp_connection_state_t raw = open_at(where);
    amqp_queue_purge(raw, CHANNEL, text(queue));
    finish(raw, "purge queue", queue);
}

/* A queue that is not there closes the channel with 404. */
int64_t broker_ready(const server_place *where, const char *queue)
{
    amqp_connection_state_t raw = open_at(where);
    const amqp_queue_declare_ok_t *ok =
        amqp_queue_declare(raw, CHANNEL, text(queue), 1, 0, 0, 0, amqp_empty_table);
    int64_t ready = ok ? (int64_t)ok->message_count : -1;
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(raw);
    const amqp_channel_close_t *closed = reply.reply.decoded;
    if (!ok && (reply.reply_type != AMQP_RESPONSE_SERVER_EXCEPTION ||
                reply.reply.id != AMQP_CHANNEL_CLOSE_METHOD || closed->reply_code != 404))
        check(reply, "look at queue", queue);
    close_raw(raw);
    return ready;
}

/* --- messages --------------------------------------------------------------------------------- */

static void wait_for_confirm(amqp_connection_state_t raw, const char *key)
{
    struct timeval patience = {.tv_sec = PATIENCE_S};
    for (;;) {
        amqp_frame_t frame;
        int code = amqp_simple_wait_frame_noblock(raw, &frame, &patience);
        if (code)
            server_die("publish with %s: %s", key, amqp_error_string2(code));
        if (frame.frame_type != AMQP_FRAME_METHOD)
            continue;
        if (frame.payload.method.id == AMQP_BASIC_ACK_METHOD)
            return;
        if (frame.payload.method.id != AMQP_CONNECTION_BLOCKED_METHOD)
            server_die("publish with %s: the broker says %s", key,
                       amqp_method_name(frame.payload.method.id));
    }
}

void broker_publish(const server_place *where, const char *exchange, const char *key,
                    const amqp_basic_properties_t *properties, const void *body, size_t body_len)
{
    amqp_connection_state_t raw = open_at(where);
    amqp_bytes_t bytes = {.len = body_len, .bytes = (void *)(uintptr_t)body};
    amqp_confirm_select(raw, CHANNEL);
    check(amqp_get_rpc_reply(raw), "confirm.select for", key);
    int code = amqp_basic_publish(raw, CHANNEL, text(exchange), text(key), 1, 0, properties, bytes);
    if (code)
        server_die("publish with %s: %s", key, amqp_error_string2(code));
    wait_for_confirm(raw, key);
    close_raw(raw);
}

static void keep_text(char out[256], amqp_bytes_t bytes)
{
    server_print(out, 256, "%.*s", (int)bytes.len, (const char *)bytes.bytes);
}

int broker_get(broker_message *out, const server_place *where, const char *queue)
{
    amqp_connection_state_t raw = open_at(where);
    amqp_rpc_reply_t reply = amqp_basic_get(raw, CHANNEL, text(queue), 1);
    check(reply, "get from queue", queue);
    int is_there = reply.reply.id == AMQP_BASIC_GET_OK_METHOD;
    if (is_there) {
        const amqp_basic_get_ok_t *ok = reply.reply.decoded;
        *out = (broker_message){.redelivered = ok->redelivered};
        keep_text(out->exchange, ok->exchange);
        keep_text(out->key, ok->routing_key);
        check(amqp_read_message(raw, CHANNEL, &out->message, 0), "read from queue", queue);
    }
    close_raw(raw);
    return is_there;
}

void broker_message_free(broker_message *message)
{
    amqp_destroy_message(&message->message);
}

const amqp_field_value_t *broker_header(const broker_message *message, const char *name)
{
    const amqp_basic_properties_t *properties = &message->message.properties;
    if (!(properties->_flags & AMQP_BASIC_HEADERS_FLAG))
        return NULL;
    for (int i = 0; i < properties->headers.num_entries; i++) {
        const amqp_table_entry_t *entry = &properties->headers.entries[i];
        if (entry->key.len == strlen(name) && memcmp(entry->key.bytes, name, entry->key.len) == 0)
            return &entry->value;
    }
    return NULL;
}
