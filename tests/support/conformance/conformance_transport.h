/* What every transport must do. A backend's own test file names a URL and what is particular about
 * it:
 *
 *     int main(void)
 *     {
 *         const transport_quirks memory = {.name = "memory", .make = make_url};
 *         return conformance_transport(&memory);
 *     }
 *
 * The tests publish with semel_transport_publish() and take deliveries with the two calls of
 * <semel/sys/transport.h> that a consumer uses. What the driver says it cannot do (its abilities)
 * is not asked of it. The clock is a semel_test_seam. */
#ifndef SEMEL_TESTS_CONFORMANCE_TRANSPORT_H
#define SEMEL_TESTS_CONFORMANCE_TRANSPORT_H

#include "support/base/check.h"
#include "support/fixture/scripted_handler.h"

#include <semel/sys/transport.h>
#include <semel/test.h>

enum {
    TRANSPORT_KEEPS = 1,         /* what was published is there after closing and opening again */
    TRANSPORT_COUNTS_TO_TWO = 2, /* message.delivery is 2 for every redelivery: more is not known */
    TRANSPORT_SORTS_HEADERS = 4, /* a redelivery has its headers in the order of their names */
    TRANSPORT_DEPTH_OF_NEW = 8   /* depth does not count what was delivered and has come back */
};

enum { TRANSPORT_URL_ROOM = 512 };

typedef struct transport_fixture transport_fixture;

typedef struct transport_quirks {
    const char *name;
    unsigned flags;
    semel_durability durability; /* of a confirmed message, with the URL that make() gives */
    size_t body_max;             /* of one message; 0: SEMEL_BODY_MAX */
    uint32_t lapse_ms; /* with this URL an unsettled delivery comes back by itself after ...
                                    0: only when the transport is closed */
    uint32_t
        settle_ms; /* a message that is there to be had is delivered within this real time: so long
                         * is waited for one that must not come. 0: at once */

    /* with a clock that goes on by itself: what is due so soon may be due already. 0: 1 */
    uint32_t grain_ms;

    void (*make)(char url[TRANSPORT_URL_ROOM]); /* of a queue that is fresh and empty */
    void (*remove)(const char *url);            /* may be NULL */

    /* Time passes for the broker; NULL if the seam's clock is its clock. */
    void (*pass_ms)(transport_fixture *fixture, int64_t ms);
} transport_quirks;

/* Runs the suite; the number of tests that failed, for main() to return. */
int conformance_transport(const transport_quirks *quirks);

/* --- for the authors of tests ----------------------------------------------------------------- */

struct transport_fixture {
    const transport_quirks *quirks;
    char url[TRANSPORT_URL_ROOM];
    semel_test_seam *seam;
    semel_transport *transport;
    unsigned abilities;
};

typedef struct transport_test {
    const char *name;
    void (*run)(void **fixture);
    unsigned needs; /* abilities of the driver; without them the test is not run */
} transport_test;

/* Beside the abilities of sys/transport.h: the driver has settle_in, or depth. */
enum { TRANSPORT_SETTLES_IN_UNITS = 1 << 16, TRANSPORT_TELLS_DEPTH = 1 << 17 };

#define TRANSPORT_TEST(function) TRANSPORT_TEST_OF(function, 0)
#define TRANSPORT_TEST_OF(function, needs) \
    {                                      \
#function, function, needs         \
    }

/* Each part of the suite is a file with a list, which ends with a name that is NULL. */
extern const transport_test transport_publish_tests[];
extern const transport_test transport_settle_tests[];
extern const transport_test transport_thread_tests[];
extern const transport_test transport_fork_tests[];

enum { RECEIVE_WAIT_MS = 30000 }; /* for what must come; what must not is not waited for */

void pass_broker_ms(transport_fixture *f, int64_t ms);
uint32_t broker_grain_ms(const transport_fixture *f); /* the quirk */
void reopen_transport(transport_fixture *f);

/* Publishes; every message must be confirmed. */
void publish_all(transport_fixture *f, const semel_message *const messages[], size_t count);
void publish_id(transport_fixture *f, const char *id, const char *group);

/* Exactly `count` deliveries, in as many calls as it takes. */
void take(transport_fixture *f, semel_delivery deliveries[], size_t count);
semel_delivery take_id(transport_fixture *f, const char *id);

/* It is what was published, delivered for the nth time. */
void expect_delivery(const transport_fixture *f, const semel_message *published,
                     const semel_message *delivered, uint32_t nth);

/* It is delivered for the nth time, if the driver counts. */
void expect_nth(const transport_fixture *f, const semel_message *delivered, uint32_t nth);

/* There is nothing to be had right now. */
void expect_nothing(transport_fixture *f);

void settle(transport_fixture *f, uint64_t tag, semel_verdict verdict, uint32_t delay_ms);

#endif
