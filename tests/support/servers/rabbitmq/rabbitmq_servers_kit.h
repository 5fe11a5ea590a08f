/* For the tests of consumer and relay on a real broker with a real store: a service case is a queue
 * and a store that no other test uses; services open what they need on it, in this process or in
 * one that is started to be killed.
 *
 * Messages are known by short ids, a letter and a number. The letter is the message's group, and
 * says what the handler does with it: `p` kills the process, `f` fails, the others are well. Every
 * run writes a row with the id into the table `effect` first, in the transaction of its message,
 * and is noted in memory that outlives its process.
 *
 * What cannot fail in a healthy world ends the process when it does, with a line on stderr. */
#ifndef SEMEL_TESTS_RABBITMQ_SERVERS_KIT_H
#define SEMEL_TESTS_RABBITMQ_SERVERS_KIT_H

#include "support/base/sanitizer.h"
#include "support/fixture/effect.h"
#include "support/inspect/inspect.h"
#include "support/servers/rabbitmq/rabbitmq_kit.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RUNS_MAX = 4096, ID_ROOM = 48, CHILDREN_MAX = 4 };

/* One run of a handler. */
typedef struct run {
    char id[ID_ROOM];
    uint32_t delivery, attempt;
    int64_t at_ms;
    pid_t pid;
} run;

typedef struct tally {
    atomic_uint begun; /* runs; those whose process died at once may have no entry */
    run runs[RUNS_MAX];
    atomic_uint ready;            /* services that have opened what they need */
    atomic_uint troubles, relief; /* of semel_notice */
    atomic_uint struck;           /* the test has done the harm that it was there for */
} tally;

/* Where a test runs; .kind 0 is SQLite. */
typedef struct variant {
    server_kind kind;
    const char *queue; /* parameters of the URL */
} variant;

typedef struct service_case {
    rabbit_kit kit;
    store_place place;
    effect effect; /* a row in the table `effect` */
    tally *tally;
    pid_t children[CHILDREN_MAX]; /* that run */
} service_case;

/* --- service cases ---------------------------------------------------------------------------- */

void service_case_open_store(service_case *s, const server_place *database);

/* In this broker and this database server (NULL: SQLite). Queue and exchange are made; nothing
 * stays open. */
void service_case_open_at(service_case *s, const server_place *broker, const server_place *database,
                          const char *parameters);
void service_case_open(service_case *s, server_kind kind, const char *parameters);
void service_case_close(service_case *s);

/* Fixtures: *state is a variant before, and a service_case in the test. */
int service_case_setup(void **state);
int service_case_teardown(void **state);

/* clang-format off */
#define QUORUM  "declare=yes&type=quorum"
#define CLASSIC "declare=yes&type=classic"
#define IN_CASE(function, on, kind, queue) \
    {#function ", " on, function, service_case_setup, service_case_teardown, \
     &(variant){kind, queue}}
#define ON_SQLITE(function, queue)   IN_CASE(function, "sqlite", (server_kind)0, queue)
#define ON_POSTGRES(function, queue) IN_CASE(function, "postgres", SERVER_POSTGRES, queue)
#define ON_MARIADB(function, queue)  IN_CASE(function, "mariadb", SERVER_MARIADB, queue)
/* clang-format on */

/* --- messages --------------------------------------------------------------------------------- */

/* One for each id, separated by spaces, in this order, by a transport that only publishes. */
void service_case_publish(service_case *s, const char *ids);

/* "g0 g1 g2 ...", into out[KIT_SAID]; returns out. */
const char *numbered(char out[KIT_SAID], char initial, unsigned from, unsigned count);

/* --- the handler ------------------------------------------------------------------------------ */

/* Its context is the service_case. */
semel_status service_case_handle(semel_unit *unit, const semel_message *message, void *context,
                                 semel_error *err);

/* For a handler: when `most` runs have begun, all of them wait for the test, which may be late
 * to do its harm. */
void wait_for_harm(const service_case *s, unsigned most);

/* For semel_notice; its context is the tally. */
void note_trouble(void *context, const semel_error *trouble);

/* --- what became of it ------------------------------------------------------------------------ */

unsigned runs_of(const service_case *s, const char *id);
int64_t effects(const service_case *s);
int64_t effects_of(const service_case *s, const char *id);
int64_t dead_letters(const service_case *s);
int64_t unsent(const service_case *s);

/* What a dead process had leased or claimed may be had at once. So leases can be as long as a
 * turn may take. */
void end_leases(const service_case *s);

/* Each of these messages had its effect once, and no other message had one. */
void expect_effects(const service_case *s, const char *ids);

/* A dead letter, copied. */
typedef struct letter {
    char id[ID_ROOM], name[SEMEL_NAME_MAX + 1], error[512];
    uint32_t attempts;
} letter;

typedef struct letters {
    letter all[16];
    size_t count;
} letters;

letters read_letters(const service_case *s);
void expect_empty_queue(const service_case *s);

/* --- services --------------------------------------------------------------------------------- */

typedef struct service {
    semel_store *store;
    semel_outbox *outbox; /* "out": faults of the inbox, what the relay takes */
    semel_inbox *inbox;   /* "stock" */
    semel_transport *transport;
    semel_consumer *consumer;
    semel_relay *relay;
    semel_error err;
} service;

/* In SQLite a handler that waits for the test (wait_for_harm) has the lock of the whole store;
 * that others wait for it is no trouble to tell of. On a server this would also be how long one
 * that is away is waited for. */
void service_open_store(service *v, const service_case *s, const semel_seam *seam);

/* Of all messages, by this handler (NULL: service_case_handle). Sizes need not be set. */
void service_open_consumer(service *v, service_case *s, semel_handler *handler,
                           semel_inbox_options inbox, semel_consumer_options consumer);

/* To an exchange of the service_case's broker. */
void service_open_relay(service *v, const service_case *s, const char *exchange,
                        semel_relay_options relay, const semel_seam *seam);
void service_close(service *v);

/* Stepping until a condition holds. */
#define STEP_UNTIL(v, condition)                                                                  \
    do {                                                                                          \
        int64_t step_until = process_now_ms() + KIT_WAIT_MS;                                      \
        size_t step_settled;                                                                      \
        while (!(condition)) {                                                                    \
            if (process_now_ms() > step_until)                                                    \
                fail_msg("line %d: never: %s", __LINE__, #condition);                             \
            OK((v)->consumer ? semel_consumer_step(&step_settled, (v)->consumer, 20, &last_error) \
                             : semel_relay_step(&step_settled, (v)->relay, 20, &last_error));     \
        }                                                                                         \
    } while (0)

/* --- services as processes -------------------------------------------------------------------- */

/* Of a process that dies at this point; its clock is the real one. */
semel_seam lethal_at(const char *point);

/* For a process that has one consumer. */
void stop_at_sigterm(semel_consumer *consumer);

/* Until SIGTERM. */
int run_consumer_in_child(service *v, const service_case *s);

/* Its end is process_wait()'s to take. */
int has_ended(pid_t pid);

/* Tells a child that runs a consumer to stop, and takes its end. The thread sanitizer forgets a
 * signal now and then (test_threads_relay.c): there it is sent again. */
int stop_and_wait(pid_t pid);

#endif
