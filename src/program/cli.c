/* Complaints, as all commands make them. */
#include "program/cli.h"

#include <stdarg.h>
#include <string.h>

FILE *cli_errors(void)
{
    (void)fflush(stdout);
    return stderr;
}

int cli_usage(const char *name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fprintf(cli_errors(), "semel %s: ", name);
    (void)vfprintf(stderr, format, arguments);
    (void)fprintf(stderr, "\ntry: semel help %.*s\n", (int)strcspn(name, " "), name);
    va_end(arguments);
    return CLI_USAGE;
}

int cli_failed(const char *name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fprintf(cli_errors(), "semel %s: ", name);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
    return CLI_FAILED;
}
