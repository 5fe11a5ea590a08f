/* The store suite on the store of the example: inboxes in claim mode, in one file. */
#include "support/base/scratch.h"
#include "support/conformance/conformance_store.h"

extern const semel_store_driver filestore_driver;

static scratch directory;

static void make(char path[URL_ROOM])
{
    scratch_open(&directory);
    scratch_file(path, &directory, "inbox.filestore");
}

static void remove_directory(const char *path)
{
    (void)path;
    scratch_close(&directory);
}

int main(void)
{
    static const store_quirks own = {
        .name = "filestore",
        .driver = &filestore_driver,
        .make = make,
        .remove = remove_directory,
        .durability = SEMEL_DURABLE_PROCESS,
        .flags = STORE_KEEPS | STORE_PROCESS_CLOCK,
        .lacks = LACKS_TRANSACTIONS | LACKS_OUTBOX | LACKS_DEAD | LACKS_RESULTS | LACKS_SAVEPOINTS |
                 LACKS_SWEEP | LACKS_QUEUE | LACKS_JOIN | LACKS_NOTES | LACKS_LISTS | LACKS_SENT |
                 LACKS_STATS | LACKS_OPERATION | LACKS_HISTORY};
    return conformance_store(&own);
}
