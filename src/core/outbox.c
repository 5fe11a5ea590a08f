/* Outboxes: names. The sending is in unit_send.c, the leasing in relay_lease.c. */
#include "core/unit.h"

#include <string.h>

semel_status semel_outbox_open(semel_outbox **out, semel_store *store, const char *name,
                               semel_error *err)
{
    semel_status status = store_check_name("outbox", name, err);
    if (!status)
        status = store_can_keep_outbox(store, err);
    if (status)
        return status;
    semel_outbox *outbox = mem_alloc(sizeof *outbox);
    if (!outbox)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory opening an outbox");
    outbox->store = store;
    memcpy(outbox->name, name, strlen(name) + 1);
    status = store->driver->scope(store->state, SEMEL_SCOPE_OUTBOX, name, &outbox->scope, err);
    if (status)
        mem_free(outbox);
    else
        *out = outbox;
    return status;
}

void semel_outbox_close(semel_outbox *outbox)
{
    mem_free(outbox);
}

semel_status semel_outbox_send(semel_outbox *outbox, const semel_message *message, semel_error *err)
{
    semel_unit *unit = NULL;
    semel_status status = semel_unit_begin(&unit, outbox->store, err);
    if (status)
        return status;
    status = semel_unit_send(unit, outbox, message, err);
    if (!status)
        return semel_unit_commit(unit, err);
    semel_unit_rollback(unit);
    return status;
}
