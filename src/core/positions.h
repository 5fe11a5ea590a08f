/* Inboxes that remember positions: one row for each partition instead of a marker for each key.
 *
 *   positions_row.c  the row of a partition, and what makes it another topic's
 *   positions_unit.c a run in its transaction
 *   positions.c      the whole of a run: attempts that are counted before they start, failures,
 *                    dead letters */
#ifndef SEMEL_CORE_POSITIONS_H
#define SEMEL_CORE_POSITIONS_H

#include "core/unit.h"

enum { ORIGIN_MAX = 255, POSITION_DIGITS = 20, POSITION_NONE = -1, POSITIONS_HASH = 34 };

/* A partition that this process knows. It stays until the inbox is closed. */
typedef struct position_partition {
    struct position_partition *same_bucket;
    int64_t scope; /* the number of its row */
    /* 1: this process has committed a run of it, and nothing has gone wrong since */
    atomic_int warm;
    /* up to here each message has a transaction of its own: one of them may be what fails */
    _Atomic int64_t careful;
    char name[]; /* the partition's own */
} position_partition;

/* The row, decoded. */
typedef struct position_row {
    int is_new;        /* nothing is known of the partition */
    int64_t next;      /* the position that comes next: all before it are decided */
    int64_t latest_ms; /* when it was last moved, or the time of the youngest message before that */
    uint64_t print;    /* a checksum of the message at next - 1; 0: not known */
    int64_t begun;     /* the message whose attempts are counted; POSITION_NONE: none */
    uint32_t attempts; /* at that one, which were started */
    int64_t through;   /* of the last one that may have been started; POSITION_NONE: none */
    char origin[ORIGIN_MAX + 1];
    int64_t now_ms; /* by the store's clock, when it was read */
} position_row;

/* positions_row.c */
semel_status positions_open(semel_inbox *inbox, semel_error *err);
void positions_close(semel_inbox *inbox);
/* "#" and 128 bits of both texts, where there is no room for them. */
void positions_write_hash(char out[POSITIONS_HASH], const char *a, const char *b);

semel_status positions_find(position_partition **out, semel_inbox *inbox, const char *partition,
                            semel_error *err);
semel_status position_read(position_row *out, work_unit *unit, const position_partition *of,
                           semel_note_lock lock, semel_error *err);
semel_status position_write(work_unit *unit, const position_partition *of, const position_row *row,
                            semel_error *err);

/* What the observer learns of a message when all is over. */
typedef struct run_seen {
    int64_t handler_ns;
    int64_t started_ns;
    uint32_t captured;
    uint32_t attempt;
} run_seen;

/* A run on its way. */
typedef struct position_run {
    semel_outcome *out;
    int *buried; /* which became dead letters by this call; may be NULL */
    semel_inbox *inbox;
    position_partition *partition;
    const char *origin; /* "": not known */
    const int64_t *positions;
    const semel_message *const *messages;
    size_t count;
    semel_handler *handler;
    void *context;
    const unit_terms *terms; /* NULL: none */
    work_unit *unit;
    run_seen *seen; /* NULL: there is no observer */
    char key[SEMEL_KEY_MAX + 1];
    size_t key_prefix; /* how much of the key all messages have in common */

    size_t at;        /* those before it are decided */
    size_t end;       /* of the transaction that comes next */
    uint32_t attempt; /* at the message at `at`, which is the only one; 0: it is not counted */
    int announced;    /* the row says that all up to announced_through are about to start */
    int64_t announced_through;
    int is_alone;      /* no other thread is at a message that may kill the process */
    int ended;         /* no more of this run is to be tried now */
    size_t first;      /* where the last of its transactions began */
    uint32_t failures; /* messages that failed, and the first of them */
    semel_error first_failure;
    semel_gap gap; /* to be reported; size 0: none */

    /* Of the last transaction. */
    size_t done;     /* where the messages end that it has handled */
    int begun;       /* a handler was called */
    int stranger;    /* a process that may have died has begun with these messages */
    size_t failed;   /* the message whose handler failed; RUN_NONE: none */
    int full;        /* ... because the transaction had no room for what it sends */
    semel_error why; /* ... and why */
} position_run;

#define RUN_NONE SIZE_MAX

/* The message at `index` is what the unit works for, in this attempt. */
void run_enter(position_run *r, size_t index, uint32_t attempt);

/* The key of a message for the observer; valid until the next one. */
semel_bytes run_key(position_run *r, size_t index);

/* Locks and reads the row for the messages from `at` on; a new one if there is none, or if another
 * topic's is accepted. EREJECTED if the row is another topic's. */
semel_status run_lock_row(const position_run *r, position_row *row, semel_error *err);

/* As run_lock_row(); what is before the row's position is decided then. */
semel_status run_read_row(position_run *r, position_row *row, semel_error *err);

/* All messages before `end` are decided: the row as it is then. */
void run_move_row(position_row *row, const position_run *r, size_t end);

/* Sets the outcomes of the messages from `at` on, which are final, and `at` behind them. */
void run_decide(position_run *r, size_t end, semel_outcome outcome);

/* One transaction with the messages from `at` to `end`, as far as they are not decided. OK if it is
 * committed, or if there was nothing to do. The unit may have to be rolled back afterwards. */
semel_status run_transact(position_run *r, semel_error *err);

/* For consumers: as semel_inbox_receive_run(), on terms; see struct position_run for `messages`. */
semel_status inbox_receive_run(semel_outcome out[], int buried[], semel_inbox *inbox,
                               const semel_run *given, semel_handler *handler, void *context,
                               const unit_terms *terms, semel_error *err);

#endif
