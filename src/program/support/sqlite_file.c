/* See sqlite_file.h. */
#include "program/support/sqlite_file.h"

#include <stdio.h>

/* The byte 18 of its header says so. */
int sqlite_file_is_in_use(const char *path)
{
    enum { MODE_AT = 18, MODE_WAL = 2 };
    unsigned char header[MODE_AT + 1];
    FILE *file = fopen(path, "rbe");
    size_t len = file ? fread(header, 1, sizeof header, file) : 0;
    if (file)
        (void)fclose(file);
    return len == sizeof header && header[MODE_AT] == MODE_WAL;
}
