/* See program.h. */
#include "program/handler/program.h"

#include <semel/semel.h>
#include <unistd.h>

enum { OUTPUT_DEFAULT = 64 * 1024 };

static semel_status find_program(program *p, semel_error *err)
{
    if (!p->command->count)
        return semel_fail(err, SEMEL_EINVAL, "the command is empty");
    const char *name = p->command->items[0];
    switch (
        child_find(&p->path, &p->memory, name, p->directory, environment_get(&p->env, "PATH"))) {
    case 0:
        return SEMEL_OK;
    case CHILD_NOT_FOUND:
        return semel_fail(err, SEMEL_EINVAL, "%s does not exist", name);
    default:
        return semel_fail(err, SEMEL_EINVAL, "%s is not executable", name);
    }
}

semel_status program_open(program *out, const config *all, const config_list *command,
                          const config_pairs *env, const limits_config *limits, semel_error *err)
{
    *out = (program){.command = command, .directory = all->directory, .limits = *limits};
    if (!out->limits.output_bytes)
        out->limits.output_bytes = OUTPUT_DEFAULT;
    semel_status status = environment_open(&out->env, environ, env, err);
    if (!status)
        status = find_program(out, err);
    if (status)
        program_close(out);
    return status;
}

void program_close(program *p)
{
    environment_close(&p->env);
    region_free(&p->memory);
    *p = (program){0};
}

child_spec program_child(const program *p)
{
    return (child_spec){.argv = p->command->items,
                        .path = p->path,
                        .directory = p->directory,
                        .limits = &p->limits,
                        .output_max = (size_t)p->limits.output_bytes};
}
