/* Groups that wait, as they lie in the tables: what is parked, what semel_group knows of it, and
 * what becomes of rows that an older semel has left. For stores with tables;
 * conformance_store_groups.c is about what all of them must do. */
#include "support/conformance/conformance_store.h"
#include "support/inspect/inspect.h"

#include <stdio.h>
#include <string.h>

#define FAR_AWAY "9000000000000000"

static void send_id(semel_outbox *outbox, const char *id, const char *group)
{
    semel_message message = text_message(id, "paid");
    message.group = group;
    message.topic = id;
    OK(semel_outbox_send(outbox, &message, &last_error));
}

/* Where a group has parked rows it is in semel_group, and due no later than the first of them that
 * waits. */
static void expect_sound(store_fixture *f)
{
    static const char *const lost[] = {
        "SELECT count(*) FROM semel_outbox o WHERE o.parked AND NOT EXISTS "
        "(SELECT 1 FROM semel_group g WHERE g.outbox = o.outbox AND g.grp = o.grp)",
        "SELECT count(*) FROM semel_group g WHERE g.due_ms > (SELECT o.wake_ms FROM semel_outbox o "
        "WHERE o.outbox = g.outbox AND o.grp = g.grp AND o.parked ORDER BY o.seq LIMIT 1)",
        "SELECT count(*) FROM semel_outbox WHERE parked AND grp IS NULL"};
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++)
        assert_int_equal(inspect_number(f->base.place.url, lost[i]), 0);
}

static int64_t count_parked(store_fixture *f)
{
    expect_sound(f);
    return inspect_number(f->base.place.url, "SELECT count(*) FROM semel_outbox WHERE parked");
}

static int64_t count_groups(store_fixture *f)
{
    return inspect_number(f->base.place.url, "SELECT count(*) FROM semel_group");
}

/* A group is known while it waits and while something parked is left of it, and then no more. */
static void a_group_is_known_for_as_long_as_it_waits(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay_options options = {
        .size = sizeof options, .backoff_ms = grains(f, 1000), .backoff_max_ms = grains(f, 1000)};
    semel_relay *relay = open_relay(f, outbox, broker, &options);
    send_id(outbox, "1", "g");
    send_id(outbox, "free", NULL);
    send_id(outbox, "fine", "h");
    semel_test_recorder_answer(broker, "1", SEMEL_PUBLISH_REFUSED, 1);
    semel_test_recorder_answer(broker, "free", SEMEL_PUBLISH_REFUSED, 1);
    assert_int_equal(relay_all(relay), 1);
    assert_int_equal(count_parked(f), 1);
    assert_int_equal(count_groups(f), 1);
    send_id(outbox, "2", "g");
    send_id(outbox, "3", "g");
    assert_int_equal(count_parked(f), 1);
    assert_int_equal(relay_all(relay), 0);
    assert_int_equal(count_parked(f), 3);
    assert_int_equal(count_groups(f), 1);
    pass_ms(f, grains(f, 1000));
    assert_int_equal(relay_all(relay), 4);
    assert_int_equal(count_parked(f), 0);
    assert_int_equal(count_groups(f), 0);
}

/* Only some are parked at a visit: the rest of them is found again. */
static void a_long_group_is_parked_by_and_by(void **state)
{
    enum { ROWS = 250 };
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay_options options = {
        .size = sizeof options, .backoff_ms = grains(f, 1000), .backoff_max_ms = grains(f, 1000)};
    semel_relay *relay = open_relay(f, outbox, broker, &options);
    int64_t parked = 0;
    unsigned turns = 0;
    send_id(outbox, "1", "g");
    semel_test_recorder_answer(broker, "1", SEMEL_PUBLISH_REFUSED, 1);
    assert_int_equal(relay_once(relay), 0);
    for (int i = 1; i < ROWS; i++)
        send_id(outbox, "", "g");
    while ((parked = count_parked(f)) < ROWS && turns++ < 100)
        assert_int_equal(relay_once(relay), 0);
    assert_int_equal(parked, ROWS);
    assert_true(turns > 1);
    pass_ms(f, grains(f, 1000));
    assert_int_equal(relay_all(relay), ROWS);
    assert_int_equal(count_groups(f), 0);
}

/* A row for "mail" with this number, as one that has got it early and commits late. */
static void commit_late(store_fixture *f, int64_t seq, const char *id, const char *wake_ms)
{
    char sql[512];
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO semel_outbox (seq, outbox, wake_ms, attempts, refusals, "
                   "captured_ms, grp, id) %s SELECT %lld, id, %s, 0, 0, 1, 'g', '%s' "
                   "FROM semel_scope WHERE kind = 2 AND name = 'mail'",
                   inspect_is_postgres(f->base.place.url) ? "OVERRIDING SYSTEM VALUE" : "",
                   (long long)seq, wake_ms, id);
    inspect_run(f->base.place.url, sql);
}

/* It has the smallest number of its group, all of which is parked: it is the first, whatever the
 * others wait for. */
static void one_that_commits_late_comes_before_those_that_wait(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay_options options = {
        .size = sizeof options, .backoff_ms = grains(f, 1000), .backoff_max_ms = grains(f, 1000)};
    semel_relay *relay = open_relay(f, outbox, broker, &options);
    char ids[128];
    send_id(outbox, "head", "g");
    semel_test_recorder_answer(broker, "head", SEMEL_PUBLISH_REFUSED, 1);
    assert_int_equal(relay_all(relay), 0);
    send_id(outbox, "next", "g");
    assert_int_equal(relay_all(relay), 0);
    assert_int_equal(count_parked(f), 2);

    commit_late(f, -1, "late", "1");
    assert_int_equal(relay_all(relay), 1);
    commit_late(f, -2, "later", FAR_AWAY);
    pass_ms(f, grains(f, 1000));
    assert_int_equal(relay_all(relay), 0); /* it is delayed, and holds up all of them */
    assert_int_equal(count_parked(f), 3);
    inspect_run(f->base.place.url, "UPDATE semel_outbox SET wake_ms = 1 WHERE token IS NULL");
    inspect_run(f->base.place.url, "UPDATE semel_group SET due_ms = 1");
    assert_int_equal(relay_all(relay), 3);
    recorded_ids(ids, sizeof ids, broker);
    assert_non_null(strstr(ids, "late later head next"));
    assert_int_equal(count_groups(f), 0);
}

/* --- upgrades --------------------------------------------------------------------------------- */

/* Up to the first version, and no further. */
static void migrate_to_first_version(store_fixture *f)
{
    semel_test_fault(f->base.seam, "migrate.committed", 1, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE, semel_store_migrate(f->base.store, &last_error));
    assert_int_equal(inspect_number(f->base.place.url, "SELECT max(version) FROM semel_schema"), 1);
}

static void add_old_row(store_fixture *f, const char *id, const char *group, const char *wake_ms,
                        const char *token, int attempts)
{
    char sql[512];
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO semel_outbox (outbox, wake_ms, token, attempts, refusals, "
                   "captured_ms, grp, id) SELECT id, %s, %s, %d, 0, 1, %s, '%s' FROM semel_scope "
                   "WHERE kind = 2 AND name = 'mail'",
                   wake_ms, token, attempts, group, id);
    inspect_run(f->base.place.url, sql);
}

/* Of all kinds: ready, delayed, in backoff, leased by a relay that is gone or by one that is
 * not. */
static void add_old_rows(store_fixture *f)
{
    inspect_run(f->base.place.url, "INSERT INTO semel_scope (kind, name) VALUES (2, 'mail')");
    add_old_row(f, "f1", "NULL", "1", "NULL", 0);
    add_old_row(f, "f2", "NULL", FAR_AWAY, "NULL", 1);
    add_old_row(f, "a1", "'a'", "1", "NULL", 0);
    add_old_row(f, "a2", "'a'", "1", "NULL", 0);
    add_old_row(f, "b1", "'b'", FAR_AWAY, "NULL", 1);
    add_old_row(f, "b2", "'b'", "1", "NULL", 0);
    add_old_row(f, "c1", "'c'", "1", "7", 1);
    add_old_row(f, "c2", "'c'", "1", "NULL", 0);
    add_old_row(f, "d1", "'d'", FAR_AWAY, "NULL", 0);
    add_old_row(f, "d2", "'d'", "1", "NULL", 0);
    add_old_row(f, "e1", "'e'", FAR_AWAY, "9", 1);
    add_old_row(f, "e2", "'e'", "1", "NULL", 0);
}

static void rows_of_the_first_version_leave_after_the_upgrade(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = NULL;
    char ids[128];
    migrate_to_first_version(f);
    add_old_rows(f);
    FAILS(SEMEL_ESCHEMA, semel_outbox_open(&outbox, f->base.store, "mail", &last_error));
    OK(semel_store_migrate(f->base.store, &last_error));
    semel_transport *broker = open_recorder(f);
    semel_relay *relay = open_relay(f, open_outbox(f, "mail"), broker, NULL);
    assert_int_equal(relay_all(relay), 5);
    assert_int_equal(count_parked(f), 4);
    assert_int_equal(counters_of(f).unsent, 7);
    inspect_run(f->base.place.url, "UPDATE semel_outbox SET wake_ms = 1");
    inspect_run(f->base.place.url, "UPDATE semel_group SET due_ms = 1");
    assert_int_equal(relay_all(relay), 7);
    recorded_ids(ids, sizeof ids, broker);
    for (char group[] = "a"; *group <= 'e'; ++*group) {
        char first[] = {*group, '1', 0}, second[] = {*group, '2', 0};
        assert_non_null(strstr(ids, first));
        assert_true(strstr(ids, first) < strstr(ids, second));
    }
    assert_int_equal(count_groups(f), 0);
}

#define ON_TABLES(test) STORE_TEST_WITH(test, IN_ANY_MODE | NEEDS_MIGRATES | NEEDS_SQL)

const store_test store_parking_tests[] = {
    ON_TABLES(a_group_is_known_for_as_long_as_it_waits),
    ON_TABLES(a_long_group_is_parked_by_and_by),
    ON_TABLES(one_that_commits_late_comes_before_those_that_wait),
    STORE_TEST_WITH(rows_of_the_first_version_leave_after_the_upgrade,
                    IN_ANY_MODE | NEEDS_MIGRATES | NEEDS_SQL | NOT_MIGRATED),
    {NULL, NULL, 0}};
