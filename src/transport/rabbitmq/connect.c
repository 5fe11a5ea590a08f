/* TCP or TLS, the login, the channel.
 *
 * TLS verifies the certificate and the host's name, against the system's authorities unless the URL
 * names a file. All of it must be done within connect_ms; only looking up the name has deadlines of
 * its own. */
#include "transport/rabbitmq/connect.h"

#include "base/wait.h"

#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAME_MAX = 131072 };

/* What is left, and a moment at least. */
static struct timeval patience(const rabbit_link *link)
{
    int64_t left = link->connect_until_ms - wait_clock_ms();
    left = left > 1 ? left : 1;
    return (struct timeval){left / 1000, (left % 1000) * 1000};
}

semel_status rabbit_connect_patience(rabbit_link *link, semel_error *err)
{
    struct timeval timeout = patience(link);
    if (amqp_set_handshake_timeout(link->connection, &timeout) == AMQP_STATUS_OK &&
        amqp_set_rpc_timeout(link->connection, &timeout) == AMQP_STATUS_OK)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_EINVAL, "rabbitmq-c does not take a timeout of %u ms",
                      (unsigned)link->address->connect_ms);
}

/* --- the socket ------------------------------------------------------------------------------- */

static semel_status fail_tls(semel_error *err, const char *what, const char *file)
{
    return semel_fail(err, SEMEL_EINVAL, "TLS: %s %s cannot be used: is it there, readable, PEM?",
                      what, file);
}

/* Keeps OpenSSL from asking at the terminal. */
static int no_passphrase(char *out, int room, int writing, void *context)
{
    (void)out, (void)room, (void)writing, (void)context;
    return 0;
}

static semel_status make_tls(amqp_socket_t **out, const rabbit_link *link, semel_error *err)
{
    const rabbit_address *address = link->address;
    amqp_socket_t *socket = amqp_ssl_socket_new(link->connection);
    if (!socket)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a TLS connection");
    *out = socket; /* it belongs to the connection */
    SSL_CTX_set_default_passwd_cb(amqp_ssl_socket_get_context(socket), no_passphrase);
    amqp_ssl_socket_set_verify_peer(socket, address->verify);
    amqp_ssl_socket_set_verify_hostname(socket, address->verify);
    if (amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST) != AMQP_STATUS_OK)
        return semel_fail(err, SEMEL_EUNSUPPORTED, "TLS: this OpenSSL has no TLS 1.2");
    if (address->ca[0]) {
        if (amqp_ssl_socket_set_cacert(socket, address->ca) != AMQP_STATUS_OK)
            return fail_tls(err, "the authorities' file", address->ca);
    } else if (SSL_CTX_set_default_verify_paths(amqp_ssl_socket_get_context(socket)) != 1) {
        return semel_fail(err, SEMEL_EUNSUPPORTED,
                          "TLS: the system has no certificate authorities; "
                          "name a file with ca=");
    }
    if (address->certificate[0] &&
        amqp_ssl_socket_set_key(socket, address->certificate, address->key) != AMQP_STATUS_OK)
        return semel_fail(err, SEMEL_EINVAL,
                          "TLS: the certificate %s or the key %s cannot be used: are they there, "
                          "readable, PEM, without a passphrase, and of each other?",
                          address->certificate, address->key);
    return SEMEL_OK;
}

static semel_status make_socket(amqp_socket_t **out, const rabbit_link *link, semel_error *err)
{
    if (link->address->tls)
        return make_tls(out, link, err);
    *out = amqp_tcp_socket_new(link->connection);
    return *out ? SEMEL_OK : semel_fail(err, SEMEL_ENOMEM, "out of memory for a connection");
}

static semel_status fail_to_reach(const rabbit_address *address, int code, semel_error *err)
{
    semel_status status = SEMEL_EUNAVAILABLE;
    const char *advice = "";
    if (code == AMQP_STATUS_SSL_PEER_VERIFY_FAILED ||
        code == AMQP_STATUS_SSL_HOSTNAME_VERIFY_FAILED) {
        status = SEMEL_ETRANSPORT;
        advice = "; is its certificate signed by one of ca=, and for this host name?";
    } else if (code == AMQP_STATUS_SSL_CONNECTION_FAILED) {
        advice = "; does it speak TLS at this port?";
    }
    const char *what = code == AMQP_STATUS_SOCKET_ERROR /* it does not say which */
                           ? "no server listens there, or it cannot be reached"
                           : amqp_error_string2(code);
    return semel_fail(err, status, "cannot connect to %s:%u: %s%s", address->host,
                      (unsigned)address->port, what, advice);
}

static semel_status open_socket(rabbit_link *link, semel_error *err)
{
    amqp_socket_t *socket = NULL;
    struct timeval timeout = patience(link);
    semel_status status = make_socket(&socket, link, err);
    if (status)
        return status;
    int code =
        amqp_socket_open_noblock(socket, link->address->host, (int)link->address->port, &timeout);
    return code == AMQP_STATUS_OK ? SEMEL_OK : fail_to_reach(link->address, code, err);
}

/* --- the login -------------------------------------------------------------------------------- */

static const char *hint_for(const rabbit_address *address, unsigned code)
{
    return code == AMQP_ACCESS_REFUSED && address->declare == RABBIT_CHECK
               ? "; declare=check needs the configure permission, and declare=no&loss=warn does not"
               : "";
}

static semel_status fail_by_close(const rabbit_link *link, const char *doing, unsigned code,
                                  amqp_bytes_t text, semel_error *err)
{
    semel_fail(err, SEMEL_ETRANSPORT, "%s:%u, %s: the broker says %u %.*s%s", link->address->host,
               (unsigned)link->address->port, doing, code, (int)text.len, (const char *)text.bytes,
               hint_for(link->address, code));
    if (err)
        err->native = (int32_t)code;
    return SEMEL_ETRANSPORT;
}

static semel_status fail_by_reply(const rabbit_link *link, amqp_rpc_reply_t reply,
                                  const char *doing, semel_error *err)
{
    const amqp_connection_close_t *connection = reply.reply.decoded;
    const amqp_channel_close_t *channel = reply.reply.decoded;
    if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION) {
        if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD)
            return fail_by_close(link, doing, connection->reply_code, connection->reply_text, err);
        if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD)
            return fail_by_close(link, doing, channel->reply_code, channel->reply_text, err);
    }
    return semel_fail(err, SEMEL_EUNAVAILABLE, "%s:%u, %s: %s", link->address->host,
                      (unsigned)link->address->port, doing,
                      reply.library_error ? amqp_error_string2(reply.library_error)
                                          : "the broker closed the connection");
}

semel_status rabbit_link_refused(const rabbit_link *link, const char *doing, semel_error *err)
{
    return fail_by_reply(link, amqp_get_rpc_reply(link->connection), doing, err);
}

static amqp_table_entry_t flag(const char *name)
{
    amqp_table_entry_t entry = {.key = amqp_cstring_bytes(name)};
    entry.value.kind = AMQP_FIELD_KIND_BOOLEAN;
    entry.value.value.boolean = 1;
    return entry;
}

/* A broker that hides why it refuses a login is asked to say it, one that deletes a queue or blocks
 * publishers, too. The name is what its tools show for the connection. */
static amqp_rpc_reply_t log_in(const rabbit_link *link)
{
    const rabbit_address *address = link->address;
    amqp_table_entry_t can[] = {flag("authentication_failure_close"),
                                flag("consumer_cancel_notify"), flag("connection.blocked")};
    amqp_table_entry_t about[2] = {{.key = amqp_cstring_bytes("connection_name")},
                                   {.key = amqp_cstring_bytes("capabilities")}};
    about[0].value.kind = AMQP_FIELD_KIND_UTF8;
    about[0].value.value.bytes = amqp_cstring_bytes(address->name);
    about[1].value.kind = AMQP_FIELD_KIND_TABLE;
    about[1].value.value.table = (amqp_table_t){sizeof can / sizeof *can, can};
    amqp_table_t properties = {sizeof about / sizeof *about, about};
    return amqp_login_with_properties(link->connection, address->vhost, RABBIT_CHANNEL, FRAME_MAX,
                                      (int)address->heartbeat_s, &properties,
                                      AMQP_SASL_METHOD_PLAIN, address->user, address->password);
}

static unsigned major_version(amqp_connection_state_t connection)
{
    const amqp_table_t *about = amqp_get_server_properties(connection);
    amqp_bytes_t name = amqp_cstring_bytes("version");
    for (int i = 0; i < about->num_entries; i++) {
        amqp_bytes_t key = about->entries[i].key;
        amqp_bytes_t value = about->entries[i].value.value.bytes;
        if (about->entries[i].value.kind != AMQP_FIELD_KIND_UTF8 || key.len != name.len ||
            memcmp(key.bytes, name.bytes, key.len) != 0)
            continue;
        char text[16] = "";
        (void)snprintf(text, sizeof text, "%.*s", (int)value.len, (const char *)value.bytes);
        return (unsigned)strtoul(text, NULL, 10);
    }
    return 0;
}

static semel_status introduce(rabbit_link *link, semel_error *err)
{
    char doing[2 * RABBIT_NAME_ROOM + 64];
    semel_status status = rabbit_connect_patience(link, err);
    if (status)
        return status;
    (void)snprintf(doing, sizeof doing, "logging in as \"%s\" to the virtual host \"%s\"",
                   link->address->user, link->address->vhost);
    amqp_rpc_reply_t reply = log_in(link);
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION && !link->address->tls)
        return semel_fail(err, SEMEL_EUNAVAILABLE,
                          "%s:%u, %s: %s; is it an AMQP port, and one without TLS? (amqps: has it)",
                          link->address->host, (unsigned)link->address->port, doing,
                          amqp_error_string2(reply.library_error));
    if (reply.reply_type != AMQP_RESPONSE_NORMAL)
        return fail_by_reply(link, reply, doing, err);
    status = rabbit_connect_patience(link, err);
    if (status)
        return status;
    if (!amqp_channel_open(link->connection, RABBIT_CHANNEL))
        return rabbit_link_refused(link, "opening a channel", err);
    link->broker_major = major_version(link->connection);
    return SEMEL_OK;
}

semel_status rabbit_connect(rabbit_link *link, semel_error *err)
{
    link->connect_until_ms = wait_clock_ms() + link->address->connect_ms;
    link->connection = amqp_new_connection();
    if (!link->connection)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a connection");
    semel_status status = open_socket(link, err);
    if (!status)
        status = introduce(link, err);
    if (status) {
        (void)amqp_destroy_connection(link->connection); /* it has nothing to say but OK */
        link->connection = NULL;
    }
    return status;
}
