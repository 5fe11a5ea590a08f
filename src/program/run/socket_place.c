/* See socket_place.h. The directory is the guard: it belongs to the user and has the mode 0700 (one
 * that systemd made may be wider), and is no symbolic link. The socket itself has the mode 0600.
 *
 * A socket is bound under a name of its own beginning with a dot, and renamed when it listens: so
 * one that refuses connections under its final name belongs to a process that was killed, and
 * whichever process starts next removes it. */
#include "program/run/socket_place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIRECTORY_MODE = 0700, SOCKET_MODE = 0600, BACKLOG = 64, STALE_NAMES_MAX = 64 };

static const char suffix[] = ".sock";

size_t socket_directories(const char *out[SOCKET_DIRECTORIES_MAX], region *memory)
{
    size_t count = 0;
    const char *xdg = getenv("XDG_RUNTIME_DIR"), *unit = getenv("RUNTIME_DIRECTORY");
    if (xdg && *xdg == '/')
        out[count++] = region_printf(memory, "%s/semel", xdg);
    if (unit && *unit == '/' && !strchr(unit, ':'))
        out[count++] = unit;
    out[count++] = "/run/semel";
    out[count++] = region_printf(memory, "/tmp/semel-%u", (unsigned)geteuid());
    out[count] = NULL;
    return count;
}

/* --- directories ------------------------------------------------------------------------------ */

/* Made by this user or for this user, and closed to others. */
static int is_private(const char *directory)
{
    struct stat is;
    return lstat(directory, &is) == 0 && S_ISDIR(is.st_mode) && is.st_uid == geteuid() &&
           !(is.st_mode & (S_IWGRP | S_IWOTH));
}

static int prepare_directory(const char *directory)
{
    return (mkdir(directory, DIRECTORY_MODE) == 0 || errno == EEXIST) && is_private(directory);
}

/* --- what was left behind --------------------------------------------------------------------- */

static int address_of(struct sockaddr_un *out, const char *path)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof out->sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(out->sun_path, path, strlen(path) + 1);
    return 0;
}

/* A connection to a local socket is made at once, or its queue is full: then EAGAIN. */
int socket_connect(const char *path)
{
    struct sockaddr_un address;
    if (address_of(&address, path))
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    int error = errno;
    (void)close(fd);
    errno = error;
    return -1;
}

static void remove_if_stale(const char *directory, const char *name)
{
    char path[SOCKET_PATH_SIZE];
    size_t len = strlen(name);
    if (len < sizeof suffix || *name == '.' || strcmp(name + len - sizeof suffix + 1, suffix) != 0)
        return;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", directory, name) >= sizeof path)
        return;
    int fd = socket_connect(path);
    if (fd >= 0)
        (void)close(fd);
    else if (errno == ECONNREFUSED)
        (void)unlink(path);
}

static void remove_stale(const char *directory)
{
    DIR *open = opendir(directory);
    struct dirent *entry;
    for (int i = 0; open && i < STALE_NAMES_MAX && (entry = readdir(open)); i++)
        remove_if_stale(directory, entry->d_name);
    if (open)
        (void)closedir(open);
}

/* --- listening -------------------------------------------------------------------------------- */

static int bind_and_listen(int fd, const char *hidden, const char *path)
{
    struct sockaddr_un address;
    if (address_of(&address, hidden))
        return -1;
    (void)unlink(hidden);
    if (bind(fd, (const struct sockaddr *)&address, sizeof address) != 0)
        return -1;
    if (chmod(hidden, SOCKET_MODE) == 0 && listen(fd, BACKLOG) == 0 && rename(hidden, path) == 0)
        return 0;
    int error = errno;
    (void)unlink(hidden);
    errno = error;
    return -1;
}

static int listen_in(char path[SOCKET_PATH_SIZE], const char *directory, const char *name)
{
    char hidden[SOCKET_PATH_SIZE];
    int len = snprintf(path, SOCKET_PATH_SIZE, "%s/%s%s", directory, name, suffix);
    int hidden_len = snprintf(hidden, sizeof hidden, "%s/.%s%s", directory, name, suffix);
    if (len >= SOCKET_PATH_SIZE || hidden_len >= SOCKET_PATH_SIZE) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind_and_listen(fd, hidden, path) == 0)
        return fd;
    int error = errno;
    (void)close(fd);
    errno = error;
    return -1;
}

int socket_listen(char path[SOCKET_PATH_SIZE], const char *name, buffer *why)
{
    region memory = {0};
    const char *directories[SOCKET_DIRECTORIES_MAX];
    size_t count = socket_directories(directories, &memory);
    int fd = -1;
    for (size_t i = 0; fd < 0 && i < count; i++) {
        errno = EACCES;
        if (prepare_directory(directories[i])) {
            remove_stale(directories[i]);
            fd = listen_in(path, directories[i], name);
        }
        if (fd < 0)
            buffer_printf(why, "%s%s: %s", why->len ? "; " : "", directories[i], strerror(errno));
    }
    region_free(&memory);
    return fd;
}
