/* Commands of the application's own: what can be queued, and what of them is left when one
 * fails. */
#include "redis_kit.h"

#include <stdio.h>
#include <string.h>

static int set_up(void **state)
{
    static redis_case c;
    redis_case_open(&c, NULL);
    *state = &c;
    return 0;
}

static int tear_down(void **state)
{
    redis_case_close(*state);
    return 0;
}

/* --- texts ------------------------------------------------------------------------------------ */

static void says_no(redis_case *c, semel_status status, const char *text, const char *part)
{
    FAILS(status, redis_keyed_driver.queue(c->store, text, NULL, 0, &last_error));
    SAYS(part);
}

static void what_cannot_be_queued(void **state)
{
    redis_case *c = *state;
    char own[256], name[64];
    (void)snprintf(name, sizeof name, "%s", strchr(c->url, '=') + 1);
    says_no(c, SEMEL_EINVAL, "", "begins with its name");
    says_no(c, SEMEL_EINVAL, "   ", "begins with its name");
    says_no(c, SEMEL_EINVAL, "GET k", "GET is not a command that can be queued");
    says_no(c, SEMEL_EINVAL, "BLPOP k 0", "not a command");
    says_no(c, SEMEL_EINVAL, "FLUSHALL", "not a command");
    says_no(c, SEMEL_EINVAL, "EVAL x 0", "not a command");
    says_no(c, SEMEL_EINVAL, "MULTI", "not a command");
    says_no(c, SEMEL_EINVAL, "SET k", "SET takes at least 2 words after it, not 1");
    says_no(c, SEMEL_EINVAL, "SET k 'v", "does not end");
    says_no(c, SEMEL_EINVAL, "SET k ?", "more question marks than values");
    (void)snprintf(own, sizeof own, "DEL other {%s}/m/1", name);
    says_no(c, SEMEL_EINVAL, own, "are semel's own");
    semel_value values[] = {semel_int(1), semel_null()};
    FAILS(SEMEL_EINVAL, redis_keyed_driver.queue(c->store, "SET k v", values, 1, &last_error));
    SAYS("0 question marks for 1 values");
    FAILS(SEMEL_EINVAL, redis_keyed_driver.queue(c->store, "SET k:? ?", values, 2, &last_error));
    SAYS("value 2 is NULL");
    /* Before values are known. */
    OK(redis_keyed_driver.queue(c->store, "SET ? ?", NULL, 2, &last_error));
    FAILS(SEMEL_EINVAL, redis_keyed_driver.queue(c->store, "? k", NULL, 1, &last_error));
}

static void reads_as(redis_case *c, const char *text, const semel_value values[], size_t count,
                     const char *const words[])
{
    mem_arena arena = {0};
    redis_command command;
    size_t i = 0;
    OK(redis_command_read(&command, c->store, &arena, text, values, count, &last_error));
    for (; words[i]; i++) {
        assert_true(i < command.count);
        BYTES_EQUAL(bytes_of(words[i]), command.words[i]);
    }
    assert_int_equal(i, command.count);
    arena_free(&arena);
}

static void words_and_values(void **state)
{
    redis_case *c = *state;
    semel_value values[] = {semel_int(-7), semel_text("a ? b"), semel_real(0.5)};
    reads_as(c, "set k v", NULL, 0, (const char *const[]){"set", "k", "v", NULL});
    reads_as(c, "  HSET\tk \n f 'a b' ", NULL, 0,
             (const char *const[]){"HSET", "k", "f", "a b", NULL});
    reads_as(c, "SET k \"a\\\"\\\\\\n\\x41?\"", NULL, 0,
             (const char *const[]){"SET", "k", "a\"\\\nA?", NULL});
    reads_as(c, "SET k ''", NULL, 0, (const char *const[]){"SET", "k", "", NULL});
    reads_as(c, "HSET k:?:x ? ?", values, 3,
             (const char *const[]){"HSET", "k:-7:x", "a ? b", "0.5", NULL});
    reads_as(c, "SET k'?'? ?''? ", values, 3,
             (const char *const[]){"SET", "k?-7", "a ? b0.5", NULL});
    reads_as(c, "SET k?? ?", values, 1, (const char *const[]){"SET", "k?", "-7", NULL});
}

static void keys_of_commands(void **state)
{
    static const struct {
        const char *text;
        size_t keys;
    } known[] = {{"SET a b", 1},         {"DEL a b c", 3},  {"MSET a 1 b 2", 2},
                 {"BITOP AND d a b", 3}, {"RENAME a b", 2}, {"SUNIONSTORE d a b", 3},
                 {"XADD s * f v", 1},    {"MSET a 1 b", 2}};
    redis_case *c = *state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        mem_arena arena = {0};
        redis_command command;
        OK(redis_command_read(&command, c->store, &arena, known[i].text, NULL, 0, &last_error));
        assert_int_equal(redis_command_keys(&command), known[i].keys);
        arena_free(&arena);
    }
}

/* --- together with records -------------------------------------------------------------------- */

static semel_keyed_change queued(const char *text)
{
    return (semel_keyed_change){.kind = SEMEL_KEYED_FOREIGN, .statement = text};
}

static semel_status write_with(redis_case *c, const char *const texts[])
{
    semel_keyed_change changes[8] = {change_text("m/1", "marker", "done")};
    size_t count = 1;
    for (; texts[count - 1]; count++)
        changes[count] = queued(texts[count - 1]);
    return redis_keyed_driver.apply(c->store, changes, count, SEMEL_BEGIN_DURABLE, NULL, NULL,
                                    &last_error);
}

/* Keys of this test only, of which there are as many as a number. */
static void run(redis_case *c, const char *format)
{
    char command[256];
    (void)snprintf(command, sizeof command, format, strchr(c->url, '=') + 1);
    server_run(c->url, command);
}

static int64_t number(redis_case *c, const char *format)
{
    char command[256];
    (void)snprintf(command, sizeof command, format, strchr(c->url, '=') + 1);
    return server_number(c->url, command);
}

static const char *named(redis_case *c, char out[256], const char *format)
{
    (void)snprintf(out, 256, format, strchr(c->url, '=') + 1);
    return out;
}

static void all_of_them(void **state)
{
    redis_case *c = *state;
    char one[256], two[256], three[256];
    const char *const texts[] = {named(c, one, "HINCRBY {%s}stock apples -3"),
                                 named(c, two, "RPUSH {%s}log sold"),
                                 named(c, three, "HINCRBY {%s}stock pears 1"), NULL};
    OK(write_with(c, texts));
    assert_int_equal(number(c, "HGET {%s}stock apples"), -3);
    assert_int_equal(number(c, "HGET {%s}stock pears"), 1);
    assert_int_equal(number(c, "LLEN {%s}log"), 1);
    FAILS(SEMEL_ECONFLICT, write_with(c, texts)); /* a copy */
    assert_int_equal(number(c, "HGET {%s}stock apples"), -3);
    assert_int_equal(number(c, "LLEN {%s}log"), 1);
}

/* The third fails: what the first two wrote is undone, with the time to live of what was there. */
static void what_was_before_comes_back(void **state)
{
    redis_case *c = *state;
    char one[256], two[256], three[256];
    const char *const texts[] = {named(c, one, "INCRBY {%s}sum 5"),
                                 named(c, two, "RPUSH {%s}new x"),
                                 named(c, three, "HINCRBY {%s}hash text 1"), NULL};
    run(c, "SET {%s}sum 10 PX 600000");
    run(c, "HSET {%s}hash text none");
    FAILS(SEMEL_EHANDLER, write_with(c, texts));
    SAYS("command 3 (HINCRBY) failed");
    SAYS("not an integer");
    assert_null(strstr(last_error.text, "stay"));
    assert_int_equal(number(c, "GET {%s}sum"), 10);
    assert_true(number(c, "PTTL {%s}sum") > 500000);
    assert_int_equal(number(c, "EXISTS {%s}new"), 0);
    assert_false(redis_case_has(c->store, "marker"));
}

static void a_key_of_another_type(void **state)
{
    redis_case *c = *state;
    char one[256], two[256];
    const char *const texts[] = {named(c, one, "SADD {%s}set x"), named(c, two, "LPUSH {%s}text x"),
                                 NULL};
    run(c, "SET {%s}text value");
    FAILS(SEMEL_EHANDLER, write_with(c, texts));
    SAYS("WRONGTYPE");
    assert_int_equal(number(c, "EXISTS {%s}set"), 0);
    assert_false(redis_case_has(c->store, "marker"));
}

/* What is said to remain: a large key before a command whose values are wrong. */
static void large_keys_cannot_come_back(void **state)
{
    redis_case *c = *state;
    char one[256], two[256];
    const char *const texts[] = {named(c, one, "SETRANGE {%s}large 0 y"),
                                 named(c, two, "INCR {%s}text"), NULL};
    run(c, "SETRANGE {%s}large 70000 x");
    run(c, "SET {%s}text value");
    FAILS(SEMEL_EHANDLER, write_with(c, texts));
    SAYS("1 keys that commands before it had changed are too large to be put back");
    assert_false(redis_case_has(c->store, "marker"));
}

/* One command leaves nothing behind when it fails, whatever the size of its key. */
static void one_that_fails(void **state)
{
    redis_case *c = *state;
    char one[256];
    const char *const texts[] = {named(c, one, "INCR {%s}text"), NULL};
    run(c, "SET {%s}text value");
    FAILS(SEMEL_EHANDLER, write_with(c, texts));
    assert_null(strstr(last_error.text, "stay"));
    assert_false(redis_case_has(c->store, "marker"));
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(what_cannot_be_queued),
                                       TEST(words_and_values),
                                       TEST(keys_of_commands),
                                       TEST(all_of_them),
                                       TEST(what_was_before_comes_back),
                                       TEST(a_key_of_another_type),
                                       TEST(large_keys_cannot_come_back),
                                       TEST(one_that_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
