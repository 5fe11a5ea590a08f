/* See notify.h. One datagram to the socket that NOTIFY_SOCKET names; a name that begins with @
 * is in the abstract name space. */
#include "program/run/notify.h"

#include "program/support/show.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MESSAGE_MAX = 1024, US_PER_MS = 1000, NS_PER_US = 1000 };

static int socket_address(struct sockaddr_un *out, socklen_t *size)
{
    const char *path = getenv("NOTIFY_SOCKET");
    size_t len = path ? strlen(path) : 0;
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (!len || len >= sizeof out->sun_path || (*path != '/' && *path != '@'))
        return 0;
    memcpy(out->sun_path, path, len);
    if (*path == '@')
        out->sun_path[0] = 0;
    *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    return 1;
}

static void send_datagram(const char *text, size_t len)
{
    struct sockaddr_un address;
    socklen_t size;
    if (!socket_address(&address, &size))
        return;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, text, len, MSG_NOSIGNAL, (const struct sockaddr *)&address, size);
    (void)close(fd);
}

void notify_send(const char *format, ...)
{
    char text[MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (len > 0)
        send_datagram(text, (size_t)len < sizeof text ? (size_t)len : sizeof text - 1);
}

void notify_reloading(void)
{
    notify_send("RELOADING=1\nMONOTONIC_USEC=%lld", (long long)(steady_clock_ns() / NS_PER_US));
}

int64_t notify_watchdog_ms(void)
{
    const char *us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (!us || (pid && strtoll(pid, NULL, 10) != (long long)getpid()))
        return 0;
    long long period = strtoll(us, NULL, 10);
    return period > 0 ? period / US_PER_MS / 2 : 0;
}
