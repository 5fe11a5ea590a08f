/* The keyed outbox, one interleaving at a time: what one process does is done right before another
 * one's write. test_keyed_outbox_random.c tries all of them, by chance; here are those that the
 * design note of src/store/keyed/outbox.c names, and the round trips. */
#include "support/keyed/memory_adapter.h"
#include "support/keyed/outbox_invariants.h"

#include "core/store.h"
#include "store/keyed/outbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <semel/test.h>

enum { HANDLES = 2, LEASED_MAX = 128, LEASE_MS = 10000 };

typedef struct leased {
    size_t count;
    semel_item_settlement all[LEASED_MAX];
    uint32_t attempts[LEASED_MAX];
    char ids[512]; /* each followed by a space */
} leased;

typedef struct post post;

struct post {
    semel_test_seam *seam;
    keyed_memory *memory;
    semel_store *stores[HANDLES];
    int64_t outbox;
    semel_error err;
    /* Called once, before the next write of the first store. */
    void (*meanwhile)(post *p);
    keyed_memory_fate fate; /* of that write */
    leased other;           /* what it has leased */
};

/* --- a database and two processes ------------------------------------------------------------- */

static const semel_store_driver *const driver = &keyed_memory_store;

static keyed_memory_fate before_call(void *context, keyed_memory_event *event)
{
    post *p = context;
    void (*meanwhile)(post *) = p->meanwhile;
    keyed_memory_fate fate = p->fate;
    if (event->call != KEYED_MEMORY_APPLY || (!meanwhile && !fate))
        return KEYED_MEMORY_DONE;
    p->meanwhile = NULL;
    p->fate = KEYED_MEMORY_DONE;
    if (meanwhile)
        meanwhile(p);
    return fate;
}

static void open_post(post *p, const keyed_memory_options *options)
{
    *p = (post){0};
    assert_int_equal(semel_test_seam_open(&p->seam, 1, &p->err), SEMEL_OK);
    semel_store_options with = {
        .size = sizeof with, .seam = semel_test_seam_get(p->seam), .answer_ms = 1000};
    p->memory = keyed_memory_open("post", options);
    for (int i = 0; i < HANDLES; i++)
        assert_int_equal(semel_store_open_driver(&p->stores[i], driver, "post", &with, &p->err),
                         SEMEL_OK);
    assert_int_equal(semel_store_migrate(p->stores[0], &p->err), SEMEL_OK);
    assert_int_equal(
        driver->scope(p->stores[0]->state, SEMEL_SCOPE_OUTBOX, "mail", &p->outbox, &p->err),
        SEMEL_OK);
    keyed_memory_set_hook(p->memory, &(keyed_memory_hook){.context = p, .before = before_call});
}

static outbox_counts expect_invariants(const post *p)
{
    outbox_counts counts;
    char text[256];
    if (!outbox_invariants_hold(p->memory, &counts, text, sizeof text))
        fail_msg("%s", text);
    return counts;
}

static void close_post(post *p)
{
    (void)expect_invariants(p);
    for (int i = 0; i < HANDLES; i++)
        semel_store_close(p->stores[i]);
    keyed_memory_close(p->memory);
    semel_test_seam_close(p->seam);
}

static void *begin(post *p, int handle)
{
    void *unit = calloc(1, driver->unit_size);
    assert_int_equal(
        driver->units->begin(p->stores[handle]->state, unit, SEMEL_BEGIN_DURABLE, 0, &p->err),
        SEMEL_OK);
    return unit;
}

static semel_status commit(post *p, void *unit)
{
    semel_status status = driver->units->commit(unit, &p->err);
    free(unit);
    return status;
}

static void put_in(post *p, void *unit, const char *id, const char *group)
{
    semel_message message = {
        .size = sizeof message, .id = semel_str(id), .group = group, .body = semel_str(id)};
    assert_int_equal(driver->outbox->put(unit, p->outbox, &message, &p->err), SEMEL_OK);
}

static void put(post *p, int handle, const char *id, const char *group)
{
    void *unit = begin(p, handle);
    put_in(p, unit, id, group);
    assert_int_equal(commit(p, unit), SEMEL_OK);
}

static semel_status collect(const semel_item *item, void *context, semel_error *err)
{
    leased *to = context;
    size_t used = strlen(to->ids);
    (void)err;
    assert_true(to->count < LEASED_MAX);
    (void)snprintf(to->ids + used, sizeof to->ids - used, "%.*s ", (int)item->message->id.len,
                   (const char *)item->message->id.data);
    to->attempts[to->count] = item->attempts;
    to->all[to->count++] = (semel_item_settlement){
        .seq = item->seq, .token = item->token, .verdict = SEMEL_VERDICT_ACK};
    return SEMEL_OK;
}

static void lease(post *p, int handle, leased *out, uint32_t limit)
{
    void *unit = begin(p, handle);
    *out = (leased){.count = 0};
    assert_int_equal(driver->outbox->lease(unit, p->outbox, limit, LEASE_MS, collect, out, &p->err),
                     SEMEL_OK);
    assert_int_equal(commit(p, unit), SEMEL_OK);
}

static semel_status settle(post *p, int handle, leased *items, semel_verdict verdict)
{
    void *unit = begin(p, handle);
    for (size_t i = 0; i < items->count; i++)
        items->all[i].verdict = verdict;
    assert_int_equal(driver->outbox->settle(unit, p->outbox, items->all, items->count, &p->err),
                     SEMEL_OK);
    return commit(p, unit);
}

static void expect_leased(post *p, int handle, const char *ids)
{
    leased found;
    lease(p, handle, &found, LEASED_MAX);
    assert_string_equal(found.ids, ids);
}

/* --- two producers ---------------------------------------------------------------------------- */

static void put_second(post *p)
{
    put(p, 1, "other", "g");
}

static void two_that_put_into_one_group_take_their_numbers_in_turn(void **state)
{
    post p;
    (void)state;
    open_post(&p, &(keyed_memory_options){0});
    p.meanwhile = put_second; /* the group is empty for both */
    put(&p, 0, "one", "g");
    p.meanwhile = put_second; /* and has messages now */
    put(&p, 0, "two", "g");
    expect_leased(&p, 0, "other one other two ");
    close_post(&p);
}

/* --- a producer and a relay ------------------------------------------------------------------- */

static void a_message_that_comes_before_the_group_is_empty_is_ready(void **state)
{
    leased items;
    post p;
    (void)state;
    open_post(&p, &(keyed_memory_options){0});
    put(&p, 0, "one", "g");
    lease(&p, 0, &items, 10);
    p.meanwhile = put_second;
    assert_int_equal(settle(&p, 0, &items, SEMEL_VERDICT_ACK), SEMEL_OK);
    expect_leased(&p, 0, "other ");
    close_post(&p);
}

static void settle_other(post *p)
{
    assert_int_equal(settle(p, 1, &p->other, SEMEL_VERDICT_ACK), SEMEL_OK);
}

static void a_message_that_comes_after_the_group_is_empty_is_ready(void **state)
{
    post p;
    (void)state;
    open_post(&p, &(keyed_memory_options){0});
    put(&p, 0, "one", "g");
    lease(&p, 1, &p.other, 10);
    p.meanwhile = settle_other; /* this store takes the group for one that has messages */
    put(&p, 0, "two", "g");
    expect_leased(&p, 0, "two ");
    close_post(&p);
}

/* --- two relays ------------------------------------------------------------------------------- */

static void lease_two(post *p)
{
    lease(p, 1, &p->other, 2);
}

static void what_another_relay_has_leased_is_left_out(void **state)
{
    leased items;
    post p;
    (void)state;
    open_post(&p, &(keyed_memory_options){0});
    put(&p, 0, "a1", "a");
    put(&p, 0, "a2", "a");
    put(&p, 0, "b1", "b");
    put(&p, 0, "b2", "b");
    put(&p, 0, "free", NULL);
    p.meanwhile = lease_two;
    lease(&p, 0, &items, 10);
    assert_int_equal(p.other.count, 2);
    for (size_t i = 0; i < items.count; i++)
        for (size_t k = 0; k < p.other.count; k++)
            assert_int_not_equal(items.all[i].seq, p.other.all[k].seq);
    expect_leased(&p, 0, "");
    (void)expect_invariants(&p);
    close_post(&p);
}

static void lease_all(post *p)
{
    lease(p, 1, &p->other, LEASED_MAX);
}

static void a_relay_that_gets_nothing_leaves_no_trace(void **state)
{
    leased items;
    post p;
    (void)state;
    open_post(&p, &(keyed_memory_options){0});
    put(&p, 0, "a1", "a");
    put(&p, 0, "free", NULL);
    p.meanwhile = lease_all;
    lease(&p, 0, &items, 10);
    assert_int_equal(items.count, 0);
    assert_int_equal(settle(&p, 1, &p.other, SEMEL_VERDICT_RELEASE), SEMEL_OK);
    lease(&p, 0, &items, 10);
    assert_int_equal(items.count, 2);
    assert_int_equal(items.attempts[0], 1);
    close_post(&p);
}

static void take_over(post *p)
{
    semel_test_advance_ms(p->seam, LEASE_MS);
    lease(p, 1, &p->other, 1);
}

/* The member has told that the token fits, and then it does not: the unit is done again, and hears
 * that it is lost. */
static void a_lease_that_is_lost_before_the_commit_settles_nothing(void **state)
{
    leased items;
    post p;
    (void)state;
    open_post(&p, &(keyed_memory_options){0});
    put(&p, 0, "1", "g");
    put(&p, 0, "2", "g");
    lease(&p, 0, &items, 1);
    p.meanwhile = take_over;
    assert_int_equal(settle(&p, 0, &items, SEMEL_VERDICT_ACK), SEMEL_ECONFLICT);
    assert_int_equal(settle(&p, 0, &items, SEMEL_VERDICT_ACK), SEMEL_OK);
    assert_int_equal(items.all[0].lost, 1);
    settle_other(&p);
    expect_leased(&p, 0, "2 ");
    close_post(&p);
}

/* The first message leaves while another relay changes the second, which becomes the first. */
static void one_that_becomes_the_first_while_it_is_settled_stays_ready(void **state)
{
    leased first;
    post p;
    (void)state;
    open_post(&p, &(keyed_memory_options){0});
    put(&p, 0, "1", "g");
    put(&p, 0, "2", "g");
    put(&p, 0, "3", "g");
    lease(&p, 0, &first, 2);
    assert_int_equal(first.count, 2);
    p.other = first;
    p.other.count = 1; /* "1" */
    first.all[0] = first.all[1];
    first.count = 1; /* "2" */
    p.meanwhile = settle_other;
    assert_int_equal(settle(&p, 0, &first, SEMEL_VERDICT_RELEASE), SEMEL_OK);
    expect_leased(&p, 0, "2 3 ");
    close_post(&p);
}

/* --- rollback, lost answers ------------------------------------------------------------------- */

static void a_unit_that_is_rolled_back_gives_its_leases_back(void **state)
{
    leased items = {.count = 0};
    post p;
    (void)state;
    open_post(&p, &(keyed_memory_options){0});
    put(&p, 0, "1", "g");
    put(&p, 0, "2", "g");
    put(&p, 0, "free", NULL);
    void *unit = begin(&p, 0);
    assert_int_equal(driver->outbox->lease(unit, p.outbox, 10, LEASE_MS, collect, &items, &p.err),
                     SEMEL_OK);
    assert_int_equal(items.count, 3);
    driver->units->rollback(unit);
    free(unit);
    lease(&p, 1, &items, 10);
    assert_int_equal(items.count, 3);
    for (size_t i = 0; i < items.count; i++)
        assert_int_equal(items.attempts[i], 1);
    close_post(&p);
}

static void a_lease_whose_answer_was_lost_is_found(void **state)
{
    static const keyed_memory_fate fates[] = {KEYED_MEMORY_LOST, KEYED_MEMORY_APPLIED,
                                              KEYED_MEMORY_LATE, KEYED_MEMORY_GIVES_UP};
    for (size_t i = 0; i < sizeof fates / sizeof *fates; i++) {
        leased items;
        post p;
        (void)state;
        open_post(&p, &(keyed_memory_options){0});
        put(&p, 0, "1", "g");
        put(&p, 0, "2", "g");
        p.fate = fates[i];
        lease(&p, 0, &items, 10);
        assert_string_equal(items.ids, "1 2 ");
        while (keyed_memory_in_flight(p.memory))
            assert_int_not_equal(keyed_memory_arrive(p.memory, 0), SEMEL_OK);
        p.fate = fates[i];
        assert_int_equal(settle(&p, 0, &items, SEMEL_VERDICT_ACK), SEMEL_OK);
        while (keyed_memory_in_flight(p.memory))
            assert_int_not_equal(keyed_memory_arrive(p.memory, 0), SEMEL_OK);
        assert_int_equal(expect_invariants(&p).messages, 0);
        close_post(&p);
    }
}

/* --- limits ----------------------------------------------------------------------------------- */

static void a_lease_is_cut_into_as_many_writes_as_it_needs(void **state)
{
    enum { EACH = 30 };
    leased items;
    post p;
    (void)state;
    open_post(&p, &(keyed_memory_options){.limits = {.changes_max = 12}});
    for (int i = 0; i < EACH; i++) {
        char id[16], group[16];
        (void)snprintf(id, sizeof id, "%d", i);
        (void)snprintf(group, sizeof group, "g%d", i % 3);
        put(&p, 0, id, i % 2 ? group : NULL);
    }
    lease(&p, 0, &items, EACH);
    assert_int_equal(items.count, EACH);
    expect_leased(&p, 0, "");
    close_post(&p);
}

static void a_long_group_is_leased_as_far_as_it_fits_into_a_write(void **state)
{
    enum { MESSAGES = 20, CHANGES = 9 };
    leased items;
    post p;
    (void)state;
    open_post(&p, &(keyed_memory_options){.limits = {.changes_max = CHANGES}});
    for (int i = 0; i < MESSAGES; i++)
        put(&p, 0, (char[]){(char)('a' + i), 0}, "g");
    lease(&p, 0, &items, MESSAGES);
    assert_string_equal(items.ids, "a b c d e f g "); /* and two changes of the entry */
    close_post(&p);
}

static void a_message_that_fits_into_no_record_is_refused(void **state)
{
    static char body[20000];
    post p;
    (void)state;
    open_post(&p, &(keyed_memory_options){.limits = {.record_max = 16384}});
    semel_message message = {
        .size = sizeof message, .id = semel_str("large"), .body = {body, sizeof body}};
    void *unit = begin(&p, 0);
    assert_int_equal(driver->outbox->put(unit, p.outbox, &message, &p.err), SEMEL_ELIMIT);
    assert_non_null(strstr(p.err.text, "16384"));
    driver->units->rollback(unit);
    free(unit);
    close_post(&p);
}

/* --- damage ----------------------------------------------------------------------------------- */

static void an_entry_without_a_message_is_removed(void **state)
{
    leased items;
    post p;
    (void)state;
    open_post(&p, &(keyed_memory_options){0});
    put(&p, 0, "1", NULL);
    lease(&p, 0, &items, 10);
    keyed_store *store = p.stores[0]->state;
    keyed_space space = keyed_space_of('r', p.outbox);
    outbox_key key = outbox_key_timed(1, 77);
    semel_keyed_record stray = {
        .space = keyed_space_bytes(&space), .key = outbox_key_bytes(&key), .guard = 77};
    semel_keyed_change change = keyed_write_of(store, NULL, &stray, 0);
    assert_int_equal(keyed_apply_now(store, &change, 1, SEMEL_BEGIN_DURABLE, NULL, &p.err),
                     SEMEL_OK);
    expect_leased(&p, 0, "");
    close_post(&p); /* looks at the invariants */
}

/* --- round trips ------------------------------------------------------------------------------ */

static uint64_t calls_of(const post *p)
{
    return keyed_memory_calls(p->memory, KEYED_MEMORY_APPLY) +
           keyed_memory_calls(p->memory, KEYED_MEMORY_GET) +
           keyed_memory_calls(p->memory, KEYED_MEMORY_SCAN);
}

#define COSTS(calls, p, act)                              \
    do {                                                  \
        uint64_t before_it = calls_of(p);                 \
        act;                                              \
        assert_int_equal(calls_of(p) - before_it, calls); \
    } while (0)

static void messages_without_a_group_cost_few_round_trips(void **state)
{
    leased items;
    post p;
    (void)state;
    open_post(&p, &(keyed_memory_options){0});
    COSTS(1, &p, put(&p, 0, "1", NULL));
    COSTS(1, &p, put(&p, 0, "2", NULL));
    COSTS(3, &p, lease(&p, 1, &items, 2));
    COSTS(2, &p, settle(&p, 1, &items, SEMEL_VERDICT_ACK));
    COSTS(1, &p, lease(&p, 1, &items, 10)); /* there is nothing */
    close_post(&p);
}

static void messages_of_groups_cost_few_round_trips(void **state)
{
    leased items;
    post p;
    (void)state;
    open_post(&p, &(keyed_memory_options){0});
    COSTS(1, &p, put(&p, 0, "1", "g"));
    COSTS(1, &p, put(&p, 0, "h", "h"));
    COSTS(4, &p, lease(&p, 1, &items, 10));
    COSTS(2, &p, settle(&p, 1, &items, SEMEL_VERDICT_ACK));
    COSTS(3, &p, put(&p, 0, "2", "g")); /* another process has emptied the group */
    lease(&p, 1, &items, 10);
    assert_int_equal(settle(&p, 1, &items, SEMEL_VERDICT_ACK), SEMEL_OK);
    COSTS(1, &p, put(&p, 0, "3", "g")); /* and is expected to do it again */
    COSTS(2, &p, put(&p, 0, "4", "g"));
    COSTS(1, &p, put(&p, 0, "5", "g")); /* or not */
    COSTS(6, &p, lease(&p, 1, &items, 10));
    assert_string_equal(items.ids, "3 4 5 ");
    COSTS(3, &p, settle(&p, 1, &items, SEMEL_VERDICT_ACK));
    close_post(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_that_put_into_one_group_take_their_numbers_in_turn),
        cmocka_unit_test(a_message_that_comes_before_the_group_is_empty_is_ready),
        cmocka_unit_test(a_message_that_comes_after_the_group_is_empty_is_ready),
        cmocka_unit_test(what_another_relay_has_leased_is_left_out),
        cmocka_unit_test(a_relay_that_gets_nothing_leaves_no_trace),
        cmocka_unit_test(a_lease_that_is_lost_before_the_commit_settles_nothing),
        cmocka_unit_test(one_that_becomes_the_first_while_it_is_settled_stays_ready),
        cmocka_unit_test(a_unit_that_is_rolled_back_gives_its_leases_back),
        cmocka_unit_test(a_lease_whose_answer_was_lost_is_found),
        cmocka_unit_test(a_lease_is_cut_into_as_many_writes_as_it_needs),
        cmocka_unit_test(a_long_group_is_leased_as_far_as_it_fits_into_a_write),
        cmocka_unit_test(a_message_that_fits_into_no_record_is_refused),
        cmocka_unit_test(an_entry_without_a_message_is_removed),
        cmocka_unit_test(messages_without_a_group_cost_few_round_trips),
        cmocka_unit_test(messages_of_groups_cost_few_round_trips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
