/* See subcommand.h. */
#include "program/command/subcommand.h"

#include "program/cli.h"
#include "program/support/memory.h"
#include "program/support/nearest.h"

#include <string.h>

/* "expected ls, show, forget or purge". */
static int missing(const char *caller, const subcommand *all)
{
    buffer names = {0};
    for (const subcommand *s = all; s->name; s++)
        buffer_printf(&names, "%s%s", s == all ? "" : s[1].name ? ", " : " or ", s->name);
    int status = cli_usage(caller, "expected %s", names.data);
    buffer_free(&names);
    return status;
}

int subcommand_run(const char *caller, const subcommand *all, int argc, char **argv)
{
    nearest meant = {.typed = argc > 1 ? argv[1] : ""};
    if (argc < 2 || argv[1][0] == '-')
        return missing(caller, all);
    for (const subcommand *s = all; s->name; s++) {
        if (strcmp(s->name, argv[1]) == 0)
            return s->run(argc - 1, argv + 1);
        nearest_offer(&meant, s->name);
    }
    if (meant.name)
        return cli_usage(caller, "there is no command \"%s\"; did you mean \"%s\"?", argv[1],
                         meant.name);
    return missing(caller, all);
}
