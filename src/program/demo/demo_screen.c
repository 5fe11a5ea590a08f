#include "program/demo/demo_screen.h"

#include "program/support/colour.h"

#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS_DEFAULT = 80, COLUMNS_MIN = 60 };

static int columns_of(int fd)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : COLUMNS_DEFAULT;
}

screen screen_look(int fd)
{
    const char *kind = getenv("TERM");
    int able = kind && strcmp(kind, "dumb") != 0;
    int terminal = isatty(fd);
    screen found = {.columns = columns_of(fd)};
    found.live =
        able && isatty(STDOUT_FILENO) && isatty(STDERR_FILENO) && found.columns >= COLUMNS_MIN;
    found.colour = colour_on(fd);
    found.utf8 = terminal && setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    return found;
}

const char *screen_ink(const screen *on, ink colour)
{
    static const char *const codes[] = {[INK_PLAIN] = "\033[0m",
                                        [INK_GOOD] = "\033[32m",
                                        [INK_BAD] = "\033[1;31m",
                                        [INK_DIM] = "\033[2m",
                                        [INK_BOLD] = "\033[1m"};
    return on->colour ? codes[colour] : "";
}

char *text_number(char *out, size_t size, int64_t number)
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%lld", (long long)number);
    int sign = number < 0;
    size_t used = 0;
    for (int i = 0; i < len && used + 1 < size; i++) {
        if (i > sign && (len - i) % 3 == 0 && used + 2 < size)
            out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = 0;
    return out;
}

char *text_money(char *out, size_t size, int64_t cents, const screen *on)
{
    char euros[24]; /* enough for 64 bits and their commas */
    (void)snprintf(out, size, "%s%s.%02d", on->utf8 ? "€" : "EUR ",
                   text_number(euros, sizeof euros, cents / 100), (int)(cents % 100));
    return out;
}

int text_width(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}
