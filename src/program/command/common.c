/* See common.h. */
#include "program/command/common.h"

#include "program/cli.h"

config_arguments common_arguments(const common_options *options)
{
    return (config_arguments){.path = options->path,
                              .store_url = options->store_url,
                              .sets = options->sets.items,
                              .set_count = options->sets.count};
}

int common_load_quietly(config **out, const common_options *options, diagnostics *found)
{
    config_arguments from = common_arguments(options);
    return locate_load(out, &from, found) ? CLI_OK : CLI_CONFIG;
}

int common_load(config **out, const common_options *options)
{
    config_arguments from = common_arguments(options);
    return locate_config(out, &from, (diagnostic_form){0}) ? CLI_OK : CLI_CONFIG;
}

int common_failed(const char *caller, const semel_error *why)
{
    (void)cli_failed(caller, "%s", why->text);
    return why->retryable ? CLI_TEMPORARY : CLI_FAILED;
}

int common_open_store(semel_store **out, const char *caller, const config *all)
{
    semel_error why = {0};
    semel_store *store = NULL;
    semel_status status = semel_store_open(&store, all->store_url, &all->store, &why);
    if (!status)
        status = semel_store_migrate(store, &why);
    if (!status) {
        *out = store;
        return CLI_OK;
    }
    semel_store_close(store);
    return common_failed(caller, &why);
}

int common_open_queue(semel_transport **out, const char *caller, const queue_config *queue,
                      semel_store *store)
{
    semel_error why = {0};
    semel_status status = queue->url
                              ? semel_transport_open(out, queue->url, NULL, &why)
                              : semel_queue_open(out, store, queue->name, &queue->queue, &why);
    return status ? common_failed(caller, &why) : CLI_OK;
}
