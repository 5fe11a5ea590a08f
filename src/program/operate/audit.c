/* What a person changed by hand, and who that was: tool.h. */
#include "program/cli.h"
#include "program/operate/tool.h"

#include <pwd.h>
#include <unistd.h>

const char *tool_actor(tool *t)
{
    enum { HOST_SIZE = 256 };
    char host[HOST_SIZE] = "";
    if (t->host)
        return t->host->who;
    const struct passwd *user = getpwuid(getuid());
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = 0;
    return user && user->pw_name
               ? region_printf(&t->memory, "%s@%s", user->pw_name, host)
               : region_printf(&t->memory, "%lu@%s", (unsigned long)getuid(), host);
}

int tool_audit(tool *t, semel_audit *entry)
{
    semel_error why = {0};
    entry->size = sizeof *entry;
    if (!entry->who)
        entry->who = tool_actor(t);
    if (!entry->result)
        entry->result = "";
    if (t->host && !entry->id)
        entry->what = region_printf(&t->memory, "%s%s", entry->what, t->host->note);
    if (semel_audit_write(entry, t->store, &why))
        return tool_failed(t, &why);
    if (t->host)
        t->host->audited(t->host->context, entry->id);
    return CLI_OK;
}
