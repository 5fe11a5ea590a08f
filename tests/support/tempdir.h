/* A directory of one's own for the files of one test. */
#ifndef SEMEL_TESTS_TEMPDIR_H
#define SEMEL_TESTS_TEMPDIR_H

#include <stddef.h>

/* Makes an empty directory below $TMPDIR or /tmp and writes its path, without a slash at its end, to
 * `path`, which has room for `size` bytes. The test fails if it cannot. */
void tempdir_make(char *path, size_t size);

/* Removes it with the files in it. It holds no directories. */
void tempdir_remove(const char *path);

#endif
