/* Parts of the keyed layer by themselves: the encoding of values, numbers, the clock, the buffer of
 * a unit. */
#include "store/keyed/buffer.h"
#include "store/keyed/marker.h"
#include "support/base/check.h"

#include <stdlib.h>
#include <string.h>

/* --- fields ----------------------------------------------------------------------------------- */

static void integers_are_read_as_they_were_written(void **state)
{
    static const int64_t values[] = {
        0,          1,          -1,           127,       128,
        -128,       -129,       32767,        32768,     INT32_MAX,
        INT32_MIN,  1767225600, INT64_MAX,    INT64_MIN, (int64_t)1 << 55,
        -(1 << 23), 1 << 23,    1767225600000};
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        mem_arena arena = {0};
        fields_writer to = {.arena = &arena};
        semel_bytes bytes;
        fields_int(&to, 7, values[i]);
        assert_true(fields_end(&bytes, &to));
        fields_reader from = {.rest = bytes};
        int found = fields_next(&from);
        assert_int_equal(found, values[i] != 0);
        assert_true(!found || (from.field == 7 && fields_int_of(&from) == values[i]));
        assert_false(fields_next(&from));
        assert_false(from.damaged);
        arena_free(&arena);
    }
}

static void bytes_of_any_length_are_read_as_they_were_written(void **state)
{
    static const size_t lengths[] = {1, 254, 255, 256, 70000};
    unsigned char *data = calloc(1, 70000);
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        mem_arena arena = {0};
        fields_writer to = {.arena = &arena};
        semel_bytes bytes;
        fields_bytes(&to, 1, (semel_bytes){data, lengths[i]});
        fields_text(&to, 2, "behind");
        assert_true(fields_end(&bytes, &to));
        fields_reader from = {.rest = bytes};
        assert_true(fields_next(&from));
        assert_int_equal(from.bytes.len, lengths[i]);
        assert_true(fields_next(&from));
        assert_memory_equal(from.bytes.data, "behind", 6);
        arena_free(&arena);
    }
    free(data);
}

/* Cut anywhere, a value is damaged or shorter, and never read beyond its end. */
static void a_value_that_was_cut_is_damaged(void **state)
{
    mem_arena arena = {0};
    keyed_marker marker = {.state = KEYED_DEAD,
                           .attempts = 3,
                           .fingerprint = UINT64_MAX,
                           .why = semel_str("out of paper"),
                           .letter_gone = 1};
    semel_bytes bytes;
    (void)state;
    assert_true(keyed_marker_write(&bytes, &arena, &marker));
    for (size_t len = 0; len < bytes.len; len++) {
        unsigned char *cut = malloc(len ? len : 1); /* so that a sanitizer sees the end */
        keyed_marker found;
        memcpy(cut, bytes.data, len);
        (void)keyed_marker_read(&found, (semel_bytes){cut, len});
        assert_false(found.letter_gone);
        free(cut);
    }
    keyed_marker whole;
    assert_true(keyed_marker_read(&whole, bytes));
    assert_int_equal(whole.state, KEYED_DEAD);
    assert_true(whole.fingerprint == UINT64_MAX && whole.attempts == 3 && whole.letter_gone);
    arena_free(&arena);
}

static void numbers_are_in_the_order_of_their_keys(void **state)
{
    static const int64_t numbers[] = {0, 1, 255, 256, 1 << 20, (int64_t)1 << 61, INT64_MAX};
    unsigned char before[KEYED_NUMBER_LEN], now[KEYED_NUMBER_LEN];
    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        keyed_number_write(now, numbers[i]);
        assert_true(keyed_number_read(now) == numbers[i]);
        assert_true(i == 0 || memcmp(before, now, sizeof now) < 0);
        memcpy(before, now, sizeof now);
    }
}

/* --- the clock -------------------------------------------------------------------------------- */

enum { SECOND_US = 1000000 };

/* An answer that took 40 ms tells the time within 20 ms; a faster one tells it better. */
static void answers_narrow_the_time(void **state)
{
    semel_keyed_clock clock = {0};
    const int64_t ahead = (int64_t)1767225600 * SECOND_US;
    int64_t now = 0;
    uint32_t error = 0;
    (void)state;
    assert_false(semel_keyed_clock_read(&clock, 0, &now, &error));
    semel_keyed_clock_learn(&clock, 1000, 41000, ahead + 21000, ahead + 21000);
    assert_true(semel_keyed_clock_read(&clock, 41000, &now, &error));
    assert_in_range(now, ahead / 1000 + 41 - 1, ahead / 1000 + 41 + 1);
    assert_in_range(error, 20, 22);
    semel_keyed_clock_learn(&clock, 50000, 52000, ahead + 51000, ahead + 51000);
    assert_true(semel_keyed_clock_read(&clock, 52000, &now, &error));
    assert_in_range(now, ahead / 1000 + 52 - 1, ahead / 1000 + 52 + 1);
    assert_in_range(error, 1, 3);
    assert_true(semel_keyed_clock_read(&clock, 52000 + (int64_t)3600 * SECOND_US, &now, &error));
    assert_in_range(error, 700, 730); /* an hour later it is worth less */
}

/* Whole seconds, as HTTP has them: the truth is always within the error. */
static void the_truth_is_within_the_error(void **state)
{
    semel_keyed_clock clock = {0};
    const int64_t ahead = (int64_t)1767225600 * SECOND_US + 123456;
    int64_t steady = 0, before = 0;
    (void)state;
    for (int i = 0; i < 2000; i++) {
        int64_t took = 1000 + (i * 7919) % 90000, now = 0;
        int64_t shown = (steady + took / 3 + ahead) / SECOND_US * SECOND_US;
        uint32_t error = 0;
        semel_keyed_clock_learn(&clock, steady, steady + took, shown, shown + SECOND_US - 1);
        steady += took;
        assert_true(semel_keyed_clock_read(&clock, steady, &now, &error));
        int64_t truth = (steady + ahead) / 1000;
        assert_true(now - (int64_t)error <= truth + 1 && truth - 1 <= now + (int64_t)error);
        assert_true(now >= before);
        before = now;
        steady += (i * 104729) % (3 * SECOND_US);
    }
}

static void the_time_does_not_go_back(void **state)
{
    semel_keyed_clock clock = {0};
    int64_t now = 0, later = 0;
    uint32_t error = 0;
    (void)state;
    semel_keyed_clock_learn(&clock, 0, 10, 100 * SECOND_US, 100 * SECOND_US);
    assert_true(semel_keyed_clock_read(&clock, 10, &now, &error));
    semel_keyed_clock_learn(&clock, 20, 30, 40 * SECOND_US, 40 * SECOND_US); /* it was set */
    assert_true(semel_keyed_clock_read(&clock, 30, &later, &error));
    assert_true(later >= now && error >= 59000);
}

/* --- the buffer ------------------------------------------------------------------------------- */

static semel_status no_build(keyed_unit *unit, void *context, semel_error *err)
{
    (void)unit, (void)context, (void)err;
    return SEMEL_OK;
}

static keyed_change *change_of(keyed_unit *unit, int number)
{
    unsigned char key[KEYED_NUMBER_LEN];
    keyed_number_write(key, number);
    return keyed_unit_change(unit, semel_str("s"), (semel_bytes){key, sizeof key});
}

static int guard_of(const keyed_unit *unit, int number)
{
    unsigned char key[KEYED_NUMBER_LEN];
    keyed_number_write(key, number);
    const keyed_change *change =
        keyed_unit_find(unit, semel_str("s"), (semel_bytes){key, sizeof key});
    return change ? (int)change->change.record.guard : -1;
}

/* More than the first tables have room for; changes stay where they are. */
static void an_undo_brings_back_what_was_there(void **state)
{
    enum { BEFORE = 100, AFTER = 300 };
    keyed_store store = {0};
    keyed_unit unit = {.store = &store};
    keyed_change *first = NULL;
    (void)state;
    for (int i = 0; i < BEFORE; i++) {
        keyed_change *change = change_of(&unit, i);
        change->change.record.guard = 1;
        first = first ? first : change;
    }
    OK(keyed_unit_step(&unit, no_build, NULL, &last_error));
    keyed_unit_save(&unit);
    for (int i = 0; i < AFTER; i++)
        change_of(&unit, i)->change.record.guard = 2;
    change_of(&unit, 0)->change.record.guard = 3;
    OK(keyed_unit_step(&unit, no_build, NULL, &last_error));
    assert_ptr_equal(first, unit.changes[0]);
    assert_int_equal(guard_of(&unit, 0), 3);
    assert_int_equal(guard_of(&unit, AFTER - 1), 2);
    keyed_unit_undo(&unit);
    assert_int_equal(unit.count, BEFORE);
    for (int i = 0; i < AFTER; i++)
        assert_int_equal(guard_of(&unit, i), i < BEFORE ? 1 : -1);
    assert_ptr_equal(unit.first_step, unit.last_step);
    change_of(&unit, BEFORE)->change.record.guard = 4; /* and it goes on */
    assert_int_equal(guard_of(&unit, BEFORE), 4);
    arena_free(&unit.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_read_as_they_were_written),
        cmocka_unit_test(bytes_of_any_length_are_read_as_they_were_written),
        cmocka_unit_test(a_value_that_was_cut_is_damaged),
        cmocka_unit_test(numbers_are_in_the_order_of_their_keys),
        cmocka_unit_test(answers_narrow_the_time),
        cmocka_unit_test(the_truth_is_within_the_error),
        cmocka_unit_test(the_time_does_not_go_back),
        cmocka_unit_test(an_undo_brings_back_what_was_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
