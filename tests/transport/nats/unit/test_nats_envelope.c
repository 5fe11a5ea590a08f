/* Messages of other publishers, and how large a message is told to be. fuzz/fuzz_nats.c found what
 * is here. */
#include "support/base/check.h"

#include "support/fixture/scripted_handler.h"
#include "transport/nats/envelope.h"

#include <string.h>

static mem_arena arena;

static int open_library(void **state)
{
    (void)state;
    return nats_Open(-1) != NATS_OK;
}

static int close_library(void **state)
{
    (void)state;
    arena_free(&arena);
    nats_Close();
    return 0;
}

/* One message with one header. */
static semel_message *read(natsMsg **raw, const char *name, const char *value)
{
    jet_origin origin;
    assert_true(jet_origin_read(&origin, "$JS.ACK.ORDERS.stock.2.71.70.1767225600123000000.0"));
    assert_int_equal(natsMsg_Create(raw, "orders", NULL, "x", 1), NATS_OK);
    assert_int_equal(natsMsgHeader_Add(*raw, name, value), NATS_OK);
    semel_message *message = jet_envelope_read(&arena, *raw, &origin, "");
    assert_non_null(message);
    return message;
}

static void a_header_without_a_name_is_left_out(void **state)
{
    natsMsg *raw;
    (void)state;
    assert_int_equal(read(&raw, "ce-", "blue")->header_count, 0);
    natsMsg_Destroy(raw);
}

static void an_empty_message_id_is_none(void **state)
{
    natsMsg *raw;
    (void)state;
    BYTES_EQUAL(semel_str("ORDERS:71:1767225600123000000"), read(&raw, "Nats-Msg-Id", "")->id);
    natsMsg_Destroy(raw);
}

/* The message has an id only, so a header: "NATS/1.0", "ce-id: m-1" and an empty line. */
static void a_message_may_be_as_large_as_the_server_takes(void **state)
{
    static const jet_address address = {.subject = "orders"};
    const semel_message message = {.size = sizeof message, .id = {"m-1", 3}, .body = {"ab", 2}};
    const int64_t size = 10 + 12 + 2 + 2;
    natsMsg *out = NULL;
    (void)state;
    OK(jet_envelope_write(&out, &arena, &address, &message, NULL, size, &last_error));
    natsMsg_Destroy(out);
    FAILS(SEMEL_ELIMIT,
          jet_envelope_write(&out, &arena, &address, &message, NULL, size - 1, &last_error));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_without_a_name_is_left_out),
        cmocka_unit_test(an_empty_message_id_is_none),
        cmocka_unit_test(a_message_may_be_as_large_as_the_server_takes)};
    return cmocka_run_group_tests(tests, open_library, close_library);
}
