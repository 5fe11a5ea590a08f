/* A sentence that does not fit whole is left out, and so are all that follow. */
#include "transport/common/losses.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SENTENCE_ROOM = 640 };

losses losses_begin(char *out, size_t room)
{
    if (room)
        *out = 0;
    return (losses){.at = out, .room = room};
}

void losses_add(losses *out, const char *format, ...)
{
    char line[SENTENCE_ROOM];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    size_t need = (size_t)len + (out->len ? 1 : 0);
    if (len < 0 || (size_t)len >= sizeof line || out->len + need >= out->room)
        out->full = 1;
    if (out->full)
        return;
    (void)snprintf(out->at + out->len, out->room - out->len, "%s%s", out->len ? "\n" : "", line);
    out->len += need;
}

semel_status losses_refuse(const char *sentences, int allowed, semel_error *err)
{
    if (!sentences[0] || allowed)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_EINVAL, "messages could get lost: %.*s (loss=warn accepts that)",
                      (int)strcspn(sentences, "\n"), sentences);
}
