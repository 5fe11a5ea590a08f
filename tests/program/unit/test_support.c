/* Regions of memory, and what is UTF-8 text: both have a quick way for what is usual. */
#include "program/support/encoding.h"
#include "program/support/memory.h"
#include "support/base/check.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 40000, DIRT = 0xAB };

static int all_zero(const unsigned char *at, size_t len)
{
    while (len && !*at)
        at++, len--;
    return !len;
}

/* Memory that was used, freed, and is given out again. */
static void leave_dirt(size_t size)
{
    void *volatile memory = malloc(size);
    assert_non_null(memory);
    memset(memory, DIRT, size);
    free(memory);
}

static void regions_are_zeroed_and_apart(void **state)
{
    static const size_t sizes[] = {1, 15, 16, 17, 300, 959, 961, 1, 5000, 16385, 24, LARGEST, 8};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    unsigned char *given[COUNT];
    region memory = {0};
    (void)state;
    leave_dirt(LARGEST);
    leave_dirt(992); /* of the first block */
    for (size_t i = 0; i < COUNT; i++) {
        given[i] = region_alloc(&memory, sizes[i]);
        assert_int_equal((uintptr_t)given[i] % _Alignof(max_align_t), 0);
        assert_true(all_zero(given[i], sizes[i]));
        memset(given[i], (int)i + 1, sizes[i]);
    }
    for (size_t i = 0; i < COUNT; i++)
        for (size_t at = 0; at < sizes[i]; at++)
            assert_int_equal(given[i][at], i + 1);
    region_free(&memory);
}

/* One byte, or a sequence, at every place of a text that is else ASCII. */
static int is_text_with(const char *piece, size_t len, size_t at)
{
    unsigned char text[40];
    memset(text, 'a', sizeof text);
    memcpy(text + at, piece, len);
    return encoding_is_text(text, sizeof text);
}

static void text_is_recognized_at_every_place(void **state)
{
    static const char good[] = "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\x01\x7F";
    (void)state;
    for (size_t at = 0; at < 40; at++) {
        assert_false(is_text_with("\0", 1, at));
        assert_false(is_text_with("\x80", 1, at));
        assert_false(is_text_with("\xFF", 1, at));
        assert_false(is_text_with("\xC3", 1, at)); /* its second byte is ASCII, or missing */
        if (at + sizeof good - 1 <= 40)
            assert_true(is_text_with(good, sizeof good - 1, at));
    }
    assert_true(encoding_is_text(NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regions_are_zeroed_and_apart),
        cmocka_unit_test(text_is_recognized_at_every_place),
    };
    return cmocka_run_group_tests_name("support", tests, NULL, NULL);
}
