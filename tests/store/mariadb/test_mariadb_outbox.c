/* The outbox on MariaDB: each message once in a turn, groups in turn however many there are, and
 * messages that are longer than what the server takes in one text. */
#include "mariadb_kit.h"

#include <semel/test.h>

typedef struct post {
    semel_transport *broker;
    semel_relay *relay;
} post;

static post open_post(server_case *c, uint32_t batch)
{
    post p = {NULL, NULL};
    semel_relay_options options = {.size = sizeof options, .batch = batch};
    OK(semel_test_recorder_open(&p.broker, &last_error));
    OK(semel_relay_open(&p.relay, c->outbox, p.broker, &options, &last_error));
    return p;
}

static void close_post(post *p)
{
    semel_relay_close(p->relay);
    semel_transport_close(p->broker);
}

static size_t turn(const post *p)
{
    size_t sent = 0;
    OK(semel_relay_step(&sent, p->relay, 0, &last_error));
    return sent;
}

enum { TURNS_MAX = 10000 };

static void drain(const post *p)
{
    for (int turns = 0; turn(p); turns++)
        assert_true(turns < TURNS_MAX);
}

/* Rows of the outbox, made by the server: without a group, or `of_group` for each of `groups`. */
static void fill(server_case *c, unsigned free_rows, unsigned groups, unsigned of_group)
{
    char sql[512];
    (void)snprintf(
        sql, sizeof sql,
        "SET @o = (SELECT id FROM semel_scope WHERE kind = 2 AND name = 'mail');"
        "INSERT INTO semel_outbox (outbox, wake_ms, attempts, refusals, captured_ms, id) "
        "SELECT @o, 1, 0, 0, 1, concat('f', seq) FROM seq_1_to_100000 WHERE seq <= %u;"
        "INSERT INTO semel_outbox (outbox, wake_ms, attempts, refusals, captured_ms, id, grp) "
        "SELECT @o, 1, 0, 0, 1, concat('g', g.seq, '.', n.seq), concat('g', lpad(g.seq, 6, '0')) "
        "FROM seq_1_to_10000 n, seq_1_to_10000 g WHERE g.seq <= %u AND n.seq <= %u "
        "ORDER BY n.seq, g.seq",
        free_rows, groups, of_group);
    server_run(c->base.place.url, sql);
}

/* In each group "g7" the messages are g7.1, g7.2 ... */
static void check_order(const post *p, unsigned groups, unsigned of_group)
{
    unsigned *next = calloc(groups + 1, sizeof *next);
    for (size_t i = 0; i < semel_test_recorder_count(p->broker); i++) {
        char id[32];
        unsigned group, number;
        semel_bytes raw = semel_test_recorder_message(p->broker, i)->id;
        (void)snprintf(id, sizeof id, "%.*s", (int)raw.len, (const char *)raw.data);
        if (sscanf(id, "g%u.%u", &group, &number) != 2)
            continue;
        if (number != ++next[group])
            fail_msg("%s comes as number %u", id, next[group]);
    }
    for (unsigned i = 1; i <= groups; i++)
        assert_int_equal(next[i], of_group);
    free(next);
}

/* Rows of both kinds, and fewer groups than half of the batch: the rest is filled up, with none
 * twice. */
static void a_turn_is_filled_and_takes_each_message_once(void **state)
{
    server_case *c = *state;
    static const uint32_t batches[] = {1, 2, 7, 100, 1000};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        post p = open_post(c, batches[i]);
        size_t total = 0, sent, turns = 0;
        fill(c, 60, 5, 6);
        while ((sent = turn(&p)) > 0) {
            assert_true(sent <= batches[i]);
            total += sent;
            assert_true(turns++ < TURNS_MAX);
        }
        assert_int_equal(total, 90);
        assert_int_equal(semel_test_recorder_count(p.broker), 90);
        assert_true(turns <= 2 * (90 / batches[i] + 1));
        check_order(&p, 5, 6);
        assert_int_equal(case_unsent(c), 0);
        close_post(&p);
    }
}

/* More than are looked at in one turn. */
static void no_group_is_passed_over_for_long(void **state)
{
    enum { GROUPS = 1000, OF_GROUP = 3, BATCH = 50 };
    server_case *c = *state;
    post p = open_post(c, BATCH);
    static unsigned char seen[GROUPS + 1];
    size_t first_round = 0;
    fill(c, 0, GROUPS, OF_GROUP);
    for (int i = 0; i < 2 * GROUPS / BATCH; i++)
        first_round += turn(&p);
    assert_true(first_round >= GROUPS);
    for (size_t i = 0; i < semel_test_recorder_count(p.broker); i++)
        seen[atoi((const char *)semel_test_recorder_message(p.broker, i)->group + 1)] = 1;
    for (int i = 1; i <= GROUPS; i++)
        if (!seen[i])
            fail_msg("group %d has not had a turn", i);
    drain(&p);
    check_order(&p, GROUPS, OF_GROUP);
    close_post(&p);
}

/* Deep groups, all of them blocked by a lease at their head, and one that is not. */
static void a_free_group_is_found_behind_many_deep_ones(void **state)
{
    server_case *c = *state;
    post p = open_post(c, 10);
    fill(c, 0, 600, 5);
    server_run(c->base.place.url, "UPDATE semel_outbox SET token = 7, wake_ms = 9e15, attempts = 1 "
                                  "WHERE id LIKE 'g%.1' AND id <> 'g377.1'");
    assert_int_equal(turn(&p), 5);
    assert_int_equal(turn(&p), 0);
    close_post(&p);
}

/* It is not there for others before it is committed, and it is never forgotten for that (P1). */
static void a_message_that_commits_late_is_sent_late(void **state)
{
    server_case *c = *state;
    post p = open_post(c, 10);
    semel_message early = text_message("early", "paid"), late = text_message("late", "paid");
    MYSQL *my = connect_to(c, c->name, CLIENT_MULTI_STATEMENTS);
    early.group = late.group = "g";
    SQL(my, "START TRANSACTION");
    semel_unit *unit = NULL;
    OK(semel_unit_join_mariadb(&unit, c->base.store, my, &last_error));
    OK(semel_unit_send(unit, c->outbox, &late, &last_error)); /* it has the smaller number */
    OK(semel_unit_commit(unit, &last_error));
    OK(semel_outbox_send(c->outbox, &early, &last_error));
    assert_int_equal(turn(&p), 1);
    SQL(my, "COMMIT");
    assert_int_equal(turn(&p), 1);
    assert_int_equal(case_unsent(c), 0);
    mysql_close(my);
    close_post(&p);
}

static void lock_row(server_case *c, MYSQL *my, const char *id)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "SELECT seq FROM semel_outbox WHERE id = '%s'", id);
    (void)snprintf(sql, sizeof sql, "SELECT 1 FROM semel_outbox WHERE seq = %lld FOR UPDATE",
                   (long long)case_number(c, sql));
    SQL(my, sql);
}

/* A row that others have locked, at the front of a group or without one, holds up its own kind
 * only. */
static void a_locked_row_holds_up_its_group_only(void **state)
{
    server_case *c = *state;
    post p = open_post(c, 100);
    MYSQL *my = connect_to(c, c->name, 0);
    fill(c, 5, 3, 4);
    SQL(my, "START TRANSACTION");
    lock_row(c, my, "f3");
    lock_row(c, my, "g2.2");
    drain(&p);
    assert_int_equal(case_unsent(c), 1 + 3); /* f3, and g2 from its second on */
    SQL(my, "COMMIT");
    drain(&p);
    assert_int_equal(case_unsent(c), 0);
    check_order(&p, 3, 4);
    mysql_close(my);
    close_post(&p);
}

/* In one unit: in the same transaction, before and behind small ones. */
static void large_messages_go_with_small_ones(void **state)
{
    server_case *c = *state;
    post p = open_post(c, 100);
    static char body[12 << 20];
    semel_unit *unit = NULL;
    semel_message small = text_message("small", "paid"), large = text_message("large", "");
    memset(body, 'x', sizeof body);
    large.body = (semel_bytes){body, sizeof body};
    large.time_ms = 7;
    small.group = large.group = "g";
    for (int commits = 0; commits < 2; commits++) {
        OK(semel_unit_begin(&unit, c->base.store, &last_error));
        for (int i = 0; i < 3; i++)
            OK(semel_unit_send(unit, c->outbox, i == 1 ? &large : &small, &last_error));
        if (commits)
            OK(semel_unit_commit(unit, &last_error));
        else
            semel_unit_rollback(unit);
        assert_int_equal(case_unsent(c), commits ? 3 : 0);
    }
    assert_int_equal(turn(&p), 3);
    MESSAGE_EQUAL(&large, semel_test_recorder_message(p.broker, 1));
    close_post(&p);
}

static void a_large_message_may_become_a_dead_letter(void **state)
{
    server_case *c = *state;
    static char body[12 << 20];
    case_work hopeless = {.work = {.failures = 1, .failure = SEMEL_EGIVEUP}};
    semel_message large = text_message("large", "");
    semel_outcome out;
    large.body = (semel_bytes){body, sizeof body};
    OK(semel_inbox_receive(&out, c->inbox, &large, case_handle, &hopeless, &last_error));
    assert_int_equal(out, SEMEL_DEAD);
    assert_int_equal(case_number(c, "SELECT length(body) FROM semel_dead"), sizeof body);
    OK(semel_inbox_replay(&out, c->inbox, case_number(c, "SELECT dead_id FROM semel_dead"),
                          case_handle, &hopeless, &last_error));
    assert_int_equal(out, SEMEL_PROCESSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_turn_is_filled_and_takes_each_message_once, by_transaction),
        CASE(no_group_is_passed_over_for_long, by_transaction),
        CASE(a_free_group_is_found_behind_many_deep_ones, by_transaction),
        CASE(a_message_that_commits_late_is_sent_late, by_transaction),
        CASE(a_locked_row_holds_up_its_group_only, by_transaction),
        CASE(large_messages_go_with_small_ones, by_transaction),
        CASE(a_large_message_may_become_a_dead_letter, by_transaction),
    };
    return cmocka_run_group_tests_name("mariadb: outbox", tests, NULL, NULL);
}
