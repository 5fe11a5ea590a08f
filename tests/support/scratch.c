/* On /dev/shm where there is one: processes are killed here, not machines, and a test that waits for a
 * disk some thousand times is a test that nobody runs. SEMEL_TEST_DIR says otherwise. */
#include "support/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

void scratch_open(scratch *dir)
{
    (void)snprintf(dir->path, sizeof dir->path, "%s/semel-test-XXXXXX", parent());
    if (!mkdtemp(dir->path))
        die("make", dir->path);
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

void scratch_close(scratch *dir)
{
    DIR *all = opendir(dir->path);
    if (!all)
        return;
    for (struct dirent *one; (one = readdir(all)) != NULL;)
        if (strcmp(one->d_name, ".") != 0 && strcmp(one->d_name, "..") != 0)
            unlinkat(dirfd(all), one->d_name, 0);
    closedir(all);
    rmdir(dir->path);
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
