/* The inbox as the core sees it: options with their defaults filled in, and the steps of receiving that
 * receive, batch, hand-off and replay share. */
#ifndef SEMEL_CORE_INBOX_H
#define SEMEL_CORE_INBOX_H

#include "core/key.h"
#include "core/store.h"

struct semel_inbox {
    semel_store *store;
    int64_t scope;
    char name[SEMEL_NAME_MAX + 1];
    semel_inbox_options options; /* complete: no zero stands for a default any more */
    char *fault_topic;
    key_plan plan;
    pthread_mutex_t sweep_lock;
    semel_sweep_position sweep_position;
};

struct semel_outbox {
    semel_store *store;
    int64_t scope;
    char name[SEMEL_NAME_MAX + 1];
};

struct semel_result {
    size_t len;
    unsigned char *data;
};

/* Takes over `data`, which came from mem_alloc; frees it on failure. */
semel_status result_new(semel_result **out, void *data, size_t len, semel_error *err);

/* What is known of a key, as an outcome and a status; `mark` is not TAKEN. */
semel_status inbox_decide(semel_outcome *out, const semel_inbox *inbox, const semel_mark *mark,
                          semel_error *err);

/* How long the row of a key is needed, as drivers are told. */
static inline uint64_t inbox_keep_ms(const semel_inbox *inbox)
{
    uint64_t retention_ms = inbox->options.retention_ms;
    return retention_ms == SEMEL_RETENTION_NONE ? 0 : retention_ms;
}

/* Is a message that failed like this in its attempt a dead letter? */
static inline int inbox_gives_up(const semel_inbox *inbox, uint32_t attempt, semel_status failure)
{
    return inbox->store->driver->dead &&
           (failure == SEMEL_EGIVEUP || attempt >= inbox->options.attempts_max);
}

/* Counts an outcome that was reached. */
void inbox_count(semel_inbox *inbox, semel_outcome outcome);

/* The status and outcome of semel_inbox_receive(), for a caller that has other messages, too: OK unless no message
 * can be received now. */
semel_status inbox_status_among_others(semel_outcome *out, semel_status status);

/* Is the message older than the inbox's retention, as far as its age can be known? */
int inbox_is_stale(const semel_inbox *inbox, const semel_message *message);

/* Keeps a message that is refused as a dead letter under `name`, once however often it comes. */
semel_status inbox_bury_refused(semel_inbox *inbox, const char *name, const semel_message *message,
                                const char *why, semel_error *err);

#endif
