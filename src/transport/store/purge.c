/* Emptying a queue: some of its messages are listed, and those that no consumer has leased by then
 * are removed, in one transaction. Where a number may be another message's by then, the transaction
 * looks again when the message was captured. */
#include "base/mem.h"
#include "base/seam.h"
#include "transport/store/queue.h"

#include <string.h>

enum {
    ROUNDS = 100,     /* in each of which consumers were faster, */
    ROUNDS_MS = 2000, /* and for no longer than this */
    ROWS_MAX = 1000   /* of a transaction: a server locks the group of each */
};

typedef struct purging {
    int64_t bound_seq;         /* 0: none */
    int64_t captured_until_ms; /* 0: no bound */
    int64_t *seqs;
    size_t room;
    size_t count;
    uint32_t seen; /* rows of the page */
    int64_t last_seq;
    size_t removed;
} purging;

static int is_meant(const purging *p, const semel_outgoing *outgoing)
{
    return !outgoing->leased && (!p->bound_seq || outgoing->seq <= p->bound_seq) &&
           (!p->captured_until_ms || outgoing->captured_ms <= p->captured_until_ms);
}

static semel_status note_row(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    purging *p = context;
    (void)err;
    p->seen++;
    p->last_seq = outgoing->seq;
    if (is_meant(p, outgoing) && p->count < p->room)
        p->seqs[p->count++] = outgoing->seq;
    return SEMEL_OK;
}

/* Past those that are leased, and up to the bound. */
static semel_status find_rows(purging *p, const store_queue *queue, semel_error *err)
{
    semel_outgoing_filter filter = {.size = sizeof filter, .limit = (uint32_t)p->room};
    semel_status status;
    p->count = 0;
    do {
        p->seen = 0;
        status = store_list_outgoing(queue->store, queue->scope, &filter, note_row, p, err);
        filter.after_seq = p->last_seq;
    } while (!status && p->count < p->room && p->seen == filter.limit &&
             (!p->bound_seq || p->last_seq < p->bound_seq));
    return status;
}

static semel_status keep_row(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    purging *p = context;
    (void)err;
    if (is_meant(p, outgoing))
        p->seqs[p->count++] = outgoing->seq;
    return SEMEL_OK;
}

/* Those that are still the messages that were listed. */
static semel_status look_again(purging *p, const store_queue *queue, work_unit *unit,
                               semel_error *err)
{
    const semel_store_operation *operation = queue->store->driver->operation;
    size_t count = p->count;
    semel_status status = SEMEL_OK;
    if (!p->captured_until_ms || !operation->outgoing)
        return SEMEL_OK;
    p->count = 0;
    for (size_t i = 0; !status && i < count; i++)
        status = operation->outgoing(unit->state, queue->scope, p->seqs[i], keep_row, p, err);
    return status;
}

static semel_status remove_rows(store_queue *queue, work_unit *unit, void *context,
                                semel_error *err)
{
    purging *p = context;
    semel_status status = look_again(p, queue, unit, err);
    return status ? status
                  : queue->store->driver->operation->remove(unit->state, queue->scope, p->seqs,
                                                            p->count, &p->removed, err);
}

static semel_status purge(purging *p, store_queue *queue, semel_error *err)
{
    static const queue_step step = {remove_rows, SEMEL_BEGIN_DURABLE, "purge.stored",
                                    "purge.committed"};
    semel_status status = SEMEL_OK;
    const semel_seam *seam = &queue->store->seam;
    int64_t until_ms = seam_steady_ms(seam) + ROUNDS_MS;
    for (int i = 0; !status && !p->removed && i < ROUNDS; i++) {
        if (i && seam_steady_ms(seam) >= until_ms)
            break;
        status = find_rows(p, queue, err);
        if (status || !p->count)
            return status;
        status = queue_transact(queue, &step, p, err);
    }
    if (!status && !p->removed)
        status = semel_fail(err, SEMEL_EBUSY, "queue \"%s\": consumers were faster each time",
                            queue->name);
    return status;
}

semel_status semel_queue_purge(size_t *removed, semel_transport *transport, int64_t last_seq,
                               int64_t captured_until_ms, uint32_t rows, semel_error *err)
{
    purging p = {.bound_seq = last_seq,
                 .captured_until_ms = captured_until_ms,
                 .room = rows ? rows : SEMEL_PAGE_DEFAULT};
    store_queue *queue = NULL;
    *removed = 0;
    semel_status status = queue_find(&queue, transport, err);
    if (status)
        return status;
    const semel_store *store = queue->store;
    if (!store->driver->operation || !store->driver->operation->remove)
        return semel_fail(err, SEMEL_EUNSUPPORTED, "%s: this store cannot remove messages",
                          store->driver->scheme);
    if (p.room > SEMEL_PAGE_MAX)
        return semel_fail(err, SEMEL_ELIMIT, "rows is %u; SEMEL_PAGE_MAX is %d", rows,
                          SEMEL_PAGE_MAX);
    p.room = store_batch(store, (uint32_t)(p.room < ROWS_MAX ? p.room : ROWS_MAX));
    p.seqs = mem_alloc(p.room * sizeof *p.seqs);
    if (!p.seqs)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for %zu messages", p.room);
    status = purge(&p, queue, err);
    *removed = status ? 0 : p.removed;
    mem_free(p.seqs);
    return status;
}
