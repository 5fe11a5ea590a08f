/* Requests and their answers.
 *
 * Whether a request may be sent again is decided by what is known of it. One that did not go out
 * whole, or that the server refused with an error, was not carried out. One that went out and got
 * no answer may have been: if it writes, that is EUNKNOWN, and the layer above settles it; if it
 * reads, it is done again, once.
 *
 * In a cluster all keys of a client are in one slot. The node that has it is found by its answer
 * MOVED, and from then on all connections go there. When that node cannot be reached, the URL's is
 * asked again. While a slot moves, single requests are sent on (ASK). */
#include "redis/errors.h"

#include "base/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAP_FIRST_US = 2000, NAP_MAX_US = 100000, REDIRECTIONS_MAX = 16 };

int64_t redis_steady_us(void)
{
    return wait_clock_ns() / 1000;
}

void redis_answer_free(redis_answer *answer)
{
    for (size_t i = 0; i < answer->count; i++)
        freeReplyObject(answer->replies[i]);
    mem_free(answer->replies);
    memset(answer, 0, sizeof *answer);
}

/* --- one exchange on one connection ----------------------------------------------------------- */

int redis_waits(const redis_client *client)
{
    return client->at->sync || client->at->replicas;
}

static uint32_t answer_ms_of(const redis_client *client, const redis_request *r)
{
    return r->answer_ms ? r->answer_ms : client->answer_ms;
}

static void write_wait(redis_request *out, const redis_client *client, uint32_t wait_ms)
{
    if (client->at->sync) {
        redis_begin(out, 4);
        redis_word_z(out, "WAITAOF");
        redis_word_number(out, 1);
    } else {
        redis_begin(out, 3);
        redis_word_z(out, "WAIT");
    }
    redis_word_number(out, client->at->replicas);
    redis_word_number(out, wait_ms ? wait_ms : 1);
}

/* What stands before and behind the bytes of a request. */
typedef struct envelope {
    char head[128];
    size_t head_len;
    redis_request tail;
    size_t replies;
} envelope;

static void seal(envelope *e, const redis_client *client, const redis_request *r, int with_text)
{
    memset(e, 0, sizeof *e);
    e->replies = r->replies;
    if (r->script) {
        int len = with_text
                      ? snprintf(e->head, sizeof e->head, "*%zu\r\n$4\r\nEVAL\r\n$%zu\r\n",
                                 r->arguments + 2, strlen(r->script->text))
                      : snprintf(e->head, sizeof e->head, "*%zu\r\n$7\r\nEVALSHA\r\n$%d\r\n%s\r\n",
                                 r->arguments + 2, REDIS_SHA_LEN, r->script->sha);
        e->head_len = (size_t)len;
        e->replies++;
    }
    if (r->durable && redis_waits(client))
        write_wait(&e->tail, client, answer_ms_of(client, r) / 2);
    e->replies += e->tail.replies;
}

/* *left: bytes of it that did not go out. */
static int send_sealed(redis_link *link, const envelope *e, const redis_request *r, int with_text,
                       int64_t until_ms, size_t *left)
{
    struct iovec parts[5] = {{(void *)(uintptr_t)e->head, e->head_len}};
    int count = e->head_len ? 1 : 0;
    if (with_text) {
        parts[count++] =
            (struct iovec){(void *)(uintptr_t)r->script->text, strlen(r->script->text)};
        parts[count++] = (struct iovec){(void *)(uintptr_t) "\r\n", 2};
    }
    parts[count++] = (struct iovec){r->bytes.bytes, r->bytes.len};
    if (e->tail.bytes.len)
        parts[count++] = (struct iovec){e->tail.bytes.bytes, e->tail.bytes.len};
    return redis_socket_send(&link->socket, parts, count, until_ms, left);
}

/* If only the wait behind it was cut off, the script itself has gone out whole. */
static semel_status fail_sending(const redis_link *link, const envelope *e, const redis_request *r,
                                 size_t left, semel_error *err)
{
    int whole = r->writes && left <= e->tail.bytes.len;
    return semel_fail(err, whole ? SEMEL_EUNKNOWN : SEMEL_EUNAVAILABLE, "%s, %s: %s",
                      link->client->role->title, r->doing, link->socket.why);
}

static semel_status receive(redis_link *link, const envelope *e, const redis_request *r,
                            redis_answer *out, int64_t until_ms, semel_error *err)
{
    out->replies = mem_alloc(e->replies * sizeof(redisReply *));
    if (!out->replies) /* it was sent: nobody reads the answer */
        return semel_fail(err, r->writes ? SEMEL_EUNKNOWN : SEMEL_ENOMEM, "out of memory, %s",
                          r->doing);
    while (out->count < e->replies)
        if (redis_link_reply(link, &out->replies[out->count], until_ms))
            out->count++;
        else
            break;
    out->heard_us = redis_steady_us();
    if (out->count == e->replies)
        return SEMEL_OK;
    redis_answer_free(out);
    return semel_fail(err, r->writes ? SEMEL_EUNKNOWN : SEMEL_EUNAVAILABLE, "%s, %s: %s",
                      link->client->role->title, r->doing, link->socket.why);
}

static void call_meanwhile(redis_request *r)
{
    void (*meanwhile)(void *) = r->meanwhile;
    r->meanwhile = NULL;
    if (meanwhile)
        meanwhile(r->context);
}

static semel_status talk(redis_client *client, redis_link *link, redis_request *r,
                         redis_answer *out, int with_text, semel_error *err)
{
    envelope e;
    int64_t until_ms = wait_clock_ms() + answer_ms_of(client, r);
    memset(out, 0, sizeof *out);
    seal(&e, client, r, with_text);
    semel_status status = SEMEL_OK;
    if (e.tail.bytes.failed || r->bytes.failed) {
        status = semel_fail(err, SEMEL_ENOMEM, "out of memory for a request, %s", r->doing);
    } else {
        out->sent_us = redis_steady_us();
        size_t left = 0;
        int sent = send_sealed(link, &e, r, with_text, until_ms, &left);
        if (sent)
            call_meanwhile(r);
        status =
            sent ? receive(link, &e, r, out, until_ms, err) : fail_sending(link, &e, r, left, err);
    }
    mem_free(e.tail.bytes.bytes);
    return status;
}

semel_status redis_talk(redis_client *client, redis_link *link, redis_request *r, redis_answer *out,
                        semel_error *err)
{
    return talk(client, link, r, out, 0, err);
}

/* --- attempts --------------------------------------------------------------------------------- */

typedef struct attempts {
    int64_t until_ms; /* of what the server tells to come again for */
    uint32_t nap_us;
    unsigned redirections;
    int had_link;  /* the last attempt found a connection */
    int lost_once; /* ... and lost it, before the request was carried out */
    char ask_host[256];
    uint32_t ask_port; /* 0: nobody else is asked */
} attempts;

/* Of a script, whose reply is the first. What is said behind it (WAIT) changes nothing any more. */
static const redisReply *first_error(const redis_request *r, const redis_answer *answer)
{
    for (size_t i = 0; i < (r->script ? 1 : answer->count); i++)
        if (answer->replies[i]->type == REDIS_REPLY_ERROR)
            return answer->replies[i];
    return NULL;
}

static semel_status ask(redis_client *client, redis_request *r, redis_answer *out, attempts *a,
                        semel_error *err)
{
    redis_link *link = NULL;
    redis_request asking = {.doing = r->doing};
    redis_answer ignored;
    int64_t until_ms = wait_clock_ms() + client->answer_ms;
    semel_status status = redis_link_open(&link, client, a->ask_host, a->ask_port, until_ms, err);
    a->ask_port = 0;
    if (status)
        return status;
    redis_begin(&asking, 1);
    redis_word_z(&asking, "ASKING");
    status = talk(client, link, &asking, &ignored, 0, err);
    if (!status)
        redis_answer_free(&ignored);
    if (!status)
        status = talk(client, link, r, out, r->script != NULL, err);
    mem_free(asking.bytes.bytes);
    redis_link_close(link);
    return status;
}

static semel_status try_once(redis_client *client, redis_request *r, redis_answer *out, attempts *a,
                             semel_error *err)
{
    redis_link *link = NULL;
    a->had_link = 0;
    if (a->ask_port)
        return ask(client, r, out, a, err);
    semel_status status = client->links->take(&link, client, err);
    if (status)
        return status;
    a->had_link = 1;
    status = talk(client, link, r, out, 0, err);
    if (!status && r->script && redis_is_error(out->replies[0], "NOSCRIPT")) {
        redis_answer_free(out);
        status = talk(client, link, r, out, 1, err);
    }
    const redisReply *error = status ? NULL : first_error(r, out);
    client->links->give(client, link, !status && !(error && redis_classify(error)->elsewhere));
    return status;
}

static void nap(attempts *a)
{
    wait_nap_us(a->nap_us);
    a->nap_us = a->nap_us * 2 < NAP_MAX_US ? a->nap_us * 2 : NAP_MAX_US;
}

/* "MOVED 866 10.0.0.7:6379", or an address with colons of its own; a node that does not know its
 * name leaves it out. */
static int read_redirection(const redisReply *reply, char host[256], uint32_t *port)
{
    const char *at = strchr(reply->str, ' ');
    at = at ? strchr(at + 1, ' ') : NULL;
    const char *colon = at ? strrchr(at, ':') : NULL;
    if (!colon || colon - at > 250)
        return 0;
    unsigned long number = strtoul(colon + 1, NULL, 10);
    if (colon > at + 1)
        (void)snprintf(host, 256, "%.*s", (int)(colon - at - 1), at + 1);
    *port = (uint32_t)number;
    return number > 0 && number < 65536;
}

/* 1: the request is to be sent again. */
static int follow(redis_client *client, const redisReply *error, attempts *a)
{
    char host[256];
    uint32_t port;
    int moved = redis_is_error(error, "MOVED");
    if (!moved && !redis_is_error(error, "ASK"))
        return 0;
    (void)redis_place(client, host, &port);
    if (a->redirections++ >= REDIRECTIONS_MAX || !read_redirection(error, host, &port))
        return 0;
    if (moved) {
        redis_place_move(client, host, port);
    } else {
        (void)snprintf(a->ask_host, sizeof a->ask_host, "%s", host);
        a->ask_port = port;
    }
    return 1;
}

static int comes_again(redis_client *client, const redisReply *error, attempts *a)
{
    const redis_error_class *class = redis_classify(error);
    if (!class->later || wait_clock_ms() >= a->until_ms)
        return 0;
    if (class->elsewhere)
        redis_place_reset(client);
    nap(a);
    return 1;
}

/* One that took all of its time would take all of the next one's, too. */
static int is_worth_another(const redis_client *client, const redis_request *r, semel_status status,
                            attempts *a, int64_t took_ms)
{
    int again = status == SEMEL_EUNAVAILABLE && a->had_link && !a->lost_once &&
                took_ms < answer_ms_of(client, r) / 2;
    a->lost_once = 1;
    return again;
}

static semel_status exchange(redis_client *client, redis_request *r, redis_answer *out,
                             semel_error *err)
{
    attempts a = {.until_ms = wait_clock_ms() + client->busy_ms, .nap_us = NAP_FIRST_US};
    for (;;) {
        int64_t began_ms = wait_clock_ms();
        semel_status status = try_once(client, r, out, &a, err);
        if (status && is_worth_another(client, r, status, &a, wait_clock_ms() - began_ms))
            continue;
        const redisReply *error = status ? NULL : first_error(r, out);
        if (!error)
            return status;
        if (!follow(client, error, &a) && !comes_again(client, error, &a)) {
            if (!r->script)
                return SEMEL_OK;
            status = redis_fail(client, error, r->doing, err);
            redis_answer_free(out);
            return status;
        }
        redis_answer_free(out);
    }
}

semel_status redis_exchange(redis_client *client, redis_request *r, redis_answer *out,
                            semel_error *err)
{
    semel_status status = exchange(client, r, out, err);
    mem_free(r->bytes.bytes);
    memset(&r->bytes, 0, sizeof r->bytes);
    return status;
}
