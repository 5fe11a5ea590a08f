#include "program/demo/demo_dir.h"

#include "program/demo/demo_sql.h"
#include "program/demo/demo_wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROBE "probe.db"

static int is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Files only: no part of the demo makes a directory in there. */
static void remove_contents(const char *path)
{
    DIR *directory = opendir(path);
    const struct dirent *entry;
    while (directory && (entry = readdir(directory)))
        if (!is_dots(entry->d_name))
            (void)unlinkat(dirfd(directory), entry->d_name, 0);
    if (directory)
        (void)closedir(directory);
}

static int is_empty(const char *path)
{
    DIR *directory = opendir(path);
    const struct dirent *entry = NULL;
    while (directory && (entry = readdir(directory)) && is_dots(entry->d_name))
        continue;
    if (directory)
        (void)closedir(directory);
    return directory && !entry;
}

static int use_named(const char *keep)
{
    if (mkdir(keep, 0700) != 0 && errno != EEXIST)
        return -1;
    if (!is_empty(keep)) {
        errno = ENOTEMPTY;
        return -1;
    }
    return 0;
}

/* /tmp may be in memory, where a commit is no commit: rather the other one. */
static const char *parent_directory(void)
{
    const char *chosen = getenv("TMPDIR");
    if (chosen && *chosen)
        return chosen;
    return access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp";
}

static int make_temporary(char *path, size_t size)
{
    int len = snprintf(path, size, "%s/semel-demo-XXXXXX", parent_directory());
    if (len < 0 || (size_t)len >= size) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return mkdtemp(path) ? 0 : -1;
}

int demo_dir_open(demo_dir *out, const char *keep)
{
    char path[PATH_MAX];
    *out = (demo_dir){.temporary = !keep};
    if (keep ? use_named(keep) : make_temporary(path, sizeof path))
        return -1;
    if (realpath(keep ? keep : path, out->path) && chdir(out->path) == 0)
        return 0;
    int why = errno;
    if (!keep)
        (void)rmdir(path);
    out->path[0] = 0;
    errno = why;
    return -1;
}

void demo_dir_close(demo_dir *self)
{
    if (!self->path[0] || !self->temporary)
        return;
    remove_contents(self->path);
    (void)rmdir(self->path);
    self->path[0] = 0;
}

void demo_dir_database(char *out, int size, const char *shop)
{
    (void)snprintf(out, (size_t)size, "%s.db", shop);
}

/* --- how fast is the disk? -------------------------------------------------------------------- */

enum { COMMITS = 15 };

static int by_length(const void *a, const void *b)
{
    long left = *(const long *)a, right = *(const long *)b;
    return (left > right) - (left < right);
}

/* The median: one commit that had to wait for another process says nothing. */
static long usual_commit_us(sqlite3 *db)
{
    long took[COMMITS];
    for (int i = 0; i < COMMITS; i++) {
        int64_t begun = now_us();
        if (sql_run(db, "INSERT INTO probe (n) VALUES (1)", NULL, NULL, NULL) != SQLITE_OK)
            return -1;
        took[i] = (long)(now_us() - begun);
    }
    qsort(took, COMMITS, sizeof *took, by_length);
    return took[COMMITS / 2];
}

long demo_dir_commit_us(void)
{
    sqlite3 *db = NULL;
    long took = -1;
    if (sqlite3_open(PROBE, &db) == SQLITE_OK &&
        sqlite3_exec(db,
                     "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; "
                     "CREATE TABLE probe (n)",
                     NULL, NULL, NULL) == SQLITE_OK)
        took = usual_commit_us(db);
    sqlite3_close(db);
    (void)unlink(PROBE);
    return took;
}
