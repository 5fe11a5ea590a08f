/* See roff.h. A line that begins with a dot or an apostrophe would be a request: what does nothing
 * (\&) comes before it. A hyphen is written as \-, so that what people copy is a minus. */
#include "program/support/roff.h"

#include <string.h>

void roff_text(buffer *out, const char *text, size_t len)
{
    if (len && (*text == '.' || *text == '\''))
        buffer_text(out, "\\&");
    for (size_t i = 0; i < len; i++) {
        const char *special = text[i] == '\\'   ? "\\e"
                              : text[i] == '-'  ? "\\-"
                              : text[i] == '\'' ? "\\(aq"
                              : text[i] == '`'  ? "\\(ga"
                              : text[i] == '^'  ? "\\(ha"
                              : text[i] == '~'  ? "\\(ti"
                                                : NULL;
        buffer_add(out, special ? special : text + i, special ? strlen(special) : 1);
    }
}

void roff_line(buffer *out, const char *text)
{
    roff_text(out, text, strlen(text));
    buffer_text(out, "\n");
}

void roff_heading(buffer *out, const char *title)
{
    buffer_text(out, ".SS ");
    roff_line(out, title);
}

void roff_item(buffer *out, const char *tag)
{
    buffer_text(out, ".TP\n.B ");
    roff_line(out, tag);
}

void roff_example(buffer *out, const char *text)
{
    buffer_text(out, ".RS\n.EX\n");
    roff_line(out, text);
    buffer_text(out, ".EE\n.RE\n");
}
