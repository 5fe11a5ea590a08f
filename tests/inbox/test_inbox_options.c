/* Everything that is wrong before a message comes: names, options of any size, choices that do not
 * exist; that no call needs an error to write to; and the names of statuses, outcomes and
 * grades. */
#include "support/fixture/fixture.h"

#include <stdio.h>

/* --- names ------------------------------------------------------------------------------------ */

static void a_bad_name_is_refused_with_the_position(void **state)
{
    static const struct {
        const char *name;
        int position;
    } cases[] = {{" ", 1},           {"orders ", 7}, {"a/b", 2},       {"a\"; DROP TABLE x", 2},
                 {"caf\xc3\xa9", 4}, {"a+b", 2},     {"new\nline", 4}, {"\xff", 1}};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        semel_inbox *inbox = NULL;
        semel_outbox *outbox = NULL;
        char position[40];
        (void)snprintf(position, sizeof position, "character %d ", cases[i].position);
        FAILS(SEMEL_EINVAL, semel_inbox_open(&inbox, f->store, cases[i].name, NULL, &last_error));
        SAYS(position);
        SAYS("inbox");
        FAILS(SEMEL_EINVAL, semel_outbox_open(&outbox, f->store, cases[i].name, &last_error));
        SAYS(position);
        SAYS("outbox");
        assert_null(inbox);
        assert_null(outbox);
    }
}

static void a_name_has_1_to_255_characters(void **state)
{
    fixture *f = *state;
    char name[SEMEL_NAME_MAX + 2] = "";
    semel_inbox *inbox = NULL;
    semel_outbox *outbox = NULL;
    FAILS(SEMEL_EINVAL, semel_inbox_open(&inbox, f->store, "", NULL, &last_error));
    FAILS(SEMEL_EINVAL, semel_inbox_open(&inbox, f->store, NULL, NULL, &last_error));
    FAILS(SEMEL_EINVAL, semel_outbox_open(&outbox, f->store, NULL, &last_error));
    memset(name, 'n', SEMEL_NAME_MAX + 1);
    FAILS(SEMEL_EINVAL, semel_inbox_open(&inbox, f->store, name, NULL, &last_error));
    SAYS("1 to 255 characters");
    name[SEMEL_NAME_MAX] = 0;
    fixture_inbox(f, name, NULL);
    fixture_outbox(f, name);
    fixture_inbox(f, "Azaz09._-", NULL);
}

/* --- options ---------------------------------------------------------------------------------- */

static void options_need_their_size(void **state)
{
    fixture *f = *state;
    semel_inbox_options inbox_options = {.key = "id"};
    semel_relay_options relay_options = {.batch = 1};
    semel_consumer_options consumer_options = {.batch = 1};
    semel_store_options store_options = {.busy_ms = 1};
    semel_transport_options transport_options = {.seam = NULL};
    semel_dead_filter filter = {.limit = 1};
    semel_inbox *inbox = NULL, *good = fixture_inbox(f, "good", NULL);
    semel_relay *relay = NULL;
    semel_consumer *consumer = NULL;
    semel_store *store = NULL;
    semel_transport *transport = NULL, *queue = fixture_queue(f, "memory:");
    semel_route route = {"*", good, scripted_handler_run, NULL};
    FAILS(SEMEL_EINVAL, semel_inbox_open(&inbox, f->store, "x", &inbox_options, &last_error));
    SAYS("semel_inbox_options.size");
    FAILS(SEMEL_EINVAL,
          semel_relay_open(&relay, fixture_outbox(f, "out"), queue, &relay_options, &last_error));
    SAYS("semel_relay_options.size");
    FAILS(SEMEL_EINVAL,
          semel_consumer_open(&consumer, queue, &route, 1, &consumer_options, &last_error));
    SAYS("semel_consumer_options.size");
    FAILS(SEMEL_EINVAL, semel_store_open(&store, "memory:", &store_options, &last_error));
    SAYS("semel_store_options.size");
    FAILS(SEMEL_EINVAL,
          semel_transport_open(&transport, "memory:", &transport_options, &last_error));
    SAYS("semel_transport_options.size");
    FAILS(SEMEL_EINVAL, semel_dead_list(f->store, &filter, NULL, NULL, &last_error));
    SAYS("semel_dead_filter.size");
}

static void options_of_a_newer_library_are_refused(void **state)
{
    fixture *f = *state;
    struct {
        semel_inbox_options options;
        uint64_t new_member;
    } newer = {.options = {.size = sizeof newer}};
    semel_inbox *inbox = NULL;
    FAILS(SEMEL_EINVAL, semel_inbox_open(&inbox, f->store, "x", &newer.options, &last_error));
    SAYS("newer");
}

static void options_of_an_older_library_mean_the_defaults(void **state)
{
    semel_inbox_options older = {.size = offsetof(semel_inbox_options, key_function),
                                 .key = "type",
                                 .mode = (semel_mode)99}; /* not there, for all we may know */
    semel_inbox *inbox = fixture_inbox(*state, "older", &older);
    semel_message one = text_message("1", "a"), two = text_message("2", "a");
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &one, &(scripted_handler){0});
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &two,
             &(scripted_handler){0}); /* the key is the type */
}

static void a_choice_that_does_not_exist_is_refused_by_name(void **state)
{
    static const struct {
        size_t offset;
        int last; /* the last choice that exists */
        const char *name;
    } choices[] = {
        {offsetof(semel_inbox_options, mode), SEMEL_QUEUED, ".mode"},
        {offsetof(semel_inbox_options, on_duplicate), SEMEL_DUPLICATE_REJECT, ".on_duplicate"},
        {offsetof(semel_inbox_options, on_in_flight), SEMEL_IN_FLIGHT_REPORT, ".on_in_flight"},
        {offsetof(semel_inbox_options, on_missing_key), SEMEL_MISSING_KEY_DIGEST,
         ".on_missing_key"},
        {offsetof(semel_inbox_options, on_mismatch), SEMEL_MISMATCH_IGNORE, ".on_mismatch"},
        {offsetof(semel_inbox_options, on_stale), SEMEL_STALE_PROCESS, ".on_stale"},
        {offsetof(semel_inbox_options, age), SEMEL_AGE_IGNORE, ".age"}};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        for (int add = 0; add < 3; add++) {
            int value = add == 2 ? -1 : choices[i].last + add;
            semel_inbox_options options = {.size = sizeof options};
            semel_inbox *inbox = NULL;
            memcpy((char *)&options + choices[i].offset, &value, sizeof value);
            semel_status status = semel_inbox_open(&inbox, f->store, "x", &options, &last_error);
            if (!add && choices[i].offset == offsetof(semel_inbox_options, mode))
                assert_int_equal(status, SEMEL_EUNSUPPORTED); /* it exists, but memory has no SQL */
            else
                assert_int_equal(status, add ? SEMEL_EINVAL : SEMEL_OK);
            if (add)
                SAYS(choices[i].name);
            semel_inbox_close(inbox);
        }
}

static void other_choices_and_limits_are_checked_too(void **state)
{
    fixture *f = *state;
    semel_relay_options relay_options = {.size = sizeof relay_options,
                                         .preset = (semel_relay_preset)3};
    semel_consumer_options consumer_options = {.size = sizeof consumer_options,
                                               .batch = SEMEL_BATCH_MAX + 1};
    semel_transport *queue = fixture_queue(f, "memory:");
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_route route = {"*", fixture_inbox(f, "inbox", NULL), scripted_handler_run, NULL};
    semel_relay *relay = NULL;
    semel_consumer *consumer = NULL;
    FAILS(SEMEL_EINVAL, semel_relay_open(&relay, outbox, queue, &relay_options, &last_error));
    SAYS("preset");
    relay_options =
        (semel_relay_options){.size = sizeof relay_options, .batch = SEMEL_BATCH_MAX + 1};
    FAILS(SEMEL_ELIMIT, semel_relay_open(&relay, outbox, queue, &relay_options, &last_error));
    FAILS(SEMEL_ELIMIT,
          semel_consumer_open(&consumer, queue, &route, 1, &consumer_options, &last_error));
    consumer_options.batch = 1;
    consumer_options.on_unrouted = (semel_on_unrouted)2;
    FAILS(SEMEL_EINVAL,
          semel_consumer_open(&consumer, queue, &route, 1, &consumer_options, &last_error));
    SAYS("on_unrouted");
}

/* --- the error parameter may be NULL ---------------------------------------------------------- */

static void opening_and_receiving_need_no_error(fixture *f, semel_inbox *inbox)
{
    semel_message good = text_message("1", "a"), bad = {.size = 0};
    const semel_message *const both[] = {&good, &bad};
    semel_inbox_options wrong = {.size = sizeof wrong, .key = "nonsense"};
    semel_store *no_store = NULL;
    semel_inbox *no_inbox = NULL;
    semel_outbox *no_outbox = NULL;
    semel_outcome out[2];
    scripted_handler failing = {.failures = 1};
    assert_int_equal(semel_store_open(&no_store, "nosuch:", NULL, NULL), SEMEL_EINVAL);
    assert_int_equal(semel_inbox_open(&no_inbox, f->store, "x", &wrong, NULL), SEMEL_EINVAL);
    assert_int_equal(semel_outbox_open(&no_outbox, f->store, "x y", NULL), SEMEL_EINVAL);
    assert_int_equal(semel_inbox_receive(out, inbox, &bad, scripted_handler_run, NULL, NULL),
                     SEMEL_EINVAL);
    assert_int_equal(semel_inbox_receive(out, inbox, &good, scripted_handler_run, &failing, NULL),
                     SEMEL_EHANDLER);
    assert_int_equal(
        semel_inbox_receive_batch(out, inbox, both, 2, scripted_handler_run, &failing, NULL),
        SEMEL_EINVAL);
    failing.failures = 1;
    assert_int_equal(
        semel_inbox_receive_batch(out, inbox, both, 1, scripted_handler_run, &failing, NULL),
        SEMEL_OK);
    OUTCOME(SEMEL_FAILED, out[0]);
    assert_int_equal(semel_inbox_receive_batch(out, inbox, both, SEMEL_BATCH_MAX + 1,
                                               scripted_handler_run, &failing, NULL),
                     SEMEL_ELIMIT);
}

static void steps_and_tools_need_no_error(fixture *f, semel_inbox *inbox, semel_outbox *outbox)
{
    semel_message keyless = text_message("", "a"), unknown = text_message("unknown", "a");
    semel_message bad = {.size = 0};
    semel_unit *unit = NULL;
    semel_outcome outcome;
    size_t len;
    assert_int_equal(semel_unit_begin(&unit, f->store, NULL), SEMEL_OK);
    assert_int_equal(semel_unit_set_result(unit, "", 0, NULL), SEMEL_EMISUSE);
    assert_int_equal(semel_unit_renew(unit, 0, NULL), SEMEL_EMISUSE);
    assert_int_equal(semel_unit_send(unit, outbox, &bad, NULL), SEMEL_EINVAL);
    assert_int_equal(semel_unit_claim(&outcome, unit, inbox, &keyless, NULL), SEMEL_EREJECTED);
    assert_int_equal(semel_unit_commit(unit, NULL), SEMEL_EMISUSE);
    assert_int_equal(semel_inbox_forget(inbox, &unknown, NULL), SEMEL_ENOTFOUND);
    assert_int_equal(semel_inbox_key(NULL, 0, &len, inbox, &keyless, NULL), SEMEL_ENOTFOUND);
    assert_int_equal(semel_inbox_replay(&outcome, inbox, 99, scripted_handler_run, NULL, NULL),
                     SEMEL_ENOTFOUND);
    assert_int_equal(semel_outbox_replay(outbox, 99, NULL), SEMEL_ENOTFOUND);
    assert_int_equal(semel_dead_discard(f->store, 99, SEMEL_DISCARD_KEEP_DEAD, NULL),
                     SEMEL_ENOTFOUND);
    assert_int_equal(semel_outbox_send(outbox, &bad, NULL), SEMEL_EINVAL);
}

static void relays_and_consumers_need_no_error(fixture *f, semel_inbox *inbox, semel_outbox *outbox)
{
    semel_transport *recorder = fixture_recorder(f), *queue = fixture_queue(f, "memory:");
    semel_relay *relay = fixture_relay(f, outbox, recorder, NULL);
    semel_route route = {"*", inbox, scripted_handler_run, NULL};
    semel_consumer *consumer = NULL;
    semel_message message = text_message("1", "a");
    semel_outcome outcome;
    size_t count;
    assert_int_equal(semel_outbox_send(outbox, &message, NULL), SEMEL_OK);
    semel_test_recorder_answer(recorder, NULL, SEMEL_PUBLISH_UNKNOWN, 1);
    assert_int_equal(semel_relay_step(&count, relay, 0, NULL), SEMEL_EUNAVAILABLE);
    assert_int_equal(semel_consumer_open(&consumer, queue, &route, 0, NULL, NULL), SEMEL_EINVAL);
    consumer = fixture_consumer(f, queue, &route, 1, NULL);
    assert_int_equal(semel_consumer_step(&count, consumer, 0, NULL), SEMEL_OK);
    assert_int_equal(semel_consumer_replay(&outcome, consumer, 99, NULL), SEMEL_ENOTFOUND);
}

static void no_call_needs_an_error_to_write_to(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_outbox *outbox = fixture_outbox(f, "out");
    opening_and_receiving_need_no_error(f, inbox);
    steps_and_tools_need_no_error(f, inbox, outbox);
    relays_and_consumers_need_no_error(f, inbox, outbox);
}

static void closing_nothing_is_allowed(void **state)
{
    (void)state;
    semel_store_close(NULL);
    semel_inbox_close(NULL);
    semel_outbox_close(NULL);
    semel_relay_close(NULL);
    semel_consumer_close(NULL);
    semel_transport_close(NULL);
    semel_unit_rollback(NULL);
    semel_result_free(NULL);
    semel_message_free(NULL);
    semel_text_free(NULL);
    semel_test_seam_close(NULL);
    assert_null(semel_result_bytes(NULL).data);
}

/* --- names of numbers ------------------------------------------------------------------------- */

#define NAME(status) assert_string_equal(semel_status_name(status), #status)

static void every_status_has_its_name(void **state)
{
    (void)state;
    NAME(SEMEL_OK);
    NAME(SEMEL_EINVAL);
    NAME(SEMEL_EMISUSE);
    NAME(SEMEL_EUNSUPPORTED);
    NAME(SEMEL_ENOTFOUND);
    NAME(SEMEL_ELIMIT);
    NAME(SEMEL_ESCHEMA);
    NAME(SEMEL_EBUSY);
    NAME(SEMEL_ECONFLICT);
    NAME(SEMEL_EUNAVAILABLE);
    NAME(SEMEL_ENOMEM);
    NAME(SEMEL_ESTORE);
    NAME(SEMEL_ETRANSPORT);
    NAME(SEMEL_EUNKNOWN);
    NAME(SEMEL_ELOST);
    NAME(SEMEL_EREJECTED);
    NAME(SEMEL_EHANDLER);
    NAME(SEMEL_EGIVEUP);
    assert_string_equal(semel_status_name((semel_status)17), "SEMEL_E?");
    assert_string_equal(semel_status_name((semel_status)99), "SEMEL_E?");
    assert_string_equal(semel_status_name((semel_status)-1), "SEMEL_E?");
}

static void every_outcome_has_its_name_and_its_settlement(void **state)
{
    static const struct {
        semel_outcome outcome;
        const char *name;
        int settled;
    } all[] = {{SEMEL_UNDECIDED, "undecided", 0},
               {SEMEL_CLAIMED, "claimed", 0},
               {SEMEL_PROCESSED, "processed", 1},
               {SEMEL_DUPLICATE, "duplicate", 1},
               {SEMEL_REPLAYED, "replayed", 1},
               {SEMEL_IN_PROGRESS, "in progress", 0},
               {SEMEL_MISMATCH, "mismatch", 0},
               {SEMEL_STALE, "stale", 0},
               {SEMEL_MISSING_KEY, "missing key", 0},
               {SEMEL_FAILED, "failed", 0},
               {SEMEL_DEAD, "dead", 1},
               {(semel_outcome)11, "unknown", 0},
               {(semel_outcome)-1, "unknown", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_string_equal(semel_outcome_name(all[i].outcome), all[i].name);
        assert_int_equal(semel_outcome_settled(all[i].outcome), all[i].settled);
    }
}

/* --- grades and counters ---------------------------------------------------------------------- */

static void the_grade_is_what_store_transport_and_mode_allow_together(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    semel_transport *queue = fixture_queue(f, "memory:");
    fixture_both_modes(inboxes, f, (semel_inbox_options){0});
    semel_grade transaction =
        f->place.has_sql ? SEMEL_GRADE_EXACTLY_ONCE_EFFECTS : SEMEL_GRADE_AT_LEAST_ONCE;
    semel_grade claim = f->place.has_sql ? SEMEL_GRADE_EFFECTIVELY_ONCE : SEMEL_GRADE_AT_LEAST_ONCE;
    assert_int_equal(semel_inbox_grade(inboxes[0], NULL), transaction);
    assert_int_equal(semel_inbox_grade(inboxes[0], queue), transaction);
    assert_int_equal(semel_inbox_grade(inboxes[1], NULL), claim);
    assert_int_equal(semel_inbox_grade(inboxes[1], queue), claim);
}

static void a_commit_that_power_loss_may_undo_has_a_lower_grade(void **state)
{
    fixture *f = *state;
    semel_store *store = NULL;
    semel_inbox *inbox = NULL;
    char url[SERVER_URL_ROOM + 32];
    (void)snprintf(url, sizeof url, "%s?synchronous=normal", f->place.url);
    OK(semel_store_open(&store, url, NULL, &last_error));
    OK(semel_inbox_open(&inbox, store, "inbox", NULL, &last_error));
    assert_int_equal(semel_inbox_grade(inbox, NULL), SEMEL_GRADE_EXCEPT_POWER_LOSS);
    assert_int_equal(
        semel_inbox_grade(inbox, fixture_queue(f, "memory:")), /* loses as much itself */
        SEMEL_GRADE_EXACTLY_ONCE_EFFECTS);
    semel_inbox_close(inbox);
    semel_store_close(store);
}

static void every_grade_has_its_name(void **state)
{
    (void)state;
    assert_string_equal(semel_grade_name(SEMEL_GRADE_AT_LEAST_ONCE), "at-least-once");
    assert_string_equal(semel_grade_name(SEMEL_GRADE_EFFECTIVELY_ONCE), "effectively once");
    assert_string_equal(semel_grade_name(SEMEL_GRADE_EXCEPT_POWER_LOSS),
                        "exactly-once effects except power loss");
    assert_string_equal(semel_grade_name(SEMEL_GRADE_EXACTLY_ONCE_EFFECTS), "exactly-once effects");
    assert_string_equal(semel_grade_name((semel_grade)0), "unknown");
    assert_string_equal(semel_grade_name((semel_grade)5), "unknown");
}

static void counters_are_written_as_far_as_the_caller_knows_them(void **state)
{
    fixture *f = *state;
    semel_counters counters;
    memset(&counters, 0x5a, sizeof counters);
    uint64_t untouched = counters.replayed;
    OK(semel_store_counters(&counters, offsetof(semel_counters, replayed), f->store, &last_error));
    assert_int_equal(counters.processed, 0);
    assert_true(counters.replayed == untouched);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("a bad name is refused with the position", a_bad_name_is_refused_with_the_position),
        ON_BOTH("a name has 1 to 255 characters", a_name_has_1_to_255_characters),
        ON_MEMORY("options need their size", options_need_their_size),
        ON_MEMORY("options of a newer library are refused", options_of_a_newer_library_are_refused),
        ON_MEMORY("options of an older library mean the defaults",
                  options_of_an_older_library_mean_the_defaults),
        ON_MEMORY("a choice that does not exist is refused by name",
                  a_choice_that_does_not_exist_is_refused_by_name),
        ON_MEMORY("other choices and limits are checked, too",
                  other_choices_and_limits_are_checked_too),
        ON_BOTH("no call needs an error to write to", no_call_needs_an_error_to_write_to),
        {"closing nothing is allowed", closing_nothing_is_allowed, NULL, NULL, NULL},
        {"every status has its name", every_status_has_its_name, NULL, NULL, NULL},
        {"every outcome has its name and its settlement",
         every_outcome_has_its_name_and_its_settlement, NULL, NULL, NULL},
        ON_BOTH("the grade is what store, transport and mode allow together",
                the_grade_is_what_store_transport_and_mode_allow_together),
        ON_SQLITE("a commit that power loss may undo has a lower grade",
                  a_commit_that_power_loss_may_undo_has_a_lower_grade),
        {"every grade has its name", every_grade_has_its_name, NULL, NULL, NULL},
        ON_BOTH("counters are written as far as the caller knows them",
                counters_are_written_as_far_as_the_caller_knows_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
