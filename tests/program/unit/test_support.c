/* Regions of memory, and what is UTF-8 text: both have a quick way for what is usual. Buckets of
 * metrics, and how they are written. */
#include "program/admin/exposition.h"
#include "program/support/buckets.h"
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

static void durations_are_put_into_buckets(void **state)
{
    static const struct {
        int64_t ns;
        const char *label;
    } all[] = {{-1, "0.005"},         {0, "0.005"},          {5000000, "0.005"},
               {5000001, "0.01"},     {99999999, "0.1"},     {1000000000, "1.0"},
               {10000000000, "10.0"}, {10000000001, "+Inf"}, {INT64_MAX / 2, "+Inf"}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        buckets one = {0};
        size_t bucket = 0;
        buckets_add(&one, all[i].ns);
        buckets_seen seen = buckets_read(&one);
        while (!seen.counts[bucket])
            bucket++;
        assert_string_equal(buckets_label(bucket), all[i].label);
        assert_int_equal(seen.sum_ns, all[i].ns > 0 ? (uint64_t)all[i].ns : 0);
    }
}

static void fine_buckets_become_coarse_ones(void **state)
{
    histogram fine = {0};
    (void)state;
    histogram_add(&fine, 1000);
    histogram_add(&fine, 40000000);
    histogram_add(&fine, 60000000000);
    buckets_seen seen = buckets_of_histogram(&fine, 7);
    assert_int_equal(seen.counts[0], 1);
    assert_int_equal(seen.counts[3], 1);
    assert_int_equal(seen.counts[BUCKETS_COUNT - 1], 1);
    assert_int_equal(seen.sum_ns, 7);
}

static void metrics_are_written_in_both_formats(void **state)
{
    static const char *const wanted[] = {
        "# HELP a_total Help.\n# TYPE a_total counter\na_total{x=\"q\\\"\\\\\\n\"} 3\n"
        "# HELP b_info Info.\n# TYPE b_info gauge\nb_info 1\n",
        "# HELP a Help.\n# TYPE a counter\n# UNIT a seconds\na_total{x=\"q\\\"\\\\\\n\"} 3\n"
        "# HELP b Info.\n# TYPE b info\nb_info 1\n# EOF\n"};
    const metric_label labels[] = {{"x", "q\"\\\n"}, {0}};
    (void)state;
    for (int is_open = 0; is_open < 2; is_open++) {
        buffer text = {0};
        exposition out = {.to = &text, .is_open_metrics = is_open};
        exposition_family(&out, "a", METRIC_COUNTER, "seconds", "Help.");
        exposition_count(&out, labels, 3);
        exposition_family(&out, "b", METRIC_INFO, NULL, "Info.");
        exposition_count(&out, NULL, 1);
        exposition_end(&out);
        assert_string_equal(text.data, wanted[is_open]);
        buffer_free(&text);
    }
}

static void the_format_is_negotiated(void **state)
{
    static const struct {
        const char *accept;
        int is_open;
    } all[] = {
        {NULL, 0},
        {"", 0},
        {"*/*", 0},
        {"text/plain", 0},
        {"text/html, application/openmetrics-text", 1},
        {"application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;"
         "version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
         1},
        {"application/openmetrics-text;version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", 0},
        {"application/openmetrics-text; q=0.2, text/plain; q=0.9", 0},
        {"application/openmetrics-text;q=0", 0},
        {"APPLICATION/OpenMetrics-Text ; Q=1", 1},
        {"application/openmetrics-textual", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_int_equal(exposition_wants_open_metrics(all[i].accept), all[i].is_open);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regions_are_zeroed_and_apart),
        cmocka_unit_test(text_is_recognized_at_every_place),
        cmocka_unit_test(durations_are_put_into_buckets),
        cmocka_unit_test(fine_buckets_become_coarse_ones),
        cmocka_unit_test(metrics_are_written_in_both_formats),
        cmocka_unit_test(the_format_is_negotiated),
    };
    return cmocka_run_group_tests_name("support", tests, NULL, NULL);
}
