/* The operations that run out of memory, as a table. Each may be done again after it failed: time
 * passes first, so that no lease of the failed one is in the way. */
#include "support/scenario/oom.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
/* cmocka needs the first two. */
#include <cmocka.h>
#include <semel/dead.h>
#include <semel/sqlite.h>
#include <string.h>

enum { LATER_MS = 3600000, MANY = OOM_MANY };

void oom_must(semel_status status, const semel_error *err)
{
    if (status)
        fail_msg("while preparing: %s", err->text);
}

const char *oom_name(unsigned index)
{
    static const char *const names[MANY] = {"one", "two", "three", "four", "five"};
    return names[index];
}

/* --- opening ---------------------------------------------------------------------------------- */

static semel_status open_and_migrate(oom_world *w, semel_error *err)
{
    semel_status status = oom_open_store(w, err);
    if (!status)
        semel_store_close(w->store);
    w->store = NULL;
    return status;
}

static semel_status open_inbox(oom_world *w, semel_error *err)
{
    semel_inbox_options options = {
        .size = sizeof options, .key = "id+json:/a+digest", .fault_topic = "faults"};
    semel_inbox *inbox;
    semel_status status = semel_inbox_open(&inbox, w->store, "another", &options, err);
    if (!status)
        semel_inbox_close(inbox);
    return status;
}

static semel_status open_outbox(oom_world *w, semel_error *err)
{
    semel_outbox *outbox;
    semel_status status = semel_outbox_open(&outbox, w->store, "another", err);
    if (!status)
        semel_outbox_close(outbox);
    return status;
}

/* --- receiving -------------------------------------------------------------------------------- */

static semel_status receive(oom_world *w, semel_error *err)
{
    semel_test_advance_ms(w->seam, LATER_MS);
    return oom_receive(w, "one", 1, err);
}

static semel_status receive_again(oom_world *w, semel_error *err)
{
    semel_test_advance_ms(w->seam, LATER_MS);
    return oom_receive(w, "one", 2, err);
}

/* All of a partition, of which some may be decided; what failed is given again, once. */
static semel_status receive_run(oom_world *w, semel_error *err)
{
    semel_message messages[MANY];
    const semel_message *list[MANY];
    int64_t positions[MANY];
    semel_outcome outcomes[MANY];
    w->resultless = 1;
    for (unsigned i = 0; i < MANY; i++) {
        messages[i] = oom_message(oom_name(i));
        list[i] = &messages[i];
        positions[i] = i;
    }
    const semel_run run = {.size = sizeof run,
                           .partition = "log/0",
                           .origin = "one",
                           .positions = positions,
                           .messages = list,
                           .count = MANY};
    semel_status status = semel_inbox_receive_run(outcomes, w->inbox, &run, oom_handler, w, err);
    return status || semel_outcome_settled(outcomes[MANY - 1]) ? status : err->status;
}

static semel_status receive_without_an_id(oom_world *w, semel_error *err)
{
    semel_message message = oom_message("one");
    semel_outcome outcome;
    message.body = semel_str("{\"order\":\"one\"}");
    return semel_inbox_receive(&outcome, w->inbox, &message, oom_handler, w, err);
}

static semel_status receive_result(oom_world *w, semel_error *err)
{
    semel_message message = oom_message("one");
    semel_outcome outcome;
    semel_result *result = NULL;
    semel_test_advance_ms(w->seam, LATER_MS);
    semel_status status =
        semel_inbox_receive_result(&outcome, &result, w->inbox, &message, oom_handler, w, err);
    semel_bytes bytes = semel_result_bytes(result);
    int right = bytes.len == 6 && memcmp(bytes.data, "result", 6) == 0;
    semel_result_free(result);
    if (!status && !right)
        return semel_fail(err, SEMEL_ESTORE, "the result is not what was stored");
    return status;
}

static void prepare_result(oom_world *w)
{
    semel_error err;
    oom_must(oom_receive(w, "one", 1, &err), &err);
}

static semel_status receive_and_fail(oom_world *w, semel_error *err)
{
    w->failing = 1;
    semel_test_advance_ms(w->seam, LATER_MS);
    semel_status status = oom_receive(w, "one", 1, err);
    w->failing = 0;
    return status == SEMEL_EHANDLER ? SEMEL_OK : status;
}

static semel_status receive_and_recover(oom_world *w, semel_error *err)
{
    semel_status status = receive_and_fail(w, err);
    return status ? status : oom_receive(w, "one", 2, err);
}

static semel_status receive_batch(oom_world *w, semel_error *err)
{
    semel_message messages[MANY];
    const semel_message *list[MANY];
    semel_outcome outcomes[MANY];
    for (unsigned i = 0; i < MANY; i++) {
        messages[i] = oom_message(oom_name(i));
        list[i] = &messages[i];
    }
    semel_status status =
        semel_inbox_receive_batch(outcomes, w->inbox, list, MANY, oom_handler, w, err);
    for (unsigned i = 0; i < MANY && !status; i++)
        if (!semel_outcome_settled(outcomes[i]))
            return err->status; /* `err` is of the first one that failed */
    return status;
}

static semel_status forget(oom_world *w, semel_error *err)
{
    semel_message message = oom_message("one");
    semel_status status = semel_inbox_forget(w->inbox, &message, err);
    return status == SEMEL_ENOTFOUND ? SEMEL_OK : status;
}

static semel_status join_and_receive(oom_world *w, sqlite3 *db, semel_error *err)
{
    semel_message message = oom_message("one");
    semel_unit *unit;
    semel_outcome outcome;
    semel_status status = semel_unit_join_sqlite(&unit, w->store, db, err);
    if (status)
        return status;
    status = semel_unit_claim(&outcome, unit, w->inbox, &message, err);
    if (!status && outcome == SEMEL_CLAIMED)
        status = oom_handler(unit, &message, w, err);
    if (!status && outcome == SEMEL_CLAIMED)
        return semel_unit_commit(unit, err);
    semel_unit_rollback(unit);
    return status;
}

static semel_status run_sql(sqlite3 *db, const char *sql, semel_error *err)
{
    int code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? SEMEL_OK : semel_fail(err, SEMEL_ENOMEM, "%s: %d", sql, code);
}

static semel_status join(oom_world *w, semel_error *err)
{
    sqlite3 *db = NULL;
    semel_status status = SEMEL_OK;
    if (sqlite3_open(w->file, &db) != SQLITE_OK)
        status = semel_fail(err, SEMEL_ENOMEM, "no connection");
    if (!status)
        status = run_sql(db, "BEGIN IMMEDIATE", err);
    if (!status) {
        status = join_and_receive(w, db, err);
        if (!status)
            status = run_sql(db, "COMMIT", err);
    }
    sqlite3_close(db); /* rolls back what is open */
    return status;
}

/* --- sending ---------------------------------------------------------------------------------- */

static semel_status send_one(oom_world *w, const char *id, semel_error *err)
{
    semel_message message = oom_message(id);
    message.group = "group";
    return semel_outbox_send(w->box, &message, err);
}

/* A send without an inbox is not idempotent: it is done until it worked once. */
static semel_status send_until_sent(oom_world *w, semel_error *err)
{
    if (w->letter)
        return SEMEL_OK;
    semel_status status = send_one(w, "one", err);
    w->letter = status ? 0 : 1;
    return status;
}

static void forget_sent(oom_world *w)
{
    w->letter = 0;
}

static void prepare_messages(oom_world *w)
{
    semel_error err;
    for (unsigned i = 0; i < MANY; i++)
        oom_must(send_one(w, oom_name(i), &err), &err);
    w->letter = 0;
}

static semel_status relay_step(oom_world *w, semel_error *err)
{
    semel_relay *relay;
    size_t sent;
    semel_test_advance_ms(w->seam, LATER_MS);
    semel_status status = semel_relay_open(&relay, w->box, w->transport, NULL, err);
    if (status)
        return status;
    status = semel_relay_step(&sent, relay, 0, err);
    semel_relay_close(relay);
    return status;
}

/* Each of them, once or more often, and in every copy all that it said. */
static void check_relayed(oom_world *w)
{
    for (unsigned i = 0; i < MANY; i++) {
        unsigned copies = 0;
        for (size_t j = 0; j < w->sink.count; j++)
            copies += strcmp(w->sink.messages[j].body, oom_name(i)) == 0;
        assert_true(copies >= 1);
    }
    for (size_t j = 0; j < w->sink.count; j++) {
        assert_string_equal(w->sink.messages[j].topic, "orders");
        assert_string_equal(w->sink.messages[j].group, "group");
        assert_string_equal(w->sink.messages[j].header, "42");
    }
}

static semel_status hand_off(oom_world *w, semel_error *err)
{
    semel_relay *relay = NULL;
    size_t sent;
    semel_test_advance_ms(w->seam, LATER_MS);
    semel_status status =
        semel_relay_open_local(&relay, w->box, w->inbox, oom_handler, w, NULL, err);
    for (int i = 0; !status && i < 2 * MANY; i++) { /* a handler's failure is no error of a step */
        status = semel_relay_step(&sent, relay, 0, err);
        semel_test_advance_ms(w->seam, LATER_MS);
    }
    semel_relay_close(relay);
    return status;
}

static semel_status count(oom_world *w, semel_error *err)
{
    semel_counters counters;
    return semel_store_counters(&counters, sizeof counters, w->store, err);
}

/* --- consuming -------------------------------------------------------------------------------- */

static void prepare_queue(oom_world *w)
{
    semel_transport_options options = {.size = sizeof options,
                                       .seam = semel_test_seam_get(w->seam)};
    semel_error err;
    semel_publish_result result;
    oom_must(semel_transport_open(&w->queue, "memory:", &options, &err), &err);
    for (unsigned i = 0; i < MANY; i++) {
        semel_message message = oom_message(oom_name(i));
        const semel_message *list[] = {&message};
        oom_must(semel_transport_publish(&result, w->queue, list, 1, 0, &err), &err);
    }
}

static semel_status consume(oom_world *w, semel_error *err)
{
    semel_route route = {"order.*", w->inbox, oom_handler, w};
    semel_consumer_options options = {.size = sizeof options, .batch = 2};
    semel_consumer *consumer;
    size_t settled;
    semel_status status = semel_consumer_open(&consumer, w->queue, &route, 1, &options, err);
    if (status)
        return status;
    for (int i = 0; !status && i < 2 * MANY; i++) {
        semel_test_advance_ms(w->seam, LATER_MS);
        status = semel_consumer_step(&settled, consumer, 0, err);
    }
    semel_consumer_close(consumer);
    return status;
}

/* --- sweeping --------------------------------------------------------------------------------- */

static void prepare_markers(oom_world *w)
{
    semel_error err;
    for (unsigned i = 0; i < MANY; i++)
        oom_must(oom_receive(w, oom_name(i), 1, &err), &err);
}

static semel_status sweep(oom_world *w, semel_error *err)
{
    size_t swept;
    int more = 1;
    semel_status status = SEMEL_OK;
    while (!status && more)
        status = semel_inbox_sweep(&swept, &more, w->inbox, 2, err);
    return status;
}

static semel_status purge(oom_world *w, semel_error *err)
{
    size_t removed;
    return semel_inbox_purge(&removed, w->inbox, 0, err);
}

static void check_swept(oom_world *w)
{
    for (unsigned i = 0; i < MANY; i++) {
        semel_message message = oom_message(oom_name(i));
        assert_int_equal(semel_inbox_forget(w->inbox, &message, NULL), SEMEL_ENOTFOUND);
    }
}

/* --- dead letters ----------------------------------------------------------------------------- */

static semel_status see_letter(const semel_dead *dead, void *context, semel_error *err)
{
    oom_world *w = context;
    if (!dead->message || !dead->message->topic || strcmp(dead->message->topic, "orders") != 0 ||
        strcmp(dead->error, "it fails, as it should") != 0)
        return semel_fail(err, SEMEL_ESTORE, "the letter is not what was stored");
    w->letter = dead->id;
    return SEMEL_OK;
}

static semel_status list_letters(oom_world *w, semel_error *err)
{
    w->letter = 0;
    semel_status status = semel_dead_list(w->store, NULL, see_letter, w, err);
    if (!status && !w->letter)
        return semel_fail(err, SEMEL_ESTORE, "the letter is not listed");
    return status;
}

static void prepare_letter(oom_world *w)
{
    semel_error err;
    oom_must(receive_and_fail(w, &err), &err);
    oom_must(list_letters(w, &err), &err);
}

static semel_status replay(oom_world *w, semel_error *err)
{
    semel_outcome outcome;
    semel_test_advance_ms(w->seam, LATER_MS);
    semel_status status = semel_inbox_replay(&outcome, w->inbox, w->letter, oom_handler, w, err);
    return status == SEMEL_ENOTFOUND ? SEMEL_OK : status;
}

static semel_status count_letter(const semel_dead *dead, void *context, semel_error *err)
{
    (void)dead;
    (void)err;
    ++*(int *)context;
    return SEMEL_OK;
}

int oom_letters(oom_world *w)
{
    int found = 0;
    assert_int_equal(semel_dead_list(w->store, NULL, count_letter, &found, NULL), SEMEL_OK);
    return found;
}

static void check_no_letter(oom_world *w)
{
    assert_int_equal(oom_letters(w), 0);
}

static void check_one_letter(oom_world *w)
{
    assert_int_equal(oom_letters(w), 1);
}

/* --- the table -------------------------------------------------------------------------------- */

const oom_operation oom_operations[] = {
    {.name = "open and migrate", .stride = 9, .act = open_and_migrate, .bare = 1},
    {.name = "open an inbox", .stride = 3, .act = open_inbox},
    {.name = "open an outbox", .stride = 3, .act = open_outbox},
    {.name = "receive", .act = receive, .effects = 1},
    {.name = "receive a redelivery", .act = receive_again, .effects = 1},
    {.name = "receive by claim", .inbox = {.mode = SEMEL_CLAIM}, .act = receive, .effects = 1},
    {.name = "receive with a key from JSON and a digest",
     .inbox = {.key = "json:/order+digest"},
     .act = receive_without_an_id,
     .effects = 1},
    {.name = "receive with a result",
     .inbox = {.on_duplicate = SEMEL_DUPLICATE_REPLAY},
     .act = receive_result,
     .effects = 1},
    {.name = "receive with a result by claim",
     .inbox = {.mode = SEMEL_CLAIM, .on_duplicate = SEMEL_DUPLICATE_REPLAY},
     .act = receive_result,
     .effects = 1},
    {.name = "replay a result",
     .inbox = {.on_duplicate = SEMEL_DUPLICATE_REPLAY},
     .prepare = prepare_result,
     .act = receive_result,
     .effects = 1},
    {.name = "fail and recover", .act = receive_and_recover, .effects = 1},
    {.name = "bury",
     .inbox = {.attempts_max = 1},
     .act = receive_and_fail,
     .check = check_one_letter},
    {.name = "bury by claim",
     .inbox = {.mode = SEMEL_CLAIM, .attempts_max = 1},
     .act = receive_and_fail,
     .check = check_one_letter},
    {.name = "receive a batch", .act = receive_batch, .effects = MANY},
    {.name = "receive a run",
     .inbox = {.remember = SEMEL_REMEMBER_POSITIONS},
     .act = receive_run,
     .apart = 1,
     .effects = MANY},
    {.name = "forget", .prepare = prepare_result, .act = forget, .apart = 1, .effects = 1},
    {.name = "join", .stride = 7, .sqlite_only = 1, .act = join, .effects = 1},
    {.name = "send",
     .inbox = {.mode = SEMEL_CLAIM},
     .prepare = forget_sent,
     .act = send_until_sent,
     .effects = 1},
    {.name = "relay",
     .stride = 3,
     .prepare = prepare_messages,
     .act = relay_step,
     .check = check_relayed},
    {.name = "hand off",
     .stride = 5,
     .prepare = prepare_messages,
     .act = hand_off,
     .effects = MANY},
    {.name = "consume", .stride = 5, .prepare = prepare_queue, .act = consume, .effects = MANY},
    {.name = "open a queue", .stride = 3, .act = oom_open_queue},
    {.name = "open a queue by its URL", .stride = 9, .act = oom_open_queue_by_url},
    {.name = "publish to a queue",
     .stride = 3,
     .prepare = oom_prepare_queue,
     .act = oom_publish,
     .check = oom_check_published},
    {.name = "receive from a queue and settle",
     .stride = 5,
     .prepare = oom_prepare_queued,
     .act = oom_consume_queue,
     .check = oom_check_consumed},
    {.name = "reject what a queue delivers",
     .stride = 5,
     .prepare = oom_prepare_queued,
     .act = oom_reject,
     .check = oom_check_rejected},
    {.name = "extend deliveries of a queue",
     .stride = 3,
     .prepare = oom_prepare_out,
     .act = oom_extend,
     .check = oom_check_extended},
    {.name = "replay into a queue",
     .stride = 5,
     .prepare = oom_prepare_rejected,
     .act = oom_replay_into_queue,
     .check = oom_check_replayed},
    {.name = "count", .stride = 5, .act = count},
    {.name = "sweep",
     .inbox = {.retention_ms = SEMEL_RETENTION_NONE},
     .apart = 1,
     .prepare = prepare_markers,
     .act = sweep,
     .check = check_swept,
     .effects = MANY},
    {.name = "purge",
     .apart = 1,
     .prepare = prepare_markers,
     .act = purge,
     .check = check_swept,
     .effects = MANY},
    {.name = "list dead letters",
     .inbox = {.attempts_max = 1},
     .prepare = prepare_letter,
     .act = list_letters,
     .check = check_one_letter},
    {.name = "replay a dead letter",
     .inbox = {.attempts_max = 1},
     .prepare = prepare_letter,
     .act = replay,
     .check = check_no_letter,
     .effects = 1},
    {.name = "replay a dead letter by claim",
     .inbox = {.mode = SEMEL_CLAIM, .attempts_max = 1},
     .prepare = prepare_letter,
     .act = replay,
     .check = check_no_letter,
     .effects = 1},
    {.name = "wake a message",
     .stride = 7,
     .prepare = oom_prepare_delayed,
     .act = oom_wake_and_skip,
     .check = oom_check_skipped},
    {.name = "skip a message",
     .stride = 5,
     .prepare = oom_prepare_delayed,
     .act = oom_skip,
     .check = oom_check_skipped},
    {.name = "empty a queue",
     .stride = 5,
     .prepare = oom_prepare_queued,
     .act = oom_empty_queue,
     .check = oom_check_emptied},
    {.name = "keep books",
     .stride = 13,
     .inbox = {.attempts_max = 1},
     .prepare = prepare_letter,
     .act = oom_keep_books,
     .check = check_one_letter},
    {.name = "take a retry",
     .stride = 3,
     .inbox = {.attempts_max = 1},
     .prepare = prepare_letter,
     .act = oom_take_retry,
     .check = check_one_letter},
};

const size_t oom_operation_count = sizeof oom_operations / sizeof *oom_operations;
