/* What the files of the memory store share: the store, the unit and its journal.
 *
 *     memory.c       opening, units, clock, names; the driver table
 *     table.c        the markers of an inbox: found by key, walked in time
 *     marker.c       the state machine of markers: taking them
 *     marker_end.c   ... and what becomes of them
 *     sweep.c        retention
 *     marker_lease.c what only some markers have: claim, result, reason
 *     outbox.c       messages: put, take, settle
 *     outbox_order.c in which order they may be leased
 *     dead.c         dead letters
 *     stats.c        what the store holds, counted
 *     note.c         what is known about an inbox itself
 *     list.c         lists of markers and messages
 *     operation.c    names, the audit, processes
 *     history.c      what became of deliveries
 *     journal.c      how a unit takes back what it did
 *     index.c        a small hash index, for rows, groups and letters
 *
 * How a unit is atomic. Changes are made in place, at once, and each leaves a record in the unit's
 * journal: what it changed, and how that was before. Undoing goes through the records backwards,
 * committing goes through them forwards. What a unit has changed it holds (marker->held,
 * row->owner, letter->owner) until it ends, and no other unit uses what is held: it waits or goes
 * past. Committing allocates nothing, so it cannot fail; all that it needs is laid aside before.
 *
 * Locking. One mutex guards everything; it is never held between two calls, since handlers run
 * there. One condition is signalled when a unit has released something that another unit waits
 * for. */
#ifndef SEMEL_STORE_MEMORY_INTERNAL_H
#define SEMEL_STORE_MEMORY_INTERNAL_H

#include "base/hash.h"
#include "store/memory/index.h"
#include "store/memory/table.h"

#include <pthread.h>
#include <semel/sys/store.h>
#include <stdatomic.h>
#include <time.h>

typedef struct memory_unit memory_unit;
typedef struct memory_record memory_record;
typedef struct memory_outbox memory_outbox;
typedef struct memory_row memory_row;
typedef struct memory_letter memory_letter;
typedef struct memory_content memory_content;
typedef struct memory_extra memory_extra;
typedef struct memory_audit memory_audit;
typedef struct memory_process memory_process;
typedef struct memory_delivery memory_delivery;

enum { NOTE_END = SEMEL_NOTE_POSITION + 1 };

/* What is known about an inbox itself. Only the unit that owns a note changes it. */
typedef struct memory_note {
    memory_unit *owner; /* NULL: none */
    int64_t number;
    char *text; /* NULL: none */
} memory_note;

/* Or a partition in an inbox, which has nothing but notes. */
typedef struct memory_inbox {
    semel_scope kind;
    char name[SEMEL_NAME_MAX + 1];
    memory_note notes[NOTE_END];
    memory_table table;
} memory_inbox;

typedef struct memory_store {
    pthread_mutex_t lock;
    pthread_cond_t let_go;
    uint32_t waiting; /* threads that wait for it */
    uint32_t busy_ms;
    const semel_seam *seam;
    int64_t clock_offset_ms;        /* wall clock - steady clock, when the store was opened */
    atomic_int_least64_t latest_ms; /* the time never goes back behind this */
    hash_key hash;
    uint64_t last_token;
    memory_record *spare_records; /* of a journal */
    uint32_t spare_record_capacity;

    memory_inbox **inboxes; /* the number of an inbox is its index + 1; the same for outboxes */
    size_t inbox_count;
    uint64_t keys;
    uint64_t keys_max;
    memory_extra *spare_extras;
    uint32_t spare_extra_count;

    memory_outbox **outboxes;
    size_t outbox_count;
    uint64_t messages; /* in outboxes, open units and dead letters together */
    uint64_t messages_max;
    int64_t last_seq;
    memory_index rows; /* by seq */

    memory_letter *first_letter; /* in the order of their ids */
    memory_letter *last_letter;
    int64_t last_letter_id;
    memory_index letters_by_id;
    memory_index letters_by_key;

    memory_audit *first_audit; /* in the order of their ids */
    int64_t last_audit_id;
    memory_process *first_process; /* in the order of their ids */

    memory_delivery *first_delivery; /* in the order of their ids */
    memory_delivery *last_delivery;
    int64_t last_delivery_id;
} memory_store;

/* --- journal.c -------------------------------------------------------------------------------- */

/* Both are called with the lock held, and neither can fail. */
typedef struct memory_change {
    void (*undo)(memory_unit *unit, const memory_record *record);
    void (*commit)(memory_unit *unit, const memory_record *record, int64_t now_ms);
} memory_change;

/* A marker as it was. Its key never changes. */
typedef struct memory_marker_before {
    memory_since since;
    uint64_t fingerprint;
    memory_extra *extra;
    uint32_t attempts : 21;
    uint32_t held : 1;
    uint32_t state : 2;
} memory_marker_before;

/* The part of a row in an outbox that changes. */
typedef struct memory_row_state {
    memory_unit *owner; /* the open unit that has changed it; NULL: none */
    int64_t due_ms;
    int64_t lease_end_ms;
    uint64_t token; /* 0: not leased */
    uint32_t attempts;
    uint32_t refusals;
    uint32_t removed;
    char *error; /* of the last attempt that failed; NULL: none */
} memory_row_state;

struct memory_record {
    const memory_change *change;
    union {
        struct {
            memory_table *table;
            memory_marker *marker;
            memory_marker_before before;
        } marker;
        struct {
            memory_row *row;
            memory_row_state before;
            int error_replaced; /* the change has given the row another error text */
        } row;
        struct {
            memory_letter *letter;
            memory_unit *owner_before;
            memory_content *content_before;
        } letter;
        struct {
            memory_note *note;
            memory_note before;
        } note;
        struct {
            memory_audit *prepared;
        } audit;
        struct {
            memory_process *prepared; /* or one with the id of the row to be removed */
            int64_t cutoff_ms;
        } process;
        struct {
            memory_delivery *first, *last; /* a chain of new rows */
            int64_t last_id;               /* trimming: no row behind this one is removed, ... */
            int64_t old_id;                /* ... and of those only up to this one, ... */
            int64_t cutoff_ms;             /* ... or older than this */
        } history;
    };
};

enum { JOURNAL_INLINE = 3 }; /* as many as one receive with one message and a result */

struct memory_unit {
    memory_store *store;
    memory_record *records; /* those below, or allocated */
    uint32_t count;
    uint32_t capacity;
    uint32_t savepoint; /* records before it; valid with has_savepoint */
    uint32_t has_savepoint;
    memory_record first[JOURNAL_INLINE];
};

/* Room for one more record, which the caller fills and then counts (unit->count++); NULL when out
 * of memory. To be called before the change, so that there is none without a record. */
memory_record *memory_journal_next(memory_unit *unit);
void memory_journal_undo(memory_unit *unit, uint32_t down_to);
void memory_journal_commit(memory_unit *unit, int64_t now_ms);
void memory_journal_free(memory_unit *unit); /* without the lock */

/* --- memory.c --------------------------------------------------------------------------------- */

/* The store's time. It needs no lock: it is asked for every message whose age counts. */
int64_t memory_now_ms(memory_store *store);

/* A wait for other units, bounded as a whole however often it is interrupted. */
typedef struct memory_wait {
    uint32_t wait_ms;
    int started;
    struct timespec end;
} memory_wait;

/* Gives up the lock until some unit has let go of something; 0 when the time is over. Whatever the
 * caller has looked up must be looked up again. */
int memory_wait_for_others(memory_store *store, memory_wait *wait);

semel_status memory_out_of_memory(semel_error *err);

/* One message more, in an outbox or as a dead letter: SEMEL_ELIMIT at messages_max. */
semel_status memory_count_message(memory_store *store, semel_error *err);

/* --- marker_lease.c --------------------------------------------------------------------------- */

/* Never changed once it is in a marker: a change replaces it, and the journal keeps the old one. */
struct memory_extra {
    memory_extra *next; /* among the spare ones */
    uint64_t token;     /* 0: not claimed */
    int64_t lease_end_ms;
    int64_t first_ms;    /* when the first attempt began; 0: when the marker was last changed */
    int64_t received_ms; /* the details of the message, if they are kept; 0: not */
    uint32_t type;       /* as a name's number */
    uint32_t source;
    uint32_t result_len;
    uint32_t why_len;
    int has_result;
    int letter_gone; /* of a dead marker: its letter was discarded, and a sweep may remove it */
    unsigned char bytes[]; /* the result, then why it failed */
};

memory_extra *memory_extra_new(memory_store *store, semel_bytes result, semel_bytes why);
void memory_extra_free(memory_store *store, memory_extra *extra);
void memory_extra_drop_spares(memory_store *store);

/* --- marker.c, marker_end.c, sweep.c ---------------------------------------------------------- */

/* NULL and SEMEL_EINVAL in err if no inbox has the number. */
memory_inbox *memory_inbox_get(const memory_store *store, int64_t number, semel_error *err);
uint32_t memory_marker_hash(const memory_store *store, const void *key, size_t len);

/* 1 while a claim keeps others out. */
int memory_marker_leased(memory_store *store, const memory_marker *marker);

/* The marker as it was last committed: another unit may have changed it since. */
memory_marker_before memory_marker_committed(const memory_marker *marker);

/* Removes a marker that no unit holds, with its claim, result and reason. */
void memory_marker_drop(memory_store *store, memory_table *table, memory_marker *marker);

semel_status memory_look(void *unit, semel_mark *mark, semel_error *err);
semel_status memory_mark(void *unit, semel_mark marks[], size_t count, uint32_t wait_ms,
                         semel_error *err);
semel_status memory_claim(void *unit, semel_mark *mark, uint32_t lease_ms, semel_error *err);
semel_status memory_finish(void *unit, const semel_mark *mark, semel_error *err);
semel_status memory_renew(void *unit, const semel_mark *mark, uint32_t lease_ms, semel_error *err);
semel_status memory_fail(void *unit, const semel_mark *mark, const char *why, semel_error *err);
semel_status memory_bury(void *unit, const semel_mark *mark, const char *why, semel_error *err);
semel_status memory_forget(void *unit, const semel_mark *mark, semel_error *err);
semel_status memory_letter_gone(void *unit, const semel_mark *mark, semel_error *err);
semel_status memory_result_set(void *unit, const semel_mark *mark, semel_bytes result,
                               semel_error *err);
semel_status memory_result_get(void *unit, const semel_mark *mark, void **out, size_t *len,
                               semel_error *err);
semel_status memory_sweep(void *store, int64_t inbox, int64_t cutoff_ms, uint32_t rows,
                          semel_sweep_position *position, size_t *swept, semel_error *err);

/* --- note.c ----------------------------------------------------------------------------------- */

semel_status memory_note_read(void *unit, int64_t inbox, semel_note note, semel_note_lock lock,
                              semel_note_value *out, semel_error *err);
semel_status memory_note_write(void *unit, int64_t inbox, semel_note note,
                               const semel_note_value *value, semel_error *err);
/* stats.c */
semel_status memory_stats(void *store, const semel_stats_of *of, uint32_t deadline_ms,
                          semel_stats *out, semel_error *err);
void memory_outbox_stats(const memory_outbox *outbox, int64_t now_ms, semel_stats *out);
uint64_t memory_letters_count(const memory_store *store, int origin, const char *name);

void memory_notes_free(memory_inbox *inbox);

/* --- outbox.c --------------------------------------------------------------------------------- */

memory_outbox *memory_outbox_new(semel_scope kind, const char *name);
semel_scope memory_outbox_kind(const memory_outbox *outbox);
const char *memory_outbox_name(const memory_outbox *outbox);
void memory_outbox_free(memory_outbox *outbox);

semel_status memory_put(void *unit, int64_t outbox, const semel_message *message, semel_error *err);
semel_status memory_take(void *unit, int64_t outbox, uint32_t limit, uint32_t lease_ms,
                         semel_item_sink *sink, void *context, semel_error *err);
semel_status memory_settle(void *unit, int64_t outbox, semel_item_settlement settlements[],
                           size_t count, semel_error *err);
semel_status memory_extend(void *unit, int64_t outbox, semel_item_settlement leases[], size_t count,
                           uint32_t lease_ms, semel_error *err);
semel_status memory_unsent(void *store, uint64_t *count, int64_t *oldest_ms, semel_error *err);
semel_status memory_wake(void *unit, int64_t outbox, const int64_t seqs[], size_t count,
                         size_t *changed, semel_error *err);
semel_status memory_remove(void *unit, int64_t outbox, const int64_t seqs[], size_t count,
                           size_t *changed, semel_error *err);

/* --- list.c ----------------------------------------------------------------------------------- */

extern const semel_store_lists memory_lists;

/* inspect.c */
extern const semel_store_inspection memory_inspection;

/* outbox.c: the first row behind `seq`, NULL: none; *found is 0 if there is no such outbox. And
 * a row as it was last committed. */
const memory_row *memory_outbox_after(int *found, const memory_store *store, int64_t outbox,
                                      int64_t seq, semel_error *err);
memory_row_state memory_row_committed(const memory_row *row);

/* --- dead.c ----------------------------------------------------------------------------------- */

semel_status memory_dead_put(void *unit, const semel_dead *dead, semel_error *err);
semel_status memory_dead_drop(void *unit, int64_t id, semel_error *err);
semel_status memory_dead_list(void *unit, const semel_dead_filter *filter,
                              semel_dead_visitor *visitor, void *context, semel_error *err);
semel_status memory_dead_set_retry(void *unit, int64_t id, semel_retry from, semel_retry to,
                                   const char *error, semel_error *err);
void memory_letters_free(memory_store *store);

/* --- operation.c ------------------------------------------------------------------------------ */

extern const semel_store_operation memory_operation;

void memory_operation_free(memory_store *store);

/* --- history.c -------------------------------------------------------------------------------- */

extern const semel_store_history memory_history;

void memory_history_free(memory_store *store);

#endif
