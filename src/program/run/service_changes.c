/* What a reload changes, in the log. */
#include "program/run/service_internal.h"
#include "program/support/memory.h"

#include <string.h>

static int path_width(const changes *all)
{
    size_t width = 0;
    for (size_t i = 0; i < all->count; i++)
        width = strlen(all->items[i].path) > width ? strlen(all->items[i].path) : width;
    return (int)width;
}

void service_say_changes(const service *s, const changes *all)
{
    int width = path_width(all);
    for (size_t i = 0; i < all->count; i++) {
        const change *one = &all->items[i];
        buffer text = {0};
        buffer_printf(&text, "  %-*s  %s", width, one->path, one->text);
        log_write(s->log, &(log_entry){.level = LOG_INFO,
                                       .event = "changed",
                                       .msg = one->text,
                                       .text = text.data,
                                       .fields = {{"path", one->path, 0}}});
        buffer_free(&text);
    }
}

void service_say_reloaded(const service *s, const changes *all)
{
    size_t changed = changes_count(all, CHANGE_VALUE), added = changes_count(all, CHANGE_ADDED),
           removed = changes_count(all, CHANGE_REMOVED);
    buffer text = {0};
    buffer_printf(&text, "done: %zu changed, %zu added, %zu removed", changed, added, removed);
    log_write(s->log, &(log_entry){.level = LOG_INFO,
                                   .event = "reload",
                                   .subject = "reload",
                                   .msg = text.data,
                                   .fields = {{"changed", NULL, (int64_t)changed},
                                              {"added", NULL, (int64_t)added},
                                              {"removed", NULL, (int64_t)removed}}});
    buffer_free(&text);
}
