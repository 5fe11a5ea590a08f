/* P9: handlers that kill their own process. Attempts are counted when they start, so such a
 * message is found out, becomes a dead letter at the limit, and takes none of its neighbours
 * with it. */
#include "support/inspect/inspect.h"
#include "support/process/process.h"
#include "support/scenario/crash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
/* cmocka needs the first two. */
#include <cmocka.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { NEIGHBOURS = 6, MIDDLE = 3, ATTEMPTS_MAX = 3 };

static int poison_at = MIDDLE;

typedef struct lives {
    crash_stage stage;
    crash_workflow flow;
    uint32_t life; /* of the process, from 1 */
    void (*run)(struct lives *l, crash_world *w);
    uint32_t limit; /* attempts_max */
    uint32_t more;  /* starts that are not counted */
} lives;

static const char *key_of(int index)
{
    static char key[CRASH_TEXT];
    (void)snprintf(key, sizeof key, "%s-%d", index == poison_at ? "poison" : "order", index);
    return key;
}

/* --- the processes: each starts one lease after the one before -------------------------------- */

static int prepare(void *context)
{
    lives *l = context;
    crash_world w = {0};
    crash_workflow bare = l->flow;
    bare.bare = 1;
    crash_world_open(&w, &l->stage, &bare, 0);
    PROCESS_REQUIRE_OK(semel_store_migrate(w.base.store, &w.err), &w.err);
    effect_build(l->stage.place, "effect");
    crash_world_close(&w);
    return PROCESS_OK;
}

static int live(void *context)
{
    lives *l = context;
    crash_world w = {.lethal = 1};
    l->flow.start_ms = (int64_t)l->life * (CRASH_LEASE_MS + 1);
    crash_world_open(&w, &l->stage, &l->flow, 0);
    l->run(l, &w);
    crash_drain(&w);
    crash_world_close(&w);
    return PROCESS_OK;
}

/* Processes are started until one lives; how many died. */
static uint32_t live_until_well(lives *l)
{
    enum { LIVES_MAX = 20 };
    for (l->life = 1; l->life <= LIVES_MAX; l->life++) {
        int end = process_run(live, l);
        if (end == PROCESS_OK)
            return l->life - 1;
        assert_int_equal(end, PROCESS_KILLED + SIGKILL);
    }
    fail_msg("the poison killed %d processes and is not found out", LIVES_MAX);
    return 0;
}

static void check_only_the_poison_is_dead(const lives *l)
{
    const char *url = l->stage.place->url;
    assert_int_equal(inspect_number(url, "SELECT count(*) FROM semel_dead"), 1);
    assert_int_equal(
        inspect_number(url,
                       "SELECT count(*) FROM semel_dead WHERE CAST(body AS TEXT) LIKE 'poison%'"),
        1);
    assert_true(inspect_number(url, "SELECT attempts FROM semel_dead") >= (int64_t)l->limit);
}

static void live_and_check(lives *l)
{
    store_place place;
    store_place_open(&place, PLACE_SQLITE);
    crash_stage_open(&l->stage, &place);
    assert_int_equal(process_run(prepare, l), PROCESS_OK);
    assert_int_equal(live_until_well(l), l->limit + l->more);
    check_only_the_poison_is_dead(l);
    const char *wrong = crash_check_ended(&l->stage, &l->flow);
    if (wrong)
        fail_msg("%s", wrong);
    crash_stage_close(&l->stage);
    store_place_close(&place);
}

static void poison_is_found_out(void (*run)(lives *l, crash_world *w), semel_mode mode,
                                uint32_t limit)
{
    int64_t neighbours = NEIGHBOURS;
    lives l = {.run = run,
               .limit = limit,
               .flow = {.name = "poison",
                        .mode = mode,
                        .attempts_max = limit,
                        .done = neighbours,
                        .effects = mode == SEMEL_CLAIM ? 0 : neighbours,
                        .published = neighbours + 1,
                        .dead = 1}};
    live_and_check(&l);
}

/* --- one by one ------------------------------------------------------------------------------- */

/* As a broker does: what was not acknowledged comes again, with a higher delivery. */
static void receive_all(lives *l, crash_world *w)
{
    for (int i = 0; i <= NEIGHBOURS; i++)
        (void)crash_deliver(w, key_of(i), l->life);
}

static void p9_in_a_transaction(void **state)
{
    (void)state;
    poison_is_found_out(receive_all, SEMEL_TRANSACTION, ATTEMPTS_MAX);
}

static void p9_in_a_claim(void **state)
{
    (void)state;
    poison_is_found_out(receive_all, SEMEL_CLAIM, ATTEMPTS_MAX);
}

/* --- in a batch ------------------------------------------------------------------------------- */

static void receive_batch(lives *l, crash_world *w)
{
    char keys[NEIGHBOURS + 1][CRASH_TEXT];
    semel_message messages[NEIGHBOURS + 1];
    const semel_message *list[NEIGHBOURS + 1];
    semel_outcome outcomes[NEIGHBOURS + 1];
    for (int i = 0; i <= NEIGHBOURS; i++) {
        strcpy(keys[i], key_of(i));
        messages[i] = crash_message(keys[i]);
        messages[i].delivery = l->life;
        list[i] = &messages[i];
    }
    PROCESS_REQUIRE_OK(semel_inbox_receive_batch(outcomes, w->inbox, list, NEIGHBOURS + 1,
                                                 crash_handler, w, &w->err),
                       &w->err);
    for (int i = 0; i <= NEIGHBOURS; i++)
        PROCESS_REQUIRE(semel_outcome_settled(outcomes[i]));
}

static void p9_in_a_batch(void **state)
{
    (void)state;
    poison_is_found_out(receive_batch, SEMEL_TRANSACTION, ATTEMPTS_MAX);
}

static void p9_in_a_batch_of_claims(void **state)
{
    (void)state;
    poison_is_found_out(receive_batch, SEMEL_CLAIM, ATTEMPTS_MAX);
}

/* --- in a local hand-off ---------------------------------------------------------------------- */

static void fill_box(crash_world *w, semel_outbox *box)
{
    for (int i = 0; i <= NEIGHBOURS; i++) {
        semel_message message = crash_message(key_of(i));
        message.topic = "in";
        PROCESS_REQUIRE_OK(semel_outbox_send(box, &message, &w->err), &w->err);
    }
}

static void hand_over_all(lives *l, crash_world *w)
{
    semel_outbox *box;
    semel_relay *relay;
    semel_relay_options options = {
        .size = sizeof options, .lease_ms = CRASH_LEASE_MS, .attempts_max = l->limit};
    PROCESS_REQUIRE_OK(semel_outbox_open(&box, w->base.store, "box", &w->err), &w->err);
    if (l->life == 1)
        fill_box(w, box);
    PROCESS_REQUIRE_OK(
        semel_relay_open_local(&relay, box, w->inbox, crash_handler, w, &options, &w->err),
        &w->err);
    for (int steps = 0; steps < 2 * (NEIGHBOURS + 1) && crash_step(w, relay); steps++)
        continue;
    semel_relay_close(relay);
    semel_outbox_close(box);
}

static void p9_in_a_hand_off(void **state)
{
    (void)state;
    static const int positions[] = {0, MIDDLE, NEIGHBOURS};
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        poison_at = positions[i];
        poison_is_found_out(hand_over_all, SEMEL_TRANSACTION, ATTEMPTS_MAX);
    }
    poison_at = MIDDLE;
}

static void p9_in_a_hand_off_that_tries_once(void **state)
{
    (void)state;
    poison_is_found_out(hand_over_all, SEMEL_TRANSACTION, 1);
}

/* --- in runs of a partition ------------------------------------------------------------------- */

/* Two at a time: the first run of a process is announced, and those that follow are not. */
static size_t receive_run(crash_world *w, size_t at)
{
    enum { EACH = 2 };
    char keys[EACH][CRASH_TEXT];
    semel_message messages[EACH];
    const semel_message *list[EACH];
    int64_t positions[EACH];
    semel_outcome outcomes[EACH];
    size_t count = at + EACH <= NEIGHBOURS + 1 ? EACH : NEIGHBOURS + 1 - at, settled = 0;
    for (size_t i = 0; i < count; i++) {
        strcpy(keys[i], key_of((int)(at + i)));
        messages[i] = crash_message(keys[i]);
        list[i] = &messages[i];
        positions[i] = (int64_t)(at + i);
    }
    const semel_run run = {.size = sizeof run,
                           .partition = "log/0",
                           .positions = positions,
                           .messages = list,
                           .count = count};
    PROCESS_REQUIRE_OK(semel_inbox_receive_run(outcomes, w->inbox, &run, crash_handler, w, &w->err),
                       &w->err);
    while (settled < count && semel_outcome_settled(outcomes[settled]))
        settled++;
    return at + settled;
}

static void receive_runs(lives *l, crash_world *w)
{
    (void)l;
    for (size_t at = 0; at <= NEIGHBOURS;)
        at = receive_run(w, at);
}

/* The start of a process that had no trouble before is not counted: it is one more. */
static void p9_in_a_run(void **state)
{
    (void)state;
    static const uint32_t limits[] = {1, ATTEMPTS_MAX};
    static const int places[] = {0, MIDDLE, NEIGHBOURS};
    for (size_t i = 0; i < 6; i++) {
        lives l = {.run = receive_runs,
                   .limit = limits[i % 2],
                   .flow = {.name = "poison",
                            .positions = 1,
                            .attempts_max = limits[i % 2],
                            .effects = NEIGHBOURS,
                            .published = NEIGHBOURS + 1,
                            .dead = 1}};
        poison_at = places[i / 2];
        l.more = poison_at > 1 ? 1 : 0;
        l.more += l.limit == 1 && poison_at < NEIGHBOURS ? 1 : 0;
        live_and_check(&l);
    }
    poison_at = MIDDLE;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p9_in_a_transaction), cmocka_unit_test(p9_in_a_claim),
        cmocka_unit_test(p9_in_a_batch),       cmocka_unit_test(p9_in_a_batch_of_claims),
        cmocka_unit_test(p9_in_a_hand_off),    cmocka_unit_test(p9_in_a_hand_off_that_tries_once),
        cmocka_unit_test(p9_in_a_run),
    };
    return cmocka_run_group_tests_name("crash: poison", tests, NULL, NULL);
}
