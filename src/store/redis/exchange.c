/* Requests and their answers.
 *
 * Whether a request may be sent again is decided by what is known of it. One that did not go out
 * whole, or that the server refused with an error, was not carried out. One that went out and got
 * no answer may have been: if it writes, that is EUNKNOWN, and the layer above settles it; if it
 * reads, it is done again, once.
 *
 * In a cluster all keys of a store are in one slot. The node that has it is found by its answer
 * MOVED, and from then on all connections go there. When that node cannot be reached, the URL's is
 * asked again. While a slot moves, single requests are sent on (ASK). */
#include "store/redis/redis.h"

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

/* --- errors ----------------------------------------------------------------------------------- */

int redis_is_error(const redisReply *reply, const char *code)
{
    size_t len = strlen(code);
    return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, code, len) == 0 &&
           (reply->str[len] == ' ' || !reply->str[len]);
}

typedef struct error_class {
    const char *code;
    semel_status status;
    int later;     /* 1: it passes by itself */
    int elsewhere; /* 1: another connection may find another server */
    const char *advice;
} error_class;

static const error_class *classify(const redisReply *reply)
{
    static const error_class known[] = {
        {"BUSY", SEMEL_EBUSY, 1, 0, "; a script of somebody's runs for too long"},
        {"TRYAGAIN", SEMEL_EBUSY, 1, 0, "; the slot is being moved"},
        {"LOADING", SEMEL_EUNAVAILABLE, 1, 0, ""},
        {"MASTERDOWN", SEMEL_EUNAVAILABLE, 1, 1, ""},
        {"CLUSTERDOWN", SEMEL_EUNAVAILABLE, 1, 1, ""},
        {"READONLY", SEMEL_EUNAVAILABLE, 1, 1, "; it is a replica, and semel needs the primary"},
        {"NOREPLICAS", SEMEL_EUNAVAILABLE, 1, 0, ""},
        {"MISCONF", SEMEL_EUNAVAILABLE, 0, 0, "; the server cannot write to its disk"},
        {"OOM", SEMEL_EUNAVAILABLE, 0, 0, "; the server's memory is full (maxmemory)"},
        {"NOAUTH", SEMEL_ESTORE, 0, 0, "; the URL needs a password"},
        {"WRONGPASS", SEMEL_ESTORE, 0, 0, "; check user and password of the URL"},
        {"NOPERM", SEMEL_ESTORE, 0, 0, "; docs/REDIS.md lists the rights that semel needs"},
        {"WRONGTYPE", SEMEL_ESTORE, 0, 0, "; does another program use this namespace?"},
        {"CROSSSLOT", SEMEL_ESTORE, 0, 0, ""},
        {"UNKILLABLE", SEMEL_EBUSY, 1, 0, ""},
        {"", SEMEL_ESTORE, 0, 0, ""}};
    const error_class *at = known;
    while (*at->code && !redis_is_error(reply, at->code))
        at++;
    return at;
}

/* Of the server's own text, the first line: it is about commands, and never has a password. */
semel_status redis_fail(const redisReply *reply, const char *doing, semel_error *err)
{
    const error_class *found = classify(reply);
    return semel_fail(err, found->status, "redis, %s: %.*s%s", doing,
                      (int)strcspn(reply->str, "\r\n"), reply->str, found->advice);
}

/* --- one exchange on one connection ----------------------------------------------------------- */

static void write_wait(redis_request *out, const redis_store *store)
{
    uint32_t wait_ms = store->settings->answer_ms / 2;
    if (store->at.sync) {
        redis_begin(out, 4);
        redis_word_z(out, "WAITAOF");
        redis_word_number(out, 1);
    } else {
        redis_begin(out, 3);
        redis_word_z(out, "WAIT");
    }
    redis_word_number(out, store->at.replicas);
    redis_word_number(out, wait_ms ? wait_ms : 1);
}

/* What stands before and behind the bytes of a request. */
typedef struct envelope {
    char head[128];
    size_t head_len;
    redis_request tail;
    size_t replies;
} envelope;

static void seal(envelope *e, const redis_store *store, const redis_request *r, int with_text)
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
    if (r->durable && (store->at.sync || store->at.replicas))
        write_wait(&e->tail, store);
    e->replies += e->tail.replies;
}

static int send_sealed(redis_link *link, const envelope *e, const redis_request *r, int with_text,
                       int64_t until_ms)
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
    return redis_socket_send(&link->socket, parts, count, until_ms);
}

static semel_status receive(redis_link *link, const envelope *e, redis_answer *out, int writes,
                            int64_t until_ms, const char *doing, semel_error *err)
{
    out->replies = mem_alloc(e->replies * sizeof(redisReply *));
    if (!out->replies) /* it was sent: nobody reads the answer */
        return semel_fail(err, writes ? SEMEL_EUNKNOWN : SEMEL_ENOMEM, "out of memory, %s", doing);
    while (out->count < e->replies)
        if (redis_link_reply(link, &out->replies[out->count], until_ms))
            out->count++;
        else
            break;
    out->heard_us = redis_steady_us();
    if (out->count == e->replies)
        return SEMEL_OK;
    redis_answer_free(out);
    return semel_fail(err, writes ? SEMEL_EUNKNOWN : SEMEL_EUNAVAILABLE, "redis, %s: %s", doing,
                      link->socket.why);
}

static semel_status talk(redis_store *store, redis_link *link, const redis_request *r,
                         redis_answer *out, int with_text, semel_error *err)
{
    envelope e;
    int64_t until_ms = wait_clock_ms() + store->settings->answer_ms;
    memset(out, 0, sizeof *out);
    seal(&e, store, r, with_text);
    semel_status status = SEMEL_OK;
    if (e.tail.bytes.failed || r->bytes.failed) {
        status = semel_fail(err, SEMEL_ENOMEM, "out of memory for a request, %s", r->doing);
    } else {
        out->sent_us = redis_steady_us();
        status =
            send_sealed(link, &e, r, with_text, until_ms)
                ? receive(link, &e, out, r->writes, until_ms, r->doing, err)
                : semel_fail(err, SEMEL_EUNAVAILABLE, "redis, %s: %s", r->doing, link->socket.why);
    }
    mem_free(e.tail.bytes.bytes);
    return status;
}

semel_status redis_talk(redis_store *store, redis_link *link, redis_request *r, redis_answer *out,
                        semel_error *err)
{
    return talk(store, link, r, out, 0, err);
}

/* --- where the slot is ------------------------------------------------------------------------ */

uint64_t redis_place(redis_store *store, char host[256], uint32_t *port)
{
    pthread_mutex_lock(&store->lock);
    (void)snprintf(host, 256, "%s", store->host);
    *port = store->port;
    uint64_t place = store->place;
    pthread_mutex_unlock(&store->lock);
    return place;
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

static void move_to(redis_store *store, const char *host, uint32_t port)
{
    pthread_mutex_lock(&store->lock);
    if (strcmp(store->host, host) != 0 || store->port != port) {
        (void)snprintf(store->host, sizeof store->host, "%s", host);
        store->port = port;
        store->place++;
    }
    pthread_mutex_unlock(&store->lock);
}

void redis_place_reset(redis_store *store)
{
    move_to(store, store->at.host, store->at.port);
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

static semel_status ask(redis_store *store, const redis_request *r, redis_answer *out, attempts *a,
                        semel_error *err)
{
    redis_link *link = NULL;
    redis_request asking = {.doing = r->doing};
    redis_answer ignored;
    int64_t until_ms = wait_clock_ms() + store->settings->answer_ms;
    semel_status status = redis_link_open(&link, store, a->ask_host, a->ask_port, until_ms, err);
    a->ask_port = 0;
    if (status)
        return status;
    redis_begin(&asking, 1);
    redis_word_z(&asking, "ASKING");
    status = talk(store, link, &asking, &ignored, 0, err);
    if (!status)
        redis_answer_free(&ignored);
    if (!status)
        status = talk(store, link, r, out, r->script != NULL, err);
    mem_free(asking.bytes.bytes);
    redis_link_close(link);
    return status;
}

static semel_status try_once(redis_store *store, const redis_request *r, redis_answer *out,
                             attempts *a, semel_error *err)
{
    void *taken = NULL;
    a->had_link = 0;
    if (a->ask_port)
        return ask(store, r, out, a, err);
    semel_status status = pool_take(&taken, &store->connections, store->settings->busy_ms, err);
    if (status)
        return status;
    redis_link *link = taken;
    a->had_link = 1;
    status = talk(store, link, r, out, 0, err);
    if (!status && r->script && redis_is_error(out->replies[0], "NOSCRIPT")) {
        redis_answer_free(out);
        status = talk(store, link, r, out, 1, err);
    }
    const redisReply *error = status ? NULL : first_error(r, out);
    pool_give(&store->connections, link, !status && !(error && classify(error)->elsewhere));
    return status;
}

static void nap(attempts *a)
{
    wait_nap_us(a->nap_us);
    a->nap_us = a->nap_us * 2 < NAP_MAX_US ? a->nap_us * 2 : NAP_MAX_US;
}

/* 1: the request is to be sent again. */
static int follow(redis_store *store, const redisReply *error, attempts *a)
{
    char host[256];
    uint32_t port;
    int moved = redis_is_error(error, "MOVED");
    if (!moved && !redis_is_error(error, "ASK"))
        return 0;
    (void)redis_place(store, host, &port);
    if (a->redirections++ >= REDIRECTIONS_MAX || !read_redirection(error, host, &port))
        return 0;
    if (moved) {
        move_to(store, host, port);
    } else {
        (void)snprintf(a->ask_host, sizeof a->ask_host, "%s", host);
        a->ask_port = port;
    }
    return 1;
}

static int comes_again(redis_store *store, const redisReply *error, attempts *a)
{
    const error_class *class = classify(error);
    if (!class->later || wait_clock_ms() >= a->until_ms)
        return 0;
    if (class->elsewhere)
        redis_place_reset(store);
    nap(a);
    return 1;
}

/* One that took all of its time would take all of the next one's, too. */
static int is_worth_another(const redis_store *store, semel_status status, attempts *a,
                            int64_t took_ms)
{
    int again = status == SEMEL_EUNAVAILABLE && a->had_link && !a->lost_once &&
                took_ms < store->settings->answer_ms / 2;
    a->lost_once = 1;
    return again;
}

static semel_status exchange(redis_store *store, const redis_request *r, redis_answer *out,
                             semel_error *err)
{
    attempts a = {.until_ms = wait_clock_ms() + store->settings->busy_ms, .nap_us = NAP_FIRST_US};
    for (;;) {
        int64_t began_ms = wait_clock_ms();
        semel_status status = try_once(store, r, out, &a, err);
        if (status && is_worth_another(store, status, &a, wait_clock_ms() - began_ms))
            continue;
        const redisReply *error = status ? NULL : first_error(r, out);
        if (!error)
            return status;
        if (!follow(store, error, &a) && !comes_again(store, error, &a)) {
            if (!r->script)
                return SEMEL_OK;
            status = redis_fail(error, r->doing, err);
            redis_answer_free(out);
            return status;
        }
        redis_answer_free(out);
    }
}

semel_status redis_exchange(redis_store *store, redis_request *r, redis_answer *out,
                            semel_error *err)
{
    semel_status status = exchange(store, r, out, err);
    mem_free(r->bytes.bytes);
    memset(&r->bytes, 0, sizeof r->bytes);
    return status;
}

void redis_learn_time(redis_store *store, const redis_answer *answer, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[1]->type != REDIS_REPLY_STRING)
        return;
    int64_t us = strtoll(reply->element[0]->str, NULL, 10) * 1000000 +
                 strtoll(reply->element[1]->str, NULL, 10);
    pthread_mutex_lock(&store->lock);
    semel_keyed_clock_learn(&store->clock, answer->sent_us, answer->heard_us, us, us + 1);
    pthread_mutex_unlock(&store->lock);
}
