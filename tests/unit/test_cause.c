/* Causes: what is taken out of an error, what stays, and numbers that never change. */
#include "support/base/check.h"

#include <semel/operate.h>
#include <string.h>

static void numbers_ids_and_quoted_parts_are_taken_out(void **state)
{
    static const struct {
        const char *error, *cause;
    } cases[] = {
        {"", ""},
        {"http 422: no tax rate for order 20688", "http 422: no tax rate for order <n>"},
        {"http 20688", "http <n>"},
        {"exit 1: mailbox \"a@b\" is not available", "exit 1: mailbox <s> is not available"},
        {"killed by signal 9", "killed by signal 9"},
        {"id 019cea02-bda2-773c-a25f-40feb8824b1b", "id <n>"},
        {"no table 'orders_7' in 'shop'", "no table <s> in <s>"},
        {"it's broken", "it's broken"},
        {"caf\xc3\xa9 9", "caf\xc3\xa9 <n>"},
        {"line\nline", "line\nline"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[SEMEL_CAUSE_TEXT_SIZE];
        assert_int_equal(semel_cause_text(text, sizeof text, cases[i].error),
                         strlen(cases[i].cause));
        assert_string_equal(text, cases[i].cause);
    }
}

/* As snprintf(): the whole length is returned, whatever the room is. */
static void a_text_is_cut_where_the_room_ends(void **state)
{
    char text[SEMEL_CAUSE_TEXT_SIZE] = "untouched";
    (void)state;
    assert_int_equal(semel_cause_text(NULL, 0, "order 7 failed"), strlen("order <n> failed"));
    assert_int_equal(semel_cause_text(text, 6, "order 7 failed"), strlen("order <n> failed"));
    assert_string_equal(text, "order");
}

static void a_long_text_is_cut_at_a_character(void **state)
{
    char error[1000], text[SEMEL_CAUSE_TEXT_SIZE + 10];
    (void)state;
    memset(error, 'x', sizeof error - 1);
    error[sizeof error - 1] = 0;
    assert_int_equal(semel_cause_text(text, sizeof text, error), SEMEL_CAUSE_TEXT_SIZE - 1);
    assert_int_equal(strlen(text), SEMEL_CAUSE_TEXT_SIZE - 1);
    memcpy(error + SEMEL_CAUSE_TEXT_SIZE - 2, "\xc3\xa9", 2); /* the é begins at the last byte */
    assert_int_equal(semel_cause_text(text, sizeof text, error), SEMEL_CAUSE_TEXT_SIZE - 2);
    assert_int_equal((unsigned char)text[SEMEL_CAUSE_TEXT_SIZE - 3], 'x');
}

/* They are stored: FNV-1a of "payments\norder <n> failed", and so on. */
static void the_number_of_a_cause_never_changes(void **state)
{
    (void)state;
    assert_int_equal(semel_cause("payments", "order 7 failed"), 0x710cf8f1u);
    assert_int_equal(semel_cause("payments", "order 8 failed"), 0x710cf8f1u);
    assert_int_equal(semel_cause("a", ""), 0x2524c6d2u);
    assert_int_equal(semel_cause("a", NULL), 0x2524c6d2u);
    assert_int_not_equal(semel_cause("other", "order 7 failed"), 0x710cf8f1u);
    assert_int_not_equal(semel_cause("payments", "order 7 fell"), 0x710cf8f1u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_ids_and_quoted_parts_are_taken_out),
        cmocka_unit_test(a_text_is_cut_where_the_room_ends),
        cmocka_unit_test(a_long_text_is_cut_at_a_character),
        cmocka_unit_test(the_number_of_a_cause_never_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
