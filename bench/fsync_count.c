/* Counts without touching what is measured: a VFS that is SQLite's own in everything but that the
 * xSync of its files goes through here, and SQLite's own allocator behind two functions that
 * count. */
#include "bench.h"

#include <stdatomic.h>
#include <time.h>

static atomic_long syncs, sync_us, slower_us, allocations;
static sqlite3_vfs counting_vfs, *system_vfs;
static sqlite3_mem_methods system_memory;

enum { KINDS_MAX = 8 };

/* The system's methods, one set for each way of locking, and ours that stand in for them. */
static struct {
    const sqlite3_io_methods *theirs;
    sqlite3_io_methods ours;
} kinds[KINDS_MAX];

static int count_fsync(sqlite3_file *file, int flags)
{
    size_t i = 0;
    while (i < KINDS_MAX && file->pMethods != &kinds[i].ours)
        i++;
    if (i == KINDS_MAX)
        return SQLITE_IOERR_FSYNC;
    double start = now_s();
    int code = kinds[i].theirs->xSync(file, flags);
    long slower = atomic_load_explicit(&slower_us, memory_order_relaxed);
    if (slower)
        nanosleep(&(struct timespec){.tv_nsec = slower * 1000}, NULL);
    atomic_fetch_add_explicit(&sync_us, (long)((now_s() - start) * 1e6), memory_order_relaxed);
    atomic_fetch_add_explicit(&syncs, 1, memory_order_relaxed);
    return code;
}

/* Opening happens on one thread here, so the list needs no lock. */
static int open_counted(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    (void)vfs;
    int code = system_vfs->xOpen(system_vfs, name, file, flags, out);
    for (size_t i = 0; !code && i < KINDS_MAX; i++) {
        if (kinds[i].theirs && kinds[i].theirs != file->pMethods)
            continue;
        if (!kinds[i].theirs) {
            kinds[i].theirs = file->pMethods;
            kinds[i].ours = *file->pMethods;
            kinds[i].ours.xSync = count_fsync;
        }
        file->pMethods = &kinds[i].ours;
        break;
    }
    return code;
}

static void *count_malloc(int size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return system_memory.xMalloc(size);
}

static void *count_realloc(void *memory, int size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return system_memory.xRealloc(memory, size);
}

void fsync_count_begin(void)
{
    sqlite3_mem_methods counting;
    must_sqlite(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &system_memory), NULL);
    counting = system_memory;
    counting.xMalloc = count_malloc;
    counting.xRealloc = count_realloc;
    must_sqlite(sqlite3_config(SQLITE_CONFIG_MALLOC, &counting), NULL);
    must_sqlite(sqlite3_initialize(), NULL);
    system_vfs = sqlite3_vfs_find(NULL);
    counting_vfs = *system_vfs;
    counting_vfs.zName = "counting";
    counting_vfs.xOpen = open_counted;
    must_sqlite(sqlite3_vfs_register(&counting_vfs, 1), NULL);
}

long fsync_count(void)
{
    return atomic_load(&syncs);
}

void fsync_slow_down(long us)
{
    atomic_store(&slower_us, us);
}

double fsync_seconds(void)
{
    return (double)atomic_load(&sync_us) / 1e6;
}

long sqlite_allocations(void)
{
    return atomic_load(&allocations);
}
