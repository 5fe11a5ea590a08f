/* See sqlite_file.h. */
#include "program/support/sqlite_file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The byte 18 of its header tells the mode. */
sqlite_file_kind sqlite_file_look(const char *path)
{
    enum { MODE_AT = 18, MODE_WAL = 2 };
    static const char magic[16] = "SQLite format 3";
    unsigned char header[MODE_AT + 1];
    struct stat about;
    FILE *file = stat(path, &about) == 0 && S_ISREG(about.st_mode) ? fopen(path, "rbe") : NULL;
    if (!file)
        return SQLITE_FILE_OTHER;
    size_t len = fread(header, 1, sizeof header, file);
    (void)fclose(file);
    if (len == 0)
        return SQLITE_FILE_FREE;
    if (len < sizeof header || memcmp(header, magic, sizeof magic) != 0)
        return SQLITE_FILE_OTHER;
    return header[MODE_AT] == MODE_WAL ? SQLITE_FILE_IN_USE : SQLITE_FILE_FREE;
}
