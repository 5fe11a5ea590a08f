/* The keyed outbox under interference: before each write of one process others act, requests are
 * refused, their answers are lost, they arrive late; before each scan others act, and it shows only
 * a part of what they wrote. Whatever happens, the invariants of the design
 * note (src/store/keyed/outbox.c) hold after each write, nothing is stuck, and nothing is sent that
 * an earlier message of its group is in front of. */
#include "support/keyed/memory_adapter.h"
#include "support/keyed/outbox_invariants.h"

#include "core/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <semel/test.h>

enum { HANDLES = 3, LEASED_MAX = 64, LEASE_MS = 1000, GROUPS = 3, DEPTH_MAX = 2, FRESH_MAX = 256 };

typedef struct leased {
    size_t count;
    semel_item_settlement all[LEASED_MAX];
    char ids[LEASED_MAX][24];
} leased;

/* A process: a store of its own on the same database. */
typedef struct handle {
    semel_store *store;
    int64_t outbox;
    leased held;
    int is_busy; /* in a call */
} handle;

typedef struct world {
    semel_test_seam *seam;
    keyed_memory *memory;
    handle handles[HANDLES];
    uint64_t random;
    int depth;
    int interferes;                /* others act before writes */
    int loses;                     /* answers are lost */
    int leases_end;                /* time passes, so that leases end */
    unsigned next[GROUPS + 1];     /* of the messages of each group */
    unsigned put, unknown, gone;   /* messages that were put, perhaps put, sent or removed */
    int64_t last_gone[GROUPS + 1]; /* the number of the last one that was sent */
    unsigned char fresh[FRESH_MAX][SEMEL_KEYED_VERSION_LEN]; /* of the last write of others */
    size_t fresh_count;
    char failure[640];
    semel_error err;
} world;

static const char *const group_names[] = {NULL, "a", "bb", "ccc"};

/* --- chance ----------------------------------------------------------------------------------- */

static uint32_t below(world *w, uint32_t bound)
{
    w->random = w->random * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(w->random >> 33) % bound;
}

/* --- units ------------------------------------------------------------------------------------ */

static const semel_store_driver *driver_of(const handle *h)
{
    return h->store->driver;
}

static void *begin(world *w, handle *h)
{
    void *unit = calloc(1, driver_of(h)->unit_size);
    assert_int_equal(
        driver_of(h)->units->begin(h->store->state, unit, SEMEL_BEGIN_RELAXED, 0, &w->err),
        SEMEL_OK);
    return unit;
}

/* `status` is that of the calls in it. */
static semel_status end(world *w, handle *h, void *unit, semel_status status)
{
    if (!status)
        status = driver_of(h)->units->commit(unit, &w->err);
    else
        driver_of(h)->units->rollback(unit);
    free(unit);
    return status;
}

static void give_up(world *w, const char *what, semel_status status)
{
    if (!w->failure[0])
        (void)snprintf(w->failure, sizeof w->failure, "%s: %s: %s", what, semel_status_name(status),
                       w->err.text);
}

/* Statuses that the database's faults and others' interference explain. */
static int is_explained(const world *w, semel_status status)
{
    return !status || (w->interferes && status == SEMEL_ECONFLICT) ||
           (w->loses && (status == SEMEL_EUNKNOWN || status == SEMEL_EUNAVAILABLE));
}

/* --- acts ------------------------------------------------------------------------------------- */

static semel_status put_some(world *w, handle *h, void *unit, unsigned count)
{
    semel_status status = SEMEL_OK;
    for (unsigned i = 0; i < count && !status; i++) {
        uint32_t group = below(w, GROUPS + 1);
        char id[24];
        int len = snprintf(id, sizeof id, "%u.%u", group, w->next[group]++);
        semel_message message = {.size = sizeof message,
                                 .id = {id, (size_t)len},
                                 .group = group_names[group],
                                 .delay_ms = below(w, 4) ? 0 : below(w, 50),
                                 .body = {id, (size_t)len}};
        status = driver_of(h)->outbox->put(unit, h->outbox, &message, &w->err);
    }
    return status;
}

static void put(world *w, handle *h)
{
    unsigned count = 1 + below(w, 3);
    void *unit = begin(w, h);
    semel_status status = end(w, h, unit, put_some(w, h, unit, count));
    if (!is_explained(w, status))
        give_up(w, "put", status);
    if (!status)
        w->put += count;
    if (status == SEMEL_EUNKNOWN)
        w->unknown += count;
}

static semel_status collect(const semel_item *item, void *context, semel_error *err)
{
    leased *to = context;
    if (to->count == LEASED_MAX)
        return semel_fail(err, SEMEL_ELIMIT, "more than was asked for");
    (void)snprintf(to->ids[to->count], sizeof to->ids[0], "%.*s", (int)item->message->id.len,
                   (const char *)item->message->id.data);
    if (item->message->body.len != item->message->id.len)
        return semel_fail(err, SEMEL_ESTORE, "the body is not as it was");
    to->all[to->count++] = (semel_item_settlement){.seq = item->seq, .token = item->token};
    return SEMEL_OK;
}

static void lease(world *w, handle *h)
{
    if (h->held.count)
        return;
    void *unit = begin(w, h);
    semel_status status = driver_of(h)->outbox->lease(unit, h->outbox, 1 + below(w, 8), LEASE_MS,
                                                      collect, &h->held, &w->err);
    int is_dropped = below(w, 8) == 0;
    if (!is_explained(w, status))
        give_up(w, "lease", status);
    status = end(w, h, unit, status ? status : is_dropped ? SEMEL_EHANDLER : SEMEL_OK);
    if (status)
        h->held.count = 0;
}

static int is_same_group(const char *a, const char *b)
{
    return a[0] == b[0] && a[0] != '0';
}

/* As a relay would: of a group those up to the first failure leave, those behind it are given
 * back. */
static void judge(world *w, leased *held)
{
    for (size_t i = 0; i < held->count; i++) {
        semel_item_settlement *one = &held->all[i];
        one->verdict = below(w, 4) ? SEMEL_VERDICT_ACK : SEMEL_VERDICT_RETRY;
        one->delay_ms = below(w, 30);
        one->sent = below(w, 2) == 0;
        for (size_t k = 0; k < i; k++)
            if (is_same_group(held->ids[k], held->ids[i]) &&
                held->all[k].verdict != SEMEL_VERDICT_ACK)
                one->verdict = SEMEL_VERDICT_RELEASE;
    }
}

/* Of a group they leave in the order of their numbers. When leases end, that is not so: another
 * relay may have the first one again. */
static void note_sent(world *w, const leased *held)
{
    for (size_t i = 0; i < held->count; i++) {
        const semel_item_settlement *one = &held->all[i];
        unsigned group = (unsigned)(held->ids[i][0] - '0');
        if (one->lost && !w->leases_end)
            give_up(w, "a live lease was lost", SEMEL_ELOST);
        if (one->lost || one->verdict != SEMEL_VERDICT_ACK)
            continue;
        if (group && !w->leases_end && one->seq < w->last_gone[group])
            give_up(w, "one was overtaken", SEMEL_ESTORE);
        w->last_gone[group] = one->seq;
        w->gone++;
    }
}

/* Some put messages in the same unit, as handlers do. */
static void settle(world *w, handle *h)
{
    leased *held = &h->held;
    unsigned count = below(w, 3) == 0;
    if (!held->count)
        return;
    judge(w, held);
    void *unit = begin(w, h);
    semel_status status =
        driver_of(h)->outbox->settle(unit, h->outbox, held->all, held->count, &w->err);
    if (!status)
        status = put_some(w, h, unit, count);
    status = end(w, h, unit, status);
    if (!is_explained(w, status))
        give_up(w, "settle", status);
    if (!status) {
        note_sent(w, held);
        w->put += count;
    }
    if (status == SEMEL_EUNKNOWN)
        w->unknown += count;
    if (status != SEMEL_ECONFLICT)
        held->count = 0;
}

static void extend(world *w, handle *h)
{
    if (!h->held.count)
        return;
    void *unit = begin(w, h);
    semel_status status = driver_of(h)->outbox->extend(unit, h->outbox, h->held.all, h->held.count,
                                                       LEASE_MS + below(w, 5), &w->err);
    status = end(w, h, unit, status);
    if (!is_explained(w, status))
        give_up(w, "extend", status);
}

static semel_status note_seq(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    (void)err;
    *(int64_t *)context = outgoing->seq;
    return SEMEL_OK;
}

/* One of the first messages; 0: there is none. */
static int64_t some_seq(world *w, handle *h)
{
    semel_outgoing_filter filter = {.size = sizeof filter, .limit = 1 + below(w, 4)};
    int64_t seq = 0;
    (void)driver_of(h)->lists->outgoing(h->store->state, h->outbox, &filter, note_seq, &seq,
                                        &w->err);
    return seq;
}

static void wake(world *w, handle *h)
{
    int64_t seq = some_seq(w, h);
    size_t changed = 0;
    if (!seq)
        return;
    void *unit = begin(w, h);
    semel_status status =
        driver_of(h)->operation->wake(unit, h->outbox, &seq, 1, &changed, &w->err);
    status = end(w, h, unit, status);
    if (!is_explained(w, status))
        give_up(w, "wake", status);
}

static void remove_one(world *w, handle *h)
{
    int64_t seq = below(w, 3) ? 0 : some_seq(w, h);
    size_t changed = 0;
    if (!seq)
        return;
    void *unit = begin(w, h);
    semel_status status =
        driver_of(h)->operation->remove(unit, h->outbox, &seq, 1, &changed, &w->err);
    status = end(w, h, unit, status);
    if (!is_explained(w, status))
        give_up(w, "remove", status);
    if (!status)
        w->gone += (unsigned)changed;
}

static void act(world *w, handle *h)
{
    static void (*const acts[])(world *, handle *) = {put,    put,    lease,  lease, lease,
                                                      settle, settle, extend, wake,  remove_one};
    h->is_busy = 1;
    acts[below(w, sizeof acts / sizeof *acts)](w, h);
    h->is_busy = 0;
}

/* --- interference ----------------------------------------------------------------------------- */

static handle *idle_handle(world *w)
{
    handle *h = &w->handles[below(w, HANDLES)];
    return h->is_busy ? NULL : h;
}

static void note_fresh(void *context, const semel_keyed_change changes[], size_t count)
{
    world *w = context;
    w->fresh_count = 0;
    for (size_t i = 0; i < count && w->fresh_count < FRESH_MAX; i++)
        if (w->depth && changes[i].kind == SEMEL_KEYED_WRITE)
            memcpy(w->fresh[w->fresh_count++], changes[i].record.version, SEMEL_KEYED_VERSION_LEN);
}

/* The last write of the others may still be under way, for all that the process can know which they
 * have interfered with: a part of it is there for its scans, and a part is not. */
static int omits(void *context, const semel_keyed_record *record)
{
    world *w = context;
    for (size_t i = 0; i < w->fresh_count && !w->depth; i++)
        if (!memcmp(w->fresh[i], record->version, SEMEL_KEYED_VERSION_LEN))
            return below(w, 2) == 0;
    return 0;
}

static keyed_memory_fate before_call(void *context, keyed_memory_event *event)
{
    world *w = context;
    handle *other = w->interferes && w->depth < DEPTH_MAX && !below(w, 3) ? idle_handle(w) : NULL;
    if (other) {
        w->depth++;
        act(w, other);
        w->depth--;
    }
    if (event->call != KEYED_MEMORY_APPLY)
        return KEYED_MEMORY_DONE;
    if (w->loses && !below(w, 6))
        return (keyed_memory_fate[]){KEYED_MEMORY_LOST, KEYED_MEMORY_APPLIED, KEYED_MEMORY_LATE,
                                     KEYED_MEMORY_UNAVAILABLE}[below(w, 4)];
    return below(w, 10) ? KEYED_MEMORY_DONE : KEYED_MEMORY_GIVES_UP;
}

/* --- the world -------------------------------------------------------------------------------- */

static void open_handle(world *w, handle *h)
{
    semel_store_options options = {.size = sizeof options,
                                   .seam = semel_test_seam_get(w->seam),
                                   .busy_ms = 60000,
                                   .answer_ms = 50};
    assert_int_equal(
        semel_store_open_driver(&h->store, &keyed_memory_store, "post", &options, &w->err),
        SEMEL_OK);
    assert_int_equal(semel_store_migrate(h->store, &w->err), SEMEL_OK);
    assert_int_equal(
        driver_of(h)->scope(h->store->state, SEMEL_SCOPE_OUTBOX, "mail", &h->outbox, &w->err),
        SEMEL_OK);
}

static void open_world(world *w, uint64_t seed, const keyed_memory_options *options)
{
    *w = (world){.random = seed};
    assert_int_equal(semel_test_seam_open(&w->seam, seed, &w->err), SEMEL_OK);
    w->memory = keyed_memory_open("post", options);
    for (int i = 0; i < HANDLES; i++)
        open_handle(w, &w->handles[i]);
}

static void close_world(world *w)
{
    for (int i = 0; i < HANDLES; i++)
        semel_store_close(w->handles[i].store);
    keyed_memory_close(w->memory);
    semel_test_seam_close(w->seam);
}

static outbox_counts expect_invariants(world *w)
{
    outbox_counts counts;
    char text[256];
    if (!outbox_invariants_hold(w->memory, &counts, text, sizeof text))
        fail_msg("%s", text);
    return counts;
}

/* What is left: each message once, and those of a group in the order of their numbers. */
static unsigned drain(world *w)
{
    handle *h = &w->handles[0];
    int64_t last[GROUPS + 1] = {0};
    unsigned sum = 0;
    for (int turns = 0; turns < 1000; turns++) {
        semel_test_advance_ms(w->seam, 2 * LEASE_MS);
        h->held.count = 0;
        lease(w, h);
        if (!h->held.count && !expect_invariants(w).messages)
            return sum;
        for (size_t i = 0; i < h->held.count; i++) {
            unsigned group = (unsigned)(h->held.ids[i][0] - '0');
            h->held.all[i].verdict = SEMEL_VERDICT_ACK;
            assert_true(!group || h->held.all[i].seq > last[group]);
            last[group] = h->held.all[i].seq;
        }
        void *unit = begin(w, h);
        semel_status status =
            driver_of(h)->outbox->settle(unit, h->outbox, h->held.all, h->held.count, &w->err);
        assert_int_equal(end(w, h, unit, status), SEMEL_OK);
        sum += (unsigned)h->held.count;
    }
    fail_msg("messages are left that nobody can lease");
    return sum;
}

static void run_world(world *w, unsigned steps)
{
    const keyed_memory_hook hook = {
        .context = w, .before = before_call, .applied = note_fresh, .omits = omits};
    keyed_memory_set_hook(w->memory, &hook);
    for (unsigned i = 0; i < steps; i++) {
        w->fresh_count = 0;
        act(w, &w->handles[below(w, HANDLES)]);
        semel_test_advance_ms(w->seam, below(w, w->leases_end ? 400 : 4));
        while (keyed_memory_in_flight(w->memory) && !below(w, 2))
            (void)keyed_memory_arrive(w->memory,
                                      below(w, (uint32_t)keyed_memory_in_flight(w->memory)));
        (void)expect_invariants(w);
        if (w->failure[0])
            fail_msg("%s", w->failure);
    }
    keyed_memory_set_hook(w->memory, NULL);
    while (keyed_memory_in_flight(w->memory))
        (void)keyed_memory_arrive(w->memory, 0);
}

/* --- the tests -------------------------------------------------------------------------------- */

enum { SEEDS = 60, STEPS = 120 };

static void run_seeds(const keyed_memory_options *options, int interferes, int loses,
                      int leases_end)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        world w;
        open_world(&w, seed, options);
        w.interferes = interferes;
        w.loses = loses;
        w.leases_end = leases_end;
        run_world(&w, STEPS);
        unsigned gone = w.gone + drain(&w);
        if (!loses)
            assert_int_equal(gone, w.put);
        outbox_counts left = expect_invariants(&w);
        assert_int_equal(left.ready + left.places + left.groups, 0);
        close_world(&w);
    }
}

static void the_invariants_hold_when_others_act_between_reads_and_writes(void **state)
{
    (void)state;
    run_seeds(&(keyed_memory_options){0}, 1, 0, 0);
}

static void the_invariants_hold_when_leases_end(void **state)
{
    (void)state;
    run_seeds(&(keyed_memory_options){.error_ms = 20}, 1, 0, 1);
}

static void the_invariants_hold_when_answers_are_lost(void **state)
{
    (void)state;
    run_seeds(&(keyed_memory_options){0}, 1, 1, 1);
}

static void the_invariants_hold_when_few_changes_fit_into_a_write(void **state)
{
    (void)state;
    run_seeds(&(keyed_memory_options){.limits = {.changes_max = 64}, .no_count = 1}, 1, 0, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_invariants_hold_when_others_act_between_reads_and_writes),
        cmocka_unit_test(the_invariants_hold_when_leases_end),
        cmocka_unit_test(the_invariants_hold_when_answers_are_lost),
        cmocka_unit_test(the_invariants_hold_when_few_changes_fit_into_a_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
