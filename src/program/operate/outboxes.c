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

static int find_in(outbox_message *out, tool *t, const char *outbox)
{
    semel_error why = {0};
    semel_status status = waiting_open(&out->where, t, SEMEL_NAME_OUTBOX, outbox, &why);
    if (!status)
        status = waiting_find(&out->seq, &out->where, out->id, &why);
    if (!out->seq)
        waiting_close(&out->where);
    return status ? tool_failed(t, &why) : CLI_OK;
}

int outboxes_find(outbox_message *out, tool *t, const char *typed)
{
    known_names all;
    *out = (outbox_message){.seq = 0};
    int status = waiting_read_id(&out->id, t, typed);
    if (status)
        return status;
    status = names_read(&all, t, SEMEL_NAME_OUTBOX);
    for (size_t i = 0; !status && !out->seq && i < all.count; i++)
        if (all.items[i].in_store)
            status = find_in(out, t, all.items[i].name);
    names_free(&all);
    if (!status && !out->seq)
        status = tool_refuse(t, CLI_NOT_FOUND,
                             "no message \"%s\" waits in an outbox; it was sent, or is a dead "
                             "letter (semel dead ls)",
                             typed);
    return status;
}
