/* On /dev/shm where there is one: processes are killed here, not machines, and a test that waits
 * for a disk some thousand times is too slow to be run. SEMEL_TEST_DIR says otherwise. */
#include "support/base/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEFT_MAX = 64 };

static void die(const char *what, const char *path)
{
    (void)fprintf(stderr, "scratch: cannot %s %s\n", what, path);
    abort();
}

static const char *parent(void)
{
    const char *chosen = getenv("SEMEL_TEST_DIR");
    if (chosen && *chosen)
        return chosen;
    if (access("/dev/shm", W_OK | X_OK) == 0)
        return "/dev/shm";
    chosen = getenv("TMPDIR");
    return chosen && *chosen ? chosen : "/tmp";
}

/* A test that fails does not come to its scratch_close(): what is left then goes with the
 * program. */
static scratch left[LEFT_MAX];
static size_t left_count;

static void close_left(void)
{
    while (left_count)
        scratch_close(&left[left_count - 1]);
}

static void remember(const scratch *dir)
{
    if (!left_count && atexit(close_left) != 0)
        die("remember", dir->path);
    if (left_count < LEFT_MAX)
        left[left_count++] = *dir;
}

static void forget(const scratch *dir)
{
    size_t i = 0;
    while (i < left_count && strcmp(left[i].path, dir->path) != 0)
        i++;
    if (i < left_count)
        left[i] = left[--left_count];
}

void scratch_open(scratch *dir)
{
    (void)snprintf(dir->path, sizeof dir->path, "%s/semel-test-XXXXXX", parent());
    if (!mkdtemp(dir->path))
        die("make", dir->path);
    remember(dir);
}

static char *in_directory(char *out, const char *scheme, const scratch *dir, const char *name)
{
    int len = snprintf(out, SCRATCH_PATH, "%s%s/%s", scheme, dir->path, name);
    if (len < 0 || len >= SCRATCH_PATH)
        die("name", name);
    return out;
}

char *scratch_file(char *out, const scratch *dir, const char *name)
{
    return in_directory(out, "", dir, name);
}

char *scratch_sqlite(char *out, const scratch *dir, const char *name)
{
    return in_directory(out, "sqlite:", dir, name);
}

static void remove_files(DIR *all)
{
    for (struct dirent *one; (one = readdir(all)) != NULL;)
        if (strcmp(one->d_name, ".") != 0 && strcmp(one->d_name, "..") != 0)
            unlinkat(dirfd(all), one->d_name, 0);
}

void scratch_close(scratch *dir)
{
    scratch gone = *dir; /* `dir` may be the one that is remembered */
    DIR *all = opendir(gone.path);
    if (all) {
        remove_files(all);
        closedir(all);
    }
    rmdir(gone.path);
    forget(&gone);
}

static void copy_bytes(int in, int out, const char *to)
{
    char bytes[65536];
    ssize_t got;
    while ((got = read(in, bytes, sizeof bytes)) > 0)
        if (write(out, bytes, (size_t)got) != got)
            die("write", to);
    if (got < 0)
        die("read for", to);
}

void scratch_copy(const scratch *dir, const char *from, const char *to)
{
    char source[SCRATCH_PATH], target[SCRATCH_PATH];
    scratch_remove(dir, to);
    int in = open(scratch_file(source, dir, from), O_RDONLY | O_CLOEXEC);
    int out = open(scratch_file(target, dir, to), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (in < 0 || out < 0)
        die("open", in < 0 ? source : target);
    copy_bytes(in, out, to);
    close(in);
    close(out);
}

void scratch_remove(const scratch *dir, const char *name)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    char path[SCRATCH_PATH], whole[SCRATCH_PATH + 16];
    scratch_file(path, dir, name);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        (void)snprintf(whole, sizeof whole, "%s%s", path, suffixes[i]);
        unlink(whole);
    }
}
