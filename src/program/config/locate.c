/* See locate.h. */
#include "program/config/locate.h"

#include "program/cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NEAR_FILE   "semel.yaml"
#define SYSTEM_FILE "/etc/semel/semel.yaml"

const char *locate_path(const config_arguments *from)
{
    const char *named = getenv("SEMEL_CONFIG");
    if (from->path)
        return from->path;
    if (named && *named)
        return named;
    return access(NEAR_FILE, F_OK) != 0 && access(SYSTEM_FILE, F_OK) == 0 ? SYSTEM_FILE : NEAR_FILE;
}

int locate_load(config **out, const config_arguments *from, diagnostics *found)
{
    const load_options options = {.path = locate_path(from),
                                  .sets = from->sets,
                                  .set_count = from->set_count,
                                  .store_url = from->store_url};
    return config_load(out, &options, found);
}

int locate_config(config **out, const config_arguments *from, diagnostic_form form)
{
    diagnostics found = {0};
    int done = locate_load(out, from, &found);
    diagnostic_print(stderr, &found, locate_path(from), form);
    diagnostic_free(&found);
    return done;
}
