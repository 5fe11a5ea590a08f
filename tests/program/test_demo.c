/* The demo's check must be able to say no: it is given books with one thing wrong, and has to find
 * it. And the small parts of the program: the plan, suggestions, numbers. The demo as a whole is
 * run by check_demo.sh. The program is not a library, so what is tested of it is included here. */
#include "program/demo/demo_check.c"
#include "program/demo/demo_plan.c"
#include "program/demo/demo_screen.c"
#include "program/demo/demo_sql.c"
#include "program/support/colour.c"
#include "program/support/memory.c"
#include "program/support/nearest.c"

#include "support/base/check.h"
#include "support/base/scratch.h"
#include "support/inspect/inspect_sqlite.h"

#include <string.h>

/* --- books ------------------------------------------------------------------------------------ */

typedef struct books {
    scratch directory;
    char provider[SCRATCH_PATH];
    char ledger[SCRATCH_PATH];
} books;

/* Three payments, each charged once, each announced once by the shop "semel". */
static int open_books(void **state)
{
    static books b;
    scratch_open(&b.directory);
    scratch_file(b.provider, &b.directory, "provider.db");
    scratch_file(b.ledger, &b.directory, "semel.db");
    inspect_sqlite_run(
        b.provider,
        "CREATE TABLE due (payment TEXT PRIMARY KEY, cents INTEGER NOT NULL);"
        "CREATE TABLE received (shop TEXT, event TEXT, payment TEXT, cents INTEGER);"
        "INSERT INTO due VALUES ('p1', 100), ('p2', 250), ('p3', 75);"
        "INSERT INTO received VALUES ('semel', 'e1', 'p1', 100), ('semel', 'e2', 'p2', 250),"
        "                            ('semel', 'e3', 'p3', 75);");
    inspect_sqlite_run(b.ledger,
                       SQL_LEDGER ";"
                                  "INSERT INTO charge VALUES ('p1', 100), ('p2', 250), ('p3', 75)");
    *state = &b;
    return 0;
}

static int close_books(void **state)
{
    books *b = *state;
    scratch_close(&b->directory);
    return 0;
}

static verdict judged(const books *b)
{
    verdict v;
    char error[256] = "";
    if (check_shop(&v, b->provider, "semel", b->ledger, error, sizeof error) != 0)
        fail_msg("%s", error);
    return v;
}

/* The complaints of a verdict, one per line. */
static const char *complaints(const verdict *v)
{
    static char all[1024];
    char one[128];
    all[0] = 0;
    for (size_t i = 0; verdict_complaint(one, sizeof one, v, i); i++) {
        strncat(all, one, sizeof all - strlen(all) - 2);
        strncat(all, "\n", 2);
    }
    return all;
}

/* --- charges ---------------------------------------------------------------------------------- */

static void books_that_agree_are_exact(void **state)
{
    verdict v = judged(*state);
    assert_true(verdict_is_exact(&v));
    assert_string_equal(complaints(&v), "");
    assert_int_equal(v.due, 3);
    assert_int_equal(v.made, 3);
    assert_int_equal(v.received, 3);
}

static void a_payment_charged_twice_is_found(void **state)
{
    books *b = *state;
    inspect_sqlite_run(b->ledger, "INSERT INTO charge VALUES ('p2', 250)");
    verdict v = judged(b);
    assert_false(verdict_is_exact(&v));
    assert_int_equal(v.made, 4);
    assert_int_equal(v.twice, 1);
    assert_int_equal(v.over_cents, 250);
    assert_int_equal(v.never, 0);
    assert_int_equal(v.wrong, 0);
    assert_non_null(strstr(complaints(&v), "charges too many of a payment: 1"));
}

static void a_payment_charged_four_times_counts_three(void **state)
{
    books *b = *state;
    inspect_sqlite_run(b->ledger, "INSERT INTO charge VALUES ('p3', 75), ('p3', 75), ('p3', 75)");
    verdict v = judged(b);
    assert_int_equal(v.twice, 3);
    assert_int_equal(v.over_cents, 225);
}

static void a_payment_never_charged_is_found(void **state)
{
    books *b = *state;
    inspect_sqlite_run(b->ledger, "DELETE FROM charge WHERE payment = 'p1'");
    verdict v = judged(b);
    assert_false(verdict_is_exact(&v));
    assert_int_equal(v.never, 1);
    assert_int_equal(v.twice, 0);
    assert_int_equal(v.over_cents, 0);
}

static void a_double_charge_does_not_make_up_for_a_missing_one(void **state)
{
    books *b = *state;
    inspect_sqlite_run(b->ledger,
                       "UPDATE charge SET payment = 'p2', cents = 250 WHERE payment = 'p1'");
    verdict v = judged(b);
    assert_int_equal(v.made, v.due);
    assert_false(verdict_is_exact(&v));
    assert_int_equal(v.never, 1);
    assert_int_equal(v.twice, 1);
}

static void a_wrong_amount_is_found(void **state)
{
    books *b = *state;
    inspect_sqlite_run(b->ledger, "UPDATE charge SET cents = 101 WHERE payment = 'p1'");
    verdict v = judged(b);
    assert_false(verdict_is_exact(&v));
    assert_int_equal(v.wrong, 1);
    assert_int_equal(v.over_cents, 1);
    inspect_sqlite_run(b->ledger, "UPDATE charge SET cents = 99 WHERE payment = 'p1'");
    v = judged(b);
    assert_false(verdict_is_exact(&v));
    assert_int_equal(v.wrong, 1);
    assert_int_equal(v.over_cents, 0);
}

static void a_charge_without_an_order_is_found(void **state)
{
    books *b = *state;
    inspect_sqlite_run(b->ledger, "INSERT INTO charge VALUES ('p9', 40)");
    verdict v = judged(b);
    assert_false(verdict_is_exact(&v));
    assert_int_equal(v.wrong, 1);
    assert_int_equal(v.over_cents, 40);
}

static void when_nothing_was_due_nothing_is_proved(void **state)
{
    books *b = *state;
    inspect_sqlite_run(b->provider, "DELETE FROM due; DELETE FROM received");
    inspect_sqlite_run(b->ledger, "DELETE FROM charge");
    verdict v = judged(b);
    assert_false(verdict_is_exact(&v));
}

static void books_that_cannot_be_read_are_an_error(void **state)
{
    books *b = *state;
    verdict v;
    char error[256] = "";
    inspect_sqlite_run(b->ledger, "DROP TABLE charge");
    assert_int_equal(check_shop(&v, b->provider, "semel", b->ledger, error, sizeof error), -1);
    assert_non_null(strstr(error, "charge"));
    assert_int_equal(check_shop(&v, "/nowhere/x.db", "semel", b->ledger, error, sizeof error), -1);
}

/* --- events ----------------------------------------------------------------------------------- */

static void an_event_that_never_came_is_found(void **state)
{
    books *b = *state;
    inspect_sqlite_run(b->provider, "DELETE FROM received WHERE payment = 'p3'");
    verdict v = judged(b);
    assert_false(verdict_is_exact(&v));
    assert_int_equal(v.events_lost, 1);
    assert_int_equal(v.events_doubled, 0);
}

static void a_charge_announced_under_two_ids_is_found(void **state)
{
    books *b = *state;
    inspect_sqlite_run(b->provider, "INSERT INTO received VALUES ('semel', 'e4', 'p1', 100)");
    verdict v = judged(b);
    assert_false(verdict_is_exact(&v));
    assert_int_equal(v.events_doubled, 1);
    assert_int_equal(v.received, 4);
}

static void an_event_of_a_wrong_amount_is_found(void **state)
{
    books *b = *state;
    inspect_sqlite_run(b->provider, "UPDATE received SET cents = 1 WHERE payment = 'p1'");
    verdict v = judged(b);
    assert_false(verdict_is_exact(&v));
    assert_int_equal(v.events_wrong, 1);
}

static void another_shops_events_do_not_count(void **state)
{
    books *b = *state;
    inspect_sqlite_run(b->provider, "UPDATE received SET shop = 'naive' WHERE payment = 'p1'");
    verdict v = judged(b);
    assert_int_equal(v.received, 2);
    assert_int_equal(v.events_lost, 1);
}

static semel_status refuse(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    (void)unit, (void)message, (void)context;
    return semel_fail(err, SEMEL_EGIVEUP, "no");
}

static void what_is_left_in_the_store_is_found(void **state)
{
    books *b = *state;
    char url[SCRATCH_PATH], error[256];
    semel_store *store = NULL;
    semel_outbox *outbox = NULL;
    semel_inbox *inbox = NULL;
    semel_outcome outcome;
    semel_message message = {.size = sizeof message, .id = semel_str("m1"), .type = "charged"};
    verdict v = judged(b);
    OK(semel_store_open(&store, scratch_sqlite(url, &b->directory, "semel.db"), NULL, &last_error));
    OK(semel_store_migrate(store, &last_error));
    assert_int_equal(check_store(&v, b->ledger, error, sizeof error), 0);
    assert_true(verdict_is_exact(&v));

    OK(semel_outbox_open(&outbox, store, "charges", &last_error));
    OK(semel_outbox_send(outbox, &message, &last_error));
    assert_int_equal(check_store(&v, b->ledger, error, sizeof error), 0);
    assert_int_equal(v.unsent, 1);
    assert_false(verdict_is_exact(&v));
    v.unsent = 0;

    OK(semel_inbox_open(&inbox, store, "payments", NULL, &last_error));
    OK(semel_inbox_receive(&outcome, inbox, &message, refuse, NULL, &last_error));
    assert_int_equal(check_store(&v, b->ledger, error, sizeof error), 0);
    assert_int_equal(v.dead, 1);
    v.unsent = 0;
    assert_false(verdict_is_exact(&v));
    semel_inbox_close(inbox);
    semel_outbox_close(outbox);
    semel_store_close(store);
}

/* --- the small parts -------------------------------------------------------------------------- */

static void a_plan_delivers_every_payment_and_thirty_percent_twice(void **state)
{
    enum { PAYMENTS = 1000 };
    plan p;
    uint32_t times[PAYMENTS] = {0}, twice = 0, out_of_order = 0;
    (void)state;
    assert_int_equal(plan_make(&p, PAYMENTS, 0, 42), 0);
    assert_int_equal(p.delivery_count, 1300);
    for (uint32_t i = 0; i < p.delivery_count; i++) {
        times[p.deliveries[i]]++;
        out_of_order += i && p.deliveries[i] < p.deliveries[i - 1];
    }
    for (uint32_t i = 0; i < PAYMENTS; i++) {
        assert_in_range(times[i], 1, 2);
        twice += times[i] == 2;
    }
    assert_int_equal(twice, 300);
    assert_true(out_of_order > 300);
    plan_free(&p);
}

static void a_plan_is_the_same_for_the_same_seed_only(void **state)
{
    plan a, b, c;
    (void)state;
    assert_int_equal(plan_make(&a, 500, 20, 7), 0);
    assert_int_equal(plan_make(&b, 500, 20, 7), 0);
    assert_int_equal(plan_make(&c, 500, 20, 8), 0);
    size_t size = a.delivery_count * sizeof *a.deliveries;
    assert_memory_equal(a.deliveries, b.deliveries, size);
    assert_memory_equal(a.payments, b.payments, 500 * sizeof *a.payments);
    assert_memory_equal(a.kills[1], b.kills[1], 20 * sizeof *a.kills[1]);
    assert_memory_not_equal(a.deliveries, c.deliveries, size);
    plan_free(&a);
    plan_free(&b);
    plan_free(&c);
}

static void kills_are_in_order_and_within_the_deliveries(void **state)
{
    plan p;
    (void)state;
    assert_int_equal(plan_make(&p, 1, 50, 3), 0);
    for (uint32_t shop = 0; shop < SHOPS; shop++)
        for (uint32_t i = 0; i < p.kill_count; i++) {
            assert_true(p.kills[shop][i] < p.delivery_count);
            assert_true(!i || p.kills[shop][i] >= p.kills[shop][i - 1]);
        }
    plan_free(&p);
}

static void the_nearest_command_is_suggested(void **state)
{
    static const char *const known[] = {"demo", "help", "version", NULL};
    static const struct {
        const char *typed, *meant;
    } cases[] = {{"dmeo", "demo"},   {"demos", "demo"},      {"d", "demo"},
                 {"ver", "version"}, {"hiden", NULL},        {"xyz", NULL},
                 {"", NULL},         {"verison", "version"}, {"elephant", NULL}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        nearest best = {.typed = cases[i].typed};
        for (size_t j = 0; known[j]; j++)
            nearest_offer(&best, known[j]);
        assert_string_equal(best.name ? best.name : "none",
                            cases[i].meant ? cases[i].meant : "none");
    }
}

static void numbers_and_money_are_readable(void **state)
{
    char text[32];
    const screen pipe = {0}, terminal = {.utf8 = 1};
    (void)state;
    assert_string_equal(text_number(text, sizeof text, 0), "0");
    assert_string_equal(text_number(text, sizeof text, 999), "999");
    assert_string_equal(text_number(text, sizeof text, 1000), "1,000");
    assert_string_equal(text_number(text, sizeof text, 1234567), "1,234,567");
    assert_string_equal(text_number(text, sizeof text, -123456), "-123,456");
    assert_string_equal(text_money(text, sizeof text, 5, &pipe), "EUR 0.05");
    assert_string_equal(text_money(text, sizeof text, 123450, &terminal), "€1,234.50");
    assert_int_equal(text_width("€1,234.50"), 9);
}

int main(void)
{
#define ON_BOOKS(test) cmocka_unit_test_setup_teardown(test, open_books, close_books)
    const struct CMUnitTest tests[] = {
        ON_BOOKS(books_that_agree_are_exact),
        ON_BOOKS(a_payment_charged_twice_is_found),
        ON_BOOKS(a_payment_charged_four_times_counts_three),
        ON_BOOKS(a_payment_never_charged_is_found),
        ON_BOOKS(a_double_charge_does_not_make_up_for_a_missing_one),
        ON_BOOKS(a_wrong_amount_is_found),
        ON_BOOKS(a_charge_without_an_order_is_found),
        ON_BOOKS(when_nothing_was_due_nothing_is_proved),
        ON_BOOKS(books_that_cannot_be_read_are_an_error),
        ON_BOOKS(an_event_that_never_came_is_found),
        ON_BOOKS(a_charge_announced_under_two_ids_is_found),
        ON_BOOKS(an_event_of_a_wrong_amount_is_found),
        ON_BOOKS(another_shops_events_do_not_count),
        ON_BOOKS(what_is_left_in_the_store_is_found),
        cmocka_unit_test(a_plan_delivers_every_payment_and_thirty_percent_twice),
        cmocka_unit_test(a_plan_is_the_same_for_the_same_seed_only),
        cmocka_unit_test(kills_are_in_order_and_within_the_deliveries),
        cmocka_unit_test(the_nearest_command_is_suggested),
        cmocka_unit_test(numbers_and_money_are_readable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
