/* Replaying dead letters through the routes of a consumer.
 *
 * A letter of an inbox is handled by the route of that inbox. An unrouted one goes through each
 * route that fits it, one transaction each, and is dropped by the last. If the process dies in
 * between, the letter is still there, and the routes that were done recognize its key. */
#include "core/consumer.h"
#include "core/dead.h"

#include <string.h>

/* The routes for one unrouted letter. */
typedef struct routing {
    const semel_consumer *consumer;
    int64_t id;
    size_t groups[SEMEL_ROUTES_MAX];
    size_t count;
} routing;

static semel_store *unrouted_store(const semel_consumer *consumer)
{
    return consumer->letters->store;
}

static semel_status choose_groups(work_unit *unit, void *context, semel_error *err)
{
    routing *r = context;
    letter found;
    semel_status status = letter_find(&found, unit, SEMEL_DEAD_INBOX, LETTER_UNROUTED, r->id, err);
    r->count = 0;
    for (size_t i = 0; !status && i < r->consumer->group_count; i++)
        if (group_fits(&r->consumer->groups[i], found.message))
            r->groups[r->count++] = i;
    return status;
}

static semel_status replay_through(semel_outcome *out, const routing *to, size_t index,
                                   semel_error *err)
{
    const route_group *group = &to->consumer->groups[to->groups[index]];
    replay r = {.inbox = group->inbox,
                .handler = group->handler,
                .context = group->context,
                .store = unrouted_store(to->consumer),
                .name = LETTER_UNROUTED,
                .id = to->id,
                .foreign = 1,
                .keep = index + 1 < to->count};
    return dead_replay(out, &r, err);
}

/* The outcome is SEMEL_PROCESSED if some route has handled it. */
static semel_status replay_unrouted(semel_outcome *out, const semel_consumer *consumer,
                                    int64_t dead_id, semel_error *err)
{
    routing to = {.consumer = consumer, .id = dead_id};
    semel_outcome one = SEMEL_UNDECIDED;
    int processed = 0;
    semel_status status =
        store_transact(unrouted_store(consumer), SEMEL_BEGIN_RELAXED, choose_groups, &to, err);
    if (!status && !to.count)
        status =
            semel_fail(err, SEMEL_EREJECTED, "dead letter %lld: no route of this consumer fits it",
                       (long long)dead_id);
    for (size_t i = 0; !status && i < to.count; i++) {
        status = replay_through(&one, &to, i, err);
        processed |= one == SEMEL_PROCESSED;
    }
    *out = !status && processed ? SEMEL_PROCESSED : one;
    return status;
}

static semel_status find_unusable(work_unit *unit, void *context, semel_error *err)
{
    letter found;
    const int64_t *id = context;
    return letter_find(&found, unit, SEMEL_DEAD_INBOX, LETTER_UNUSABLE, *id, err);
}

static semel_status refuse_unusable(const semel_consumer *consumer, int64_t dead_id,
                                    semel_error *err)
{
    semel_status status =
        store_transact(unrouted_store(consumer), SEMEL_BEGIN_RELAXED, find_unusable, &dead_id, err);
    return status ? status
                  : semel_fail(err, SEMEL_EREJECTED,
                               "dead letter %lld says that a message came which no store could "
                               "keep: there is nothing to handle",
                               (long long)dead_id);
}

/* `store` is the one that the letter is in; NULL: the first one that has such a letter. */
static semel_status replay_in(semel_outcome *out, const semel_consumer *consumer,
                              const semel_store *store, int64_t dead_id, semel_error *err)
{
    semel_status status = SEMEL_ENOTFOUND;
    *out = SEMEL_UNDECIDED;
    for (size_t i = 0; i < consumer->group_count; i++) {
        const route_group *group = &consumer->groups[i];
        if (store && group->inbox->store != store)
            continue;
        status =
            semel_inbox_replay(out, group->inbox, dead_id, group->handler, group->context, err);
        if (status != SEMEL_ENOTFOUND)
            return status;
    }
    if (!store || store == unrouted_store(consumer))
        status = replay_unrouted(out, consumer, dead_id, err);
    if (status == SEMEL_ENOTFOUND && (!store || store == unrouted_store(consumer)))
        status = refuse_unusable(consumer, dead_id, err);
    return status == SEMEL_ENOTFOUND
               ? semel_fail(err, status, "none of the consumer's inboxes has a dead letter %lld",
                            (long long)dead_id)
               : status;
}

semel_status semel_consumer_replay(semel_outcome *out, semel_consumer *consumer, int64_t dead_id,
                                   semel_error *err)
{
    return replay_in(out, consumer, NULL, dead_id, err);
}

/* --- many ------------------------------------------------------------------------------------- */

typedef struct store_letters {
    const semel_consumer *consumer;
    const semel_store *store;
} store_letters;

static semel_status replay_of_store(semel_outcome *out, int64_t id, void *context, semel_error *err)
{
    const store_letters *letters = context;
    return replay_in(out, letters->consumer, letters->store, id, err);
}

static int is_first_of_store(const semel_consumer *consumer, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (consumer->groups[i].inbox->store == consumer->groups[index].inbox->store)
            return 0;
    return 1;
}

semel_status semel_consumer_replay_all(size_t *replayed, size_t *failed, semel_consumer *consumer,
                                       const semel_dead_filter *filter, semel_error *err)
{
    replay_counts counts = {.err = err};
    semel_dead_filter wanted;
    *replayed = *failed = 0;
    semel_status status = dead_filter_read(&wanted, filter, err);
    wanted.origin = SEMEL_DEAD_INBOX;
    for (size_t i = 0; !status && i < consumer->group_count; i++) {
        store_letters letters = {consumer, consumer->groups[i].inbox->store};
        if (is_first_of_store(consumer, i))
            status = dead_replay_each(&counts, consumer->groups[i].inbox->store, &wanted,
                                      replay_of_store, &letters, err);
    }
    *replayed = counts.replayed;
    *failed = counts.failed;
    return status;
}
