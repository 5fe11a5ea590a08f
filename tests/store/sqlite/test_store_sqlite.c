/* The store suite on SQLite: a file in a directory of its own. */
#include "support/base/scratch.h"
#include "support/conformance/conformance_store.h"

static scratch directory;

static void make(char url[URL_ROOM])
{
    scratch_open(&directory);
    scratch_sqlite(url, &directory, "store.db");
}

static void remove_directory(const char *url)
{
    (void)url;
    scratch_close(&directory);
}

int main(void)
{
    static const store_quirks sqlite = {.name = "sqlite",
                                        .make = make,
                                        .remove = remove_directory,
                                        .durability = SEMEL_DURABLE_POWER,
                                        .flags = STORE_KEEPS | STORE_SHARED | STORE_MIGRATES};
    return conformance_store(&sqlite);
}
