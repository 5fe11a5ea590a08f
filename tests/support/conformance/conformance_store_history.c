/* The history of deliveries: what was written is listed, the newest first, by each filter and by
 * pages; and it is trimmed by rows and by age. */
#include "support/conformance/conformance_store.h"

#include <semel/operate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AT = 1000 };

static semel_history row_of(const char *name, const char *key, semel_outcome outcome)
{
    return (semel_history){.size = sizeof(semel_history),
                           .at_ms = AT,
                           .kind = SEMEL_HISTORY_RECEIVED,
                           .name = name,
                           .key = semel_str(key),
                           .outcome = outcome,
                           .message_id = semel_str(key)};
}

static void write_rows(store_fixture *f, const semel_history rows[], size_t count)
{
    OK(semel_history_write(f->base.store, rows, count, &last_error));
}

static void write_keys(store_fixture *f, const char *name, const char *keys)
{
    for (; *keys; keys++) {
        char key[2] = {*keys};
        semel_history row = row_of(name, key, SEMEL_PROCESSED);
        write_rows(f, &row, 1);
    }
}

/* The keys that a filter finds. */
typedef struct seen {
    semel_store *store;
    char keys[256];
    int64_t last_id;
    unsigned count;
} seen;

static semel_status see_key(const semel_history *row, void *context, semel_error *err)
{
    seen *s = context;
    int64_t now;
    size_t used = strlen(s->keys);
    (void)snprintf(s->keys + used, sizeof s->keys - used, "%.*s", (int)row->key.len,
                   row->key.len ? (const char *)row->key.data : "");
    s->last_id = row->id;
    s->count++;
    return semel_store_now(&now, s->store, err); /* it may use the store */
}

static int64_t expect_keys(store_fixture *f, semel_history_filter filter, const char *expected)
{
    seen s = {.store = f->base.store};
    filter.size = sizeof filter;
    OK(semel_history_list(f->base.store, &filter, see_key, &s, &last_error));
    assert_string_equal(s.keys, expected);
    return s.last_id;
}

/* --- a row ------------------------------------------------------------------------------------ */

static void expect_text(const char *text, const char *expected)
{
    assert_non_null(text);
    assert_string_equal(text, expected);
}

static void expect_bytes(semel_bytes bytes, const char *expected)
{
    assert_int_equal(bytes.len, strlen(expected));
    assert_memory_equal(bytes.data, expected, bytes.len);
}

static semel_status see_whole(const semel_history *row, void *context, semel_error *err)
{
    const semel_message *m = row->message;
    (void)err;
    ++*(int *)context;
    assert_true(row->id > 0);
    assert_int_equal(row->at_ms, 123456789012);
    assert_int_equal(row->kind, SEMEL_HISTORY_RECEIVED);
    assert_int_equal(row->outcome, SEMEL_DEAD);
    assert_int_equal(row->refused, SEMEL_STALE);
    assert_int_equal(row->attempt, UINT32_MAX);
    assert_int_equal(row->delivery, 4);
    assert_int_equal(row->retry_ms, UINT32_MAX);
    assert_int_equal(row->took_ns, INT64_MAX);
    assert_int_equal(row->letter, 77);
    assert_int_equal(row->count, 5);
    assert_int_equal(row->body_len, 9000);
    assert_true(row->kept && !row->damage);
    expect_text(row->name, "orders");
    expect_text(row->process, "p-1");
    expect_text(row->error, "it is broken");
    expect_text(row->type, "paid");
    expect_text(row->source, "shop");
    expect_bytes(row->key, "k");
    expect_bytes(row->message_id, "m-1");
    expect_text(m->topic, "t");
    expect_text(m->group, "g");
    expect_text(m->content_type, "text/plain");
    expect_bytes(m->id, "m-1");
    expect_bytes(m->correlation_id, "c");
    expect_bytes(m->body, "body");
    assert_int_equal(m->time_ms, 99);
    assert_int_equal(m->header_count, 2);
    expect_text(m->headers[1].name, "b");
    expect_bytes(m->headers[1].value, "2");
    return SEMEL_OK;
}

static semel_status see_brief(const semel_history *row, void *context, semel_error *err)
{
    (void)err;
    ++*(int *)context;
    assert_null(row->message);
    assert_true(row->kept);
    expect_text(row->type, "paid");
    expect_bytes(row->message_id, "m-1");
    return SEMEL_OK;
}

static void a_row_is_listed_as_it_was_written(void **state)
{
    store_fixture *f = *state;
    const semel_header headers[] = {{"a", semel_str("1")}, {"b", semel_str("2")}};
    semel_message message = {.size = sizeof message,
                             .topic = "t",
                             .group = "g",
                             .correlation_id = semel_str("c"),
                             .content_type = "text/plain",
                             .time_ms = 99,
                             .headers = headers,
                             .header_count = 2,
                             .body = semel_str("body")};
    semel_history row = row_of("orders", "k", SEMEL_DEAD);
    semel_history_filter whole = {.size = sizeof whole, .contents = 1};
    int count = 0;
    row.at_ms = 123456789012;
    row.refused = SEMEL_STALE;
    row.attempt = row.retry_ms = UINT32_MAX;
    row.delivery = 4;
    row.took_ns = INT64_MAX;
    row.letter = 77;
    row.count = 5;
    row.body_len = 9000;
    row.process = "p-1";
    row.error = "it is broken";
    row.type = "paid";
    row.source = "shop";
    row.message_id = semel_str("m-1");
    row.message = &message;
    write_rows(f, &row, 1);
    OK(semel_history_list(f->base.store, &whole, see_whole, &count, &last_error));
    OK(semel_history_list(f->base.store, NULL, see_brief, &count, &last_error));
    assert_int_equal(count, 2);
}

static semel_status see_little(const semel_history *row, void *context, semel_error *err)
{
    (void)err;
    ++*(int *)context;
    assert_true(!row->message && !row->kept && !row->damage && !row->type && !row->source);
    assert_true(!row->key.data && !row->message_id.len);
    expect_text(row->name, "");
    expect_text(row->process, "");
    expect_text(row->error, "");
    return SEMEL_OK;
}

static void a_row_needs_little(void **state)
{
    store_fixture *f = *state;
    semel_history gap = {
        .size = sizeof gap, .at_ms = AT, .kind = SEMEL_HISTORY_GAP, .count = UINT32_MAX};
    semel_history_filter whole = {.size = sizeof whole, .contents = 1, .kind = SEMEL_HISTORY_GAP};
    int count = 0;
    write_rows(f, NULL, 0);
    write_rows(f, &gap, 1);
    OK(semel_history_list(f->base.store, &whole, see_little, &count, &last_error));
    assert_int_equal(count, 1);
}

/* --- lists ------------------------------------------------------------------------------------ */

static void rows_are_listed_by_name_and_key(void **state)
{
    store_fixture *f = *state;
    write_keys(f, "orders", "abca");
    write_keys(f, "bills", "xa");
    expect_keys(f, (semel_history_filter){0}, "axacba");
    expect_keys(f, (semel_history_filter){.name = "orders"}, "acba");
    expect_keys(f, (semel_history_filter){.name = "order"}, "");
    expect_keys(f, (semel_history_filter){.key = semel_str("a")}, "aaa");
    expect_keys(f, (semel_history_filter){.name = "orders", .key = semel_str("a")}, "aa");
    expect_keys(f, (semel_history_filter){.name = "orders", .key = semel_str("x")}, "");
}

static void rows_are_listed_by_what_became_of_them(void **state)
{
    store_fixture *f = *state;
    semel_history rows[] = {row_of("in", "a", SEMEL_FAILED), row_of("in", "b", SEMEL_PROCESSED),
                            row_of("in", "c", SEMEL_DUPLICATE), row_of("out", "d", SEMEL_PROCESSED),
                            row_of("in", "e", SEMEL_FAILED)};
    rows[3].kind = SEMEL_HISTORY_SENT;
    rows[1].type = "paid";
    for (int i = 0; i < 5; i++)
        rows[i].at_ms = AT + i;
    write_rows(f, rows, 5);
    expect_keys(f, (semel_history_filter){0}, "edcba");
    expect_keys(f, (semel_history_filter){.outcome = SEMEL_FAILED}, "ea");
    expect_keys(f, (semel_history_filter){.kind = SEMEL_HISTORY_SENT}, "d");
    expect_keys(f, (semel_history_filter){.kind = SEMEL_HISTORY_RECEIVED, .name = "in"}, "ecba");
    expect_keys(f, (semel_history_filter){.type = "paid"}, "b");
    expect_keys(f, (semel_history_filter){.since_ms = AT + 2}, "edc");
    expect_keys(f, (semel_history_filter){.until_ms = AT + 2}, "ba");
    expect_keys(
        f,
        (semel_history_filter){.since_ms = AT + 1, .until_ms = AT + 4, .outcome = SEMEL_PROCESSED},
        "db");
}

static void rows_are_listed_by_pages(void **state)
{
    store_fixture *f = *state;
    write_keys(f, "in", "abc");
    write_keys(f, "other", "x");
    write_keys(f, "in", "de");
    int64_t id = expect_keys(f, (semel_history_filter){.limit = 2, .name = "in"}, "ed");
    id = expect_keys(f, (semel_history_filter){.limit = 2, .name = "in", .before_id = id}, "cb");
    write_keys(f, "in", "f"); /* what is new is on no later page */
    id = expect_keys(f, (semel_history_filter){.limit = 2, .name = "in", .before_id = id}, "a");
    expect_keys(f, (semel_history_filter){.limit = 2, .name = "in", .before_id = id}, "");
    id = expect_keys(f, (semel_history_filter){.limit = 3}, "fed");
    expect_keys(f, (semel_history_filter){.limit = 3, .before_id = id}, "xcb");
    FAILS(SEMEL_ELIMIT,
          semel_history_list(f->base.store,
                             &(semel_history_filter){.size = sizeof(semel_history_filter),
                                                     .limit = SEMEL_PAGE_MAX + 1},
                             see_key, NULL, &last_error));
}

static semel_status refuse_row(const semel_history *row, void *context, semel_error *err)
{
    (void)row;
    ++*(int *)context;
    return semel_fail(err, SEMEL_ELIMIT, "enough");
}

static void a_visitor_ends_the_list(void **state)
{
    store_fixture *f = *state;
    int count = 0;
    write_keys(f, "in", "ab");
    FAILS(SEMEL_ELIMIT, semel_history_list(f->base.store, NULL, refuse_row, &count, &last_error));
    assert_int_equal(count, 1);
}

/* A key that is long, or that looks like one that was, is found by what a marker has. */
static void keys_are_those_of_the_markers(void **state)
{
    store_fixture *f = *state;
    static char key[SEMEL_KEY_MAX + 2];
    semel_inbox *inbox = open_inbox(f, "in", NULL);
    scripted_handler done = {0};
    semel_marker *marker = NULL;
    memset(key, 'k', sizeof key - 1);
    semel_message message = {.size = sizeof message, .id = semel_str(key)};
    semel_history row = row_of("in", key, SEMEL_PROCESSED);
    semel_outcome outcome;
    seen s = {.store = f->base.store};
    OK(semel_inbox_receive(&outcome, inbox, &message, scripted_handler_run, &done, &last_error));
    write_rows(f, &row, 1);
    OK(semel_inbox_look(&marker, inbox, &message, &last_error));
    semel_history_filter filter = {.size = sizeof filter, .key = marker->key};
    OK(semel_history_list(f->base.store, &filter, see_key, &s, &last_error));
    semel_marker_free(marker);
    assert_int_equal(s.count, 1);
}

static void foreign_texts_are_mended(void **state)
{
    store_fixture *f = *state;
    semel_message message = {
        .size = sizeof message, .topic = "\xff", .group = "g\xc3", .body = {"\0\xff", 2}};
    semel_history row = row_of("in", "\x01\xfe", SEMEL_FAILED);
    static char error[SEMEL_AUDIT_TEXT_MAX + 100];
    int count = 0;
    row.type = "t\xff";
    row.source = "\xe2\x82";
    row.process = "\xfe";
    memset(error, 'e', sizeof error - 1);
    row.error = error;
    row.message = &message;
    write_rows(f, &row, 1);
    row.error = "it \xff broke";
    write_rows(f, &row, 1);
    semel_history_filter whole = {.size = sizeof whole, .contents = 1, .key = row.key};
    FAILS(SEMEL_ELIMIT, semel_history_list(f->base.store, &whole, refuse_row, &count, &last_error));
    assert_int_equal(count, 1);
}

static semel_status see_body(const semel_history *row, void *context, semel_error *err)
{
    size_t *len = context;
    (void)err;
    *len = row->message ? row->message->body.len : 0;
    return SEMEL_OK;
}

static void a_body_is_cut_and_a_message_beyond_the_limits_is_left_out(void **state)
{
    store_fixture *f = *state;
    size_t size = SEMEL_HISTORY_BODY_MAX + 10, len = 0;
    char *body = calloc(1, size);
    semel_message message = {.size = sizeof message, .body = {body, size}};
    semel_history row = row_of("in", "a", SEMEL_PROCESSED);
    semel_history_filter whole = {.size = sizeof whole, .contents = 1};
    row.message = &message;
    write_rows(f, &row, 1);
    OK(semel_history_list(f->base.store, &whole, see_body, &len, &last_error));
    assert_int_equal(len, f->quirks->record_max ? 0 : SEMEL_HISTORY_BODY_MAX); /* or left out */
    message.body = (semel_bytes){NULL, 5};
    write_rows(f, &row, 1);
    whole.limit = 1;
    OK(semel_history_list(f->base.store, &whole, see_body, &len, &last_error));
    assert_int_equal(len, 0);
    free(body);
}

static void a_batch_is_written_whole_or_not_at_all(void **state)
{
    enum { ROWS = 1200 };
    store_fixture *f = *state;
    semel_history *rows = calloc(ROWS, sizeof *rows);
    semel_history_filter filter = {.size = sizeof filter, .limit = ROWS + 1};
    seen s = {.store = f->base.store};
    for (int i = 0; i < ROWS; i++)
        rows[i] = row_of("in", "k", SEMEL_DUPLICATE);
    rows[ROWS - 1].kind = (semel_history_kind)9;
    FAILS(SEMEL_EINVAL, semel_history_write(f->base.store, rows, ROWS, &last_error));
    expect_keys(f, (semel_history_filter){0}, "");
    FAILS(SEMEL_ELIMIT,
          semel_history_write(f->base.store, rows, SEMEL_HISTORY_ROWS_MAX + 1, &last_error));
    rows[ROWS - 1].kind = SEMEL_HISTORY_RECEIVED;
    write_rows(f, rows, ROWS);
    OK(semel_history_list(f->base.store, &filter, see_key, &s, &last_error));
    assert_int_equal(s.count, ROWS);
    free(rows);
}

/* --- trimming --------------------------------------------------------------------------------- */

static void expect_trim(store_fixture *f, uint64_t rows, uint64_t older_than_ms, uint32_t limit,
                        size_t removed, int more)
{
    size_t were_removed = 99;
    int are_more = 99;
    OK(semel_history_trim(&were_removed, &are_more, f->base.store, rows, older_than_ms, limit,
                          &last_error));
    assert_int_equal(were_removed, removed);
    assert_int_equal(are_more, more);
}

static void the_oldest_rows_are_removed_in_steps(void **state)
{
    store_fixture *f = *state;
    expect_trim(f, 5, 1, 10, 0, 0);
    write_keys(f, "in", "abcdefgh");
    expect_trim(f, 8, 0, 10, 0, 0);
    expect_trim(f, 0, 0, 10, 0, 0);
    expect_trim(f, 3, 0, 2, 2, 1);
    expect_keys(f, (semel_history_filter){0}, "hgfedc");
    expect_trim(f, 3, 0, 10, 3, 0);
    expect_keys(f, (semel_history_filter){.name = "in"}, "hgf");
    expect_trim(f, UINT64_MAX, 0, 10, 0, 0);
    OK(semel_history_trim(NULL, NULL, f->base.store, 1, 0, 0, &last_error));
    expect_keys(f, (semel_history_filter){0}, "h");
}

static void old_rows_are_removed(void **state)
{
    store_fixture *f = *state;
    int64_t now = now_of(f);
    semel_history rows[] = {row_of("in", "a", SEMEL_PROCESSED), row_of("in", "b", SEMEL_PROCESSED),
                            row_of("in", "c", SEMEL_PROCESSED), row_of("in", "d", SEMEL_PROCESSED)};
    rows[0].at_ms = rows[2].at_ms = now - 7200000;
    rows[1].at_ms = rows[3].at_ms = now;
    write_rows(f, rows, 4);
    expect_trim(f, 0, 86400000, 10, 0, 0);
    expect_trim(f, 0, 3600000, 1, 1, 1);
    expect_trim(f, 0, 3600000, 10, 1, 0); /* also behind one that is young */
    expect_keys(f, (semel_history_filter){0}, "db");
    expect_trim(f, 1, 3600000, 10, 1, 0);
    expect_keys(f, (semel_history_filter){0}, "d");
}

static void its_size_is_known(void **state)
{
    store_fixture *f = *state;
    uint64_t rows = 99;
    int64_t oldest = 99;
    OK(semel_history_size(&rows, &oldest, f->base.store, &last_error));
    assert_true(rows == 0 && oldest == 0);
    write_keys(f, "in", "abcd");
    OK(semel_history_trim(NULL, NULL, f->base.store, 3, 0, 0, &last_error));
    OK(semel_history_size(&rows, &oldest, f->base.store, &last_error));
    assert_int_equal(rows, 3);
    assert_int_equal(oldest, AT);
}

static void it_is_there_after_a_restart(void **state)
{
    store_fixture *f = *state;
    write_keys(f, "in", "ab");
    OK(semel_history_trim(NULL, NULL, f->base.store, 1, 0, 0, &last_error));
    reopen(f);
    write_keys(f, "in", "c");
    expect_keys(f, (semel_history_filter){0}, "cb");
}

const store_test store_history_tests[] = {
    STORE_TEST_WITH(a_row_is_listed_as_it_was_written, IN_ANY_MODE),
    STORE_TEST_WITH(a_row_needs_little, IN_ANY_MODE),
    STORE_TEST_WITH(rows_are_listed_by_name_and_key, IN_ANY_MODE),
    STORE_TEST_WITH(rows_are_listed_by_what_became_of_them, IN_ANY_MODE),
    STORE_TEST_WITH(rows_are_listed_by_pages, IN_ANY_MODE),
    STORE_TEST_WITH(a_visitor_ends_the_list, IN_ANY_MODE),
    STORE_TEST_WITH(keys_are_those_of_the_markers, IN_ANY_MODE | NEEDS_LISTS),
    STORE_TEST_WITH(foreign_texts_are_mended, IN_ANY_MODE),
    STORE_TEST_WITH(a_body_is_cut_and_a_message_beyond_the_limits_is_left_out, IN_ANY_MODE),
    STORE_TEST_WITH(a_batch_is_written_whole_or_not_at_all, IN_ANY_MODE),
    STORE_TEST_WITH(the_oldest_rows_are_removed_in_steps, IN_ANY_MODE),
    STORE_TEST_WITH(old_rows_are_removed, IN_ANY_MODE),
    STORE_TEST_WITH(its_size_is_known, IN_ANY_MODE),
    STORE_TEST_WITH(it_is_there_after_a_restart, IN_ANY_MODE | NEEDS_KEEPS),
    {NULL, NULL, 0}};
