/* See watching.h. */
#include "program/watch/watching.h"

#include "program/cli.h"
#include "program/operate/names.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *watching_what(const tool *t)
{
    return t->all ? t->all->path : "this store";
}

void watching_say_none(const tool *t)
{
    tool_say(t, "no process is running %s; showing data from the store only:", watching_what(t));
}

int watching_check_inboxes(tool *t, const argument_list *inboxes)
{
    known_names all;
    int status = names_read(&all, t, SEMEL_NAME_INBOX);
    for (size_t i = 0; !status && i < inboxes->count; i++) {
        const char *name = inboxes->items[i];
        if (!strchr(name, '*') && !names_find(&all, name))
            status = tool_no_such_name(t, "inbox", name);
    }
    names_free(&all);
    return status;
}

void watching_use_zone(const tool_options *options)
{
    if (!options->utc)
        return;
    (void)setenv("TZ", "UTC0", 1);
    tzset();
}
