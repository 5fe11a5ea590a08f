/* See store_url.h. */
#include "program/config/store_url.h"

#include "program/config/interpolate.h"

#include <string.h>

static void refuse_password(diagnostics *found, const config_source *source)
{
    if (source->name[0] == '-' && secret_in_url(source->text, source->len).len)
        (void)diagnostic_add(found, LEVEL_ERROR, "password", (place){source, 0, 0, 0}, "",
                             SECRET_ARGUMENT);
}

const char *store_url_read(region *memory, const char *name, const char *text)
{
    diagnostics found = {0};
    interpolation in = {.memory = memory, .directory = ".", .found = &found};
    config_source *source = region_alloc(memory, sizeof *source);
    *source = (config_source){.name = name, .text = text, .len = strlen(text), .first_line = 1};
    refuse_password(&found, source);
    const char *url = found.errors ? NULL : interpolate_text(&in, source, text);
    if (!url)
        diagnostic_print(stderr, &found, name, (diagnostic_form){0});
    diagnostic_free(&found);
    return url;
}

const char *store_url_file(region *memory, const char *url)
{
    static const char scheme[] = "sqlite:";
    size_t len = sizeof scheme - 1;
    if (strncmp(url, scheme, len) != 0)
        return NULL;
    const char *path = url + len;
    path += strncmp(path, "//", 2) == 0 ? 2 : 0;
    return region_copy(memory, path, strcspn(path, "?"));
}

static int is_server(const char *url)
{
    static const char *const schemes[] = {"postgres://", "postgresql://", "mariadb://", "mysql://"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strncmp(url, schemes[i], strlen(schemes[i])) == 0)
            return 1;
    return 0;
}

const char *store_url_pooled(region *memory, const char *url, uint32_t connections)
{
    const char *parameters = strchr(url, '?');
    if (!is_server(url))
        return url;
    for (const char *at = parameters; at; at = strchr(at + 1, '&'))
        if (strncmp(at + 1, "pool=", 5) == 0)
            return url;
    return region_printf(memory, "%s%cpool=%u", url, parameters ? '&' : '?', connections);
}
