/* The stores that need no server agree; tests/store/servers/test_servers_agree.c has the others. */
#include "support/base/sanitizer.h"
#include "support/conformance/agree.h"
#include "support/keyed/memory_adapter.h"

#include <stdio.h>

enum { HISTORIES = 300 / SANITIZER_SLOWDOWN };

static scratch directory;

static void make_memory(char url[URL_ROOM])
{
    (void)snprintf(url, URL_ROOM, "memory:");
}

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

static void make_keyed(char name[URL_ROOM])
{
    (void)snprintf(name, URL_ROOM, "agree");
    (void)keyed_memory_open(name, &(keyed_memory_options){.lacks = SEMEL_KEYED_EXPIRES});
}

static void remove_keyed(const char *name)
{
    keyed_memory_close(keyed_memory_named(name));
}

static void they_agree(void **state)
{
    static const store_quirks memory = {.name = "memory", .make = make_memory};
    static const store_quirks sqlite = {.name = "sqlite", .make = make_file, .remove = remove_file};
    static const store_quirks keyed = {
        .name = "keyed", .driver = &keyed_memory_store, .make = make_keyed, .remove = remove_keyed};
    const store_quirks *const stores[] = {&memory, &sqlite, &keyed};
    (void)state;
    agree_on(stores, sizeof stores / sizeof *stores, HISTORIES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(they_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
