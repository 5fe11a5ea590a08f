/* A consumer that is killed (SIGKILL) at every point that it passes between a real broker and a
 * real store, and another one that goes on after it: every message has its effect and its outgoing
 * message once, what was committed and not acknowledged is a duplicate, and the queue ends empty.
 *
 * The points are the named ones of the library and three more, around the two calls of the
 * transport that a turn makes: the consumer runs on RabbitMQ's own driver, of which `receive` and
 * `settle` are replaced by ones that pass a point and call the original. So a process dies between
 * the commit and the acknowledgement, and between that and the next message.
 *
 * One queue and one store serve all rounds of a test, since making them takes longer than a round.
 * Each round has messages of its own. A quorum queue may forget an acknowledgement that came right
 * before its connection ended; then the message comes again in a later round, as a duplicate, which
 * adds to what that round passes: so a round kills at a time (first, second, ...) that also comes
 * when there is more to do. */
#include "core/transport.h"
#include "support/servers/rabbitmq/rabbitmq_servers_kit.h"

#include <semel/test.h>

enum {
    LEASE_MS = 60000,
    MESSAGES_MAX = 512,
    DELIVERIES_MAX = 512,
    NAME_ROOM = 48,
    GLANCE_MS = 5 /* how long a consumer that is asked to stop may wait for messages */
};

#define RECEIVED "delivery.received" /* the transport gave some out */
#define SETTLING "delivery.settling" /* the work is done, and the broker is to hear of it */
#define SETTLED  "delivery.settled"

#define NAME(text) text,
static const char *const points[] = {SEMEL_FAULT_POINTS(NAME) RECEIVED, SETTLING, SETTLED};
#undef NAME
enum { POINT_COUNT = sizeof points / sizeof *points };

/* A way to consume. Of its messages `g` are well, `f` fail at their first attempt, `d` are given
 * up. */
typedef struct flow {
    const char *name;
    const char *messages;
    semel_mode mode;
    uint32_t batch;
    int redelivered;    /* a consumer had taken them all, and was killed */
    const char *deaths; /* one for each round: the point, and the how many-th time */
} flow;

static const flow flows[] = {
    {.name = "one by one",
     .messages = "gfg",
     .batch = 1,
     .deaths = "delivery.received/2 receive.begun/1 receive.marked/2 receive.handled/2 "
               "send.stored/1 receive.committed/1 receive.committed/3 fail.stored/1 "
               "fail.committed/1 delivery.settling/2 delivery.settled/1 delivery.settled/3"},
    {.name = "claims",
     .messages = "gfg",
     .mode = SEMEL_CLAIM,
     .batch = 1,
     .deaths = "claim.stored/1 claim.committed/2 claim.handled/1 send.stored/2 finish.stored/2 "
               "finish.committed/1 fail.stored/1 fail.committed/1 delivery.settling/1 "
               "delivery.settled/2"},
    {.name = "a batch",
     .messages = "ggfggg",
     .batch = 6,
     .deaths = "batch.marked/1 batch.handled/2 batch.committed/1 receive.committed/1 "
               "delivery.settling/1 delivery.settled/1"},
    {.name = "redeliveries",
     .messages = "gfg",
     .batch = 3,
     .redelivered = 1,
     .deaths = "count.stored/1 count.committed/2 receive.committed/1 delivery.settling/1"},
    {.name = "given up", .messages = "gdg", .batch = 1, .deaths = "bury.stored/1 bury.committed/1"},
};

/* What the processes tell each other. */
typedef struct ledger {
    uint32_t passed[POINT_COUNT];            /* by the last process */
    atomic_uchar acknowledged[MESSAGES_MAX]; /* by number of the message */
    uint64_t duplicates;                     /* that the last process saw */
} ledger;

/* One store and one queue, through all the rounds. */
typedef struct kill_case {
    service_case *s;
    ledger *shared;
    unsigned published, given_up; /* messages so far */
    uint32_t passed[POINT_COUNT]; /* by all processes */
    uint32_t deaths[POINT_COUNT];
} kill_case;

typedef struct life {
    kill_case *d;
    const flow *flow;
    const char *point; /* where it ends; NULL: nowhere */
    uint32_t nth;
    size_t expected; /* messages that are in the queue, for sure, and have not come yet */
    semel_outbox *outbox;
    size_t out_count;
    struct {
        uint64_t tag;
        unsigned number;
    } out[DELIVERIES_MAX];
} life;

/* --- in the process that dies ----------------------------------------------------------------- */

static size_t index_of(const char *point)
{
    for (size_t i = 0; i < POINT_COUNT; i++)
        if (strcmp(points[i], point) == 0)
            return i;
    process_give_up(__FILE__, __LINE__, point);
}

static semel_status pass(void *context, const char *point)
{
    const life *l = context;
    uint32_t times = ++l->d->shared->passed[index_of(point)];
    if (l->point && strcmp(l->point, point) == 0 && times == l->nth)
        raise(SIGKILL);
    return SEMEL_OK;
}

static life *self; /* a driver's functions have no room for it */
static const semel_transport_driver *rabbitmq;

static unsigned number_of(const semel_message *message)
{
    char id[ID_ROOM];
    (void)snprintf(id, sizeof id, "%.*s", (int)message->id.len, (const char *)message->id.data);
    return (unsigned)strtoul(id + 1, NULL, 10);
}

/* Waits for all that is sure to come, so that a batch is one. */
static semel_status receive(void *transport, semel_delivery deliveries[], size_t max, size_t *count,
                            uint32_t wait_ms, semel_error *err)
{
    size_t wanted = self->expected < max ? self->expected : max, have = 0, got;
    int64_t until = process_now_ms() + KIT_WAIT_MS;
    wait_ms = wait_ms < GLANCE_MS ? wait_ms : GLANCE_MS;
    do {
        PROCESS_REQUIRE(process_now_ms() < until);
        PROCESS_REQUIRE_OK(
            rabbitmq->receive(transport, deliveries + have, max - have, &got, wait_ms, err), err);
        have += got;
    } while (have < wanted);
    self->expected -= wanted;
    for (size_t i = 0; i < have; i++) {
        PROCESS_REQUIRE(self->out_count < DELIVERIES_MAX);
        self->out[self->out_count].tag = deliveries[i].tag;
        self->out[self->out_count++].number = number_of(deliveries[i].message);
    }
    *count = have;
    return have ? pass(self, RECEIVED) : SEMEL_OK;
}

static void note_acknowledged(const semel_delivery_settlement *settle)
{
    for (size_t i = 0; i < self->out_count; i++)
        if (self->out[i].tag == settle->tag && settle->verdict == SEMEL_VERDICT_ACK)
            self->d->shared->acknowledged[self->out[i].number] = 1;
}

static semel_status settle(void *transport, const semel_delivery_settlement settles[], size_t count,
                           semel_error *err)
{
    (void)pass(self, SETTLING);
    semel_status status = rabbitmq->settle(transport, settles, count, err);
    for (size_t i = 0; !status && i < count; i++)
        note_acknowledged(&settles[i]);
    (void)pass(self, SETTLED);
    return status;
}

/* The work comes first: what fails, or dies, must have it undone. */
static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    const life *l = context;
    char id[ID_ROOM];
    (void)snprintf(id, sizeof id, "%.*s", (int)message->id.len, (const char *)message->id.data);
    semel_message answer = text_message(NULL, id);
    answer.topic = id;
    int by_claim = l->flow->mode == SEMEL_CLAIM;
    semel_status status = effect_write(&l->d->s->effect, unit, id, by_claim, err);
    if (!status)
        status = semel_unit_send(unit, l->outbox, &answer, err);
    if (!status && id[0] == 'f' && semel_unit_attempt(unit) == 1)
        status = semel_fail(err, SEMEL_EHANDLER, "%s is out of paper", id);
    if (!status && id[0] == 'd')
        status = semel_fail(err, SEMEL_EGIVEUP, "%s is hopeless", id);
    return status;
}

static void open_service(service *v, life *l, const semel_seam *seam)
{
    static semel_transport_driver observed;
    semel_inbox_options inbox = {.size = sizeof inbox,
                                 .mode = l->flow->mode,
                                 .lease_ms = LEASE_MS,
                                 .wait_ms = KIT_WAIT_MS,
                                 .accept_changes = 1};
    semel_consumer_options consumer = {
        .size = sizeof consumer, .batch = l->flow->batch, .backoff_ms = 10, .backoff_max_ms = 100};
    semel_route route = {"*", NULL, handle, l};
    const char *url = l->d->s->kit.url;
    service_open_store(v, l->d->s, seam);
    l->outbox = v->outbox;
    PROCESS_REQUIRE_OK(semel_inbox_open(&v->inbox, v->store, "stock", &inbox, &v->err), &v->err);
    PROCESS_REQUIRE_OK(transport_driver_find(&rabbitmq, url, &v->err), &v->err);
    observed = *rabbitmq;
    observed.receive = receive;
    observed.settle = settle;
    PROCESS_REQUIRE_OK(semel_transport_open_driver(&v->transport, &observed, url, NULL, &v->err),
                       &v->err);
    route.inbox = v->inbox;
    PROCESS_REQUIRE_OK(
        semel_consumer_open(&v->consumer, v->transport, &route, 1, &consumer, &v->err), &v->err);
}

static int live(void *context)
{
    semel_seam seam = {.size = sizeof seam, .context = context, .fault = pass};
    service v;
    semel_counters counters;
    self = context;
    open_service(&v, self, &seam);
    stop_at_sigterm(v.consumer);
    atomic_fetch_add(&self->d->s->tally->ready, 1);
    PROCESS_REQUIRE_OK(semel_consumer_run(v.consumer, &v.err), &v.err);
    PROCESS_REQUIRE_OK(semel_store_counters(&counters, sizeof counters, v.store, &v.err), &v.err);
    self->d->shared->duplicates = counters.duplicates;
    service_close(&v);
    return PROCESS_OK;
}

/* --- one process after the other -------------------------------------------------------------- */

static void clear_passed(kill_case *d)
{
    memset(d->shared->passed, 0, sizeof d->shared->passed);
    d->shared->duplicates = 0;
}

static void collect_passed(kill_case *d)
{
    for (size_t i = 0; i < POINT_COUNT; i++)
        d->passed[i] += d->shared->passed[i];
}

static void die_at(kill_case *d, const flow *f, const char *point, uint32_t nth)
{
    life l = {.d = d, .flow = f, .point = point, .nth = nth, .expected = strlen(f->messages)};
    clear_passed(d);
    assert_int_equal(process_run(live, &l), PROCESS_KILLED + SIGKILL);
    collect_passed(d);
    d->deaths[index_of(point)]++;
}

static int all_are_acknowledged(const kill_case *d)
{
    for (unsigned i = 0; i < d->published; i++)
        if (!d->shared->acknowledged[i])
            return 0;
    return 1;
}

/* It can be asked to stop when this returns. */
static void start_survivor(kill_case *d, life *l)
{
    unsigned before = atomic_load(&d->s->tally->ready);
    clear_passed(d);
    d->s->children[0] = process_start(live, l);
    EVENTUALLY(atomic_load(&d->s->tally->ready) > before || has_ended(d->s->children[0]));
}

static void stop_survivor(kill_case *d)
{
    EVENTUALLY(kill(d->s->children[0], SIGTERM) == 0);
    int end = process_wait(d->s->children[0], KIT_WAIT_MS);
    d->s->children[0] = 0;
    assert_int_equal(end, PROCESS_OK);
    collect_passed(d);
}

static void survive(kill_case *d, const flow *f)
{
    life l = {.d = d, .flow = f};
    start_survivor(d, &l);
    EVENTUALLY(all_are_acknowledged(d) || has_ended(d->s->children[0]));
    EVENTUALLY(broker_ready(&d->s->kit.broker, d->s->kit.queue) == 0 ||
               has_ended(d->s->children[0]));
    stop_survivor(d);
}

/* --- rounds ----------------------------------------------------------------------------------- */

static void publish(kill_case *d, const flow *f)
{
    char ids[KIT_SAID];
    size_t used = 0;
    for (const char *initial = f->messages; *initial; initial++) {
        assert_in_range(d->published, 0, MESSAGES_MAX - 1);
        used += (size_t)snprintf(ids + used, sizeof ids - used, "%c%u ", *initial, d->published++);
        d->given_up += *initial == 'd';
    }
    service_case_publish(d->s, ids);
}

/* Once each; nothing is left open, and dead is what was given up. */
static void check_store(const kill_case *d)
{
    static const char *const counts[] = {
        "SELECT count(*) FROM effect",
        "SELECT count(DISTINCT item) FROM effect",
        "SELECT count(*) FROM semel_outbox",
        "SELECT count(DISTINCT topic) FROM semel_outbox",
        "SELECT count(*) FROM semel_marker WHERE state = 0",
        "SELECT count(*) FROM semel_marker",
        "SELECT count(*) FROM semel_dead",
    };
    enum { DONE = 5, MARKERS = 5, DEAD = 6, COUNTS = 7 };
    int64_t found[COUNTS];
    inspect_numbers(found, d->s->place.url, counts, COUNTS);
    for (size_t i = 0; i < DONE; i++)
        if (found[i] != d->published - d->given_up)
            fail_msg("%s: %d, not %u", counts[i], (int)found[i], d->published - d->given_up);
    assert_int_equal(found[MARKERS], d->published);
    assert_int_equal(found[DEAD], d->given_up);
}

/* Something was committed there, and could not be acknowledged. */
static int leaves_a_duplicate(const char *point)
{
    return strcmp(point, "receive.committed") == 0 || strcmp(point, "batch.committed") == 0 ||
           strcmp(point, "finish.committed") == 0 || strcmp(point, SETTLING) == 0;
}

static void round_of(kill_case *d, const flow *f, const char *point, uint32_t nth)
{
    publish(d, f);
    if (f->redelivered)
        die_at(d, f, RECEIVED, 1);
    die_at(d, f, point, nth);
    if (f->mode == SEMEL_CLAIM)
        end_leases(d->s);
    survive(d, f);
    check_store(d);
    if (leaves_a_duplicate(point))
        assert_true(d->shared->duplicates > 0);
}

/* Also what was acknowledged and forgotten, if there is any, is a duplicate. */
static void expect_nothing_left(kill_case *d)
{
    life l = {.d = d, .flow = &flows[0]};
    start_survivor(d, &l);
    expect_empty_queue(d->s);
    stop_survivor(d);
    check_store(d);
}

static void expect_a_death_at_every_point(const kill_case *d)
{
    for (size_t i = 0; i < POINT_COUNT; i++)
        if (d->passed[i] && !d->deaths[i])
            fail_msg("no process was killed at %s, which is passed", points[i]);
}

static char under_way[2 * NAME_ROOM]; /* "" if nothing failed */

static void a_consumer_killed_anywhere_does_everything_once(void **state)
{
    kill_case d = {.s = *state, .shared = process_share(sizeof(ledger))};
    for (size_t i = 0; i < sizeof flows / sizeof *flows; i++) {
        char point[NAME_ROOM];
        uint32_t nth;
        const char *rest = flows[i].deaths;
        for (int read; sscanf(rest, "%47[^/]/%u %n", point, &nth, &read) == 2; rest += read) {
            (void)snprintf(under_way, sizeof under_way, "%s, killed at %s/%u", flows[i].name, point,
                           nth);
            round_of(&d, &flows[i], point, nth);
        }
        assert_int_equal(*rest, 0);
    }
    under_way[0] = 0;
    expect_nothing_left(&d);
    expect_a_death_at_every_point(&d);
    process_unshare(d.shared, sizeof *d.shared);
}

static int tell_and_tear_down(void **state)
{
    if (under_way[0])
        print_error("that was: %s\n", under_way);
    under_way[0] = 0;
    return service_case_teardown(state);
}

#define ON(store, kind)                                                          \
    {                                                                            \
        "a_consumer_killed_anywhere_does_everything_once, " store,               \
            a_consumer_killed_anywhere_does_everything_once, service_case_setup, \
            tell_and_tear_down, &(variant)                                       \
        {                                                                        \
            kind, QUORUM                                                         \
        }                                                                        \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON("sqlite", (server_kind)0),
        ON("postgres", SERVER_POSTGRES),
        ON("mariadb", SERVER_MARIADB),
    };
    cmocka_set_test_filter(getenv("SEMEL_TEST_FILTER")); /* NULL: all */
    return cmocka_run_group_tests_name("rabbitmq and stores: killed anywhere", tests, NULL, NULL);
}
