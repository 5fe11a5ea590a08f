/* The writer of the history: what it records of events, what it leaves out when there is too much,
 * and that all of it is written when it is closed. */
#include "program/run/history_record.h"
#include "program/run/history_writer.h"
#include "support/base/check.h"

#include <semel/semel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct kit {
    semel_store *store;
    log *log;
    history_writer *writer;
    FILE *said;
    char *text;
    size_t len;
} kit;

static const history_config all_of_it = {
    .enabled = 1, .age_ms = 86400000, .rows = 100000, .body_bytes = 8};

static int setup(void **state)
{
    static kit k;
    const log_config options = {.format = LOG_FORMAT_TEXT, .level = LOG_INFO};
    k = (kit){0};
    k.said = open_memstream(&k.text, &k.len);
    k.log = log_open(&options, k.said);
    OK(semel_store_open(&k.store, "memory:", NULL, &last_error));
    k.writer = history_writer_open(k.log, "process-1");
    history_writer_configure(k.writer, &all_of_it);
    history_writer_use_store(k.writer, k.store);
    *state = &k;
    return 0;
}

static void finish(kit *k)
{
    if (k->writer)
        assert_int_equal(history_writer_close(k->writer), 1);
    k->writer = NULL;
}

static int teardown(void **state)
{
    kit *k = *state;
    finish(k);
    semel_store_close(k->store);
    log_close(k->log);
    (void)fclose(k->said);
    free(k->text);
    return 0;
}

static void observe(kit *k, const char *key, semel_outcome outcome, uint32_t attempt)
{
    const semel_header headers[] = {{"trace", semel_str("abc")}, {"empty", {"", 0}}};
    semel_message message = {.size = sizeof message,
                             .id = semel_str("m"),
                             .type = "paid",
                             .headers = headers,
                             .header_count = 2,
                             .body = semel_str("0123456789"),
                             .delivery = 3};
    semel_event event = {.size = sizeof event,
                         .kind = SEMEL_EVENT_RECEIVED,
                         .name = "orders",
                         .message = &message,
                         .key = semel_str(key),
                         .outcome = outcome,
                         .attempt = attempt,
                         .error = outcome == SEMEL_FAILED ? "it broke" : NULL,
                         .captured = 2};
    history_writer_observe(k->writer, &event);
}

typedef struct counted {
    unsigned rows, kept, failed;
    uint64_t lost;
} counted;

static semel_status count_row(const semel_history *row, void *context, semel_error *err)
{
    counted *c = context;
    (void)err;
    assert_string_equal(row->process, "process-1");
    c->rows += row->kind != SEMEL_HISTORY_GAP;
    c->lost += row->kind == SEMEL_HISTORY_GAP ? row->count : 0;
    c->failed += row->outcome == SEMEL_FAILED;
    if (!row->message)
        return SEMEL_OK;
    c->kept++;
    assert_int_equal(row->body_len, 10);
    assert_int_equal(row->message->body.len, 8);
    assert_memory_equal(row->message->body.data, "01234567", 8);
    assert_int_equal(row->message->header_count, 2);
    assert_memory_equal(row->message->headers[0].value.data, "abc", 3);
    assert_int_equal(row->message->headers[1].value.len, 0);
    assert_int_equal(row->delivery, 3);
    assert_int_equal(row->count, 2);
    return SEMEL_OK;
}

static counted count_rows(kit *k)
{
    semel_history_filter filter = {.size = sizeof filter, .limit = 10000, .contents = 1};
    counted c = {0};
    OK(semel_history_list(k->store, &filter, count_row, &c, &last_error));
    return c;
}

static void the_first_delivery_has_its_message(void **state)
{
    kit *k = *state;
    observe(k, "a", SEMEL_FAILED, 1);
    observe(k, "a", SEMEL_PROCESSED, 2);
    observe(k, "a", SEMEL_DUPLICATE, 0);
    observe(k, "b", SEMEL_PROCESSED, 1);
    finish(k);
    counted c = count_rows(k);
    assert_int_equal(c.rows, 4);
    assert_int_equal(c.kept, 2);
    assert_int_equal(c.failed, 1);
    assert_int_equal(c.lost, 0);
}

static void nothing_is_recorded_when_it_is_off(void **state)
{
    kit *k = *state;
    history_config off = all_of_it;
    off.enabled = 0;
    history_writer_configure(k->writer, &off);
    observe(k, "a", SEMEL_PROCESSED, 1);
    off.enabled = 1;
    off.body_bytes = 0;
    history_writer_configure(k->writer, &off);
    observe(k, "b", SEMEL_PROCESSED, 1);
    finish(k);
    counted c = count_rows(k);
    assert_int_equal(c.rows, 1);
    assert_int_equal(c.kept, 0);
}

/* What does not fit is counted; failures have places of their own. */
static void each_event_is_recorded_or_counted(void **state)
{
    enum { COPIES = 30000, FAILURES = 500 };
    kit *k = *state;
    char key[16];
    for (int i = 0; i < COPIES; i++) {
        (void)snprintf(key, sizeof key, "%d", i);
        observe(k, key, SEMEL_DUPLICATE, 0);
    }
    for (int i = 0; i < FAILURES; i++)
        observe(k, "f", SEMEL_FAILED, 2);
    finish(k);
    counted c = count_rows(k);
    assert_int_equal(c.failed, FAILURES);
    assert_true(c.lost > 0);
    assert_int_equal(c.rows + c.lost, COPIES + FAILURES);
    (void)fflush(k->said);
    const char *said = strstr(k->text, "not all deliveries are recorded");
    assert_non_null(said);
    assert_null(strstr(said + 1, "not all deliveries are recorded"));
}

/* --- keys of what was sent -------------------------------------------------------------------- */

static void expect_key(const char *id, const char *key)
{
    semel_message message = {.size = sizeof message, .id = semel_str(id)};
    semel_event event = {.size = sizeof event, .kind = SEMEL_EVENT_SENT, .message = &message};
    semel_bytes found = history_key(&event);
    assert_int_equal(found.len, strlen(key));
    assert_memory_equal(found.data, key, found.len);
}

static void what_was_sent_has_the_key_it_was_sent_for(void **state)
{
    static const char uuid[] = "0311c08c-a328-8d7c-b746-1afd9a9afb3f";
    (void)state;
    expect_key("0311c08c-a328-8d7c-b746-1afd9a9afb3f-1", uuid);
    expect_key("0311c08c-a328-8d7c-b746-1afd9a9afb3f-answer-12", uuid);
    expect_key(uuid, uuid);
    expect_key("order-7", "order-7");
    expect_key("0311c08cxa328-8d7c-b746-1afd9a9afb3f-1", "0311c08cxa328-8d7c-b746-1afd9a9afb3f-1");
    expect_key("0311C08c-a328-8d7c-b746-1afd9a9afb3f-1", "0311C08c-a328-8d7c-b746-1afd9a9afb3f-1");
}

/* --- the block -------------------------------------------------------------------------------- */

static void expect_inside(const history_record *r, const void *data, const char *text)
{
    const char *at = data;
    assert_true(at >= (const char *)r && at < (const char *)r + r->size);
    assert_string_equal(at, text);
}

/* The message of an event is gone when its record is written: a request has been answered, and its
 * memory is given back. */
static void a_record_points_to_nothing_outside(void **state)
{
    const semel_header headers[] = {{"trace", semel_str("abc")}};
    semel_message message = {.size = sizeof message,
                             .id = semel_str("m"),
                             .source = "/charges",
                             .type = "POST",
                             .topic = "t",
                             .group = "g",
                             .correlation_id = semel_str("c"),
                             .content_type = "text/plain",
                             .headers = headers,
                             .header_count = 1,
                             .body = semel_str("0123456789")};
    semel_event event = {.size = sizeof event,
                         .kind = SEMEL_EVENT_RECEIVED,
                         .name = "orders",
                         .message = &message,
                         .key = semel_str("k"),
                         .attempt = 1};
    history_record *r = history_record_make(&event, 1, 8);
    const semel_message *kept = r->row.message;
    (void)state;
    assert_ptr_equal(kept, &r->message);
    expect_inside(r, kept->id.data, "m");
    expect_inside(r, kept->source, "/charges");
    expect_inside(r, kept->type, "POST");
    expect_inside(r, kept->topic, "t");
    expect_inside(r, kept->group, "g");
    expect_inside(r, kept->correlation_id.data, "c");
    expect_inside(r, kept->content_type, "text/plain");
    expect_inside(r, kept->headers[0].name, "trace");
    expect_inside(r, kept->headers[0].value.data, "abc");
    expect_inside(r, kept->body.data, "01234567");
    expect_inside(r, r->row.name, "orders");
    free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_delivery_has_its_message, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_recorded_when_it_is_off, setup, teardown),
        cmocka_unit_test_setup_teardown(each_event_is_recorded_or_counted, setup, teardown),
        cmocka_unit_test(a_record_points_to_nothing_outside),
        cmocka_unit_test(what_was_sent_has_the_key_it_was_sent_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
