#include <semel/error.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(semel_error) == 512, "semel_error is part of the ABI");

const char *semel_status_name(semel_status status)
{
    switch (status) {
    case SEMEL_OK:
        return "SEMEL_OK";
    case SEMEL_EINVAL:
        return "SEMEL_EINVAL";
    case SEMEL_EMISUSE:
        return "SEMEL_EMISUSE";
    case SEMEL_EUNSUPPORTED:
        return "SEMEL_EUNSUPPORTED";
    case SEMEL_ENOTFOUND:
        return "SEMEL_ENOTFOUND";
    case SEMEL_ELIMIT:
        return "SEMEL_ELIMIT";
    case SEMEL_ESCHEMA:
        return "SEMEL_ESCHEMA";
    case SEMEL_EBUSY:
        return "SEMEL_EBUSY";
    case SEMEL_ECONFLICT:
        return "SEMEL_ECONFLICT";
    case SEMEL_EUNAVAILABLE:
        return "SEMEL_EUNAVAILABLE";
    case SEMEL_ENOMEM:
        return "SEMEL_ENOMEM";
    case SEMEL_ESTORE:
        return "SEMEL_ESTORE";
    case SEMEL_ETRANSPORT:
        return "SEMEL_ETRANSPORT";
    case SEMEL_EUNKNOWN:
        return "SEMEL_EUNKNOWN";
    case SEMEL_ELOST:
        return "SEMEL_ELOST";
    case SEMEL_EREJECTED:
        return "SEMEL_EREJECTED";
    case SEMEL_EHANDLER:
        return "SEMEL_EHANDLER";
    case SEMEL_EGIVEUP:
        return "SEMEL_EGIVEUP";
    case SEMEL_ESTOPPED:
        return "SEMEL_ESTOPPED";
    }
    return "SEMEL_E?";
}

static int is_retryable(semel_status status)
{
    return status == SEMEL_EBUSY || status == SEMEL_ECONFLICT || status == SEMEL_EUNAVAILABLE ||
           status == SEMEL_EUNKNOWN || status == SEMEL_ELOST || status == SEMEL_EHANDLER ||
           status == SEMEL_ESTOPPED;
}

/* One line, whatever the arguments held: a key or a server's text may carry newlines and
 * escapes. */
static void keep_to_one_line(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = ' ';
}

semel_status semel_fail(semel_error *err, semel_status status, const char *format, ...)
{
    if (!err)
        return status;
    char text[sizeof err->text] = ""; /* apart, because an argument may point into *err */
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memset(err, 0, sizeof *err);
    err->status = status;
    err->retryable = (uint8_t)is_retryable(status);
    memcpy(err->text, text, strlen(text));
    keep_to_one_line(err->text);
    return status;
}
