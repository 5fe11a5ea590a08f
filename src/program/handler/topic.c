/* See topic.h. */
#include "program/handler/topic.h"

#include "program/config/complete.h"
#include "program/support/binary.h"

#include <string.h>

/* %2F and the like, in place. What is no such code stays. */
static const char *decode_percent(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++, to++) {
        int high = *from == '%' ? binary_hex_digit(from[1]) : -1;
        int low = high >= 0 ? binary_hex_digit(from[2]) : -1;
        *to = low >= 0 ? (char)(high * 16 + low) : *from;
        from += low >= 0 ? 2 : 0;
    }
    *to = 0;
    return text;
}

/* The value of a parameter of a URL; NULL: it has none, or an empty one. */
static const char *url_parameter(region *memory, const char *url, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = strpbrk(url, "?#"); at && *at != '#'; at = strpbrk(at + 1, "&#")) {
        if (strncmp(at + 1, name, len) != 0 || at[len + 1] != '=')
            continue;
        const char *value = at + len + 2;
        size_t size = strcspn(value, "&#");
        return size ? decode_percent(region_copy(memory, value, size)) : NULL;
    }
    return NULL;
}

const char *topic_of_queue(region *memory, const config *all, const char *name)
{
    const queue_config *queue = config_queue(all, name);
    if (!queue || !queue->url)
        return name;
    if (url_parameter(memory, queue->url, "exchange"))
        return NULL;
    const char *found = url_parameter(memory, queue->url, "queue");
    return found ? found : name;
}
