/* The inbox as the core sees it: options with their defaults filled in, and the steps of receiving
 * that receive, batch, hand-off and replay share. */
#ifndef SEMEL_CORE_INBOX_H
#define SEMEL_CORE_INBOX_H

#include "core/fingerprint.h"
#include "core/store.h"

#include <semel/observe.h>

typedef struct position_table position_table; /* positions.h */

struct semel_inbox {
    semel_store *store;
    int64_t scope;
    char name[SEMEL_NAME_MAX + 1];
    semel_inbox_options options; /* complete: no zero stands for a default any more */
    char *fault_topic;
    _Atomic uint64_t horizon_ms; /* no marker younger than this was ever removed */
    key_plan plan;
    struct inbox_details *details; /* NULL: none are kept */
    fingerprint_plan fingerprint;
    position_table *positions; /* what it remembers instead of keys; NULL: keys */
    pthread_mutex_t sweep_lock;
    semel_sweep_position sweep_position;
    semel_sweep_position purge_position; /* of semel_inbox_purge_step() */
    tally_set tallies;
};

struct semel_outbox {
    semel_outbox *next; /* in the store's list of open ones */
    semel_store *store;
    int64_t scope;
    char name[SEMEL_NAME_MAX + 1];
    tally_set tallies;
};

struct semel_result {
    size_t len;
    unsigned char *data;
};

/* Takes over `data`, which came from mem_alloc; frees it on failure. */
semel_status result_new(semel_result **out, void *data, size_t len, semel_error *err);

/* inbox_key.c: the key of a message, or what on_missing_key puts in its place; empty if the message
 * has none. It points into the message or into the arena. */
semel_status inbox_compute_key(semel_bytes *out, mem_arena *arena, const semel_inbox *inbox,
                               const semel_message *message, semel_error *err);

/* The printable key for other services; SEMEL_ENOTFOUND if `key` is empty. */
semel_status inbox_idempotency_key(char out[SEMEL_IDEMPOTENCY_KEY_SIZE], const semel_inbox *inbox,
                                   semel_bytes key, semel_error *err);

/* What is known of a key, as an outcome and a status; `mark` is not TAKEN. */
semel_status inbox_decide(semel_outcome *out, const semel_inbox *inbox, const semel_mark *mark,
                          semel_error *err);

/* How long the row of a key is needed, as drivers are told. */
static inline uint64_t inbox_keep_ms(const semel_inbox *inbox)
{
    uint64_t retention_ms = inbox->options.retention_ms;
    return retention_ms == SEMEL_RETENTION_NONE ? 0 : retention_ms;
}

/* The inbox of a route without one: it keeps no keys, so every message runs. `name` is that of its
 * dead letters. Nothing is stored for it; it has the scope 0. Closed by semel_inbox_close(). */
semel_status inbox_open_unkeyed(semel_inbox **out, semel_store *store, const char *name,
                                uint32_t attempts_max, semel_error *err);

/* EMISUSE if the inbox remembers positions: messages come to it in runs only. */
semel_status inbox_takes_keys(const semel_inbox *inbox, semel_error *err);

/* inbox_details.c: the numbers of names that are kept with markers. */
semel_status inbox_details_open(semel_inbox *inbox, semel_error *err);
void inbox_details_close(semel_inbox *inbox);

/* Everything last changed before this moment may go. INT64_MIN: nothing may. */
int64_t retention_cutoff_ms(int64_t now_ms, uint64_t retention_ms);

/* dead.c: one step of the retention of the inbox's letters; see semel_dead_sweep(). */
semel_status inbox_sweep_letters(size_t *removed, int *more, semel_inbox *inbox, uint32_t rows,
                                 semel_error *err);

/* Counted for the inbox or outbox, and for its store. */
static inline void inbox_add(semel_inbox *inbox, tally which, uint64_t by)
{
    tally_add(&inbox->tallies, which, by);
    store_count(inbox->store, which, by);
}

static inline void outbox_add(semel_outbox *outbox, tally which, uint64_t by)
{
    tally_add(&outbox->tallies, which, by);
    store_count(outbox->store, which, by);
}

/* outbox.c: the outbox of this name that was opened first of those that are open; or NULL. */
semel_outbox *outbox_find(semel_store *store, const char *name);

/* observe.c: counts an outcome that was reached, and reports it to the store's observer. Not inside
 * a transaction. The event's size, kind and name need not be set. */
void inbox_report(semel_inbox *inbox, const semel_event *event);
void outbox_report(semel_outbox *outbox, const semel_event *event);

/* A copy of the text for a later report; NULL without an observer, or if there is no room. */
const char *observe_text(const semel_store *store, mem_arena *arena, const char *text);

/* The time before a handler, and how long it took; 0 without an observer. */
int64_t observe_start(const semel_store *store);
int64_t observe_since(const semel_store *store, int64_t started_ns);

/* To the tracer of the store, which asks for it: with the time since started_ns. */
void transfer_report(const semel_store *store, const semel_transfer *transfer);

/* The status and outcome of semel_inbox_receive(), for a caller that has other messages, too: OK
 * unless no message can be received now. */
semel_status inbox_status_among_others(semel_outcome *out, semel_status status);

/* inbox_stale.c: is the message so old that the inbox may have forgotten its key? As far as its
 * age is known. */
int inbox_is_old(const semel_inbox *inbox, const semel_message *message);
int inbox_is_old_soon(const semel_inbox *inbox, const semel_message *message); /* in wait_ms */

/* How long ago the newest of the forgotten markers was changed, UINT64_MAX if none was ever
 * forgotten. Inside the transaction that has claimed the key of an old message. */
semel_status inbox_forgotten_age(uint64_t *out_ms, work_unit *unit, const semel_inbox *inbox,
                                 semel_error *err);

/* 1 if an old message without a marker may have been handled before. */
int inbox_is_forgotten(const semel_inbox *inbox, const semel_message *message,
                       uint64_t forgotten_ms);
semel_status inbox_fail_stale(const semel_inbox *inbox, semel_error *err);

/* inbox_definition.c: compares what the inbox was opened with before, and notes what it is
 * opened with now. */
semel_status inbox_register(semel_inbox *inbox, semel_error *err);

/* Rewrites the text of a definition's note as semel_name.definition has it. */
void inbox_definition_show(semel_note_value *note);

/* Learns whether another process has lowered the horizon, inside a unit. The store has notes. */
semel_status inbox_learn_horizon(work_unit *unit, semel_inbox *inbox, semel_error *err);

/* Lowers the horizon to this age, if it is higher, in a transaction of its own. After this call
 * markers of that age may be removed. */
semel_status inbox_lower_horizon(semel_inbox *inbox, uint64_t age_ms, semel_error *err);

int outcome_is_refusal(semel_outcome outcome);

/* Keeps a message that is refused as a dead letter under `name`, once however often it comes.
 * `refused` is the outcome for which the inbox itself refuses it, or SEMEL_UNDECIDED. */
semel_status inbox_bury_refused(semel_inbox *inbox, const char *name, const semel_message *message,
                                semel_outcome refused, const char *why, semel_error *err);

#endif
