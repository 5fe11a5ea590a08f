/* Keys are bytes, compared exactly (P14): what a collation, a column's width or a C string would
 * take for the same is not the same. */
#include "support/conformance/conformance_store.h"

#include "base/digest.h"

#include <string.h>

/* A key function: the body is the key, whatever its bytes. */
static semel_status body_is_key(void *key, size_t capacity, size_t *len,
                                const semel_message *message, void *context, semel_error *err)
{
    (void)context;
    *len = message->body.len;
    if (message->body.len > capacity)
        return semel_fail(err, SEMEL_ELIMIT, "it needs more room");
    memcpy(key, message->body.data, message->body.len);
    return SEMEL_OK;
}

static semel_inbox *open_inbox_by_body(store_fixture *f)
{
    semel_inbox_options options = {.size = sizeof options, .key_function = body_is_key};
    return open_inbox(f, "keys", &options);
}

static semel_message keyed(semel_bytes key)
{
    return (semel_message){.size = sizeof(semel_message), .type = "keyed", .body = key};
}

/* All are handled, then all are known: whichever two were taken for one would show in either
 * round. */
static void expect_all_different(store_fixture *f, const semel_bytes keys[], size_t count)
{
    semel_inbox *inbox = open_inbox_by_body(f);
    scripted_handler done = {0};
    for (size_t i = 0; i < count; i++) {
        semel_message message = keyed(keys[i]);
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &done);
    }
    for (size_t i = 0; i < count; i++) {
        semel_message message = keyed(keys[i]);
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &done);
    }
    assert_int_equal(done.runs, count);
}

static void keys_that_look_alike_are_different(void **state)
{
    static const semel_bytes keys[] = {{"order", 5},
                                       {"Order", 5},
                                       {"ORDER", 5},
                                       {"order ", 6},
                                       {" order", 6},
                                       {"order\0", 6},
                                       {"order\0\0", 7},
                                       {"\0order", 6},
                                       {"order\0x", 7},
                                       {"order\0y", 7},
                                       {"\0", 1},
                                       {"\0\0", 2},
                                       {"1", 1},
                                       {"01", 2},
                                       {"1.0", 3},
                                       {"stra\xc3\x9f"
                                        "e",
                                        7},
                                       {"strasse", 7},
                                       {"\xc3\xa9", 2},
                                       {"e\xcc\x81", 3},
                                       {"e", 1},
                                       {"\xc3\x28", 2},
                                       {"\xa0\xa1", 2},
                                       {"\x80", 1},
                                       {"\xfe", 1},
                                       {"\xc3", 1},
                                       {"order%", 6},
                                       {"order'--", 8},
                                       {"order_", 6},
                                       {"\n", 1},
                                       {"\r\n", 2},
                                       {"\t", 1},
                                       {" ", 1}};
    expect_all_different(*state, keys, sizeof keys / sizeof *keys);
}

/* Keys over SEMEL_KEY_MAX are kept as digests. Where these are not built in they are refused, and
 * nothing is done. */
static int are_refused(store_fixture *f, semel_bytes long_key)
{
    semel_outcome outcome;
    scripted_handler done = {0};
    if (digest_built_in())
        return 0;
    semel_message message = keyed(long_key);
    FAILS(SEMEL_EREJECTED, semel_inbox_receive(&outcome, open_inbox_by_body(f), &message,
                                               scripted_handler_run, &done, &last_error));
    SAYS("SEMEL_OPENSSL=ON");
    assert_int_equal(done.runs, 0);
    return 1;
}

/* Lengths on either side of what is stored as it is, and far beyond. */
static void keys_of_any_length_are_kept_apart(void **state)
{
    static const size_t lengths[] = {1, 63, 64, 100, 254, 255, 256, 257, 1000, 10240, 10241, 65536};
    static char text[65536];
    semel_bytes keys[sizeof lengths / sizeof *lengths];
    memset(text, 'k', sizeof text);
    if (are_refused(*state, (semel_bytes){text, sizeof text}))
        return;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        keys[i] = (semel_bytes){text, lengths[i]};
    expect_all_different(*state, keys, sizeof lengths / sizeof *lengths);
}

static void long_keys_that_differ_in_their_last_byte_are_different(void **state)
{
    static char one[10240], other[10240], at_limit[255], beyond[256];
    memset(one, 'k', sizeof one);
    if (are_refused(*state, (semel_bytes){one, sizeof one}))
        return;
    memset(other, 'k', sizeof other);
    memset(at_limit, 'k', sizeof at_limit);
    memset(beyond, 'k', sizeof beyond);
    other[sizeof other - 1] = 'l';
    at_limit[sizeof at_limit - 1] = 'l';
    beyond[sizeof beyond - 1] = 'l';
    const semel_bytes keys[] = {{one, sizeof one},           {other, sizeof other},
                                {at_limit, sizeof at_limit}, {one, sizeof at_limit},
                                {beyond, sizeof beyond},     {one, sizeof beyond}};
    expect_all_different(*state, keys, sizeof keys / sizeof *keys);
}

/* A long key is stored as 0xFF and its SHA-256. No short key can be taken for it. */
static void a_key_that_looks_like_a_digest_is_not_taken_for_one(void **state)
{
    static char text[10240];
    unsigned char fake[1 + DIGEST_SIZE] = {0xff};
    memset(text, 'k', sizeof text);
    const semel_bytes long_key = {text, sizeof text};
    if (are_refused(*state, long_key))
        return;
    OK(digest_parts(fake + 1, &long_key, 1, &last_error));
    const semel_bytes keys[] = {
        long_key, {fake, sizeof fake}, {fake + 1, DIGEST_SIZE}, {"\xff", 1}, {"\xff\xff", 2}};
    expect_all_different(*state, keys, sizeof keys / sizeof *keys);
}

/* The binary id of a message is its key, too. */
static void a_binary_id_is_a_key(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_message one = *full_message(), other = *full_message();
    scripted_handler done = {0};
    one.time_ms = other.time_ms = 0;
    other.id = (semel_bytes){"\x00\xffid\xc4", 5};
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &one, &done);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &other, &done);
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &one, &done);
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &other, &done);
}

const store_test store_key_tests[] = {
    STORE_TEST(keys_that_look_alike_are_different),
    STORE_TEST(keys_of_any_length_are_kept_apart),
    STORE_TEST(long_keys_that_differ_in_their_last_byte_are_different),
    STORE_TEST(a_key_that_looks_like_a_digest_is_not_taken_for_one),
    STORE_TEST(a_binary_id_is_a_key),
    {NULL, NULL, 0}};
