/* The memory transport by itself, called through its driver. What all transports must do is in the
 * conformance suite; here is what lies under it. */
#include "transport/memory/memory.h"

#include "base/mem.h"
#include "support/process/deadline.h"
#include "support/process/process.h"

#include <pthread.h>
#include <semel/test.h>
#include <setjmp.h> /* cmocka.h wants these before it */
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const semel_transport_driver *const driver = &memory_transport_driver;

typedef struct rig {
    semel_test_seam *seam;
    semel_transport_settings settings;
    void *transport;
    semel_error err;
} rig;

static rig *rig_open(const char *url)
{
    rig *r = calloc(1, sizeof *r);
    assert_int_equal(semel_test_seam_open(&r->seam, 7, &r->err), SEMEL_OK);
    r->settings.seam = semel_test_seam_get(r->seam);
    r->transport = calloc(1, driver->transport_size);
    assert_int_equal(driver->open(r->transport, url, &r->settings, &r->err), SEMEL_OK);
    return r;
}

static void rig_close(rig *r)
{
    driver->close(r->transport);
    free(r->transport);
    semel_test_seam_close(r->seam);
    free(r);
}

static int rig_setup(void **state)
{
    deadline_begin();
    *state = rig_open("memory:");
    return 0;
}

static int rig_teardown(void **state)
{
    rig_close(*state);
    deadline_end();
    return 0;
}

static semel_publish_result publish(rig *r, const char *id)
{
    semel_message message = {.size = sizeof message, .id = semel_str(id), .body = semel_str(id)};
    const semel_message *batch[] = {&message};
    semel_publish_result result = SEMEL_PUBLISH_UNKNOWN;
    assert_int_equal(driver->publish(r->transport, &result, batch, 1, 0, &r->err), SEMEL_OK);
    return result;
}

enum { MAX = 32 };

typedef struct received {
    size_t count;
    semel_delivery deliveries[MAX];
    char text[256]; /* "a/1 b/1": id and delivery */
} received;

static received receive(rig *r, size_t max)
{
    received all = {.count = 99};
    assert_int_equal(driver->receive(r->transport, all.deliveries, max, &all.count, 0, &r->err), 0);
    for (size_t i = 0; i < all.count; i++) {
        const semel_message *message = all.deliveries[i].message;
        size_t at = strlen(all.text);
        (void)snprintf(all.text + at, sizeof all.text - at, "%s%.*s/%u", i ? " " : "",
                       (int)message->id.len, (const char *)message->id.data, message->delivery);
    }
    return all;
}

static void settle(rig *r, uint64_t tag, semel_verdict verdict, uint32_t delay_ms)
{
    semel_delivery_settlement one = {tag, verdict, delay_ms};
    assert_int_equal(driver->settle(r->transport, &one, 1, &r->err), SEMEL_OK);
}

/* --- one thread ------------------------------------------------------------------------------- */

static void bad_urls_are_refused_and_named(void **state)
{
    static const struct {
        const char *url;
        const char *says;
    } bad[] = {{"memory:x", "no path"},
               {"memory:?ack=1", "ack_ms"},
               {"memory:?ack_ms=-1", "ack_ms"},
               {"memory:?messages_max=0", "messages_max"}};
    rig *r = *state;
    void *transport = calloc(1, driver->transport_size);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(driver->open(transport, bad[i].url, &r->settings, &r->err), SEMEL_EINVAL);
        assert_non_null(strstr(r->err.text, bad[i].says));
    }
    free(transport);
}

static void first_in_first_out_and_settled_is_gone(void **state)
{
    rig *r = *state;
    assert_int_equal(publish(r, "a"), SEMEL_PUBLISH_CONFIRMED);
    publish(r, "b");
    publish(r, "c");
    received all = receive(r, 2);
    assert_string_equal(all.text, "a/1 b/1");
    settle(r, all.deliveries[0].tag, SEMEL_VERDICT_ACK, 0);
    settle(r, all.deliveries[1].tag, SEMEL_VERDICT_REJECT, 0);
    assert_string_equal(receive(r, 9).text, "c/1");
    semel_test_advance_ms(r->seam, INT64_C(1000000000));
    assert_int_equal(receive(r, 9).count, 0); /* no ack_ms: it stays out */
}

static void what_was_published_is_a_copy(void **state)
{
    rig *r = *state;
    char body[] = "body";
    semel_header header = {"h", semel_str("v")};
    semel_message message = {.size = sizeof message,
                             .id = semel_str("a"),
                             .headers = &header,
                             .header_count = 1,
                             .body = {body, 4},
                             .delivery = 7};
    const semel_message *batch[] = {&message};
    semel_publish_result result = SEMEL_PUBLISH_UNKNOWN;
    assert_int_equal(driver->publish(r->transport, &result, batch, 1, 0, &r->err), SEMEL_OK);
    memset(body, 'x', 4);
    header.value = semel_str("other");
    received all = receive(r, 1);
    assert_string_equal(all.text, "a/1");
    assert_memory_equal(all.deliveries[0].message->body.data, "body", 4);
    assert_memory_equal(all.deliveries[0].message->headers[0].value.data, "v", 1);
}

static void a_retry_waits_out_its_delay_and_has_its_old_place(void **state)
{
    rig *r = *state;
    publish(r, "a");
    publish(r, "b");
    publish(r, "c");
    received all = receive(r, 2);
    settle(r, all.deliveries[1].tag, SEMEL_VERDICT_RETRY, 0);
    settle(r, all.deliveries[0].tag, SEMEL_VERDICT_RETRY, 100);
    semel_test_advance_ms(r->seam, 99);
    all = receive(r, 1);
    assert_string_equal(all.text, "b/2");
    semel_test_advance_ms(r->seam, 1);
    assert_string_equal(receive(r, 9).text, "a/2 c/1");
}

static void an_unknown_tag_is_reported_and_the_others_are_settled(void **state)
{
    rig *r = *state;
    publish(r, "a");
    publish(r, "b");
    received all = receive(r, 2);
    semel_delivery_settlement settles[] = {{all.deliveries[0].tag, SEMEL_VERDICT_ACK, 0},
                                           {4711, SEMEL_VERDICT_ACK, 0},
                                           {all.deliveries[0].tag, SEMEL_VERDICT_RETRY, 0},
                                           {all.deliveries[1].tag, SEMEL_VERDICT_RETRY, 0}};
    assert_int_equal(driver->settle(r->transport, settles, 4, &r->err), SEMEL_EINVAL);
    assert_non_null(strstr(r->err.text, "2 of 4"));
    assert_string_equal(receive(r, 9).text, "b/2");
}

static void before_the_first_message_no_tag_is_known(void **state)
{
    rig *r = *state;
    semel_delivery_settlement one = {1, SEMEL_VERDICT_ACK, 0};
    assert_int_equal(driver->settle(r->transport, &one, 1, &r->err), SEMEL_EINVAL);
    assert_int_equal(receive(r, 9).count, 0);
}

static void an_unsettled_delivery_comes_back_and_the_first_one_stays_readable(void **state)
{
    (void)state;
    rig *r = rig_open("memory:?ack_ms=50");
    publish(r, "a");
    publish(r, "b");
    received first = receive(r, 1);
    semel_test_advance_ms(r->seam, 49);
    assert_string_equal(receive(r, 1).text, "b/1");
    semel_test_advance_ms(r->seam, 1);
    received second = receive(r, 1);
    assert_string_equal(second.text, "a/2");
    assert_true(second.deliveries[0].tag != first.deliveries[0].tag);
    settle(r, second.deliveries[0].tag, SEMEL_VERDICT_ACK, 0);
    assert_int_equal(first.deliveries[0].message->delivery, 1); /* a handler may still read it */
    assert_memory_equal(first.deliveries[0].message->body.data, "a", 1);
    semel_delivery_settlement late = {first.deliveries[0].tag, SEMEL_VERDICT_RETRY, 0};
    assert_int_equal(driver->settle(r->transport, &late, 1, &r->err), SEMEL_EINVAL);
    semel_test_advance_ms(r->seam, 50);
    assert_string_equal(receive(r, 9).text, "b/2");
    rig_close(r);
}

static void a_full_queue_refuses_and_goes_on_refusing_within_the_batch(void **state)
{
    (void)state;
    rig *r = rig_open("memory:?messages_max=2");
    semel_message message = {.size = sizeof message, .id = semel_str("a"), .group = "g"};
    const semel_message *batch[] = {&message, &message, &message, &message};
    semel_publish_result results[4];
    assert_int_equal(driver->publish(r->transport, results, batch, 4, 0, &r->err), SEMEL_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(results[i], i < 2 ? SEMEL_PUBLISH_CONFIRMED : SEMEL_PUBLISH_REFUSED);
    received all = receive(r, 1);
    assert_int_equal(publish(r, "b"), SEMEL_PUBLISH_REFUSED); /* out is not gone */
    settle(r, all.deliveries[0].tag, SEMEL_VERDICT_ACK, 0);
    assert_int_equal(publish(r, "b"), SEMEL_PUBLISH_CONFIRMED);
    rig_close(r);
}

static void without_memory_nothing_is_lost_or_doubled(void **state)
{
    (void)state;
    int failures = 0;
    for (long nth = 1;; nth++) {
        rig *r = rig_open("memory:");
        semel_message message = {.size = sizeof message, .id = semel_str("a")};
        const semel_message *batch[] = {&message, &message};
        semel_publish_result results[2] = {SEMEL_PUBLISH_REFUSED, SEMEL_PUBLISH_REFUSED};
        semel_delivery deliveries[9];
        size_t count = 0;
        mem_fail_at(nth);
        semel_status published = driver->publish(r->transport, results, batch, 2, 0, &r->err);
        size_t confirmed = (results[0] == SEMEL_PUBLISH_CONFIRMED) +
                           (size_t)(results[1] == SEMEL_PUBLISH_CONFIRMED);
        semel_status got = driver->receive(r->transport, deliveries, 9, &count, 0, &r->err);
        mem_fail_at(0);
        size_t rest = 0;
        failures += published || got || count < confirmed;
        assert_true(published ? published == SEMEL_ENOMEM : confirmed == 2);
        assert_int_equal(driver->receive(r->transport, deliveries, 9, &rest, 0, &r->err), 0);
        assert_int_equal(count + rest, confirmed);
        rig_close(r);
        if (!published && !got && count == 2)
            break;
    }
    assert_true(failures >= 8);
}

/* --- a model ---------------------------------------------------------------------------------- */

static void every_message_comes_until_it_is_acknowledged(void **state)
{
    enum { MESSAGES = 3000 };
    (void)state;
    rig *r = rig_open("memory:?ack_ms=40");
    static uint32_t seen[MESSAGES];
    static int acked[MESSAGES];
    int left = MESSAGES;
    srand(5);
    for (int i = 0; i < MESSAGES; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%d", i);
        publish(r, id);
        seen[i] = 0;
        acked[i] = 0;
    }
    for (int turn = 0; left && turn < 100000; turn++) {
        received all = receive(r, 1 + (size_t)rand() % 20);
        for (size_t i = 0; i < all.count; i++) {
            int id = atoi(all.deliveries[i].message->id.data);
            assert_false(acked[id]);
            assert_int_equal(all.deliveries[i].message->delivery, ++seen[id]);
            int fate = rand() % 4;
            if (fate == 0)
                continue; /* forgotten */
            acked[id] = fate > 1;
            left -= fate > 1;
            settle(r, all.deliveries[i].tag, fate > 1 ? SEMEL_VERDICT_ACK : SEMEL_VERDICT_RETRY,
                   (uint32_t)rand() % 30);
        }
        semel_test_advance_ms(r->seam, rand() % 10);
    }
    assert_int_equal(left, 0);
    rig_close(r);
}

/* --- threads ---------------------------------------------------------------------------------- */

static int64_t real_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void *publish_soon(void *context)
{
    rig *r = context;
    semel_message message = {.size = sizeof message, .id = semel_str("late")};
    const semel_message *batch[] = {&message};
    semel_publish_result result;
    if (!process_wait_asleep(getpid(), 60000)) /* the receiver waits */
        abort();
    if (driver->publish(r->transport, &result, batch, 1, 0, NULL))
        abort();
    return NULL;
}

static void receiving_waits_for_a_message_and_no_longer(void **state)
{
    rig *r = *state;
    semel_delivery delivery;
    size_t count = 9;
    int64_t start = real_ms();
    assert_int_equal(driver->receive(r->transport, &delivery, 1, &count, 60, &r->err), SEMEL_OK);
    assert_int_equal(count, 0);
    assert_true(real_ms() - start >= 59);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, publish_soon, r), 0);
    start = real_ms();
    assert_int_equal(driver->receive(r->transport, &delivery, 1, &count, 60000, &r->err), 0);
    assert_int_equal(count, 1);
    assert_true(real_ms() - start < 30000);
    pthread_join(thread, NULL);
}

static void *advance_soon(void *context)
{
    rig *r = context;
    if (!process_wait_asleep(getpid(), 60000)) /* the receiver waits */
        abort();
    semel_test_advance_ms(r->seam, 100);
    return NULL;
}

/* The wait is real, the delay is the seam's: it is looked at again when it would be over. */
static void receiving_wakes_for_a_delay_that_ends(void **state)
{
    rig *r = *state;
    semel_delivery delivery;
    size_t count = 9;
    pthread_t thread;
    publish(r, "a");
    settle(r, receive(r, 1).deliveries[0].tag, SEMEL_VERDICT_RETRY, 100);
    assert_int_equal(pthread_create(&thread, NULL, advance_soon, r), 0);
    int64_t start = real_ms();
    assert_int_equal(driver->receive(r->transport, &delivery, 1, &count, 60000, &r->err), 0);
    assert_int_equal(count, 1);
    assert_true(real_ms() - start < 30000);
    pthread_join(thread, NULL);
}

enum { PRODUCERS = 4, CONSUMERS = 4, EACH = 5000 };

typedef struct traffic {
    rig *r;
    atomic_int next;
    atomic_int acked[PRODUCERS * EACH];
    atomic_int left;
} traffic;

static void *produce(void *context)
{
    traffic *t = context;
    for (int i = 0; i < EACH; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%d", atomic_fetch_add(&t->next, 1));
        semel_message message = {.size = sizeof message, .id = semel_str(id)};
        const semel_message *batch[] = {&message};
        semel_publish_result result;
        if (driver->publish(t->r->transport, &result, batch, 1, 0, NULL))
            abort();
    }
    return NULL;
}

static void *consume(void *context)
{
    traffic *t = context;
    for (unsigned turn = 0; atomic_load(&t->left) > 0; turn++) {
        semel_delivery deliveries[8];
        semel_delivery_settlement settles[8];
        size_t count = 0;
        if (driver->receive(t->r->transport, deliveries, 8, &count, 20, NULL))
            abort();
        for (size_t i = 0; i < count; i++) {
            int again = (turn + i) % 5 == 0;
            if (!again) {
                atomic_fetch_add(&t->acked[atoi(deliveries[i].message->id.data)], 1);
                atomic_fetch_sub(&t->left, 1);
            }
            settles[i] = (semel_delivery_settlement){
                deliveries[i].tag, again ? SEMEL_VERDICT_RETRY : SEMEL_VERDICT_ACK, 0};
        }
        if (driver->settle(t->r->transport, settles, count, NULL))
            abort();
    }
    return NULL;
}

static void many_threads_share_it(void **state)
{
    traffic *t = calloc(1, sizeof *t);
    pthread_t threads[PRODUCERS + CONSUMERS];
    t->r = *state;
    atomic_store(&t->left, PRODUCERS * EACH);
    for (int i = 0; i < PRODUCERS + CONSUMERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i < PRODUCERS ? produce : consume, t),
                         0);
    for (int i = 0; i < PRODUCERS + CONSUMERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < PRODUCERS * EACH; i++)
        assert_int_equal(atomic_load(&t->acked[i]), 1);
    free(t);
}

static void settling_is_fast_however_much_is_out(void **state)
{
    enum { MANY = 200000 };
    rig *r = *state;
    semel_delivery *deliveries = calloc(MANY, sizeof *deliveries);
    size_t count = 0;
    for (int i = 0; i < MANY; i++)
        publish(r, "x");
    assert_int_equal(driver->receive(r->transport, deliveries, MANY, &count, 0, &r->err), SEMEL_OK);
    assert_int_equal(count, MANY);
    int64_t start = real_ms();
    for (int i = MANY - 1; i >= 0; i--)
        settle(r, deliveries[i].tag, SEMEL_VERDICT_ACK, 0);
    assert_true(real_ms() - start < 30000);
    free(deliveries);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        TEST(bad_urls_are_refused_and_named),
        TEST(first_in_first_out_and_settled_is_gone),
        TEST(what_was_published_is_a_copy),
        TEST(a_retry_waits_out_its_delay_and_has_its_old_place),
        TEST(an_unknown_tag_is_reported_and_the_others_are_settled),
        TEST(before_the_first_message_no_tag_is_known),
        TEST(an_unsettled_delivery_comes_back_and_the_first_one_stays_readable),
        TEST(a_full_queue_refuses_and_goes_on_refusing_within_the_batch),
        TEST(without_memory_nothing_is_lost_or_doubled),
        TEST(every_message_comes_until_it_is_acknowledged),
        TEST(receiving_waits_for_a_message_and_no_longer),
        TEST(receiving_wakes_for_a_delay_that_ends),
        TEST(many_threads_share_it),
        TEST(settling_is_fast_however_much_is_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
