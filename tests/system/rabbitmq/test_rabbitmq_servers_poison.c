/* Handlers that kill their own process, on a real broker: the consumer is started anew each time,
 * and the broker delivers again what the dead one had. Such a message becomes one dead letter at
 * the limit of attempts, with no help from the broker, and takes none of those with it that came in
 * the same window. */
#include "support/servers/rabbitmq/rabbitmq_servers_kit.h"

enum { ATTEMPTS = 3, LIVES_MAX = 20 };

typedef struct life {
    service_case *s;
    uint32_t attempts_max, batch;
    semel_mode mode;
} life;

static int consume(void *context)
{
    const life *l = context;
    service v;
    service_open_consumer(
        &v, l->s, NULL, (semel_inbox_options){.attempts_max = l->attempts_max, .mode = l->mode},
        (semel_consumer_options){.batch = l->batch, .backoff_ms = 20, .backoff_max_ms = 100});
    return run_consumer_in_child(&v, l->s);
}

/* Nothing is in its hands, either, which it would give back. */
static int queue_is_done(const service_case *s)
{
    return broker_count(&s->kit.broker, s->kit.queue) == 0;
}

/* Consumers are started until one lives to see the end; how many died. */
static unsigned live_until(life *l,
                           int (*is_over)(const service_case *s, int64_t good, int64_t dead),
                           int64_t good, int64_t dead)
{
    int64_t deadline = process_now_ms() + 2 * KIT_WAIT_MS;
    for (unsigned died = 0; died < LIVES_MAX; died++) {
        pid_t *pid = &l->s->children[0];
        *pid = process_start(consume, l);
        while (!has_ended(*pid) && !(is_over(l->s, good, dead) && queue_is_done(l->s)) &&
               process_now_ms() < deadline)
            process_nap();
        int living = !has_ended(*pid);
        int end = living ? stop_and_wait(*pid) : process_wait(*pid, KIT_WAIT_MS);
        *pid = 0;
        end_leases(l->s);
        assert_int_equal(end, living ? PROCESS_OK : PROCESS_KILLED + SIGKILL);
        if (living && process_now_ms() >= deadline)
            fail_msg("it never came to an end");
        if (living)
            return died;
    }
    fail_msg("the poison killed %d processes and is not found out", LIVES_MAX);
    return 0;
}

static int all_is_done(const service_case *s, int64_t good, int64_t dead)
{
    return dead_letters(s) >= dead && effects(s) >= good && runs_of(s, "g3") > 0;
}

/* --- one -------------------------------------------------------------------------------------- */

static void check_letter(const letter *l, const char *id)
{
    assert_string_equal(l->id, id);
    assert_string_equal(l->name, "stock");
    assert_int_equal(l->attempts, ATTEMPTS);
    assert_non_null(strstr(l->error, "killed or crashed"));
}

#define WINDOW "g0 g1 g2 p0 g4 g5 g6 g7 g3"
#define GOODS  "g0 g1 g2 g3 g4 g5 g6 g7"

static void one_poison(service_case *s, life l)
{
    l.s = s;
    l.attempts_max = ATTEMPTS;
    service_case_publish(s, WINDOW);
    assert_int_equal(live_until(&l, all_is_done, l.mode == SEMEL_CLAIM ? 0 : 8, 1), ATTEMPTS);
    expect_empty_queue(s);
    letters found = read_letters(s);
    assert_int_equal(found.count, 1);
    check_letter(&found.all[0], "p0");
    assert_int_equal(runs_of(s, "p0"), ATTEMPTS);
}

static void a_poison_is_one_dead_letter_and_its_window_is_well(void **state)
{
    one_poison(*state, (life){.batch = 1});
    expect_effects(*state, GOODS);
}

static void a_poison_in_a_batch_is_one_dead_letter_and_its_window_is_well(void **state)
{
    one_poison(*state, (life){.batch = 4});
    expect_effects(*state, GOODS);
}

static void a_poison_with_default_options_is_one_dead_letter_and_its_window_is_well(void **state)
{
    one_poison(*state, (life){.batch = 0});
    expect_effects(*state, GOODS);
}

/* The handler has no transaction then, so its effects are its runs. */
static void a_poison_under_claims_is_one_dead_letter_and_its_window_is_well(void **state)
{
    const service_case *s = *state;
    one_poison(*state, (life){.batch = 1, .mode = SEMEL_CLAIM});
    for (char id[] = "g0"; id[1] <= '7'; id[1]++)
        assert_int_equal(runs_of(s, id), 1);
}

/* --- several ---------------------------------------------------------------------------------- */

/* Those behind the first were delivered before they were tried once: each has one attempt less. */
static void several_poisons_are_one_dead_letter_each_and_their_window_is_well(void **state)
{
    service_case *s = *state;
    life l = {.s = s, .attempts_max = ATTEMPTS, .batch = 1};
    service_case_publish(s, "p0 g0 g1 p1 g2 p2 g3");
    assert_int_equal(live_until(&l, all_is_done, 4, 3), ATTEMPTS + 2 * (ATTEMPTS - 1));
    letters found = read_letters(s);
    assert_int_equal(found.count, 3);
    for (size_t i = 0; i < 3; i++)
        check_letter(&found.all[i], (const char *const[]){"p0", "p1", "p2"}[i]);
    expect_effects(s, "g0 g1 g2 g3");
}

/* --- the broker's own limit ------------------------------------------------------------------- */

/* A service_case on a queue with a delivery limit, and the queue for what is over it. */
static void open_limited(service_case *s, server_kind kind, unsigned limit,
                         char dead[BROKER_NAME_ROOM])
{
    char parameters[SERVER_URL_ROOM];
    server_place broker;
    server_find(&broker, SERVER_RABBITMQ);
    broker_name(dead);
    broker_make_exchange(&broker, dead, "fanout");
    broker_make_queue(&broker, dead, "quorum");
    broker_bind(&broker, dead, dead, "");
    (void)snprintf(parameters, sizeof parameters, QUORUM "&delivery_limit=%u&dead_letter=%s", limit,
                   dead);
    service_case_open(s, kind, parameters);
}

static void close_limited(service_case *s, const char *dead)
{
    broker_delete_queue(&s->kit.broker, dead);
    broker_delete_exchange(&s->kit.broker, dead);
    service_case_close(s);
}

static void the_broker_gives_nothing_up_while_its_limit_is_the_higher_one(void **state)
{
    const variant *on = *state;
    char dead[BROKER_NAME_ROOM];
    service_case s;
    open_limited(&s, on->kind, ATTEMPTS + 1, dead);
    one_poison(&s, (life){.batch = 1});
    expect_effects(&s, GOODS);
    assert_int_equal(broker_count(&s.kit.broker, dead), 0);
    close_limited(&s, dead);
}

static int the_broker_has_given_up(const service_case *s, int64_t good, int64_t dead)
{
    (void)good, (void)dead;
    return runs_of(s, "p0") == 2 && effects_of(s, "g2") == 1;
}

/* What went over the limit is in the broker's dead letters, and nothing is lost: the counterpart to
 * the test before, which would see it if it happened there. */
static void with_a_lower_limit_the_broker_gives_up_first(void **state)
{
    const variant *on = *state;
    char dead[BROKER_NAME_ROOM];
    service_case s;
    broker_message given_up;
    open_limited(&s, on->kind, 1, dead);
    life l = {.s = &s, .attempts_max = 10, .batch = 1};
    service_case_publish(&s, "g0 p0");
    for (int lives = 0; runs_of(&s, "p0") < 2; lives++) {
        assert_true(lives < LIVES_MAX);
        assert_int_equal(process_run(consume, &l), PROCESS_KILLED + SIGKILL);
    }
    EVENTUALLY(broker_get(&given_up, &s.kit.broker, dead));
    assert_int_equal(given_up.message.properties.message_id.len, 2);
    assert_memory_equal(given_up.message.properties.message_id.bytes, "p0", 2);
    broker_message_free(&given_up);
    service_case_publish(&s, "g2");
    assert_int_equal(live_until(&l, the_broker_has_given_up, 0, 0), 0);
    expect_empty_queue(&s);
    expect_effects(&s, "g0 g2");
    assert_int_equal(dead_letters(&s), 0);
    close_limited(&s, dead);
}

#define IN(function, on, kind)                              \
    {                                                       \
#function ", " on, function, NULL, NULL, &(variant) \
        {                                                   \
            kind, NULL                                      \
        }                                                   \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SQLITE(a_poison_is_one_dead_letter_and_its_window_is_well, CLASSIC),
        ON_POSTGRES(a_poison_is_one_dead_letter_and_its_window_is_well, QUORUM),
        ON_SQLITE(a_poison_in_a_batch_is_one_dead_letter_and_its_window_is_well, QUORUM),
        ON_SQLITE(a_poison_with_default_options_is_one_dead_letter_and_its_window_is_well, QUORUM),
        ON_POSTGRES(a_poison_with_default_options_is_one_dead_letter_and_its_window_is_well,
                    CLASSIC),
        ON_POSTGRES(a_poison_under_claims_is_one_dead_letter_and_its_window_is_well, CLASSIC),
        ON_SQLITE(several_poisons_are_one_dead_letter_each_and_their_window_is_well, QUORUM),
        ON_POSTGRES(several_poisons_are_one_dead_letter_each_and_their_window_is_well, CLASSIC),
        IN(the_broker_gives_nothing_up_while_its_limit_is_the_higher_one, "sqlite", (server_kind)0),
        IN(the_broker_gives_nothing_up_while_its_limit_is_the_higher_one, "postgres",
           SERVER_POSTGRES),
        IN(with_a_lower_limit_the_broker_gives_up_first, "sqlite", (server_kind)0),
    };
    return cmocka_run_group_tests_name("rabbitmq and stores: poison", tests, NULL, NULL);
}
