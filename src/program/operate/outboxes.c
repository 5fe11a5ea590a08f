/* See outboxes.h. */
#include "program/operate/outboxes.h"

#include "program/cli.h"

int outbox_open_named(waiting_place *out, tool *t, const char *name)
{
    known_names all;
    semel_error why = {0};
    *out = (waiting_place){.name = name};
    int status = names_read(&all, t, SEMEL_NAME_OUTBOX);
    const known_name *known = status ? NULL : names_find(&all, name);
    if (!status && !known)
        status = tool_no_such_name(t, "outbox", name);
    else if (!status && known->in_store && waiting_open(out, t, SEMEL_NAME_OUTBOX, name, &why))
        status = tool_failed(t, &why);
    names_free(&all);
    return status;
}

static int find_in(waiting_place *out, int64_t *seq, tool *t, const char *outbox, const char *id)
{
    semel_error why = {0};
    semel_status status = waiting_open(out, t, SEMEL_NAME_OUTBOX, outbox, &why);
    if (!status)
        status = waiting_find(seq, out, id, &why);
    if (!*seq)
        waiting_close(out);
    return status ? tool_failed(t, &why) : CLI_OK;
}

int outboxes_find(waiting_place *out, int64_t *seq, tool *t, const char *id)
{
    known_names all;
    *out = (waiting_place){0};
    *seq = 0;
    int status = names_read(&all, t, SEMEL_NAME_OUTBOX);
    for (size_t i = 0; !status && !*seq && i < all.count; i++)
        if (all.items[i].in_store)
            status = find_in(out, seq, t, all.items[i].name, id);
    names_free(&all);
    if (!status && !*seq)
        status = tool_refuse(t, CLI_NOT_FOUND,
                             "no message \"%s\" waits in an outbox; it was sent, or is a dead "
                             "letter (semel dead ls)",
                             id);
    return status;
}
