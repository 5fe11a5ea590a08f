/* Listening sockets of HTTP servers. libmicrohttpd would open them as well, but cannot say why it
 * did not work.
 *
 * A unix socket is bound with the mode 0600, which is set before it listens. One whose process is
 * gone is replaced: nobody answers there. Processes that start at the same time lock the directory
 * meanwhile, so that none of them takes a socket for stale that another one has just bound. */
#include "program/http/server_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 511, SOCKET_MODE = 0600, HOST_SIZE = 256, PORT_SIZE = 16 };

static const char unix_prefix[] = "unix:";

/* --- messages --------------------------------------------------------------------------------- */

static int close_failed(int fd)
{
    int error = errno;
    if (fd >= 0)
        (void)close(fd);
    errno = error;
    return -1;
}

static int say_failed(const char *listen, semel_error *err)
{
    int error = errno;
    switch (error) {
    case EADDRINUSE:
        (void)semel_fail(err, SEMEL_EUNAVAILABLE,
                         "%s is in use by another process: stop that one or choose another address",
                         listen);
        break;
    case EADDRNOTAVAIL:
        (void)semel_fail(err, SEMEL_EINVAL, "%s is no address of this host", listen);
        break;
    case EACCES:
    case EPERM:
        (void)semel_fail(err, SEMEL_EINVAL, "this user may not listen on %s", listen);
        break;
    default:
        (void)semel_fail(err, SEMEL_EINVAL, "cannot listen on %s: %s", listen, strerror(error));
    }
    return -1;
}

/* --- unix sockets ----------------------------------------------------------------------------- */

static int is_stale(const struct sockaddr_un *address)
{
    struct stat is;
    if (lstat(address->sun_path, &is) != 0 || !S_ISSOCK(is.st_mode))
        return 0;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int refused = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
                  errno == ECONNREFUSED;
    if (fd >= 0)
        (void)close(fd);
    return refused;
}

static int bind_path(int fd, const struct sockaddr_un *address)
{
    const struct sockaddr *to = (const struct sockaddr *)address;
    if (bind(fd, to, sizeof *address) == 0)
        return 0;
    if (errno != EADDRINUSE)
        return -1;
    if (!is_stale(address)) {
        errno = EADDRINUSE;
        return -1;
    }
    return unlink(address->sun_path) == 0 ? bind(fd, to, sizeof *address) : -1;
}

/* The directory is locked as long as this is open. */
static int lock_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *directory = slash ? must_copy(path) : must_copy(".");
    if (slash)
        directory[slash == path ? 1 : slash - path] = '\0';
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(directory);
    if (fd < 0 || flock(fd, LOCK_EX) == 0)
        return fd;
    return close_failed(fd);
}

static int listen_at(const struct sockaddr_un *address)
{
    int lock = lock_directory(address->sun_path);
    if (lock < 0)
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && bind_path(fd, address) != 0)
        fd = close_failed(fd);
    else if (fd >= 0 && (chmod(address->sun_path, SOCKET_MODE) != 0 || listen(fd, BACKLOG) != 0)) {
        fd = close_failed(fd);
        (void)unlink(address->sun_path);
    }
    (void)close_failed(lock);
    return fd;
}

static int listen_unix(char **path, const char *listen, semel_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *name = listen + sizeof unix_prefix - 1;
    if (!*name || strlen(name) >= sizeof address.sun_path) {
        (void)semel_fail(err, SEMEL_EINVAL, "%s: the path of a unix socket has 1 to %zu bytes",
                         listen, sizeof address.sun_path - 1);
        return -1;
    }
    memcpy(address.sun_path, name, strlen(name) + 1);
    int fd = listen_at(&address);
    if (fd < 0)
        return say_failed(listen, err);
    *path = must_copy(name);
    return fd;
}

/* --- TCP -------------------------------------------------------------------------------------- */

/* "127.0.0.1:8480", "[::1]:8480" */
static int split(char host[HOST_SIZE], char port[PORT_SIZE], const char *listen)
{
    const char *colon = strrchr(listen, ':');
    size_t len = colon ? (size_t)(colon - listen) : 0;
    int bracketed = len > 2 && listen[0] == '[' && listen[len - 1] == ']';
    const char *from = bracketed ? listen + 1 : listen;
    len -= bracketed ? 2 : 0;
    if (!len || len >= HOST_SIZE || strlen(colon + 1) >= PORT_SIZE || !colon[1])
        return -1;
    if (strspn(colon + 1, "0123456789") != strlen(colon + 1) || strtol(colon + 1, NULL, 10) > 65535)
        return -1;
    if (!bracketed && memchr(from, ':', len))
        return -1;
    memcpy(host, from, len);
    host[len] = '\0';
    memcpy(port, colon + 1, strlen(colon + 1) + 1);
    return 0;
}

static int listen_on(const struct addrinfo *at)
{
    const int on = 1;
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, at->ai_addr, at->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0)
        return close_failed(fd);
    return fd;
}

static void write_address(char address[HTTP_ADDRESS_SIZE], int fd)
{
    struct sockaddr_storage is;
    socklen_t len = sizeof is;
    char host[INET6_ADDRSTRLEN] = "?", port[PORT_SIZE] = "0";
    if (getsockname(fd, (struct sockaddr *)&is, &len) == 0)
        (void)getnameinfo((struct sockaddr *)&is, len, host, sizeof host, port, sizeof port,
                          NI_NUMERICHOST | NI_NUMERICSERV);
    (void)snprintf(address, HTTP_ADDRESS_SIZE, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

/* `localhost` is the loopback whatever a resolver says. */
static int listen_tcp(const char *listen, semel_error *err)
{
    char host[HOST_SIZE], port[PORT_SIZE];
    struct addrinfo *found = NULL;
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    if (split(host, port, listen) != 0) {
        (void)semel_fail(err, SEMEL_EINVAL,
                         "%s is no address to listen on: write 127.0.0.1:8480, [::1]:8480 or "
                         "unix:PATH",
                         listen);
        return -1;
    }
    int why =
        getaddrinfo(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, port, &wanted, &found);
    if (why) {
        (void)semel_fail(err, why == EAI_AGAIN ? SEMEL_EUNAVAILABLE : SEMEL_EINVAL,
                         "%s: the address of %s cannot be found: %s", listen, host,
                         gai_strerror(why));
        return -1;
    }
    int fd = -1;
    for (const struct addrinfo *at = found; fd < 0 && at; at = at->ai_next)
        fd = listen_on(at);
    int error = errno;
    freeaddrinfo(found);
    errno = error;
    return fd < 0 ? say_failed(listen, err) : fd;
}

int http_listen(char address[HTTP_ADDRESS_SIZE], char **path, const char *listen, semel_error *err)
{
    *path = NULL;
    if (strncmp(listen, unix_prefix, sizeof unix_prefix - 1) == 0) {
        (void)snprintf(address, HTTP_ADDRESS_SIZE, "%s", listen);
        return listen_unix(path, listen, err);
    }
    int fd = listen_tcp(listen, err);
    if (fd >= 0)
        write_address(address, fd);
    return fd;
}
