/* `semel manual commands|options`: what dev/dist puts into the manual pages semel(1) and
 * semel.yaml(5). Not a command that people type. */
#include "program/cli.h"
#include "program/command/help_text.h"
#include "program/config/reference.h"
#include "program/support/roff.h"

#include <stdio.h>
#include <string.h>

static void add_commands(buffer *out)
{
    size_t count;
    const command *all = cli_commands(&count);
    for (size_t i = 0; i < count; i++)
        if (all[i].summary) {
            roff_heading(out, all[i].name);
            help_manual(out, &all[i]);
        }
}

int cmd_manual(int argc, char **argv)
{
    buffer text = {0};
    if (argc == 2 && strcmp(argv[1], "commands") == 0)
        add_commands(&text);
    else if (argc == 2 && strcmp(argv[1], "options") == 0)
        reference_manual(&text);
    else
        return cli_usage("manual", "expected commands or options");
    (void)fputs(text.data, stdout);
    buffer_free(&text);
    return CLI_OK;
}
