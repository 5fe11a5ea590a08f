/* See topic.h. */
#include "program/handler/topic.h"

#include "program/config/complete.h"
#include "program/support/url_text.h"

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

const char *topic_of_message(const char *fixed, int is_in_store, const semel_message *message)
{
    if (message->topic && (is_in_store || !fixed))
        return message->topic;
    return fixed ? fixed : message->type;
}
