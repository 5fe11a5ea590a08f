/* What operators change by hand, on the servers' own side: beside a relay in the middle of a
 * transaction, by two processes at once, and at each level of isolation that an application may
 * have set. */
#include "support/process/process.h"
#include "support/process/threads.h"
#include "support/servers/sql/server_case.h"
#include "support/servers/sql/server_session.h"

#include <poll.h>
#include <semel/operate.h>
#include <stdio.h>
#include <string.h>

enum { HOUR_MS = 3600000 };

static semel_relay *open_relay(server_case *c, semel_transport **broker)
{
    semel_relay_options options = {.size = sizeof options, .batch = 100, .lease_ms = HOUR_MS};
    *broker = fixture_recorder(&c->base);
    return fixture_relay(&c->base, c->outbox, *broker, &options);
}

static void send_to(semel_outbox *outbox, const char *id, const char *group, uint32_t delay_ms)
{
    semel_message message = text_message(id, "paid");
    message.group = group;
    message.topic = id;
    message.delay_ms = delay_ms;
    OK(semel_outbox_send(outbox, &message, &last_error));
}

static int64_t seq_of(const server_case *c, const char *id)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "SELECT seq FROM semel_outbox WHERE id = '%s'", id);
    return case_number(c, sql);
}

static const char *all_sent(const semel_transport *broker)
{
    static char room[256];
    return fixture_recorded(room, sizeof room, broker);
}

static int64_t count_parked(const server_case *c)
{
    return case_number(c, c->kind == SERVER_POSTGRES
                              ? "SELECT count(*) FROM semel_outbox WHERE parked"
                              : "SELECT count(*) FROM semel_outbox WHERE parked = 1");
}

/* A group whose first message is delayed for an hour, and which the relay has parked. */
static void park(server_case *c, semel_relay *relay)
{
    send_to(c->outbox, "1", "g", HOUR_MS);
    send_to(c->outbox, "2", "g", 0);
    send_to(c->outbox, "3", "g", 0);
    assert_int_equal(fixture_drain(relay), 0);
    assert_int_equal(count_parked(c), 3);
}

/* --- groups ----------------------------------------------------------------------------------- */

static void a_woken_message_leaves_with_its_parked_group(void **state)
{
    server_case *c = *state;
    semel_transport *broker;
    semel_relay *relay = open_relay(c, &broker);
    park(c, relay);
    OK(semel_outbox_wake(c->outbox, seq_of(c, "2"), semel_str("2"),
                         &last_error)); /* not the first */
    assert_int_equal(fixture_drain(relay), 0);
    OK(semel_outbox_wake(c->outbox, seq_of(c, "1"), semel_str("1"), &last_error));
    assert_int_equal(fixture_drain(relay), 3);
    assert_string_equal(all_sent(broker), "1 2 3 ");
    assert_int_equal(case_number(c, "SELECT count(*) FROM semel_group"), 0);
    FAILS(SEMEL_ENOTFOUND, semel_outbox_wake(c->outbox, 1, semel_str("1"), &last_error));
}

static void a_group_goes_on_behind_a_message_that_is_skipped(void **state)
{
    server_case *c = *state;
    int64_t id = 0;
    semel_transport *broker;
    semel_relay *relay = open_relay(c, &broker);
    park(c, relay);
    OK(semel_outbox_skip(&id, c->outbox, seq_of(c, "1"), semel_str("1"), "poison", &last_error));
    assert_true(id > 0);
    assert_int_equal(fixture_drain(relay), 2);
    assert_string_equal(all_sent(broker), "2 3 ");
    assert_int_equal(case_number(c, "SELECT count(*) FROM semel_group"), 0);
    assert_int_equal(case_number(c, "SELECT count(*) FROM semel_dead"), 1);
}

/* --- beside a relay --------------------------------------------------------------------------- */

/* Another process, which changes message 1 while the relay is about to commit a lease. */
typedef struct manual_change {
    server_case *c;
    semel_store *store;
    semel_outbox *outbox;
    int64_t seq;
    int skips;
    int started;
    int ended;
    test_thread thread;
    semel_status status;
    semel_error err;
} manual_change;

static manual_change *at_work; /* for `passing` */

static void change(test_thread *member)
{
    manual_change *o = member->context;
    o->status = o->skips
                    ? semel_outbox_skip(NULL, o->outbox, o->seq, semel_str("1"), "poison", &o->err)
                    : semel_outbox_wake(o->outbox, o->seq, semel_str("1"), &o->err);
}

static void await_change(manual_change *o)
{
    if (!o->ended)
        assert_true(test_thread_join(&o->thread, CASE_WAIT_MS));
    o->ended = 1;
}

static void begin_change(server_case *c)
{
    if (at_work->started)
        return;
    at_work->started = 1;
    test_thread_start(&at_work->thread, change, at_work);
    assert_true(case_await_blocked(c, 1));
}

/* It begins before the commit of the lease and waits, and has ended before anything is sent. */
static void change_while_leasing(server_case *c, const char *point)
{
    if (strcmp(point, "relay.leased") == 0)
        begin_change(c);
    if (strcmp(point, "relay.taken") == 0)
        await_change(at_work);
}

/* Before the commit of a settlement that comes after the lease is over. */
static void change_while_settling(server_case *c, const char *point)
{
    if (strcmp(point, "relay.published") == 0)
        server_run(c->base.place.url, "UPDATE semel_outbox SET wake_ms = 1 WHERE token > 0");
    if (strcmp(point, "relay.settled") == 0)
        begin_change(c);
}

static void open_change(manual_change *o, server_case *c, int skips)
{
    *o = (manual_change){.c = c, .skips = skips, .store = case_other(c)};
    OK(semel_outbox_open(&o->outbox, o->store, "mail", &last_error));
}

static void close_change(manual_change *o)
{
    semel_outbox_close(o->outbox);
    semel_store_close(o->store);
}

typedef void pass_call(server_case *c, const char *point);

static size_t step_beside(manual_change *o, pass_call *passing, semel_relay *relay, const char *id)
{
    size_t sent = 0;
    o->seq = seq_of(o->c, id);
    at_work = o;
    o->c->passing = passing;
    OK(semel_relay_step(&sent, relay, 0, &last_error));
    o->c->passing = NULL;
    at_work = NULL;
    assert_true(o->started);
    await_change(o);
    return sent;
}

/* The relay has it: the operator waits for the lease, and then leaves the message alone. */
static void leased_meanwhile(server_case *c, const char *group, int skips)
{
    manual_change o;
    semel_transport *broker;
    semel_relay *relay = open_relay(c, &broker);
    open_change(&o, c, skips);
    send_to(c->outbox, "1", group, 0);
    assert_int_equal(step_beside(&o, change_while_leasing, relay, "1"), 1);
    if (o.status != SEMEL_EBUSY)
        fail_msg("%s (%s)", semel_status_name(o.status), o.err.text);
    assert_string_equal(all_sent(broker), "1 ");
    close_change(&o);
}

static void a_message_that_a_relay_leases_is_left_to_it(void **state)
{
    leased_meanwhile(*state, NULL, 0);
}

static void a_message_of_a_group_that_a_relay_leases_is_left_to_it(void **state)
{
    leased_meanwhile(*state, "g", 1);
}

/* The relay has seen the message wait, and parks its group, with the time that it has read. */
static void woken_while_it_is_parked(server_case *c, int skips)
{
    manual_change o;
    semel_transport *broker;
    semel_relay *relay = open_relay(c, &broker);
    open_change(&o, c, skips);
    send_to(c->outbox, "1", "g", HOUR_MS);
    send_to(c->outbox, "2", "g", 0);
    assert_int_equal(step_beside(&o, change_while_leasing, relay, "1"), 0);
    if (o.status)
        fail_msg("%s (%s)", semel_status_name(o.status), o.err.text);
    assert_int_equal(fixture_drain(relay), skips ? 1 : 2);
    assert_string_equal(all_sent(broker), skips ? "2 " : "1 2 ");
    close_change(&o);
}

static void a_message_is_woken_while_its_group_is_parked(void **state)
{
    woken_while_it_is_parked(*state, 0);
}

static void a_message_is_skipped_while_its_group_is_parked(void **state)
{
    woken_while_it_is_parked(*state, 1);
}

/* The relay adds the group, with the end of the backoff, while the operator waits for the row. */
static void a_message_is_woken_while_its_failure_is_noted(void **state)
{
    server_case *c = *state;
    manual_change o;
    semel_transport *broker = fixture_recorder(&c->base);
    semel_relay_options options = {.size = sizeof options,
                                   .lease_ms = HOUR_MS,
                                   .backoff_ms = HOUR_MS,
                                   .backoff_max_ms = HOUR_MS};
    semel_relay *relay = fixture_relay(&c->base, c->outbox, broker, &options);
    open_change(&o, c, 0);
    send_to(c->outbox, "1", "g", 0);
    semel_test_recorder_answer(broker, "1", SEMEL_PUBLISH_REFUSED, 1);
    assert_int_equal(step_beside(&o, change_while_settling, relay, "1"), 0);
    if (o.status)
        fail_msg("%s (%s)", semel_status_name(o.status), o.err.text);
    assert_int_equal(fixture_drain(relay), 1);
    close_change(&o);
}

/* --- other processes -------------------------------------------------------------------------- */

static int is_notified(PGconn *pg)
{
    int64_t deadline = process_now_ms() + CASE_WAIT_MS;
    PGnotify *heard = NULL;
    while (!heard && process_now_ms() < deadline) {
        struct pollfd readable = {.fd = PQsocket(pg), .events = POLLIN};
        (void)poll(&readable, 1, 100);
        assert_true(PQconsumeInput(pg));
        heard = PQnotifies(pg);
    }
    PQfreemem(heard);
    return heard != NULL;
}

/* As they hear of messages that are captured. */
static void relays_of_other_processes_are_notified(void **state)
{
    server_case *c = *state;
    char url[SERVER_URL_ROOM], sql[128];
    session other;
    send_to(c->outbox, "1", "g", HOUR_MS);
    case_close(c); /* what was captured is notified by then, and not again */
    case_open(c, CASE_BUSY_MS, NULL);
    (void)snprintf(url, sizeof url, "%.*s", (int)strcspn(c->base.place.url, "?"),
                   c->base.place.url);
    (void)snprintf(sql, sizeof sql, "LISTEN \"semel.%s\"", c->name);
    assert_true(session_open(&other, url));
    assert_true(session_run(&other, sql));
    OK(semel_outbox_wake(c->outbox, seq_of(c, "1"), semel_str("1"), &last_error));
    assert_true(is_notified(other.pg));
    session_close(&other);
}

/* --- many ------------------------------------------------------------------------------------- */

/* Of a queue: with and without groups, due and delayed; those that a consumer has stay. */
static void many_messages_are_removed_at_once(void **state)
{
    enum { ROWS = 1000, GROUPS = 40 };
    static semel_message messages[ROWS];
    static const semel_message *sent[ROWS];
    static semel_publish_result results[ROWS];
    static char ids[ROWS][16], groups[GROUPS][16];
    server_case *c = *state;
    semel_transport *queue = NULL;
    size_t removed = 0;
    OK(semel_queue_open(&queue, c->base.store, "jobs", NULL, &last_error));
    for (int i = 0; i < GROUPS; i++)
        (void)snprintf(groups[i], sizeof groups[i], "g%d", i);
    for (int i = 0; i < ROWS; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "m%d", i);
        messages[i] = text_message(ids[i], "paid");
        messages[i].group = i % 3 ? groups[i % GROUPS] : NULL;
        messages[i].delay_ms = i % 7 ? 0 : HOUR_MS;
        sent[i] = &messages[i];
    }
    OK(semel_transport_publish(results, queue, sent, ROWS, CASE_WAIT_MS, &last_error));
    server_run(c->base.place.url, "UPDATE semel_outbox SET token = 7, wake_ms = 9000000000000000 "
                                  "WHERE id = 'm500'");
    OK(semel_queue_purge(&removed, queue, 0, 0, ROWS, &last_error));
    assert_int_equal(removed, ROWS - 1);
    OK(semel_queue_purge(&removed, queue, 0, 0, ROWS, &last_error));
    assert_int_equal(removed, 0);
    assert_int_equal(case_number(c, "SELECT count(*) FROM semel_outbox"), 1);
    semel_transport_close(queue);
}

/* --- retries of dead letters ------------------------------------------------------------------ */

enum { LETTERS = 20, RIVALS = 2 };

typedef struct race {
    semel_store *stores[RIVALS];
    int64_t ids[LETTERS];
    int taken[RIVALS][LETTERS];
    semel_status wrong[RIVALS];
    semel_error err[RIVALS];
} race;

static void take_letters(test_thread *member)
{
    race *r = member->context;
    for (int i = 0; i < LETTERS; i++) {
        semel_status status =
            semel_dead_set_retry(r->stores[member->index], r->ids[i], SEMEL_RETRY_ASKED,
                                 SEMEL_RETRY_BEGUN, NULL, &r->err[member->index]);
        r->taken[member->index][i] = status == SEMEL_OK;
        if (status && status != SEMEL_ENOTFOUND)
            r->wrong[member->index] = status;
    }
}

static void make_letters(server_case *c, int64_t ids[LETTERS])
{
    char id[16];
    for (int i = 0; i < LETTERS; i++) {
        (void)snprintf(id, sizeof id, "m%d", i);
        send_to(c->outbox, id, NULL, HOUR_MS);
        OK(semel_outbox_skip(&ids[i], c->outbox, seq_of(c, id), semel_str(id), "connection 17 lost",
                             &last_error));
    }
}

/* Asked for twice, which the second time changes nothing in the row; then each is taken once. */
static void a_letter_is_taken_by_one_of_two(void **state)
{
    server_case *c = *state;
    race r = {.stores = {c->base.store}};
    make_letters(c, r.ids);
    r.stores[1] = case_other(c);
    for (int i = 0; i < 2 * LETTERS; i++)
        OK(semel_dead_set_retry(c->base.store, r.ids[i % LETTERS], SEMEL_RETRY_NONE,
                                SEMEL_RETRY_ASKED, NULL, &last_error));
    assert_true(threads_run(RIVALS, take_letters, &r));
    for (int i = 0; i < RIVALS; i++)
        if (r.wrong[i])
            fail_msg("%s (%s)", semel_status_name(r.wrong[i]), r.err[i].text);
    for (int i = 0; i < LETTERS; i++)
        assert_int_equal(r.taken[0][i] + r.taken[1][i], 1);
    semel_store_close(r.stores[1]);
}

static semel_status keep_letter(const semel_dead *dead, void *context, semel_error *err)
{
    semel_dead *kept = context;
    (void)err;
    *kept = *dead;
    kept->message = NULL;
    kept->error = strstr(dead->error, "mailbox full") ? "mailbox full" : "";
    return SEMEL_OK;
}

static semel_dead find_letter(server_case *c, semel_dead_filter filter)
{
    semel_dead found = {.id = 0};
    filter.size = sizeof filter;
    OK(semel_dead_list(c->base.store, &filter, keep_letter, &found, &last_error));
    return found;
}

static void a_retry_that_failed_changes_error_and_cause(void **state)
{
    server_case *c = *state;
    int64_t ids[LETTERS];
    make_letters(c, ids);
    semel_store *store = c->base.store;
    semel_dead before = find_letter(c, (semel_dead_filter){.last_id = ids[0]});
    assert_int_equal(before.id, ids[0]);
    assert_true(before.cause == semel_cause("mail", "connection 18 lost"));
    OK(semel_dead_set_retry(store, ids[0], SEMEL_RETRY_NONE, SEMEL_RETRY_ASKED, NULL, &last_error));
    assert_int_equal(find_letter(c, (semel_dead_filter){.retry = 1}).id, ids[0]);
    FAILS(SEMEL_ENOTFOUND, semel_dead_set_retry(store, ids[0], SEMEL_RETRY_BEGUN,
                                                SEMEL_RETRY_FAILED, "mailbox full", &last_error));
    OK(semel_dead_set_retry(store, ids[0], SEMEL_RETRY_ASKED, SEMEL_RETRY_FAILED, "mailbox full",
                            &last_error));
    semel_dead after =
        find_letter(c, (semel_dead_filter){.cause = semel_cause("mail", "mailbox full")});
    assert_int_equal(after.id, ids[0]);
    assert_int_equal(after.attempts, before.attempts + 1);
    assert_int_equal(after.retry, SEMEL_RETRY_FAILED);
    assert_string_equal(after.error, "mailbox full");
    assert_int_equal(find_letter(c, (semel_dead_filter){.retry = 1}).id, 0);
}

/* --- audit and processes ---------------------------------------------------------------------- */

static semel_status count_entry(const semel_audit *entry, void *context, semel_error *err)
{
    (void)err;
    assert_string_equal(entry->who, "ops@host-1");
    *(uint64_t *)context += 1000 + entry->count;
    return SEMEL_OK;
}

/* Written twice with the same result: the second time the row stays as it is, and is found. */
static void an_audit_entry_is_added_and_replaced(void **state)
{
    server_case *c = *state;
    uint64_t found = 0;
    semel_audit entry = {
        .size = sizeof entry, .who = "ops@host-1", .what = "dead retry", .result = ""};
    semel_audit missing = {.size = sizeof missing, .id = 4711, .result = "1 processed"};
    semel_audit_filter filter = {.size = sizeof filter, .who = "ops@host-1"};
    OK(semel_audit_write(&entry, c->base.store, &last_error));
    assert_true(entry.id > 0 && entry.at_ms > 0);
    entry.result = "7 processed";
    entry.count = 7;
    OK(semel_audit_write(&entry, c->base.store, &last_error));
    OK(semel_audit_write(&entry, c->base.store, &last_error));
    FAILS(SEMEL_ENOTFOUND, semel_audit_write(&missing, c->base.store, &last_error));
    OK(semel_audit_list(c->base.store, &filter, count_entry, &found, &last_error));
    assert_int_equal(found, 1007);
    filter.who = "nobody";
    OK(semel_audit_list(c->base.store, &filter, count_entry, &found, &last_error));
    assert_int_equal(found, 1007);
}

typedef struct heartbeat {
    semel_store *store;
    semel_status status[RIVALS];
    semel_error err[RIVALS];
} heartbeat;

/* Each writes its own row, and removes rows of processes that were not heard of. */
static void beat(test_thread *member)
{
    heartbeat *h = member->context;
    char id[16];
    (void)snprintf(id, sizeof id, "process-%u", member->index);
    semel_process process = {.size = sizeof process,
                             .id = id,
                             .host = "host-1",
                             .pid = 1 + (int64_t)member->index,
                             .started_ms = 5,
                             .data = "{}"};
    semel_status *status = &h->status[member->index];
    for (int i = 0; !*status && i < 20; i++) {
        *status = semel_process_write(&process, h->store, &h->err[member->index]);
        if (!*status)
            *status = semel_process_remove(h->store, "gone", HOUR_MS, &h->err[member->index]);
    }
}

static semel_status count_process(const semel_process *process, void *context, semel_error *err)
{
    (void)err;
    assert_true(process->seen_ms > 5 && process->started_ms == 5);
    assert_string_equal(process->data, "{}");
    *(int64_t *)context += process->pid;
    return SEMEL_OK;
}

static void processes_come_and_go(void **state)
{
    server_case *c = *state;
    heartbeat h = {.store = c->base.store};
    int64_t pids = 0;
    assert_true(threads_run(RIVALS, beat, &h));
    for (int i = 0; i < RIVALS; i++)
        if (h.status[i])
            fail_msg("%s (%s)", semel_status_name(h.status[i]), h.err[i].text);
    OK(semel_process_list(h.store, count_process, &pids, &last_error));
    assert_int_equal(pids, 3);
    OK(semel_process_remove(h.store, "process-0", HOUR_MS, &last_error));
    pids = 0;
    OK(semel_process_list(h.store, count_process, &pids, &last_error));
    assert_int_equal(pids, 2);
    server_run(c->base.place.url, "UPDATE semel_process SET seen_ms = 6");
    OK(semel_process_remove(h.store, "gone", HOUR_MS, &last_error));
    assert_int_equal(case_number(c, "SELECT count(*) FROM semel_process"), 0);
}

int main(void)
{
    static const server_test tests[] = {
        SERVER_TEST(a_woken_message_leaves_with_its_parked_group, IN_TRANSACTION | AT_ALL_LEVELS),
        SERVER_TEST(a_group_goes_on_behind_a_message_that_is_skipped,
                    IN_TRANSACTION | AT_ALL_LEVELS),
        SERVER_TEST(a_message_that_a_relay_leases_is_left_to_it, IN_TRANSACTION | AT_ALL_LEVELS),
        SERVER_TEST(a_message_of_a_group_that_a_relay_leases_is_left_to_it,
                    IN_TRANSACTION | AT_ALL_LEVELS),
        SERVER_TEST(a_message_is_woken_while_its_group_is_parked, IN_TRANSACTION | AT_ALL_LEVELS),
        SERVER_TEST(a_message_is_skipped_while_its_group_is_parked, IN_TRANSACTION | AT_ALL_LEVELS),
        SERVER_TEST(a_message_is_woken_while_its_failure_is_noted, IN_TRANSACTION | AT_ALL_LEVELS),
        SERVER_TEST(relays_of_other_processes_are_notified, IN_TRANSACTION | POSTGRES_ONLY),
        SERVER_TEST(many_messages_are_removed_at_once, IN_TRANSACTION),
        SERVER_TEST(a_letter_is_taken_by_one_of_two, IN_TRANSACTION | AT_ALL_LEVELS),
        SERVER_TEST(a_retry_that_failed_changes_error_and_cause, IN_TRANSACTION | AT_ALL_LEVELS),
        SERVER_TEST(an_audit_entry_is_added_and_replaced, IN_TRANSACTION | AT_ALL_LEVELS),
        SERVER_TEST(processes_come_and_go, IN_TRANSACTION | AT_ALL_LEVELS),
    };
    return SERVER_TESTS(tests);
}
