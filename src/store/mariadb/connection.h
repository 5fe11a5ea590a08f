/* A connection, and the conversation on it.
 *
 * What is to be said is written to `out` first (writer.h). maria_run() sends it, in one text where that can be, and
 * reads the answers in the order of the statements. The first one that fails ends it: the server has not looked
 * at what follows. */
#ifndef SEMEL_MARIADB_CONNECTION_H
#define SEMEL_MARIADB_CONNECTION_H

#include "base/sigpipe.h"
#include "store/mariadb/address.h"
#include "store/mariadb/writer.h"

#include <sys/types.h>

/* How the session is set. */
typedef enum session_mode {
    MODE_UNKNOWN,
    MODE_DURABLE, /* for the application's work */
    MODE_RELAXED, /* for our own short transactions */
    MODE_LOOKING  /* for a look without a transaction */
} session_mode;

/* How long is waited. */
typedef struct limits {
    uint32_t busy_ms;   /* by the server, for a lock */
    uint32_t answer_ms; /* by us, for an answer, beyond that */
} limits;

typedef struct connection {
    MYSQL *my;
    limits limits;
    uint32_t wait_ms;  /* the server may wait for so long, if that is longer than busy_ms */
    const address *at; /* NULL: it is the caller's, who joined us */
    const char *const *texts;
    script out;
    text_buffer spare; /* for a script that is written anew */
    mem_arena scratch; /* of whoever uses it */
    int encrypted;     /* by TLS */
    int multi;         /* the server takes several statements in one text */
    int lost;          /* it cannot be used any more */
    int owes;          /* a ROLLBACK has been sent whose answer nobody has read yet */
    int fresh; /* nothing of the unit has been answered yet: it can be begun on another one */
    session_mode mode; /* of the session */
    isolation usual;   /* of the session when it was new */
    uint64_t idle_s;   /* ... its idle_transaction_timeout */
    size_t packet_max; /* max_allowed_packet */
    size_t text_max;   /* the longest text that goes into it */
    int blocks;        /* the server takes compound statements */
    int safe_commits;  /* they survive a power failure */
    pid_t pid;         /* of the process that made it */
} connection;

/* How a conversation failed. */
typedef struct failure {
    unsigned number; /* the server's or the client's; 0: neither */
    step_kind kind;  /* of the statement at which it failed */
    size_t at;       /* ... and its place, from 0 on */
    int unknown;     /* a COMMIT was sent, and nobody can say what became of it */
} failure;

/* One attempt, of at most wait_ms. EUNAVAILABLE: it may succeed later. */
semel_status maria_open(connection **out, const address *at, const char *const *texts,
                        limits bounds, uint32_t wait_ms, semel_error *err);
void maria_close(void *on);

/* A new session for a connection that has none, and the end of one. */
semel_status maria_dial(connection *on, uint32_t wait_ms, semel_error *err);
void maria_hang_up(connection *on);

int maria_is_alive(void *on); /* without a round trip */

/* `on` on the caller's connection. Only its script is ours, to be freed with maria_return(). */
void maria_borrow(connection *on, MYSQL *my, const char *const *texts, limits bounds,
                  size_t packet_max);
void maria_return(connection *on);

/* What sets the session's mode, if it is not in it. 1 if there was something to say. */
int maria_say_mode(connection *on, session_mode mode);

/* Around every call of the client library. Inside, none takes longer than the server may wait for locks, and answer_ms: if
 * there is no answer by then, the connection is lost; and none raises SIGPIPE (base/sigpipe.h). Outside, the connection
 * is as a handler expects it. */
typedef struct library_call {
    const connection *on;
    sigpipe_guard guard;
    int read_ms;
    int write_ms;
} library_call;
void maria_enter(library_call *call, const connection *on);
void maria_leave(const library_call *call);

/* One more statement to say. */
query maria_query(connection *on, statement which);
query maria_query_bounded(connection *on, statement which, bound limit);
void maria_say(connection *on, statement which); /* one without values */

/* Says it all, and forgets it. `failed` may be NULL. */
semel_status maria_run(connection *on, failure *failed, const char *doing, semel_error *err);

/* Sends a ROLLBACK and leaves its answer to whoever uses the connection next. */
void maria_push_rollback(connection *on);

/* A statement by itself, without an answer but whether it failed. */
int maria_ask(connection *on, const char *text);

/* `err` from the connection's last error, by number. */
semel_status maria_fail(connection *on, const char *doing, semel_error *err);
semel_status maria_fail_statement(connection *on, MYSQL_STMT *stmt, const char *doing,
                                  semel_error *err);

/* A deadlock, a lock that was not to be had, a row that has changed: the same again may succeed. */
int maria_is_conflict(unsigned number);

/* After these there is nobody at the other end. */
int maria_is_lost(unsigned number);

/* Between the handler's statements and ours: 0 if there is something unread. */
int maria_is_ready(const connection *on);

#endif
