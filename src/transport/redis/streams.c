/* redis://, rediss:// and valkey:// as a transport: opening, connections, and the table.
 *
 * A call takes a connection that nobody uses, or makes one, and leaves it for the next call: so a
 * receiver that waits at the server is in nobody's way. There are never more of them than threads
 * that call at once. */
#include "transport/redis/streams.h"

#include "base/seam.h"
#include "base/wait.h"
#include "redis/facts.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_MS = 10000, BUSY_MS = 200, CLOSE_MS = 2000, ROOM_FIRST = 64 };

extern const semel_transport_driver redis_transport_driver;

static const redis_role role = {
    .title = "redis stream",
    .broken = SEMEL_ETRANSPORT,
    .page = "docs/REDIS_STREAMS.md",
    .wrong_type = "; stream= names a key of another type",
    .evicts = "it drops whole streams when its memory is full, with all messages in them",
    .forgets = "messages that were confirmed",
};

/* --- connections ------------------------------------------------------------------------------ */

/* The client is the first member of the transport. */
static redis_link *pop_link(streams *self)
{
    pthread_mutex_lock(&self->lock);
    redis_link *link = self->idle;
    if (link) {
        self->idle = link->next;
        self->idle_count--;
    }
    pthread_mutex_unlock(&self->lock);
    return link;
}

static semel_status take_link(redis_link **out, redis_client *client, semel_error *err)
{
    streams *self = (streams *)client;
    redis_link *link;
    while ((link = pop_link(self)) && !redis_link_is_alive(link))
        redis_link_close(link);
    if (link) {
        *out = link;
        return SEMEL_OK;
    }
    if (self->closing)
        return semel_fail(err, SEMEL_EUNAVAILABLE, "redis stream: the connection is lost");
    return redis_link_open_here(out, client, wait_clock_ms() + client->at->connect_ms, err);
}

static void give_link(redis_client *client, redis_link *link, int usable)
{
    streams *self = (streams *)client;
    pthread_mutex_lock(&self->lock);
    int keeps = usable && self->idle_count < STREAM_IDLE_LINKS;
    if (keeps) {
        link->next = self->idle;
        self->idle = link;
        self->idle_count++;
    }
    pthread_mutex_unlock(&self->lock);
    if (!keeps)
        redis_link_close(link);
}

static const redis_links links = {take_link, give_link};

/* --- opening ---------------------------------------------------------------------------------- */

/* Unlike any other's, and so that people see whose it is: semel-HOST-PID-NUMBER-NOISE. */
static void name_consumer(streams *self)
{
    static atomic_uint opened;
    char host[65] = "";
    if (gethostname(host, sizeof host - 1))
        (void)snprintf(host, sizeof host, "host");
    (void)snprintf(self->consumer, sizeof self->consumer, "semel-%s-%ld-%u-%08" PRIx64, host,
                   (long)getpid(), atomic_fetch_add(&opened, 1),
                   seam_random(self->seam) & 0xffffffff);
}

static semel_status make_lock(streams *self, semel_error *err)
{
    int error = pthread_mutex_init(&self->lock, NULL);
    if (error)
        return semel_fail(err, SEMEL_ENOMEM, "no lock for deliveries: %s", strerror(error));
    self->has_lock = 1;
    return delivery_table_reserve(&self->table, ROOM_FIRST)
               ? SEMEL_OK
               : semel_fail(err, SEMEL_ENOMEM, "out of memory for deliveries");
}

/* One script writes both streams. */
static semel_status check_slots(const streams *self, const redis_facts *facts, semel_error *err)
{
    if (!self->at.group || !facts->cluster || stream_same_slot(self->at.stream, self->at.dead))
        return SEMEL_OK;
    return semel_fail(err, SEMEL_EINVAL,
                      "URL: in a cluster dead must be in the slot of stream: without dead= it is "
                      "{%s}:dead",
                      self->at.stream);
}

static semel_status check_server(streams *self, semel_error *err)
{
    redis_facts facts;
    semel_status status = redis_facts_ask(&facts, &self->client, err);
    if (!status)
        status = redis_facts_check(&facts, &self->client, err);
    if (!status)
        status = redis_facts_refuse(&facts, &self->client, err);
    if (!status)
        status = check_slots(self, &facts, err);
    if (status)
        return status;
    self->grade = redis_facts_grade(&facts, &self->at.server);
    char loss[REDIS_LOSS_ROOM];
    if (redis_facts_loss(loss, &facts, &self->client))
        (void)snprintf(self->losses, sizeof self->losses, "%s", loss);
    return stream_check_rights(self, err);
}

static semel_status start(streams *self, const char *url, semel_error *err)
{
    semel_status status = stream_address_read(&self->at, &self->arena, url, err);
    if (!status)
        status = make_lock(self, err);
    if (!status)
        status = redis_client_init(&self->client, &role, &links, &self->at.server, err);
    if (!status)
        status = stream_scripts_prepare(self, err);
    if (status)
        return status;
    name_consumer(self);
    status = check_server(self, err);
    if (!status && self->at.group)
        status = stream_group_open(self, err);
    if (!status && self->at.group)
        stream_group_clean(self, 0);
    return status;
}

semel_status stream_need_group(const stream_address *at, semel_error *err)
{
    return at->group ? SEMEL_OK
                     : semel_fail(err, SEMEL_EMISUSE, "this URL names no group= to receive with");
}

static semel_status check_url(const char *url, int receives, semel_error *err)
{
    stream_address at;
    mem_arena arena = {0};
    semel_status status = stream_address_read(&at, &arena, url, err);
    if (!status && receives)
        status = stream_need_group(&at, err);
    arena_free(&arena);
    return status;
}

static void release(streams *self)
{
    for (redis_link *link; self->has_lock && (link = pop_link(self));)
        redis_link_close(link);
    redis_client_free(&self->client);
    stream_deliveries_free(self);
    if (self->has_lock)
        pthread_mutex_destroy(&self->lock);
    arena_free(&self->arena);
}

static semel_status open_streams(void *transport, const char *url,
                                 const semel_transport_settings *settings, semel_error *err)
{
    streams *self = transport;
    self->seam = settings->seam;
    self->client.answer_ms = ANSWER_MS;
    self->client.busy_ms = BUSY_MS;
    (void)snprintf(self->cursor, sizeof self->cursor, "0-0");
    semel_status status = start(self, url, err);
    if (status)
        release(self);
    return stream_outage(status, err);
}

/* By a connection that is there: a server that is gone keeps the entries, too. */
static void close_streams(void *transport)
{
    streams *self = transport;
    self->closing = 1;
    self->client.answer_ms = CLOSE_MS;
    if (self->at.group) {
        stream_give_back(self);
        stream_group_clean(self, 1);
    }
    release(self);
}

/* --- the rest --------------------------------------------------------------------------------- */

semel_status stream_outage(semel_status status, semel_error *err)
{
    semel_error why;
    if (status != SEMEL_EUNKNOWN && status != SEMEL_EBUSY)
        return status;
    why = err ? *err : (semel_error){.text = ""};
    return semel_fail(err, SEMEL_EUNAVAILABLE, "%s", why.text);
}

static semel_durability durability(const void *transport)
{
    const streams *self = transport;
    return self->grade;
}

static const char *warnings(const void *transport)
{
    const streams *self = transport;
    return self->losses;
}

static int keeps_rejected(const void *transport)
{
    const streams *self = transport;
    return self->at.group != NULL; /* in the dead stream */
}

const semel_transport_driver redis_transport_driver = {
    .version = SEMEL_TRANSPORT_DRIVER_VERSION,
    .abilities = SEMEL_TRANSPORT_SHARED | SEMEL_TRANSPORT_ORDERED | SEMEL_TRANSPORT_COUNTS,
    .scheme = "redis",
    .transport_size = sizeof(streams),
    .open = open_streams,
    .close = close_streams,
    .durability = durability,
    .publish = stream_publish,
    .receive = stream_receive,
    .settle = stream_settle,
    .extend = stream_extend,
    .warnings = warnings,
    .give_back = stream_give_back,
    .publish_while = stream_publish_while,
    .keeps_rejected = keeps_rejected,
    .depth = stream_depth,
    .revoked = stream_revoked,
    .check_url = check_url,
};
