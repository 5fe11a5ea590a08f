/* What <semel/operate.h> refuses if the driver's table has no members for it, and what it does with
 * more names than a driver shows at once. */
#include "core/store.h"
#include "support/base/check.h"

#include <semel/operate.h>
#include <semel/queue.h>
#include <stdio.h>
#include <string.h>

/* The memory store's table, in parts that a test may change. */
typedef struct table {
    semel_store_driver driver;
    semel_store_operation operation;
    semel_store_lists lists;
    semel_store *store;
    semel_outbox *outbox;
    semel_transport *queue;
} table;

static int setup(void **state)
{
    static table t;
    const semel_store_driver *memory;
    OK(store_driver_find(&memory, "memory:", &last_error));
    memset(&t, 0, sizeof t);
    t.driver = *memory;
    t.operation = *memory->operation;
    t.lists = *memory->lists;
    t.driver.operation = &t.operation;
    t.driver.lists = &t.lists;
    *state = &t;
    return 0;
}

static int teardown(void **state)
{
    table *t = *state;
    semel_transport_close(t->queue);
    semel_outbox_close(t->outbox);
    semel_store_close(t->store);
    return 0;
}

static void open_all(table *t)
{
    semel_message message = {.size = sizeof message, .body = semel_str("x")};
    OK(semel_store_open_driver(&t->store, &t->driver, "memory:", NULL, &last_error));
    OK(semel_outbox_open(&t->outbox, t->store, "mail", &last_error));
    OK(semel_outbox_send(t->outbox, &message, &last_error));
    OK(semel_queue_open(&t->queue, t->store, "work", NULL, &last_error));
}

static void refuses_messages(table *t)
{
    size_t removed;
    FAILS(SEMEL_EUNSUPPORTED, semel_outbox_wake(t->outbox, 1, semel_str(""), &last_error));
    FAILS(SEMEL_EUNSUPPORTED,
          semel_outbox_skip(NULL, t->outbox, 1, semel_str(""), "x", &last_error));
    FAILS(SEMEL_EUNSUPPORTED, semel_queue_purge(&removed, t->queue, 0, 0, 0, &last_error));
}

static void without_the_group_everything_is_refused(void **state)
{
    table *t = *state;
    semel_audit entry = {.size = sizeof entry};
    semel_process process = {.size = sizeof process, .id = "p"};
    t->driver.operation = NULL;
    open_all(t);
    refuses_messages(t);
    FAILS(SEMEL_EUNSUPPORTED,
          semel_store_names(t->store, SEMEL_NAME_OUTBOX, NULL, NULL, &last_error));
    SAYS("memory: this store cannot list names");
    FAILS(SEMEL_EUNSUPPORTED, semel_dead_set_retry(t->store, 1, SEMEL_RETRY_NONE, SEMEL_RETRY_ASKED,
                                                   NULL, &last_error));
    FAILS(SEMEL_EUNSUPPORTED, semel_audit_write(&entry, t->store, &last_error));
    FAILS(SEMEL_EUNSUPPORTED, semel_audit_list(t->store, NULL, NULL, NULL, &last_error));
    FAILS(SEMEL_EUNSUPPORTED, semel_process_write(&process, t->store, &last_error));
    FAILS(SEMEL_EUNSUPPORTED, semel_process_remove(t->store, "p", 0, &last_error));
    FAILS(SEMEL_EUNSUPPORTED, semel_process_list(t->store, NULL, NULL, &last_error));
}

static void without_its_group_the_history_is_refused(void **state)
{
    table *t = *state;
    semel_history row = {.size = sizeof row, .kind = SEMEL_HISTORY_RECEIVED};
    uint64_t rows;
    int64_t oldest;
    t->driver.history = NULL;
    open_all(t);
    FAILS(SEMEL_EUNSUPPORTED, semel_history_write(t->store, &row, 1, &last_error));
    SAYS("memory: this store cannot keep a history");
    FAILS(SEMEL_EUNSUPPORTED, semel_history_list(t->store, NULL, NULL, NULL, &last_error));
    FAILS(SEMEL_EUNSUPPORTED, semel_history_trim(NULL, NULL, t->store, 1, 0, 0, &last_error));
    FAILS(SEMEL_EUNSUPPORTED, semel_history_size(&rows, &oldest, t->store, &last_error));
}

/* Groups of letters need nothing but the letters. */
static void letters_are_grouped_without_the_group(void **state)
{
    table *t = *state;
    t->driver.operation = NULL;
    open_all(t);
    OK(semel_dead_groups(t->store, NULL, NULL, NULL, &last_error));
}

/* What was not changed must be told apart: gone, or leased. */
static void messages_are_not_changed_if_they_cannot_be_listed(void **state)
{
    table *t = *state;
    t->lists.outgoing = NULL;
    open_all(t);
    refuses_messages(t);
}

static semel_status count_name(const semel_name *name, void *context, semel_error *err)
{
    (void)name;
    (void)err;
    ++*(unsigned *)context;
    return SEMEL_OK;
}

static void all_names_are_listed_however_many(void **state)
{
    enum { NAMES = 2500 };
    table *t = *state;
    unsigned count = 0;
    open_all(t);
    for (int i = 1; i < NAMES; i++) {
        char name[16];
        semel_outbox *outbox = NULL;
        (void)snprintf(name, sizeof name, "n-%d", i);
        OK(semel_outbox_open(&outbox, t->store, name, &last_error));
        semel_outbox_close(outbox);
    }
    OK(semel_store_names(t->store, SEMEL_NAME_OUTBOX, count_name, &count, &last_error));
    assert_int_equal(count, NAMES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_the_group_everything_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(without_its_group_the_history_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(letters_are_grouped_without_the_group, setup, teardown),
        cmocka_unit_test_setup_teardown(messages_are_not_changed_if_they_cannot_be_listed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(all_names_are_listed_however_many, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
