/* Outboxes: names. The sending is in unit_send.c, the leasing in relay_lease.c. */
#include "core/unit.h"

#include <string.h>

/* At the end, so that the one that was opened first is found: a handler may use it while another
 * one of this name comes and goes. */
static void list_add(semel_outbox *outbox)
{
    pthread_mutex_lock(&outbox->store->lock);
    semel_outbox **at = &outbox->store->outboxes;
    while (*at)
        at = &(*at)->next;
    *at = outbox;
    pthread_mutex_unlock(&outbox->store->lock);
}

static void list_remove(semel_outbox *outbox)
{
    pthread_mutex_lock(&outbox->store->lock);
    semel_outbox **at = &outbox->store->outboxes;
    while (*at != outbox)
        at = &(*at)->next;
    *at = outbox->next;
    pthread_mutex_unlock(&outbox->store->lock);
}

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
    if (status) {
        mem_free(outbox);
        return status;
    }
    list_add(outbox);
    *out = outbox;
    return SEMEL_OK;
}

void semel_outbox_close(semel_outbox *outbox)
{
    if (!outbox)
        return;
    list_remove(outbox);
    mem_free(outbox);
}

semel_outbox *outbox_find(semel_store *store, const char *name)
{
    pthread_mutex_lock(&store->lock);
    semel_outbox *at = store->outboxes;
    while (at && strcmp(at->name, name) != 0)
        at = at->next;
    pthread_mutex_unlock(&store->lock);
    return at;
}

static semel_status send_in_unit(semel_outbox *outbox, const semel_message *message,
                                 semel_error *err)
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

/* Nothing of it is there after a conflict. */
semel_status semel_outbox_send(semel_outbox *outbox, const semel_message *message, semel_error *err)
{
    semel_status status;
    semel_error why; /* a success says nothing of the conflicts before it */
    uint32_t tries = 0;
    do
        status = send_in_unit(outbox, message, &why);
    while (store_retry_after_pause(outbox->store, status, NULL, &tries));
    if (status && err)
        *err = why;
    return status;
}
