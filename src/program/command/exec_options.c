/* See exec_options.h. */
#include "program/command/exec_options.h"

#include "program/cli.h"
#include "program/config/secret.h"
#include "program/handler/environment.h"
#include "program/support/arguments.h"
#include "program/support/typed_key.h"

#include <string.h>

const char exec_help[] =
    "usage: semel exec --key KEY [OPTION...] -- COMMAND [ARGUMENT...]\n"
    "Run a command unless it has already succeeded under this key: flock(1) for effects.\n"
    "  --inbox NAME          scope of the key; default: exec\n"
    "  --store URL, -c FILE  default: $SEMEL_STORE, otherwise a SQLite file in "
    "~/.local/state/semel\n"
    "  --retention D         how long to remember the key; default: forever\n"
    "  --wait D              how long to wait for a running copy; default: 5s, then exit 75\n"
    "  --replay              store the output, up to 1 MiB; a duplicate prints it again\n"
    "  --fail-on-duplicate   exit 5, not 0, for a duplicate\n"
    "Exit status: the command's; 75: busy; 125: semel failed before running it; 126, 127: it could "
    "not be run.\n";

#define WRONG(...) (cli_usage("exec", __VA_ARGS__), EXEC_FAILED)

static int check(exec_options *o)
{
    if (!o->typed_key)
        return WRONG("--key is missing");
    if (!o->command || !*o->command)
        return WRONG("the command is missing; it stands behind --");
    if (o->store && o->config)
        return WRONG("--store and -c exclude each other");
    if (o->store && secret_in_url(o->store, strlen(o->store)).len)
        return WRONG("--store: other users on this host can read a password in an argument; use "
                     "${NAME} or ${file:PATH} instead");
    if (!o->retention_ms)
        return WRONG("--retention: a key that is not remembered protects nothing");
    const char *wrong = typed_key(&o->key, &o->memory, o->typed_key);
    if (wrong)
        return WRONG("--key: %s", wrong);
    o->shown_key = environment_key(&o->memory, o->key);
    return 0;
}

static int read_options(exec_options *out, int argc, char **argv)
{
    static argument_list rest;
    const argument_option options[] = {
        {"--key", 0, ARGUMENT_TEXT, &out->typed_key},
        {"--inbox", 0, ARGUMENT_TEXT, &out->inbox},
        {"--store", 0, ARGUMENT_TEXT, &out->store},
        {"--config", 'c', ARGUMENT_TEXT, &out->config},
        {"--retention", 0, ARGUMENT_PERIOD, &out->retention_ms},
        {"--wait", 0, ARGUMENT_PERIOD, &out->wait_ms},
        {"--lease", 0, ARGUMENT_PERIOD, &out->lease_ms},
        {"--replay", 0, ARGUMENT_FLAG, &out->replay},
        {"--fail-on-duplicate", 0, ARGUMENT_FLAG, &out->fail_on_duplicate},
        {"--verbose", 'v', ARGUMENT_FLAG, &out->verbose},
        {0}};
    if (arguments_read("exec", argc, argv, options, &rest))
        return EXEC_FAILED;
    if (rest.count)
        return WRONG("\"%s\" is no option; the command stands behind --", rest.items[0]);
    return 0;
}

int exec_options_read(exec_options *out, int argc, char **argv)
{
    *out = (exec_options){.inbox = "exec",
                          .retention_ms = SEMEL_RETENTION_FOREVER,
                          .wait_ms = EXEC_WAIT_DEFAULT_MS,
                          .lease_ms = EXEC_LEASE_MS};
    int end = 1;
    while (end < argc && strcmp(argv[end], "--") != 0)
        end++;
    if (end < argc)
        out->command = (const char *const *)argv + end + 1;
    int wrong = read_options(out, end, argv);
    if (wrong)
        return wrong;
    return check(out);
}
