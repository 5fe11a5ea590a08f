/* A consumer whose inbox remembers positions, on a log with partitions that change their owners:
 * each message takes effect once and none is passed over, whoever thinks that a partition is its
 * own. And the order of partitions for inboxes that remember keys. */
#include "support/fake/fake_log.h"
#include "support/fixture/effect.h"
#include "support/process/threads.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { LONG_MS = 120000, TEXT = 32 };

typedef struct log_case {
    fixture *f;
    fake_log *log;
    scripted_handler todo;
    semel_consumer *consumer;
} log_case;

static semel_inbox_options positions(uint32_t attempts_max)
{
    return (semel_inbox_options){.size = sizeof(semel_inbox_options),
                                 .attempts_max = attempts_max,
                                 .remember = SEMEL_REMEMBER_POSITIONS};
}

static semel_consumer *consume(log_case *c, unsigned member, const semel_inbox_options *inbox,
                               semel_handler *handler, void *context,
                               semel_consumer_options options)
{
    semel_route route = {"order.*", fixture_inbox(c->f, "in", inbox), handler, context};
    options.size = sizeof options;
    return fixture_consumer(c->f, fake_log_member(c->f, c->log, member), &route, 1, &options);
}

static void open_case(log_case *c, fixture *f, unsigned partitions, uint32_t attempts_max,
                      semel_consumer_options options)
{
    const semel_inbox_options inbox = positions(attempts_max);
    c->f = f;
    c->log = fake_log_open(f, partitions, "one");
    c->consumer = consume(c, 0, &inbox, scripted_handler_run, &c->todo, options);
}

/* Each word is an id, and its last character the partition. */
static void add(log_case *c, const char *words)
{
    char id[TEXT];
    int read;
    for (; sscanf(words, "%31s%n", id, &read) == 1; words += read)
        fake_log_add(c->log, (unsigned)(id[strlen(id) - 1] - '0'), id, 0);
}

static size_t step(semel_consumer *consumer)
{
    size_t settled = 99;
    OK(semel_consumer_step(&settled, consumer, 0, &last_error));
    return settled;
}

static size_t steps(semel_consumer *consumer, int count)
{
    size_t settled = 0;
    while (count--)
        settled += step(consumer);
    return settled;
}

static void later(const log_case *c)
{
    semel_test_advance_ms(c->f->seam, LONG_MS);
}

/* --- runs ------------------------------------------------------------------------------------- */

static void a_worker_takes_runs(void **state)
{
    log_case c = {0};
    open_case(&c, *state, 2, 0, (semel_consumer_options){.batch = 4});
    add(&c, "a0 b0 c0 d1 e1 f0");
    uint32_t before = semel_test_passed(c.f->seam, "run.committed");
    assert_int_equal(step(c.consumer), 4); /* all of the first partition */
    assert_int_equal(semel_test_passed(c.f->seam, "run.committed"), before + 1);
    assert_int_equal(steps(c.consumer, 3), 2);
    assert_string_equal(c.todo.ids, "a0 b0 c0 f0 d1 e1 ");
    assert_int_equal(fake_log_committed(c.log, 0), 4);
    assert_int_equal(fake_log_committed(c.log, 1), 2);
}

static void a_delivery_that_comes_again_is_a_duplicate(void **state)
{
    log_case c = {0};
    open_case(&c, *state, 1, 0, (semel_consumer_options){.batch = 3});
    add(&c, "a0 b0 c0");
    semel_test_fault(c.f->seam, "run.committed", 1, SEMEL_EUNAVAILABLE);
    size_t settled;
    FAILS(SEMEL_EUNAVAILABLE, semel_consumer_step(&settled, c.consumer, 0, &last_error));
    fake_log_assign(c.log, 0, 0, 1); /* all comes again, behind what is still there */
    add(&c, "d0");
    assert_int_equal(steps(c.consumer, 4), 3 + 4);
    assert_string_equal(c.todo.ids, "a0 b0 c0 d0 ");
    assert_int_equal(fixture_counters(c.f).duplicates, 6);
}

static void what_fails_holds_up_its_partition_only(void **state)
{
    log_case c = {.todo = {.failures = 2, .only = "b0"}};
    open_case(&c, *state, 2, 0, (semel_consumer_options){.batch = 8});
    add(&c, "a0 b0 c0 x1");
    assert_int_equal(steps(c.consumer, 3), 2);
    assert_string_equal(c.todo.ids, "a0 b0 a0 x1 ");
    add(&c, "y1 d0");
    assert_int_equal(steps(c.consumer, 3), 1);
    assert_int_equal(fake_log_committed(c.log, 0), 1);
    later(&c);
    assert_int_equal(steps(c.consumer, 2), 0);
    later(&c);
    assert_int_equal(steps(c.consumer, 3), 3);
    assert_string_equal(c.todo.ids, "a0 b0 a0 x1 y1 b0 b0 c0 d0 ");
    assert_int_equal(fake_log_committed(c.log, 0), 4);
}

static void what_is_put_aside_is_passed(void **state)
{
    log_case c = {.todo = {.failures = 1, .only = "b0"}};
    open_case(&c, *state, 1, 1, (semel_consumer_options){.batch = 8});
    add(&c, "a0 b0 c0");
    assert_int_equal(step(c.consumer), 3);
    assert_string_equal(fixture_only_letter(c.f).message_id, "b0");
    assert_int_equal(fake_log_committed(c.log, 0), 3);
}

/* Its own letter is there before anything moves past it. */
static void what_has_no_route_is_kept(void **state)
{
    log_case c = {0};
    const semel_inbox_options inbox = positions(0);
    c.f = *state;
    c.log = fake_log_open(c.f, 1, "one");
    semel_route route = {"nothing", fixture_inbox(c.f, "in", &inbox), scripted_handler_run,
                         &c.todo};
    c.consumer = fixture_consumer(c.f, fake_log_member(c.f, c.log, 0), &route, 1, NULL);
    add(&c, "a0");
    assert_int_equal(steps(c.consumer, 1), 1);
    assert_string_equal(fixture_only_letter(c.f).name, "unrouted");
    assert_int_equal(fake_log_committed(c.log, 0), 1);
}

/* Two inboxes, of which one fails: the other one has done its part. */
static void each_inbox_has_its_own_position(void **state)
{
    log_case c = {.todo = {.failures = 1, .only = "b0"}};
    scripted_handler other = {0};
    const semel_inbox_options inbox = positions(0);
    c.f = *state;
    c.log = fake_log_open(c.f, 1, "one");
    semel_route routes[] = {
        {"order.*", fixture_inbox(c.f, "one", &inbox), scripted_handler_run, &other},
        {"*", fixture_inbox(c.f, "two", &inbox), scripted_handler_run, &c.todo}};
    semel_consumer_options options = {.size = sizeof options, .batch = 8};
    c.consumer = fixture_consumer(c.f, fake_log_member(c.f, c.log, 0), routes, 2, &options);
    add(&c, "a0 b0 c0");
    assert_int_equal(step(c.consumer), 1);
    later(&c);
    assert_int_equal(steps(c.consumer, 2), 2);
    assert_string_equal(other.ids, "a0 b0 c0 ");
    assert_string_equal(c.todo.ids, "a0 b0 a0 b0 c0 ");
}

/* What waits for the first inbox is the second one's all the same, or those behind it would move
 * its position past it. */
static void an_inbox_does_not_pass_what_another_one_has_left(void **state)
{
    log_case c = {.todo = {.failures = 1, .only = "pa0"}};
    scripted_handler other = {0};
    const semel_inbox_options inbox = positions(0);
    c.f = *state;
    c.log = fake_log_open(c.f, 1, "one");
    semel_route routes[] = {
        {"order.paid", fixture_inbox(c.f, "one", &inbox), scripted_handler_run, &c.todo},
        {"*", fixture_inbox(c.f, "two", &inbox), scripted_handler_run, &other}};
    semel_consumer_options options = {.size = sizeof options, .batch = 8};
    c.consumer = fixture_consumer(c.f, fake_log_member(c.f, c.log, 0), routes, 2, &options);
    add(&c, "pa0 b0 pc0 d0");
    (void)steps(c.consumer, 2);
    later(&c);
    (void)steps(c.consumer, 2);
    assert_string_equal(c.todo.ids, "pa0 pa0 pc0 ");
    assert_string_equal(other.ids, "pa0 b0 pc0 d0 ");
    assert_int_equal(fake_log_committed(c.log, 0), 4);
}

/* One of two groups would move the position past what the other one takes. */
static void routes_of_one_inbox_are_one_group(void **state)
{
    log_case c = {0};
    const semel_inbox_options how = positions(0);
    c.f = *state;
    c.log = fake_log_open(c.f, 1, "one");
    semel_inbox *inbox = fixture_inbox(c.f, "in", &how);
    semel_route routes[] = {{"order.placed", inbox, scripted_handler_run, &c.todo},
                            {"order.paid", inbox, scripted_handler_run, &c.todo}};
    semel_consumer_options options = {.size = sizeof options, .batch = 8};
    c.consumer = fixture_consumer(c.f, fake_log_member(c.f, c.log, 0), routes, 2, &options);
    add(&c, "a0 pb0 c0");
    assert_int_equal(step(c.consumer), 3);
    assert_string_equal(c.todo.ids, "a0 pb0 c0 ");
}

static void positions_and_keys_may_stand_side_by_side(void **state)
{
    log_case c = {.todo = {.failures = 1, .only = "b0"}};
    scripted_handler keyed = {.failures = 1, .only = "a0"};
    const semel_inbox_options inbox = positions(0);
    c.f = *state;
    c.log = fake_log_open(c.f, 1, "one");
    semel_route routes[] = {{"*", fixture_inbox(c.f, "one", &inbox), scripted_handler_run, &c.todo},
                            {"*", fixture_inbox(c.f, "two", NULL), scripted_handler_run, &keyed}};
    semel_consumer_options options = {.size = sizeof options, .batch = 8};
    c.consumer = fixture_consumer(c.f, fake_log_member(c.f, c.log, 0), routes, 2, &options);
    add(&c, "a0 b0 c0");
    for (int i = 0; i < 6; i++, later(&c))
        (void)step(c.consumer);
    assert_string_equal(c.todo.ids, "a0 b0 b0 c0 ");
    assert_string_equal(keyed.ids, "a0 a0 b0 c0 ");
    assert_int_equal(fake_log_committed(c.log, 0), 3);
}

/* --- owners ----------------------------------------------------------------------------------- */

static void what_is_revoked_is_not_handled(void **state)
{
    log_case c = {.todo = {.failures = 1, .only = "a0"}};
    open_case(&c, *state, 2, 0, (semel_consumer_options){.batch = 8});
    add(&c, "a0 b0 c0 d1");
    assert_int_equal(steps(c.consumer, 2), 1); /* a0 failed, and waits with those behind it */
    fake_log_assign(c.log, 0, 1, 0);
    later(&c);
    assert_int_equal(steps(c.consumer, 4), 0);
    assert_string_equal(c.todo.ids, "a0 d1 ");
    const semel_inbox_options inbox = positions(0);
    scripted_handler next = {0};
    semel_consumer *other =
        consume(&c, 1, &inbox, scripted_handler_run, &next, (semel_consumer_options){.batch = 8});
    assert_int_equal(steps(other, 3), 3);
    assert_string_equal(next.ids, "a0 b0 c0 ");
    assert_int_equal(fake_log_committed(c.log, 0), 3);
}

/* A delivery of an old assignment is given up, and those of the new one behind it are not. */
static void what_comes_back_is_not_revoked(void **state)
{
    log_case c = {.todo = {.failures = 1, .only = "a0"}};
    scripted_handler meanwhile = {0};
    const semel_inbox_options inbox = positions(0);
    semel_consumer_options options = {.batch = 8};
    open_case(&c, *state, 1, 0, options);
    semel_consumer *other = consume(&c, 1, &inbox, scripted_handler_run, &meanwhile, options);
    add(&c, "a0");
    assert_int_equal(steps(c.consumer, 2), 0); /* it waits */
    fake_log_assign(c.log, 0, 1, 0);
    assert_int_equal(steps(other, 2), 1);
    fake_log_assign(c.log, 0, 0, 0);
    add(&c, "b0 d0");
    assert_int_equal(step(c.consumer), 0); /* they are behind it */
    later(&c);
    assert_int_equal(step(c.consumer), 2);
    assert_string_equal(c.todo.ids, "a0 b0 d0 ");
    assert_string_equal(meanwhile.ids, "a0 ");
}

static void a_zombie_finds_that_others_have_gone_on(void **state)
{
    log_case c = {.todo = {.failures = 1, .only = "b0"}};
    open_case(&c, *state, 1, 0, (semel_consumer_options){.batch = 8});
    add(&c, "a0 b0 c0");
    assert_int_equal(step(c.consumer), 1);
    fake_log_assign(c.log, 0, 1, 1); /* it is not told */
    const semel_inbox_options inbox = positions(0);
    scripted_handler next = {0};
    semel_consumer *other =
        consume(&c, 1, &inbox, scripted_handler_run, &next, (semel_consumer_options){.batch = 8});
    add(&c, "d0");
    assert_int_equal(steps(other, 4), 3);
    later(&c);
    assert_int_equal(steps(c.consumer, 3), 2); /* its own answers count no more */
    assert_string_equal(c.todo.ids, "a0 b0 a0 ");
    assert_string_equal(next.ids, "b0 c0 d0 ");
}

static void a_recreated_topic_ends_the_run(void **state)
{
    log_case c = {0};
    open_case(&c, *state, 1, 0, (semel_consumer_options){.batch = 8});
    size_t settled;
    add(&c, "a0 b0 c0");
    assert_int_equal(step(c.consumer), 3);
    fake_log_recreate(c.log, "two");
    add(&c, "x0");
    FAILS(SEMEL_EREJECTED, semel_consumer_step(&settled, c.consumer, 0, &last_error));
    assert_int_equal(fake_log_committed(c.log, 0), 0);
    FAILS(SEMEL_EREJECTED, semel_consumer_step(&settled, c.consumer, 0, &last_error));
    assert_string_equal(c.todo.ids, "a0 b0 c0 ");
}

/* --- zombies by the thousand ------------------------------------------------------------------ */

enum { ZOMBIES = 3, PARTITIONS = 3, MESSAGES = 600, CHANGES = 2000 };

typedef struct horde {
    fixture *f;
    fake_log *log;
    semel_consumer *consumers[ZOMBIES];
    effect effect;
    int counts;
    atomic_int times[PARTITIONS][MESSAGES];
    atomic_int handled;
    atomic_int ended;
    atomic_int wrong;
} horde;

static semel_status take_effect(semel_unit *unit, const semel_message *message, void *context,
                                semel_error *err)
{
    horde *h = context;
    char item[TEXT];
    (void)snprintf(item, sizeof item, "%.*s", (int)message->id.len, (const char *)message->id.data);
    return h->counts ? effect_write(&h->effect, unit, item, 0, err) : SEMEL_OK;
}

/* By the outcome of each, so that it is counted where there are no rows, too. */
static void note_outcome(void *context, const semel_event *event)
{
    horde *h = context;
    unsigned message, partition;
    char id[TEXT];
    (void)snprintf(id, sizeof id, "%.*s", (int)event->message->id.len,
                   (const char *)event->message->id.data);
    if (event->outcome != SEMEL_PROCESSED || sscanf(id, "m%u-%u", &message, &partition) != 2)
        return;
    atomic_fetch_add(&h->times[partition][message], 1);
    atomic_fetch_add(&h->handled, 1);
}

static int all_committed(horde *h)
{
    for (unsigned i = 0; i < PARTITIONS; i++)
        if (fake_log_committed(h->log, i) < MESSAGES)
            return 0;
    return 1;
}

static void be_a_zombie(test_thread *self)
{
    horde *h = self->context;
    semel_error err;
    size_t settled;
    while (!atomic_load(&h->ended)) {
        semel_status status = semel_consumer_step(&settled, h->consumers[self->index], 0, &err);
        if (status && !err.retryable) {
            atomic_fetch_add(&h->wrong, 1);
            atomic_store(&h->ended, 1);
        }
    }
}

/* Partitions change their owners all the time, and half of the owners are not told. */
static void shuffle_owners(test_thread *self)
{
    horde *h = self->context;
    uint32_t random = 7;
    for (int i = 0; !atomic_load(&h->ended); i++) {
        random = random * 1664525U + 1013904223U;
        if (i < CHANGES || i % 64 == 0) /* then they get some peace, or it would never end */
            fake_log_assign(h->log, (random >> 8) % PARTITIONS, (random >> 16) % ZOMBIES,
                            (int)(random >> 24 & 1));
        if (all_committed(h))
            atomic_store(&h->ended, 1);
    }
}

static void horde_member(test_thread *self)
{
    if (self->index < ZOMBIES)
        be_a_zombie(self);
    else
        shuffle_owners(self);
}

static void zombies_never_commit_twice_on(place_kind kind)
{
    fixture f = {0};
    store_place place;
    horde *h = calloc(1, sizeof *h);
    assert_non_null(h);
    semel_store_options watched = {
        .size = sizeof watched, .observer = note_outcome, .observer_context = h};
    store_place_open(&place, kind);
    fixture_open(&f, &place, &watched);
    OK(semel_store_migrate(f.store, &last_error));
    h->f = &f;
    h->counts = place.has_sql;
    if (h->counts) {
        effect_build(&place, "effect");
        OK(effect_open(&h->effect, &place, f.store, "effect", &last_error));
    }
    h->log = fake_log_open(&f, PARTITIONS, "one");
    for (unsigned p = 0; p < PARTITIONS; p++)
        for (unsigned m = 0; m < MESSAGES; m++) {
            char id[TEXT];
            (void)snprintf(id, sizeof id, "m%u-%u", m, p);
            fake_log_add(h->log, p, id, 0);
        }
    log_case c = {.f = &f, .log = h->log};
    const semel_inbox_options inbox = positions(0);
    for (unsigned i = 0; i < ZOMBIES; i++)
        h->consumers[i] =
            consume(&c, i, &inbox, take_effect, h, (semel_consumer_options){.batch = 5});
    assert_true(threads_run(ZOMBIES + 1, horde_member, h));
    assert_int_equal(atomic_load(&h->wrong), 0);
    for (unsigned p = 0; p < PARTITIONS; p++)
        for (unsigned m = 0; m < MESSAGES; m++)
            if (atomic_load(&h->times[p][m]) != 1)
                fail_msg("message %u of partition %u was handled %d times", m, p,
                         atomic_load(&h->times[p][m]));
    if (h->counts) {
        effect_numbers found = effect_count(&place, "effect");
        assert_int_equal(found.all, (int64_t)PARTITIONS * MESSAGES);
        assert_int_equal(found.different, (int64_t)PARTITIONS * MESSAGES);
        effect_close(&h->effect);
    }
    fixture_close(&f);
    store_place_close(&place);
    free(h);
}

static void zombies_never_commit_twice_in_memory(void **state)
{
    (void)state;
    zombies_never_commit_twice_on(PLACE_MEMORY);
}

static void zombies_never_commit_twice_on_sqlite(void **state)
{
    (void)state;
    zombies_never_commit_twice_on(PLACE_SQLITE);
}

/* --- the order of partitions without positions in the inbox ----------------------------------- */

static void partitions_are_kept_in_order_for_keys_too(void **state)
{
    log_case c = {.todo = {.failures = 1, .only = "a0"}};
    semel_inbox_options keys = {.size = sizeof keys};
    c.f = *state;
    c.log = fake_log_open(c.f, 2, "one");
    c.consumer = consume(&c, 0, &keys, scripted_handler_run, &c.todo,
                         (semel_consumer_options){.batch = 8, .order = SEMEL_ORDER_PARTITION});
    add(&c, "a0 b0 x1 y1");
    assert_int_equal(steps(c.consumer, 4), 2);
    assert_string_equal(c.todo.ids, "a0 x1 y1 ");
    later(&c);
    assert_int_equal(steps(c.consumer, 3), 2);
    assert_string_equal(c.todo.ids, "a0 x1 y1 a0 b0 ");
}

/* --- what is refused -------------------------------------------------------------------------- */

static void a_transport_without_positions_is_refused(void **state)
{
    fixture *f = *state;
    const semel_inbox_options inbox = positions(0);
    semel_route route = {"*", fixture_inbox(f, "in", &inbox), scripted_handler_run, NULL};
    semel_route keyed = {"*", fixture_inbox(f, "keys", NULL), scripted_handler_run, NULL};
    semel_consumer_options ordered = {.size = sizeof ordered, .order = SEMEL_ORDER_PARTITION};
    semel_consumer *consumer = NULL;
    semel_transport *queue = fixture_queue(f, "memory:");
    FAILS(SEMEL_EUNSUPPORTED, semel_consumer_open(&consumer, queue, &route, 1, NULL, &last_error));
    assert_non_null(strstr(last_error.text, "positions"));
    FAILS(SEMEL_EUNSUPPORTED,
          semel_consumer_open(&consumer, queue, &keyed, 1, &ordered, &last_error));
}

static void what_fails_cannot_go_back_to_the_broker(void **state)
{
    fixture *f = *state;
    const semel_inbox_options inbox = positions(0);
    semel_route route = {"*", fixture_inbox(f, "in", &inbox), scripted_handler_run, NULL};
    semel_consumer_options requeues = {.size = sizeof requeues,
                                       .on_failure = SEMEL_FAILURE_REQUEUE};
    semel_consumer *consumer = NULL;
    semel_transport *log = fake_log_member(f, fake_log_open(f, 1, "one"), 0);
    FAILS(SEMEL_EINVAL, semel_consumer_open(&consumer, log, &route, 1, &requeues, &last_error));
}

static void a_local_hand_off_is_refused(void **state)
{
    fixture *f = *state;
    const semel_inbox_options inbox = positions(0);
    semel_relay *relay = NULL;
    FAILS(SEMEL_EMISUSE,
          semel_relay_open_local(&relay, fixture_outbox(f, "out"), fixture_inbox(f, "in", &inbox),
                                 scripted_handler_run, NULL, NULL, &last_error));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("a worker takes runs", a_worker_takes_runs),
        ON_BOTH("a delivery that comes again is a duplicate",
                a_delivery_that_comes_again_is_a_duplicate),
        ON_BOTH("what fails holds up its partition only", what_fails_holds_up_its_partition_only),
        ON_BOTH("what is put aside is passed", what_is_put_aside_is_passed),
        ON_BOTH("what has no route is kept", what_has_no_route_is_kept),
        ON_BOTH("each inbox has its own position", each_inbox_has_its_own_position),
        ON_BOTH("an inbox does not pass what another one has left",
                an_inbox_does_not_pass_what_another_one_has_left),
        ON_BOTH("routes of one inbox are one group", routes_of_one_inbox_are_one_group),
        ON_BOTH("what comes back is not revoked", what_comes_back_is_not_revoked),
        ON_BOTH("positions and keys may stand side by side",
                positions_and_keys_may_stand_side_by_side),
        ON_BOTH("what is revoked is not handled", what_is_revoked_is_not_handled),
        ON_BOTH("a zombie finds that others have gone on", a_zombie_finds_that_others_have_gone_on),
        ON_BOTH("a recreated topic ends the run", a_recreated_topic_ends_the_run),
        cmocka_unit_test(zombies_never_commit_twice_in_memory),
        cmocka_unit_test(zombies_never_commit_twice_on_sqlite),
        ON_BOTH("partitions are kept in order for keys, too",
                partitions_are_kept_in_order_for_keys_too),
        ON_MEMORY("a transport without positions is refused",
                  a_transport_without_positions_is_refused),
        ON_MEMORY("what fails cannot go back to the broker",
                  what_fails_cannot_go_back_to_the_broker),
        ON_MEMORY("a local hand-off is refused", a_local_hand_off_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
