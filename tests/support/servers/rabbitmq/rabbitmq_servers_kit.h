/* For the tests of consumer and relay on a real broker with a real store: a scene is a queue and a store that nobody
 * else has; services open what they need on it, in this process or in one that is started to be killed.
 *
 * Messages are known by short ids, a letter and a number. The letter is the message's group, and says what the
 * handler does with it: `p` kills the process, `f` fails, the others are well. Every run writes a row with the id into
 * the table `effect` first, in the transaction of its message, and is noted in memory that outlives its process.
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

typedef struct scene {
    rabbit_kit kit;
    scratch directory;
    char store[SERVER_URL_ROOM];
    tally *tally;
    pid_t children[CHILDREN_MAX]; /* that run */
} scene;

/* --- scenes ----------------------------------------------------------------------------------------- */

/* To make or to look at something, however busy the machine is. */
static inline semel_store *scene_store(const scene *s)
{
    semel_store_options patient = {.size = sizeof patient, .busy_ms = KIT_WAIT_MS};
    semel_store *store = NULL;
    OK(semel_store_open(&store, s->store, &patient, &last_error));
    return store;
}

static inline void scene_open_store(scene *s, const server_place *database)
{
    scratch_open(&s->directory);
    if (database)
        server_fresh(s->store, database);
    else
        scratch_sqlite(s->store, &s->directory, "shop.db");
    semel_store *store = scene_store(s);
    OK(semel_store_migrate(store, &last_error));
    semel_store_close(store);
    effect_build(s->store, "effect");
}

/* In this broker and this database server (NULL: SQLite). Queue and exchange are made; nothing stays open. */
static inline void scene_open_at(scene *s, const server_place *broker, const server_place *database,
                                 const char *parameters)
{
    *s = (scene){.tally = process_share(sizeof(tally))};
    scene_open_store(s, database);
    kit_prepare(&s->kit, broker, parameters);
    OK(semel_transport_open(&s->kit.transport, s->kit.url, NULL, &last_error));
    semel_transport_close(s->kit.transport);
    s->kit.transport = NULL;
}

static inline void scene_open(scene *s, server_kind kind, const char *parameters)
{
    server_place broker, database;
    server_find(&broker, SERVER_RABBITMQ);
    if (kind)
        server_find(&database, kind);
    scene_open_at(s, &broker, kind ? &database : NULL, parameters);
}

static inline void scene_close(scene *s)
{
    for (size_t i = 0; i < CHILDREN_MAX; i++)
        if (s->children[i] > 0) { /* the test has failed */
            (void)kill(s->children[i], SIGKILL);
            (void)process_wait(s->children[i], KIT_WAIT_MS);
        }
    kit_close(&s->kit);
    if (inspect_is_server(s->store))
        server_drop(s->store);
    scratch_close(&s->directory);
    process_unshare(s->tally, sizeof *s->tally);
}

/* Fixtures: *state is a variant before, and a scene in the test. */
static inline int scene_setup(void **state)
{
    const variant *where = *state;
    scene *s = calloc(1, sizeof *s);
    scene_open(s, where->kind, where->queue);
    *state = s;
    return 0;
}

static inline int scene_teardown(void **state)
{
    scene_close(*state);
    free(*state);
    return 0;
}

/* clang-format off */
#define QUORUM  "declare=yes&type=quorum"
#define CLASSIC "declare=yes&type=classic"
#define IN_SCENE(function, on, kind, queue) \
    {#function ", " on, function, scene_setup, scene_teardown, &(variant){kind, queue}}
#define ON_SQLITE(function, queue)   IN_SCENE(function, "sqlite", (server_kind)0, queue)
#define ON_POSTGRES(function, queue) IN_SCENE(function, "postgres", SERVER_POSTGRES, queue)
#define ON_MARIADB(function, queue)  IN_SCENE(function, "mariadb", SERVER_MARIADB, queue)
/* clang-format on */

/* --- messages --------------------------------------------------------------------------------------- */

/* One for each id, separated by spaces, in this order, by a transport that only publishes. */
static inline void scene_publish(scene *s, const char *ids)
{
    char texts[KIT_BATCH][ID_ROOM], groups[KIT_BATCH][2];
    semel_message messages[KIT_BATCH];
    semel_publish_result results[KIT_BATCH];
    size_t count = 0;
    for (int read; count < KIT_BATCH && sscanf(ids, "%47s%n", texts[count], &read) == 1; count++) {
        ids += read;
        (void)snprintf(groups[count], sizeof groups[count], "%.1s", texts[count]);
        messages[count] = text_message(texts[count], texts[count]);
        messages[count].group = groups[count];
    }
    kit_publish_only(&s->kit, "");
    OK(kit_publish(&s->kit, results, messages, count, KIT_WAIT_MS));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(results[i], SEMEL_PUBLISH_CONFIRMED);
    semel_transport_close(s->kit.transport);
    s->kit.transport = NULL;
}

/* "g0 g1 g2 ...", into out[KIT_SAID]; returns out. */
static inline const char *numbered(char out[KIT_SAID], char initial, unsigned from, unsigned count)
{
    size_t used = 0;
    out[0] = 0;
    for (unsigned i = from; i < from + count; i++)
        used += (size_t)snprintf(out + used, KIT_SAID - used, "%c%u ", initial, i);
    return out;
}

/* --- the handler ------------------------------------------------------------------------------------ */

static inline void note_run(const scene *s, const semel_unit *unit, const semel_message *message)
{
    unsigned index = atomic_load(&s->tally->begun);
    while (!atomic_compare_exchange_weak(&s->tally->begun, &index, index + 1))
        continue;
    PROCESS_REQUIRE(index < RUNS_MAX);
    run *r = &s->tally->runs[index];
    (void)snprintf(r->id, sizeof r->id, "%.*s", (int)message->id.len,
                   (const char *)message->id.data);
    r->delivery = message->delivery;
    r->attempt = semel_unit_attempt(unit);
    r->at_ms = process_now_ms();
    r->pid = getpid();
}

/* Its context is the scene. */
static inline semel_status scene_handle(semel_unit *unit, const semel_message *message,
                                        void *context, semel_error *err)
{
    const scene *s = context;
    char id[ID_ROOM];
    (void)snprintf(id, sizeof id, "%.*s", (int)message->id.len, (const char *)message->id.data);
    note_run(s, unit, message);
    semel_status status = effect_write(unit, s->store, "effect", id, 0, err);
    if (!status && id[0] == 'p')
        raise(SIGKILL);
    if (!status && id[0] == 'f')
        status = semel_fail(err, SEMEL_EHANDLER, "%s is out of paper", id);
    return status;
}

/* For a handler: when `most` runs have begun, all of them wait for the test, which may be late to do its harm. */
static inline void wait_for_harm(const scene *s, unsigned most)
{
    int64_t until = process_now_ms() + KIT_WAIT_MS;
    while (atomic_load(&s->tally->begun) > most && !atomic_load(&s->tally->struck) &&
           process_now_ms() < until)
        process_nap();
}

/* For semel_notice; its context is the tally. */
static inline void note_trouble(void *context, const semel_error *trouble)
{
    tally *t = context;
    atomic_fetch_add(trouble ? &t->troubles : &t->relief, 1);
}

/* --- what became of it ------------------------------------------------------------------------------ */

static inline unsigned runs_of(const scene *s, const char *id)
{
    unsigned count = 0, begun = atomic_load(&s->tally->begun);
    for (unsigned i = 0; i < begun; i++)
        count += strcmp(s->tally->runs[i].id, id) == 0;
    return count;
}

static inline int64_t effects(const scene *s)
{
    return inspect_number(s->store, "SELECT count(*) FROM effect");
}

static inline int64_t effects_of(const scene *s, const char *id)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM effect WHERE item = '%s'", id);
    return inspect_number(s->store, sql);
}

static inline int64_t dead_letters(const scene *s)
{
    return inspect_number(s->store, "SELECT count(*) FROM semel_dead");
}

static inline int64_t unsent(const scene *s)
{
    return inspect_number(s->store, "SELECT count(*) FROM semel_outbox");
}

/* What a dead process had leased or claimed may be had at once. So leases can be as long as a turn may take. */
static inline void end_leases(const scene *s)
{
    if (inspect_is_server(s->store))
        inspect_wait_quiet(s->store);
    inspect_run(s->store, "UPDATE semel_outbox SET wake_ms = captured_ms WHERE token IS NOT NULL");
    inspect_run(s->store,
                "UPDATE semel_marker SET lease_until_ms = 1 WHERE lease_until_ms IS NOT NULL");
}

/* Each of these messages had its effect once, and nobody else had one. */
static inline void expect_effects(const scene *s, const char *ids)
{
    char id[ID_ROOM];
    int64_t count = 0;
    for (int read; sscanf(ids, "%47s%n", id, &read) == 1; ids += read, count++)
        if (effects_of(s, id) != 1)
            fail_msg("%s had %d effects", id, (int)effects_of(s, id));
    assert_int_equal(effects(s), count);
}

/* A dead letter, copied. */
typedef struct letter {
    char id[ID_ROOM], name[SEMEL_NAME_MAX + 1], error[512];
    uint32_t attempts;
} letter;

typedef struct letters {
    letter all[16];
    size_t count;
} letters;

static inline semel_status keep_letter(const semel_dead *dead, void *context, semel_error *err)
{
    letters *kept = context;
    letter *l = &kept->all[kept->count++ % 16];
    semel_bytes id = dead->message ? dead->message->id : (semel_bytes){NULL, 0};
    (void)err;
    (void)snprintf(l->id, sizeof l->id, "%.*s", (int)id.len, id.len ? (const char *)id.data : "");
    (void)snprintf(l->name, sizeof l->name, "%s", dead->name);
    (void)snprintf(l->error, sizeof l->error, "%s", dead->error);
    l->attempts = dead->attempts;
    return SEMEL_OK;
}

static inline letters read_letters(const scene *s)
{
    semel_store *store = scene_store(s);
    letters kept = {0};
    OK(semel_dead_list(store, NULL, keep_letter, &kept, &last_error));
    semel_store_close(store);
    assert_in_range(kept.count, 0, 16);
    return kept;
}

static inline void expect_empty_queue(const scene *s)
{
    EVENTUALLY(broker_count(&s->kit.broker, s->kit.queue) == 0);
}

/* --- services --------------------------------------------------------------------------------------- */

typedef struct service {
    semel_store *store;
    semel_outbox *outbox; /* "out": faults of the inbox, what the relay takes */
    semel_inbox *inbox;   /* "stock" */
    semel_transport *transport;
    semel_consumer *consumer;
    semel_relay *relay;
    semel_error err;
} service;

/* In SQLite a handler that waits for the test (wait_for_harm) has the lock of the whole store; that others wait for it
 * is no trouble to tell of. On a server this would also be how long one that is away is waited for. */
static inline void service_open_store(service *v, const scene *s, const semel_seam *seam)
{
    semel_store_options options = {.size = sizeof options,
                                   .seam = seam,
                                   .busy_ms = inspect_is_server(s->store) ? 0 : KIT_WAIT_MS};
    int64_t until = process_now_ms() + KIT_WAIT_MS;
    semel_status status;
    *v = (service){0};
    do
        status = semel_store_open(&v->store, s->store, &options, &v->err);
    while (status == SEMEL_EUNAVAILABLE && process_now_ms() < until);
    PROCESS_REQUIRE_OK(status, &v->err);
    PROCESS_REQUIRE_OK(semel_outbox_open(&v->outbox, v->store, "out", &v->err), &v->err);
}

/* Of all messages, by this handler (NULL: scene_handle). Sizes need not be set. */
static inline void service_open_consumer(service *v, scene *s, semel_handler *handler,
                                         semel_inbox_options inbox, semel_consumer_options consumer)
{
    semel_route route = {"*", NULL, handler ? handler : scene_handle, s};
    service_open_store(v, s, NULL);
    inbox.size = sizeof inbox;
    consumer.size = sizeof consumer;
    PROCESS_REQUIRE_OK(semel_inbox_open(&v->inbox, v->store, "stock", &inbox, &v->err), &v->err);
    PROCESS_REQUIRE_OK(semel_transport_open(&v->transport, s->kit.url, NULL, &v->err), &v->err);
    route.inbox = v->inbox;
    PROCESS_REQUIRE_OK(
        semel_consumer_open(&v->consumer, v->transport, &route, 1, &consumer, &v->err), &v->err);
}

/* To an exchange of the scene's broker. */
static inline void service_open_relay(service *v, const scene *s, const char *exchange,
                                      semel_relay_options relay, const semel_seam *seam)
{
    char url[SERVER_URL_ROOM + BROKER_NAME_ROOM + 16];
    (void)snprintf(url, sizeof url, "%s?exchange=%s", s->kit.broker.url, exchange);
    service_open_store(v, s, seam);
    relay.size = sizeof relay;
    PROCESS_REQUIRE_OK(semel_transport_open(&v->transport, url, NULL, &v->err), &v->err);
    PROCESS_REQUIRE_OK(semel_relay_open(&v->relay, v->outbox, v->transport, &relay, &v->err),
                       &v->err);
}

static inline void service_close(service *v)
{
    semel_consumer_close(v->consumer);
    semel_relay_close(v->relay);
    semel_transport_close(v->transport);
    semel_inbox_close(v->inbox);
    semel_outbox_close(v->outbox);
    semel_store_close(v->store);
    *v = (service){0};
}

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

/* --- services as processes -------------------------------------------------------------------------- */

static inline semel_status die_there(void *context, const char *point)
{
    if (strcmp(point, context) == 0)
        raise(SIGKILL);
    return SEMEL_OK;
}

/* Of a process that dies at this point; its clock is the real one. */
static inline semel_seam lethal_at(const char *point)
{
    return (semel_seam){
        .size = sizeof(semel_seam), .context = (void *)(uintptr_t)point, .fault = die_there};
}

static semel_consumer *child_consumer;

static inline void stop_child(int signal_number)
{
    (void)signal_number;
    semel_consumer_stop(child_consumer);
}

/* Until SIGTERM. */
static inline int run_consumer_in_child(service *v, const scene *s)
{
    child_consumer = v->consumer;
    (void)signal(SIGTERM, stop_child);
    atomic_fetch_add(&s->tally->ready, 1);
    PROCESS_REQUIRE_OK(semel_consumer_run(v->consumer, &v->err), &v->err);
    (void)signal(SIGTERM, SIG_IGN); /* there is nothing to stop any more */
    service_close(v);
    return PROCESS_OK;
}

/* Its end is process_wait()'s to take. */
static inline int has_ended(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

/* Tells a child that runs a consumer to stop, and takes its end. The thread sanitizer forgets a signal now and then
 * (test_threads_relay.c): there it is sent again. */
static inline int stop_and_wait(pid_t pid)
{
    enum { AGAIN_MS = SANITIZER_SLOWDOWN > 1 ? 3000 : KIT_WAIT_MS };
    int64_t until = process_now_ms() + KIT_WAIT_MS, next = 0;
    for (; !has_ended(pid) && process_now_ms() < until; process_nap())
        if (process_now_ms() >= next) {
            (void)kill(pid, SIGTERM);
            next = process_now_ms() + AGAIN_MS;
        }
    return process_wait(pid, 0);
}

#endif
