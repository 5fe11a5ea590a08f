/* A table finds a call by its number. Answers come by a thread of nats.c and are put into the batch
 * of their caller, who waits. An answer whose caller has left finds nothing, and is thrown away: to
 * the caller it is one that did not come. So is what no server says: a client that listens where
 * a message is published may send a reply of its own, and the stream's comes beside it.
 *
 * Answers are told apart by numbers: the status of the protocol (503: nobody listens there), and
 * err_code of JetStream's errors. */
#include "transport/nats/calls.h"

#include "base/mem.h"
#include "base/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- answers ---------------------------------------------------------------------------------- */

/* The number behind `"name":` in a text of JSON; 0 if there is none. A text inside of it has its
 * quotes escaped, so it is not taken for a member. */
static int32_t number_of(const char *json, size_t len, const char *member)
{
    size_t name = strlen(member);
    const char *at = len > name ? memmem(json, len, member, name) : NULL;
    char digits[12] = "";
    if (!at)
        return 0;
    size_t left = len - (size_t)(at + name - json);
    memcpy(digits, at + name, left < sizeof digits ? left : sizeof digits - 1);
    return (int32_t)strtol(digits, NULL, 10);
}

int32_t jet_answer_of(natsMsg *message)
{
    const char *data = natsMsg_GetData(message);
    size_t len = (size_t)natsMsg_GetDataLength(message);
    if (natsMsg_IsNoResponders(message))
        return JET_NOBODY;
    if (!len)
        return JET_EMPTY;
    if (memmem(data, len, "\"error\":", 8)) {
        int32_t code = number_of(data, len, "\"err_code\":");
        return code > 0 ? code : JET_NONSENSE;
    }
    return memmem(data, len, "\"stream\":", 9) && memmem(data, len, "\"seq\":", 6) ? JET_YES
                                                                                   : JET_NONSENSE;
}

static void accept(jet_calls *calls, uint64_t number, int32_t answer)
{
    jet_call *call = (jet_call *)delivery_table_find(&calls->open, number);
    if (!call || (answer == JET_EMPTY && !call->batch->of_verdicts))
        return;
    jet_batch *batch = call->batch;
    delivery_table_remove(&calls->open, &call->node);
    call->answer = answer == JET_EMPTY ? JET_YES : answer;
    batch->open--;
    *batch->last = call;
    batch->last = &call->next;
    if (batch->eager || !batch->open)
        pthread_cond_broadcast(&calls->link->changed);
}

static void on_answer(natsConnection *connection, natsSubscription *subscription, natsMsg *message,
                      void *closure)
{
    jet_calls *calls = closure;
    const char *subject = natsMsg_GetSubject(message);
    size_t prefix = strlen(calls->inbox);
    (void)connection, (void)subscription;
    int32_t answer = jet_answer_of(message);
    if (answer != JET_NONSENSE && strncmp(subject, calls->inbox, prefix) == 0) {
        pthread_mutex_lock(&calls->link->lock);
        accept(calls, strtoull(subject + prefix, NULL, 10), answer);
        pthread_mutex_unlock(&calls->link->lock);
    }
    natsMsg_Destroy(message);
}

/* --- the inbox -------------------------------------------------------------------------------- */

semel_status jet_calls_begin(jet_calls *calls, natsConnection *connection, semel_error *err)
{
    natsInbox *inbox = NULL;
    char all[JET_INBOX_ROOM + 2];
    natsStatus code = natsInbox_Create(&inbox);
    if (code != NATS_OK)
        return jet_fail(calls->link->address, code, "making an inbox", err);
    (void)snprintf(calls->inbox, sizeof calls->inbox, "%s.", inbox);
    (void)snprintf(all, sizeof all, "%s*", calls->inbox);
    natsInbox_Destroy(inbox);
    return jet_link_subscribe(calls->link, connection, &calls->subscription, all, on_answer, calls,
                              err);
}

void jet_calls_end(jet_calls *calls)
{
    jet_link_unsubscribe(calls->link, &calls->subscription, 0, 0);
}

void jet_call_reply(char out[JET_REPLY_ROOM], const jet_calls *calls, const jet_call *call)
{
    (void)snprintf(out, JET_REPLY_ROOM, "%s%llu", calls->inbox, (unsigned long long)call->node.tag);
}

/* --- batches ---------------------------------------------------------------------------------- */

semel_status jet_batch_init(jet_batch *batch, jet_calls *calls, size_t count, semel_error *err)
{
    *batch = (jet_batch){.count = count, .epoch = calls->link->epoch};
    batch->last = &batch->first;
    batch->calls = mem_alloc((count + 1) * sizeof *batch->calls);
    if (!batch->calls)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for %zu requests", count);
    return SEMEL_OK;
}

void jet_batch_free(jet_batch *batch, jet_calls *calls)
{
    for (size_t i = 0; batch->calls && i < batch->count; i++)
        jet_batch_cancel(batch, calls, i);
    mem_free(batch->calls);
    batch->calls = NULL;
}

int jet_batch_open(jet_batch *batch, jet_calls *calls, size_t index)
{
    jet_call *call = &batch->calls[index];
    *call = (jet_call){.batch = batch, .answer = JET_NO_ANSWER};
    if (!delivery_table_add(&calls->open, &call->node))
        return 0;
    batch->open++;
    return 1;
}

void jet_batch_cancel(jet_batch *batch, jet_calls *calls, size_t index)
{
    jet_call *call = &batch->calls[index];
    if (!call->node.tag)
        return;
    delivery_table_remove(&calls->open, &call->node);
    batch->open--;
}

jet_call *jet_batch_take(jet_batch *batch)
{
    jet_call *call = batch->first;
    if (!call)
        return NULL;
    batch->first = call->next;
    if (!batch->first)
        batch->last = &batch->first;
    call->next = NULL;
    return call;
}

int jet_batch_wait(jet_batch *batch, jet_calls *calls, int64_t until_ms)
{
    jet_link *link = calls->link;
    while (batch->open && !(batch->eager && batch->first) && link->epoch == batch->epoch &&
           wait_clock_ms() < until_ms)
        jet_link_wait(link, until_ms);
    return batch->first != NULL;
}
