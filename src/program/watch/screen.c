/* See screen.h. The program keeps the terminal's own signals (Ctrl-C, Ctrl-Z) and receives them by
 * a descriptor, so that there is no moment in which one of them leaves the terminal raw. A frame is
 * one write: it goes to the top left, ends each line with "clear to its end" and clears what is
 * below. */
#include "program/watch/screen.h"

#include "program/support/encoding.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

enum { ROWS_DEFAULT = 24, COLUMNS_DEFAULT = 80, SIGNAL_STATUS = 128 };

static struct {
    int is_open;
    int signal_fd;
    struct termios before;
    sigset_t signals;
} screen = {.signal_fd = -1};

int screen_is_possible(void)
{
    const char *term = getenv("TERM");
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && *term &&
           strcmp(term, "dumb") != 0;
}

static void send_text(const char *text, size_t len)
{
    while (len) {
        ssize_t sent = write(STDOUT_FILENO, text, len);
        if (sent < 0 && errno != EINTR && errno != EAGAIN)
            return;
        text += sent > 0 ? sent : 0;
        len -= sent > 0 ? (size_t)sent : 0;
    }
}

/* --- begin and end ---------------------------------------------------------------------------- */

static void enter(void)
{
    static const char begin[] = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J";
    struct termios raw = screen.before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    send_text(begin, sizeof begin - 1);
    screen.is_open = 1;
}

void screen_close(void)
{
    static const char end[] = "\x1b[?25h\x1b[?1049l";
    if (!screen.is_open)
        return;
    screen.is_open = 0;
    send_text(end, sizeof end - 1);
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &screen.before);
}

int screen_open(void)
{
    static const int wanted[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};
    sigemptyset(&screen.signals);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        sigaddset(&screen.signals, wanted[i]);
    if (tcgetattr(STDIN_FILENO, &screen.before) != 0 ||
        pthread_sigmask(SIG_BLOCK, &screen.signals, NULL) != 0)
        return -1;
    screen.signal_fd = signalfd(-1, &screen.signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (screen.signal_fd < 0 || atexit(screen_close) != 0)
        return -1;
    enter();
    return 0;
}

/* Ctrl-Z: the terminal is given back, and taken again when the program goes on. */
static void stop_for_a_while(void)
{
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    screen_close();
    (void)raise(SIGTSTP);
    (void)pthread_sigmask(SIG_UNBLOCK, &stop, NULL); /* it stops here */
    (void)pthread_sigmask(SIG_BLOCK, &stop, NULL);
    enter();
}

/* --- drawing ---------------------------------------------------------------------------------- */

void screen_size(size_t *rows, size_t *columns)
{
    struct winsize size = {0};
    int is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    *rows = is_known && size.ws_row ? size.ws_row : ROWS_DEFAULT;
    *columns = is_known && size.ws_col ? size.ws_col : COLUMNS_DEFAULT;
}

static void add_line(buffer *to, const char *line, size_t len, size_t columns)
{
    buffer_add(to, line, encoding_bytes(line, len, columns));
    buffer_text(to, "\x1b[K");
}

void screen_draw(const char *text, const char *bottom)
{
    buffer frame = {0};
    size_t rows, columns;
    screen_size(&rows, &columns);
    buffer_text(&frame, "\x1b[H");
    for (size_t row = 1; row < rows && *text; row++) {
        size_t len = strcspn(text, "\n");
        add_line(&frame, text, len, columns);
        buffer_text(&frame, "\r\n");
        text += len + (text[len] != 0);
    }
    buffer_text(&frame, "\x1b[J");
    buffer_printf(&frame, "\x1b[%zu;1H", rows);
    add_line(&frame, bottom, strlen(bottom), columns);
    send_text(frame.data, frame.len);
    buffer_free(&frame);
}

/* --- events ----------------------------------------------------------------------------------- */

static screen_event take_signal(int *status)
{
    struct signalfd_siginfo info;
    if (read(screen.signal_fd, &info, sizeof info) != (ssize_t)sizeof info)
        return SCREEN_NOTHING;
    if (info.ssi_signo == SIGTSTP)
        stop_for_a_while();
    if (info.ssi_signo == SIGTSTP || info.ssi_signo == SIGCONT || info.ssi_signo == SIGWINCH)
        return SCREEN_RESIZED;
    *status = SIGNAL_STATUS + (int)info.ssi_signo;
    return SCREEN_ENDED;
}

static screen_event take_key(int *key)
{
    unsigned char byte;
    ssize_t len = read(STDIN_FILENO, &byte, 1);
    if (len == 1) {
        *key = byte;
        return SCREEN_KEY;
    }
    *key = SIGNAL_STATUS + SIGHUP;
    return len == 0 || (errno != EINTR && errno != EAGAIN) ? SCREEN_ENDED : SCREEN_NOTHING;
}

screen_event screen_wait(int *key, int wake_fd)
{
    uint64_t count;
    struct pollfd fds[] = {{.fd = screen.signal_fd, .events = POLLIN},
                           {.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = wake_fd, .events = POLLIN}};
    if (poll(fds, 3, -1) <= 0)
        return SCREEN_NOTHING;
    if (fds[0].revents)
        return take_signal(key);
    if (fds[1].revents)
        return take_key(key);
    (void)!read(wake_fd, &count, sizeof count);
    return SCREEN_WOKEN;
}
