/* See sync_vfs.h. Files are those of the default VFS; only their table of methods is a copy with
 * another xSync, which counts and then calls the original. */
#include "support/fake/sync_vfs.h"

#include "support/base/check.h"

#include <sqlite3.h>
#include <stdatomic.h>

enum { KINDS_MAX = 8 };

/* One copy per table that the default VFS has: it has a few, for different ways of locking. */
static struct {
    const sqlite3_io_methods *original;
    sqlite3_io_methods copy;
} kinds[KINDS_MAX];

static sqlite3_vfs *real;
static sqlite3_vfs counting;
static atomic_uint syncs;
static atomic_int fail_next;

static const sqlite3_io_methods *original_of(const sqlite3_file *file)
{
    for (int i = 0; i < KINDS_MAX; i++)
        if (file->pMethods == &kinds[i].copy)
            return kinds[i].original;
    return NULL;
}

static int count_sync(sqlite3_file *file, int flags)
{
    atomic_fetch_add(&syncs, 1);
    if (atomic_exchange(&fail_next, 0))
        return SQLITE_IOERR_FSYNC;
    return original_of(file)->xSync(file, flags);
}

static const sqlite3_io_methods *copy_of(const sqlite3_io_methods *original)
{
    int i = 0;
    while (i < KINDS_MAX && kinds[i].original && kinds[i].original != original)
        i++;
    assert_true(i < KINDS_MAX);
    if (!kinds[i].original) {
        kinds[i].original = original;
        kinds[i].copy = *original;
        kinds[i].copy.xSync = count_sync;
    }
    return &kinds[i].copy;
}

static int open_counted(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                        int *out_flags)
{
    int code = real->xOpen(vfs, name, file, flags, out_flags);
    if (code == SQLITE_OK)
        file->pMethods = copy_of(file->pMethods);
    return code;
}

void sync_vfs_install(void)
{
    if (real)
        return;
    real = sqlite3_vfs_find(NULL);
    counting = *real;
    counting.zName = "counting";
    counting.xOpen = open_counted;
    assert_int_equal(sqlite3_vfs_register(&counting, 1), SQLITE_OK);
}

unsigned sync_vfs_taken(void)
{
    return atomic_exchange(&syncs, 0);
}

void sync_vfs_fail_next(void)
{
    atomic_store(&fail_next, 1);
}
