/* What the core asks of a driver's markers: what it only wants to know it looks up, and with each
 * row it says how long the row is to be kept. */
#include "support/fake/noting_store.h"

static const semel_mode modes[] = {SEMEL_TRANSACTION, SEMEL_CLAIM};
enum { MODES = 2 };

static semel_inbox *open_in(fixture *f, semel_mode mode, semel_inbox_options options)
{
    options.size = sizeof options;
    options.mode = mode;
    return fixture_inbox(f, mode == SEMEL_CLAIM ? "by-claim" : "by-transaction", &options);
}

/* --- looking ---------------------------------------------------------------------------------- */

static void replay(fixture *f, semel_outcome expected, semel_inbox *inbox,
                   scripted_handler *context)
{
    semel_outcome outcome = SEMEL_UNDECIDED;
    OK(semel_inbox_replay(&outcome, inbox, fixture_only_letter(f).id, scripted_handler_run, context,
                          &last_error));
    OUTCOME(expected, outcome);
}

/* The letter's key is looked at, and then written once: freed, and claimed as any other. */
static void a_replay_looks_before_it_writes(void **state)
{
    fixture *f = *state;
    noting_store_open(f, 0);
    for (int i = 0; i < MODES; i++) {
        scripted_handler hopeless = {.failures = 1, .failure = SEMEL_EGIVEUP}, done = {0};
        semel_inbox *inbox = open_in(f, modes[i], (semel_inbox_options){.attempts_max = 3});
        RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "m-1", &hopeless);
        (void)noting_store_take();
        replay(f, SEMEL_PROCESSED, inbox, &done);
        store_notes notes = noting_store_take();
        assert_int_equal(notes.looks, 1);
        assert_int_equal(notes.calls[VERB_FORGET], 1);
        assert_int_equal(notes.calls[VERB_MARK], modes[i] == SEMEL_TRANSACTION);
        assert_int_equal(notes.calls[VERB_CLAIM], modes[i] == SEMEL_CLAIM);
        assert_int_equal(notes.calls[VERB_FAIL] + notes.calls[VERB_BURY], 0);
        assert_int_equal(done.runs, 1);
    }
}

/* --- how long a row is kept ------------------------------------------------------------------- */

static const struct {
    uint64_t retention_ms;
    uint64_t keep_ms;
} retentions[] = {{0, SEMEL_RETENTION_DEFAULT_MS},
                  {SEMEL_RETENTION_FOREVER, UINT64_MAX},
                  {SEMEL_RETENTION_NONE, 0},
                  {5000, 5000}};
enum { RETENTIONS = sizeof retentions / sizeof *retentions };

/* Each verb of `verbs` was called, and told so. A dead row stays as long as its letter. */
static void expect_kept(uint64_t keep_ms, unsigned verbs)
{
    store_notes notes = noting_store_take();
    for (int verb = 0; verb < VERB_COUNT; verb++) {
        assert_int_equal(notes.calls[verb] > 0, verbs >> verb & 1U);
        if (notes.calls[verb])
            assert_int_equal(notes.keep_ms[verb],
                             verb == VERB_BURY ? SEMEL_RETENTION_FOREVER : keep_ms);
    }
}

static void the_driver_learns_the_retention_with_each_row(void **state)
{
    fixture *f = *state;
    semel_message again = text_message("c", "10 EUR");
    again.delivery = 2;
    noting_store_open(f, 0);
    for (int i = 0; i < RETENTIONS; i++) {
        uint64_t keep_ms = retentions[i].keep_ms;
        scripted_handler failing = {.failures = 1}, done = {0},
                         hopeless = {.failures = 1, .failure = SEMEL_EGIVEUP};
        semel_inbox_options options = {.size = sizeof options,
                                       .retention_ms = retentions[i].retention_ms};
        semel_inbox *inbox = fixture_inbox(f, (const char *[]){"a", "b", "c", "d"}[i], &options);
        (void)noting_store_take();
        RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "a", &done);
        expect_kept(keep_ms, 1U << VERB_MARK);
        RECEIVES_ID(SEMEL_EHANDLER, SEMEL_FAILED, inbox, "b", &failing);
        expect_kept(keep_ms, 1U << VERB_MARK | 1U << VERB_FAIL);
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &again, &done);
        expect_kept(keep_ms, 1U << VERB_CLAIM | 1U << VERB_MARK);
        RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "d", &hopeless);
        expect_kept(keep_ms, 1U << VERB_MARK | 1U << VERB_BURY);
    }
}

static void the_driver_learns_the_retention_with_each_claim(void **state)
{
    fixture *f = *state;
    noting_store_open(f, 0);
    for (int i = 0; i < RETENTIONS; i++) {
        uint64_t keep_ms = retentions[i].keep_ms;
        scripted_handler failing = {.failures = 1}, done = {0},
                         hopeless = {.failures = 1, .failure = SEMEL_EGIVEUP};
        semel_inbox_options options = {.size = sizeof options,
                                       .mode = SEMEL_CLAIM,
                                       .retention_ms = retentions[i].retention_ms};
        semel_inbox *inbox = fixture_inbox(f, (const char *[]){"a", "b", "c", "d"}[i], &options);
        (void)noting_store_take();
        RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "a", &done);
        expect_kept(keep_ms, 1U << VERB_CLAIM | 1U << VERB_FINISH);
        RECEIVES_ID(SEMEL_EHANDLER, SEMEL_FAILED, inbox, "b", &failing);
        expect_kept(keep_ms, 1U << VERB_CLAIM | 1U << VERB_FAIL);
        RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "d", &hopeless);
        expect_kept(keep_ms, 1U << VERB_CLAIM | 1U << VERB_BURY);
    }
}

/* In a batch, too, where the marks are made by the dozen. */
static void the_driver_learns_the_retention_with_each_row_of_a_batch(void **state)
{
    fixture *f = *state;
    semel_message one = text_message("a", "10 EUR"), other = text_message("b", "10 EUR");
    const semel_message *const both[] = {&one, &other};
    semel_outcome outcomes[2];
    noting_store_open(f, 0);
    for (int i = 0; i < RETENTIONS; i++) {
        scripted_handler failing = {.failures = 1, .only = "a"};
        semel_inbox_options options = {.size = sizeof options,
                                       .retention_ms = retentions[i].retention_ms};
        semel_inbox *inbox = fixture_inbox(f, (const char *[]){"a", "b", "c", "d"}[i], &options);
        (void)noting_store_take();
        OK(semel_inbox_receive_batch(outcomes, inbox, both, 2, scripted_handler_run, &failing,
                                     &last_error));
        expect_kept(retentions[i].keep_ms, 1U << VERB_MARK | 1U << VERB_FAIL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_MEMORY("a replay looks before it writes", a_replay_looks_before_it_writes),
        ON_MEMORY("the driver learns the retention with each row",
                  the_driver_learns_the_retention_with_each_row),
        ON_MEMORY("the driver learns the retention with each claim",
                  the_driver_learns_the_retention_with_each_claim),
        ON_MEMORY("the driver learns the retention with each row of a batch",
                  the_driver_learns_the_retention_with_each_row_of_a_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
