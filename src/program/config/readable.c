/* See readable.h. The checks are of the open file, so it cannot be exchanged in between. */
#include "program/config/readable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PERMISSIONS = 07777 };

static int failed(readable_problem *problem, const char *shown)
{
    (void)snprintf(problem->text, sizeof problem->text, "cannot read %s: %s", shown,
                   strerror(errno));
    return 0;
}

static int read_all(int fd, buffer *out, size_t most, const char *shown, readable_problem *problem)
{
    char part[16384];
    for (;;) {
        ssize_t got = read(fd, part, sizeof part);
        if (got == 0)
            return 1;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return failed(problem, shown);
        buffer_add(out, part, (size_t)got);
        if (out->len > most) {
            (void)snprintf(problem->text, sizeof problem->text, "%s is larger than %zu bytes",
                           shown, most);
            return 0;
        }
    }
}

int readable_by_others(unsigned mode, int is_of_root)
{
    return (mode & S_IROTH) || ((mode & S_IRGRP) && !is_of_root);
}

static int is_secret(const struct stat *file, const char *shown, readable_problem *problem)
{
    unsigned mode = file->st_mode & PERMISSIONS;
    if (!S_ISREG(file->st_mode))
        (void)snprintf(problem->text, sizeof problem->text, "%s is not a regular file", shown);
    else if (readable_by_others(mode, file->st_uid == 0))
        (void)snprintf(problem->text, sizeof problem->text,
                       "other users can read %s (mode %04o); fix: chmod 600 %s", shown, mode,
                       shown);
    else
        return 1;
    return 0;
}

static int is_config(const struct stat *file, const char *shown, readable_problem *problem)
{
    unsigned mode = file->st_mode & PERMISSIONS;
    if (!S_ISREG(file->st_mode) && !S_ISFIFO(file->st_mode))
        (void)snprintf(problem->text, sizeof problem->text, "this is not a file");
    else if (S_ISREG(file->st_mode) && (mode & (S_IWGRP | S_IWOTH)))
        (void)snprintf(problem->text, sizeof problem->text,
                       "other users can write this file (mode %04o), and it defines commands; "
                       "fix: chmod go-w %s",
                       mode, shown);
    else if (S_ISREG(file->st_mode) && file->st_uid != 0 && file->st_uid != geteuid())
        (void)snprintf(problem->text, sizeof problem->text,
                       "this file belongs to another user (uid %u), and it defines commands; "
                       "fix: chown it to root or to the user that runs semel",
                       (unsigned)file->st_uid);
    else
        return 1;
    return 0;
}

int readable_secret(buffer *out, const char *path, const char *shown, size_t most,
                    readable_problem *problem)
{
    struct stat file;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return failed(problem, shown);
    int done = fstat(fd, &file) != 0
                   ? failed(problem, shown)
                   : is_secret(&file, shown, problem) && read_all(fd, out, most, shown, problem);
    (void)close(fd);
    return done;
}

static int read_open(int fd, buffer *out, const char *path, size_t most, unsigned *mode,
                     readable_problem *problem)
{
    struct stat file;
    if (fstat(fd, &file) != 0)
        return failed(problem, path);
    *mode = S_ISREG(file.st_mode) ? file.st_mode & PERMISSIONS : 0;
    if (*mode && !readable_by_others(*mode, file.st_uid == 0))
        *mode = S_IRUSR;
    return is_config(&file, path, problem) && read_all(fd, out, most, path, problem);
}

int readable_config(buffer *out, const char *path, size_t most, unsigned *mode,
                    readable_problem *problem)
{
    if (strcmp(path, "-") == 0) {
        *mode = 0;
        return read_all(STDIN_FILENO, out, most, path, problem);
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return failed(problem, path);
    int done = read_open(fd, out, path, most, mode, problem);
    (void)close(fd);
    return done;
}

int readable_document(buffer *out, const char *path, size_t most, readable_problem *problem)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return failed(problem, path);
    int done = read_all(fd, out, most, path, problem);
    (void)close(fd);
    return done;
}
