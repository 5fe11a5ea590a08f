/* Dead letters by what operators look for: their causes, parts of their errors, their keys; groups
 * of them; and retries that a process takes over from a tool. */
#include "support/conformance/conformance_store.h"
#include "support/inspect/inspect.h"

#include <semel/operate.h>
#include <stdio.h>
#include <string.h>

/* The message's body is the error of its letter. */
static semel_status give_up(semel_unit *unit, const semel_message *message, void *context,
                            semel_error *err)
{
    (void)unit;
    (void)context;
    return semel_fail(err, SEMEL_EGIVEUP, "%.*s", (int)message->body.len,
                      (const char *)message->body.data);
}

static void bury(semel_inbox *inbox, const char *id, const char *error)
{
    semel_message message = text_message(id, error);
    semel_outcome outcome;
    message.type = "order.paid";
    OK(semel_inbox_receive(&outcome, inbox, &message, give_up, NULL, &last_error));
    OUTCOME(SEMEL_DEAD, outcome);
}

static void expect_keys(store_fixture *f, semel_dead_filter filter, const char *expected)
{
    char text[256] = "";
    size_t used = 0;
    letters found;
    filter.size = sizeof filter;
    letters_read(&found, f->base.store, &filter);
    for (size_t i = 0; i < found.count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%.*s ",
                                 (int)found.all[i].key_len, found.all[i].key);
    letters_free(&found);
    assert_string_equal(text, expected);
}

/* The only letter with this key. */
static struct dead_copy letter_of(store_fixture *f, const char *key)
{
    letters found;
    semel_dead_filter filter = {.size = sizeof filter, .key = semel_str(key)};
    letters_read(&found, f->base.store, &filter);
    assert_int_equal(found.count, 1);
    struct dead_copy one = found.all[0];
    letters_free(&found);
    return one;
}

/* --- filters ---------------------------------------------------------------------------------- */

static void letters_are_found_by_their_cause(void **state)
{
    store_fixture *f = *state;
    semel_inbox *orders = open_inbox(f, "orders", NULL), *bills = open_inbox(f, "bills", NULL);
    uint32_t cause = semel_cause("orders", "no rate for order 1");
    bury(orders, "a", "no rate for order 1");
    bury(bills, "b", "no rate for order 1");
    bury(orders, "c", "no rate for order 20688");
    bury(orders, "d", "out of paper");
    assert_int_equal(letter_of(f, "a").cause, cause);
    assert_int_equal(letter_of(f, "c").cause, cause);
    assert_int_equal(letter_of(f, "b").cause, semel_cause("bills", "no rate for order 7"));
    expect_keys(f, (semel_dead_filter){.cause = cause}, "a c ");
    expect_keys(f, (semel_dead_filter){.cause = cause, .limit = 1}, "a ");
    expect_keys(f, (semel_dead_filter){.cause = cause, .after_id = letter_of(f, "a").id}, "c ");
    expect_keys(f, (semel_dead_filter){.cause = cause + 1}, "");
}

static void letters_are_found_by_a_part_of_their_error(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    bury(inbox, "a", "No rate for order 1");
    bury(inbox, "b", "out of paper");
    bury(inbox, "c", "the NO RATE again");
    expect_keys(f, (semel_dead_filter){.error = "no rate"}, "a c ");
    expect_keys(f, (semel_dead_filter){.error = "PAPER"}, "b ");
    expect_keys(f, (semel_dead_filter){.error = "100%_"}, "");
    expect_keys(f, (semel_dead_filter){.error = ""}, "a b c ");
}

/* A page is short only at the end, however many letters between two that are wanted are not. */
static void a_page_of_a_search_is_full(void **state)
{
    enum { BETWEEN = 120 };
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    uint32_t cause = semel_cause("orders", "paper is out");
    char id[16];
    bury(inbox, "first", "paper is out");
    for (int i = 0; i < BETWEEN; i++) {
        (void)snprintf(id, sizeof id, "m-%d", i);
        bury(inbox, id, "no ink");
    }
    bury(inbox, "second", "paper is out");
    bury(inbox, "third", "paper is out");
    expect_keys(f, (semel_dead_filter){.error = "paper", .limit = 2}, "first second ");
    expect_keys(f, (semel_dead_filter){.error = "paper", .limit = 2, .brief = 1}, "first second ");
    expect_keys(f, (semel_dead_filter){.error = "paper", .cause = cause, .limit = 3},
                "first second third ");
    expect_keys(
        f, (semel_dead_filter){.error = "paper", .limit = 2, .after_id = letter_of(f, "second").id},
        "third ");
}

static void letters_are_found_by_key_and_in_a_range_of_ids(void **state)
{
    store_fixture *f = *state;
    semel_inbox *orders = open_inbox(f, "orders", NULL), *bills = open_inbox(f, "bills", NULL);
    bury(orders, "a", "x");
    bury(orders, "b", "x");
    bury(bills, "a", "x");
    bury(orders, "c", "x");
    int64_t second = letter_of(f, "b").id;
    expect_keys(f, (semel_dead_filter){.key = semel_str("a")}, "a a ");
    expect_keys(f, (semel_dead_filter){.key = semel_str("a"), .name = "bills"}, "a ");
    expect_keys(
        f, (semel_dead_filter){.key = semel_str("a"), .name = "orders", .origin = SEMEL_DEAD_INBOX},
        "a ");
    expect_keys(
        f,
        (semel_dead_filter){.key = semel_str("a"), .name = "orders", .origin = SEMEL_DEAD_OUTBOX},
        "");
    expect_keys(f, (semel_dead_filter){.last_id = second}, "a b ");
    expect_keys(f, (semel_dead_filter){.last_id = second, .after_id = second - 1}, "b ");
    expect_keys(f, (semel_dead_filter){.cause = semel_cause("orders", "x"), .last_id = second},
                "a b ");
}

static void a_brief_letter_has_no_headers_and_no_body(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_message message = *full_message();
    semel_outcome outcome;
    semel_dead_filter filter = {.size = sizeof filter, .brief = 1};
    letters found;
    message.time_ms = 0;
    OK(semel_inbox_receive(&outcome, inbox, &message, give_up, NULL, &last_error));
    letters_read(&found, f->base.store, &filter);
    assert_int_equal(found.count, 1);
    message.headers = NULL;
    message.header_count = 0;
    message.body = (semel_bytes){NULL, 0};
    MESSAGE_EQUAL(&message, found.all[0].message);
    letters_free(&found);
}

/* What expires is chosen by the same filter. */
static void letters_of_a_cause_expire_alone(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_dead_filter filter = {.size = sizeof filter, .cause = semel_cause("orders", "no ink")};
    size_t removed;
    int more;
    bury(inbox, "a", "no ink");
    bury(inbox, "b", "no paper");
    pass_ms(f, grains(f, 10));
    OK(semel_dead_sweep(&removed, &more, f->base.store, &filter, SEMEL_RETENTION_NONE, 0,
                        &last_error));
    assert_int_equal(removed, 1);
    filter = (semel_dead_filter){.size = sizeof filter, .error = "ink"};
    OK(semel_dead_sweep(&removed, &more, f->base.store, &filter, SEMEL_RETENTION_NONE, 0,
                        &last_error));
    assert_int_equal(removed, 0);
    expect_keys(f, (semel_dead_filter){0}, "b ");
}

static void letters_of_a_cause_are_replayed_alone(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_dead_filter filter = {
        .size = sizeof filter, .cause = semel_cause("orders", "no ink"), .brief = 1};
    scripted_handler done = {0};
    size_t replayed, failed;
    bury(inbox, "a", "no ink");
    bury(inbox, "b", "no paper");
    bury(inbox, "c", "no ink");
    OK(semel_inbox_replay_all(&replayed, &failed, inbox, &filter, scripted_handler_run, &done,
                              &last_error));
    assert_int_equal(replayed, 2);
    assert_int_equal(failed, 0);
    expect_keys(f, (semel_dead_filter){0}, "b ");
}

/* --- groups ----------------------------------------------------------------------------------- */

typedef struct groups_seen {
    semel_store *store;
    char text[512];
    int64_t first_ms, last_ms, first_id, last_id; /* of the first */
} groups_seen;

static semel_status see_group(const semel_dead_group *group, void *context, semel_error *err)
{
    groups_seen *seen = context;
    size_t used = strlen(seen->text);
    int64_t now;
    if (!used) {
        seen->first_ms = group->first_ms;
        seen->last_ms = group->last_ms;
        seen->first_id = group->first_id;
        seen->last_id = group->last_id;
    }
    (void)snprintf(seen->text + used, sizeof seen->text - used, "%d:%s %llu %s%s; ",
                   (int)group->origin, group->name, (unsigned long long)group->letters, group->text,
                   group->cause == semel_cause(group->name, group->text) ? "" : "?");
    return semel_store_now(&now, seen->store, err);
}

static groups_seen read_groups(store_fixture *f, semel_dead_filter filter)
{
    groups_seen seen = {.store = f->base.store};
    filter.size = sizeof filter;
    OK(semel_dead_groups(f->base.store, &filter, see_group, &seen, &last_error));
    return seen;
}

static void letters_are_grouped_by_name_and_cause(void **state)
{
    store_fixture *f = *state;
    semel_inbox *orders = open_inbox(f, "orders", NULL), *bills = open_inbox(f, "bills", NULL);
    assert_string_equal(read_groups(f, (semel_dead_filter){0}).text, "");
    bury(bills, "a", "no rate for order 1");
    bury(orders, "a", "no rate for order 1");
    bury(orders, "b", "out of paper");
    pass_ms(f, grains(f, 100));
    bury(orders, "c", "no rate for order 20688");
    groups_seen seen = read_groups(f, (semel_dead_filter){0});
    assert_string_equal(seen.text, "1:orders 2 no rate for order <n>; "
                                   "1:bills 1 no rate for order <n>; 1:orders 1 out of paper; ");
    letters all;
    letters_read(&all, f->base.store, NULL);
    assert_int_equal(seen.first_id, all.all[1].id);
    assert_int_equal(seen.last_id, all.all[3].id);
    assert_int_equal(seen.first_ms, all.all[1].at_ms);
    assert_int_equal(seen.last_ms, all.all[3].at_ms);
    assert_true(seen.first_ms < seen.last_ms);
    letters_free(&all);
    seen = read_groups(f, (semel_dead_filter){.name = "orders", .limit = 1, .error = "RATE"});
    assert_string_equal(seen.text, "1:orders 2 no rate for order <n>; ");
}

/* As an older semel stores them, which may run beside this one. */
static void letters_without_a_stored_cause_are_found_and_grouped(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    uint32_t cause = semel_cause("orders", "no rate for order 1");
    bury(inbox, "a", "no rate for order 1");
    bury(inbox, "b", "out of paper");
    inspect_run(f->base.place.url, "UPDATE semel_dead SET cause = NULL");
    bury(inbox, "c", "no rate for order 3");
    bury(inbox, "d", "out of paper");
    assert_int_equal(letter_of(f, "a").cause, cause);
    expect_keys(f, (semel_dead_filter){.cause = cause}, "a c ");
    expect_keys(f, (semel_dead_filter){.cause = cause, .limit = 1}, "a ");
    assert_string_equal(read_groups(f, (semel_dead_filter){0}).text,
                        "1:orders 2 no rate for order <n>; 1:orders 2 out of paper; ");
    assert_string_equal(read_groups(f, (semel_dead_filter){.cause = cause}).text,
                        "1:orders 2 no rate for order <n>; ");
}

static void set_retry(store_fixture *f, const char *key, semel_retry from, semel_retry to)
{
    OK(semel_dead_set_retry(f->base.store, letter_of(f, key).id, from, to, "failed again 7",
                            &last_error));
}

/* --- upgrades --------------------------------------------------------------------------------- */

enum { BEFORE = 3 }; /* the version before letters had causes */

static int64_t version_of(store_fixture *f)
{
    return inspect_number(f->base.place.url, "SELECT max(version) FROM semel_schema");
}

static void migrate_until(store_fixture *f, const char *point, uint32_t nth)
{
    semel_test_fault(f->base.seam, point, nth, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE, semel_store_migrate(f->base.store, &last_error));
    semel_test_fault(f->base.seam, NULL, 0, SEMEL_OK);
}

/* As a semel of the version before writes it, which may still run when the tables are new. */
static void add_old_letter(store_fixture *f, const char *key, const char *error)
{
    char sql[512];
    const char *name = inspect_is_postgres(f->base.place.url) ? "key" : "`key`";
    int server = inspect_is_server(f->base.place.url);
    char quoted[64];
    (void)snprintf(quoted, sizeof quoted, "%s'%s'%s", server ? "" : "CAST(", key,
                   server ? "" : " AS BLOB)");
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO semel_dead (origin, name, %s, attempts, at_ms, error, id, type) "
                   "VALUES (1, 'orders', %s, 1, 1000, '%s', %s, 'order.paid')",
                   name, quoted, error, quoted);
    inspect_run(f->base.place.url, sql);
}

static void letters_of_the_version_before_are_there_after_the_upgrade(void **state)
{
    store_fixture *f = *state;
    uint32_t cause = semel_cause("orders", "no rate for order 1");
    migrate_until(f, "migrate.committed", BEFORE);
    assert_int_equal(version_of(f), BEFORE);
    add_old_letter(f, "a", "no rate for order 1");
    add_old_letter(f, "b", "out of paper");
    migrate_until(f, "migrate.applied", 1);
    migrate_until(f, "migrate.applied", 1);
    OK(semel_store_migrate(f->base.store, &last_error));
    OK(semel_store_migrate(f->base.store, &last_error));
    add_old_letter(f, "c", "no rate for order 3");
    assert_string_equal(read_groups(f, (semel_dead_filter){0}).text,
                        "1:orders 2 no rate for order <n>; 1:orders 1 out of paper; ");
    expect_keys(f, (semel_dead_filter){.cause = cause}, "a c ");
    assert_int_equal(letter_of(f, "b").cause, semel_cause("orders", "out of paper"));
    assert_int_equal(letter_of(f, "b").retry, SEMEL_RETRY_NONE);
    set_retry(f, "c", SEMEL_RETRY_NONE, SEMEL_RETRY_ASKED);
    expect_keys(f, (semel_dead_filter){.retry = 1}, "c ");
}

/* --- retries ---------------------------------------------------------------------------------- */

static void a_retry_that_was_asked_for_is_taken_once(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    bury(inbox, "a", "no ink");
    bury(inbox, "b", "no ink");
    int64_t id = letter_of(f, "b").id;
    assert_int_equal(letter_of(f, "a").retry, SEMEL_RETRY_NONE);
    FAILS(SEMEL_ENOTFOUND, semel_dead_set_retry(f->base.store, id, SEMEL_RETRY_ASKED,
                                                SEMEL_RETRY_BEGUN, NULL, &last_error));
    set_retry(f, "b", SEMEL_RETRY_NONE, SEMEL_RETRY_ASKED);
    expect_keys(f, (semel_dead_filter){.retry = 1}, "b ");
    expect_keys(f, (semel_dead_filter){.retry = 1, .cause = semel_cause("orders", "no ink")}, "b ");
    expect_keys(f, (semel_dead_filter){.retry = 1, .name = "bills"}, "");
    set_retry(f, "b", SEMEL_RETRY_ASKED, SEMEL_RETRY_BEGUN);
    expect_keys(f, (semel_dead_filter){.retry = 1}, "");
    assert_int_equal(letter_of(f, "b").retry, SEMEL_RETRY_BEGUN);
    FAILS(SEMEL_ENOTFOUND, semel_dead_set_retry(f->base.store, id, SEMEL_RETRY_ASKED,
                                                SEMEL_RETRY_BEGUN, NULL, &last_error));
    assert_string_equal(letter_of(f, "b").error, "no ink");
    assert_int_equal(letter_of(f, "b").attempts, 1);
}

static void a_retry_that_failed_leaves_its_error(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    bury(inbox, "a", "no ink");
    set_retry(f, "a", SEMEL_RETRY_NONE, SEMEL_RETRY_ASKED);
    set_retry(f, "a", SEMEL_RETRY_ASKED, SEMEL_RETRY_BEGUN);
    set_retry(f, "a", SEMEL_RETRY_BEGUN, SEMEL_RETRY_FAILED);
    struct dead_copy failed = letter_of(f, "a");
    assert_int_equal(failed.retry, SEMEL_RETRY_FAILED);
    assert_string_equal(failed.error, "failed again 7");
    assert_int_equal(failed.attempts, 2);
    assert_int_equal(failed.cause, semel_cause("orders", "failed again 8"));
    expect_keys(f, (semel_dead_filter){.cause = failed.cause}, "a ");
    expect_keys(f, (semel_dead_filter){.cause = semel_cause("orders", "no ink")}, "");
    set_retry(f, "a", SEMEL_RETRY_NONE, SEMEL_RETRY_ASKED); /* whatever the state is */
    expect_keys(f, (semel_dead_filter){.retry = 1}, "a ");
    scripted_handler done = {0};
    semel_outcome outcome;
    OK(semel_inbox_replay(&outcome, inbox, failed.id, scripted_handler_run, &done, &last_error));
    OUTCOME(SEMEL_PROCESSED, outcome);
    FAILS(SEMEL_ENOTFOUND, semel_dead_set_retry(f->base.store, failed.id, SEMEL_RETRY_NONE,
                                                SEMEL_RETRY_ASKED, NULL, &last_error));
}

static void only_states_that_there_are_can_be_set(void **state)
{
    store_fixture *f = *state;
    semel_dead_filter filter = {.size = sizeof filter, .retry = 2};
    FAILS(SEMEL_EINVAL, semel_dead_set_retry(f->base.store, 1, SEMEL_RETRY_NONE, (semel_retry)4,
                                             NULL, &last_error));
    FAILS(SEMEL_EINVAL, semel_dead_set_retry(f->base.store, 1, (semel_retry)-1, SEMEL_RETRY_ASKED,
                                             NULL, &last_error));
    FAILS(SEMEL_EINVAL, semel_dead_list(f->base.store, &filter, NULL, NULL, &last_error));
}

typedef struct taker {
    semel_store *store;
    int64_t id;
    pthread_barrier_t *start;
    semel_status status;
} taker;

static void *take_retry(void *context)
{
    taker *t = context;
    semel_error err;
    (void)pthread_barrier_wait(t->start);
    t->status =
        semel_dead_set_retry(t->store, t->id, SEMEL_RETRY_ASKED, SEMEL_RETRY_BEGUN, NULL, &err);
    return NULL;
}

static void of_threads_that_take_one_retry_one_wins(void **state)
{
    enum { TAKERS = 2, ROUNDS = 10 };
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    pthread_t threads[TAKERS];
    taker takers[TAKERS];
    pthread_barrier_t start;
    bury(inbox, "a", "no ink");
    int64_t id = letter_of(f, "a").id;
    for (int round = 0; round < ROUNDS; round++) {
        set_retry(f, "a", SEMEL_RETRY_NONE, SEMEL_RETRY_ASKED);
        assert_int_equal(pthread_barrier_init(&start, NULL, TAKERS), 0);
        for (int i = 0; i < TAKERS; i++) {
            takers[i] = (taker){.store = f->base.store, .id = id, .start = &start};
            assert_int_equal(pthread_create(&threads[i], NULL, take_retry, &takers[i]), 0);
        }
        for (int i = 0; i < TAKERS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        pthread_barrier_destroy(&start);
        int first = takers[0].status == SEMEL_OK;
        assert_int_equal(takers[first ? 0 : 1].status, SEMEL_OK);
        assert_int_equal(takers[first ? 1 : 0].status, SEMEL_ENOTFOUND);
    }
}

const store_test store_cause_tests[] = {
    STORE_TEST(letters_are_found_by_their_cause),
    STORE_TEST_WITH(letters_are_found_by_a_part_of_their_error, IN_ANY_MODE),
    STORE_TEST_WITH(a_page_of_a_search_is_full, IN_ANY_MODE),
    STORE_TEST_WITH(letters_are_found_by_key_and_in_a_range_of_ids, IN_ANY_MODE),
    STORE_TEST_WITH(a_brief_letter_has_no_headers_and_no_body, IN_ANY_MODE),
    STORE_TEST_WITH(letters_of_a_cause_expire_alone, IN_ANY_MODE),
    STORE_TEST(letters_of_a_cause_are_replayed_alone),
    STORE_TEST_WITH(letters_are_grouped_by_name_and_cause, IN_ANY_MODE),
    STORE_TEST_WITH(letters_without_a_stored_cause_are_found_and_grouped,
                    IN_ANY_MODE | NEEDS_MIGRATES | NEEDS_SQL),
    STORE_TEST_WITH(letters_of_the_version_before_are_there_after_the_upgrade,
                    IN_ANY_MODE | NOT_MIGRATED | NEEDS_MIGRATES | NEEDS_SQL),
    STORE_TEST(a_retry_that_was_asked_for_is_taken_once),
    STORE_TEST(a_retry_that_failed_leaves_its_error),
    STORE_TEST_WITH(only_states_that_there_are_can_be_set, IN_ANY_MODE),
    STORE_TEST_WITH(of_threads_that_take_one_retry_one_wins, IN_ANY_MODE),
    {NULL, NULL, 0}};
