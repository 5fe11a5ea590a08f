/* Copies of the same messages in many threads and processes at once, one by one and in batches that
 * overlap, in every mode and at every isolation: each effect once, and no unit blocks another for
 * ever. */
#include "support/fixture/shop.h"
#include "support/process/process.h"
#include "support/process/threads.h"
#include "support/servers/sql/server_case.h"

#include <stdio.h>
#include <unistd.h>

enum { KEYS = 12, THREADS = 4, PROCESSES = 3 };

static atomic_uint *runs; /* handler bodies, of all threads and processes */

static void count_run(case_work *self, semel_unit *unit, const semel_message *message)
{
    (void)self, (void)unit, (void)message;
    atomic_fetch_add(runs, 1);
}

/* Each in an order of its own; what may pass is waited out. */
static void receive_all(test_thread *member)
{
    server_case *c = member->context;
    unsigned keys[KEYS];
    uint32_t seed = member->index * 7919 + (uint32_t)getpid();
    for (unsigned i = 0; i < KEYS; i++)
        keys[i] = i;
    shop_shuffle(keys, KEYS, &seed);
    for (unsigned i = 0; i < KEYS; i++) {
        char id[16];
        semel_outcome out;
        semel_error err = {0};
        case_work todo = {.after = count_run};
        (void)snprintf(id, sizeof id, "k%u", keys[i]);
        while (case_receive(c, &out, id, &todo, &err) || !semel_outcome_settled(out))
            if (!err.retryable)
                process_give_up(__FILE__, __LINE__, err.text);
    }
}

static int receive_in_process(void *context)
{
    server_case *c = context;
    c->outbox = NULL;
    c->inbox = NULL;
    c->base.store = NULL;
    case_open_at(c, c->base.place.url, CASE_BUSY_MS, NULL);
    PROCESS_REQUIRE(threads_run(THREADS, receive_all, c));
    case_close(c);
    return PROCESS_OK;
}

static void all_at_once_in_threads_and_processes(void **state)
{
    server_case *c = *state;
    pid_t children[PROCESSES];
    runs = process_share(sizeof *runs);
    case_retire(c);
    for (int i = 0; i < PROCESSES; i++)
        children[i] = process_start(receive_in_process, c);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(process_wait(children[i], 60000), PROCESS_OK);
    for (unsigned i = 0; i < KEYS; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "k%u", i);
        assert_int_equal(case_times(c, id), 1);
    }
    process_unshare(runs, sizeof *runs);
}

/* --- batches that overlap --------------------------------------------------------------------- */

static void receive_shuffled(test_thread *member)
{
    server_case *c = member->context;
    unsigned keys[KEYS];
    char ids[KEYS][16];
    semel_message messages[KEYS];
    const semel_message *pointers[KEYS];
    semel_outcome outcomes[KEYS];
    uint32_t seed = member->index + 1;
    semel_error err = {0};
    case_work todo = {.after = count_run};
    for (unsigned i = 0; i < KEYS; i++)
        keys[i] = i;
    shop_shuffle(keys, KEYS, &seed);
    unsigned count = KEYS - member->index; /* not all of them have all */
    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "k%u", keys[i]);
        messages[i] = text_message(ids[i], "10 EUR");
        pointers[i] = &messages[i];
    }
    while (semel_inbox_receive_batch(outcomes, c->inbox, pointers, count,
                                     member->index & 1 ? case_queue : case_handle, &todo, &err))
        if (!err.retryable)
            process_give_up(__FILE__, __LINE__, err.text);
    for (unsigned i = 0; i < count; i++)
        if (outcomes[i] != SEMEL_PROCESSED && outcomes[i] != SEMEL_DUPLICATE)
            process_give_up(__FILE__, __LINE__, semel_outcome_name(outcomes[i]));
}

/* Each key is in one batch that wins; that nothing was begun anew shows that no batch was in a
 * deadlock. */
static void batches_with_the_same_keys_do_not_deadlock(void **state)
{
    server_case *c = *state;
    runs = process_share(sizeof *runs);
    assert_true(threads_run(THREADS, receive_shuffled, c));
    assert_int_equal(case_number(c, "SELECT count(*) FROM effect"), KEYS);
    assert_int_equal(case_number(c, "SELECT count(DISTINCT id) FROM effect"), KEYS);
    assert_int_equal(atomic_load(runs), KEYS);
    process_unshare(runs, sizeof *runs);
}

/* Also where a serialization failure is the answer to a wait. */
static void batches_with_the_same_keys_at_every_isolation(void **state)
{
    server_case *c = *state;
    runs = process_share(sizeof *runs);
    assert_true(threads_run(THREADS, receive_shuffled, c));
    assert_int_equal(case_number(c, "SELECT count(*) FROM effect"), KEYS);
    assert_int_equal(case_number(c, "SELECT count(DISTINCT id) FROM effect"), KEYS);
    process_unshare(runs, sizeof *runs);
}

/* Several processes that open the same inbox for the first time, at a strict isolation. */
static void open_one(test_thread *member)
{
    server_case *c = member->context;
    semel_store *store = NULL;
    semel_inbox *inbox = NULL;
    semel_error err = {0};
    semel_store_options patient = {.size = sizeof patient, .busy_ms = CASE_BUSY_MS};
    char name[32];
    PROCESS_REQUIRE_OK(semel_store_open(&store, c->base.place.url, &patient, &err), &err);
    for (int i = 0; i < 10; i++) {
        (void)snprintf(name, sizeof name, "inbox-%d", i);
        PROCESS_REQUIRE_OK(semel_inbox_open(&inbox, store, name, NULL, &err), &err);
        semel_inbox_close(inbox);
    }
    semel_store_close(store);
}

static void names_are_made_by_many_at_once(void **state)
{
    server_case *c = *state;
    assert_true(threads_run(THREADS, open_one, c));
    assert_int_equal(case_number(c, "SELECT count(*) FROM semel_scope WHERE name LIKE 'inbox-%'"),
                     10);
}

int main(void)
{
    static const server_test tests[] = {
        SERVER_TEST(all_at_once_in_threads_and_processes, IN_ALL_MODES | AT_ALL_LEVELS),
        SERVER_TEST(batches_with_the_same_keys_do_not_deadlock, IN_BATCH),
        SERVER_TEST(batches_with_the_same_keys_at_every_isolation, IN_BATCH | AT_ALL_LEVELS),
        SERVER_TEST(names_are_made_by_many_at_once, AT_ALL_LEVELS)};
    return SERVER_TESTS(tests);
}
