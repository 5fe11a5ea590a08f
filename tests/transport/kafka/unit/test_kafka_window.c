/* The window of a partition: an offset may be committed up to the first that is not settled, in
 * whatever order verdicts come; and what the next owner is told about it. */
#include "support/base/check.h"

#include "base/mem.h"
#include "transport/kafka/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int things[4096]; /* stand for deliveries */

static void *thing(int64_t offset)
{
    return &things[offset % 4096];
}

static void add(kafka_window *window, int64_t from, int64_t to)
{
    for (int64_t i = from; i <= to; i++)
        assert_true(kafka_window_add(window, i, thing(i)));
}

static kafka_window window_of(int64_t from, int64_t to)
{
    kafka_window window;
    kafka_window_init(&window);
    add(&window, from, to);
    return window;
}

static void take_all(kafka_window *window)
{
    while (kafka_window_take(window, INT64_MAX))
        continue;
}

static void an_empty_window_knows_no_offset(void **state)
{
    (void)state;
    kafka_window window;
    kafka_window_init(&window);
    assert_int_equal(kafka_window_prefix(&window), -1);
    assert_null(kafka_window_take(&window, INT64_MAX));
}

static void the_prefix_ends_before_the_first_that_is_not_settled(void **state)
{
    (void)state;
    kafka_window window = window_of(10, 13);
    take_all(&window);
    assert_int_equal(kafka_window_prefix(&window), 10);
    kafka_window_settle(&window, 11);
    kafka_window_settle(&window, 13);
    assert_int_equal(kafka_window_prefix(&window), 10);
    kafka_window_settle(&window, 10);
    assert_int_equal(kafka_window_prefix(&window), 12);
    kafka_window_settle(&window, 12);
    assert_int_equal(kafka_window_prefix(&window), 14);
    assert_int_equal(window.unsettled, 0);
    kafka_window_free(&window);
}

static void offsets_that_are_not_there_hold_nothing_up(void **state)
{
    (void)state;
    kafka_window window = window_of(3, 3);
    add(&window, 9, 9);
    take_all(&window);
    kafka_window_settle(&window, 3);
    assert_int_equal(kafka_window_prefix(&window), 9);
    kafka_window_settle(&window, 5); /* does no harm */
    kafka_window_settle(&window, 9);
    assert_int_equal(kafka_window_prefix(&window), 10);
    kafka_window_free(&window);
}

static void what_is_behind_a_limit_is_not_taken(void **state)
{
    (void)state;
    kafka_window window = window_of(0, 5);
    for (int64_t i = 0; i < 3; i++)
        assert_ptr_equal(kafka_window_take(&window, 3), thing(i));
    assert_null(kafka_window_take(&window, 3));
    assert_ptr_equal(kafka_window_take(&window, 4), thing(3));
    kafka_window_free(&window);
}

static void what_is_returned_comes_before_what_follows_it(void **state)
{
    (void)state;
    kafka_window window = window_of(0, 5);
    for (int i = 0; i < 4; i++)
        (void)kafka_window_take(&window, INT64_MAX);
    kafka_window_return(&window, 2);
    kafka_window_return(&window, 1);
    assert_ptr_equal(kafka_window_take(&window, INT64_MAX), thing(1));
    assert_ptr_equal(kafka_window_take(&window, INT64_MAX), thing(2));
    assert_ptr_equal(kafka_window_take(&window, INT64_MAX), thing(4));
    kafka_window_free(&window);
}

static void draining_gives_what_is_ready_and_nothing_that_is_out(void **state)
{
    (void)state;
    kafka_window window = window_of(0, 3);
    (void)kafka_window_take(&window, INT64_MAX);
    kafka_window_settle(&window, 2);
    assert_ptr_equal(kafka_window_drain(&window), thing(1));
    assert_ptr_equal(kafka_window_drain(&window), thing(3));
    assert_null(kafka_window_drain(&window));
    assert_int_equal(window.count, 0);
}

/* Against a model that is too simple to be wrong: verdicts in a random order, thousands of times.
 */
static void the_prefix_is_right_in_any_order(void **state)
{
    enum { MANY = 3000 };
    static char settled[MANY];
    kafka_window window;
    int64_t added = 0, lowest = 0;
    unsigned seed = 7;
    (void)state;
    kafka_window_init(&window);
    memset(settled, 0, sizeof settled);
    while (lowest < MANY) {
        seed = seed * 1103515245u + 12345u;
        unsigned draw = seed >> 16;
        if (added < MANY && draw % 3 == 0) {
            add(&window, added, added);
            added++;
        } else if (added > lowest) {
            int64_t which = lowest + (int64_t)(draw % (unsigned)(added - lowest));
            (void)kafka_window_take(&window, INT64_MAX);
            kafka_window_settle(&window, which);
            settled[which] = 1;
        }
        while (lowest < added && settled[lowest])
            lowest++;
        assert_int_equal(kafka_window_prefix(&window), added ? lowest : -1);
    }
    kafka_window_free(&window);
}

static void a_window_without_memory_adds_nothing(void **state)
{
    (void)state;
    kafka_window window;
    kafka_window_init(&window);
    mem_fail_at(1);
    assert_false(kafka_window_add(&window, 4, thing(4)));
    mem_fail_at(0);
    assert_int_equal(kafka_window_prefix(&window), -1);
    kafka_window_free(&window);
}

/* --- progress --------------------------------------------------------------------------------- */

static kafka_progress read_back(const kafka_window *window, int64_t handed, uint32_t deliveries)
{
    char text[KAFKA_PROGRESS_ROOM];
    kafka_progress progress;
    kafka_progress_write(text, window, &(kafka_progress){0}, handed, deliveries);
    assert_true(strlen(text) < KAFKA_PROGRESS_ROOM);
    kafka_progress_read(&progress, kafka_window_prefix(window), text, strlen(text));
    return progress;
}

static void the_next_owner_knows_what_is_settled(void **state)
{
    static const int64_t done[] = {12, 13, 14, 17, 19};
    (void)state;
    kafka_window window = window_of(10, 20);
    take_all(&window);
    for (size_t i = 0; i < sizeof done / sizeof *done; i++)
        kafka_window_settle(&window, done[i]);
    kafka_progress progress = read_back(&window, 18, 3);
    for (int64_t i = 9; i <= 21; i++) {
        int is_done = 0;
        for (size_t k = 0; k < sizeof done / sizeof *done; k++)
            is_done |= done[k] == i;
        assert_int_equal(kafka_progress_is_settled(&progress, i), is_done);
    }
    assert_int_equal(kafka_progress_settled(&progress), 5);
    kafka_window_free(&window);
}

static void the_next_owner_knows_what_was_handed_out(void **state)
{
    (void)state;
    kafka_window window = window_of(10, 20);
    kafka_progress progress = read_back(&window, 15, 3);
    assert_int_equal(kafka_progress_delivery(&progress, 10), 4);
    assert_int_equal(kafka_progress_delivery(&progress, 11), 2);
    assert_int_equal(kafka_progress_delivery(&progress, 14), 2);
    assert_int_equal(kafka_progress_delivery(&progress, 15), 1);
    progress = read_back(&window, 15, 5000000);
    assert_int_equal(kafka_progress_delivery(&progress, 10), KAFKA_DELIVERY_MAX);
    kafka_window_free(&window);
}

/* What does not fit is left out: it comes again. What is said is true. */
static void a_text_has_an_end(void **state)
{
    (void)state;
    kafka_window window = window_of(0, 3999);
    take_all(&window);
    for (int64_t i = 1; i < 4000; i += 2)
        kafka_window_settle(&window, i);
    kafka_progress progress = read_back(&window, 4000, 1);
    assert_in_range(progress.range_count, 100, KAFKA_RANGES_MAX);
    for (int64_t i = 0; i < 4000; i += 2)
        assert_false(kafka_progress_is_settled(&progress, i));
    kafka_window_free(&window);
}

static void texts_of_others_say_nothing(void **state)
{
    static const char *const texts[] = {"",
                                        "hello",
                                        "semel/1",
                                        "semel/1 ",
                                        "semel/1 x y",
                                        "semel/1 3 1 ",
                                        "semel/2 900 1 +2",
                                        "semel/1 99999999999999999999999 1 +1",
                                        "semel/1 -5 1"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        kafka_progress progress;
        kafka_progress_read(&progress, 10, texts[i], strlen(texts[i]));
        assert_int_equal(kafka_progress_delivery(&progress, 10), 1);
        assert_int_equal(kafka_progress_settled(&progress), 0);
    }
}

static void ranges_that_make_no_sense_end_the_list(void **state)
{
    static const char text[] = "semel/1 900 1 +2-4,+3,+9";
    kafka_progress progress;
    (void)state;
    kafka_progress_read(&progress, 10, text, strlen(text));
    assert_int_equal(kafka_progress_settled(&progress), 3);
    kafka_progress_read(&progress, 10, "semel/1 900 1 +0", 16); /* the first one is never settled */
    assert_int_equal(kafka_progress_settled(&progress), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_window_knows_no_offset),
        cmocka_unit_test(the_prefix_ends_before_the_first_that_is_not_settled),
        cmocka_unit_test(offsets_that_are_not_there_hold_nothing_up),
        cmocka_unit_test(what_is_behind_a_limit_is_not_taken),
        cmocka_unit_test(what_is_returned_comes_before_what_follows_it),
        cmocka_unit_test(draining_gives_what_is_ready_and_nothing_that_is_out),
        cmocka_unit_test(the_prefix_is_right_in_any_order),
        cmocka_unit_test(a_window_without_memory_adds_nothing),
        cmocka_unit_test(the_next_owner_knows_what_is_settled),
        cmocka_unit_test(the_next_owner_knows_what_was_handed_out),
        cmocka_unit_test(a_text_has_an_end),
        cmocka_unit_test(texts_of_others_say_nothing),
        cmocka_unit_test(ranges_that_make_no_sense_end_the_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
