/* The directory of a demo. While it is open it is the working directory, here and in the shops, so
 * that the databases have short names whatever the path to them looks like. */
#ifndef SEMEL_CLI_DEMO_DIR_H
#define SEMEL_CLI_DEMO_DIR_H

#include <limits.h>

typedef struct demo_dir {
    char path[PATH_MAX]; /* absolute; "" if it is not open */
    int temporary;       /* made here, and removed when it is closed */
} demo_dir;

/* `keep` is the directory to use and to leave behind; NULL: a temporary one. Returns 0, or -1 with
 * errno: ENOTEMPTY if there is anything in the directory that was named. */
int demo_dir_open(demo_dir *out, const char *keep);

/* Removes a temporary directory with all that is in it. */
void demo_dir_close(demo_dir *self);

/* The name of a shop's database in it. */
void demo_dir_database(char *out, int size, const char *shop);

/* What a durable commit usually takes here, in microseconds; -1 if it cannot be measured. */
long demo_dir_commit_us(void);

#endif
