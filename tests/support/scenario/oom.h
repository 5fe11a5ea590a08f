/* Running out of memory, on purpose: at the nth allocation, for every n.
 *
 * An operation is tried in surroundings that are made anew for each n: it fails or succeeds, then
 * the same is done without a fault and must succeed, and then everything must be there exactly
 * once. */
#ifndef SEMEL_TESTS_OOM_H
#define SEMEL_TESTS_OOM_H

#include "support/base/scratch.h"

#include <semel/semel.h>
#include <semel/sqlite.h>
#include <semel/test.h>

/* Which allocations fail: the library's own or SQLite's. Or, by the same means, which named point
 * of the library (SEMEL_FAULT_POINTS). */
typedef struct oom_source {
    const char *name;
    semel_status status;   /* what comes of it */
    void (*arm)(long nth); /* the nth from now */
    int (*disarm)(void);   /* 1 if there were that many, so it struck */
} oom_source;

extern const oom_source oom_library;
extern const oom_source oom_points;

/* SQLite's: only the nth fails, or the nth and all that follow it until it is disarmed.
 * oom_watch_sqlite() comes before the first use of SQLite in the process. */
extern const oom_source oom_sqlite_once;
extern const oom_source oom_sqlite_for_good;
void oom_watch_sqlite(void);

enum { OOM_SINK_MAX = 32, OOM_TEXT = 64 };

/* In a UTF-16 database SQLite allocates for every text that is read, too. */
typedef enum oom_backend { OOM_MEMORY, OOM_SQLITE, OOM_SQLITE_UTF16 } oom_backend;

/* A broker that allocates nothing: what it was given. */
typedef struct oom_sink {
    size_t count;
    struct {
        char body[OOM_TEXT], topic[OOM_TEXT], group[OOM_TEXT], header[OOM_TEXT];
    } messages[OOM_SINK_MAX];
} oom_sink;

typedef struct oom_world {
    scratch dir;
    char file[SCRATCH_PATH];
    char url[SCRATCH_PATH];
    oom_backend backend; /* OOM_MEMORY is 0 */
    sqlite3 *eye;        /* on the same file */
    int failing;         /* handlers fail */
    int resultless;      /* there is no key to keep a result with */
    semel_test_seam *seam;
    semel_seam host; /* the same, with the faults of oom_points */
    semel_store *store;
    semel_outbox *outbox; /* "out": what the handler sends */
    semel_outbox *box;    /* "box": what goes through relays */
    semel_inbox *inbox;
    oom_sink sink;
    semel_transport *transport; /* to the sink */
    semel_transport *queue;     /* in memory or in the store, for consumers */
    int64_t letter;             /* the id of a dead letter, or 1 when the operation has worked */
    semel_status failure;       /* of the operation, if it noted one */
} oom_world;

typedef struct oom_operation {
    const char *name;
    semel_inbox_options inbox; /* `size` is filled in */
    int bare;                  /* there is no store: opening one is the operation */
    int sqlite_only;
    long
        stride; /* of SQLite's allocations, where they are very many and mostly of one kind; 0: 1 */
    int apart;  /* markers, effects and messages need not be the same number after a failure */
    void (*prepare)(oom_world *w);
    semel_status (*act)(oom_world *w, semel_error *err);
    void (*check)(oom_world *w); /* at the end; asserts */
    int64_t effects;             /* at the end: messages from handlers and, on SQLite, their rows */
} oom_operation;

extern const oom_operation oom_operations[];
extern const size_t oom_operation_count;

/* The operation, at every allocation (stride 1) or at every second, third, ...; asserts. */
void oom_everywhere(const oom_operation *operation, const oom_source *source, oom_backend backend,
                    long stride);

/* For operations. */
semel_message oom_message(const char *id);
/* Writes an effect, stores a result, sends a message; its context is an oom_world. */
semel_handler oom_handler;
semel_status oom_receive(oom_world *w, const char *id, uint32_t delivery, semel_error *err);
semel_status oom_open_store(oom_world *w, semel_error *err);
void oom_must(semel_status status, const semel_error *err); /* while preparing */
int oom_letters(oom_world *w);                              /* how many dead letters there are */

enum { OOM_MANY = 5 }; /* messages of the operations that have several, and their names */
const char *oom_name(unsigned index);

/* Operations on a queue in the store, and what they need: oom_queue.c. */
semel_status oom_open_queue(oom_world *w, semel_error *err);
semel_status oom_open_queue_by_url(oom_world *w, semel_error *err);
void oom_prepare_queue(oom_world *w); /* w->queue, empty */
semel_status oom_publish(oom_world *w, semel_error *err);
void oom_check_published(oom_world *w);
void oom_prepare_queued(oom_world *w); /* w->queue, with OOM_MANY messages */
semel_status oom_consume_queue(oom_world *w, semel_error *err);
void oom_check_consumed(oom_world *w);
semel_status oom_reject(oom_world *w, semel_error *err);
void oom_check_rejected(oom_world *w);
void oom_prepare_out(oom_world *w); /* the same, some of them received */
semel_status oom_extend(oom_world *w, semel_error *err);
void oom_check_extended(oom_world *w);
void oom_prepare_rejected(oom_world *w); /* one of them, rejected */
semel_status oom_replay_into_queue(oom_world *w, semel_error *err);
void oom_check_replayed(oom_world *w);

/* Operations that tools for operators use: oom_operate.c. */
void oom_prepare_delayed(oom_world *w); /* a message in w->box */
semel_status oom_wake_and_skip(oom_world *w, semel_error *err);
semel_status oom_skip(oom_world *w, semel_error *err);
void oom_check_skipped(oom_world *w);
semel_status oom_empty_queue(oom_world *w, semel_error *err);
void oom_check_emptied(oom_world *w);
semel_status oom_keep_books(oom_world *w, semel_error *err); /* there is one letter */
semel_status oom_take_retry(oom_world *w, semel_error *err); /* of w->letter */

#endif
