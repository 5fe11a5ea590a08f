/* SQLite's file system with a counter at its fsync, and a way to make one fail. */
#ifndef SEMEL_TESTS_SYNC_VFS_H
#define SEMEL_TESTS_SYNC_VFS_H

/* From now on every database of this process is opened through it. */
void sync_vfs_install(void);

/* How many fsyncs there were since the last call. */
unsigned sync_vfs_taken(void);

/* The next fsync fails with SQLITE_IOERR_FSYNC. */
void sync_vfs_fail_next(void);

#endif
