/* `semel schema`: a JSON Schema of the configuration, for editors. */
#include "program/cli.h"
#include "program/config/schema.h"

#include <stdio.h>

const char schema_help[] =
    "usage: semel schema\n\n"
    "Prints a JSON Schema (draft 2020-12) of the config. For the YAML language server, write it to "
    "a\n"
    "file and begin the config with:  # yaml-language-server: $schema=semel.schema.json\n";

int cmd_schema(int argc, char **argv)
{
    buffer text = {0};
    if (argc > 1)
        return cli_usage("schema", "it takes no arguments, and there is \"%s\"", argv[1]);
    schema_write(&text);
    (void)fputs(text.data, stdout);
    buffer_free(&text);
    return CLI_OK;
}
