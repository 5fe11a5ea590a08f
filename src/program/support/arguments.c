/* See arguments.h. */
#include "program/support/arguments.h"

#include "program/cli.h"
#include "program/support/colour.h"
#include "program/support/nearest.h"
#include "program/support/units.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- values ----------------------------------------------------------------------------------- */

/* A duration too long for 64 bits is none; UINT64_MAX is `forever`. */
static int read_period(const char *caller, const argument_option *option, const char *text)
{
    uint64_t *out = option->to, ms = 0;
    units_meant meant = {""};
    if (strcmp(text, "forever") == 0) {
        *out = UINT64_MAX;
        return 0;
    }
    if (units_duration(&ms, text, "s", &meant) == UNITS_OK && ms < UINT64_MAX) {
        *out = ms;
        return 0;
    }
    if (*meant.text)
        return cli_usage(caller, "%s: \"%s\" is not a duration; did you mean %s?", option->name,
                         text, meant.text);
    return cli_usage(caller, "%s: \"%s\" is not a duration; units: %s", option->name, text,
                     UNITS_DURATION);
}

static int read_count(uint32_t *out, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long number = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    if (!number || errno || *end || number > UINT32_MAX)
        return 0;
    *out = (uint32_t)number;
    return 1;
}

static int list_add(argument_list *list, const char *text)
{
    if (list->count == ARGUMENTS_MAX - 1)
        return 0;
    list->items[list->count++] = text;
    return 1;
}

static int take_value(const char *caller, const argument_option *option, const char *value)
{
    switch (option->kind) {
    case ARGUMENT_TEXT:
        *(const char **)option->to = value;
        return 0;
    case ARGUMENT_COUNT:
        if (read_count(option->to, value))
            return 0;
        return cli_usage(caller, "%s takes a number from 1 on, not \"%s\"", option->name, value);
    case ARGUMENT_PERIOD:
        return read_period(caller, option, value);
    case ARGUMENT_LIST:
        if (list_add(option->to, value))
            return 0;
        return cli_usage(caller, "%s is given too often", option->name);
    case ARGUMENT_COLOUR:
        if (colour_choose(value))
            return 0;
        return cli_usage(caller, "%s is auto, always or never, not \"%s\"", option->name, value);
    case ARGUMENT_FLAG:
        break;
    }
    return cli_usage(caller, "%s takes no value", option->name);
}

/* --- options ---------------------------------------------------------------------------------- */

/* Of every command. */
static const argument_option everywhere[] = {{"--color", 0, ARGUMENT_COLOUR, NULL}, {0}};

/* By --name, by --name=VALUE, or by -n. */
static const argument_option *find_in(const argument_option *options, const char *text)
{
    size_t len = strcspn(text, "=");
    for (const argument_option *o = options; o->name; o++) {
        if (strlen(o->name) == len && memcmp(o->name, text, len) == 0)
            return o;
        if (o->letter && text[1] == o->letter && !text[2])
            return o;
    }
    return NULL;
}

static const argument_option *find_option(const argument_option *options, const char *text)
{
    const argument_option *found = find_in(everywhere, text);
    return found ? found : find_in(options, text);
}

static int unknown_option(const char *caller, const argument_option *options, const char *text)
{
    char name[64];
    size_t len = strcspn(text, "=");
    len = len < sizeof name ? len : sizeof name - 1;
    memcpy(name, text, len);
    name[len] = 0;
    nearest meant = {.typed = name};
    for (const argument_option *o = options; name[1] == '-' && o->name; o++)
        nearest_offer(&meant, o->name);
    for (const argument_option *o = everywhere; name[1] == '-' && o->name; o++)
        nearest_offer(&meant, o->name);
    if (meant.name)
        return cli_usage(caller, "unknown option %s; did you mean %s?", name, meant.name);
    return cli_usage(caller, "unknown option %s", name);
}

/* How many words were used goes to *used. */
static int read_option(const char *caller, int left, char **at, const argument_option *options,
                       int *used)
{
    const argument_option *option = find_option(options, *at);
    const char *value = at[0][1] == '-' ? strchr(*at, '=') : NULL;
    *used = 1;
    if (!option)
        return unknown_option(caller, options, *at);
    if (option->kind == ARGUMENT_FLAG && !value) {
        *(int *)option->to = 1;
        return 0;
    }
    if (value)
        return take_value(caller, option, value + 1);
    if (left < 2)
        return cli_usage(caller, "%s needs a value", option->name);
    *used = 2;
    return take_value(caller, option, at[1]);
}

int arguments_read(const char *caller, int argc, char **argv, const argument_option *options,
                   argument_list *rest)
{
    int only_arguments = 0, status = 0;
    for (int i = 1, used; !status && i < argc; i += used) {
        used = 1;
        if (!only_arguments && strcmp(argv[i], "--") == 0)
            only_arguments = 1;
        else if (!only_arguments && argv[i][0] == '-' && argv[i][1])
            status = read_option(caller, argc - i, argv + i, options, &used);
        else if (!list_add(rest, argv[i]))
            status = cli_usage(caller, "too many arguments");
    }
    return status;
}
