/* Stores on servers agree with each other and with SQLite: see agree.h. Those without SQL, too, if
 * they are built in. */
#include "core/store.h"
#include "support/base/sanitizer.h"
#include "support/conformance/agree.h"
#include "support/keyed/keyed_skew.h"

enum { HISTORIES = 6, STORES_MAX = 8 };

static scratch directory;

static void make_file(char url[URL_ROOM])
{
    scratch_open(&directory);
    scratch_sqlite(url, &directory, "store.db");
}

static void remove_file(const char *url)
{
    (void)url;
    scratch_close(&directory);
}

static void make_redis(char url[URL_ROOM])
{
    keyed_skew_reset();
    server_fresh_redis(url);
}

static void make_dynamodb(char url[URL_ROOM])
{
    keyed_skew_reset();
    server_fresh_dynamodb(url);
}

static const store_quirks sqlite = {.name = "sqlite", .make = make_file, .remove = remove_file};
static const store_quirks postgres = {.name = "postgres",
                                      .make = server_fresh_postgres,
                                      .make_ready = server_ready_postgres,
                                      .remove = server_give_back,
                                      .pass_ms = server_pass_ms,
                                      .flags = STORE_SERVER_CLOCK};
static const store_quirks mariadb = {.name = "mariadb",
                                     .make = server_fresh_mariadb,
                                     .make_ready = server_ready_mariadb,
                                     .remove = server_give_back,
                                     .pass_ms = server_pass_ms,
                                     .flags = STORE_SERVER_CLOCK};
static const store_quirks redis = {.name = "redis",
                                   .make = make_redis,
                                   .remove = server_drop,
                                   .pass_ms = server_pass_ms,
                                   .flags = STORE_SERVER_CLOCK | STORE_CLOCK_PASSES};
static const store_quirks dynamodb = {.name = "dynamodb",
                                      .make = make_dynamodb,
                                      .remove = server_drop,
                                      .pass_ms = server_pass_ms,
                                      .clock_ms = SERVER_DYNAMODB_CLOCK_MS,
                                      .flags = STORE_SERVER_CLOCK | STORE_CLOCK_PASSES};

static void they_agree(void **state)
{
    static const struct {
        const char *url;
        const store_quirks *quirks;
    } known[] = {{"sqlite:x", &sqlite},
                 {"postgres://x", &postgres},
                 {"mariadb://x", &mariadb},
                 {"redis://x", &redis},
                 {"dynamodb://x", &dynamodb}};
    const store_quirks *stores[STORES_MAX];
    size_t count = 0;
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const semel_store_driver *driver;
        if (!store_driver_find(&driver, known[i].url, NULL))
            stores[count++] = known[i].quirks;
    }
    assert_true(count > 1);
    agree_on(stores, count, HISTORIES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(they_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
