/* The URL of a queue: the store's URL, the queue's name, and the parameters of each. */
#include "support/base/check.h"
#include "support/fixture/scripted_handler.h"

#include "transport/store/queue.h"

#include <semel/test.h>
#include <stdio.h>
#include <string.h>

static void refused(const char *url, const char *says)
{
    semel_transport *queue = NULL;
    FAILS(SEMEL_EINVAL, semel_transport_open(&queue, url, NULL, &last_error));
    SAYS(says);
    assert_null(strstr(last_error.text, "secret"));
}

static void a_bad_url_is_refused_by_its_part(void **state)
{
    (void)state;
    refused("store:sqlite:shop.db", "behind a #");
    refused("store:sqlite:shop.db#", "behind the last #");
    refused("store:#orders", "before the #");
    refused("store:", "behind a #");
    refused("store:sqlite:shop.db#or ders", "behind the last #");
    refused("store:sqlite:shop.db#//orders", "behind the last #");
    refused("store:mongo:x#orders", "mongo");
    refused("store:memory:x#orders", "memory:");
    refused("store:postgres://user:a#secret@host/db", "behind the last #");
    refused("store:postgres://user:secret@host/db", "behind a #");
    refused("store:postgres://user:secret@host/db?no=1#orders", "no");
}

static void a_name_that_is_too_long_is_refused(void **state)
{
    char url[SEMEL_NAME_MAX + 64] = "store:memory:#";
    semel_transport *queue = NULL;
    (void)state;
    memset(url + strlen(url), 'x', SEMEL_NAME_MAX);
    OK(semel_transport_open(&queue, url, NULL, &last_error));
    semel_transport_close(queue);
    strcat(url, "x");
    refused(url, "behind the last #");
    strcat(url, "?lease_ms=1");
    refused(url, "behind the last #");
}

static void a_bad_parameter_is_refused(void **state)
{
    static const char *const values[] = {"", "0", "-1", "+1", "1s", "soon", "4294967296", "1 "};
    char url[128];
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        (void)snprintf(url, sizeof url, "store:memory:#orders?lease_ms=%s", values[i]);
        refused(url, "lease_ms must be a number from 1 to 4294967295");
        (void)snprintf(url, sizeof url, "store:memory:#orders?lease_ms=5&poll_ms=%s", values[i]);
        refused(url, "poll_ms must be a number from 1 to 4294967295");
    }
    refused("store:memory:#orders?lease_ms", "it takes ?lease_ms=NUMBER");
    refused("store:memory:#orders?secret=1", "it takes ?lease_ms=NUMBER");
    refused("store:memory:#orders?lease_ms=1&lease_ms=2", "each at most once");
    refused("store:memory:#orders?lease_ms=1?poll_ms=2", "joined with &");
    refused("store:memory:#?lease_ms=1", "behind the last #");
    refused("store:postgres://user:a#b?secret=c@host/db", "before the #");
    refused("store:postgres://host/db?password=a#b?secret=c", "before the #");
}

/* A parameter of the queue among those of the store is the store's to refuse. */
static void each_side_has_parameters_of_its_own(void **state)
{
    (void)state;
    refused("store:memory:?lease_ms=1#orders", "memory: knows");
    refused("store:memory:#orders?keys_max=1", "the parameters of the store are before the #");
}

static void opened(const char *url, uint32_t lease_ms, uint32_t poll_ms)
{
    semel_transport *transport = NULL;
    OK(semel_transport_open(&transport, url, NULL, &last_error));
    const store_queue *queue =
        semel_transport_state(transport, semel_transport_driver_of(transport));
    assert_string_equal(queue->name, "orders");
    assert_int_equal(queue->lease_ms, lease_ms);
    assert_int_equal(queue->poll_ms, poll_ms);
    semel_transport_close(transport);
}

static void parameters_are_taken(void **state)
{
    (void)state;
    opened("store:memory:#orders", 30000, 200);
    opened("store:memory:#orders?", 30000, 200);
    opened("store:memory:#orders?lease_ms=1", 1, 200);
    opened("store:memory:?keys_max=7#orders?lease_ms=60000", 60000, 200);
    opened("store:memory:#orders?poll_ms=4294967295&lease_ms=4294967295", UINT32_MAX, UINT32_MAX);
}

static size_t receive(semel_transport *queue, semel_delivery *out)
{
    size_t count = 9;
    OK(semel_transport_receive(queue, out, 1, &count, 0, &last_error));
    return count;
}

/* A delivery comes again when the time of the URL is over, and not before. */
static void a_delivery_is_leased_as_the_url_says(void **state)
{
    semel_test_seam *seam = NULL;
    semel_transport *queue = NULL;
    semel_message message = text_message("m-1", "10 EUR");
    const semel_message *pointer = &message;
    semel_publish_result result;
    semel_delivery got;
    (void)state;
    OK(semel_test_seam_open(&seam, 1, &last_error));
    semel_transport_options options = {.size = sizeof options, .seam = semel_test_seam_get(seam)};
    OK(semel_transport_open(&queue, "store:memory:#orders?lease_ms=7000", &options, &last_error));
    OK(semel_transport_publish(&result, queue, &pointer, 1, 1000, &last_error));
    assert_int_equal(receive(queue, &got), 1);
    semel_test_advance_ms(seam, 6999);
    assert_int_equal(receive(queue, &got), 0);
    semel_test_advance_ms(seam, 1);
    assert_int_equal(receive(queue, &got), 1);
    assert_int_equal(got.message->delivery, 2);
    semel_transport_close(queue);
    semel_test_seam_close(seam);
}

static void memory_is_warned_of(void **state)
{
    semel_transport *queue = NULL;
    (void)state;
    OK(semel_transport_open(&queue, "store:memory:#orders", NULL, &last_error));
    assert_non_null(strstr(semel_transport_warnings(queue), "memory"));
    semel_transport_close(queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_url_is_refused_by_its_part),
        cmocka_unit_test(a_name_that_is_too_long_is_refused),
        cmocka_unit_test(a_bad_parameter_is_refused),
        cmocka_unit_test(each_side_has_parameters_of_its_own),
        cmocka_unit_test(parameters_are_taken),
        cmocka_unit_test(a_delivery_is_leased_as_the_url_says),
        cmocka_unit_test(memory_is_warned_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
