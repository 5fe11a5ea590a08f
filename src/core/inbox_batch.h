/* A batch of messages as its two parts share it: the transaction around them (inbox_batch.c) and
 * the handlers inside of it (inbox_batch_handle.c). */
#ifndef SEMEL_CORE_INBOX_BATCH_H
#define SEMEL_CORE_INBOX_BATCH_H

#include "core/unit.h"

typedef struct batch_entry {
    size_t index;             /* into the caller's arrays */
    struct batch_entry *same; /* the first one in the batch with the same key, or NULL */
    semel_mark *mark;         /* shared with `same` */
    uint64_t fingerprint;
    int64_t type; /* the details that are kept with the key; 0: none */
    int64_t source;
    int64_t received_ms;
    semel_bytes key;
    semel_bytes whole_key;
    int stale; /* found out after its key was marked: see inbox_stale.c */
    int64_t handler_ns;
    int64_t started_ns;
    const char *error; /* of a handler that failed, for the observer; NULL: none */
    int64_t letter;    /* that it became, for the observer; 0: none */
    size_t captured;   /* messages that it has sent, for the observer */
} batch_entry;

typedef struct batch {
    semel_outcome *out;
    int *buried; /* which became dead letters by this call; may be NULL */
    semel_inbox *inbox;
    const semel_message *const *messages;
    semel_handler *handler;
    void *context;
    const unit_terms *terms;      /* NULL: none */
    const batch_settler *settler; /* NULL: none */
    size_t from, part_count;      /* the part of the caller's arrays that this is */
    semel_error *err;             /* of the first message that failed */
    int failed;                   /* is there one? */
    work_unit *unit;
    batch_entry *entries; /* in the order given */
    size_t count;
    size_t *alone; /* indices of those that are handled by themselves */
    size_t alone_count;
    batch_entry **sorted;
    semel_mark *marks;
    size_t mark_count;
    int begun;    /* a handler has been called */
    int stopped;  /* a handler has ended early because the program stops */
    int undone;   /* a handler ended the transaction, and nothing of it is committed */
    size_t stale; /* entries that were found to be stale, before any handler was called */
} batch;

/* 1 if this batch has marked the key, for this entry. */
static inline int batch_is_ours(const batch_entry *e)
{
    return e->mark->state == SEMEL_MARK_TAKEN && !e->same;
}

/* The first failure of a message is what the caller is told. */
static inline void batch_note_error(batch *b, const semel_error *why)
{
    if (!b->failed && b->err)
        *b->err = *why;
    b->failed = 1;
}

/* The number of the attempt at a message. */
uint32_t batch_attempt_of(const batch *b, const batch_entry *e);

/* Step 3 of inbox_batch.c: every message of the open transaction gets its outcome, or is left. */
semel_status batch_handle_all(batch *b, semel_error *err);

#endif
