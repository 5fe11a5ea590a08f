/* Messages: checked against the limits, copied as one block, headers as a blob and back. */
#include "base/message.h"

#include <setjmp.h> /* cmocka.h wants these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const semel_header two_headers[] = {{"Trace", {"a\0b", 3}}, {"empty", {NULL, 0}}};

static semel_message full_message(void)
{
    return (semel_message){.size = sizeof(semel_message),
                           .id = {"i\0d", 3},
                           .source = "/shop",
                           .type = "order.placed",
                           .topic = "orders",
                           .group = "customer-7",
                           .correlation_id = {"c", 1},
                           .content_type = "text/plain",
                           .time_ms = INT64_C(1700000000000),
                           .headers = two_headers,
                           .header_count = 2,
                           .body = {"body\0bytes", 10},
                           .delivery = 3,
                           .delay_ms = 50};
}

static void assert_bytes_equal(semel_bytes a, semel_bytes b)
{
    assert_int_equal(a.len, b.len);
    assert_int_equal(!a.data, !b.data);
    if (a.data)
        assert_memory_equal(a.data, b.data, a.len);
}

static void assert_messages_equal(const semel_message *a, const semel_message *b)
{
    assert_bytes_equal(a->id, b->id);
    assert_bytes_equal(semel_str(a->source), semel_str(b->source));
    assert_bytes_equal(semel_str(a->type), semel_str(b->type));
    assert_bytes_equal(semel_str(a->topic), semel_str(b->topic));
    assert_bytes_equal(semel_str(a->group), semel_str(b->group));
    assert_bytes_equal(a->correlation_id, b->correlation_id);
    assert_bytes_equal(semel_str(a->content_type), semel_str(b->content_type));
    assert_true(a->time_ms == b->time_ms);
    assert_int_equal(a->header_count, b->header_count);
    for (size_t i = 0; i < a->header_count; i++) {
        assert_string_equal(a->headers[i].name, b->headers[i].name);
        assert_bytes_equal(a->headers[i].value, b->headers[i].value);
    }
    assert_bytes_equal(a->body, b->body);
    assert_int_equal(a->delivery, b->delivery);
    assert_int_equal(a->delay_ms, b->delay_ms);
}

/* --- copying ---------------------------------------------------------------------------------- */

static void a_copy_is_equal_and_shares_nothing(void **state)
{
    semel_message message = full_message(), *copy = NULL;
    (void)state;
    assert_int_equal(semel_message_copy(&copy, &message, NULL), SEMEL_OK);
    assert_messages_equal(copy, &message);
    assert_ptr_not_equal(copy->id.data, message.id.data);
    assert_ptr_not_equal(copy->source, message.source);
    assert_ptr_not_equal(copy->headers, message.headers);
    assert_ptr_not_equal(copy->headers[0].value.data, message.headers[0].value.data);
    assert_ptr_not_equal(copy->body.data, message.body.data);
    semel_message_free(copy);
}

static void bytes_in_a_copy_have_a_nul_behind(void **state)
{
    semel_message message = {.size = sizeof message, .id = {"abc", 2}, .body = {"xyz", 1}}, *copy;
    mem_arena arena = {0};
    (void)state;
    assert_int_equal(semel_message_copy(&copy, &message, NULL), SEMEL_OK);
    assert_string_equal(copy->id.data, "ab");
    assert_string_equal(copy->body.data, "x");
    semel_message_free(copy);
    memset(arena_alloc(&arena, 1000), 'x', 1000); /* what an arena hands out is not zeroed */
    arena_reset(&arena);
    copy = message_copy_into(&arena, &message);
    assert_string_equal(copy->id.data, "ab");
    assert_string_equal(copy->body.data, "x");
    arena_free(&arena);
}

static void an_empty_message_can_be_copied(void **state)
{
    semel_message message = {.size = sizeof message}, *copy = NULL;
    (void)state;
    assert_int_equal(semel_message_copy(&copy, &message, NULL), SEMEL_OK);
    assert_messages_equal(copy, &message);
    assert_null(copy->headers);
    semel_message_free(copy);
    semel_message_free(NULL);
}

static void a_copy_is_one_allocation_and_its_failure_is_reported(void **state)
{
    semel_message message = full_message(), *copy = NULL;
    semel_error err = {0};
    (void)state;
    long before = mem_allocations();
    mem_fail_at(1);
    assert_int_equal(semel_message_copy(&copy, &message, &err), SEMEL_ENOMEM);
    assert_null(copy);
    assert_int_equal(err.status, SEMEL_ENOMEM);
    assert_int_equal(semel_message_copy(&copy, &message, NULL), SEMEL_OK);
    assert_int_equal(mem_allocations(), before + 2);
    semel_message_free(copy);
}

static void a_copy_into_an_arena_lives_there(void **state)
{
    semel_message message = full_message();
    mem_arena arena = {0};
    (void)state;
    mem_fail_at(1);
    assert_null(message_copy_into(&arena, &message));
    assert_messages_equal(message_copy_into(&arena, &message), &message);
    arena_free(&arena);
}

/* --- other callers ---------------------------------------------------------------------- */

static void a_size_that_is_not_set_is_refused(void **state)
{
    static const size_t sizes[] = {0, 1, sizeof(size_t), sizeof(semel_message) - 1};
    semel_message message = full_message();
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        semel_error err = {0};
        message.size = sizes[i];
        assert_int_equal(message_check(&message, &err), SEMEL_EINVAL);
        assert_string_equal(err.text, "message.size is not set: write {.size = sizeof message}");
        assert_null(semel_message_header(&message, "trace").data);
    }
}

static void a_message_of_a_newer_program_is_refused(void **state)
{
    semel_message message = full_message();
    semel_error err = {0};
    (void)state;
    message.size = sizeof message + 8;
    assert_int_equal(message_check(&message, &err), SEMEL_EINVAL);
    assert_non_null(strstr(err.text, "newer"));
    assert_int_equal(message_check(NULL, &err), SEMEL_EINVAL);
}

/* --- limits ----------------------------------------------------------------------------------- */

static void assert_refused(const semel_message *message, semel_status status, const char *member,
                           const char *limit)
{
    semel_error err = {0};
    semel_message *copy = NULL;
    assert_int_equal(message_check(message, &err), status);
    assert_non_null(strstr(err.text, member));
    assert_non_null(strstr(err.text, limit));
    assert_int_equal(semel_message_copy(&copy, message, NULL), status);
    assert_null(copy);
}

static void a_text_may_have_text_max_bytes_and_no_more(void **state)
{
    static const struct {
        size_t offset;
        const char *name;
    } texts[] = {{offsetof(semel_message, source), "message.source"},
                 {offsetof(semel_message, type), "message.type"},
                 {offsetof(semel_message, topic), "message.topic"},
                 {offsetof(semel_message, group), "message.group"},
                 {offsetof(semel_message, content_type), "message.content_type"}};
    char longest[SEMEL_TEXT_MAX + 2] = {0};
    const char *text = longest;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        semel_message message = {.size = sizeof message};
        memset(longest, 'x', SEMEL_TEXT_MAX);
        longest[SEMEL_TEXT_MAX] = 0;
        memcpy((char *)&message + texts[i].offset, &text, sizeof text);
        assert_int_equal(message_check(&message, NULL), SEMEL_OK);
        longest[SEMEL_TEXT_MAX] = 'x';
        assert_refused(&message, SEMEL_ELIMIT, texts[i].name, "SEMEL_TEXT_MAX");
    }
}

static void bytes_have_their_limits(void **state)
{
    static const struct {
        size_t offset, max;
        const char *name, *limit;
    } all[] = {{offsetof(semel_message, id), SEMEL_TEXT_MAX, "message.id", "SEMEL_TEXT_MAX"},
               {offsetof(semel_message, correlation_id), SEMEL_TEXT_MAX, "message.correlation_id",
                "SEMEL_TEXT_MAX"},
               {offsetof(semel_message, body), SEMEL_BODY_MAX, "message.body", "SEMEL_BODY_MAX"}};
    (void)state;
    void *data = malloc(SEMEL_BODY_MAX + 1);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        semel_message message = {.size = sizeof message};
        semel_bytes bytes = {data, all[i].max}, nowhere = {NULL, 1};
        memcpy((char *)&message + all[i].offset, &bytes, sizeof bytes);
        assert_int_equal(message_check(&message, NULL), SEMEL_OK);
        bytes.len++;
        memcpy((char *)&message + all[i].offset, &bytes, sizeof bytes);
        assert_refused(&message, SEMEL_ELIMIT, all[i].name, all[i].limit);
        memcpy((char *)&message + all[i].offset, &nowhere, sizeof nowhere);
        assert_refused(&message, SEMEL_EINVAL, all[i].name, "no data");
    }
    free(data);
}

static void headers_have_their_limits(void **state)
{
    semel_header headers[SEMEL_HEADERS_MAX + 1];
    semel_message message = {
        .size = sizeof message, .headers = headers, .header_count = SEMEL_HEADERS_MAX};
    char value[SEMEL_HEADER_MAX + 1];
    (void)state;
    for (size_t i = 0; i <= SEMEL_HEADERS_MAX; i++)
        headers[i] = (semel_header){"name", {"v", 1}};
    assert_int_equal(message_check(&message, NULL), SEMEL_OK);
    message.header_count++;
    assert_refused(&message, SEMEL_ELIMIT, "message.header_count", "SEMEL_HEADERS_MAX");
    message.header_count = 3;
    headers[2].value = (semel_bytes){value, SEMEL_HEADER_MAX - 4};
    assert_int_equal(message_check(&message, NULL), SEMEL_OK);
    headers[2].value.len++;
    assert_refused(&message, SEMEL_ELIMIT, "message.headers[2]", "SEMEL_HEADER_MAX");
    headers[2].value.len = SIZE_MAX;
    assert_refused(&message, SEMEL_ELIMIT, "message.headers[2]", "SEMEL_HEADER_MAX");
    memset(value, 'n', sizeof value);
    value[SEMEL_HEADER_MAX] = 0;
    headers[2] = (semel_header){value, {"", 0}};
    assert_int_equal(message_check(&message, NULL), SEMEL_OK);
    headers[2].value.len = 1;
    assert_refused(&message, SEMEL_ELIMIT, "message.headers[2]", "SEMEL_HEADER_MAX");
}

static void headers_need_names_and_places(void **state)
{
    semel_header header = {"name", {NULL, 1}};
    semel_message message = {.size = sizeof message, .headers = &header, .header_count = 1};
    (void)state;
    assert_refused(&message, SEMEL_EINVAL, "message.headers[0].value", "no data");
    header = (semel_header){NULL, {"v", 1}};
    assert_refused(&message, SEMEL_EINVAL, "message.headers[0]", "no name");
    header.name = "";
    assert_refused(&message, SEMEL_EINVAL, "message.headers[0]", "no name");
    message.headers = NULL;
    assert_refused(&message, SEMEL_EINVAL, "message.headers is NULL", "message.header_count is 1");
    assert_null(semel_message_header(&message, "name").data);
}

/* --- headers ---------------------------------------------------------------------------------- */

static void a_header_is_found_in_any_case_and_the_first_counts(void **state)
{
    static const semel_header headers[] = {
        {"X-Trace", {"1", 1}}, {"x-trace", {"2", 1}}, {"@[`{", {"3", 1}}};
    semel_message message = {.size = sizeof message, .headers = headers, .header_count = 3};
    (void)state;
    assert_memory_equal(semel_message_header(&message, "x-TRACE").data, "1", 1);
    assert_memory_equal(semel_message_header(&message, "@[`{").data, "3", 1);
    assert_null(semel_message_header(&message, "`{@[").data); /* 0x20 apart, and no letters */
    assert_null(semel_message_header(&message, "X-Trac").data);
    assert_null(semel_message_header(&message, "X-Trace2").data);
    assert_null(semel_message_header(&message, "").data);
    assert_null(semel_message_header(&message, NULL).data);
    assert_null(semel_message_header(NULL, "x").data);
}

static void headers_as_a_blob_have_the_documented_bytes(void **state)
{
    static const unsigned char expected[] = "\5\0\0\0Trace\3\0\0\0a\0b\5\0\0\0empty\0\0\0";
    unsigned char blob[sizeof expected];
    semel_message message = full_message();
    (void)state;
    assert_int_equal(headers_size(&message), sizeof expected);
    headers_write(blob, &message);
    assert_memory_equal(blob, expected, sizeof expected); /* the literal's NUL is the fourth zero */
    message.header_count = 0;
    assert_int_equal(headers_size(&message), 0);
}

static void headers_come_back_from_a_blob(void **state)
{
    semel_message message = full_message();
    unsigned char blob[64];
    const semel_header *headers = NULL;
    size_t count = 0, size = headers_size(&message);
    mem_arena arena = {0};
    (void)state;
    headers_write(blob, &message);
    assert_int_equal(headers_read(&headers, &count, &arena, (semel_bytes){blob, size}, NULL),
                     SEMEL_OK);
    memset(blob, 'x', sizeof blob); /* nothing points into it */
    assert_int_equal(count, 2);
    assert_string_equal(headers[0].name, "Trace");
    assert_int_equal(headers[0].value.len, 3);
    assert_memory_equal(headers[0].value.data, "a\0b", 4); /* with a NUL behind */
    assert_string_equal(headers[1].name, "empty");
    assert_int_equal(headers[1].value.len, 0);
    assert_string_equal(headers[1].value.data, "");
    arena_free(&arena);
}

static void no_blob_is_no_headers(void **state)
{
    const semel_header *headers = two_headers;
    size_t count = 9;
    mem_arena arena = {0};
    (void)state;
    assert_int_equal(headers_read(&headers, &count, &arena, (semel_bytes){NULL, 0}, NULL),
                     SEMEL_OK);
    assert_null(headers);
    assert_int_equal(count, 0);
    arena_free(&arena);
}

/* The bytes in memory of their own, so that a sanitizer sees a read past the end. */
static semel_status read_blob(const void *bytes, size_t len, semel_error *err)
{
    const semel_header *headers = NULL;
    size_t count = 0;
    mem_arena arena = {0};
    void *exact = malloc(len ? len : 1);
    memcpy(exact, bytes, len);
    semel_status status = headers_read(&headers, &count, &arena, (semel_bytes){exact, len}, err);
    for (size_t i = 0; i < count; i++) { /* what is promised is there, to the last byte */
        assert_true(strlen(headers[i].name) > 0);
        assert_int_equal(((const char *)headers[i].value.data)[headers[i].value.len], 0);
        assert_in_range(headers[i].value.len, 0, len);
    }
    if (status) {
        assert_null(headers); /* untouched */
        assert_int_equal(count, 0);
    }
    free(exact);
    arena_free(&arena);
    return status;
}

static void a_blob_cut_anywhere_is_damaged(void **state)
{
    semel_message message = full_message();
    unsigned char blob[64];
    size_t size = headers_size(&message), first = 4 + 5 + 4 + 3;
    (void)state;
    headers_write(blob, &message);
    for (size_t len = 1; len < size; len++) {
        semel_error err = {0};
        semel_status expected = len == first ? SEMEL_OK : SEMEL_ESTORE;
        assert_int_equal(read_blob(blob, len, &err), expected);
        if (expected)
            assert_non_null(strstr(err.text, "damaged"));
    }
    assert_int_equal(read_blob(blob, size, NULL), SEMEL_OK);
}

static void lengths_that_lie_are_damage(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } blobs[] = {{"\0\0\0\0\0\0\0\0", 8},     /* a header without a name */
                 {"\2\0\0\0a\0\0\0\0\0", 10}, /* a NUL in a name */
                 {"\xff\xff\xff\xff"
                  "abcdefgh",
                  12},                             /* a name of four gigabytes */
                 {"\1\0\0\0a\xff\xff\xff\xff", 9}, /* a value of the same */
                 {"\1\0\0\0a\1\0\0\0b\0", 11}};    /* a byte too many */
    (void)state;
    for (size_t i = 0; i < sizeof blobs / sizeof *blobs; i++)
        assert_int_equal(read_blob(blobs[i].bytes, blobs[i].len, NULL), SEMEL_ESTORE);
}

/* Every byte of a good blob changed to every value: an error or headers, never a step outside. */
static void damage_is_never_followed_out_of_the_blob(void **state)
{
    semel_message message = full_message();
    unsigned char blob[64];
    size_t size = headers_size(&message);
    (void)state;
    for (size_t i = 0; i < size; i++)
        for (int value = 0; value < 256; value++) {
            headers_write(blob, &message);
            blob[i] = (unsigned char)value;
            semel_status status = read_blob(blob, size, NULL);
            assert_true(status == SEMEL_OK || status == SEMEL_ESTORE);
        }
}

static void headers_without_memory_are_reported(void **state)
{
    semel_message message = full_message();
    unsigned char blob[64];
    (void)state;
    headers_write(blob, &message);
    mem_fail_at(1);
    assert_int_equal(read_blob(blob, headers_size(&message), NULL), SEMEL_ENOMEM);
    mem_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_is_equal_and_shares_nothing),
        cmocka_unit_test(bytes_in_a_copy_have_a_nul_behind),
        cmocka_unit_test(an_empty_message_can_be_copied),
        cmocka_unit_test(a_copy_is_one_allocation_and_its_failure_is_reported),
        cmocka_unit_test(a_copy_into_an_arena_lives_there),
        cmocka_unit_test(a_size_that_is_not_set_is_refused),
        cmocka_unit_test(a_message_of_a_newer_program_is_refused),
        cmocka_unit_test(a_text_may_have_text_max_bytes_and_no_more),
        cmocka_unit_test(bytes_have_their_limits),
        cmocka_unit_test(headers_have_their_limits),
        cmocka_unit_test(headers_need_names_and_places),
        cmocka_unit_test(a_header_is_found_in_any_case_and_the_first_counts),
        cmocka_unit_test(headers_as_a_blob_have_the_documented_bytes),
        cmocka_unit_test(headers_come_back_from_a_blob),
        cmocka_unit_test(no_blob_is_no_headers),
        cmocka_unit_test(a_blob_cut_anywhere_is_damaged),
        cmocka_unit_test(lengths_that_lie_are_damage),
        cmocka_unit_test(damage_is_never_followed_out_of_the_blob),
        cmocka_unit_test(headers_without_memory_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
