/* Groups that wait: for a backoff, for a delay. However many there are, and however much stands
 * behind them, they cost those that are ready nothing, they come back in time, and nothing in them
 * is overtaken.
 *
 * The tests speak to the driver, because what counts is how often it is asked: a relay's turn is a
 * take. */
#include "support/conformance/conformance_store.h"

#include "core/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 100, TAKEN_MAX = 1000, LEASE_MS = 600000, GROUP_ROOM = 32, ID_ROOM = 48 };

/* --- takes ------------------------------------------------------------------------------------ */

typedef struct taken {
    size_t count;
    semel_item_settlement settlements[TAKEN_MAX];
    uint32_t attempts[TAKEN_MAX];
    char ids[TAKEN_MAX][ID_ROOM];
} taken;

typedef struct post {
    store_fixture *f;
    const semel_store_driver *driver;
    void *store;
    int64_t outbox;
    taken *all; /* of the last take */
} post;

static post open_post(store_fixture *f)
{
    post p = {.f = f, .driver = f->base.store->driver, .store = f->base.store->state};
    OK(p.driver->scope(p.store, SEMEL_SCOPE_OUTBOX, "mail", &p.outbox, &last_error));
    p.all = calloc(1, sizeof *p.all);
    assert_non_null(p.all);
    return p;
}

static void close_post(post *p)
{
    free(p->all);
}

static void *begin(const post *p)
{
    void *unit = calloc(1, p->driver->unit_size);
    OK(p->driver->units->begin(p->store, unit, SEMEL_BEGIN_RELAXED, 60000, &last_error));
    return unit;
}

static void commit(const post *p, void *unit)
{
    OK(p->driver->units->commit(unit, &last_error));
    free(unit);
}

static semel_status collect(const semel_item *item, void *context, semel_error *err)
{
    taken *all = context;
    if (all->count == TAKEN_MAX)
        return semel_fail(err, SEMEL_ELIMIT, "more than was asked for");
    (void)snprintf(all->ids[all->count], ID_ROOM, "%.*s", (int)item->message->id.len,
                   (const char *)item->message->id.data);
    all->attempts[all->count] = item->attempts;
    all->settlements[all->count++] = (semel_item_settlement){
        .seq = item->seq, .token = item->token, .verdict = SEMEL_VERDICT_ACK};
    return SEMEL_OK;
}

/* As the core does it: where transactions are small, fewer at a time. */
static size_t take(post *p, uint32_t limit)
{
    uint32_t most = p->driver->changes_max / 2;
    void *unit = begin(p);
    limit = most && limit > most ? most : limit;
    p->all->count = 0;
    OK(p->driver->outbox->lease(unit, p->outbox, limit, LEASE_MS, collect, p->all, &last_error));
    commit(p, unit);
    return p->all->count;
}

/* All of the last take, in the same way. */
static void settle(post *p, semel_verdict verdict, uint32_t delay_ms)
{
    void *unit = begin(p);
    for (size_t i = 0; i < p->all->count; i++) {
        p->all->settlements[i].verdict = verdict;
        p->all->settlements[i].delay_ms = delay_ms;
    }
    OK(p->driver->outbox->settle(unit, p->outbox, p->all->settlements, p->all->count, &last_error));
    commit(p, unit);
    for (size_t i = 0; i < p->all->count; i++)
        assert_false(p->all->settlements[i].lost);
}

/* What was taken, in order, separated by spaces. */
static const char *taken_ids(const post *p)
{
    static char text[1024];
    text[0] = 0;
    for (size_t i = 0; i < p->all->count; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "", p->all->ids[i]);
    }
    return text;
}

/* --- messages --------------------------------------------------------------------------------- */

static void put_in(const post *p, void *unit, const char *id, const char *group, uint32_t delay_ms)
{
    semel_message message = text_message(id, "paid");
    message.group = group;
    message.delay_ms = delay_ms;
    OK(p->driver->outbox->put(unit, p->outbox, &message, &last_error));
}

static void put(const post *p, const char *id, const char *group, uint32_t delay_ms)
{
    void *unit = begin(p);
    put_in(p, unit, id, group, delay_ms);
    commit(p, unit);
}

/* One for each of the groups "m00000", "m00001" ..., with the id "m00000.number". */
static void put_to_all(const post *p, unsigned groups, unsigned number, uint32_t delay_ms)
{
    unsigned most = p->driver->changes_max ? p->driver->changes_max : 1000;
    void *unit = begin(p);
    for (unsigned i = 0; i < groups; i++) {
        char group[GROUP_ROOM], id[ID_ROOM];
        (void)snprintf(group, sizeof group, "m%05u", i);
        (void)snprintf(id, sizeof id, "m%05u.%u", i, number);
        put_in(p, unit, id, group, delay_ms);
        if (i % most == most - 1) {
            commit(p, unit);
            unit = begin(p);
        }
    }
    commit(p, unit);
}

/* Every group's first message is tried, and fails. */
static void fail_all(post *p, unsigned groups, uint32_t backoff_ms)
{
    unsigned failed = 0, takes = 0;
    while (failed < groups) {
        assert_true(takes++ < groups);
        failed += (unsigned)take(p, TAKEN_MAX);
        settle(p, SEMEL_VERDICT_RETRY, backoff_ms);
    }
    assert_int_equal(failed, groups);
}

/* Once past all of them: what is new behind those that wait has been seen. */
static void go_round(post *p, unsigned groups)
{
    for (unsigned seen = 0; seen < groups; seen += BATCH)
        assert_int_equal(take(p, BATCH), 0);
}

/* The next take has it, whatever its name. */
static void expect_ready_at_once(post *p)
{
    static const char *const names[] = {"a", "m00000a", "m02500a", "m03750a", "m99999a", "z"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        put(p, names[i], names[i], 0);
        assert_int_equal(take(p, BATCH), 1);
        assert_string_equal(p->all->ids[0], names[i]);
        settle(p, SEMEL_VERDICT_ACK, 0);
    }
}

/* --- the tests -------------------------------------------------------------------------------- */

/* Where transactions are small, so many would take minutes. */
static unsigned many(const post *p)
{
    return p->driver->changes_max ? 500 : 5000;
}

static void a_ready_group_does_not_wait_for_those_in_backoff(void **state)
{
    post p = open_post(*state);
    put_to_all(&p, many(&p), 1, 0);
    fail_all(&p, many(&p), 3600000);
    expect_ready_at_once(&p);
    close_post(&p);
}

static void a_ready_group_does_not_wait_for_those_with_followers(void **state)
{
    post p = open_post(*state);
    put_to_all(&p, many(&p), 1, 0);
    fail_all(&p, many(&p), 3600000);
    put_to_all(&p, many(&p), 2, 0);
    go_round(&p, many(&p));
    expect_ready_at_once(&p);
    close_post(&p);
}

static void a_ready_group_does_not_wait_for_delayed_ones(void **state)
{
    post p = open_post(*state);
    put_to_all(&p, many(&p), 1, 3600000);
    go_round(&p, many(&p));
    expect_ready_at_once(&p);
    close_post(&p);
}

/* Takes and removes until all are gone: in each group the numbers ascend without a gap. */
static void expect_all_in_order(post *p, unsigned groups, unsigned each, uint32_t limit)
{
    unsigned *next = calloc(groups, sizeof *next), left = groups * each, takes = 0;
    assert_non_null(next);
    for (; left && takes < 10 * groups * each; takes++) {
        left -= (unsigned)take(p, limit);
        for (size_t i = 0; i < p->all->count; i++) {
            unsigned group = (unsigned)atoi(p->all->ids[i] + 1);
            assert_int_equal(atoi(strchr(p->all->ids[i], '.') + 1), next[group]++);
        }
        settle(p, SEMEL_VERDICT_ACK, 0);
    }
    free(next);
    assert_int_equal(left, 0);
    assert_int_equal(take(p, BATCH), 0);
    assert_int_equal(counters_of(p->f).unsent, 0);
}

/* One that is new in a group that waits is looked at once, not at every turn; and it is not
 * forgotten. */
static void groups_that_waited_come_back_in_order(void **state)
{
    enum { EACH = 4 };
    store_fixture *f = *state;
    post p = open_post(f);
    unsigned groups = p.driver->changes_max ? 60 : 300;
    put_to_all(&p, groups, 0, 0);
    fail_all(&p, groups, grains(f, 1000));
    for (unsigned number = 1; number < EACH; number++) {
        put_to_all(&p, groups, number, 0);
        go_round(&p, groups);
    }
    pass_almost(f, grains(f, 1000));
    go_round(&p, groups);
    pass_grain(f);
    expect_all_in_order(&p, groups, EACH, BATCH);
    close_post(&p);
}

/* What has waited is in one place of a store, perhaps, and what is new in another: a turn that
 * takes only a part of both begins with the first, whatever its size. */
static void what_is_new_does_not_overtake_what_has_waited(void **state)
{
    enum { GROUPS = 4, WAITED = 7, EACH = 12, LARGEST = 20 };
    store_fixture *f = *state;
    post p = open_post(f);
    for (uint32_t limit = 1; limit <= LARGEST; limit++) {
        put_to_all(&p, GROUPS, 0, 0);
        fail_all(&p, GROUPS, grains(f, 1000));
        for (unsigned number = 1; number < WAITED; number++)
            put_to_all(&p, GROUPS, number, 0);
        go_round(&p, GROUPS);
        pass_ms(f, grains(f, 1000));
        for (unsigned number = WAITED; number < EACH; number++)
            put_to_all(&p, GROUPS, number, 0);
        expect_all_in_order(&p, GROUPS, EACH, limit);
    }
    close_post(&p);
}

/* Given up on, or gone for another reason: those behind it are free. */
static void what_waited_behind_a_message_leaves_when_that_is_gone(void **state)
{
    store_fixture *f = *state;
    post p = open_post(f);
    put(&p, "1", "g", 0);
    assert_int_equal(take(&p, BATCH), 1);
    settle(&p, SEMEL_VERDICT_RETRY, grains(f, 1000));
    put(&p, "2", "g", 0);
    put(&p, "3", "g", 0);
    assert_int_equal(take(&p, BATCH), 0);
    assert_int_equal(take(&p, BATCH), 0);
    pass_ms(f, grains(f, 1000));
    assert_int_equal(take(&p, 1), 1);
    assert_string_equal(taken_ids(&p), "1");
    put(&p, "4", "g", 0);
    assert_int_equal(take(&p, BATCH), 0); /* it is leased */
    p.all->count = 1;
    settle(&p, SEMEL_VERDICT_ACK, 0);
    assert_int_equal(take(&p, BATCH), 3);
    assert_string_equal(taken_ids(&p), "2 3 4");
    close_post(&p);
}

/* It has failed before; one that is found behind it has not. */
static void a_group_fails_again_and_again(void **state)
{
    enum { TIMES = 5 };
    store_fixture *f = *state;
    post p = open_post(f);
    put(&p, "1", "g", 0);
    for (unsigned i = 0; i < TIMES; i++) {
        assert_int_equal(take(&p, 1), 1);
        assert_string_equal(taken_ids(&p), "1");
        assert_int_equal(p.all->attempts[0], i + 1);
        settle(&p, SEMEL_VERDICT_RETRY, grains(f, 1000));
        put(&p, "more", "g", 0);
        pass_almost(f, grains(f, 1000));
        assert_int_equal(take(&p, BATCH), 0);
        assert_int_equal(take(&p, BATCH), 0);
        pass_grain(f);
    }
    assert_int_equal(take(&p, BATCH), 1 + TIMES);
    settle(&p, SEMEL_VERDICT_ACK, 0);
    assert_int_equal(take(&p, BATCH), 0);
    close_post(&p);
}

/* Not tried, so the attempt is not counted; with a delay it waits, and so do those behind it. */
static void a_released_message_waits_out_its_delay(void **state)
{
    store_fixture *f = *state;
    post p = open_post(f);
    put(&p, "1", "g", 0);
    put(&p, "2", "g", 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(take(&p, BATCH), 2);
        assert_string_equal(taken_ids(&p), "1 2");
        assert_int_equal(p.all->attempts[0], 1);
        assert_int_equal(p.all->attempts[1], 1);
        settle(&p, SEMEL_VERDICT_RELEASE, grains(f, 1000));
        pass_almost(f, grains(f, 1000));
        assert_int_equal(take(&p, BATCH), 0);
        pass_grain(f);
    }
    close_post(&p);
}

/* Only the first waits, which is enough; and one without a group waits alone. */
static void a_released_message_holds_up_its_group_only(void **state)
{
    store_fixture *f = *state;
    post p = open_post(f);
    put(&p, "1", "g", 0);
    put(&p, "free", NULL, 0);
    assert_int_equal(take(&p, BATCH), 2);
    settle(&p, SEMEL_VERDICT_RELEASE, grains(f, 1000));
    put(&p, "2", "g", 0);
    put(&p, "other", "h", 0);
    put(&p, "freer", NULL, 0);
    assert_int_equal(take(&p, BATCH), 2);
    settle(&p, SEMEL_VERDICT_ACK, 0);
    assert_int_equal(take(&p, BATCH), 0);
    pass_ms(f, grains(f, 1000));
    assert_int_equal(take(&p, BATCH), 3);
    close_post(&p);
}

/* Those that come back after a backoff, those that never failed and those without a group share the
 * turns, although more of each kind comes in than leaves. */
static void no_group_starves_when_many_come_back(void **state)
{
    enum { GROUPS = 10, TURNS = 60 };
    store_fixture *f = *state;
    post p = open_post(f);
    unsigned back = 0, fresh = 0, single = 0;
    put_to_all(&p, GROUPS, 0, 0);
    fail_all(&p, GROUPS, grains(f, 1000));
    put_to_all(&p, GROUPS, 1, 0);
    go_round(&p, GROUPS);
    pass_ms(f, grains(f, 1000));
    for (unsigned turn = 0; turn < TURNS; turn++) {
        put(&p, "new", "new", 0);
        put(&p, "single", NULL, 0);
        put(&p, "m.more", turn % 2 ? "m00001" : "m00007", 0);
        (void)take(&p, 1 + turn / 10 % 3);
        for (size_t i = 0; i < p.all->count; i++) {
            back += p.all->ids[i][0] == 'm';
            fresh += p.all->ids[i][0] == 'n';
            single += p.all->ids[i][0] == 's';
        }
        settle(&p, SEMEL_VERDICT_ACK, 0);
    }
    assert_true(back >= TURNS / 5);
    assert_true(fresh >= TURNS / 5);
    assert_true(single >= TURNS / 5);
    close_post(&p);
}

/* --- several at once -------------------------------------------------------------------------- */

enum { RELAYS = 3, RACE_GROUPS = 20, RACE_EACH = 12, TURNS_MAX = 1000000 };

typedef struct relay_race {
    store_fixture *f;
    pthread_mutex_t lock; /* over what follows */
    unsigned next[RACE_GROUPS];
    unsigned left;
    char failure[512]; /* the first one: asserting is the main thread's business */
} relay_race;

typedef struct taker {
    relay_race *c;
    post p;
    unsigned random;
    semel_error err;
} taker;

static void give_up(relay_race *c, const char *why)
{
    pthread_mutex_lock(&c->lock);
    if (!c->failure[0])
        (void)snprintf(c->failure, sizeof c->failure, "%s", why);
    pthread_mutex_unlock(&c->lock);
}

static int goes_on(relay_race *c)
{
    pthread_mutex_lock(&c->lock);
    int on = c->left > 0 && !c->failure[0];
    pthread_mutex_unlock(&c->lock);
    return on;
}

/* It is counted before it is gone, so that the next one of its group cannot be counted first. */
static void note_gone(relay_race *c, const char *id)
{
    unsigned group = (unsigned)atoi(id + 1), number = (unsigned)atoi(strchr(id, '.') + 1);
    pthread_mutex_lock(&c->lock);
    unsigned expected = c->next[group]++;
    c->left--;
    pthread_mutex_unlock(&c->lock);
    if (number != expected)
        give_up(c, id);
}

/* Takes (or settles what was taken). 0 after a conflict, which is the server's right: begun anew,
 * as by the relay. */
static int try_unit(taker *t, uint32_t limit)
{
    post *p = &t->p;
    void *unit = calloc(1, p->driver->unit_size);
    semel_status status =
        p->driver->units->begin(p->store, unit, SEMEL_BEGIN_RELAXED, 60000, &t->err);
    if (!status) {
        if (limit)
            p->all->count = 0;
        status = limit ? p->driver->outbox->lease(unit, p->outbox, limit, LEASE_MS, collect, p->all,
                                                  &t->err)
                       : p->driver->outbox->settle(unit, p->outbox, p->all->settlements,
                                                   p->all->count, &t->err);
        if (!status)
            status = p->driver->units->commit(unit, &t->err);
        else
            p->driver->units->rollback(unit);
    }
    free(unit);
    if (status && status != SEMEL_ECONFLICT && status != SEMEL_EBUSY)
        give_up(t->c, t->err.text);
    return !status;
}

/* Of a group the first ones may leave, up to one that fails; those behind it were not tried. */
static void judge(taker *t)
{
    int failed[RACE_GROUPS] = {0};
    for (size_t i = 0; i < t->p.all->count; i++) {
        semel_item_settlement *one = &t->p.all->settlements[i];
        int *bad = &failed[atoi(t->p.all->ids[i] + 1)];
        t->random = t->random * 1103515245 + 12345;
        one->delay_ms = (t->random >> 16) % 20;
        if (*bad)
            one->verdict = SEMEL_VERDICT_RELEASE;
        else if ((*bad = (t->random >> 24) % 3 == 0))
            one->verdict = SEMEL_VERDICT_RETRY;
        else
            note_gone(t->c, t->p.all->ids[i]);
    }
}

static void *take_turns(void *context)
{
    taker *t = context;
    for (unsigned turns = 0; goes_on(t->c); turns++) {
        if (turns == TURNS_MAX)
            give_up(t->c, "it does not end");
        if (!(t->c->f->quirks->flags & STORE_SERVER_CLOCK))
            semel_test_advance_ms(t->c->f->base.seam, 3);
        if (!try_unit(t, 1 + t->random % 7) || !t->p.all->count)
            continue;
        judge(t);
        while (!try_unit(t, 0) && goes_on(t->c))
            continue;
    }
    return NULL;
}

/* P10, with backoffs, delays and messages that keep coming: never is one of a group ahead of
 * another. */
static void several_at_once_keep_the_order_of_what_waits(void **state)
{
    store_fixture *f = *state;
    post p = open_post(f);
    relay_race c = {.f = f, .left = RACE_GROUPS * RACE_EACH};
    taker takers[RELAYS];
    pthread_t threads[RELAYS];
    pthread_mutex_init(&c.lock, NULL);
    for (unsigned i = 0; i < RELAYS; i++) {
        takers[i] = (taker){.c = &c, .p = open_post(f), .random = i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, &takers[i]), 0);
    }
    for (unsigned number = 0; number < RACE_EACH; number++)
        put_to_all(&p, RACE_GROUPS, number, number % 3 ? 0 : 10);
    for (size_t i = 0; i < RELAYS; i++) {
        pthread_join(threads[i], NULL);
        close_post(&takers[i].p);
    }
    pthread_mutex_destroy(&c.lock);
    assert_string_equal(c.failure, "");
    for (unsigned i = 0; i < RACE_GROUPS; i++)
        assert_int_equal(c.next[i], RACE_EACH);
    assert_int_equal(counters_of(f).unsent, 0);
    close_post(&p);
}

const store_test store_group_tests[] = {
    STORE_TEST_WITH(a_ready_group_does_not_wait_for_those_in_backoff, IN_ANY_MODE),
    STORE_TEST_WITH(a_ready_group_does_not_wait_for_those_with_followers, IN_ANY_MODE),
    STORE_TEST_WITH(a_ready_group_does_not_wait_for_delayed_ones, IN_ANY_MODE),
    STORE_TEST_WITH(groups_that_waited_come_back_in_order, IN_ANY_MODE),
    STORE_TEST_WITH(what_is_new_does_not_overtake_what_has_waited, IN_ANY_MODE),
    STORE_TEST_WITH(what_waited_behind_a_message_leaves_when_that_is_gone, IN_ANY_MODE),
    STORE_TEST_WITH(a_group_fails_again_and_again, IN_ANY_MODE),
    STORE_TEST_WITH(a_released_message_waits_out_its_delay, IN_ANY_MODE),
    STORE_TEST_WITH(a_released_message_holds_up_its_group_only, IN_ANY_MODE),
    STORE_TEST_WITH(no_group_starves_when_many_come_back, IN_ANY_MODE),
    STORE_TEST_WITH(several_at_once_keep_the_order_of_what_waits, IN_ANY_MODE),
    {NULL, NULL, 0}};
