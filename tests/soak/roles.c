/* The processes that are killed: consumers, relays, and the consumers of what the relays sent.
 *
 * A handler has one effect (effect.h), which would take a second one of the same message, and
 * (in the first stage) sends one message to the outbox. One message in some fails at its first
 * attempt, one in some takes its time, so that there is something to kill, and one in the whole
 * run is poison: it kills its process. The roles differ in what they use of the library: native or
 * queued, ordered or not. Batches are as large as the consumer wants them, and a handler that takes
 * its time cuts them short.
 *
 * A process gets no help here: one that loses its database or its broker must go on by itself.
 * Ending for any other reason than SIGTERM, SIGKILL or the poison is a finding, and its last
 * error goes to stderr. */
#include "brokers.h"
#include "counted.h"

#include <semel/semel.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    OPENING_MS = 120000, /* for a server that is down to come back */
    FAILING_EVERY = 53,
    SLOW_EVERY = 40,
    SLOW_MS_MIN = 20,
    SLOW_MS_MAX = 60,
    WORKERS = 4
};

const char *const soak_role_names[SOAK_ROLES] = {"ordered", "free", "relay", "second"};

static const struct habit {
    semel_mode mode;
    semel_order order;
} habits[SOAK_ROLES] = {
    [SOAK_ORDERED] = {SEMEL_TRANSACTION, SEMEL_ORDER_GROUP},
    [SOAK_FREE] = {SEMEL_QUEUED, SEMEL_ORDER_NONE},
    [SOAK_SECOND] = {SEMEL_TRANSACTION, SEMEL_ORDER_GROUP},
};

typedef struct worker {
    const soak_slot *slot;
    unsigned stage; /* 1 for the second consumers */
    semel_store *store;
    effect effect;
    semel_inbox *inbox;
    semel_outbox *outbox;
    semel_transport *transport;
    semel_error err;
} worker;

/* --- what is said ----------------------------------------------------------------------------- */

static void note(const worker *w, const char *what)
{
    soak_log(w->slot->run, "%s %u (%d): %s", soak_role_names[w->slot->role], w->slot->number,
             (int)getpid(), what);
}

static void on_notice(void *context, const semel_error *trouble)
{
    worker *w = context;
    soak_counters *counters = w->slot->run->counters;
    atomic_fetch_add(&counters->troubles, trouble != NULL);
    atomic_fetch_add(&counters->outages, trouble && trouble->status == SEMEL_EUNAVAILABLE);
    note(w, trouble ? trouble->text : "it is over");
}

static _Noreturn void give_up(worker *w, const char *where)
{
    note(w, w->err.text);
    (void)fprintf(stderr, "\nsemel-soak: %s %u (process %d) ends in %s: %s: %s\n",
                  soak_role_names[w->slot->role], w->slot->number, (int)getpid(), where,
                  semel_status_name(w->err.status), w->err.text);
    _exit(PROCESS_REQUIRED);
}

/* --- opening ---------------------------------------------------------------------------------- */

/* 1: call again. A server may be down at this moment; anything else is the end. */
static int try_again(worker *w, semel_status status, int64_t deadline, const char *what)
{
    if (status == SEMEL_OK)
        return 0;
    if (!w->err.retryable || process_now_ms() > deadline)
        give_up(w, what);
    for (int naps = 0; naps < 250; naps++)
        process_nap();
    return 1;
}

#define UNTIL_OK(w, call)                                    \
    do {                                                     \
        int64_t until_ok = process_now_ms() + OPENING_MS;    \
        while (try_again((w), (call), until_ok, #call) != 0) \
            continue;                                        \
    } while (0)

static void begin(worker *w, const soak_slot *slot)
{
    *w = (worker){.slot = slot, .stage = slot->role == SOAK_SECOND};
    prctl(PR_SET_NAME, soak_role_names[slot->role]);
    const store_place *place = &slot->run->places[w->stage];
    UNTIL_OK(w, semel_store_open(&w->store, place->url, NULL, &w->err));
    UNTIL_OK(w, effect_open(&w->effect, place, w->store, soak_effect_names[w->stage], &w->err));
    UNTIL_OK(w, semel_outbox_open(&w->outbox, w->store, "out", &w->err));
}

static void end(worker *w)
{
    semel_transport_close(w->transport);
    effect_close(&w->effect);
    semel_inbox_close(w->inbox);
    semel_outbox_close(w->outbox);
    semel_store_close(w->store);
}

/* --- handling --------------------------------------------------------------------------------- */

static unsigned digest(semel_bytes bytes)
{
    const unsigned char *byte = bytes.data;
    unsigned sum = 0;
    for (size_t i = 0; i < bytes.len; i++)
        sum = sum * 31 + byte[i];
    return sum;
}

static semel_status send_on(worker *w, semel_unit *unit, const semel_message *message,
                            const char *group, semel_error *err)
{
    semel_message out = {.size = sizeof out,
                         .type = "order.handled",
                         .topic = group,
                         .group = group,
                         .content_type = "text/plain",
                         .body = message->body};
    return semel_unit_send(unit, w->outbox, &out, err);
}

/* The rest of the digest says how long, so the same ones are slow each time. */
static void take_time(const semel_message *message)
{
    unsigned sum = digest(message->body);
    unsigned ms = SLOW_MS_MIN + sum / SLOW_EVERY % (SLOW_MS_MAX - SLOW_MS_MIN + 1);
    struct timespec rest = {0, (long)ms * 1000000};
    if (sum % SLOW_EVERY == 0)
        (void)nanosleep(&rest, NULL);
}

static void obey_poison(const worker *w, const semel_message *message)
{
    if (!message->type || strcmp(message->type, "order.poison") != 0)
        return;
    atomic_store(&w->slot->run->counters->poisoned[w->slot->index], getpid());
    note(w, "dies of the poison");
    (void)raise(SIGKILL);
}

/* The body is "GROUP NUMBER". */
static semel_status write_and_send(worker *w, semel_unit *unit, const semel_message *message,
                                   semel_error *err)
{
    char item[SOAK_TEXT], group[SOAK_TEXT];
    soak_print(item, sizeof item, "%.*s", (int)message->body.len, (const char *)message->body.data);
    soak_print(group, sizeof group, "%.*s", (int)strcspn(item, " "), item);
    semel_status status = effect_write_in_group(&w->effect, unit, group, item, 1, err);
    return status || w->stage ? status : send_on(w, unit, message, group, err);
}

static semel_status do_the_work(worker *w, semel_unit *unit, const semel_message *message,
                                semel_error *err)
{
    soak_counters *counters = w->slot->run->counters;
    if (digest(message->body) % FAILING_EVERY == 0 && semel_unit_attempt(unit) == 1) {
        atomic_fetch_add(&counters->failed, 1);
        return semel_fail(err, SEMEL_EHANDLER, "not the first time");
    }
    semel_status status = write_and_send(w, unit, message, err);
    take_time(message);
    obey_poison(w, message);
    if (!status)
        atomic_fetch_add(&counters->handled[w->stage], 1);
    return status;
}

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    worker *w = context;
    atomic_int_least64_t *at_work = &w->slot->run->counters->at_work[w->slot->index];
    atomic_fetch_add(at_work, 1);
    semel_status status = do_the_work(w, unit, message, err);
    atomic_fetch_sub(at_work, 1);
    return status;
}

/* --- consuming and relaying ------------------------------------------------------------------- */

/* For the signal handler, which may run in any thread. */
static semel_consumer *_Atomic running_consumer;
static semel_relay *_Atomic running_relay;

static void on_term(int number)
{
    semel_consumer *consumer = atomic_load(&running_consumer);
    semel_relay *relay = atomic_load(&running_relay);
    (void)number;
    if (consumer)
        semel_consumer_stop(consumer);
    else if (relay)
        semel_relay_stop(relay);
    else
        _exit(PROCESS_OK); /* nothing has begun */
}

static void obey_term(void)
{
    struct sigaction action = {.sa_handler = on_term};
    sigset_t told;
    sigemptyset(&told);
    sigaddset(&told, SIGTERM);
    sigaction(SIGTERM, &action, NULL);
    sigprocmask(SIG_UNBLOCK, &told, NULL);
}

static void consume(worker *w)
{
    char url[SOAK_URL];
    semel_consumer *consumer;
    const struct habit *habit = &habits[w->slot->role];
    int queues = habit->mode == SEMEL_QUEUED && !w->slot->run->options->by_message;
    semel_inbox_options inbox = {.size = sizeof inbox,
                                 .mode = queues ? SEMEL_QUEUED : SEMEL_TRANSACTION};
    semel_consumer_options options = {.size = sizeof options,
                                      .backoff_ms = 50,
                                      .backoff_max_ms = 2000,
                                      .workers = WORKERS,
                                      .order = habit->order,
                                      .notice = on_notice,
                                      .notice_context = w};
    w->slot->run->options->broker->url(url, w->slot->run, w->slot->role, 0);
    UNTIL_OK(
        w, semel_inbox_open(&w->inbox, w->store, w->stage ? "mirror" : "orders", &inbox, &w->err));
    UNTIL_OK(w, counted_open(&w->transport, url, &w->slot->run->counters->delivered[w->stage],
                             &w->slot->run->counters->again[w->stage], &w->err));
    semel_route route = {"order.*", w->inbox, handle, w};
    UNTIL_OK(w, semel_consumer_open(&consumer, w->transport, &route, 1, &options, &w->err));
    atomic_store(&running_consumer, consumer);
    if (semel_consumer_run(consumer, &w->err) != SEMEL_OK)
        give_up(w, "semel_consumer_run");
    atomic_store(&running_consumer, NULL);
    semel_consumer_close(consumer);
}

static void relay_on(worker *w)
{
    char url[SOAK_URL];
    semel_relay *relay;
    semel_relay_options options = {.size = sizeof options,
                                   .poll_ms = 100,
                                   .lease_ms = 3000,
                                   .backoff_max_ms = 2000,
                                   .notice = on_notice,
                                   .notice_context = w};
    w->slot->run->options->broker->url(url, w->slot->run, w->slot->role, 0);
    UNTIL_OK(w, semel_transport_open(&w->transport, url, NULL, &w->err));
    UNTIL_OK(w, semel_relay_open(&relay, w->outbox, w->transport, &options, &w->err));
    atomic_store(&running_relay, relay);
    if (semel_relay_run(relay, &w->err) != SEMEL_OK)
        give_up(w, "semel_relay_run");
    atomic_store(&running_relay, NULL);
    semel_relay_close(relay);
}

/* SIGTERM is blocked until obey_term() is ready for it. */
int soak_role_run(void *context)
{
    const soak_slot *slot = context;
    static worker w;
    soak_leave();
    obey_term();
    begin(&w, slot);
    if (slot->role == SOAK_RELAY)
        relay_on(&w);
    else
        consume(&w);
    end(&w);
    return PROCESS_OK;
}
