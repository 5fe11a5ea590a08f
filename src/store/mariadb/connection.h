/* A connection, and the conversation on it.
 *
 * Statements are enqueued in `out` first (writer.h). maria_flush() sends them, in one text where
 * that can be, and reads the answers in the order of the statements. The first one that fails ends
 * it: the server has not looked at what follows. */
#ifndef SEMEL_MARIADB_CONNECTION_H
#define SEMEL_MARIADB_CONNECTION_H

#include "base/sigpipe.h"
#include "store/mariadb/address.h"
#include "store/mariadb/writer.h"

#include <sys/types.h>

/* How the session is set. */
typedef enum maria_session_mode {
    MODE_UNKNOWN,
    MODE_DURABLE, /* for the application's work */
    MODE_RELAXED, /* for our own short transactions */
    MODE_LOOKING  /* for a look without a transaction */
} maria_session_mode;

/* How long is waited. */
typedef struct maria_limits {
    uint32_t busy_ms;   /* by the server, for a lock */
    uint32_t answer_ms; /* by us, for an answer, beyond that */
} maria_limits;

typedef struct maria_connection {
    MYSQL *my;
    maria_limits limits;
    uint32_t wait_ms;        /* the server may wait for so long, if that is longer than busy_ms */
    const maria_address *at; /* NULL: the connection of a caller, which a unit has joined */
    const char *const *texts;
    maria_script out;
    text_buffer spare; /* for a script that is written anew */
    mem_arena scratch; /* of the unit that uses the connection */
    int encrypted;     /* by TLS */
    int multi;         /* the server takes several statements in one text */
    int lost;          /* it cannot be used any more */
    int owes;          /* a ROLLBACK has been sent whose answer has not been read yet */
    int fresh; /* nothing of the unit has been answered yet: it can be begun on another one */
    maria_session_mode mode; /* of the session */
    maria_isolation usual;   /* of the session when it was new */
    uint64_t idle_s;         /* ... its idle_transaction_timeout */
    size_t packet_max;       /* max_allowed_packet */
    size_t text_max;         /* the longest text that goes into it */
    int blocks;              /* the server takes compound statements */
    int safe_commits;        /* they survive a power failure */
    pid_t pid;               /* of the process that made it */
} maria_connection;

/* How a conversation failed. */
typedef struct maria_failure {
    unsigned number;      /* the server's or the client's; 0: neither */
    maria_step_kind kind; /* of the statement at which it failed */
    size_t at;            /* ... and its place, from 0 on */
    int unknown;          /* a COMMIT was sent, and its outcome is not known */
} maria_failure;

/* One attempt, of at most wait_ms. EUNAVAILABLE: it may succeed later. */
semel_status maria_open(maria_connection **out, const maria_address *at, const char *const *texts,
                        maria_limits bounds, uint32_t wait_ms, semel_error *err);
void maria_close(void *on);

/* A new session for a connection that has none, and the end of one. */
semel_status maria_dial(maria_connection *on, uint32_t wait_ms, semel_error *err);
void maria_hang_up(maria_connection *on);

int maria_is_alive(void *on); /* without a round trip */

/* `on` on the caller's connection. Only its script is ours, to be freed with maria_return(). */
void maria_borrow(maria_connection *on, MYSQL *my, const char *const *texts, maria_limits bounds,
                  size_t packet_max);
void maria_return(maria_connection *on);

/* What sets the session's mode, if it is not in it. 1 if that enqueued a statement. */
int maria_enqueue_mode(maria_connection *on, maria_session_mode mode);

/* Around every call of the client library. Inside, none takes longer than the server may wait for
 * locks, and answer_ms: if there is no answer by then, the connection is lost; and none raises
 * SIGPIPE (base/sigpipe.h). Outside, the connection is as a handler expects it. */
typedef struct maria_library_call {
    const maria_connection *on;
    sigpipe_guard guard;
    int read_ms;
    int write_ms;
} maria_library_call;
void maria_enter(maria_library_call *call, const maria_connection *on);
void maria_leave(const maria_library_call *call);

/* Enqueues one more statement. */
maria_query maria_enqueue(maria_connection *on, maria_statement which);
maria_query maria_enqueue_bounded(maria_connection *on, maria_statement which, maria_bound limit);
void maria_enqueue_plain(maria_connection *on, maria_statement which); /* one without values */

/* Sends what is enqueued, reads the answers, and empties the queue. `failed` may be NULL. */
semel_status maria_flush(maria_connection *on, maria_failure *failed, const char *doing,
                         semel_error *err);

/* Sends a ROLLBACK and leaves its answer to the next user of the connection. */
void maria_push_rollback(maria_connection *on);

/* A statement by itself, without an answer but whether it failed. */
int maria_execute(maria_connection *on, const char *text);

/* `err` from the connection's last error, by number. */
semel_status maria_fail(maria_connection *on, const char *doing, semel_error *err);
semel_status maria_fail_statement(maria_connection *on, MYSQL_STMT *stmt, const char *doing,
                                  semel_error *err);

/* A deadlock, a lock that was not to be had, a row that has changed: the same again may succeed. */
int maria_is_conflict(unsigned number);

/* 1 for errors after which the connection is gone. */
int maria_is_lost(unsigned number);

/* Between the handler's statements and ours: 0 if there is something unread. */
int maria_is_ready(const maria_connection *on);

#endif
