/* See temporary.h. */
#define _XOPEN_SOURCE 700
#include "program/support/temporary.h"

#include "program/support/memory.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

enum { OPEN_DIRECTORIES = 16 };

char *temporary_directory(void)
{
    const char *parent = getenv("TMPDIR");
    buffer path = {0};
    buffer_printf(&path, "%s/semel-XXXXXX", parent && *parent ? parent : "/tmp");
    if (mkdtemp(path.data))
        return path.data;
    buffer_free(&path);
    return NULL;
}

static int remove_one(const char *path, const struct stat *about, int type, struct FTW *walk)
{
    (void)about, (void)type, (void)walk;
    (void)remove(path);
    return 0;
}

void temporary_remove(char *path)
{
    if (path)
        (void)nftw(path, remove_one, OPEN_DIRECTORIES, FTW_DEPTH | FTW_PHYS);
    free(path);
}
