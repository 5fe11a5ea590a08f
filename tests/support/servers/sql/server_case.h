/* What the tests of the servers' own side stand on: a store on a server, by way of a proxy, and a
 * table of the application's, `effect (id)`, into which handlers write. Written once for PostgreSQL
 * and MariaDB, and for each way to receive: a test runs in every shape that it asks for. The clock
 * is the system's and the server's. */
#ifndef SEMEL_TESTS_SERVER_CASE_H
#define SEMEL_TESTS_SERVER_CASE_H

#include "support/fixture/fixture.h"
#include "support/servers/proxy.h"

typedef enum case_mode { BY_TRANSACTION, BY_QUEUE, BY_CLAIM, BY_BATCH, CASE_MODES } case_mode;

/* DEFAULT_...: by the server's setting for the session, and not by the URL's isolation=. PostgreSQL
 * only. */
typedef enum case_level {
    LEVEL_SERVERS,
    LEVEL_READ_COMMITTED,
    LEVEL_REPEATABLE_READ,
    LEVEL_SERIALIZABLE,
    LEVEL_DEFAULT_SERIALIZABLE,
    CASE_LEVELS
} case_level;

enum {
    CASE_BATCH = 3,       /* messages that BY_BATCH receives for one id */
    CASE_WAIT_MS = 60000, /* longer than anything takes that comes */
    CASE_BUSY_MS = 60000  /* the same: no test waits for its end */
};

typedef struct server_shape {
    server_kind kind;
    case_mode mode;
    case_level level;
    char name[160];
} server_shape;

typedef struct server_case {
    fixture base; /* its URL is straight to the server */
    server_kind kind;
    case_mode mode;
    char name[64]; /* of the schema or database; PostgreSQL: of the application, too */
    char through[SERVER_URL_ROOM]; /* by way of the proxy */
    proxy *between;
    semel_inbox *inbox;   /* "orders", in the mode */
    semel_outbox *outbox; /* "mail" */
    /* Called at each of the library's named points; NULL: nothing. */
    void (*passing)(struct server_case *c, const char *point);
    uint32_t answer_ms; /* of the stores that are opened; 0: the default */
    const char *at;     /* for `passing`: the point, as it likes */
    unsigned passed;    /* the same: how often */
    semel_seam seam;
} server_case;

/* --- running ---------------------------------------------------------------------------------- */

enum {
    IN_TRANSACTION = 1 << BY_TRANSACTION, /* which modes */
    IN_QUEUE = 1 << BY_QUEUE,
    IN_CLAIM = 1 << BY_CLAIM,
    IN_BATCH = 1 << BY_BATCH,
    IN_ALL_MODES = (1 << CASE_MODES) - 1,
    AT_ALL_LEVELS = 1 << 8, /* ... each of them at each isolation */
    WITHOUT_SETUP = 1 << 9, /* *state is the shape */
    POSTGRES_ONLY = 1 << 10
};

typedef struct server_test {
    const char *name;
    void (*run)(void **state); /* *state is a server_case */
    unsigned shapes;
} server_test;

int server_case_run(const server_test tests[], size_t count);
#define SERVER_TEST(function, shapes) \
    {                                 \
#function, function, (shapes) \
    }
#define SERVER_TESTS(tests) server_case_run((tests), sizeof(tests) / sizeof *(tests))

/* --- opening ---------------------------------------------------------------------------------- */

/* A fresh store at this server with the table in it. `parameters` go to the end of the URL:
 * "&pool=1". */
void case_make(server_case *c, const server_place *where, const server_shape *shape,
               const char *parameters);
void case_remove(server_case *c);

/* Opens store, inbox and outbox through the proxy. `options` may be NULL; its mode is the case's,
 * and its wait_ms is CASE_WAIT_MS if it has none: the unit that has the key may be slow. */
void case_open(server_case *c, uint32_t busy_ms, const semel_inbox_options *options);
void case_open_at(server_case *c, const char *url, uint32_t busy_ms,
                  const semel_inbox_options *options);
semel_store *case_other(const server_case *c); /* another store on the same, as a process has one */
void case_close(server_case *c);
void case_retire(server_case *c); /* the proxy, too: children may start threads then */

/* --- receiving -------------------------------------------------------------------------------- */

/* The context of case_handle(). */
typedef struct case_work {
    scripted_handler work; /* done after the effect was written */
    void (*before)(struct case_work *self, semel_unit *unit, const semel_message *message);
    void (*after)(struct case_work *self, semel_unit *unit, const semel_message *message);
    void *context;
    semel_status wrong; /* set by one of these: the handler fails with it */
} case_work;

/* Writes the message's id into `effect`: on the unit's connection or, where it has none, by
 * queueing. */
semel_handler case_handle;
semel_handler case_queue; /* by queueing in any case */

/* Receives the message with this id, in the case's mode: a batch is CASE_BATCH messages, all of
 * which must be settled or none; if one is processed, the outcome is that. NULL: a work that does
 * nothing. */
semel_status case_receive(server_case *c, semel_outcome *out, const char *id, case_work *todo,
                          semel_error *err);

#define CASE_RECEIVES(status, outcome, c, id, todo) \
    case_receives((status), (outcome), (c), (id), (todo), __FILE__, __LINE__)
void case_receives(semel_status status, semel_outcome outcome, server_case *c, const char *id,
                   case_work *todo, const char *file, int line);

/* Again until it is settled, as a broker would deliver it; what is retryable is waited out. */
semel_outcome case_settle(server_case *c, const char *id, case_work *todo);

/* A statement of the handler's on the unit's connection; 0 if it fails. */
int case_sql(semel_unit *unit, const char *sql);
const char *case_sqlstate(semel_unit *unit,
                          const char *sql); /* of its failure; "" if it succeeds */

/* --- looking ---------------------------------------------------------------------------------- */

/* How often the work for this id has been done; -1 if that is not the same for all of a batch. */
int case_times(const server_case *c, const char *id);

int64_t case_number(const server_case *c, const char *sql); /* in a session of its own */
int case_blocked(const server_case *c);                     /* sessions that wait for a lock */
int case_open_transactions(const server_case *c);
void case_nap(const server_case *c);                     /* between two looks at one of these */
int case_await_blocked(const server_case *c, int count); /* 0 if it does not come to that */
const char *case_commit_bytes(const server_case *c);     /* what a COMMIT looks like on the wire */
int64_t case_unsent(server_case *c);

#endif
