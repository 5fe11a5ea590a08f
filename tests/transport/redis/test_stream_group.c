/* Streams and groups: what is made, what is missing, what others do with them, and names. */
#include "stream_kit.h"

#include "support/process/shell.h"
#include "transport/redis/streams.h"

#include <stdio.h>
#include <string.h>

enum { CLI_COMMAND = 512, CLI_SAID = 1024 };

static int set_up(void **state)
{
    static stream_kit kit;
    kit_open(&kit, NULL, KIT_GROUP);
    *state = &kit;
    return 0;
}

static int tear_down(void **state)
{
    kit_close(*state);
    return 0;
}

static semel_publish_result publish_one(semel_transport *transport)
{
    semel_message message = text_message("m", "10 EUR");
    const semel_message *pointer = &message;
    semel_publish_result result = SEMEL_PUBLISH_UNKNOWN;
    OK(semel_transport_publish(&result, transport, &pointer, 1, KIT_WAIT_MS, &last_error));
    return result;
}

/* --- nobody reads it -------------------------------------------------------------------------- */

static void without_a_stream_or_a_group_a_message_has_no_queue(void **state)
{
    stream_kit *kit = *state;
    semel_transport *publisher = kit_connect(kit, "");
    kit_do(kit, "DEL %s", kit->stream);
    assert_int_equal(publish_one(publisher), SEMEL_PUBLISH_UNROUTABLE);
    assert_int_equal(kit_number(kit, "EXISTS %s", kit->stream), 0);
    kit_do(kit, "XADD %s * by hand", kit->stream);
    assert_int_equal(publish_one(publisher), SEMEL_PUBLISH_UNROUTABLE);
    assert_int_equal(kit_length(kit), 1);
    kit_do(kit, "XGROUP CREATE %s any $", kit->stream);
    assert_int_equal(publish_one(publisher), SEMEL_PUBLISH_CONFIRMED);
    assert_int_equal(kit_length(kit), 2);
    semel_transport_close(publisher);
}

/* No message by the rules of message.h: one with more headers than a script could hand on, too. */
static void what_is_no_message_is_refused(void **state)
{
    enum { MANY = 5000 };
    static semel_header headers[MANY];
    stream_kit *kit = *state;
    semel_message messages[3];
    const semel_message *pointers[3];
    semel_publish_result results[3];
    for (size_t i = 0; i < MANY; i++)
        headers[i] = (semel_header){"name", semel_str("value")};
    for (size_t i = 0; i < 3; i++) {
        messages[i] = text_message("m", "10 EUR");
        messages[i].group = "a";
        pointers[i] = &messages[i];
    }
    messages[1].headers = headers;
    messages[1].header_count = MANY;
    OK(semel_transport_publish(results, kit->transport, pointers, 3, KIT_WAIT_MS, &last_error));
    assert_int_equal(results[0], SEMEL_PUBLISH_CONFIRMED);
    assert_int_equal(results[1], SEMEL_PUBLISH_REFUSED);
    assert_int_equal(results[2], SEMEL_PUBLISH_NACKED);
    assert_int_equal(kit_length(kit), 1);
    OK(semel_transport_publish(results, kit->transport, pointers + 1, 1, KIT_WAIT_MS, &last_error));
    assert_int_equal(results[0], SEMEL_PUBLISH_REFUSED);
}

static void a_missing_group_is_refused_when_it_is_opened(void **state)
{
    stream_kit *kit = *state;
    char url[SERVER_URL_ROOM];
    semel_transport *transport = NULL;
    FAILS(SEMEL_ETRANSPORT,
          semel_transport_open(&transport, kit_url(url, kit, "group=h"), NULL, &last_error));
    SAYS("no group h");
    kit_do(kit, "DEL %s", kit->stream);
    FAILS(SEMEL_ETRANSPORT,
          semel_transport_open(&transport, kit_url(url, kit, "group=g"), NULL, &last_error));
    SAYS("no stream");
    assert_int_equal(kit_number(kit, "EXISTS %s", kit->stream), 0);
}

static void a_group_that_is_made_reads_what_was_there_before(void **state)
{
    stream_kit *kit = *state;
    kit_send(kit, "m-1");
    semel_transport *late = kit_connect(kit, "group=late&declare=yes");
    (void)kit_take(late, "m-1");
    semel_transport *again = kit_connect(kit, "group=late&declare=yes"); /* it is there already */
    kit_expect_nothing(again);
    semel_transport_close(again);
    semel_transport_close(late);
}

static void a_group_that_vanished_is_made_again_if_that_is_wanted(void **state)
{
    stream_kit *kit = *state;
    semel_transport *strict = kit_connect(kit, "group=g&poll_ms=20");
    semel_delivery one;
    size_t got;
    kit_send(kit, "m-1");
    semel_delivery old = kit_take(kit->transport, "m-1");
    kit_do(kit, "XGROUP DESTROY %s g", kit->stream);
    FAILS(SEMEL_ETRANSPORT,
          semel_transport_receive(strict, &one, 1, &got, KIT_WAIT_MS, &last_error));
    SAYS("declare=yes");
    FAILS(SEMEL_EINVAL, kit_settle(kit->transport, old, SEMEL_VERDICT_ACK, 0));
    OK(kit_settle(kit->transport, kit_take(kit->transport, "m-1"), SEMEL_VERDICT_ACK, 0));
    semel_transport_close(strict);
}

static void a_key_of_another_type_is_refused(void **state)
{
    stream_kit *kit = *state;
    char url[SERVER_URL_ROOM];
    semel_transport *transport = NULL;
    kit_do(kit, "DEL %s", kit->stream);
    kit_do(kit, "SET %s text", kit->stream);
    FAILS(SEMEL_ETRANSPORT,
          semel_transport_open(&transport, kit_url(url, kit, KIT_GROUP), NULL, &last_error));
    SAYS("another type");
    semel_transport *publisher = kit_connect(kit, "");
    semel_message message = text_message("m", "10 EUR");
    const semel_message *pointer = &message;
    semel_publish_result result = SEMEL_PUBLISH_CONFIRMED;
    FAILS(SEMEL_ETRANSPORT,
          semel_transport_publish(&result, publisher, &pointer, 1, KIT_WAIT_MS, &last_error));
    assert_int_equal(result, SEMEL_PUBLISH_UNKNOWN);
    semel_transport_close(publisher);
}

/* --- several groups --------------------------------------------------------------------------- */

static void take_and_ack(semel_transport *transport, const char *id)
{
    OK(kit_settle(transport, kit_take(transport, id), SEMEL_VERDICT_ACK, 0));
}

static void what_the_only_group_acknowledges_is_removed(void **state)
{
    stream_kit *kit = *state;
    kit_send(kit, "m-1");
    take_and_ack(kit->transport, "m-1");
    assert_int_equal(kit_length(kit), 0);
    semel_transport *other = kit_connect(kit, "group=h&declare=yes&poll_ms=20");
    kit_send(kit, "m-2");
    take_and_ack(kit->transport, "m-2");
    assert_int_equal(kit_length(kit), 1); /* the other group has not read it */
    take_and_ack(other, "m-2");
    assert_int_equal(kit_length(kit), 1);
    semel_transport_close(other);
}

static void what_is_kept_is_as_the_url_says(void **state)
{
    stream_kit *kit = *state;
    semel_transport *keeper = kit_connect(kit, KIT_GROUP "&keep=yes");
    kit_send(kit, "m-1");
    take_and_ack(keeper, "m-1");
    assert_int_equal(kit_length(kit), 1);
    semel_transport_close(keeper);
    kit_do(kit, "XGROUP CREATE %s h 0", kit->stream);
    semel_transport *remover = kit_connect(kit, KIT_GROUP "&keep=no");
    assert_non_null(strstr(semel_transport_warnings(remover), "keep=no"));
    kit_send(kit, "m-2");
    take_and_ack(remover, "m-2");
    assert_int_equal(kit_length(kit), 1);
    semel_transport_close(remover);
}

/* --- entries that others write or remove ------------------------------------------------------ */

static void an_entry_of_another_program_has_the_same_id_each_time(void **state)
{
    stream_kit *kit = *state;
    char id[KIT_NAME_ROOM + 32];
    kit_do(kit, "XADD %s 1700000000000-7 sku A-7 quantity 3", kit->stream);
    (void)snprintf(id, sizeof id, "%s/1700000000000-7", kit->stream);
    for (uint32_t nth = 1; nth <= 3; nth++) {
        semel_delivery one = kit_take(kit->transport, id);
        assert_int_equal(one.message->delivery, nth);
        BYTES_EQUAL(semel_str("A-7"), semel_message_header(one.message, "sku"));
        OK(kit_settle(kit->transport, one, nth < 3 ? SEMEL_VERDICT_RETRY : SEMEL_VERDICT_ACK, 0));
    }
    assert_int_equal(kit_length(kit), 0);
}

/* What the real one says, which is one line for each word of the answer. */
static void redis_cli(char said[CLI_SAID], const stream_kit *kit, const char *words)
{
    char command[CLI_COMMAND];
    int len =
        snprintf(command, sizeof command, "REDISCLI_AUTH=semel redis-cli -e -h %s -p %u %s 2>&1",
                 kit->server.host, kit->server.port, words);
    assert_in_range(len, 1, (int)sizeof command - 1);
    shell_run(said, CLI_SAID, command);
}

static void redis_cli_reads_what_semel_writes(void **state)
{
    stream_kit *kit = *state;
    char words[KIT_NAME_ROOM * 2], said[CLI_SAID];
    kit_send(kit, "m-1");
    (void)snprintf(words, sizeof words, "XRANGE %s - +", kit->stream);
    redis_cli(said, kit, words);
    const char *fields = strchr(said, '\n'); /* behind the number of the entry */
    assert_non_null(fields);
    assert_string_equal(fields, "\nid\nm-1\nsource\nshop\ntype\norder.paid\nsubject\norders\n"
                                "data\n10 EUR\n");
}

/* As docs/REDIS_STREAMS.md shows it. */
static void semel_reads_what_redis_cli_writes(void **state)
{
    stream_kit *kit = *state;
    char words[KIT_NAME_ROOM * 4], said[CLI_SAID];
    (void)snprintf(words, sizeof words,
                   "XADD %s '*' id o-17 type order.placed subject shop partitionkey c-3 sku A-7 "
                   "data '{\"order_id\": 17}'",
                   kit->stream);
    redis_cli(said, kit, words);
    semel_delivery one = kit_take(kit->transport, "o-17");
    assert_string_equal(one.message->type, "order.placed");
    assert_string_equal(one.message->topic, "shop");
    assert_string_equal(one.message->group, "c-3");
    BYTES_EQUAL(semel_str("A-7"), semel_message_header(one.message, "sku"));
    BYTES_EQUAL(semel_str("{\"order_id\": 17}"), one.message->body);
    OK(kit_settle(kit->transport, one, SEMEL_VERDICT_ACK, 0));
    (void)snprintf(words, sizeof words, "XLEN %s", kit->stream);
    redis_cli(said, kit, words);
    assert_string_equal(said, "0\n");
}

static void entries_that_were_trimmed_unread_are_warned_about(void **state)
{
    stream_kit *kit = *state;
    assert_string_equal(semel_transport_warnings(kit->transport), "");
    for (int i = 0; i < 5; i++)
        kit_send(kit, "m");
    take_and_ack(kit->transport, "m");
    semel_transport *before = kit_connect(kit, KIT_GROUP);
    assert_string_equal(semel_transport_warnings(before), ""); /* what was read may go */
    kit_do(kit, "XTRIM %s MAXLEN 2", kit->stream);
    semel_transport *after = kit_connect(kit, KIT_GROUP);
    assert_non_null(strstr(semel_transport_warnings(after), "2 entries were removed"));
    kit_do(kit, "XTRIM %s MAXLEN 0", kit->stream);
    semel_transport *end = kit_connect(kit, KIT_GROUP);
    assert_non_null(strstr(semel_transport_warnings(end), "4 entries were removed"));
    semel_transport_close(before);
    semel_transport_close(after);
    semel_transport_close(end);
}

/* One that is trimmed while it is out hinders nothing. That there is no copy of a rejected one is
 * said. */
static void an_entry_may_be_trimmed_while_it_is_out(void **state)
{
    stream_kit *kit = *state;
    kit_send(kit, "m-1");
    kit_send(kit, "m-2");
    semel_delivery first = kit_take(kit->transport, "m-1");
    semel_delivery second = kit_take(kit->transport, "m-2");
    kit_do(kit, "XTRIM %s MAXLEN 0", kit->stream);
    OK(kit_settle(kit->transport, first, SEMEL_VERDICT_RETRY, 0));
    FAILS(SEMEL_EINVAL, kit_settle(kit->transport, second, SEMEL_VERDICT_REJECT, 0));
    kit_expect_nothing(kit->transport);
    assert_int_equal(kit_dead(kit), 0);
    EVENTUALLY(kit_pending(kit) == 0);
}

/* --- counting --------------------------------------------------------------------------------- */

static uint64_t depth_of(semel_transport *transport)
{
    uint64_t ready = 99;
    OK(semel_transport_depth(&ready, transport, &last_error));
    return ready;
}

static void the_depth_is_right_though_entries_are_removed(void **state)
{
    enum { MANY = 20 };
    stream_kit *kit = *state;
    semel_delivery out[MANY];
    for (int i = 0; i < MANY; i++)
        kit_send(kit, "m");
    for (int i = 0; i < MANY / 2; i++)
        out[i] = kit_take(kit->transport, "m");
    assert_int_equal(depth_of(kit->transport), MANY / 2);
    for (int i = 0; i < MANY / 2; i += 2)
        OK(kit_settle(kit->transport, out[i], SEMEL_VERDICT_ACK, 0));
    assert_int_equal(depth_of(kit->transport), MANY / 2);
    kit_do(kit, "XTRIM %s MAXLEN 3", kit->stream); /* then nobody knows how many there are */
    assert_int_equal(depth_of(kit->transport), 3);
    OK(kit_settle(kit->transport, out[1], SEMEL_VERDICT_RETRY, 0));
    semel_transport *publisher = kit_connect(kit, "");
    uint64_t ready;
    FAILS(SEMEL_EMISUSE, semel_transport_depth(&ready, publisher, &last_error));
    semel_transport_close(publisher);
}

/* --- names of consumers ----------------------------------------------------------------------- */

static long long consumers(stream_kit *kit)
{
    redisReply *reply = kit_ask(kit, "XINFO CONSUMERS %s g", kit->stream);
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    long long count = (long long)reply->elements;
    freeReplyObject(reply);
    return count;
}

static void a_consumer_leaves_its_name_only_with_its_entries(void **state)
{
    stream_kit *kit = *state;
    semel_transport *idle = kit_connect(kit, KIT_GROUP), *busy = kit_connect(kit, KIT_GROUP);
    kit_send(kit, "m-1");
    (void)kit_take(busy, "m-1");
    kit_expect_nothing(idle);
    semel_transport_close(idle);
    semel_transport_close(busy); /* with a delivery, which it gives back */
    assert_int_equal(kit_pending(kit), 1);
    OK(kit_settle(kit->transport, kit_take(kit->transport, "m-1"), SEMEL_VERDICT_ACK, 0));
    assert_int_equal(consumers(kit), 2); /* that of `busy`, which has nothing any more, and ours */
}

/* Only those of semel's that have nothing. */
static void old_names_are_removed(void **state)
{
    static const char script[] =
        "redis.call('XGROUP', 'CREATECONSUMER', KEYS[1], 'g', 'semel-old')\n"
        "redis.call('XGROUP', 'CREATECONSUMER', KEYS[1], 'g', 'foreign')\n";
    stream_kit *kit = *state;
    void *self;
    kit_do(kit, "EVAL %s 1 %s", script, kit->stream);
    (void)kit_driver(kit->transport, &self);
    redis_request r = stream_request(self, STREAM_CLEAN, "cleaning");
    redis_answer answer;
    redis_word_z(&r, "g");
    redis_word_z(&r, "");
    redis_word_z(&r, "semel-old");
    redis_word_number(&r, -1); /* at once */
    OK(redis_exchange(&((streams *)self)->client, &r, &answer, &last_error));
    redis_answer_free(&answer);
    redisReply *reply = kit_ask(kit, "XINFO CONSUMERS %s g", kit->stream);
    int old = 0, foreign = 0;
    for (size_t i = 0; i < reply->elements; i++) {
        old |= strcmp(reply->element[i]->element[1]->str, "semel-old") == 0;
        foreign |= strcmp(reply->element[i]->element[1]->str, "foreign") == 0;
    }
    freeReplyObject(reply);
    assert_true(!old && foreign);
}

/* --- rights ----------------------------------------------------------------------------------- */

static void a_right_that_is_missing_is_named(void **state)
{
    stream_kit *kit = *state;
    char url[SERVER_URL_ROOM];
    semel_transport *transport = NULL;
    kit_do(kit, "ACL SETUSER stream-%s on >word ~* +@all -xclaim", kit->stream);
    (void)snprintf(url, sizeof url, "redis://stream-%s:word@%s:%u/0?stream=%s&" KIT_GROUP,
                   kit->stream, kit->server.host, kit->server.port, kit->stream);
    FAILS(SEMEL_ETRANSPORT, semel_transport_open(&transport, url, NULL, &last_error));
    SAYS("xclaim");
    SAYS("docs/REDIS_STREAMS.md");
    kit_do(kit,
           "ACL SETUSER stream-%s resetkeys ~%s ~{%s}:dead -@all +eval +evalsha +info "
           "+xinfo +xadd +xreadgroup +xautoclaim +xclaim +xpending +xrange +xlen +xack +xdel "
           "+xgroup +exists",
           kit->stream, kit->stream, kit->stream);
    OK(semel_transport_open(&transport, url, NULL, &last_error)); /* these are enough */
    kit_send(kit, "m-1");
    OK(kit_settle(transport, kit_take(transport, "m-1"), SEMEL_VERDICT_REJECT, 0));
    semel_transport_close(transport);
    kit_do(kit, "ACL DELUSER stream-%s", kit->stream);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(without_a_stream_or_a_group_a_message_has_no_queue),
                                       TEST(what_is_no_message_is_refused),
                                       TEST(a_missing_group_is_refused_when_it_is_opened),
                                       TEST(a_group_that_is_made_reads_what_was_there_before),
                                       TEST(a_group_that_vanished_is_made_again_if_that_is_wanted),
                                       TEST(a_key_of_another_type_is_refused),
                                       TEST(what_the_only_group_acknowledges_is_removed),
                                       TEST(what_is_kept_is_as_the_url_says),
                                       TEST(an_entry_of_another_program_has_the_same_id_each_time),
                                       TEST(redis_cli_reads_what_semel_writes),
                                       TEST(semel_reads_what_redis_cli_writes),
                                       TEST(entries_that_were_trimmed_unread_are_warned_about),
                                       TEST(an_entry_may_be_trimmed_while_it_is_out),
                                       TEST(the_depth_is_right_though_entries_are_removed),
                                       TEST(a_consumer_leaves_its_name_only_with_its_entries),
                                       TEST(old_names_are_removed),
                                       TEST(a_right_that_is_missing_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
