/* See input.h. */
#include "program/support/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int read_all(buffer *out, int fd, size_t most)
{
    char some[65536];
    for (;;) {
        ssize_t got = read(fd, some, sizeof some);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno;
        if (!got)
            return 0;
        if (out->len + (size_t)got > most)
            return EFBIG;
        buffer_add(out, some, (size_t)got);
    }
}

int input_read(buffer *out, const char *path, size_t most)
{
    int is_standard = strcmp(path, "-") == 0;
    int fd = is_standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    buffer_add(out, "", 0);
    int error = read_all(out, fd, most);
    if (!is_standard)
        (void)close(fd);
    return error;
}
