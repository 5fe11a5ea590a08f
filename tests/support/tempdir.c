/* See tempdir.h. */
#include "support/tempdir.h"

#include "support/check.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void tempdir_make(char *path, size_t size)
{
    const char *base = getenv("TMPDIR");
    int len = snprintf(path, size, "%s/semel-test-XXXXXX", base && *base ? base : "/tmp");
    if (len < 0 || (size_t)len >= size || !mkdtemp(path))
        fail_msg("cannot make a directory for the test in %s", base ? base : "/tmp");
}

void tempdir_remove(const char *path)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    if (!directory)
        return;
    while ((entry = readdir(directory)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
    rmdir(path);
}
