/* See retry.h.
 *
 * A letter is taken by one process: its state goes from asked to begun in one statement, and only
 * then does the handler run. What follows from a process that dies:
 *  - before the letter is taken: it is still asked for, and another process takes it;
 *  - afterwards, before the work is committed: the letter stays, as begun. No process takes it by
 *    itself again, because it may be the letter that has ended the process. A person who asks once
 *    more decides otherwise;
 *  - after the commit: the letter is gone with it. In claim mode it is dropped right after the
 *    completion; if the process dies in between, the next replay is a duplicate and drops it;
 *  - after the handler has failed, before that is noted: as begun, as above. */
#include "program/run/retry.h"

#include <string.h>

static const char unrouted[] = "unrouted";

retry_letter retry_letter_of(const semel_dead *dead)
{
    retry_letter letter = {.id = dead->id, .origin = dead->origin};
    size_t len = dead->name ? strlen(dead->name) : 0;
    if (len <= SEMEL_NAME_MAX)
        memcpy(letter.name, dead->name ? dead->name : "", len);
    return letter;
}

/* --- what the configuration has --------------------------------------------------------------- */

static const semel_pipeline_inbox *inbox_of(const retry_place *place, const char *name)
{
    for (const semel_pipeline_inbox *i = place->spec->inboxes; i && i->name; i++)
        if (strcmp(i->name, name) == 0)
            return i;
    return NULL;
}

static int has_outbox(const config *all, const char *name)
{
    for (size_t i = 0; i < all->outbox_count; i++)
        if (strcmp(all->outboxes[i].name, name) == 0)
            return 1;
    return 0;
}

static int has_store_queue(const config *all, const char *name)
{
    for (size_t i = 0; i < all->queue_count; i++)
        if (strcmp(all->queues[i].name, name) == 0)
            return !all->queues[i].url;
    return 0;
}

/* A letter without a route does not say from which queue it came. If only one is read, it was that
 * one; else it might get to handlers that were never meant to have it. */
static semel_consumer *consumer_of_unrouted(const retry_place *place)
{
    const queue_config *found = NULL;
    for (size_t i = 0; i < place->all->queue_count; i++) {
        if (place->all->queues[i].is_read && found)
            return NULL;
        if (place->all->queues[i].is_read)
            found = &place->all->queues[i];
    }
    return found ? semel_pipeline_find_consumer(place->pipeline, found->name) : NULL;
}

int retry_is_known(const retry_place *place, const retry_letter *letter)
{
    switch (letter->origin) {
    case SEMEL_DEAD_INBOX:
        return inbox_of(place, letter->name) ||
               (strcmp(letter->name, unrouted) == 0 && consumer_of_unrouted(place));
    case SEMEL_DEAD_OUTBOX:
        return has_outbox(place->all, letter->name);
    case SEMEL_DEAD_QUEUE:
        return has_store_queue(place->all, letter->name);
    case SEMEL_DEAD_ANY:
        break;
    }
    return 0;
}

/* --- replaying -------------------------------------------------------------------------------- */

static semel_status replay_inbox(semel_outcome *out, const retry_place *place,
                                 const retry_letter *letter, semel_error *err)
{
    const semel_pipeline_inbox *inbox = inbox_of(place, letter->name);
    semel_inbox *opened = semel_pipeline_find_inbox(place->pipeline, letter->name);
    if (inbox && opened)
        return semel_inbox_replay(out, opened, letter->id, inbox->handler, inbox->context, err);
    semel_consumer *consumer = consumer_of_unrouted(place);
    if (consumer)
        return semel_consumer_replay(out, consumer, letter->id, err);
    return semel_fail(err, SEMEL_EINVAL, "\"%s\" is no inbox of this config", letter->name);
}

static semel_status replay_outbox(const retry_place *place, const retry_letter *letter,
                                  semel_error *err)
{
    semel_outbox *outbox = NULL;
    semel_status status = semel_outbox_open(&outbox, place->store, letter->name, err);
    if (!status)
        status = semel_outbox_replay(outbox, letter->id, err);
    semel_outbox_close(outbox);
    return status;
}

static semel_status replay_queue(const retry_place *place, const retry_letter *letter,
                                 semel_error *err)
{
    semel_transport *queue = NULL;
    semel_status status = semel_queue_open(&queue, place->store, letter->name, NULL, err);
    if (!status)
        status = semel_queue_replay(queue, letter->id, err);
    semel_transport_close(queue);
    return status;
}

static semel_status replay(semel_outcome *out, const retry_place *place, const retry_letter *letter,
                           semel_error *err)
{
    *out = SEMEL_PROCESSED;
    if (letter->origin == SEMEL_DEAD_OUTBOX)
        return replay_outbox(place, letter, err);
    if (letter->origin == SEMEL_DEAD_QUEUE)
        return replay_queue(place, letter, err);
    return replay_inbox(out, place, letter, err);
}

/* --- ends ------------------------------------------------------------------------------------- */

static semel_status see_letter(const semel_dead *dead, void *context, semel_error *err)
{
    (void)dead;
    (void)err;
    *(int *)context = 1;
    return SEMEL_OK;
}

/* The letter is not begun (any more): it is gone, or another operator has asked for it again. */
static semel_status end_of_unbegun(retry_end *out, const retry_place *place, int64_t id,
                                   semel_error *err)
{
    int there = 0;
    const semel_dead_filter filter = {
        .size = sizeof filter, .after_id = id - 1, .last_id = id, .limit = 1, .brief = 1};
    semel_status status = semel_dead_list(place->store, &filter, see_letter, &there, err);
    *out = there ? RETRY_END_OTHERS : RETRY_END_PROCESSED;
    return status;
}

semel_status retry_note(retry_end *out, const retry_place *place, int64_t id, const char *error,
                        semel_error *err)
{
    semel_status status =
        semel_dead_set_retry(place->store, id, SEMEL_RETRY_BEGUN, SEMEL_RETRY_FAILED, error, err);
    *out = RETRY_END_FAILED;
    return status == SEMEL_ENOTFOUND ? end_of_unbegun(out, place, id, err) : status;
}

/* If the store cannot be told, the letter stays as begun: it is noted as a failure then, because no
 * process would take it again. */
static retry_end postpone(const retry_place *place, int64_t id)
{
    semel_status status =
        semel_dead_set_retry(place->store, id, SEMEL_RETRY_BEGUN, SEMEL_RETRY_ASKED, NULL, NULL);
    if (status == SEMEL_ENOTFOUND)
        return RETRY_END_OTHERS;
    return status ? RETRY_END_UNNOTED : RETRY_END_POSTPONED;
}

/* A copy that is being handled ends soon, and a program that stops has not tried. All else is a
 * failure of this attempt, an outage of the store as well: whether the letter caused it is not
 * known, so that a person decides about the next one. */
static retry_end end_of(const retry_place *place, int64_t id, semel_status status,
                        const semel_error *why)
{
    retry_end end = RETRY_END_UNNOTED;
    if (status == SEMEL_ENOTFOUND)
        return RETRY_END_OTHERS;
    if (status == SEMEL_ESTOPPED || status == SEMEL_EBUSY)
        return postpone(place, id);
    return retry_note(&end, place, id, why->text, NULL) ? RETRY_END_UNNOTED : end;
}

semel_status retry_run(retry_end *out, const retry_place *place, const retry_letter *letter,
                       semel_error *why)
{
    semel_outcome outcome = SEMEL_UNDECIDED;
    semel_status status = semel_dead_set_retry(place->store, letter->id, SEMEL_RETRY_ASKED,
                                               SEMEL_RETRY_BEGUN, NULL, why);
    *out = RETRY_END_OTHERS;
    if (status)
        return status == SEMEL_ENOTFOUND ? SEMEL_OK : status;
    status = replay(&outcome, place, letter, why);
    if (status)
        *out = end_of(place, letter->id, status, why);
    if (status && outcome == SEMEL_FAILED && *out == RETRY_END_PROCESSED)
        *out = RETRY_END_FAILED; /* the message was buried anew, as another letter */
    if (!status)
        *out = outcome == SEMEL_PROCESSED ? RETRY_END_PROCESSED : RETRY_END_DUPLICATE;
    return SEMEL_OK;
}
