/* Through the whole store, on a server of its own that is in trouble: no replica to wait for, no
 * memory, no right to write. What was not stored as promised is never reported as done, and
 * trouble of the server is not a failure of the handler. */
#include "redis_kit.h"
#include "support/fixture/fixture.h"

#include <stdio.h>
#include <string.h>

enum { BUSY_MS = 200, ANSWER_MS = 1000, ATTEMPTS = 2 };

typedef struct trouble_case {
    char url[SERVER_URL_ROOM];
    semel_store *store;
    semel_inbox *inbox;
    semel_outbox *outbox;
    char command[256], look[256];
} trouble_case;

static server_own own;
static trouble_case c;

static int start_server(void **state)
{
    (void)state;
    server_own_start(&own, SERVER_REDIS);
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    server_own_stop(&own);
    return 0;
}

static void open_store(const char *more, semel_mode mode)
{
    char url[SERVER_URL_ROOM];
    semel_store_options options = {
        .size = sizeof options, .busy_ms = BUSY_MS, .answer_ms = ANSWER_MS};
    semel_inbox_options inbox = {.size = sizeof inbox, .mode = mode, .attempts_max = ATTEMPTS};
    (void)snprintf(url, sizeof url, "%s%s", c.url, more);
    OK(semel_store_open(&c.store, url, &options, &last_error));
    OK(semel_store_migrate(c.store, &last_error));
    OK(semel_inbox_open(&c.inbox, c.store, "in", &inbox, &last_error));
    OK(semel_outbox_open(&c.outbox, c.store, "out", &last_error));
}

static void close_store(void)
{
    semel_outbox_close(c.outbox);
    semel_inbox_close(c.inbox);
    semel_store_close(c.store);
}

static void open_case(semel_mode mode)
{
    c = (trouble_case){0};
    server_fresh(c.url, &own.at);
    (void)snprintf(c.command, sizeof c.command, "INCR {%s}effects", strchr(c.url, '=') + 1);
    (void)snprintf(c.look, sizeof c.look, "GET {%s}effects", strchr(c.url, '=') + 1);
    open_store("", mode);
}

static int in_transactions(void **state)
{
    (void)state;
    open_case(SEMEL_TRANSACTION);
    return 0;
}

static int by_queue(void **state)
{
    (void)state;
    open_case(SEMEL_QUEUED);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close_store();
    server_run(c.url, "CONFIG SET maxmemory 0");
    server_run(c.url, "CONFIG SET min-replicas-to-write 0");
    server_drop(c.url);
    return 0;
}

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    (void)message, (void)context;
    return semel_unit_queue(unit, c.command, NULL, 0, err);
}

static semel_status receive(const char *id, semel_outcome *outcome)
{
    semel_message message = text_message(id, "body");
    *outcome = SEMEL_UNDECIDED;
    return semel_inbox_receive(outcome, c.inbox, &message, handle, NULL, &last_error);
}

/* --- trouble ---------------------------------------------------------------------------------- */

/* The write is there, but on no replica: it may be gone with the next failover. The repetition that
 * finds it does not make it any safer. */
static void no_replica_has_it(void **state)
{
    semel_outcome outcome;
    semel_message message = text_message("sent", "body");
    (void)state;
    semel_mode mode = SEMEL_QUEUED;
    OK(receive("warm", &outcome));
    close_store();
    open_store("&replicas=1", mode);
    FAILS(SEMEL_EUNKNOWN, receive("m", &outcome));
    assert_int_equal(outcome == SEMEL_PROCESSED, 0);
    FAILS(SEMEL_EUNKNOWN, semel_outbox_send(c.outbox, &message, &last_error));
}

static void wait_out(const char *set, const char *unset)
{
    semel_outcome outcome;
    OK(receive("warm", &outcome));
    server_run(c.url, set);
    for (int i = 0; i < ATTEMPTS + 2; i++) {
        FAILS(SEMEL_EUNAVAILABLE, receive("m", &outcome));
        assert_int_equal(outcome == SEMEL_DEAD, 0);
    }
    server_run(c.url, unset);
    OK(receive("m", &outcome));
    assert_int_equal(outcome, SEMEL_PROCESSED);
    assert_int_equal(server_number(c.url, c.look), 2);
}

/* The application's command is the first one that is refused. */
static void no_memory_is_not_the_handlers_failure(void **state)
{
    (void)state;
    wait_out("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0");
}

static void no_replicas_is_not_the_handlers_failure(void **state)
{
    (void)state;
    wait_out("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0");
}

int main(void)
{
#define TEST(function, set_up)                                    \
    {                                                             \
#function ", " #set_up, function, set_up, tear_down, NULL \
    }
    const struct CMUnitTest tests[] = {TEST(no_replica_has_it, by_queue),
                                       TEST(no_memory_is_not_the_handlers_failure, by_queue),
                                       TEST(no_memory_is_not_the_handlers_failure, in_transactions),
                                       TEST(no_replicas_is_not_the_handlers_failure, by_queue)};
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
