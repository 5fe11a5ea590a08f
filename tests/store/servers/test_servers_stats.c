/* What a server's store says of itself: its stats end at their deadline, whatever the server does,
 * and the observer hears of each outcome once, after the commit. */
#include "support/fixture/observed.h"
#include "support/process/process.h"
#include "support/process/threads.h"
#include "support/servers/server_each.h"
#include "support/servers/sql/app_session.h"
#include "support/servers/sql/server_freeze.h"

#include <stdlib.h>

enum { SHORT_MS = 300, NEVER_MS = 3600000 };

/* --- a server that does not answer ------------------------------------------------------------ */

typedef struct frozen_case {
    server_own own;
    server_case c;
    semel_stats found;
    semel_health health;
    semel_status status;
    semel_error err;
    test_thread thread;
} frozen_case;

static int setup(void **state)
{
    frozen_case *s = calloc(1, sizeof *s);
    server_own_start(&s->own, kind_of_state(state));
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    frozen_case *s = *state;
    server_own_stop(&s->own);
    free(s);
    return 0;
}

static void count_store(test_thread *member)
{
    frozen_case *s = member->context;
    s->status = semel_store_stats(&s->found, sizeof s->found, s->c.base.store, SHORT_MS, &s->err);
}

static void count_inbox(test_thread *member)
{
    frozen_case *s = member->context;
    s->status = semel_inbox_stats(&s->found, sizeof s->found, s->c.inbox, SHORT_MS, &s->err);
}

static void count_outbox(test_thread *member)
{
    frozen_case *s = member->context;
    s->status = semel_outbox_stats(&s->found, sizeof s->found, s->c.outbox, SHORT_MS, &s->err);
}

static void ask_health(test_thread *member)
{
    frozen_case *s = member->context;
    semel_health_query query = {
        .size = sizeof query, .store = s->c.base.store, .deadline_ms = SHORT_MS};
    s->status = semel_health_check(&s->health, sizeof s->health, &query, &s->err);
}

static void ends(frozen_case *s, void (*what)(test_thread *member))
{
    test_thread_start(&s->thread, what, s);
    assert_true(test_thread_join(&s->thread, CASE_WAIT_MS));
}

/* In the end: on a slow machine the server may not answer before the deadline, though it could. */
static void succeeds(frozen_case *s, void (*what)(test_thread *member))
{
    int64_t deadline = process_now_ms() + CASE_WAIT_MS;
    do
        ends(s, what);
    while (s->status && process_now_ms() < deadline);
    if (s->status)
        fail_msg("%s", s->err.text);
}

static void is_counted_again(frozen_case *s)
{
    succeeds(s, count_outbox);
    assert_int_equal(s->found.unsent, 1);
}

static void is_healthy_again(frozen_case *s)
{
    int64_t deadline = process_now_ms() + CASE_WAIT_MS;
    do
        ends(s, ask_health);
    while (s->health.state != SEMEL_HEALTH_OK && process_now_ms() < deadline);
    assert_int_equal(s->health.state, SEMEL_HEALTH_OK);
}

/* The same of the claims alone, which are left out if they take too long. */
static void claims_are_known(frozen_case *s)
{
    int64_t deadline = process_now_ms() + CASE_WAIT_MS;
    do
        succeeds(s, count_inbox);
    while (s->found.open_claims && process_now_ms() < deadline);
    assert_int_equal(s->found.open_claims, 0);
}

/* The store itself would wait for an hour. The first call has a connection, and loses it; the
 * others cannot get one. */
static void counting_ends_at_its_deadline(void **state)
{
    frozen_case *s = *state;
    void (*const calls[])(test_thread *) = {count_store, count_inbox, count_outbox};
    server_shape shape = {.kind = s->own.at.kind, .mode = BY_CLAIM};
    semel_message message = text_message("m", "paid");
    case_make(&s->c, &s->own.at, &shape,
              s->own.at.kind == SERVER_POSTGRES ? "&tcp_user_timeout=0" : "");
    s->c.answer_ms = NEVER_MS;
    case_open(&s->c, NEVER_MS, NULL);
    OK(semel_outbox_send(s->c.outbox, &message, &last_error));
    is_counted_again(s);
    server_own_freeze(&s->own);
    for (size_t i = 0; i < 3; i++) {
        ends(s, calls[i]);
        if (s->status != SEMEL_EUNAVAILABLE && s->status != SEMEL_EBUSY)
            fail_msg("%s (%s)", semel_status_name(s->status), s->err.text);
    }
    ends(s, ask_health);
    assert_int_equal(s->status, SEMEL_OK);
    assert_int_equal(s->health.state, SEMEL_HEALTH_WAITING);
    assert_string_not_equal(s->health.store.error, "");
    server_own_thaw(&s->own);
    is_counted_again(s);
    is_healthy_again(s);
    case_remove(&s->c);
}

/* --- markers that cannot be read in time ------------------------------------------------------ */

static void lock_markers(app_session *g, server_kind kind)
{
    if (kind == SERVER_POSTGRES)
        app_session_run(g, "BEGIN");
    app_session_run(g, kind == SERVER_POSTGRES ? "LOCK TABLE semel_marker IN ACCESS EXCLUSIVE MODE"
                                               : "LOCK TABLES semel_marker WRITE");
}

static void claims_that_cannot_be_counted_are_not_known(void **state)
{
    frozen_case *s = *state;
    server_shape shape = {.kind = s->own.at.kind, .mode = BY_CLAIM};
    case_make(&s->c, &s->own.at, &shape, "");
    case_open(&s->c, CASE_BUSY_MS, NULL);
    claims_are_known(s);
    app_session *g = app_session_open(&s->c);
    lock_markers(g, s->own.at.kind);
    succeeds(s, count_inbox);
    assert_int_equal(s->found.open_claims, -1);
    app_session_close(g);
    claims_are_known(s);
    case_remove(&s->c);
}

/* --- the observer ----------------------------------------------------------------------------- */

/* In queued mode the handler plans before the server is asked, also for a copy. */
static void each_outcome_is_one_event(void **state)
{
    static const semel_mode modes[] = {SEMEL_TRANSACTION, SEMEL_QUEUED, SEMEL_CLAIM};
    static const char *const names[] = {"transaction", "queued", "claim"};
    frozen_case *s = *state;
    server_shape shape = {.kind = s->own.at.kind, .mode = BY_TRANSACTION};
    observed o;
    case_make(&s->c, &s->own.at, &shape, "");
    case_open(&s->c, CASE_BUSY_MS, NULL);
    observed_open(&o, &s->c.base, NULL);
    for (size_t i = 0; i < 3; i++) {
        int planned = modes[i] == SEMEL_QUEUED;
        scripted_handler good = {0}, bad = {.failures = 9};
        semel_message other = text_message("a", "another body");
        semel_inbox *inbox = observed_inbox(
            &o, names[i], (semel_inbox_options){.mode = modes[i], .attempts_max = 2});
        RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "a", &good);
        RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "a", &good);
        RECEIVES(SEMEL_EREJECTED, SEMEL_MISMATCH, inbox, &other, &good);
        RECEIVES_ID(SEMEL_EHANDLER, SEMEL_FAILED, inbox, "b", &bad);
        RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "b", &bad);
        RECEIVED(&o, SEMEL_PROCESSED, names[i], "a", 1, 1, NULL);
        RECEIVED(&o, SEMEL_DUPLICATE, names[i], "a", 0, planned, NULL);
        RECEIVED(&o, SEMEL_MISMATCH, names[i], "a", 0, planned, "other content");
        RECEIVED(&o, SEMEL_FAILED, names[i], "b", 1, 1, "out of paper");
        RECEIVED(&o, SEMEL_DEAD, names[i], "b", 2, 1, "out of paper");
    }
    NO_MORE(&o);
    case_remove(&s->c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EACH(counting_ends_at_its_deadline, setup, teardown),
        ON_EACH(claims_that_cannot_be_counted_are_not_known, setup, teardown),
        ON_EACH(each_outcome_is_one_event, setup, teardown),
    };
    return cmocka_run_group_tests_name("stats of servers", tests, NULL, NULL);
}
