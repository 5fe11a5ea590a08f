/* The memory store by itself: dead letters. */
#include "memory_kit.h"

#include <stdio.h>

typedef struct shown {
    size_t count;
    int64_t ids[16];
    char text[256]; /* "key=error/attempts ..." */
} shown;

static semel_status show(const semel_dead *dead, void *context, semel_error *err)
{
    shown *all = context;
    (void)err;
    all->ids[all->count++] = dead->id;
    size_t at = strlen(all->text);
    (void)snprintf(all->text + at, sizeof all->text - at, "%s%.*s=%s/%u", at ? " " : "",
                   (int)dead->key.len, (const char *)dead->key.data, dead->error, dead->attempts);
    return dead->message ? SEMEL_OK : SEMEL_ESTORE;
}

static shown list_in(rig *r, void *unit, semel_dead_filter filter)
{
    shown all = {.count = 0};
    filter.size = sizeof filter;
    filter.limit = filter.limit ? filter.limit : 16;
    assert_int_equal(driver->dead->list(unit, &filter, show, &all, &r->err), SEMEL_OK);
    return all;
}

static shown list(rig *r, semel_dead_filter filter)
{
    void *unit = begin(r);
    shown all = list_in(r, unit, filter);
    rollback(unit);
    return all;
}

static void bury(rig *r, void *unit, semel_dead_origin origin, const char *key, const char *error,
                 uint32_t attempts)
{
    semel_message message = {.size = sizeof message, .id = semel_str(key)};
    semel_dead dead = {.size = sizeof dead,
                       .origin = origin,
                       .name = origin == SEMEL_DEAD_INBOX ? "in" : "out",
                       .key = semel_str(key),
                       .message = &message,
                       .attempts = attempts,
                       .error = error};
    assert_int_equal(driver->dead->put(unit, &dead, &r->err), SEMEL_OK);
}

static void a_second_letter_of_a_key_replaces_the_first_under_its_id(void **state)
{
    rig *r = *state;
    void *unit = begin(r);
    bury(r, unit, SEMEL_DEAD_INBOX, "a", "one", 1);
    bury(r, unit, SEMEL_DEAD_INBOX, "b", "two", 2);
    bury(r, unit, SEMEL_DEAD_OUTBOX, "a", "three", 3);
    commit(r, unit);
    shown before = list(r, (semel_dead_filter){0});
    assert_string_equal(before.text, "a=one/1 b=two/2 a=three/3");
    unit = begin(r);
    bury(r, unit, SEMEL_DEAD_INBOX, "a", "four", 4);
    assert_string_equal(list_in(r, unit, (semel_dead_filter){0}).text,
                        "a=four/4 b=two/2 a=three/3");
    assert_string_equal(list(r, (semel_dead_filter){0}).text, before.text);
    rollback(unit);
    assert_string_equal(list(r, (semel_dead_filter){0}).text, before.text);
    unit = begin(r);
    bury(r, unit, SEMEL_DEAD_INBOX, "a", "five", 5);
    commit(r, unit);
    shown after = list(r, (semel_dead_filter){0});
    assert_string_equal(after.text, "a=five/5 b=two/2 a=three/3");
    assert_memory_equal(after.ids, before.ids, sizeof before.ids);
}

static void letters_are_filtered_and_come_in_pages(void **state)
{
    rig *r = *state;
    void *unit = begin(r);
    bury(r, unit, SEMEL_DEAD_INBOX, "a", "x", 1);
    bury(r, unit, SEMEL_DEAD_OUTBOX, "b", "x", 1);
    bury(r, unit, SEMEL_DEAD_INBOX, "c", "x", 1);
    bury(r, unit, SEMEL_DEAD_INBOX, "d", "x", 1);
    commit(r, unit);
    semel_dead_filter inbox = {.origin = SEMEL_DEAD_INBOX, .limit = 2};
    shown page = list(r, inbox);
    assert_string_equal(page.text, "a=x/1 c=x/1");
    inbox.after_id = page.ids[1];
    assert_string_equal(list(r, inbox).text, "d=x/1");
    inbox.after_id = page.ids[1] - 1;
    assert_string_equal(list(r, inbox).text, "c=x/1 d=x/1");
    assert_string_equal(list(r, (semel_dead_filter){.name = "out"}).text, "b=x/1");
    assert_int_equal(list(r, (semel_dead_filter){.name = "none"}).count, 0);
    assert_int_equal(list(r, (semel_dead_filter){.after_id = -7}).count, 4);
    assert_int_equal(list(r, (semel_dead_filter){.after_id = INT64_MAX - 1}).count, 0);
}

static void dropping_a_letter_is_part_of_its_unit(void **state)
{
    rig *r = *state;
    void *unit = begin(r);
    bury(r, unit, SEMEL_DEAD_INBOX, "a", "x", 1);
    commit(r, unit);
    int64_t id = list(r, (semel_dead_filter){0}).ids[0];
    unit = begin(r);
    assert_int_equal(driver->dead->drop(unit, id + 1, &r->err), SEMEL_ENOTFOUND);
    assert_int_equal(driver->dead->drop(unit, id, &r->err), SEMEL_OK);
    assert_int_equal(driver->dead->drop(unit, id, &r->err), SEMEL_ENOTFOUND);
    assert_int_equal(list_in(r, unit, (semel_dead_filter){0}).count, 0);
    assert_int_equal(list(r, (semel_dead_filter){0}).count, 1);
    void *other = begin(r);
    assert_int_equal(driver->dead->drop(other, id, &r->err), SEMEL_EBUSY);
    rollback(other);
    rollback(unit);
    unit = begin(r);
    assert_int_equal(driver->dead->drop(unit, id, &r->err), SEMEL_OK);
    bury(r, unit, SEMEL_DEAD_INBOX, "a", "again", 2);
    assert_int_equal(driver->dead->drop(unit, id, &r->err), SEMEL_OK);
    commit(r, unit);
    assert_int_equal(list(r, (semel_dead_filter){0}).count, 0);
}

static void a_new_letter_is_not_seen_before_the_commit(void **state)
{
    rig *r = *state;
    void *unit = begin(r);
    bury(r, unit, SEMEL_DEAD_INBOX, "a", "x", 1);
    assert_int_equal(list(r, (semel_dead_filter){0}).count, 0);
    assert_int_equal(list_in(r, unit, (semel_dead_filter){0}).count, 1);
    rollback(unit);
    assert_int_equal(list(r, (semel_dead_filter){0}).count, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_second_letter_of_a_key_replaces_the_first_under_its_id),
        TEST(letters_are_filtered_and_come_in_pages),
        TEST(dropping_a_letter_is_part_of_its_unit),
        TEST(a_new_letter_is_not_seen_before_the_commit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
