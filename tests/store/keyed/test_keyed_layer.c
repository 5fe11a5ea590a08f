/* The keyed layer by its traffic: how many round trips a message takes, what a lost answer comes
 * to, who wins if somebody else has the key, and what is left behind. */
#include "keyed_case.h"
#include "store/keyed/hold.h"

#include <cmocka.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const semel_mode modes[] = {SEMEL_TRANSACTION, SEMEL_CLAIM, SEMEL_QUEUED};
enum {
    MODES = sizeof modes / sizeof *modes,
    ALL_OVER_MS = 60001 /* after that every hold and every claim of a test has ended */
};

static uint64_t reads(keyed_case *c)
{
    return keyed_memory_calls(c->memory, KEYED_MEMORY_GET) +
           keyed_memory_calls(c->memory, KEYED_MEMORY_SCAN);
}

/* --- round trips ------------------------------------------------------------------------------ */

static void a_message_takes_few_round_trips(void **state)
{
    static const unsigned first[MODES] = {2, 2, 1};
    (void)state;
    for (int i = 0; i < MODES; i++) {
        keyed_case c;
        keyed_case_open(&c, modes[i], NULL);
        keyed_case_receive(&c, c.inbox, "a", SEMEL_OK, SEMEL_PROCESSED);
        uint64_t read = reads(&c);
        keyed_case_expect(&c, NULL, 0);
        keyed_case_receive(&c, c.inbox, "b", SEMEL_OK, SEMEL_PROCESSED);
        assert_int_equal(c.applies, first[i]);
        keyed_case_expect(&c, NULL, 0);
        keyed_case_receive(&c, c.inbox, "b", SEMEL_OK, SEMEL_DUPLICATE);
        assert_int_equal(c.applies, 1);
        assert_int_equal(reads(&c), read);
        assert_int_equal(keyed_case_done(&c), 2);
        keyed_case_close(&c);
    }
}

/* --- lost answers ----------------------------------------------------------------------------- */

/* The nth apply() of a message has this fate; the message is handled once, whatever it is. */
static void lose(semel_mode mode, unsigned nth, keyed_memory_fate fate)
{
    keyed_case c;
    keyed_memory_fate fates[4] = {KEYED_MEMORY_DONE};
    keyed_case_open(&c, mode, NULL);
    fates[nth] = fate;
    keyed_case_expect(&c, fates, nth + 1);
    keyed_case_receive(&c, c.inbox, "a", SEMEL_OK, SEMEL_PROCESSED);
    while (keyed_memory_in_flight(c.memory))
        (void)keyed_memory_arrive(c.memory, 0);
    assert_int_equal(keyed_case_done(&c), 1);
    assert_int_equal(keyed_case_unsent(&c), 1);
    keyed_case_receive(&c, c.others, "a", SEMEL_OK, SEMEL_DUPLICATE);
    assert_int_equal(keyed_case_done(&c), 1);
    keyed_case_close(&c);
}

static void an_answer_that_was_lost_is_settled(void **state)
{
    static const keyed_memory_fate fates[] = {KEYED_MEMORY_LOST, KEYED_MEMORY_APPLIED,
                                              KEYED_MEMORY_LATE, KEYED_MEMORY_GIVES_UP,
                                              KEYED_MEMORY_SILENT};
    (void)state;
    for (int i = 0; i < MODES; i++)
        for (size_t j = 0; j < sizeof fates / sizeof *fates; j++)
            for (unsigned nth = 0; nth < (modes[i] == SEMEL_QUEUED ? 1 : 2); nth++)
                lose(modes[i], nth, fates[j]);
}

/* The commit is under way, and the database gives up its repetitions: what comes late must find
 * that the key was written since. */
static void a_commit_that_comes_late_is_fenced(void **state)
{
    (void)state;
    for (int i = 0; i < MODES; i++) {
        keyed_case c;
        semel_message message = text_message("a", "10 EUR");
        semel_outcome outcome;
        unsigned before = modes[i] == SEMEL_QUEUED ? 0 : 1;
        keyed_memory_fate fates[] = {KEYED_MEMORY_DONE, KEYED_MEMORY_LATE, KEYED_MEMORY_GIVES_UP,
                                     KEYED_MEMORY_GIVES_UP};
        keyed_case_open(&c, modes[i], NULL);
        keyed_case_expect(&c, fates + 1 - before, 3 + before);
        semel_status status =
            semel_inbox_receive(&outcome, c.inbox, &message, keyed_case_work, &c, &last_error);
        assert_int_equal(status, modes[i] == SEMEL_CLAIM ? SEMEL_ELOST : SEMEL_OK);
        assert_int_equal(keyed_memory_in_flight(c.memory), 1);
        assert_int_equal(keyed_memory_arrive(c.memory, 0), SEMEL_ECONFLICT);
        if (status)
            keyed_case_receive(&c, c.inbox, "a", SEMEL_OK, SEMEL_PROCESSED);
        assert_int_equal(keyed_case_done(&c), 1);
        assert_int_equal(keyed_case_unsent(&c), 1);
        keyed_case_close(&c);
    }
}

/* The database does not answer any more: nobody can tell, and the next to come finds out. */
static void a_commit_may_stay_unknown(void **state)
{
    (void)state;
    for (int i = 0; i < MODES; i++) {
        keyed_case c;
        semel_message message = text_message("a", "10 EUR");
        semel_outcome outcome;
        unsigned before = modes[i] == SEMEL_QUEUED ? 0 : 1;
        keyed_memory_fate fates[] = {KEYED_MEMORY_DONE, KEYED_MEMORY_LATE,
                                     KEYED_MEMORY_UNAVAILABLE};
        keyed_case_open(&c, modes[i], NULL);
        keyed_case_expect(&c, fates + 1 - before, 2 + before);
        c.endless = 1;
        FAILS(SEMEL_EUNKNOWN,
              semel_inbox_receive(&outcome, c.inbox, &message, keyed_case_work, &c, &last_error));
        assert_int_equal(outcome, SEMEL_UNDECIDED);
        keyed_case_expect(&c, NULL, 0);
        semel_test_advance_ms(c.seam, ALL_OVER_MS);
        keyed_case_receive(&c, c.others, "a", SEMEL_OK, SEMEL_PROCESSED);
        while (keyed_memory_in_flight(c.memory))
            assert_int_equal(keyed_memory_arrive(c.memory, 0), SEMEL_ECONFLICT);
        assert_int_equal(keyed_case_done(&c), 1);
        keyed_case_close(&c);
    }
}

/* --- somebody else has the key ---------------------------------------------------------------- */

static semel_status work_and_lose(semel_unit *unit, const semel_message *message, void *context,
                                  semel_error *err)
{
    keyed_case *c = context;
    if (c->fate_count == 0) {
        c->fate_count = 1; /* only once */
        c->fates[0] = KEYED_MEMORY_DONE;
        c->fate = 1;
        keyed_case_steal(c);
    }
    return keyed_case_work(unit, message, context, err);
}

/* The claim was taken over without this process noticing: the commit says so. */
static void a_claim_that_was_lost_is_found_at_commit(void **state)
{
    (void)state;
    keyed_case c;
    semel_message message = text_message("a", "10 EUR");
    semel_outcome outcome;
    keyed_case_open(&c, SEMEL_CLAIM, NULL);
    keyed_case_expect(&c, NULL, 0);
    FAILS(SEMEL_ELOST,
          semel_inbox_receive(&outcome, c.inbox, &message, work_and_lose, &c, &last_error));
    assert_int_equal(outcome, SEMEL_UNDECIDED);
    assert_int_equal(keyed_case_done(&c), 0);
    assert_int_equal(keyed_case_unsent(&c), 0);
    keyed_case_close(&c);
}

/* A hold is waited for, and the handler runs again. */
static void a_hold_that_was_lost_undoes_the_unit(void **state)
{
    (void)state;
    keyed_case c;
    semel_message message = text_message("a", "10 EUR");
    semel_outcome outcome;
    keyed_case_open(&c, SEMEL_TRANSACTION, NULL);
    keyed_case_expect(&c, NULL, 0);
    FAILS(SEMEL_EBUSY,
          semel_inbox_receive(&outcome, c.inbox, &message, work_and_lose, &c, &last_error));
    assert_int_equal(outcome, SEMEL_IN_PROGRESS);
    assert_int_equal(keyed_case_done(&c), 0);
    semel_test_advance_ms(c.seam, ALL_OVER_MS);
    keyed_case_receive(&c, c.inbox, "a", SEMEL_OK, SEMEL_PROCESSED);
    assert_int_equal(keyed_case_done(&c), 1);
    keyed_case_close(&c);
}

/* --- holds ------------------------------------------------------------------------------------ */

static semel_unit *hold(keyed_case *c)
{
    semel_unit *unit = NULL;
    semel_message message = text_message("a", "10 EUR");
    semel_outcome outcome;
    OK(semel_unit_begin(&unit, c->store, &last_error));
    OK(semel_unit_claim(&outcome, unit, c->inbox, &message, &last_error));
    assert_int_equal(outcome, SEMEL_CLAIMED);
    return unit;
}

static void a_hold_is_renewed_while_its_unit_is_open(void **state)
{
    (void)state;
    keyed_case c;
    keyed_case_open(&c, SEMEL_TRANSACTION, NULL);
    semel_unit *unit = hold(&c);
    for (int i = 0; i < 5; i++) {
        semel_test_advance_ms(c.seam, KEYED_HOLD_MS / 2);
        keyed_renew_holds(keyed_case_store(c.store));
        keyed_case_receive(&c, c.others, "a", SEMEL_EBUSY, SEMEL_IN_PROGRESS);
    }
    OK(semel_unit_commit(unit, &last_error));
    keyed_case_receive(&c, c.others, "a", SEMEL_OK, SEMEL_DUPLICATE);
    keyed_case_close(&c);
}

static void a_hold_of_a_dead_process_ends(void **state)
{
    (void)state;
    keyed_case c;
    keyed_case_open(&c, SEMEL_TRANSACTION, NULL);
    semel_unit *unit = hold(&c);
    semel_test_advance_ms(c.seam, KEYED_HOLD_MS - 1);
    keyed_case_receive(&c, c.others, "a", SEMEL_EBUSY, SEMEL_IN_PROGRESS);
    semel_test_advance_ms(c.seam, 1);
    keyed_case_receive(&c, c.others, "a", SEMEL_OK, SEMEL_PROCESSED);
    FAILS(SEMEL_ECONFLICT, semel_unit_commit(unit, &last_error)); /* it was not dead after all */
    assert_int_equal(keyed_case_done(&c), 1);
    keyed_case_close(&c);
}

static void a_rollback_leaves_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < MODES; i++) {
        keyed_case c;
        keyed_case_open(&c, modes[i], NULL);
        size_t records = keyed_memory_records(c.memory);
        semel_unit_rollback(hold(&c));
        assert_int_equal(keyed_memory_records(c.memory), records);
        keyed_case_receive(&c, c.others, "a", SEMEL_OK, SEMEL_PROCESSED);
        keyed_case_close(&c);
    }
}

/* --- limits ----------------------------------------------------------------------------------- */

static semel_status send_many(semel_unit *unit, const semel_message *message, void *context,
                              semel_error *err)
{
    keyed_case *c = context;
    semel_message mail = text_message("mail", "paid");
    semel_status status = SEMEL_OK;
    (void)message;
    for (int i = 0; i < 50 && !status; i++)
        status = semel_unit_send(unit, c->outbox, &mail, err);
    return status;
}

static semel_status send_large(semel_unit *unit, const semel_message *message, void *context,
                               semel_error *err)
{
    static char body[32768];
    keyed_case *c = context;
    semel_message mail = text_message("mail", "");
    (void)message;
    mail.body = (semel_bytes){body, sizeof body};
    return semel_unit_send(unit, c->outbox, &mail, err);
}

static void what_the_database_cannot_take_is_refused(void **state)
{
    (void)state;
    keyed_case c;
    semel_message message = text_message("a", "10 EUR");
    semel_outcome outcome;
    keyed_memory_options narrow = {.limits = {.changes_max = 20, .record_max = 20000}};
    keyed_case_open(&c, SEMEL_TRANSACTION, &narrow);
    FAILS(SEMEL_ELIMIT,
          semel_inbox_receive(&outcome, c.inbox, &message, send_many, &c, &last_error));
    assert_non_null(strstr(last_error.text, "takes 20 at once"));
    FAILS(SEMEL_ELIMIT,
          semel_inbox_receive(&outcome, c.inbox, &message, send_large, &c, &last_error));
    assert_non_null(strstr(last_error.text, "at most 20000"));
    assert_int_equal(keyed_case_unsent(&c), 0);
    keyed_case_receive(&c, c.inbox, "a", SEMEL_OK, SEMEL_PROCESSED);
    keyed_case_close(&c);
}

/* --- expiry ----------------------------------------------------------------------------------- */

/* The database has removed a marker by itself: an old copy is stale, not new. */
static void what_expired_is_not_taken_for_new(void **state)
{
    (void)state;
    keyed_case c;
    mem_arena arena = {0};
    semel_inbox *inbox = NULL;
    semel_message message = text_message("a", "10 EUR");
    semel_outcome outcome;
    const int64_t day_ms = (int64_t)24 * 3600 * 1000;
    semel_inbox_options options = {.size = sizeof options, .retention_ms = (uint64_t)day_ms};
    keyed_case_open(&c, SEMEL_TRANSACTION, NULL);
    const semel_seam *seam = semel_test_seam_get(c.seam);
    message.time_ms = seam->wall_ms(seam->context);
    OK(semel_inbox_open(&inbox, c.store, "expiring", &options, &last_error));
    OK(semel_inbox_receive(&outcome, inbox, &message, keyed_case_work, &c, &last_error));
    assert_int_equal(outcome, SEMEL_PROCESSED);
    semel_test_advance_ms(c.seam, 9 * day_ms);
    assert_null(keyed_case_marker(&c, &arena));
    FAILS(SEMEL_EREJECTED,
          semel_inbox_receive(&outcome, inbox, &message, keyed_case_work, &c, &last_error));
    assert_int_equal(outcome, SEMEL_STALE);
    semel_inbox_close(inbox);
    arena_free(&arena);
    keyed_case_close(&c);
}

/* A claim that was lost on its way comes when the inbox has forgotten the key: the row that it
 * leaves is no proof that the message is new. */
static void a_claim_that_comes_late_proves_nothing(void **state)
{
    (void)state;
    keyed_case c;
    semel_inbox *inbox = NULL;
    semel_message message = text_message("a", "10 EUR");
    semel_outcome outcome;
    size_t swept = 0;
    int more = 0;
    const keyed_memory_fate late = KEYED_MEMORY_LATE;
    const int64_t day_ms = (int64_t)24 * 3600 * 1000;
    semel_inbox_options options = {
        .size = sizeof options, .mode = SEMEL_CLAIM, .retention_ms = (uint64_t)day_ms};
    keyed_case_open(&c, SEMEL_CLAIM, NULL);
    const semel_seam *seam = semel_test_seam_get(c.seam);
    message.time_ms = seam->wall_ms(seam->context);
    OK(semel_inbox_open(&inbox, c.store, "forgetful", &options, &last_error));
    OK(semel_inbox_receive(&outcome, inbox, &message, keyed_case_work, &c, &last_error));
    keyed_case_expect(&c, &late, 1);
    OK(semel_inbox_receive(&outcome, inbox, &message, keyed_case_work, &c, &last_error));
    assert_int_equal(outcome, SEMEL_DUPLICATE);
    semel_test_advance_ms(c.seam, 2 * day_ms);
    OK(semel_inbox_sweep(&swept, &more, inbox, 100, &last_error));
    assert_int_equal(swept, 1);
    OK(keyed_memory_arrive(c.memory, 0));
    FAILS(SEMEL_EREJECTED,
          semel_inbox_receive(&outcome, inbox, &message, keyed_case_work, &c, &last_error));
    assert_int_equal(outcome, SEMEL_STALE);
    assert_int_equal(keyed_case_done(&c), 1);
    semel_inbox_close(inbox);
    keyed_case_close(&c);
}

/* --- processes -------------------------------------------------------------------------------- */

static void a_child_does_not_use_the_store(void **state)
{
    (void)state;
    keyed_case c;
    keyed_case_open(&c, SEMEL_TRANSACTION, NULL);
    pid_t pid = fork();
    if (pid == 0) {
        semel_unit *unit = NULL;
        int64_t now = 0;
        int refused = semel_unit_begin(&unit, c.store, NULL) == SEMEL_EMISUSE &&
                      semel_store_now(&now, c.store, NULL) == SEMEL_EMISUSE;
        _exit(refused ? 0 : 1);
    }
    int how = 1;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_int_equal(how, 0);
    keyed_case_receive(&c, c.inbox, "a", SEMEL_OK, SEMEL_PROCESSED);
    keyed_case_close(&c);
}

/* --- memory ----------------------------------------------------------------------------------- */

/* At the nth allocation, for every n: nothing is handled twice, and in the end it is handled. */
static int receive_without(semel_mode mode, long nth)
{
    keyed_case c;
    semel_message message = text_message("a", "10 EUR");
    semel_outcome outcome = SEMEL_UNDECIDED;
    keyed_case_open(&c, mode, NULL);
    mem_fail_at(nth);
    semel_status status =
        semel_inbox_receive(&outcome, c.inbox, &message, keyed_case_work, &c, &last_error);
    mem_fail_at(0);
    assert_true(status == SEMEL_OK || status == SEMEL_ENOMEM);
    semel_test_advance_ms(c.seam, ALL_OVER_MS);
    if (outcome != SEMEL_PROCESSED) {
        OK(semel_inbox_receive(&outcome, c.others, &message, keyed_case_work, &c, &last_error));
        assert_int_equal(outcome, SEMEL_PROCESSED);
    }
    keyed_case_receive(&c, c.inbox, "a", SEMEL_OK, SEMEL_DUPLICATE);
    assert_int_equal(keyed_case_done(&c), 1);
    assert_int_equal(keyed_case_unsent(&c), 1);
    keyed_case_close(&c);
    return status == SEMEL_ENOMEM;
}

static void running_out_of_memory_does_no_harm(void **state)
{
    (void)state;
    for (int i = 0; i < MODES; i++) {
        int failed = 0;
        for (long nth = 1; nth < 200; nth++)
            failed += receive_without(modes[i], nth);
        assert_true(failed > 0);
    }
}

/* --- drivers of applications ------------------------------------------------------------------ */

static void a_driver_is_checked_when_it_is_opened(void **state)
{
    (void)state;
    semel_store *store = NULL;
    keyed_memory *memory = keyed_memory_open("checked", &(keyed_memory_options){0});
    semel_keyed_driver driver = *keyed_memory_driver(memory);
    driver.version = 0;
    FAILS(SEMEL_EUNSUPPORTED,
          semel_store_open_keyed(&store, &driver, "checked", NULL, &last_error));
    driver = *keyed_memory_driver(memory);
    driver.scan = NULL;
    FAILS(SEMEL_EINVAL, semel_store_open_keyed(&store, &driver, "checked", NULL, &last_error));
    assert_non_null(strstr(last_error.text, "lacks a member"));
    keyed_memory_close(memory);
}

static void a_database_of_single_writes_has_claims_only(void **state)
{
    (void)state;
    semel_store *store = NULL;
    semel_inbox *inbox = NULL;
    semel_outbox *outbox = NULL;
    keyed_memory *memory =
        keyed_memory_open("single", &(keyed_memory_options){.lacks = SEMEL_KEYED_MANY});
    semel_inbox_options options = {.size = sizeof options, .mode = SEMEL_TRANSACTION};
    OK(semel_store_open_keyed(&store, keyed_memory_driver(memory), "single", NULL, &last_error));
    OK(semel_store_migrate(store, &last_error));
    FAILS(SEMEL_EUNSUPPORTED, semel_inbox_open(&inbox, store, "orders", &options, &last_error));
    assert_non_null(strstr(last_error.text, "use SEMEL_CLAIM"));
    FAILS(SEMEL_EUNSUPPORTED, semel_outbox_open(&outbox, store, "mail", &last_error));
    options.mode = SEMEL_CLAIM;
    OK(semel_inbox_open(&inbox, store, "orders", &options, &last_error));
    semel_inbox_close(inbox);
    semel_store_close(store);
    keyed_memory_close(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_takes_few_round_trips),
        cmocka_unit_test(an_answer_that_was_lost_is_settled),
        cmocka_unit_test(a_commit_that_comes_late_is_fenced),
        cmocka_unit_test(a_commit_may_stay_unknown),
        cmocka_unit_test(a_claim_that_was_lost_is_found_at_commit),
        cmocka_unit_test(a_hold_that_was_lost_undoes_the_unit),
        cmocka_unit_test(a_hold_is_renewed_while_its_unit_is_open),
        cmocka_unit_test(a_hold_of_a_dead_process_ends),
        cmocka_unit_test(a_rollback_leaves_nothing),
        cmocka_unit_test(what_the_database_cannot_take_is_refused),
        cmocka_unit_test(what_expired_is_not_taken_for_new),
        cmocka_unit_test(a_claim_that_comes_late_proves_nothing),
        cmocka_unit_test(a_child_does_not_use_the_store),
        cmocka_unit_test(running_out_of_memory_does_no_harm),
        cmocka_unit_test(a_driver_is_checked_when_it_is_opened),
        cmocka_unit_test(a_database_of_single_writes_has_claims_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
