/* The runner of the transport suite, and the tools that its tests use. The tests are in
 * conformance_transport_*.c. */
#include "support/conformance/conformance_transport.h"

#include "support/process/deadline.h"

#include <stdlib.h>
#include <string.h>

enum { TESTS_MAX = 128 };

static const transport_test *const parts[] = {transport_publish_tests, transport_settle_tests,
                                              transport_thread_tests, transport_fork_tests};

/* --- one test --------------------------------------------------------------------------------- */

static void open_transport(transport_fixture *f)
{
    semel_transport_options options = {.size = sizeof options,
                                       .seam = semel_test_seam_get(f->seam)};
    OK(semel_transport_open(&f->transport, f->url, &options, &last_error));
    const semel_transport_driver *driver = semel_transport_driver_of(f->transport);
    f->abilities = driver->abilities |
                   (driver->settle_in ? (unsigned)TRANSPORT_SETTLES_IN_UNITS : 0) |
                   (driver->depth ? (unsigned)TRANSPORT_TELLS_DEPTH : 0);
}

static int setup(void **state)
{
    transport_fixture *f = calloc(1, sizeof *f);
    if (!f)
        return -1;
    f->quirks = *state;
    *state = f;
    deadline_begin();
    OK(semel_test_seam_open(&f->seam, 1, &last_error));
    f->quirks->make(f->url);
    open_transport(f);
    return 0;
}

static int teardown(void **state)
{
    transport_fixture *f = *state;
    semel_transport_close(f->transport);
    semel_test_seam_close(f->seam);
    if (f->quirks->remove)
        f->quirks->remove(f->url);
    free(f);
    deadline_end();
    return 0;
}

static unsigned abilities_of(const transport_quirks *quirks)
{
    void *state = (void *)(uintptr_t)quirks;
    assert_int_equal(setup(&state), 0);
    unsigned abilities = ((transport_fixture *)state)->abilities;
    assert_int_equal(teardown(&state), 0);
    return abilities;
}

int conformance_transport(const transport_quirks *quirks)
{
    static struct CMUnitTest tests[TESTS_MAX];
    unsigned abilities = abilities_of(quirks);
    size_t count = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (const transport_test *test = parts[i]; test->name; test++) {
            assert_true(count < TESTS_MAX);
            if (test->needs & ~abilities)
                continue;
            tests[count++] = (struct CMUnitTest){test->name, test->run, setup, teardown,
                                                 (void *)(uintptr_t)quirks};
        }
    return _cmocka_run_group_tests(quirks->name, tests, count, NULL, NULL);
}

/* --- tools ------------------------------------------------------------------------------------ */

void pass_broker_ms(transport_fixture *f, int64_t ms)
{
    if (f->quirks->pass_ms)
        f->quirks->pass_ms(f, ms);
    else
        semel_test_advance_ms(f->seam, ms);
}

uint32_t broker_grain_ms(const transport_fixture *f)
{
    return f->quirks->grain_ms ? f->quirks->grain_ms : 1;
}

void reopen_transport(transport_fixture *f)
{
    semel_transport_close(f->transport);
    f->transport = NULL;
    open_transport(f);
}

void publish_all(transport_fixture *f, const semel_message *const messages[], size_t count)
{
    semel_publish_result *results = calloc(count + 1, sizeof *results);
    assert_non_null(results);
    OK(semel_transport_publish(results, f->transport, messages, count, RECEIVE_WAIT_MS,
                               &last_error));
    size_t confirmed = 0;
    for (size_t i = 0; i < count; i++)
        confirmed += results[i] == SEMEL_PUBLISH_CONFIRMED;
    free(results);
    assert_int_equal(confirmed, count);
}

void publish_id(transport_fixture *f, const char *id, const char *group)
{
    semel_message message = text_message(id, "10 EUR");
    const semel_message *pointer = &message;
    message.group = group;
    publish_all(f, &pointer, 1);
}

void take(transport_fixture *f, semel_delivery deliveries[], size_t count)
{
    for (size_t have = 0, got; have < count; have += got) {
        OK(semel_transport_receive(f->transport, deliveries + have, count - have, &got,
                                   RECEIVE_WAIT_MS, &last_error));
        assert_in_range(got, 1, count - have);
    }
}

semel_delivery take_id(transport_fixture *f, const char *id)
{
    semel_delivery delivery;
    take(f, &delivery, 1);
    BYTES_EQUAL(semel_str(id), delivery.message->id);
    return delivery;
}

void expect_nth(const transport_fixture *f, const semel_message *delivered, uint32_t nth)
{
    uint32_t known = nth > 2 && (f->quirks->flags & TRANSPORT_COUNTS_TO_TWO) ? 2 : nth;
    if (f->abilities & SEMEL_TRANSPORT_COUNTS)
        assert_int_equal(delivered->delivery, known);
}

/* By insertion, because headers of the same name keep their order. */
static void sort_headers(semel_header headers[SEMEL_HEADERS_MAX], semel_message *message)
{
    for (size_t i = 0; i < message->header_count; i++) {
        size_t place = i;
        for (; place && strcmp(headers[place - 1].name, message->headers[i].name) > 0; place--)
            headers[place] = headers[place - 1];
        headers[place] = message->headers[i];
    }
    message->headers = headers;
}

void expect_delivery(const transport_fixture *f, const semel_message *published,
                     const semel_message *delivered, uint32_t nth)
{
    semel_header headers[SEMEL_HEADERS_MAX];
    semel_message expected = *published;
    if (nth > 1 && (f->quirks->flags & TRANSPORT_SORTS_HEADERS))
        sort_headers(headers, &expected);
    MESSAGE_EQUAL(&expected, delivered);
    expect_nth(f, delivered, nth);
}

void expect_nothing(transport_fixture *f)
{
    semel_delivery delivery;
    size_t count = 9;
    OK(semel_transport_receive(f->transport, &delivery, 1, &count, f->quirks->settle_ms,
                               &last_error));
    assert_int_equal(count, 0);
}

void settle(transport_fixture *f, uint64_t tag, semel_verdict verdict, uint32_t delay_ms)
{
    semel_delivery_settlement one = {tag, verdict, delay_ms};
    OK(semel_transport_settle(f->transport, &one, 1, &last_error));
}
