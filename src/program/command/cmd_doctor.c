/* `semel doctor`: would `run` work here, and how safely? It changes nothing: neither in the store
 * nor in a broker. What it finds out is in operate/doctor_*.c. */
#include "program/cli.h"
#include "program/config/store_url.h"
#include "program/operate/doctor.h"
#include "program/support/nearest.h"

#include <string.h>

const char doctor_help[] =
    "usage: semel doctor [--check NAME,...] [--strict] [OPTION...]\n\n"
    "Says whether semel run would work here, and how safely: what is wrong, what mends it, and "
    "the\n"
    "grade of each inbox with its queue. It changes nothing.\n\n"
    "  --check NAME,...    only these: config, store, schema, definition, tables, rights,\n"
    "                      durability, isolation, clock, broker, topology, handlers, limits,\n"
    "                      disk\n"
    "  --strict            a warning is an error, too\n"
    "  --rabbitmq-management URL\n"
    "                      of RabbitMQ's management, to see policies that drop messages; write\n"
    "                      the password as ${NAME} or ${file:PATH}\n"
    "  -v, --verbose       show what is right, too\n"
    "  -q, --quiet         do not say the result, only find it\n" COMMON_HELP
    "  --store URL         look at a store without a config\n"
    "  --json              print JSON objects, one per line\n"
    "  --timeout D         of the store; default: 10s\n\n"
    "Exit status: 0 ready to run, 1 not ready, 2 called wrongly, 3 invalid config.\n";

enum { TIMEOUT_DEFAULT_MS = 10000 };

/* --- options ---------------------------------------------------------------------------------- */

static int unknown_check(const char *name)
{
    nearest meant = {.typed = name};
    for (int i = 0; i < DOCTOR_CHECKS; i++)
        nearest_offer(&meant, doctor_check_name((doctor_check)i));
    return meant.name ? cli_usage("doctor", "there is no check \"%s\"; did you mean \"%s\"?", name,
                                  meant.name)
                      : cli_usage("doctor", "there is no check \"%s\"", name);
}

static int read_checks(doctor *d, const argument_list *given)
{
    for (size_t i = 0; i < given->count; i++)
        for (const char *at = given->items[i]; *at;) {
            size_t len = strcspn(at, ",");
            const char *name = region_copy(&d->memory, at, len);
            int check = doctor_check_named(name);
            if (check < 0)
                return unknown_check(name);
            d->wanted |= 1U << check;
            at += len + (at[len] == ',');
        }
    return CLI_OK;
}

/* --- the configuration ------------------------------------------------------------------------ */

static int find_config_errors(doctor *d, diagnostics *found)
{
    const config_arguments from = common_arguments(&d->options.common);
    const char *path = locate_path(&from);
    diagnostic_print(stderr, found, path, (diagnostic_form){.json = d->options.json});
    doctor_find(d, DOCTOR_CONFIG, SEMEL_SEVERITY_ERROR,
                "semel check shows all problems with their places", "%s is not valid", path);
    return CLI_CONFIG;
}

static int load_config(doctor *d)
{
    diagnostics found = {0};
    int status = common_load_quietly(&d->all, &d->options.common, &found);
    if (status)
        status = find_config_errors(d, &found);
    else {
        for (size_t i = 0; i < found.count; i++)
            doctor_find(d, DOCTOR_CONFIG, SEMEL_SEVERITY_WARNING, NULL, "%s: %s",
                        found.items[i]->path, found.items[i]->text);
        doctor_find(d, DOCTOR_CONFIG, SEMEL_SEVERITY_OK, NULL, "%s is valid", d->all->path);
        d->store_url = d->all->store_url;
        d->store_options = d->all->store;
    }
    diagnostic_free(&found);
    return status;
}

static int load(doctor *d)
{
    uint64_t timeout = d->options.timeout_ms ? d->options.timeout_ms : TIMEOUT_DEFAULT_MS;
    int status = CLI_OK;
    d->store_options.size = sizeof d->store_options;
    if (d->options.common.store_url && !d->options.common.path) {
        d->store_url = store_url_read(&d->memory, "--store", d->options.common.store_url);
        status = d->store_url ? CLI_OK : CLI_USAGE;
    } else
        status = load_config(d);
    d->store_options.busy_ms = d->store_options.answer_ms =
        timeout > UINT32_MAX ? UINT32_MAX : (uint32_t)timeout;
    return status;
}

/* --- the command ------------------------------------------------------------------------------ */

static void look_at_all(doctor *d)
{
    doctor_look_at_store(d);
    if (!d->all)
        return;
    doctor_look_at_brokers(d);
    if (d->management)
        doctor_look_at_policies(d);
    doctor_look_at_handlers(d);
    doctor_look_at_limits(d);
    doctor_look_at_grades(d);
}

static void close_all(doctor *d)
{
    for (size_t i = 0; d->transports && i < d->all->queue_count; i++)
        if (d->transports[i])
            semel_transport_close(d->transports[i]);
    semel_store_close(d->store);
    config_free(d->all);
    region_free(&d->memory);
}

int cmd_doctor(int argc, char **argv)
{
    static doctor d;
    static argument_list checks;
    argument_list words = {0};
    const argument_option options[] = {TOOL_OPTIONS(&d.options),
                                       {"--check", 0, ARGUMENT_LIST, &checks},
                                       {"--strict", 0, ARGUMENT_FLAG, &d.strict},
                                       {"--rabbitmq-management", 0, ARGUMENT_TEXT, &d.management},
                                       {0}};
    int status = arguments_read("doctor", argc, argv, options, &words);
    if (!status && words.count)
        status = cli_usage("doctor", "it takes no arguments, and there is \"%s\"", words.items[0]);
    if (!status)
        status = read_checks(&d, &checks);
    if (status)
        return status;
    status = load(&d);
    if (!status)
        look_at_all(&d);
    if (!status || d.found[DOCTOR_CONFIG])
        status = doctor_report(&d);
    close_all(&d);
    return status;
}
