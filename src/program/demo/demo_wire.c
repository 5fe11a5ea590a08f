#include "program/demo/demo_wire.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int is_whole(const frame *f, ssize_t len)
{
    return len == (ssize_t)sizeof *f && memchr(f->id, 0, sizeof f->id) &&
           memchr(f->body, 0, sizeof f->body);
}

/* Tries first: most of the time there is something, and then one call is enough. */
frame_result wire_receive(frame *out, int fd, int wait_ms)
{
    int64_t deadline = now_us() + (int64_t)wait_ms * 1000;
    for (;;) {
        ssize_t len = recv(fd, out, sizeof *out, MSG_DONTWAIT | MSG_TRUNC);
        if (len >= 0)
            return is_whole(out, len) ? FRAME_GOT : FRAME_END;
        if (errno != EAGAIN && errno != EINTR)
            return FRAME_END;
        int64_t left_ms = wait_ms < 0 ? -1 : (deadline - now_us() + 999) / 1000;
        if (wait_ms >= 0 && left_ms <= 0)
            return FRAME_NONE;
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        (void)poll(&readable, 1, (int)left_ms);
    }
}

int wire_send(int fd, const frame *out)
{
    ssize_t sent;
    do
        sent = send(fd, out, sizeof *out, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof *out ? 0 : -1;
}

int wire_text(char *field, size_t size, const char *text, size_t len)
{
    if (len >= size)
        return -1;
    memcpy(field, text, len);
    field[len] = 0;
    return 0;
}
