/* One directory for all files of a run. It should be on a real disk: on a tmpfs an fsync costs
 * nothing, and every ratio would favour one of the contenders.
 *
 * The directory is removed when the program ends, through atexit(). A signal only sets a flag,
 * which is read between rounds, so nothing is left behind. */
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

static char directory[400];
static volatile sig_atomic_t asked_to_stop;

double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void on_signal(int number)
{
    asked_to_stop = number;
}

void stop_if_asked(void)
{
    if (!asked_to_stop)
        return;
    progress_clear();
    exit(128 + asked_to_stop);
}

void die(const char *format, ...)
{
    va_list arguments;
    progress_clear();
    fputs("semel-bench: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

void must(semel_status status, const semel_error *err)
{
    if (status)
        die("%s: %s", semel_status_name(status), err->text);
}

void must_sqlite(int code, sqlite3 *db)
{
    if (code != SQLITE_OK && code != SQLITE_ROW && code != SQLITE_DONE)
        die("sqlite: %s", db ? sqlite3_errmsg(db) : sqlite3_errstr(code));
}

void *must_alloc(size_t size)
{
    void *memory = calloc(1, size ? size : 1);
    if (!memory)
        die("out of memory");
    return memory;
}

static void remove_directory(void)
{
    DIR *listing = opendir(directory);
    if (!listing)
        return;
    for (struct dirent *entry; (entry = readdir(listing));) {
        char path[512];
        if (entry->d_name[0] != '.' && strlen(entry->d_name) < 100)
            unlink(scratch_path(path, entry->d_name));
    }
    closedir(listing);
    rmdir(directory);
}

static void warn_of_tmpfs(void)
{
    enum { TMPFS = 0x01021994 };
    struct statfs about;
    if (statfs(directory, &about) == 0 && (unsigned long)about.f_type == TMPFS)
        fprintf(stderr,
                "semel-bench: %s is in memory: an fsync costs nothing there, and the figures mean "
                "little. Use --dir with a directory on a disk.\n",
                directory);
}

void scratch_make(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    int len = snprintf(directory, sizeof directory, "%s/semel-bench.XXXXXX", options.directory);
    if (len < 0 || (size_t)len >= sizeof directory)
        die("the name of the directory is too long");
    if (!mkdtemp(directory))
        die("cannot make a directory in %s: %s", options.directory, strerror(errno));
    atexit(remove_directory);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    sigaction(SIGPIPE, &action, NULL); /* the reader of the table has left */
    warn_of_tmpfs();
}

const char *scratch_path(char out[512], const char *name)
{
    snprintf(out, 512, "%s/%.100s", directory, name);
    return out;
}

void scratch_remove(const char *name)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        char with_suffix[100], path[512];
        snprintf(with_suffix, sizeof with_suffix, "%.80s%s", name, suffixes[i]);
        unlink(scratch_path(path, with_suffix));
    }
}
