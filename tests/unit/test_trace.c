/* The trace context that a message takes over from the one that is handled. */
#include "base/trace.h"

#include <setjmp.h> /* cmocka.h wants these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define PARENT "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

static const semel_header all_three[] = {{"other", {"x", 1}},
                                         {"tracestate", {"a=1", 3}},
                                         {"traceparent", {PARENT, sizeof PARENT - 1}},
                                         {"baggage", {"user=7", 6}}};

static semel_message with_headers(const semel_header *headers, size_t count)
{
    return (semel_message){
        .size = sizeof(semel_message), .headers = headers, .header_count = count};
}

static void inherit_under(semel_message *message, mem_arena *arena, const semel_message *from,
                          const char *parent)
{
    semel_error err;
    assert_int_equal(trace_inherit(message, arena, from, parent, &err), SEMEL_OK);
}

static void inherit(semel_message *message, mem_arena *arena, const semel_message *from)
{
    inherit_under(message, arena, from, "");
}

static void assert_header(const semel_message *message, const char *name, const char *value)
{
    semel_bytes found = semel_message_header(message, name);
    assert_non_null(found.data);
    assert_int_equal(found.len, strlen(value));
    assert_memory_equal(found.data, value, found.len);
}

static void all_of_it_is_taken_over_and_nothing_else(void **state)
{
    mem_arena arena = {0};
    semel_header own = {"mine", {"1", 1}};
    semel_message from = with_headers(all_three, 4), to = with_headers(&own, 1);
    (void)state;
    inherit(&to, &arena, &from);
    assert_int_equal(to.header_count, 4);
    assert_header(&to, "mine", "1");
    assert_header(&to, "traceparent", PARENT);
    assert_header(&to, "tracestate", "a=1");
    assert_header(&to, "baggage", "user=7");
    arena_free(&arena);
}

/* The tracestate belongs to the trace of the message, and the work has another one. */
static void the_context_of_the_work_comes_instead(void **state)
{
    mem_arena arena = {0};
    semel_message from = with_headers(all_three, 4), bare = with_headers(NULL, 0);
    semel_message to = bare, other = bare;
    (void)state;
    inherit_under(&to, &arena, &from, "of the work");
    assert_int_equal(to.header_count, 2);
    assert_header(&to, "traceparent", "of the work");
    assert_header(&to, "baggage", "user=7");
    inherit_under(&other, &arena, &bare, "of the work");
    assert_int_equal(other.header_count, 1);
    assert_header(&other, "traceparent", "of the work");
    arena_free(&arena);
}

static void a_traceparent_of_its_own_keeps_the_rest_out(void **state)
{
    mem_arena arena = {0};
    semel_header own = {"traceparent", {"mine", 4}};
    semel_message from = with_headers(all_three, 4), to = with_headers(&own, 1);
    (void)state;
    inherit(&to, &arena, &from);
    assert_int_equal(to.header_count, 1);
    assert_ptr_equal(to.headers, &own);
    arena_free(&arena);
}

static void baggage_of_its_own_is_kept(void **state)
{
    mem_arena arena = {0};
    semel_header own = {"baggage", {"mine", 4}};
    semel_message from = with_headers(all_three, 4), to = with_headers(&own, 1);
    (void)state;
    inherit(&to, &arena, &from);
    assert_int_equal(to.header_count, 3);
    assert_header(&to, "baggage", "mine");
    assert_header(&to, "traceparent", PARENT);
    arena_free(&arena);
}

/* tracestate and baggage alone belong to no trace. */
static void without_a_traceparent_there_is_nothing_to_take_over(void **state)
{
    mem_arena arena = {0};
    semel_message from = with_headers(all_three, 2), none = with_headers(NULL, 0);
    semel_message to = with_headers(NULL, 0);
    (void)state;
    inherit(&to, &arena, &from);
    inherit(&to, &arena, &none);
    assert_int_equal(to.header_count, 0);
    arena_free(&arena);
}

/* What does not fit is left out, the traceparent last. */
static void a_message_full_of_headers_is_not_refused(void **state)
{
    static semel_header full[SEMEL_HEADERS_MAX];
    mem_arena arena = {0};
    semel_message from = with_headers(all_three, 4);
    (void)state;
    for (size_t i = 0; i < SEMEL_HEADERS_MAX; i++)
        full[i] = (semel_header){"x", {"y", 1}};
    for (size_t room = 0; room <= 3; room++) {
        semel_message to = with_headers(full, SEMEL_HEADERS_MAX - room);
        inherit(&to, &arena, &from);
        assert_int_equal(to.header_count, SEMEL_HEADERS_MAX);
        assert_int_equal(semel_message_header(&to, "traceparent").data != NULL, room >= 1);
        assert_int_equal(semel_message_header(&to, "tracestate").data != NULL, room >= 2);
        assert_int_equal(semel_message_header(&to, "baggage").data != NULL, room >= 3);
    }
    arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it_is_taken_over_and_nothing_else),
        cmocka_unit_test(the_context_of_the_work_comes_instead),
        cmocka_unit_test(a_traceparent_of_its_own_keeps_the_rest_out),
        cmocka_unit_test(baggage_of_its_own_is_kept),
        cmocka_unit_test(without_a_traceparent_there_is_nothing_to_take_over),
        cmocka_unit_test(a_message_full_of_headers_is_not_refused)};
    return cmocka_run_group_tests_name("trace context", tests, NULL, NULL);
}
