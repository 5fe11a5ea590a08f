/* See fake_log.h. All that was ever written or delivered stays until the log is closed, so that no
 * delivery of a zombie points to memory that is gone. */
#include "support/fake/fake_log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEXT = 48 };

typedef struct entry {
    struct entry *next;
    semel_message message;
    char id[TEXT];
    int64_t position;
    int acked;
} entry;

typedef struct partition {
    char name[TEXT];
    entry *first, **end;
    int64_t next_position;
    unsigned owner;
    uint64_t term;     /* of its assignment */
    int64_t read_from; /* what its owner gets next */
} partition;

typedef struct handout {
    struct handout *next;
    uint64_t tag;
    unsigned partition;
    uint64_t term;
    entry *of;
    int told; /* that it is revoked */
} handout;

struct fake_log {
    pthread_mutex_t lock;
    partition partitions[FAKE_LOG_PARTITIONS];
    unsigned count;
    char origins[FAKE_LOG_PARTITIONS][TEXT]; /* all that it had */
    unsigned origin;
    uint64_t last_tag;
    handout *out;
    entry *gone; /* of topics that were deleted */
    handout *settled;
};

typedef struct member {
    fake_log *log;
    unsigned number;
} member;

/* --- the log ---------------------------------------------------------------------------------- */

static void *must_alloc(size_t size)
{
    void *memory = calloc(1, size);
    if (!memory)
        abort(); /* allowed: this is test code */
    return memory;
}

static void close_log(void *thing)
{
    fake_log *log = thing;
    entry *lists[FAKE_LOG_PARTITIONS + 1] = {log->gone};
    for (unsigned i = 0; i < log->count; i++)
        lists[i + 1] = log->partitions[i].first;
    for (unsigned i = 0; i <= log->count; i++)
        for (entry *next; lists[i]; lists[i] = next) {
            next = lists[i]->next;
            free(lists[i]);
        }
    handout *outs[] = {log->out, log->settled};
    for (unsigned i = 0; i < 2; i++)
        for (handout *next; outs[i]; outs[i] = next) {
            next = outs[i]->next;
            free(outs[i]);
        }
    pthread_mutex_destroy(&log->lock);
    free(log);
}

fake_log *fake_log_open(fixture *f, unsigned partitions, const char *origin)
{
    fake_log *log = must_alloc(sizeof *log);
    pthread_mutex_init(&log->lock, NULL);
    log->count = partitions;
    (void)snprintf(log->origins[0], TEXT, "%s", origin);
    for (unsigned i = 0; i < partitions; i++) {
        (void)snprintf(log->partitions[i].name, TEXT, "log/%u", i);
        log->partitions[i].end = &log->partitions[i].first;
    }
    fixture_keep(f, close_log, log);
    return log;
}

int64_t fake_log_add(fake_log *log, unsigned number, const char *id, int64_t time_ms)
{
    entry *added = must_alloc(sizeof *added);
    pthread_mutex_lock(&log->lock);
    partition *to = &log->partitions[number];
    (void)snprintf(added->id, TEXT, "%s", id);
    added->position = to->next_position++;
    added->message = (semel_message){.size = sizeof added->message,
                                     .id = semel_str(added->id),
                                     .type = *id == 'p' ? "order.paid" : "order.placed",
                                     .time_ms = time_ms,
                                     .body = semel_str(added->id)};
    *to->end = added;
    to->end = &added->next;
    pthread_mutex_unlock(&log->lock);
    return added->position;
}

void fake_log_skip(fake_log *log, unsigned number, int64_t positions)
{
    pthread_mutex_lock(&log->lock);
    log->partitions[number].next_position += positions;
    pthread_mutex_unlock(&log->lock);
}

static int64_t committed(const partition *p)
{
    const entry *at = p->first;
    while (at && at->acked)
        at = at->next;
    return at ? at->position : p->next_position;
}

int64_t fake_log_committed(fake_log *log, unsigned number)
{
    pthread_mutex_lock(&log->lock);
    int64_t position = committed(&log->partitions[number]);
    pthread_mutex_unlock(&log->lock);
    return position;
}

void fake_log_assign(fake_log *log, unsigned number, unsigned to, int quietly)
{
    pthread_mutex_lock(&log->lock);
    partition *p = &log->partitions[number];
    p->owner = to;
    p->term++;
    p->read_from = committed(p);
    for (handout *h = log->out; h; h = h->next)
        if (h->partition == number && !quietly)
            h->told = 1;
    pthread_mutex_unlock(&log->lock);
}

void fake_log_recreate(fake_log *log, const char *origin)
{
    pthread_mutex_lock(&log->lock);
    (void)snprintf(log->origins[++log->origin], TEXT, "%s", origin);
    for (unsigned i = 0; i < log->count; i++) {
        partition *p = &log->partitions[i];
        *p->end = log->gone;
        log->gone = p->first;
        p->first = NULL;
        p->end = &p->first;
        p->next_position = p->read_from = 0;
        p->term++;
    }
    pthread_mutex_unlock(&log->lock);
}

/* --- the transport of a member ---------------------------------------------------------------- */

static semel_status start(void *transport, const char *argument,
                          const semel_transport_settings *settings, semel_error *err)
{
    (void)settings, (void)err;
    memcpy(transport, argument, sizeof(member));
    return SEMEL_OK;
}

static void end(void *transport)
{
    (void)transport;
}

static semel_durability durability(const void *transport)
{
    (void)transport;
    return SEMEL_DURABLE_NOT;
}

static semel_status publish(void *transport, semel_publish_result results[],
                            const semel_message *const messages[], size_t count, uint32_t wait_ms,
                            semel_error *err)
{
    (void)transport, (void)results, (void)messages, (void)count, (void)wait_ms;
    return semel_fail(err, SEMEL_EUNSUPPORTED, "the test writes the log");
}

static entry *next_entry(const partition *p)
{
    entry *at = p->first;
    while (at && at->position < p->read_from)
        at = at->next;
    return at;
}

static size_t hand_out(fake_log *log, unsigned number, semel_delivery deliveries[], size_t max)
{
    size_t count = 0;
    partition *p = &log->partitions[number];
    for (entry *at = next_entry(p); at && count < max; at = at->next) {
        handout *h = must_alloc(sizeof *h);
        *h = (handout){log->out, ++log->last_tag, number, p->term, at, 0};
        log->out = h;
        p->read_from = at->position + 1;
        deliveries[count++] = (semel_delivery){.tag = h->tag,
                                               .message = &at->message,
                                               .partition = p->name,
                                               .position = at->position,
                                               .origin = log->origins[log->origin]};
    }
    return count;
}

/* It waits for nothing: tests write first, and step then. */
static semel_status receive(void *transport, semel_delivery deliveries[], size_t max, size_t *count,
                            uint32_t wait_ms, semel_error *err)
{
    const member *self = transport;
    fake_log *log = self->log;
    (void)wait_ms, (void)err;
    *count = 0;
    pthread_mutex_lock(&log->lock);
    for (unsigned i = 0; i < log->count; i++)
        if (log->partitions[i].owner == self->number)
            *count += hand_out(log, i, deliveries + *count, max - *count);
    pthread_mutex_unlock(&log->lock);
    return SEMEL_OK;
}

static void settle_one(fake_log *log, const handout *h, semel_verdict verdict)
{
    partition *p = &log->partitions[h->partition];
    if (h->term != p->term)
        return;
    if (verdict != SEMEL_VERDICT_RETRY)
        h->of->acked = 1;
    else if (p->read_from > h->of->position)
        p->read_from = h->of->position;
}

static semel_status settle(void *transport, const semel_delivery_settlement settles[], size_t count,
                           semel_error *err)
{
    fake_log *log = ((const member *)transport)->log;
    size_t unknown = 0;
    pthread_mutex_lock(&log->lock);
    for (size_t i = 0; i < count; i++) {
        handout **at = &log->out;
        while (*at && (*at)->tag != settles[i].tag)
            at = &(*at)->next;
        handout *h = *at;
        if (!h) {
            unknown++;
            continue;
        }
        settle_one(log, h, settles[i].verdict);
        *at = h->next;
        h->next = log->settled;
        log->settled = h;
    }
    pthread_mutex_unlock(&log->lock);
    return unknown ? semel_fail(err, SEMEL_EINVAL, "%zu deliveries are not out", unknown)
                   : SEMEL_OK;
}

static int revoked(void *transport, uint64_t tag)
{
    fake_log *log = ((const member *)transport)->log;
    pthread_mutex_lock(&log->lock);
    const handout *h = log->out;
    while (h && h->tag != tag)
        h = h->next;
    int told = h && h->told;
    pthread_mutex_unlock(&log->lock);
    return told;
}

static const semel_transport_driver driver = {
    .version = SEMEL_TRANSPORT_DRIVER_VERSION,
    .abilities = SEMEL_TRANSPORT_SHARED | SEMEL_TRANSPORT_POSITIONS,
    .scheme = "log",
    .transport_size = sizeof(member),
    .open = start,
    .close = end,
    .durability = durability,
    .publish = publish,
    .receive = receive,
    .settle = settle,
    .revoked = revoked,
};

semel_transport *fake_log_member(fixture *f, fake_log *log, unsigned number)
{
    semel_transport *transport = NULL;
    const member self = {log, number};
    semel_transport_options options = {.size = sizeof options, .seam = f->host};
    OK(semel_transport_open_driver(&transport, &driver, &self, &options, &last_error));
    fixture_keep_transport(f, transport);
    return transport;
}
