/* See colour.h. */
#include "program/support/colour.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum choice { CHOICE_AUTO, CHOICE_ALWAYS, CHOICE_NEVER } choice;

static choice chosen = CHOICE_AUTO; /* of this process */

int colour_choose(const char *word)
{
    static const char *const words[] = {
        [CHOICE_AUTO] = "auto", [CHOICE_ALWAYS] = "always", [CHOICE_NEVER] = "never"};
    for (choice i = CHOICE_AUTO; i <= CHOICE_NEVER; i++)
        if (strcmp(word, words[i]) == 0) {
            chosen = i;
            return 1;
        }
    return 0;
}

static int is_able(int fd)
{
    const char *kind = getenv("TERM"), *refused = getenv("NO_COLOR");
    return isatty(fd) && kind && *kind && strcmp(kind, "dumb") != 0 && !(refused && *refused);
}

int colour_on(int fd)
{
    return chosen == CHOICE_ALWAYS || (chosen == CHOICE_AUTO && is_able(fd));
}

const char *colour_begin(int on, colour_kind of)
{
    static const char *const codes[] = {[COLOUR_ERROR] = "\033[31m",
                                        [COLOUR_WARNING] = "\033[33m",
                                        [COLOUR_GOOD] = "\033[32m",
                                        [COLOUR_NAME] = "\033[1m",
                                        [COLOUR_QUIET] = "\033[2m"};
    return on ? codes[of] : "";
}

const char *colour_end(int on)
{
    return on ? "\033[0m" : "";
}

void colour_text(buffer *to, int on, colour_kind of, const char *text)
{
    buffer_text(to, colour_begin(on, of));
    buffer_text(to, text);
    buffer_text(to, colour_end(on));
}
