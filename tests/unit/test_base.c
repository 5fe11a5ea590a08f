/* The leaves: hash, memory, UUID, seam, error. */
#include "base/hash.h"
#include "base/mem.h"
#include "base/seam.h"
#include "base/uuid.h"

#include <setjmp.h> /* cmocka.h wants these before it */
#include <stdalign.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* --- hash ------------------------------------------------------------------------------------- */

static const hash_key reference_key = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};

/* From the reference implementation's vectors.h: the hash of 00, 01, ... of that length. */
static void hash_matches_the_reference_vectors(void **state)
{
    static const struct {
        size_t len;
        uint64_t hash;
    } vectors[] = {{0, UINT64_C(0x726fdb47dd0e0e31)},  {1, UINT64_C(0x74f839c593dc67fd)},
                   {7, UINT64_C(0xab0200f58b01d137)},  {8, UINT64_C(0x93f5f5799a932462)},
                   {15, UINT64_C(0xa129ca6149be45e5)}, {16, UINT64_C(0x3f2acc7f57c29bdb)},
                   {63, UINT64_C(0x958a324ceb064572)}};
    unsigned char input[63];
    (void)state;
    for (size_t i = 0; i < sizeof input; i++)
        input[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        assert_true(hash_bytes(reference_key, input, vectors[i].len) == vectors[i].hash);
}

static void hash_in_pieces_equals_hash_of_the_whole(void **state)
{
    unsigned char input[40];
    (void)state;
    for (size_t i = 0; i < sizeof input; i++)
        input[i] = (unsigned char)(i * 37);
    uint64_t whole = hash_bytes(reference_key, input, sizeof input);
    for (size_t first = 0; first <= sizeof input; first++)
        for (size_t second = first; second <= sizeof input; second++) {
            hash_state pieces;
            hash_begin(&pieces, reference_key);
            hash_add(&pieces, input, first);
            hash_add(&pieces, input + first, second - first);
            hash_add(&pieces, input + second, sizeof input - second);
            assert_true(hash_end(&pieces) == whole);
        }
}

static void hash_of_nothing_needs_no_pointer(void **state)
{
    (void)state;
    assert_true(hash_bytes(reference_key, NULL, 0) == hash_bytes(reference_key, "", 0));
}

/* --- memory ----------------------------------------------------------------------------------- */

static void alloc_gives_zeroed_memory_even_for_nothing(void **state)
{
    (void)state;
    unsigned char *memory = mem_alloc(100);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(memory[i], 0);
    mem_free(memory);
    memory = mem_alloc(0);
    assert_non_null(memory);
    mem_free(memory);
    mem_free(NULL);
}

static void arena_memory_is_aligned_for_anything(void **state)
{
    mem_arena arena = {0};
    (void)state;
    for (size_t size = 1; size < 100; size++) {
        uintptr_t at = (uintptr_t)arena_alloc(&arena, size);
        assert_int_equal(at % alignof(max_align_t), 0);
    }
    arena_free(&arena);
}

static void arena_blocks_do_not_overlap(void **state)
{
    enum { BLOCKS = 200 };
    unsigned char *blocks[BLOCKS];
    mem_arena arena = {0};
    (void)state;
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = arena_alloc(&arena, i * 7);
        memset(blocks[i], (int)i, i * 7);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        for (size_t k = 0; k < i * 7; k++)
            assert_int_equal(blocks[i][k], i);
    arena_free(&arena);
}

static void arena_copy_adds_a_nul(void **state)
{
    mem_arena arena = {0};
    (void)state;
    memset(arena_alloc(&arena, 64), 'x', 64);
    arena_reset(&arena);
    assert_string_equal(arena_copy(&arena, "abcdef", 3), "abc");
    assert_string_equal(arena_copy(&arena, NULL, 0), "");
    arena_free(&arena);
}

static void use_like_a_batch(mem_arena *arena)
{
    static const size_t sizes[] = {10, 20000, 300, 16384, 5, 70000, 1, 9000, 9000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        memset(arena_alloc(arena, sizes[i]), 1, sizes[i]);
}

static void arena_reset_makes_a_steady_state_allocate_nothing(void **state)
{
    mem_arena arena = {0};
    (void)state;
    use_like_a_batch(&arena);
    long before = mem_allocations();
    arena_reset(&arena);
    void *first = arena_alloc(&arena, 1);
    arena_reset(&arena);
    assert_ptr_equal(arena_alloc(&arena, 1), first);
    for (int round = 0; round < 10; round++) {
        arena_reset(&arena);
        use_like_a_batch(&arena);
    }
    assert_int_equal(mem_allocations(), before);
    arena_free(&arena);
}

/* Chunks begin with the pointer to the next; that much of mem.c is known here. */
static size_t chunk_count(const mem_arena *arena)
{
    size_t count = 0;
    for (const void *chunk = arena->first; chunk; count++)
        memcpy(&chunk, chunk, sizeof chunk);
    return count;
}

static void arena_keeps_no_chunk_that_growing_sizes_left_behind(void **state)
{
    mem_arena arena = {0};
    (void)state;
    for (size_t size = 20000; size < 20100; size++) {
        arena_reset(&arena);
        assert_non_null(arena_alloc(&arena, 100));
        assert_non_null(arena_alloc(&arena, size));
    }
    assert_true(chunk_count(&arena) <= 3);
    arena_free(&arena);
}

static void arena_survives_being_freed_and_used_again(void **state)
{
    mem_arena arena = {0};
    (void)state;
    arena_reset(&arena);
    arena_free(&arena);
    assert_non_null(arena_alloc(&arena, 8));
    arena_free(&arena);
    arena_free(&arena);
}

static void a_size_that_cannot_be_is_refused(void **state)
{
    mem_arena arena = {0};
    (void)state;
    assert_null(arena_alloc(&arena, SIZE_MAX));
    assert_null(arena_copy(&arena, "", SIZE_MAX));
    arena_free(&arena);
}

static void fail_at_makes_the_nth_allocation_fail_and_no_other(void **state)
{
    (void)state;
    mem_fail_at(3);
    void *first = mem_alloc(1);
    void *second = mem_resize(NULL, 1);
    assert_non_null(first);
    assert_non_null(second);
    assert_null(mem_alloc(1));
    void *fourth = mem_alloc(1);
    assert_non_null(fourth);
    mem_free(first);
    mem_free(second);
    mem_free(fourth);
}

static void fail_at_reaches_arenas_and_leaves_them_usable(void **state)
{
    mem_arena arena = {0};
    (void)state;
    char *kept = arena_copy(&arena, "kept", 4);
    mem_fail_at(1);
    assert_null(arena_alloc(&arena, 100000));
    assert_string_equal(kept, "kept");
    assert_non_null(arena_alloc(&arena, 100000));
    mem_fail_at(1);
    mem_fail_at(0);
    void *memory = mem_alloc(1);
    assert_non_null(memory);
    mem_free(memory);
    arena_free(&arena);
}

/* --- UUID ------------------------------------------------------------------------------------- */

static void uuid_v7_has_its_form_and_gives_its_time_back(void **state)
{
    static const unsigned char noise[10] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    char text[UUID_TEXT + 1];
    (void)state;
    uuid_v7(text, INT64_C(0x017f22e279b0), noise); /* the time of RFC 9562's example */
    assert_string_equal(text, "017f22e2-79b0-7fff-bfff-ffffffffffff");
    assert_true(uuid_v7_time(text, UUID_TEXT) == INT64_C(0x017f22e279b0));
    assert_true(uuid_v7_time("017F22E2-79B0-7CC3-98C4-DC0C0C07398F", UUID_TEXT) ==
                INT64_C(0x017f22e279b0));
}

static void uuid_v7_sorts_by_time(void **state)
{
    static const int64_t times[] = {1,
                                    255,
                                    256,
                                    65535,
                                    1000000,
                                    INT64_C(1700000000000),
                                    INT64_C(1700000000001),
                                    INT64_C(0xffffffffffff)};
    unsigned char noise[10];
    char before[UUID_TEXT + 1] = "", now[UUID_TEXT + 1];
    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        memset(noise, i % 2 ? 0 : 255, sizeof noise);
        uuid_v7(now, times[i], noise);
        assert_true(strcmp(before, now) < 0);
        assert_true(uuid_v7_time(now, UUID_TEXT) == times[i]);
        memcpy(before, now, sizeof now);
    }
}

static void what_is_no_uuid_v7_has_no_time(void **state)
{
    static const char *const others[] = {
        "017f22e2-79b0-4cc3-98c4-dc0c0c07398f", /* version 4 */
        "017f22e2-79b0-7cc3-c8c4-dc0c0c07398f", /* another variant */
        "017f22e2+79b0-7cc3-98c4-dc0c0c07398f", "017f22e2-79b0-7cc3-98c4-dc0c0c07398g",
        "g17f22e2-79b0-7cc3-98c4-dc0c0c07398f", "017f22e279b0-7cc3-98c4-dc0c0c07398ff"};
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_true(uuid_v7_time(others[i], strlen(others[i])) == 0);
    assert_true(uuid_v7_time("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", 35) == 0);
    assert_true(uuid_v7_time(NULL, 0) == 0);
}

static void ulid_gives_its_time_in_either_case(void **state)
{
    (void)state;
    assert_true(ulid_time("01ARZ3NDEKTSV4RRFFQ69G5FAV", 26) == INT64_C(1469922850259));
    assert_true(ulid_time("01arz3ndektsv4rrffq69g5fav", 26) == INT64_C(1469922850259));
    assert_true(ulid_time("7ZZZZZZZZZZZZZZZZZZZZZZZZZ", 26) == INT64_C(0xffffffffffff));
    assert_true(ulid_time("8ZZZZZZZZZZZZZZZZZZZZZZZZZ", 26) == 0);
    assert_true(ulid_time("01ARZ3NDEKTSV4RRFFQ69G5FAU", 26) == 0); /* no U in the alphabet */
    assert_true(ulid_time("01ARZ3NDEKTSV4RRFFQ69G5FA", 25) == 0);
    assert_true(ulid_time("01ARZ3NDEKTSV4RRFFQ69G5F\0V", 26) == 0);
}

/* --- seam ------------------------------------------------------------------------------------- */

static int64_t fixed_time(void *context)
{
    return *(int64_t *)context;
}

/* The bytes of a counter that grows by a large odd step: all remainders turn up. */
static void counting_random(void *context, void *bytes, size_t len)
{
    *(uint64_t *)context += UINT64_C(0x9e3779b97f4a7c15);
    assert_int_equal(len, sizeof(uint64_t));
    memcpy(bytes, context, len);
}

static void backoff_lies_between_half_and_all_of_its_step(void **state)
{
    uint64_t counter = 0;
    semel_seam seam, given = {.size = sizeof given, .context = &counter, .random = counting_random};
    (void)state;
    seam_complete(&seam, &given);
    for (uint32_t failures = 1; failures < 70; failures++) {
        uint64_t step = failures < 10 ? UINT64_C(200) << (failures - 1) : 60000;
        step = step > 60000 ? 60000 : step;
        uint32_t least = UINT32_MAX, most = 0;
        for (int i = 0; i < 1000; i++) {
            uint32_t delay = seam_backoff_ms(&seam, 200, 60000, failures);
            assert_in_range(delay, (step + 1) / 2, step);
            least = delay < least ? delay : least;
            most = delay > most ? delay : most;
        }
        assert_true(most - least > step / 4); /* there is jitter */
    }
}

static void backoff_has_no_overflow_at_the_edges(void **state)
{
    uint64_t counter = 0;
    semel_seam seam, given = {.size = sizeof given, .context = &counter, .random = counting_random};
    (void)state;
    seam_complete(&seam, &given);
    assert_int_equal(seam_backoff_ms(&seam, 0, 60000, 5), 0);
    assert_int_equal(seam_backoff_ms(&seam, 1, 1, UINT32_MAX), 1);
    assert_in_range(seam_backoff_ms(&seam, UINT32_MAX, UINT32_MAX, UINT32_MAX), UINT32_MAX / 2,
                    UINT32_MAX);
    assert_in_range(seam_backoff_ms(&seam, 500, 100, 1), 50, 100);
    assert_in_range(seam_backoff_ms(&seam, 100, 1000, 0), 50, 100);
    assert_int_equal(seam_random_below(&seam, 0), 0);
}

static void an_older_seam_is_read_as_far_as_it_goes(void **state)
{
    int64_t time = 1234;
    semel_seam seam, given = {.size = offsetof(semel_seam, steady_ms),
                              .context = &time,
                              .wall_ms = fixed_time,
                              .steady_ms = fixed_time};
    (void)state;
    seam_complete(&seam, &given);
    assert_int_equal(seam_wall_ms(&seam), 1234);
    assert_ptr_not_equal(seam.steady_ms, fixed_time);
    assert_null(seam.fault);
    assert_int_equal(seam.size, sizeof seam);
}

static void the_system_seam_is_complete(void **state)
{
    semel_seam seam;
    char boot[37] = "?";
    (void)state;
    seam_complete(&seam, NULL);
    assert_true(seam_wall_ms(&seam) > INT64_C(1700000000000));
    int64_t before = seam_steady_ms(&seam);
    seam_sleep_ms(&seam, 2);
    assert_true(seam_steady_ms(&seam) >= before + 1);
    assert_true(seam_random(&seam) != seam_random(&seam));
    seam.boot_id(seam.context, boot);
    assert_true(boot[0] == 0 || strlen(boot) == 36);
    assert_int_equal(seam_fault(&seam, "nowhere", NULL), SEMEL_OK);
}

static semel_status always_busy(void *context, const char *point)
{
    (void)context;
    return strcmp(point, "here") == 0 ? SEMEL_EBUSY : SEMEL_OK;
}

static void a_fault_is_reported_with_its_point(void **state)
{
    semel_error err = {0};
    semel_seam seam, given = {.size = sizeof given, .fault = always_busy};
    (void)state;
    seam_complete(&seam, &given);
    assert_int_equal(seam_fault(&seam, "there", &err), SEMEL_OK);
    assert_int_equal(seam_fault(&seam, "here", &err), SEMEL_EBUSY);
    assert_non_null(strstr(err.text, "here"));
}

/* --- error ------------------------------------------------------------------------------------ */

static void an_error_is_one_line(void **state)
{
    semel_error err = {0};
    (void)state;
    assert_int_equal(semel_fail(&err, SEMEL_ESTORE, "a\nb\r\tc\x7f%s", "\x1b[31m"), SEMEL_ESTORE);
    assert_string_equal(err.text, "a b  c  [31m");
    assert_int_equal(err.status, SEMEL_ESTORE);
}

static void an_error_too_long_is_cut_and_ends(void **state)
{
    char longer[2 * sizeof(semel_error)];
    semel_error err;
    (void)state;
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = 0;
    memset(&err, 'y', sizeof err);
    (void)semel_fail(&err, SEMEL_EINVAL, "%s", longer);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

static void an_error_carries_nothing_of_the_one_before(void **state)
{
    semel_error err, expected = {.status = SEMEL_EINVAL, .text = "short"};
    (void)state;
    memset(&err, 'y', sizeof err);
    (void)semel_fail(&err, SEMEL_EINVAL, "short");
    assert_memory_equal(&err, &expected, sizeof err);
}

static void an_error_may_quote_itself(void **state)
{
    semel_error err = {0};
    (void)state;
    (void)semel_fail(&err, SEMEL_ESTORE, "disk full");
    (void)semel_fail(&err, SEMEL_EBUSY, "sweep: %s", err.text);
    assert_string_equal(err.text, "sweep: disk full");
    assert_int_equal(semel_fail(NULL, SEMEL_EBUSY, "not listening"), SEMEL_EBUSY);
}

static void what_may_pass_is_retryable_and_nothing_else(void **state)
{
    static const struct {
        semel_status status;
        int retryable;
    } all[] = {{SEMEL_EINVAL, 0},    {SEMEL_EMISUSE, 0},   {SEMEL_EUNSUPPORTED, 0},
               {SEMEL_ENOTFOUND, 0}, {SEMEL_ELIMIT, 0},    {SEMEL_ESCHEMA, 0},
               {SEMEL_EBUSY, 1},     {SEMEL_ECONFLICT, 1}, {SEMEL_EUNAVAILABLE, 1},
               {SEMEL_ENOMEM, 0},    {SEMEL_ESTORE, 0},    {SEMEL_ETRANSPORT, 0},
               {SEMEL_EUNKNOWN, 1},  {SEMEL_ELOST, 1},     {SEMEL_EREJECTED, 0},
               {SEMEL_EHANDLER, 1},  {SEMEL_EGIVEUP, 0},   {SEMEL_ESTOPPED, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        semel_error err = {0};
        (void)semel_fail(&err, all[i].status, "x");
        assert_int_equal(err.retryable, all[i].retryable);
        assert_int_equal(strncmp(semel_status_name(all[i].status), "SEMEL_E", 7), 0);
        assert_string_not_equal(semel_status_name(all[i].status), "SEMEL_E?");
    }
    assert_string_equal(semel_status_name(SEMEL_OK), "SEMEL_OK");
    assert_string_equal(semel_status_name((semel_status)99), "SEMEL_E?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hash_matches_the_reference_vectors),
        cmocka_unit_test(hash_in_pieces_equals_hash_of_the_whole),
        cmocka_unit_test(hash_of_nothing_needs_no_pointer),
        cmocka_unit_test(alloc_gives_zeroed_memory_even_for_nothing),
        cmocka_unit_test(arena_memory_is_aligned_for_anything),
        cmocka_unit_test(arena_blocks_do_not_overlap),
        cmocka_unit_test(arena_copy_adds_a_nul),
        cmocka_unit_test(arena_reset_makes_a_steady_state_allocate_nothing),
        cmocka_unit_test(arena_keeps_no_chunk_that_growing_sizes_left_behind),
        cmocka_unit_test(arena_survives_being_freed_and_used_again),
        cmocka_unit_test(a_size_that_cannot_be_is_refused),
        cmocka_unit_test(fail_at_makes_the_nth_allocation_fail_and_no_other),
        cmocka_unit_test(fail_at_reaches_arenas_and_leaves_them_usable),
        cmocka_unit_test(uuid_v7_has_its_form_and_gives_its_time_back),
        cmocka_unit_test(uuid_v7_sorts_by_time),
        cmocka_unit_test(what_is_no_uuid_v7_has_no_time),
        cmocka_unit_test(ulid_gives_its_time_in_either_case),
        cmocka_unit_test(backoff_lies_between_half_and_all_of_its_step),
        cmocka_unit_test(backoff_has_no_overflow_at_the_edges),
        cmocka_unit_test(an_older_seam_is_read_as_far_as_it_goes),
        cmocka_unit_test(the_system_seam_is_complete),
        cmocka_unit_test(a_fault_is_reported_with_its_point),
        cmocka_unit_test(an_error_is_one_line),
        cmocka_unit_test(an_error_too_long_is_cut_and_ends),
        cmocka_unit_test(an_error_carries_nothing_of_the_one_before),
        cmocka_unit_test(an_error_may_quote_itself),
        cmocka_unit_test(what_may_pass_is_retryable_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
