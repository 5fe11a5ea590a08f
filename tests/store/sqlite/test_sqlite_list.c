/* Lists and looks on SQLite, with what only its file can show: damaged rows, a transaction of the
 * caller's, a writer that has the file. */
#include "support/fixture/sqlite_case.h"

#include <semel/operate.h>
#include <stdio.h>
#include <string.h>

/* --- damage (P22) ----------------------------------------------------------------------------- */

typedef struct inspection {
    unsigned rows, damaged;
    char ids[32];
} inspection;

static semel_status inspect(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    inspection *seen = context;
    size_t used = strlen(seen->ids);
    (void)err;
    seen->rows++;
    seen->damaged += !outgoing->message && strstr(outgoing->error, "damaged");
    if (outgoing->message)
        (void)snprintf(seen->ids + used, sizeof seen->ids - used, "%.*s ",
                       (int)outgoing->message->id.len, (const char *)outgoing->message->id.data);
    return SEMEL_OK;
}

static void a_damaged_row_is_shown_and_hides_no_other(void **state)
{
    sqlite_case *c = *state;
    semel_outgoing_filter whole = {.size = sizeof whole, .contents = 1};
    inspection seen = {0};
    for (char id[] = "a"; id[0] <= 'c'; id[0]++) {
        semel_message message = text_message(id, "paid");
        OK(semel_outbox_send(c->outbox, &message, &last_error));
    }
    SQL(lite_other(c), "UPDATE semel_outbox SET headers = x'ffffffff00' WHERE id = x'62'");
    OK(semel_outbox_list(c->outbox, &whole, inspect, &seen, &last_error));
    assert_int_equal(seen.rows, 3);
    assert_int_equal(seen.damaged, 1);
    assert_string_equal(seen.ids, "a c ");
    seen = (inspection){0};
    OK(semel_outbox_list(c->outbox, NULL, inspect, &seen, &last_error));
    assert_string_equal(seen.ids, "a b c "); /* what is damaged was not asked for */
}

static semel_status inspect_history(const semel_history *row, void *context, semel_error *err)
{
    inspection *seen = context;
    size_t used = strlen(seen->ids);
    (void)err;
    seen->rows++;
    seen->damaged += !row->message && row->damage && strstr(row->damage, "damaged");
    (void)snprintf(seen->ids + used, sizeof seen->ids - used, "%.*s ", (int)row->message_id.len,
                   (const char *)row->message_id.data);
    return SEMEL_OK;
}

static void a_damaged_row_of_the_history_hides_no_other(void **state)
{
    sqlite_case *c = *state;
    semel_history_filter whole = {.size = sizeof whole, .contents = 1};
    inspection seen = {0};
    for (char id[] = "a"; id[0] <= 'c'; id[0]++) {
        semel_message message = text_message(id, "paid");
        semel_history row = {.size = sizeof row,
                             .kind = SEMEL_HISTORY_RECEIVED,
                             .message_id = semel_str(id),
                             .message = &message};
        OK(semel_history_write(c->base.store, &row, 1, &last_error));
    }
    SQL(lite_other(c), "UPDATE semel_history SET headers = x'ffffffff00', outcome = 99, "
                       "error = x'ff00', at_ms = 'never' WHERE message_id = x'62'");
    OK(semel_history_list(c->base.store, &whole, inspect_history, &seen, &last_error));
    assert_int_equal(seen.rows, 3);
    assert_int_equal(seen.damaged, 1);
    assert_string_equal(seen.ids, "c b a ");
}

static semel_status count_keys(const semel_marker *marker, void *context, semel_error *err)
{
    (void)marker;
    (void)err;
    ++*(unsigned *)context;
    return SEMEL_OK;
}

static void a_damaged_marker_hides_no_other(void **state)
{
    sqlite_case *c = *state;
    scripted_handler done = {0};
    unsigned count = 0;
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "a", &done);
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "b", &done);
    SQL(lite_other(c), "UPDATE semel_marker SET state = 'x', type = 99, error = x'ff00', "
                       "at_ms = 'never' WHERE key = x'61'");
    OK(semel_inbox_list(c->inbox, NULL, count_keys, &count, &last_error));
    assert_int_equal(count, 2);
}

/* --- in a transaction of the caller's --------------------------------------------------------- */

static semel_outcome join_and_claim(semel_unit **unit, sqlite_case *c, semel_inbox *inbox,
                                    const semel_message *message)
{
    semel_outcome outcome = SEMEL_UNDECIDED;
    SQL(lite_other(c), "BEGIN IMMEDIATE");
    OK(semel_unit_join_sqlite(unit, c->base.store, lite_other(c), &last_error));
    OK(semel_unit_claim(&outcome, *unit, inbox, message, &last_error));
    return outcome;
}

static void a_joined_unit_gives_the_stored_result(void **state)
{
    sqlite_case *c = *state;
    semel_inbox_options options = {.size = sizeof options, .on_duplicate = SEMEL_DUPLICATE_REPLAY};
    semel_inbox *inbox = NULL;
    semel_unit *unit = NULL;
    semel_message message = text_message("m-1", "10 EUR");
    OK(semel_inbox_open(&inbox, c->base.store, "joined", &options, &last_error));
    OUTCOME(SEMEL_CLAIMED, join_and_claim(&unit, c, inbox, &message));
    OK(semel_unit_set_result(unit, "receipt", 7, &last_error));
    OK(semel_unit_commit(unit, &last_error));
    SQL(lite_other(c), "COMMIT");
    OUTCOME(SEMEL_REPLAYED, join_and_claim(&unit, c, inbox, &message));
    BYTES_EQUAL(semel_str("receipt"), semel_unit_result(unit));
    semel_unit_rollback(unit);
    assert_null(semel_unit_result(unit).data);
    SQL(lite_other(c), "COMMIT");
    semel_inbox_close(inbox);
}

/* A new name would need a second transaction, which the caller's keeps out. */
static void a_joined_unit_keeps_only_known_names(void **state)
{
    sqlite_case *c = *state;
    semel_inbox_options options = {.size = sizeof options, .keep_details = 1};
    semel_inbox *inbox = NULL;
    semel_unit *unit = NULL;
    semel_marker *found = NULL;
    scripted_handler done = {0};
    semel_message first = text_message("m-1", "10 EUR"), second = text_message("m-2", "10 EUR");
    first.type = second.type = "order.paid";
    second.source = "unheard";
    OK(semel_inbox_open(&inbox, c->base.store, "joined", &options, &last_error));
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &first, &done);
    OUTCOME(SEMEL_CLAIMED, join_and_claim(&unit, c, inbox, &second));
    OK(semel_unit_commit(unit, &last_error));
    SQL(lite_other(c), "COMMIT");
    OK(semel_inbox_look(&found, inbox, &second, &last_error));
    assert_string_equal(found->type, "order.paid");
    assert_null(found->source);
    assert_true(found->received_ms > 0);
    semel_marker_free(found);
    semel_inbox_close(inbox);
}

/* --- while another has the file --------------------------------------------------------------- */

static void a_look_does_not_wait_for_a_writer(void **state)
{
    sqlite_case *c = *state;
    scripted_handler done = {0};
    semel_marker *found = NULL;
    semel_message message = text_message("m-1", "paid");
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-1", &done);
    SQL(lite_other(c), "BEGIN IMMEDIATE; DELETE FROM semel_marker");
    OK(semel_inbox_look(&found, c->inbox, &message, &last_error));
    assert_int_equal(found->state, SEMEL_MARKER_DONE);
    semel_marker_free(found);
    SQL(lite_other(c), "ROLLBACK");
}

int main(void)
{
#define ON_STORE(test) cmocka_unit_test_setup_teardown(test, lite_setup, lite_teardown)
    const struct CMUnitTest tests[] = {
        ON_STORE(a_damaged_row_is_shown_and_hides_no_other),
        ON_STORE(a_damaged_marker_hides_no_other),
        ON_STORE(a_damaged_row_of_the_history_hides_no_other),
        ON_STORE(a_joined_unit_gives_the_stored_result),
        ON_STORE(a_joined_unit_keeps_only_known_names),
        ON_STORE(a_look_does_not_wait_for_a_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
