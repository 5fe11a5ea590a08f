/* A connection: opened, logged in, and what comes from it cut into replies by hiredis. */
#include "redis/client.h"

#include "base/wait.h"

#include <stdio.h>
#include <string.h>

enum { RECEIVE_ROOM = 16384 };

void redis_link_close(redis_link *link)
{
    if (!link)
        return;
    redis_socket_close(&link->socket);
    if (link->reader)
        redisReaderFree(link->reader);
    mem_free(link);
}

/* --- replies ---------------------------------------------------------------------------------- */

static int garbled(redis_link *link)
{
    (void)snprintf(link->socket.why, sizeof link->socket.why, "not an answer of Redis (%.80s)",
                   link->reader->errstr);
    return 0;
}

int redis_link_reply(redis_link *link, redisReply **out, int64_t until_ms)
{
    char bytes[RECEIVE_ROOM];
    void *reply = NULL;
    for (;;) {
        if (redisReaderGetReply(link->reader, &reply) != REDIS_OK)
            return garbled(link);
        if (reply) {
            *out = reply;
            return 1;
        }
        long got = redis_socket_receive(&link->socket, bytes, sizeof bytes, until_ms);
        if (got <= 0)
            return 0;
        if (redisReaderFeed(link->reader, bytes, (size_t)got) != REDIS_OK)
            return garbled(link);
    }
}

/* --- the login -------------------------------------------------------------------------------- */

static void write_login(redis_request *r, const redis_client *client)
{
    const redis_address *at = client->at;
    if (at->password) {
        redis_begin(r, at->user ? 3 : 2);
        redis_word_z(r, "AUTH");
        if (at->user)
            redis_word_z(r, at->user);
        redis_word_z(r, at->password);
    }
    if (at->database) {
        redis_begin(r, 2);
        redis_word_z(r, "SELECT");
        redis_word_number(r, at->database);
    }
    redis_begin(r, 3);
    redis_word_z(r, "CLIENT");
    redis_word_z(r, "SETNAME");
    redis_word_z(r, "semel");
}

/* A name is a courtesy, and some services refuse it; what comes before must work. */
static semel_status check_login(const redis_client *client, const redis_answer *answer,
                                semel_error *err)
{
    for (size_t i = 0; i + 1 < answer->count; i++)
        if (answer->replies[i]->type == REDIS_REPLY_ERROR)
            return redis_fail(client, answer->replies[i], "logging in", err);
    const redisReply *last = answer->replies[answer->count - 1];
    if (redis_is_error(last, "NOAUTH"))
        return redis_fail(client, last, "logging in", err);
    return SEMEL_OK;
}

static semel_status log_in(redis_client *client, redis_link *link, semel_error *err)
{
    redis_request login = {.doing = "logging in"};
    redis_answer answer;
    write_login(&login, client);
    semel_status status = redis_talk(client, link, &login, &answer, err);
    text_buffer *bytes = &login.bytes;
    if (bytes->bytes) /* a password was in it */
        OPENSSL_cleanse(bytes->bytes, bytes->capacity);
    mem_free(bytes->bytes);
    if (status)
        return status == SEMEL_EUNKNOWN ? SEMEL_EUNAVAILABLE : status;
    status = check_login(client, &answer, err);
    redis_answer_free(&answer);
    return status;
}

semel_status redis_link_open(redis_link **out, redis_client *client, const char *host,
                             uint32_t port, int64_t until_ms, semel_error *err)
{
    redis_link *link = mem_alloc(sizeof *link);
    if (!link)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a connection");
    link->client = client;
    link->socket.fd = -1;
    link->reader = redisReaderCreate();
    int64_t most = wait_clock_ms() + client->at->connect_ms;
    semel_status status = link->reader
                              ? redis_socket_open(&link->socket, client, host, port,
                                                  until_ms < most ? until_ms : most, err)
                              : semel_fail(err, SEMEL_ENOMEM, "out of memory for a connection");
    if (!status)
        status = log_in(client, link, err);
    if (status)
        redis_link_close(link);
    else
        *out = link;
    return status;
}

semel_status redis_link_open_here(redis_link **out, redis_client *client, int64_t until_ms,
                                  semel_error *err)
{
    char host[256];
    uint32_t port;
    redis_link *link = NULL;
    uint64_t place = redis_place(client, host, &port);
    semel_status status = redis_link_open(&link, client, host, port, until_ms, err);
    if (status) {
        redis_place_reset(client); /* where another node may know who has the slot now */
        return status;
    }
    link->place = place;
    *out = link;
    return SEMEL_OK;
}

int redis_link_is_alive(redis_link *link)
{
    char host[256];
    uint32_t port;
    return link->place == redis_place(link->client, host, &port) &&
           redis_socket_is_quiet(&link->socket);
}
