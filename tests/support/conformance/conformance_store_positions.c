/* Inboxes that remember positions: what a run comes to, who may move a position, what is counted
 * before it starts, and which rows are not those of the topic. */
#include "support/conformance/conformance_store.h"

#include "support/process/threads.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { RUN_ROOM = 16, TEXT = 32 };

#define PARTITION "log/0"
#define ORIGIN    "cluster-a"

/* --- runs ------------------------------------------------------------------------------------- */

static void close_inbox(void *inbox)
{
    semel_inbox_close(inbox);
}

static semel_inbox_options remembering(void)
{
    return (semel_inbox_options){.size = sizeof(semel_inbox_options),
                                 .remember = SEMEL_REMEMBER_POSITIONS};
}

static semel_inbox *open_on(store_fixture *f, semel_store *store, const char *name,
                            const semel_inbox_options *options)
{
    semel_inbox *inbox = NULL;
    OK(semel_inbox_open(&inbox, store, name, options, &last_error));
    fixture_keep(&f->base, close_inbox, inbox);
    return inbox;
}

/* Another handle is as cold as another process. */
static semel_inbox *open_positions(store_fixture *f, uint32_t attempts_max)
{
    semel_inbox_options options = remembering();
    options.attempts_max = attempts_max;
    return open_on(f, f->base.store, "orders", &options);
}

typedef struct given_run {
    char ids[RUN_ROOM][TEXT];
    semel_message messages[RUN_ROOM];
    const semel_message *pointers[RUN_ROOM];
    int64_t positions[RUN_ROOM];
    semel_run run;
} given_run;

/* Ids a, b, ... by their positions, so that the same position is the same message. */
static void make_run(given_run *g, const char *partition, int64_t from, size_t count)
{
    *g = (given_run){.run = {.size = sizeof g->run,
                             .partition = partition,
                             .origin = ORIGIN,
                             .positions = g->positions,
                             .messages = g->pointers,
                             .count = count}};
    for (size_t i = 0; i < count; i++) {
        g->positions[i] = from + (int64_t)i;
        (void)snprintf(g->ids[i], TEXT, "%c", (char)('a' + from + (int64_t)i));
        g->messages[i] = text_message(g->ids[i], g->ids[i]);
        g->pointers[i] = &g->messages[i];
    }
}

static void spell(char *text, const semel_outcome *outcomes, size_t count)
{
    static const char letters_of[] = {
        [SEMEL_UNDECIDED] = '?', [SEMEL_CLAIMED] = 'c', [SEMEL_PROCESSED] = 'P',
        [SEMEL_DUPLICATE] = 'd', [SEMEL_FAILED] = 'F',  [SEMEL_DEAD] = 'D'};
    for (size_t i = 0; i < count; i++)
        text[i] = letters_of[outcomes[i]];
    text[count] = 0;
}

static void check_run(semel_status status, const char *expected, semel_inbox *inbox,
                      const given_run *g, scripted_handler *work, const char *file, int line)
{
    semel_outcome outcomes[RUN_ROOM];
    char found[RUN_ROOM + 1];
    check_forget();
    semel_status got =
        semel_inbox_receive_run(outcomes, inbox, &g->run, scripted_handler_run, work, &last_error);
    check_status(status, got, "semel_inbox_receive_run", file, line);
    spell(found, outcomes, g->run.count);
    if (strcmp(found, expected) != 0) {
        print_error("came to %s, not %s\n", found, expected);
        _fail(file, line);
    }
}
#define RUN_GIVEN(expected, inbox, given, work) \
    check_run(SEMEL_OK, (expected), (inbox), (given), (work), __FILE__, __LINE__)
#define RUN_FAILS(status, expected, inbox, given, work) \
    check_run((status), (expected), (inbox), (given), (work), __FILE__, __LINE__)
#define RUN(expected, inbox, from, work)                                       \
    do {                                                                       \
        given_run run_;                                                        \
        make_run(&run_, PARTITION, (from), strlen(expected));                  \
        check_run(SEMEL_OK, expected, inbox, &run_, work, __FILE__, __LINE__); \
    } while (0)

static void check_next(int64_t expected, semel_inbox *inbox, const char *file, int line)
{
    int64_t next = -1;
    check_forget();
    check_status(SEMEL_OK, semel_inbox_position(&next, inbox, PARTITION, &last_error), "position",
                 file, line);
    _assert_int_equal((uint64_t)next, (uint64_t)expected, file, line);
}
#define NEXT(expected, inbox) check_next((expected), (inbox), __FILE__, __LINE__)

/* --- what a run comes to ---------------------------------------------------------------------- */

static void a_run_is_handled_once_and_in_order(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_positions(f, 0);
    scripted_handler work = {0};
    int64_t next;
    FAILS(SEMEL_ENOTFOUND, semel_inbox_position(&next, inbox, PARTITION, &last_error));
    RUN("PPPPP", inbox, 0, &work);
    assert_string_equal(work.ids, "a b c d e ");
    NEXT(5, inbox);
    RUN("ddddd", inbox, 0, &work);
    RUN("ddPP", inbox, 3, &work);
    assert_string_equal(work.ids, "a b c d e f g ");
    NEXT(7, inbox);
    assert_int_equal(counters_of(f).processed, 7);
    assert_int_equal(counters_of(f).duplicates, 7);
    assert_int_equal(counters_of(f).unprotected, 0);
}

static void a_new_process_knows_the_position(void **state)
{
    store_fixture *f = *state;
    scripted_handler work = {0};
    RUN("PPP", open_positions(f, 0), 0, &work);
    reopen(f);
    semel_inbox *inbox = open_positions(f, 0);
    RUN("dddP", inbox, 0, &work);
    NEXT(4, inbox);
}

static void partitions_and_inboxes_have_positions_of_their_own(void **state)
{
    store_fixture *f = *state;
    char longest[600], other[600];
    const semel_inbox_options options = remembering();
    semel_inbox *one = open_on(f, f->base.store, "one", &options);
    semel_inbox *two = open_on(f, f->base.store, "two", &options);
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    memcpy(other, longest, sizeof other);
    other[sizeof other - 2] = 'y';
    const char *const partitions[] = {"log/0", "log/1", "log/10", longest, other, "\xff\xfe/0"};
    for (size_t i = 0; i < sizeof partitions / sizeof *partitions; i++) {
        scripted_handler work = {0};
        given_run g;
        make_run(&g, partitions[i], (int64_t)i, 3);
        RUN_GIVEN("PPP", one, &g, &work);
        RUN_GIVEN("PPP", two, &g, &work);
        RUN_GIVEN("ddd", one, &g, &work);
    }
}

static void what_a_run_sends_is_sent_once(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_positions(f, 2);
    semel_message mail = text_message(NULL, "paid");
    mail.id = (semel_bytes){NULL, 0};
    scripted_handler work = {
        .outbox = open_outbox(f, "mail"), .sends = &mail, .failures = 2, .only = "c"};
    semel_relay *relay = open_relay(f, work.outbox, open_recorder(f), NULL);
    RUN("PPF?", inbox, 0, &work);
    RUN("DP", inbox, 2, &work);
    assert_int_equal(relay_all(relay), 3);
}

static void a_key_names_partition_and_position(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_positions(f, 0);
    scripted_handler work = {0};
    RUN("PPP", inbox, 9, &work);
    assert_string_equal(work.key, ORIGIN ":" PARTITION "@11");
}

/* --- failures --------------------------------------------------------------------------------- */

static void a_failure_holds_up_its_partition(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_positions(f, 0);
    scripted_handler work = {.failures = 2, .only = "c"};
    RUN("PPF??", inbox, 0, &work);
    assert_string_equal(work.ids, "a b c a b ");
    assert_string_equal(last_error.text, "out of paper");
    NEXT(2, inbox);
    RUN("F??", inbox, 2, &work);
    assert_int_equal(work.attempt, 2);
    RUN("PPP", inbox, 2, &work);
    assert_string_equal(work.ids, "a b c a b c c d e ");
    NEXT(5, inbox);
    assert_int_equal(counters_of(f).failed, 2);
}

static void the_first_of_a_run_may_fail(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_positions(f, 0);
    scripted_handler work = {.failures = 1, .only = "a"};
    RUN("F??", inbox, 0, &work);
    NEXT(0, inbox);
    RUN("PPP", inbox, 0, &work);
    assert_string_equal(work.ids, "a a b c ");
    NEXT(3, inbox);
}

static void the_last_attempt_puts_a_message_aside(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_positions(f, 3);
    scripted_handler work = {.failures = 3, .only = "b"};
    RUN("PF?", inbox, 0, &work);
    RUN("F?", inbox, 1, &work);
    RUN("DP", inbox, 1, &work);
    NEXT(3, inbox);
    letters all;
    letters_read(&all, f->base.store, NULL);
    assert_int_equal(all.count, 1);
    assert_int_equal(all.all[0].attempts, 3);
    assert_string_equal(all.all[0].name, "orders");
    assert_memory_equal(all.all[0].key, ORIGIN ":" PARTITION "@1#", strlen(PARTITION) + 13);
    letters_free(&all);
    RUN("ddd", inbox, 0, &work);
}

static void one_attempt_puts_a_message_aside_at_once(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_positions(f, 1);
    scripted_handler work = {.failures = 2};
    RUN("DDPP", inbox, 0, &work);
    assert_int_equal(count_letters(f), 2);
    NEXT(4, inbox);
}

static void a_handler_may_give_up(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_positions(f, SEMEL_ATTEMPTS_FOREVER);
    scripted_handler work = {.failures = 1, .only = "b", .failure = SEMEL_EGIVEUP};
    RUN("PDP", inbox, 0, &work);
    assert_int_equal(count_letters(f), 1);
}

static void a_message_may_be_tried_for_ever(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_positions(f, SEMEL_ATTEMPTS_FOREVER);
    scripted_handler work = {.failures = 9};
    for (int i = 0; i < 9; i++)
        RUN("F?", inbox, 0, &work);
    RUN("PP", inbox, 0, &work);
    assert_int_equal(count_letters(f), 0);
}

static void a_dead_letter_is_replayed_once(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_positions(f, 1);
    semel_outcome out;
    scripted_handler work = {.failures = 1, .only = "b"};
    RUN("PDP", inbox, 0, &work);
    int64_t id = only_letter(f);
    OK(semel_inbox_replay(&out, inbox, id, scripted_handler_run, &work, &last_error));
    assert_int_equal(out, SEMEL_PROCESSED);
    assert_string_equal(work.key, ORIGIN ":" PARTITION "@1");
    assert_int_equal(count_letters(f), 0);
    FAILS(SEMEL_ENOTFOUND,
          semel_inbox_replay(&out, inbox, id, scripted_handler_run, &work, &last_error));
    NEXT(3, inbox);
}

static void a_stop_leaves_a_run_as_it_was(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_positions(f, 2);
    scripted_handler work = {.failures = 1, .only = "b", .failure = SEMEL_ESTOPPED};
    given_run g;
    make_run(&g, PARTITION, 0, 3);
    for (int i = 0; i < 4; i++) {
        work.failures = 1;
        RUN_FAILS(SEMEL_ESTOPPED, "???", open_positions(f, 2), &g, &work);
    }
    work.failures = 0;
    RUN_GIVEN("PPP", inbox, &g, &work);
    assert_int_equal(work.attempt, 1);
}

/* --- what a dead process leaves --------------------------------------------------------------- */

/* It says that it starts, and is no more. */
static void die_at_start(store_fixture *f, const given_run *g, uint32_t attempts_max)
{
    scripted_handler never = {0};
    semel_outcome outcomes[RUN_ROOM];
    semel_test_fault(f->base.seam, "count.committed", 1, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE, semel_inbox_receive_run(outcomes, open_positions(f, attempts_max), &g->run,
                                                scripted_handler_run, &never, &last_error));
    semel_test_fault(f->base.seam, NULL, 0, SEMEL_OK);
    assert_int_equal(never.runs, 0);
}

static void starts_that_never_end_make_a_dead_letter_of_one(void **state)
{
    store_fixture *f = *state;
    given_run g;
    scripted_handler work = {0};
    make_run(&g, PARTITION, 0, 4);
    for (int i = 0; i < 3; i++)
        die_at_start(f, &g, 3);
    assert_int_equal(count_letters(f), 0);
    semel_inbox *inbox = open_positions(f, 3);
    RUN_GIVEN("DPPP", inbox, &g, &work);
    assert_string_equal(work.ids, "b c d ");
    assert_int_equal(count_letters(f), 1);
    NEXT(4, inbox);
}

static void neighbours_of_a_killer_are_handled_by_themselves(void **state)
{
    store_fixture *f = *state;
    given_run g;
    scripted_handler work = {.failures = 1, .only = "c"};
    make_run(&g, PARTITION, 0, 4);
    die_at_start(f, &g, 5);
    RUN_GIVEN("PPF?", open_positions(f, 5), &g, &work);
    assert_string_equal(work.ids, "a b c "); /* none of them twice */
    assert_int_equal(work.attempt, 2);
}

static void a_single_attempt_is_made_after_a_crash(void **state)
{
    store_fixture *f = *state;
    given_run g;
    scripted_handler work = {0};
    make_run(&g, PARTITION, 0, 2);
    die_at_start(f, &g, 1);
    RUN_GIVEN("PP", open_positions(f, 1), &g, &work);
    assert_int_equal(count_letters(f), 0);
}

static void a_warm_partition_counts_nothing(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_positions(f, 0);
    scripted_handler work = {0};
    RUN("PP", inbox, 0, &work);
    uint32_t before = semel_test_passed(f->base.seam, "count.stored");
    assert_int_equal(before, 1);
    RUN("PPP", inbox, 2, &work);
    RUN("P", inbox, 5, &work);
    assert_int_equal(semel_test_passed(f->base.seam, "count.stored"), before);
}

/* --- commits that fail ------------------------------------------------------------------------ */

static void after_an_unknown_commit_the_row_decides(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_positions(f, 0);
    given_run g;
    scripted_handler work = {0};
    make_run(&g, PARTITION, 0, 3);
    semel_test_fault(f->base.seam, "run.committed", 1, SEMEL_EUNKNOWN);
    RUN_FAILS(SEMEL_EUNKNOWN, "PPP", inbox, &g, &work);
    RUN_GIVEN("ddd", inbox, &g, &work);
    make_run(&g, PARTITION, 3, 3);
    semel_test_fault(f->base.seam, "run.moved", 1, SEMEL_EUNKNOWN);
    RUN_FAILS(SEMEL_EUNKNOWN, "???", inbox, &g, &work);
    NEXT(3, inbox);
    RUN_GIVEN("PPP", inbox, &g, &work);
    NEXT(6, inbox);
}

static void a_conflict_is_begun_anew(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_positions(f, 0);
    scripted_handler work = {0};
    semel_test_fault(f->base.seam, "run.moved", 1, SEMEL_ECONFLICT);
    RUN("PP", inbox, 0, &work);
    assert_string_equal(work.ids, "a b a b ");
    NEXT(2, inbox);
}

static void what_may_be_one_messages_fault_is_handled_one_by_one(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_positions(f, 0);
    scripted_handler work = {0};
    RUN("P", inbox, 0, &work);
    semel_test_fault(f->base.seam, "run.moved", 1, SEMEL_EHANDLER);
    RUN("PPP", inbox, 1, &work);
    assert_string_equal(work.ids, "a b c d b c d ");
    assert_int_equal(work.attempt, 1);
    semel_test_fault(f->base.seam, "run.moved", 1, SEMEL_EHANDLER);
    RUN("F", inbox, 4, &work);
    RUN("PP", inbox, 4, &work);
    NEXT(6, inbox);
}

/* --- two owners ------------------------------------------------------------------------------- */

enum { OWNERS = 4, RUNS = 12 };

typedef struct race {
    semel_inbox *inboxes[OWNERS];
    atomic_int processed[RUN_ROOM];
    atomic_int wrong;
} race;

static semel_status count_in_vain(semel_unit *unit, const semel_message *message, void *context,
                                  semel_error *err)
{
    (void)unit, (void)message, (void)context, (void)err;
    return SEMEL_OK;
}

/* Until all is decided; each has all messages. */
static void own(test_thread *self)
{
    race *r = self->context;
    semel_outcome outcomes[RUN_ROOM];
    semel_error err;
    for (size_t at = 0; at < RUNS;) {
        given_run g;
        make_run(&g, PARTITION, (int64_t)at, at + 3 <= RUNS ? 3 : RUNS - at);
        semel_status status = semel_inbox_receive_run(outcomes, r->inboxes[self->index], &g.run,
                                                      count_in_vain, NULL, &err);
        if (status && !err.retryable)
            atomic_fetch_add(&r->wrong, 1);
        for (size_t i = 0; i < g.run.count; i++)
            if (outcomes[i] == SEMEL_PROCESSED)
                atomic_fetch_add(&r->processed[(size_t)g.positions[i]], 1);
        if (status && !err.retryable)
            return;
        for (size_t i = 0; i < g.run.count && semel_outcome_settled(outcomes[i]); i++)
            at++;
    }
}

static void of_several_owners_one_commits(void **state)
{
    store_fixture *f = *state;
    race r = {.wrong = 0};
    const semel_inbox_options options = remembering();
    for (size_t i = 0; i < OWNERS; i++)
        r.inboxes[i] = open_on(
            f, i % 2 && f->quirks->flags & STORE_SHARED ? open_second_handle(f) : f->base.store,
            "orders", &options);
    assert_true(threads_run(OWNERS, own, &r));
    assert_int_equal(atomic_load(&r.wrong), 0);
    for (size_t i = 0; i < RUNS; i++)
        assert_int_equal(atomic_load(&r.processed[i]), 1);
    NEXT(RUNS, r.inboxes[0]);
}

/* --- rows of other topics --------------------------------------------------------------------- */

static void another_cluster_is_noticed(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_positions(f, 0);
    semel_inbox_options accepting = remembering();
    given_run g;
    scripted_handler work = {0};
    accepting.accept_changes = 1;
    RUN("PPP", inbox, 0, &work);
    make_run(&g, PARTITION, 1, 3);
    g.run.origin = "cluster-b";
    RUN_FAILS(SEMEL_EREJECTED, "???", inbox, &g, &work);
    assert_non_null(strstr(last_error.text, "cluster-a"));
    assert_non_null(strstr(last_error.text, "cluster-b"));
    assert_int_equal(last_error.retryable, 0);
    NEXT(3, inbox);
    g.run.origin = NULL; /* it does not say */
    RUN_GIVEN("ddP", inbox, &g, &work);
    g.run.origin = "cluster-b";
    RUN_GIVEN("PPP", open_on(f, f->base.store, "orders", &accepting), &g, &work);
    NEXT(4, inbox);
}

static void a_recreated_topic_is_noticed_by_its_age(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_positions(f, 0);
    given_run g;
    scripted_handler work = {0};
    make_run(&g, PARTITION, 0, 3);
    for (size_t i = 0; i < 3; i++)
        g.messages[i].time_ms = now_of(f);
    RUN_GIVEN("PPP", inbox, &g, &work);
    RUN_GIVEN("ddd", inbox, &g, &work);
    g.messages[1].time_ms = now_of(f) + 3600000; /* more than clocks may differ */
    RUN_FAILS(SEMEL_EREJECTED, "???", inbox, &g, &work);
    assert_non_null(strstr(last_error.text, "recreated"));
    OK(semel_inbox_forget_partition(inbox, PARTITION, &last_error));
    RUN_GIVEN("PPP", inbox, &g, &work);
    RUN_GIVEN("ddd", inbox, &g, &work); /* its clock is ahead, but it was handled so */
}

/* A producer writes what it likes. */
static void a_time_without_end_is_no_reason_to_refuse_copies(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_positions(f, 0);
    given_run g;
    scripted_handler work = {0};
    make_run(&g, PARTITION, 0, 2);
    g.messages[0].time_ms = INT64_MAX;
    g.messages[1].time_ms = INT64_MIN;
    RUN_GIVEN("PP", inbox, &g, &work);
    RUN_GIVEN("dd", inbox, &g, &work);
    RUN_GIVEN("dd", open_positions(f, 0), &g, &work);
}

static void a_recreated_topic_is_noticed_by_its_content(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_positions(f, 0);
    given_run g;
    scripted_handler work = {0};
    RUN("PPP", inbox, 0, &work);
    make_run(&g, PARTITION, 2, 1);
    g.messages[0].body = semel_str("another one");
    RUN_FAILS(SEMEL_EREJECTED, "?", inbox, &g, &work);
    NEXT(3, inbox);
}

static void note_gap(void *context, const semel_gap *gap)
{
    *(semel_gap *)context = *gap;
}

static void a_gap_is_told(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = remembering();
    semel_gap gap = {0};
    scripted_handler work = {0};
    options.gap = note_gap;
    options.gap_context = &gap;
    RUN("PPP", open_on(f, f->base.store, "orders", &options), 0, &work);
    assert_int_equal(gap.size, 0);
    semel_inbox *again = open_on(f, f->base.store, "orders", &options);
    RUN("PP", again, 7, &work);
    assert_int_equal(gap.expected, 3);
    assert_int_equal(gap.found, 7);
    assert_string_equal(gap.partition, PARTITION);
    gap.size = 0;
    RUN("P", again, 12, &work); /* compaction: nobody wants to know each one */
    assert_int_equal(gap.size, 0);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void without_a_position_nothing_is_received(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_positions(f, 0);
    semel_message message = text_message("a", "a");
    const semel_message *batch[] = {&message};
    semel_outcome out;
    semel_unit *unit = NULL;
    FAILS(SEMEL_EMISUSE,
          semel_inbox_receive(&out, inbox, &message, count_in_vain, NULL, &last_error));
    FAILS(SEMEL_EMISUSE,
          semel_inbox_receive_batch(&out, inbox, batch, 1, count_in_vain, NULL, &last_error));
    OK(semel_unit_begin(&unit, f->base.store, &last_error));
    FAILS(SEMEL_EMISUSE, semel_unit_claim(&out, unit, inbox, &message, &last_error));
    semel_unit_rollback(unit);
}

static void a_run_that_is_none_is_refused(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_positions(f, 0), *keys = open_inbox(f, "keys", NULL);
    given_run g;
    scripted_handler work = {0};
    make_run(&g, PARTITION, 0, 3);
    RUN_FAILS(SEMEL_EINVAL, "???", keys, &g, &work);
    g.positions[2] = 1;
    RUN_FAILS(SEMEL_EINVAL, "???", inbox, &g, &work);
    g.positions[0] = -1;
    RUN_FAILS(SEMEL_EINVAL, "???", inbox, &g, &work);
    make_run(&g, "", 0, 3);
    RUN_FAILS(SEMEL_EINVAL, "???", inbox, &g, &work);
    assert_int_equal(work.runs, 0);
    make_run(&g, PARTITION, 0, 0);
    RUN_GIVEN("", inbox, &g, &work);
}

static void what_is_about_keys_is_refused(void **state)
{
    store_fixture *f = *state;
    const semel_inbox_options base = remembering();
    semel_inbox_options wrong[8];
    semel_inbox *inbox = NULL;
    for (size_t i = 0; i < 8; i++)
        wrong[i] = base;
    wrong[0].key = "id";
    wrong[1].fingerprint = "body";
    wrong[2].on_duplicate = SEMEL_DUPLICATE_REPLAY;
    wrong[3].mode = SEMEL_CLAIM;
    wrong[4].on_mismatch = SEMEL_MISMATCH_IGNORE;
    wrong[5].keep_details = 1;
    wrong[6].on_stale = SEMEL_STALE_PROCESS;
    wrong[7].on_missing_key = SEMEL_MISSING_KEY_DIGEST;
    for (size_t i = 0; i < 8; i++)
        FAILS(SEMEL_EINVAL,
              semel_inbox_open(&inbox, f->base.store, "orders", &wrong[i], &last_error));
}

static void an_inbox_keeps_remembering_what_it_did(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = remembering();
    semel_inbox *inbox = NULL;
    (void)open_inbox(f, "orders", NULL);
    FAILS(SEMEL_EINVAL, semel_inbox_open(&inbox, f->base.store, "orders", &options, &last_error));
    options.accept_changes = 1;
    (void)open_on(f, f->base.store, "orders", &options);
    options.accept_changes = 0;
    (void)open_on(f, f->base.store, "orders", &options);
}

#define ONCE(function) STORE_TEST_WITH(function, IN_TRANSACTION_MODE)

const store_test store_position_tests[] = {
    ONCE(a_run_is_handled_once_and_in_order),
    STORE_TEST_WITH(a_new_process_knows_the_position, IN_TRANSACTION_MODE | NEEDS_KEEPS),
    ONCE(partitions_and_inboxes_have_positions_of_their_own),
    STORE_TEST_WITH(what_a_run_sends_is_sent_once, IN_TRANSACTION_MODE | NEEDS_OUTBOX | NEEDS_DEAD),
    ONCE(a_key_names_partition_and_position),
    ONCE(a_failure_holds_up_its_partition),
    ONCE(the_first_of_a_run_may_fail),
    STORE_TEST_WITH(the_last_attempt_puts_a_message_aside, IN_TRANSACTION_MODE | NEEDS_DEAD),
    STORE_TEST_WITH(one_attempt_puts_a_message_aside_at_once, IN_TRANSACTION_MODE | NEEDS_DEAD),
    STORE_TEST_WITH(a_handler_may_give_up, IN_TRANSACTION_MODE | NEEDS_DEAD),
    ONCE(a_message_may_be_tried_for_ever),
    STORE_TEST_WITH(a_dead_letter_is_replayed_once, IN_TRANSACTION_MODE | NEEDS_DEAD),
    ONCE(a_stop_leaves_a_run_as_it_was),
    STORE_TEST_WITH(starts_that_never_end_make_a_dead_letter_of_one,
                    IN_TRANSACTION_MODE | NEEDS_DEAD),
    ONCE(neighbours_of_a_killer_are_handled_by_themselves),
    ONCE(a_single_attempt_is_made_after_a_crash),
    ONCE(a_warm_partition_counts_nothing),
    ONCE(after_an_unknown_commit_the_row_decides),
    ONCE(a_conflict_is_begun_anew),
    ONCE(what_may_be_one_messages_fault_is_handled_one_by_one),
    ONCE(of_several_owners_one_commits),
    ONCE(another_cluster_is_noticed),
    ONCE(a_recreated_topic_is_noticed_by_its_age),
    ONCE(a_time_without_end_is_no_reason_to_refuse_copies),
    ONCE(a_recreated_topic_is_noticed_by_its_content),
    ONCE(a_gap_is_told),
    ONCE(without_a_position_nothing_is_received),
    ONCE(a_run_that_is_none_is_refused),
    ONCE(what_is_about_keys_is_refused),
    ONCE(an_inbox_keeps_remembering_what_it_did),
    {NULL, NULL, 0},
};
