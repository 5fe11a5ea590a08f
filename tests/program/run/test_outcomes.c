/* What the log shows of outcomes: failures of one kind are folded, keys can be hidden, nothing of a
 * message breaks a line. */
#include "program/run/outcomes.h"
#include "program/support/show.h"

#include "support/base/check.h"

#include <stdio.h>
#include <stdlib.h>

enum { MINUTE = 60000 };

typedef struct logged {
    char *text;
    size_t len;
    FILE *file;
    log *log;
    outcomes *outcomes;
    inbox_config inboxes[1];
    config all;
} logged;

static logged *open_logged(log_format format)
{
    logged *l = must_alloc(sizeof *l);
    log_config options = {.level = LOG_INFO, .format = format, .keys = 1};
    l->file = open_memstream(&l->text, &l->len);
    assert_non_null(l->file);
    l->log = log_open(&options, l->file);
    l->outcomes = outcomes_open(l->log);
    l->inboxes[0] = (inbox_config){.name = "invoices", .options = {.attempts_max = 5}};
    l->all = (config){.inboxes = l->inboxes, .inbox_count = 1};
    outcomes_configure(l->outcomes, &l->all);
    return l;
}

static void close_logged(logged *l)
{
    outcomes_close(l->outcomes);
    log_close(l->log);
    (void)fclose(l->file);
    free(l->text);
    free(l);
}

static uint32_t retry_ms = 200; /* of the next failure */

static void observe(logged *l, const char *key, semel_outcome outcome, uint32_t attempt,
                    const char *error)
{
    semel_message message = {
        .size = sizeof message, .id = semel_str("m-1"), .type = "order.placed"};
    static const semel_header trace = {
        "traceparent", {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", 55}};
    message.headers = &trace;
    message.header_count = outcome == SEMEL_FAILED;
    outcomes_observe(l->outcomes,
                     &(semel_event){.size = sizeof(semel_event),
                                    .kind = SEMEL_EVENT_RECEIVED,
                                    .name = "invoices",
                                    .message = &message,
                                    .key = semel_str(key),
                                    .outcome = outcome,
                                    .attempt = attempt,
                                    .handler_ns = attempt ? 2100000 : 0,
                                    .error = error,
                                    .retry_ms = outcome == SEMEL_FAILED ? retry_ms : 0});
}

/* As a consumer reports it: the refusal, then the dead letter. */
static void refuse(logged *l, const char *key, semel_outcome refused)
{
    semel_message message = {.size = sizeof message, .id = semel_str("m-1")};
    semel_event event = {.size = sizeof event,
                         .kind = SEMEL_EVENT_RECEIVED,
                         .name = "invoices",
                         .message = &message,
                         .key = semel_str(key),
                         .outcome = refused};
    outcomes_observe(l->outcomes, &event);
    event.outcome = SEMEL_DEAD;
    event.refused = refused;
    event.error = "refused by the inbox";
    outcomes_observe(l->outcomes, &event);
}

static size_t count_lines(const logged *l)
{
    size_t count = 0;
    for (size_t i = 0; i < l->len; i++)
        count += l->text[i] == '\n';
    return count;
}

static void failures_of_one_kind_are_folded(void **state)
{
    logged *l = open_logged(LOG_FORMAT_TEXT);
    int64_t now = wall_clock_ms();
    (void)state;
    observe(l, "20688", SEMEL_FAILED, 1, "http 422: no tax rate for order 20688");
    observe(l, "20689", SEMEL_FAILED, 1, "http 422: no tax rate for order 20689");
    assert_int_equal(count_lines(l), 1);
    assert_non_null(strstr(
        l->text, "  warning: invoices: 20688 failed, attempt 1 of 5, retry in 0.2 s: http 422: no "
                 "tax rate for order 20688\n"));
    observe(l, "20688", SEMEL_DEAD, 5, "http 422: no tax rate for order 20688");
    observe(l, "20689", SEMEL_DEAD, 5, "http 422: no tax rate for order 20689");
    assert_int_equal(count_lines(l), 2);
    assert_non_null(strstr(
        l->text, "  warning: invoices: 20688 dead after 5 attempts: http 422: no tax rate for "
                 "order 20688; see: semel dead ls --inbox invoices --key 20688\n"));
    outcomes_tick(l->outcomes, now + MINUTE / 2);
    assert_int_equal(count_lines(l), 2);
    outcomes_tick(l->outcomes, now + 2 * MINUTE);
    assert_non_null(strstr(l->text, "invoices: 1 more failed, 1 more dead in the last minute: http "
                                    "422: no tax rate for order <n>\n"));
    assert_non_null(strstr(l->text, "  invoices: no failures since "));
    assert_non_null(strstr(l->text, " (2 failed, 2 dead): http 422"));
    assert_int_equal(count_lines(l), 4);
    outcomes_tick(l->outcomes, now + 4 * MINUTE);
    assert_int_equal(count_lines(l), 4);
    close_logged(l);
}

static void another_kind_is_another_line(void **state)
{
    logged *l = open_logged(LOG_FORMAT_JSON);
    (void)state;
    observe(l, "1", SEMEL_FAILED, 1, "exit 1: a");
    observe(l, "1", SEMEL_FAILED, 2, "exit 2: a");
    assert_int_equal(count_lines(l), 2);
    assert_non_null(strstr(l->text,
                           "\"level\":\"warning\",\"event\":\"failed\",\"msg\":\"exit 1: a\","
                           "\"inbox\":\"invoices\",\"key\":\"1\",\"message_id\":\"m-1\","
                           "\"type\":\"order.placed\","
                           "\"trace_id\":\"4bf92f3577b34da6a3ce929d0e0e4736\","
                           "\"outcome\":\"failed\",\"attempt\":1,\"attempts_max\":5,"
                           "\"retry_in_ms\":200,\"cause\":\""));
    retry_ms = 50;
    observe(l, "1", SEMEL_FAILED, 1, "exit 3: a");
    assert_non_null(strstr(l->text, "\"retry_in_ms\":50,"));
    retry_ms = 200;
    close_logged(l);
}

/* Without bound the table of kinds would be a leak that messages can fill. */
static void many_kinds_do_not_grow_for_ever(void **state)
{
    logged *l = open_logged(LOG_FORMAT_JSON);
    (void)state;
    for (int i = 0; i < 1000; i++) {
        char error[8] = {(char)('a' + i % 26), (char)('a' + i / 26 % 26), (char)('a' + i / 676), 0};
        observe(l, "1", SEMEL_FAILED, 1, error);
    }
    assert_int_equal(count_lines(l), 64);
    close_logged(l);
}

static void a_terminal_shows_ten_in_a_second(void **state)
{
    logged *l = open_logged(LOG_FORMAT_TEXT);
    (void)state;
    for (int i = 0; i < 30; i++)
        observe(l, "1042", i ? SEMEL_DUPLICATE : SEMEL_PROCESSED, i ? 0 : 1, NULL);
    assert_int_equal(count_lines(l), 10);
    assert_non_null(
        strstr(l->text, "  invoices  1042                                  processed  2.1 ms\n"));
    assert_non_null(
        strstr(l->text, "  invoices  1042                                  duplicate\n"));
    outcomes_tick(l->outcomes, wall_clock_ms());
    assert_non_null(strstr(l->text, "... and 20 more this second: 0 processed, 20 duplicates\n"));
    outcome_totals totals = outcomes_totals(l->outcomes);
    assert_int_equal(totals.processed, 1);
    assert_int_equal(totals.duplicates, 29);
    close_logged(l);
}

static void a_pipe_gets_one_summary_in_a_minute(void **state)
{
    logged *l = open_logged(LOG_FORMAT_JSON);
    int64_t now = wall_clock_ms();
    (void)state;
    outcomes_tick(l->outcomes, now);
    for (int i = 0; i < 30; i++)
        observe(l, "1042", i ? SEMEL_DUPLICATE : SEMEL_PROCESSED, i ? 0 : 1, NULL);
    assert_int_equal(count_lines(l), 0);
    outcomes_tick(l->outcomes, now + MINUTE);
    assert_int_equal(count_lines(l), 1);
    assert_non_null(strstr(l->text, "\"processed\":1,\"duplicates\":29,"));
    outcomes_tick(l->outcomes, now + 2 * MINUTE);
    assert_int_equal(count_lines(l), 1); /* nothing happened since */
    close_logged(l);
}

static void keys_can_be_hidden(void **state)
{
    logged *l = open_logged(LOG_FORMAT_JSON);
    log_config options = log_options(l->log);
    (void)state;
    options.keys = 0;
    log_configure(l->log, &options);
    observe(l, "customer@example.com", SEMEL_FAILED, 1, "broken");
    observe(l, "customer@example.com", SEMEL_DEAD, 5, "broken");
    assert_null(strstr(l->text, "customer"));
    assert_non_null(strstr(l->text, "\"key\":\"e233d4a29013\""));
    close_logged(l);
}

/* As commands show it, so that it can be given to them. */
static void a_long_key_is_its_digest(void **state)
{
    logged *l = open_logged(LOG_FORMAT_TEXT);
    char key[257];
    (void)state;
    memset(key, 'a', sizeof key);
    key[256] = 0;
    observe(l, key, SEMEL_FAILED, 1, "broken");
    key[255] = 0;
    observe(l, key, SEMEL_FAILED, 1, "another");
    assert_non_null(strstr(l->text,
                           "invoices: sha256:02d7160d77e18c6447be80c2e355c7ed4388545271702c5"
                           "0253b0914c65ce5fe failed, "));
    assert_non_null(strstr(l->text, key));
    close_logged(l);
}

/* A database quotes values of the message in its errors. */
static void values_in_errors_of_a_database_are_hidden(void **state)
{
    logged *l = open_logged(LOG_FORMAT_TEXT);
    (void)state;
    l->inboxes[0].handler = HANDLER_SQL;
    observe(l, "1", SEMEL_FAILED, 1, "Duplicate entry 'canary' for key 'ledger.order'; 4711 rows");
    assert_null(strstr(l->text, "canary"));
    assert_null(strstr(l->text, "4711"));
    assert_non_null(strstr(l->text, "Duplicate entry <s> for key <s>; <n> rows"));
    close_logged(l);
}

static void a_copy_of_a_dead_letter_is_a_duplicate(void **state)
{
    logged *l = open_logged(LOG_FORMAT_JSON);
    (void)state;
    observe(l, "1", SEMEL_DEAD, 5, "broken");
    observe(l, "1", SEMEL_DEAD, 0, NULL);
    assert_int_equal(count_lines(l), 1);
    assert_int_equal(outcomes_totals(l->outcomes).dead, 1);
    assert_int_equal(outcomes_totals(l->outcomes).duplicates, 1);
    close_logged(l);
}

static void a_refusal_is_one_line_and_one_letter(void **state)
{
    logged *l = open_logged(LOG_FORMAT_TEXT);
    (void)state;
    refuse(l, "1", SEMEL_MISMATCH);
    assert_int_equal(count_lines(l), 1);
    assert_non_null(strstr(l->text, "  warning: invoices: 1 refused (mismatch), kept as a dead "
                                    "letter: refused by the inbox; see: semel dead ls --inbox "
                                    "invoices\n"));
    refuse(l, "2", SEMEL_MISMATCH);
    assert_int_equal(count_lines(l), 1);
    outcomes_flush(l->outcomes);
    assert_int_equal(count_lines(l), 2);
    assert_non_null(strstr(l->text, "invoices: 0 more failed, 1 more dead in the last minute: "));
    assert_int_equal(outcomes_totals(l->outcomes).dead, 2);
    assert_int_equal(outcomes_totals(l->outcomes).refused, 2);
    close_logged(l);
}

/* In words and as a field; the command that is proposed shows it. */
static void a_letter_is_named(void **state)
{
    logged *text = open_logged(LOG_FORMAT_TEXT), *json = open_logged(LOG_FORMAT_JSON);
    semel_message message = {.size = sizeof message, .id = semel_str("m-1")};
    semel_event event = {.size = sizeof event,
                         .kind = SEMEL_EVENT_SENT,
                         .name = "shipping",
                         .message = &message,
                         .outcome = SEMEL_DEAD,
                         .attempt = 2,
                         .error = "the broker refused it each time",
                         .letter = 2101};
    (void)state;
    outcomes_observe(text->outcomes, &event);
    outcomes_observe(json->outcomes, &event);
    assert_non_null(strstr(text->text, "shipping: m-1 dead after 2 attempts, letter 2101: the "
                                       "broker refused it each time; see: semel dead show 2101\n"));
    assert_non_null(strstr(json->text, "\"letter\":2101"));
    close_logged(text);
    close_logged(json);
}

/* As when a dead letter is retried. */
static void an_attempt_beyond_the_last_is_not_one_of_them(void **state)
{
    logged *text = open_logged(LOG_FORMAT_TEXT), *json = open_logged(LOG_FORMAT_JSON);
    (void)state;
    observe(text, "1", SEMEL_FAILED, 6, "broken");
    observe(json, "1", SEMEL_FAILED, 6, "broken");
    assert_non_null(strstr(text->text, "1 failed, attempt 6, retry in "));
    assert_non_null(strstr(json->text, "\"attempt\":6,\"retry_in_ms\""));
    close_logged(text);
    close_logged(json);
}

static void nothing_of_a_message_breaks_a_line(void **state)
{
    logged *text = open_logged(LOG_FORMAT_TEXT), *json = open_logged(LOG_FORMAT_JSON);
    (void)state;
    observe(text, "a\nb\x1b[0m", SEMEL_FAILED, 1, "x\ny\x1b[31m\xff");
    observe(json, "a\nb\x1b[0m", SEMEL_FAILED, 1, "x\ny\x1b[31m\xff");
    assert_int_equal(count_lines(text), 1);
    assert_int_equal(count_lines(json), 1);
    assert_null(strchr(text->text, 0x1b));
    assert_null(strchr(json->text, 0x1b));
    close_logged(text);
    close_logged(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_of_one_kind_are_folded),
        cmocka_unit_test(another_kind_is_another_line),
        cmocka_unit_test(many_kinds_do_not_grow_for_ever),
        cmocka_unit_test(a_terminal_shows_ten_in_a_second),
        cmocka_unit_test(a_pipe_gets_one_summary_in_a_minute),
        cmocka_unit_test(keys_can_be_hidden),
        cmocka_unit_test(a_long_key_is_its_digest),
        cmocka_unit_test(values_in_errors_of_a_database_are_hidden),
        cmocka_unit_test(a_copy_of_a_dead_letter_is_a_duplicate),
        cmocka_unit_test(a_refusal_is_one_line_and_one_letter),
        cmocka_unit_test(a_letter_is_named),
        cmocka_unit_test(an_attempt_beyond_the_last_is_not_one_of_them),
        cmocka_unit_test(nothing_of_a_message_breaks_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
