/* A store is what its driver's table says. A table that the core cannot work with is refused when
 * the store is opened; what a table leaves out is refused when an inbox, an outbox or a consumer
 * that needs it is opened: the error says what to do instead, and nothing is created in the
 * store. */
#include "core/store.h"
#include "support/fixture/receives.h"

#include <stdio.h>
#include <string.h>

#undef fail /* cmocka's; a store has a verb of this name */

/* The memory store's table, in parts that a test may change. */
typedef struct table {
    semel_store_driver driver;
    semel_store_units units;
    semel_store_markers markers;
    semel_store_outbox outbox;
    semel_store_dead dead;
    semel_store_watch watch;
    semel_store *store;
} table;

static const semel_store_driver *memory;
static unsigned names; /* how often a driver was asked for the number of a name */
static unsigned opened;

static semel_status count_open(void *store, const void *argument,
                               const semel_store_settings *settings, semel_error *err)
{
    opened++;
    return memory->open(store, argument, settings, err);
}

static semel_status count_name(void *store, semel_scope kind, const char *name, int64_t *out,
                               semel_error *err)
{
    names++;
    return memory->scope(store, kind, name, out, err);
}

static int watch_nothing(void *store)
{
    (void)store;
    return -1;
}

static void unwatch_nothing(void *store)
{
    (void)store;
}

static int setup(void **state)
{
    static table t;
    OK(store_driver_find(&memory, "memory:", &last_error));
    memset(&t, 0, sizeof t);
    t.driver = *memory;
    t.units = *memory->units;
    t.markers = *memory->markers;
    t.outbox = *memory->outbox;
    t.dead = *memory->dead;
    t.watch = (semel_store_watch){watch_nothing, watch_nothing, unwatch_nothing};
    t.driver.open = count_open;
    t.driver.scope = count_name;
    t.driver.units = &t.units;
    t.driver.markers = &t.markers;
    t.driver.outbox = &t.outbox;
    t.driver.dead = &t.dead;
    t.driver.watch = &t.watch;
    names = opened = 0;
    *state = &t;
    return 0;
}

static int teardown(void **state)
{
    table *t = *state;
    semel_store_close(t->store);
    return 0;
}

/* --- tables that are refused ------------------------------------------------------------------ */

static void expect_refused(const table *t, semel_status status, const char *text)
{
    semel_store *store = NULL;
    FAILS(status, semel_store_open_driver(&store, &t->driver, "memory:", NULL, &last_error));
    SAYS(text);
    assert_null(store);
    assert_int_equal(opened, 0);
}

static void expect_opened(table *t)
{
    semel_store *store = NULL;
    OK(semel_store_open_driver(&store, &t->driver, "memory:", NULL, &last_error));
    semel_store_close(store);
    assert_int_equal(opened, 1);
    opened = 0;
}

static void a_table_of_another_version_is_refused(void **state)
{
    table *t = *state;
    static const uint32_t versions[] = {0, SEMEL_STORE_DRIVER_VERSION - 1,
                                        SEMEL_STORE_DRIVER_VERSION + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        t->driver.version = versions[i];
        t->driver.units = NULL; /* a table of another version may be anything behind it */
        expect_refused(t, SEMEL_EUNSUPPORTED, "build the driver with this library's headers");
    }
}

typedef void any_function(void);

/* Is `group` named if the member at `offset` of the part is NULL? All members are pointers, of one
 * size. */
static void expect_gap(const table *t, void *part, size_t offset, const char *group)
{
    _Static_assert(sizeof(any_function *) == sizeof(void *), "members are cleared as bytes");
    char was[sizeof(any_function *)], *member = (char *)part + offset, text[40];
    memcpy(was, member, sizeof was);
    memset(member, 0, sizeof was);
    (void)snprintf(text, sizeof text, "\"%s\"", group);
    expect_refused(t, SEMEL_EINVAL, text);
    memcpy(member, was, sizeof was);
}

#define GAP(part, member, group) expect_gap(t, &(part), offsetof(__typeof__(part), member), group)

static void a_table_without_a_member_of_the_store_is_refused(void **state)
{
    table *t = *state;
    GAP(t->driver, open, "store");
    GAP(t->driver, close, "store");
    GAP(t->driver, now, "store");
    GAP(t->driver, durability, "store");
    GAP(t->driver, scope, "store");
    GAP(t->driver, scheme, "store");
    GAP(t->driver, store_size, "store");
    GAP(t->driver, unit_size, "store");
    expect_opened(t);
}

static void a_table_without_a_member_of_its_units_is_refused(void **state)
{
    table *t = *state;
    GAP(t->driver, units, "units");
    GAP(t->units, begin, "units");
    GAP(t->units, commit, "units");
    GAP(t->units, rollback, "units");
    GAP(t->units, savepoint, "units");
    GAP(t->units, keep, "units");
    GAP(t->units, undo, "units");
    expect_opened(t);
}

static void a_table_without_a_member_of_its_markers_is_refused(void **state)
{
    table *t = *state;
    GAP(t->markers, look, "markers");
    GAP(t->markers, claim, "markers");
    GAP(t->markers, fail, "markers");
    GAP(t->markers, forget, "markers");
    GAP(t->markers, finish, "markers");
    GAP(t->markers, renew, "markers");
    GAP(t->markers, result_set, "markers");
    GAP(t->markers, result_get, "markers");
    GAP(t->markers, bury, "dead");
    t->markers.finish = NULL;
    t->markers.renew = NULL;
    GAP(t->markers, mark, "markers"); /* there would be no mode at all */
    expect_opened(t);
}

static void a_table_without_a_member_of_its_messages_is_refused(void **state)
{
    table *t = *state;
    GAP(t->outbox, put, "outbox");
    GAP(t->outbox, lease, "outbox");
    GAP(t->outbox, settle, "outbox");
    GAP(t->outbox, unsent, "outbox");
    GAP(t->dead, put, "dead");
    GAP(t->dead, drop, "dead");
    GAP(t->dead, list, "dead");
    GAP(t->driver, dead, "dead"); /* where would a message go that no broker takes? */
    GAP(t->watch, watch, "watch");
    GAP(t->watch, heard, "watch");
    GAP(t->watch, unwatch, "watch");
    expect_opened(t);
}

static semel_status join_nothing(void *store, void *unit, void *native, semel_error *err)
{
    (void)store, (void)unit, (void)native;
    return semel_fail(err, SEMEL_EMISUSE, "no transaction is open there");
}

static void join_and_its_ability_come_together(void **state)
{
    table *t = *state;
    t->driver.abilities |= SEMEL_STORE_JOIN;
    expect_refused(t, SEMEL_EINVAL, "SEMEL_STORE_JOIN");
    t->driver.abilities &= ~(uint32_t)SEMEL_STORE_JOIN;
    t->units.join = join_nothing;
    expect_refused(t, SEMEL_EINVAL, "SEMEL_STORE_JOIN");
    t->driver.abilities |= SEMEL_STORE_JOIN;
    expect_opened(t);
}

/* --- what may be left out --------------------------------------------------------------------- */

static void open_table(table *t)
{
    OK(semel_store_open_driver(&t->store, &t->driver, "memory:", NULL, &last_error));
    OK(semel_store_migrate(t->store, &last_error));
}

static void leave_out_all_but_claims(table *t)
{
    t->driver.outbox = NULL;
    t->driver.dead = NULL;
    t->driver.watch = NULL;
    t->driver.migrate = NULL;
    t->markers.mark = NULL;
    t->markers.assume = NULL;
    t->markers.bury = NULL;
    t->markers.result_set = NULL;
    t->markers.result_get = NULL;
    t->markers.sweep = NULL;
    t->units.savepoint = NULL;
    t->units.keep = NULL;
    t->units.undo = NULL;
    t->units.used = NULL;
    t->units.verify = NULL;
    t->units.native = NULL;
}

static semel_inbox *open_claims(table *t)
{
    semel_inbox_options options = {.size = sizeof options, .mode = SEMEL_CLAIM};
    semel_inbox *inbox = NULL;
    OK(semel_inbox_open(&inbox, t->store, "orders", &options, &last_error));
    return inbox;
}

/* A message that keeps failing stays with the broker. */
static void claims_are_enough_for_an_inbox(void **state)
{
    table *t = *state;
    scripted_handler failing = {.failures = 20, .failure = SEMEL_EGIVEUP};
    leave_out_all_but_claims(t);
    open_table(t);
    semel_inbox *inbox = open_claims(t);
    for (int i = 0; i < 20; i++)
        RECEIVES_ID(SEMEL_EGIVEUP, SEMEL_FAILED, inbox, "m-1", &failing);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "m-1", &failing);
    assert_int_equal(failing.attempt, 21);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "m-1", &failing);
    semel_inbox_close(inbox);
}

static void a_batch_without_savepoints_is_received_one_by_one(void **state)
{
    table *t = *state;
    semel_message one = text_message("a", "10 EUR"), other = text_message("b", "10 EUR");
    const semel_message *const messages[] = {&one, &other, &one};
    semel_outcome outcomes[3];
    scripted_handler failing = {.failures = 1, .only = "b"};
    t->units.savepoint = NULL;
    t->units.keep = NULL;
    t->units.undo = NULL;
    open_table(t);
    semel_inbox *inbox = NULL;
    OK(semel_inbox_open(&inbox, t->store, "orders", NULL, &last_error));
    OK(semel_inbox_receive_batch(outcomes, inbox, messages, 3, scripted_handler_run, &failing,
                                 &last_error));
    OUTCOME(SEMEL_PROCESSED, outcomes[0]);
    OUTCOME(SEMEL_FAILED, outcomes[1]);
    OUTCOME(SEMEL_DUPLICATE, outcomes[2]);
    semel_inbox_close(inbox);
}

static void a_store_without_a_sweep_has_nothing_to_sweep(void **state)
{
    table *t = *state;
    size_t swept = 9;
    int more = 9;
    leave_out_all_but_claims(t);
    open_table(t);
    semel_inbox *inbox = open_claims(t);
    OK(semel_inbox_sweep(&swept, &more, inbox, 0, &last_error));
    assert_int_equal(swept, 0);
    assert_int_equal(more, 0);
    semel_inbox_close(inbox);
}

static semel_status set_result(semel_unit *unit, const semel_message *message, void *context,
                               semel_error *err)
{
    (void)message, (void)context;
    return semel_unit_set_result(unit, "receipt", 7, err);
}

static void a_result_that_would_be_lost_is_refused(void **state)
{
    table *t = *state;
    leave_out_all_but_claims(t);
    open_table(t);
    semel_inbox *inbox = open_claims(t);
    RECEIVES_ID_BY(SEMEL_EUNSUPPORTED, SEMEL_FAILED, inbox, "m-1", set_result, NULL);
    SAYS("keeps no results");
    semel_inbox_close(inbox);
}

static void counters_are_there_without_an_outbox(void **state)
{
    table *t = *state;
    semel_counters counters;
    leave_out_all_but_claims(t);
    open_table(t);
    OK(semel_store_counters(&counters, sizeof counters, t->store, &last_error));
    assert_int_equal(counters.unsent, 0);
}

/* --- what is refused without it --------------------------------------------------------------- */

static void expect_no_inbox(table *t, semel_inbox_options options, const char *instead)
{
    semel_inbox *inbox = NULL;
    options.size = sizeof options;
    FAILS(SEMEL_EUNSUPPORTED, semel_inbox_open(&inbox, t->store, "orders", &options, &last_error));
    SAYS("memory: this store cannot keep");
    SAYS(instead);
    assert_null(inbox);
    assert_int_equal(names, 0);
}

static void an_inbox_needs_the_members_of_its_mode(void **state)
{
    table *t = *state;
    open_table(t);
    expect_no_inbox(t, (semel_inbox_options){.mode = SEMEL_QUEUED}, "use SEMEL_TRANSACTION");
    t->markers.finish = NULL;
    t->markers.renew = NULL;
    expect_no_inbox(t, (semel_inbox_options){.mode = SEMEL_CLAIM}, "use SEMEL_TRANSACTION");
}

static void a_store_of_claims_has_no_other_inboxes(void **state)
{
    table *t = *state;
    leave_out_all_but_claims(t);
    open_table(t);
    expect_no_inbox(t, (semel_inbox_options){.mode = SEMEL_TRANSACTION}, "use SEMEL_CLAIM");
    expect_no_inbox(t, (semel_inbox_options){.mode = SEMEL_QUEUED}, "use SEMEL_CLAIM");
    expect_no_inbox(
        t, (semel_inbox_options){.mode = SEMEL_CLAIM, .on_duplicate = SEMEL_DUPLICATE_REPLAY},
        "use SEMEL_DUPLICATE_SKIP");
}

static void a_store_without_markers_has_no_inboxes(void **state)
{
    table *t = *state;
    t->driver.markers = NULL;
    open_table(t);
    expect_no_inbox(t, (semel_inbox_options){.mode = SEMEL_TRANSACTION}, "use another store");
}

/* Without an outbox there is none to open a relay with. */
static void a_store_without_messages_has_no_outboxes(void **state)
{
    table *t = *state;
    semel_outbox *outbox = NULL;
    leave_out_all_but_claims(t);
    open_table(t);
    FAILS(SEMEL_EUNSUPPORTED, semel_outbox_open(&outbox, t->store, "mail", &last_error));
    SAYS("memory: this store cannot keep an outbox: use another store");
    assert_null(outbox);
    assert_int_equal(names, 0);
}

static semel_status never_visited(const semel_dead *dead, void *context, semel_error *err)
{
    (void)dead, (void)context;
    return semel_fail(err, SEMEL_ESTORE, "there is a letter");
}

static void a_store_without_letters_has_none_to_work_with(void **state)
{
    table *t = *state;
    semel_outcome outcome = SEMEL_PROCESSED;
    scripted_handler never = {0};
    leave_out_all_but_claims(t);
    open_table(t);
    semel_inbox *inbox = open_claims(t);
    FAILS(SEMEL_EUNSUPPORTED, semel_dead_list(t->store, NULL, never_visited, NULL, &last_error));
    SAYS("memory: this store cannot keep dead letters");
    FAILS(SEMEL_EUNSUPPORTED,
          semel_dead_discard(t->store, 1, SEMEL_DISCARD_KEEP_DEAD, &last_error));
    FAILS(SEMEL_EUNSUPPORTED,
          semel_inbox_replay(&outcome, inbox, 1, scripted_handler_run, &never, &last_error));
    OUTCOME(SEMEL_UNDECIDED, outcome);
    semel_inbox_close(inbox);
}

/* What has no route, or is refused, would have to go somewhere. */
static void a_store_without_letters_has_no_consumers(void **state)
{
    table *t = *state;
    scripted_handler never = {0};
    semel_consumer *consumer = NULL;
    semel_transport *queue = NULL;
    leave_out_all_but_claims(t);
    open_table(t);
    semel_inbox *inbox = open_claims(t);
    semel_route route = {"orders", inbox, scripted_handler_run, &never};
    OK(semel_transport_open(&queue, "memory:", NULL, &last_error));
    FAILS(SEMEL_EUNSUPPORTED, semel_consumer_open(&consumer, queue, &route, 1, NULL, &last_error));
    SAYS("memory: this store cannot keep dead letters: use another store");
    assert_null(consumer);
    semel_transport_close(queue);
    semel_inbox_close(inbox);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_table_of_another_version_is_refused),
        TEST(a_table_without_a_member_of_the_store_is_refused),
        TEST(a_table_without_a_member_of_its_units_is_refused),
        TEST(a_table_without_a_member_of_its_markers_is_refused),
        TEST(a_table_without_a_member_of_its_messages_is_refused),
        TEST(join_and_its_ability_come_together),
        TEST(claims_are_enough_for_an_inbox),
        TEST(a_batch_without_savepoints_is_received_one_by_one),
        TEST(a_store_without_a_sweep_has_nothing_to_sweep),
        TEST(a_result_that_would_be_lost_is_refused),
        TEST(counters_are_there_without_an_outbox),
        TEST(an_inbox_needs_the_members_of_its_mode),
        TEST(a_store_of_claims_has_no_other_inboxes),
        TEST(a_store_without_markers_has_no_inboxes),
        TEST(a_store_without_messages_has_no_outboxes),
        TEST(a_store_without_letters_has_none_to_work_with),
        TEST(a_store_without_letters_has_no_consumers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
