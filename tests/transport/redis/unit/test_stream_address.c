/* The URL of a queue in Redis: what it says, what it does not say, and what it must not say. */
#include "support/base/check.h"

#include "transport/redis/address.h"

#include <string.h>

static mem_arena arena;

static stream_address read_url(const char *url)
{
    stream_address at;
    OK(stream_address_read(&at, &arena, url, &last_error));
    return at;
}

static void refuses(const char *url, const char *why)
{
    stream_address at;
    FAILS(SEMEL_EINVAL, stream_address_read(&at, &arena, url, &last_error));
    SAYS(why);
    assert_null(strstr(last_error.text, "s3cret"));
}

static void all_parts_of_a_url_are_read(void **state)
{
    (void)state;
    stream_address at =
        read_url("rediss://a%64a:s3cret%2F%40@db:7000/3?stream=or%20ders&group=sh"
                 "ip%26ping&dead=gone&declare=yes&keep=no&claim_ms=5000&poll_ms=9&single_active=yes"
                 "&sync=yes&replicas=2&loss=warn&ca=/c.pem&connect_ms=7");
    assert_string_equal(at.stream, "or ders");
    assert_string_equal(at.group, "ship&ping");
    assert_string_equal(at.dead, "gone");
    assert_true(at.declare && at.keep == STREAM_KEEP_NONE);
    assert_int_equal(at.claim_ms, 5000);
    assert_int_equal(at.poll_ms, 9);
    assert_true(at.single_active);
    assert_string_equal(at.server.user, "ada");
    assert_string_equal(at.server.password, "s3cret/@");
    assert_string_equal(at.server.host, "db");
    assert_int_equal(at.server.port, 7000);
    assert_int_equal(at.server.database, 3);
    assert_true(at.server.tls && at.server.sync && at.server.allow_loss);
    assert_int_equal(at.server.replicas, 2);
}

static void what_a_url_does_not_say_has_a_default(void **state)
{
    (void)state;
    stream_address at = read_url("redis://?stream=orders");
    assert_string_equal(at.server.host, "127.0.0.1");
    assert_int_equal(at.server.port, 6379);
    assert_null(at.group);
    at = read_url("valkey://db?stream=orders&group=g");
    assert_true(!at.declare && at.keep == STREAM_KEEP_AUTO && !at.server.tls && !at.single_active);
    assert_int_equal(at.claim_ms, 60000);
    assert_int_equal(at.poll_ms, 500);
    assert_int_equal(read_url("redis://?stream=s&group=g&keep=yes").keep, STREAM_KEEP_ALL);
}

static void the_dead_stream_is_in_the_slot_of_the_stream(void **state)
{
    static const struct {
        const char *url, *dead;
    } names[] = {{"redis://?stream=orders&group=g", "{orders}:dead"},
                 {"redis://?stream=a{b}c&group=g", "a{b}c:dead"},
                 {"redis://?stream={b}&group=g", "{b}:dead"}};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        stream_address at = read_url(names[i].url);
        assert_string_equal(at.dead, names[i].dead);
        assert_true(stream_same_slot(at.stream, at.dead));
    }
    assert_false(stream_same_slot("orders", "orders:dead"));
    assert_false(stream_same_slot("a{}b", "c{}b")); /* nothing is between the braces */
    assert_true(stream_same_slot("x{a}", "y{a}{b}"));
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    refuses("redis://:s3cret@db", "stream= names");
    refuses("redis://:s3cret@db?group=g", "stream= names");
    refuses("redis://:s3cret@db?stream=", "stream is a name");
    refuses("redis://:s3cret@db?stream=s&group=", "group is a name");
    refuses("redis://:s3cret@db?stream=s&group=g&dead=s", "the same");
    refuses("redis://:s3cret@db?stream=s&declare=yes", "without group");
    refuses("redis://:s3cret@db?stream=s&keep=no", "without group");
    refuses("redis://:s3cret@db?stream=s&claim_ms=5000", "without group");
    refuses("redis://:s3cret@db?stream=s&group=g&claim_ms=99", "claim_ms");
    refuses("redis://:s3cret@db?stream=s&group=g&keep=perhaps", "keep");
    refuses("redis://:s3cret@db?stream=s&maxlen=1000", "maxlen");
    refuses("redis://:s3cret@db?stream=s&ca=/c", "rediss");
    refuses("redis://:s3cret@db/x?stream=s", "number of the database");
    refuses("redis:stream", "//");
}

/* A store may have the same scheme. */
static void a_store_is_told_from_a_queue(void **state)
{
    semel_store *store = NULL;
    semel_transport *transport = NULL;
    (void)state;
    refuses("redis://:s3cret@db?namespace=shop", "of a store in Redis");
    refuses("redis://:s3cret@db?stream=s&pool=3", "of a store in Redis");
    FAILS(SEMEL_EINVAL,
          semel_store_open(&store, "redis://:s3cret@db?stream=s&group=g", NULL, &last_error));
    SAYS("of a queue in Redis");
    FAILS(SEMEL_EINVAL, semel_transport_open(&transport, "redis://:s3cret@db", NULL, &last_error));
    SAYS("a queue in Redis is a stream");
}

static int free_texts(void **state)
{
    (void)state;
    arena_free(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_parts_of_a_url_are_read),
        cmocka_unit_test(what_a_url_does_not_say_has_a_default),
        cmocka_unit_test(the_dead_stream_is_in_the_slot_of_the_stream),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(a_store_is_told_from_a_queue)};
    return cmocka_run_group_tests(tests, NULL, free_texts);
}
