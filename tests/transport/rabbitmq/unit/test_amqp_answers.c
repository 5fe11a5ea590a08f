/* What the broker answers to a batch, frame by frame: each message has the answer that was meant
 * for it, in whatever order they come. A broker confirms in order as long as all is well, so what
 * it does otherwise is played here. */
#include "amqp_kit.h"

#include "transport/rabbitmq/confirms.h"

enum { COUNT = 4, FIRST = 11 }; /* of the batch: messages, and the number of the first of them */

/* A batch on its way. */
typedef struct exchange {
    rabbit_publisher publisher;
    semel_message messages[COUNT];
    const semel_message *pointers[COUNT];
    semel_publish_result results[COUNT];
    size_t slots[COUNT];
} exchange;

static int setup(void **state)
{
    static const char *const ids[COUNT] = {"m-1", "m-2", "m-3", "m-4"};
    exchange *e = calloc(1, sizeof *e);
    if (!e)
        return -1;
    for (size_t i = 0; i < COUNT; i++) {
        e->messages[i] = kit_full_message();
        e->messages[i].id = semel_str(ids[i]);
        e->pointers[i] = &e->messages[i];
        e->slots[i] = i;
    }
    e->publisher.batch = (rabbit_batch){.messages = e->pointers,
                                        .results = e->results,
                                        .slots = e->slots,
                                        .room = COUNT,
                                        .sent = COUNT,
                                        .open = COUNT,
                                        .first = FIRST};
    *state = e;
    return 0;
}

static int teardown(void **state)
{
    exchange *e = *state;
    rabbit_content_free(&e->publisher.content);
    free(e);
    return 0;
}

/* --- frames ----------------------------------------------------------------------------------- */

static void play(exchange *e, amqp_frame_t frame)
{
    rabbit_confirms_accept(&e->publisher, &e->publisher.link, &frame);
}

static void play_method(exchange *e, amqp_method_number_t id, void *decoded)
{
    amqp_frame_t frame = {.frame_type = AMQP_FRAME_METHOD};
    frame.payload.method = (amqp_method_t){.id = id, .decoded = decoded};
    play(e, frame);
}

/* Of the batch's n-th message, from 1. */
static void ack(exchange *e, uint64_t n, int multiple)
{
    amqp_basic_ack_t method = {.delivery_tag = FIRST - 1 + n, .multiple = multiple};
    play_method(e, AMQP_BASIC_ACK_METHOD, &method);
}

static void nack(exchange *e, uint64_t n, int multiple)
{
    amqp_basic_nack_t method = {.delivery_tag = FIRST - 1 + n, .multiple = multiple};
    play_method(e, AMQP_BASIC_NACK_METHOD, &method);
}

static void give_back(exchange *e, const semel_message *message)
{
    amqp_basic_return_t method = {.routing_key = kit_text(message->topic)};
    amqp_basic_properties_t properties = {._flags = AMQP_BASIC_MESSAGE_ID_FLAG,
                                          .message_id =
                                              kit_bytes(message->id.data, message->id.len)};
    amqp_frame_t header = {.frame_type = AMQP_FRAME_HEADER}, body = {.frame_type = AMQP_FRAME_BODY};
    header.payload.properties.class_id = AMQP_BASIC_CLASS;
    header.payload.properties.body_size = message->body.len;
    header.payload.properties.decoded = &properties;
    body.payload.body_fragment = kit_bytes(message->body.data, message->body.len);
    play_method(e, AMQP_BASIC_RETURN_METHOD, &method);
    play(e, header);
    play(e, body);
}

/* One letter for each message: + confirmed, - refused, u unroutable, ? not answered. */
static void check_answers(const exchange *e, const char *expected, const char *file, int line)
{
    char found[COUNT + 1] = "";
    size_t open = 0;
    for (size_t i = 0; i < COUNT; i++) {
        semel_publish_result result = e->results[i];
        found[i] =
            "?+-u"[(result == SEMEL_PUBLISH_CONFIRMED) + 2 * (result == SEMEL_PUBLISH_NACKED) +
                   3 * (result == SEMEL_PUBLISH_UNROUTABLE)];
        open += e->slots[i] != RABBIT_ANSWERED;
    }
    if (strcmp(found, expected) == 0 && open == e->publisher.batch.open)
        return;
    print_error("the answers are %s, not %s; %zu are open, and %zu are said to be\n", found,
                expected, open, e->publisher.batch.open);
    _fail(file, line);
}
#define ANSWERS(expected, exchange) check_answers((exchange), (expected), __FILE__, __LINE__)

/* --- confirmations ---------------------------------------------------------------------------- */

/* A message that is taken for confirmed is removed from its outbox: if the broker has not got it,
 * it is lost. */
static void an_answer_is_for_one_message_unless_it_says_otherwise(void **state)
{
    exchange *e = *state;
    ANSWERS("????", e);
    ack(e, 2, 0);
    ANSWERS("?+??", e);
    nack(e, 1, 0);
    ANSWERS("-+??", e);
    nack(e, 4, 0);
    ANSWERS("-+?-", e);
    ack(e, 3, 0);
    ANSWERS("-++-", e);
}

static void an_answer_may_be_for_all_that_are_not_answered_up_to_it(void **state)
{
    exchange *e = *state;
    nack(e, 2, 0);
    ack(e, 3, 1);
    ANSWERS("+-+?", e);
    nack(e, 4, 1);
    ANSWERS("+-+-", e);
}

static void the_first_answer_counts(void **state)
{
    exchange *e = *state;
    nack(e, 1, 0);
    ack(e, 1, 0);
    ack(e, 2, 0);
    nack(e, 2, 1);
    ANSWERS("-+??", e);
}

/* A publisher that did not wait so long left them; or the broker is out of its mind. */
static void answers_to_other_batches_change_nothing(void **state)
{
    exchange *e = *state;
    ack(e, 0, 0);
    ack(e, 0, 1);
    nack(e, COUNT + 1, 0);
    nack(e, COUNT + 1, 1);
    ANSWERS("????", e);
}

/* --- returns ---------------------------------------------------------------------------------- */

static void a_returned_message_is_unroutable_although_it_is_confirmed_then(void **state)
{
    exchange *e = *state;
    give_back(e, &e->messages[1]);
    ack(e, 3, 1);
    ANSWERS("+u+?", e);
    ack(e, 4, 0);
    ANSWERS("+u++", e);
}

static void a_return_is_for_those_alone_that_are_alike(void **state)
{
    exchange *e = *state;
    semel_message other = e->messages[0];
    other.body = semel_str("{\"item\":2}");
    give_back(e, &other);
    other = e->messages[0];
    other.topic = "orders.us";
    give_back(e, &other);
    ack(e, 4, 1);
    ANSWERS("++++", e);
}

int main(void)
{
#define IN_EXCHANGE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        IN_EXCHANGE(an_answer_is_for_one_message_unless_it_says_otherwise),
        IN_EXCHANGE(an_answer_may_be_for_all_that_are_not_answered_up_to_it),
        IN_EXCHANGE(the_first_answer_counts),
        IN_EXCHANGE(answers_to_other_batches_change_nothing),
        IN_EXCHANGE(a_returned_message_is_unroutable_although_it_is_confirmed_then),
        IN_EXCHANGE(a_return_is_for_those_alone_that_are_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
