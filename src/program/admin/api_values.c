/* The values of a configuration, as `semel config dump` shows them, as a JSON list. */
#include "program/admin/api_internal.h"
#include "program/config/dump.h"

#include <string.h>

static const char *origin_word(const dumped_value *value)
{
    if (value->is_secret)
        return "secret";
    if (strcmp(value->origin, "default") == 0)
        return "default";
    if (strncmp(value->origin, "--", 2) == 0)
        return "flag";
    return strchr(value->origin, ':') ? "file" : "env";
}

static void add_value(void *context, const dumped_value *value)
{
    buffer *to = context;
    put_open(to, NULL, '{');
    put_text(to, "path", value->path);
    put_text(to, "value", value->is_secret ? NULL : value->value);
    put_text(to, "origin", origin_word(value));
    put_text(to, "place",
             value->written                          ? value->written
             : strcmp(value->origin, "default") == 0 ? NULL
                                                     : value->origin);
    put_close(to, '}');
}

void api_put_values(buffer *to, const config *all)
{
    buffer_text(to, "[");
    dump_values(all, add_value, to);
    buffer_text(to, "]");
}
