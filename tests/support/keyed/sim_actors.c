/* Who takes part: workers that handle deliveries, relays, a producer; and the broker. */
#include "support/keyed/sim.h"

#include <stdlib.h>
#include <string.h>

enum { TICK_MS = 40 };

/* --- the broker's deliveries ------------------------------------------------------------------ */

int sim_work_left(const sim *s)
{
    for (int i = 0; i < s->delivery_count; i++)
        if (!s->deliveries[i].gone)
            return 1;
    return 0;
}

int sim_to_send(const sim *s)
{
    return s->producing || s->rows_out || sim_work_left(s) ||
           keyed_memory_in_flight(s->memory) != 0;
}

static int take_one(sim_process *p)
{
    sim *s = p->world;
    unsigned from = sim_below(s, (unsigned)s->delivery_count);
    for (int i = 0; i < s->delivery_count; i++) {
        int which = (int)(from + (unsigned)i) % s->delivery_count;
        sim_delivery *d = &s->deliveries[which];
        if (d->gone || d->taken || d->due_ms > s->now_ms)
            continue;
        d->taken = (int)p->index + 1;
        d->count++;
        return which;
    }
    return -1;
}

static void take(sim_process *p)
{
    int most = sim_chance(p->world, 300) ? 3 : 1;
    p->batch_count = 0;
    while (p->batch_count < most) {
        int which = take_one(p);
        if (which < 0)
            return;
        p->batch[p->batch_count++] = which;
    }
}

static void give_back(sim *s, sim_delivery *d)
{
    d->taken = 0;
    d->due_ms = s->now_ms + 20 + sim_below(s, 2000);
}

static int64_t next_due(const sim *s)
{
    int64_t next = s->now_ms + 500;
    for (int i = 0; i < s->delivery_count; i++)
        if (!s->deliveries[i].gone && !s->deliveries[i].taken && s->deliveries[i].due_ms < next)
            next = s->deliveries[i].due_ms;
    return next > s->now_ms ? next : s->now_ms + 1;
}

/* All wait for something that is far away: time may pass at once. */
static int64_t far_due(const sim *s)
{
    int64_t next = INT64_MAX;
    for (int i = 0; i < s->delivery_count; i++)
        if (!s->deliveries[i].gone) {
            if (s->deliveries[i].taken)
                return s->now_ms;
            if (s->deliveries[i].due_ms < next)
                next = s->deliveries[i].due_ms;
        }
    return next;
}

/* --- handlers --------------------------------------------------------------------------------- */

static int new_run(sim_process *p, int message, int group)
{
    sim *s = p->world;
    if (s->run_count == SIM_RUNS_MAX)
        return -1;
    s->runs[s->run_count] = (sim_run){.message = message, .group = group};
    return s->run_count++;
}

static semel_status add_to(semel_unit *unit, char kind, int number, semel_error *err)
{
    char name[16];
    (void)snprintf(name, sizeof name, "%c%d", kind, number);
    semel_value values[] = {semel_text(name), semel_int(1)};
    return semel_unit_queue(unit, "add ? ?", values, 2, err);
}

static semel_status do_work(sim_process *p, semel_unit *unit, int run, semel_error *err)
{
    static const char *const groups[SIM_GROUPS] = {NULL, "one", "two"};
    const sim_run *r = &p->world->runs[run];
    char id[24], body[32];
    (void)snprintf(id, sizeof id, "run:%d;", run);
    (void)snprintf(body, sizeof body, "body of %d", run);
    semel_message message = {.size = sizeof message,
                             .id = semel_str(id),
                             .topic = "t",
                             .group = groups[r->group],
                             .body = semel_str(body)};
    semel_status status = add_to(unit, 'r', run, err);
    if (!status && r->message >= 0)
        status = add_to(unit, 'e', r->message, err);
    return status ? status : semel_unit_send(unit, p->outbox, &message, err);
}

static int fails(sim *s, int message)
{
    sim_message *m = &s->messages[message];
    if (m->poison)
        return 1;
    if (!m->flaky)
        return 0;
    m->flaky--;
    return 1;
}

static void be_slow(sim_process *p)
{
    sim *s = p->world;
    if (sim_chance(s, 400))
        sim_yield(p);
    if (!s->calm && s->fault_permille && sim_chance(s, 60))
        sim_sleep(p, 1 + sim_below(s, 3 * s->lease_ms));
}

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    sim_process *p = context;
    if (p->dead)
        return semel_fail(err, SEMEL_EHANDLER, "dead");
    int which = (int)strtol((const char *)message->id.data + 1, NULL, 10);
    sim_started(p, which, semel_unit_attempt(unit));
    int run = new_run(p, which, p->world->messages[which].group);
    if (run < 0)
        return semel_fail(err, SEMEL_EHANDLER, "too many runs");
    if (p->run_count < (int)(sizeof p->runs / sizeof *p->runs))
        p->runs[p->run_count++] = run;
    be_slow(p);
    if (p->dead)
        return semel_fail(err, SEMEL_EHANDLER, "dead");
    if (fails(p->world, which))
        return semel_fail(err, SEMEL_EHANDLER, "failed");
    if (p->world->mode == SEMEL_CLAIM && sim_chance(p->world, 100)) {
        semel_status status = semel_unit_renew(unit, 0, err);
        if (status)
            return status;
    }
    return do_work(p, unit, run, err);
}

/* --- workers ---------------------------------------------------------------------------------- */

static semel_status known_failure(semel_status status)
{
    return status && status != SEMEL_EUNKNOWN ? status : SEMEL_ECONFLICT;
}

/* The last run for this message has the answer; those before it were undone. */
static void tell(sim_process *p, int message, semel_status status, semel_outcome outcome)
{
    int last = -1;
    for (int i = 0; i < p->run_count; i++)
        if (p->world->runs[p->runs[i]].message == message)
            last = p->runs[i];
    for (int i = 0; i < p->run_count; i++) {
        int run = p->runs[i];
        if (p->world->runs[run].message != message)
            continue;
        if (run != last)
            sim_told(p->world, run, SEMEL_ECONFLICT);
        else if (outcome == SEMEL_PROCESSED)
            sim_told(p->world, run, SEMEL_OK);
        else
            sim_told(p->world, run, status == SEMEL_EUNKNOWN ? status : known_failure(status));
    }
}

/* Two copies of a message in one batch: which run was for which of them is not known. */
static int comes_twice(const sim_process *p, int message)
{
    int copies = 0;
    for (int i = 0; i < p->batch_count; i++)
        copies += p->world->deliveries[p->batch[i]].message == message;
    return copies > 1;
}

static void settle(sim_process *p, sim_delivery *d, semel_status status, semel_outcome outcome)
{
    sim *s = p->world;
    if (!status || (status == SEMEL_EREJECTED && outcome == SEMEL_STALE)) {
        sim_acknowledged(s, d->message, outcome);
        d->gone = 1;
        return;
    }
    sim_note(s, "message %d: %s, %s", d->message, semel_status_name(status),
             semel_outcome_name(outcome));
    if (status == SEMEL_EREJECTED || status == SEMEL_EMISUSE || status == SEMEL_EINVAL ||
        status == SEMEL_ESTORE || status == SEMEL_ENOTFOUND)
        sim_violation(s, "message %d: %s, %s", d->message, semel_status_name(status),
                      semel_outcome_name(outcome));
    give_back(s, d);
}

static void fill_message(semel_message *out, char id[8], const sim *s, const sim_delivery *d)
{
    (void)snprintf(id, 8, "m%d", d->message);
    *out = (semel_message){.size = sizeof *out,
                           .id = semel_str(id),
                           .time_ms = s->messages[d->message].made_ms,
                           .delivery = d->count,
                           .body = semel_str("order")};
}

static void receive(sim_process *p)
{
    sim *s = p->world;
    semel_message messages[4];
    const semel_message *pointers[4];
    char ids[4][8];
    semel_outcome outcomes[4] = {SEMEL_UNDECIDED};
    semel_error err = {.status = SEMEL_OK};
    semel_status status;
    p->run_count = 0;
    for (int i = 0; i < p->batch_count; i++) {
        fill_message(&messages[i], ids[i], s, &s->deliveries[p->batch[i]]);
        pointers[i] = &messages[i];
        sim_note(s, "receives message %d, delivery %u", s->deliveries[p->batch[i]].message,
                 messages[i].delivery);
    }
    int one = p->batch_count == 1;
    status = one ? semel_inbox_receive(outcomes, p->inbox, messages, handle, p, &err)
                 : semel_inbox_receive_batch(outcomes, p->inbox, pointers, (size_t)p->batch_count,
                                             handle, p, &err);
    if (status && !p->dead)
        sim_note(s, "says: %s", err.text);
    for (int i = 0; i < p->batch_count; i++) {
        sim_delivery *d = &s->deliveries[p->batch[i]];
        semel_status own = status;
        if (!one) /* each has an outcome; what is undecided may be committed */
            own = semel_outcome_settled(outcomes[i]) ? SEMEL_OK
                  : outcomes[i] == SEMEL_STALE       ? SEMEL_EREJECTED
                  : outcomes[i] == SEMEL_UNDECIDED   ? SEMEL_EUNKNOWN
                  : outcomes[i] == SEMEL_IN_PROGRESS ? SEMEL_EBUSY
                                                     : SEMEL_EHANDLER;
        if (p->dead) {
            give_back(s, d);
            continue;
        }
        if (!comes_twice(p, d->message))
            tell(p, d->message, own, outcomes[i]);
        settle(p, d, own, outcomes[i]);
    }
}

static void sweep(sim_process *p)
{
    size_t swept = 0;
    int more = 1;
    semel_error err;
    sim_note(p->world, "sweeps");
    while (more && !p->dead && !semel_inbox_sweep(&swept, &more, p->inbox, 2, &err))
        continue;
}

/* --- opening ---------------------------------------------------------------------------------- */

static void close_all(sim_process *p)
{
    semel_relay_close(p->relay);
    semel_transport_close(p->transport);
    semel_outbox_close(p->outbox);
    semel_inbox_close(p->inbox);
    semel_store_close(p->store);
    p->relay = NULL;
    p->transport = NULL;
    p->outbox = NULL;
    p->inbox = NULL;
    p->store = NULL;
}

static semel_status open_store(sim_process *p, semel_error *err)
{
    semel_store_options options = {
        .size = sizeof options, .busy_ms = 2000, .answer_ms = 3000, .seam = &p->seam};
    semel_status status = semel_store_open_keyed(&p->store, keyed_memory_driver(p->world->memory),
                                                 "simulation", &options, err);
    if (!status)
        status = semel_store_migrate(p->store, err);
    return status ? status : semel_outbox_open(&p->outbox, p->store, "out", err);
}

static semel_status open_inbox(sim_process *p, semel_error *err)
{
    const sim *s = p->world;
    semel_inbox_options options = {.size = sizeof options,
                                   .mode = s->mode,
                                   .wait_ms = 300,
                                   .lease_ms = s->lease_ms,
                                   .attempts_max = s->attempts_max,
                                   .retention_ms = s->retention_ms,
                                   .clock_margin_ms = 1000};
    return semel_inbox_open(&p->inbox, p->store, "in", &options, err);
}

/* 1: open. Faults are met again and again, until it works or the process dies. */
static int opened(sim_process *p, semel_status (*open_more)(sim_process *p, semel_error *err))
{
    semel_error err;
    while (!p->dead && p->world->calm < 2) {
        semel_status status = open_store(p, &err);
        if (!status && open_more)
            status = open_more(p, &err);
        if (!status)
            return 1;
        sim_note(p->world, "cannot open: %s", err.text);
        close_all(p);
        sim_sleep(p, 100);
    }
    return 0;
}

/* The next process in this place. */
static void reborn(sim_process *p)
{
    close_all(p);
    p->dead = 0;
    p->apart_ms = 0;
    p->lost_place = 0;
    sim_note(p->world, "begins anew");
    sim_sleep(p, 10 + sim_below(p->world, 3000));
}

static void wait_for_work(sim_process *p, int64_t least)
{
    sim *s = p->world;
    int64_t far = far_due(s);
    if (far != INT64_MAX && far > s->now_ms + 20000)
        sim_sleep(p, 1 + sim_below(s, (unsigned)(far - s->now_ms < 10000000 ? far - s->now_ms
                                                                            : 10000000)));
    else
        sim_sleep(p, next_due(s) - s->now_ms + least);
}

static void rest(sim_process *p)
{
    if (p->world->sweeps && sim_chance(p->world, 150))
        sweep(p);
    else
        wait_for_work(p, 0);
}

static void worker(sim_process *p)
{
    sim *s = p->world;
    while (sim_work_left(s) && s->calm < 2) {
        if (opened(p, open_inbox))
            while (!p->dead && sim_work_left(s) && s->calm < 2) {
                take(p);
                if (p->batch_count)
                    receive(p);
                else
                    rest(p);
            }
        if (p->dead)
            reborn(p);
        else
            close_all(p);
    }
}

/* --- relays ----------------------------------------------------------------------------------- */

typedef struct sim_broker {
    sim_process *process;
} sim_broker;

static semel_status broker_open(void *transport, const char *argument,
                                const semel_transport_settings *settings, semel_error *err)
{
    (void)err;
    (void)argument;
    ((sim_broker *)transport)->process = settings->seam->context;
    return SEMEL_OK;
}

static void broker_close(void *transport)
{
    (void)transport;
}

static semel_durability broker_durability(const void *transport)
{
    (void)transport;
    return SEMEL_DURABLE_POWER;
}

static semel_publish_result publish_one(sim_process *p, const semel_message *message)
{
    sim *s = p->world;
    unsigned luck = s->calm ? 999 : sim_below(s, 1000);
    if (luck < s->fault_permille / 2)
        return SEMEL_PUBLISH_UNKNOWN; /* it did not arrive */
    if (luck < s->fault_permille) {
        sim_published(s, message, 0);
        return SEMEL_PUBLISH_UNKNOWN;
    }
    if (luck < s->fault_permille * 3 / 2)
        return SEMEL_PUBLISH_NACKED;
    sim_published(s, message, 1);
    return SEMEL_PUBLISH_CONFIRMED;
}

static semel_status broker_publish(void *transport, semel_publish_result results[],
                                   const semel_message *const messages[], size_t count,
                                   uint32_t wait_ms, semel_error *err)
{
    sim_process *p = ((sim_broker *)transport)->process;
    (void)wait_ms;
    for (size_t i = 0; i < count; i++) {
        results[i] = SEMEL_PUBLISH_UNKNOWN;
        if (p->dead)
            continue;
        be_slow(p);
        results[i] = publish_one(p, messages[i]);
    }
    if (p->dead)
        return semel_fail(err, SEMEL_EUNAVAILABLE, "dead");
    return SEMEL_OK;
}

static semel_status broker_receive(void *transport, semel_delivery deliveries[], size_t max,
                                   size_t *count, uint32_t wait_ms, semel_error *err)
{
    (void)transport;
    (void)deliveries;
    (void)max;
    (void)wait_ms;
    (void)err;
    *count = 0;
    return SEMEL_OK;
}

static semel_status broker_settle(void *transport, const semel_delivery_settlement settles[],
                                  size_t count, semel_error *err)
{
    (void)transport;
    (void)settles;
    (void)count;
    (void)err;
    return SEMEL_OK;
}

static const semel_transport_driver broker = {.version = SEMEL_TRANSPORT_DRIVER_VERSION,
                                              .scheme = "sim",
                                              .transport_size = sizeof(sim_broker),
                                              .open = broker_open,
                                              .close = broker_close,
                                              .durability = broker_durability,
                                              .publish = broker_publish,
                                              .receive = broker_receive,
                                              .settle = broker_settle};

static semel_status open_relay(sim_process *p, semel_error *err)
{
    semel_transport_options transport = {.size = sizeof transport, .seam = &p->seam};
    semel_relay_options options = {.size = sizeof options,
                                   .batch = 3,
                                   .lease_ms = p->world->lease_ms,
                                   .backoff_ms = 50,
                                   .backoff_max_ms = 400,
                                   .attempts_max = 1000};
    semel_status status =
        semel_transport_open_driver(&p->transport, &broker, "sim:", &transport, err);
    return status ? status : semel_relay_open(&p->relay, p->outbox, p->transport, &options, err);
}

static void relay(sim_process *p)
{
    sim *s = p->world;
    while (sim_to_send(s) && s->calm < 2) {
        if (opened(p, open_relay))
            while (!p->dead && sim_to_send(s) && s->calm < 2) {
                size_t sent = 0;
                semel_error err = {.status = SEMEL_OK};
                semel_status status = semel_relay_step(&sent, p->relay, 0, &err);
                if (status && !p->dead)
                    sim_note(s, "relay: %s", err.text);
                if (!sent && s->rows_out)
                    sim_sleep(p, TICK_MS + sim_below(s, 500));
                else if (!sent)
                    wait_for_work(p, TICK_MS + sim_below(s, 1000));
            }
        if (p->dead)
            reborn(p);
        else
            close_all(p);
    }
}

/* --- a producer ------------------------------------------------------------------------------- */

static void send_one(sim_process *p)
{
    sim *s = p->world;
    semel_unit *unit;
    semel_error err;
    int run = new_run(p, -1, (int)sim_below(s, SIM_GROUPS));
    if (run < 0)
        return;
    semel_status status = semel_unit_begin(&unit, p->store, &err);
    if (!status) {
        status = do_work(p, unit, run, &err);
        if (!status)
            status = semel_unit_commit(unit, &err);
        else
            semel_unit_rollback(unit);
    }
    if (!p->dead)
        sim_told(s, run, status);
}

static void producer(sim_process *p)
{
    sim *s = p->world;
    while (s->producing && s->calm < 2) {
        if (opened(p, NULL))
            while (!p->dead && s->producing && s->calm < 2) {
                send_one(p);
                s->producing--;
                sim_sleep(p, sim_below(s, 300));
            }
        if (p->dead)
            reborn(p);
        else
            close_all(p);
    }
}

/* --- the cast --------------------------------------------------------------------------------- */

static void add_process(sim *s, void (*work)(sim_process *p))
{
    s->processes[s->process_count++].work = work;
}

static void add_deliveries(sim *s, int message)
{
    unsigned copies = 1 + sim_below(s, 3);
    for (unsigned i = 0; i < copies; i++) {
        sim_delivery *d = &s->deliveries[s->delivery_count++];
        *d = (sim_delivery){.message = message, .due_ms = s->now_ms + sim_below(s, 200)};
        if (s->retention_ms && i)
            d->due_ms += (int64_t)s->retention_ms * (int64_t)sim_below(s, 4);
    }
}

static void choose_retention(sim *s)
{
    if (!sim_chance(s, 250))
        return;
    /* Longer than a process stands still: one that records the failure of a message after others
     * have handled and forgotten it would bring it back. */
    s->retention_ms = 900000;
    s->sweeps = 1;
    if (sim_chance(s, 250)) { /* long enough for what expires by itself */
        s->retention_ms = 10 * UINT64_C(86400000);
        s->sweeps = 0;
    }
}

void sim_people(sim *s)
{
    static const semel_mode modes[] = {SEMEL_TRANSACTION, SEMEL_CLAIM, SEMEL_QUEUED};
    static const unsigned rates[] = {0, 10, 30, 80};
    s->mode = modes[sim_below(s, 3)];
    s->fault_permille = rates[sim_below(s, 4)];
    s->lease_ms = 5000;
    s->attempts_max = 4;
    choose_retention(s);
    s->message_count = 1 + (int)sim_below(s, 3);
    for (int i = 0; i < s->message_count; i++) {
        s->messages[i] = (sim_message){.group = (int)sim_below(s, SIM_GROUPS),
                                       .made_ms = s->now_ms,
                                       .poison = sim_chance(s, 60),
                                       .flaky = sim_chance(s, 200) ? 1 : 0};
        add_deliveries(s, i);
    }
    unsigned workers = 1 + sim_below(s, 2) + (unsigned)sim_chance(s, 250);
    while (workers--)
        add_process(s, worker);
    add_process(s, relay);
    if (sim_chance(s, 400) && s->process_count < SIM_PROCESSES_MAX)
        add_process(s, relay);
    if (sim_chance(s, 300) && s->process_count < SIM_PROCESSES_MAX) {
        s->producing = 1 + (int)sim_below(s, 3);
        add_process(s, producer);
    }
}
