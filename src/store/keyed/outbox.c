/* Outboxes: messages that wait to be sent, in spaces that the layer's header lists.
 *
 *     o  the message itself           w  the place of a message in its group
 *     r  when something is ready      g  a group that has messages
 *
 * A message without a group has a record of o/ and an entry of r/. A group has an entry of r/ for
 * its first message only; so a scan of r/ up to now finds what can be leased, and its cost does not
 * grow with what waits. These are the invariants. Each holds after every apply(), because what
 * belongs together is written by one:
 *
 *   I1  a message of a group has one place in w/; places have the order of capture
 *   I2  g/GROUP is there if and only if the group has a message; its last number is not smaller
 *       than any number of the group
 *   I3  r/ has exactly one entry for each message without a group, and one for the first message
 *       of each group that has one; no other
 *   I4  the entry's time is the end of the message's lease or, without a lease, the time at which
 *       the message is due: both are in its record
 *   I5  a message of a group says which number was given in the group before its own
 *
 * Nothing is in front of the first message of a group as long as that is there, because numbers of
 * a group ascend. So "it is there" is the same as "it is the first", and an apply() that rests on
 * it expects the record of that message, whether it changes it or not. Who may collide:
 *
 *   - two that put into one group: both write g/ and expect its version. One of them is refused,
 *     reads g/ and takes a larger number. So the order of a group does not depend on clocks. A
 *     number of another group or process may be smaller although its message came later
 *   - one that puts, and one that removes the last message: the first writes g/, the other removes
 *     it, both expect its version. If the message came first, the other finds that it is not the
 *     last, and makes an entry of r/ for it. If the group became empty first, the message is put
 *     as the first one of a new group. An entry is never missing and never there twice
 *   - one that puts, and one that leases or settles in front of it: they share no record, and need
 *     not know of each other
 *   - two that lease: both expect the versions of the messages, and of the entries that they move
 *   - two that settle messages of one group, or one that settles behind the first message while
 *     another removes that: who removes the first message makes an entry for the next one, at the
 *     time that the next one's record says, and expects that record's version; who changes a
 *     message that is not the first expects that the first is there. So one of them is refused, and
 *     is built anew
 *   - one that puts, and one that scans the places meanwhile: a scan need not be a snapshot, and
 *     may have seen the second of two new messages and not the first. So who leases a message
 *     behind another one looks whether it follows that one, and who makes a message the first one
 *     expects that the message before it is gone (I5); who takes a group for empty expects that of
 *     the last number that was given
 *   - a relay whose lease is over: its settlement expects its token, which is another one as soon
 *     as somebody has leased the message. A settlement that is still on its way when its relay has
 *     given up is refused for the same reason, or is applied before
 *
 * A message that cannot be read, because something else has damaged its record, is neither leased
 * nor removed. It stops its own group, and nothing else.
 *
 * A process that dies leaves nothing half done: what it has leased is leased until the lease ends.
 * An answer that is lost means, when messages were put, what the unit's marker says (settle.c);
 * when they were leased, that the leases are given back or end by themselves.
 *
 * A group that is empty has no record, so that groups that are used once do not stay. Its next
 * message may then have a smaller number than one that has left, if the clocks of two processes
 * differ; that message has been sent, so the order of sending is right.
 *
 *     outbox.c         put, reading
 *     outbox_plan.c    what the intents of a unit mean, built at commit; outbox_emit.c writes it
 *     outbox_group.c   records of groups, and what is remembered of them
 *     outbox_lease.c   lease, which writes at once; outbox_settle.c settle, extend, wake, remove */
#include "store/keyed/outbox.h"

#include "base/message.h"

#include <string.h>

/* --- keys ------------------------------------------------------------------------------------- */

outbox_key outbox_key_number(int64_t number)
{
    outbox_key key = {.len = KEYED_NUMBER_LEN};
    keyed_number_write(key.bytes, number);
    return key;
}

outbox_key outbox_key_timed(int64_t at_ms, int64_t number)
{
    outbox_key key = {.len = OUTBOX_READY_LEN};
    keyed_number_write(key.bytes, at_ms > 0 ? at_ms : 0);
    keyed_number_write(key.bytes + KEYED_NUMBER_LEN, number);
    return key;
}

outbox_key outbox_key_place(semel_bytes group, int64_t number)
{
    outbox_key key = {.bytes = {(unsigned char)(group.len >> 8), (unsigned char)group.len},
                      .len = OUTBOX_GROUP_LEN + group.len + KEYED_NUMBER_LEN};
    memcpy(key.bytes + OUTBOX_GROUP_LEN, group.data, group.len);
    keyed_number_write(key.bytes + OUTBOX_GROUP_LEN + group.len, number);
    return key;
}

semel_bytes outbox_group_of(const semel_message *message)
{
    return semel_str(message->group);
}

/* --- intents ---------------------------------------------------------------------------------- */

semel_status outbox_intend(keyed_unit *unit, const outbox_intent *intent, semel_error *err)
{
    outbox_intent *copy = arena_alloc(&unit->arena, sizeof *copy);
    if (!copy)
        return keyed_out_of_memory(err);
    *copy = *intent;
    return keyed_unit_step(unit, outbox_build, copy, err);
}

const outbox_intent *outbox_intended(const keyed_unit *unit, int64_t scope, int64_t number)
{
    const outbox_intent *last = NULL;
    for (const keyed_step *step = unit->first_step; step; step = step->next) {
        const outbox_intent *intent = step->context;
        if (step->build == outbox_build && intent->act != OUTBOX_PUT &&
            intent->before.number == number && intent->before.scope == scope)
            last = intent;
    }
    return last;
}

/* --- put -------------------------------------------------------------------------------------- */

enum { RECORD_ROOM = 8192 }; /* for what else a record has, as a dead letter, too: key, error */

static size_t len_of(const char *text)
{
    return text ? strlen(text) : 0;
}

static semel_status check_size(const keyed_store *store, const semel_message *message,
                               semel_bytes body, semel_error *err)
{
    uint64_t max = store->driver->limits.record_max;
    uint64_t size = RECORD_ROOM + body.len + message->id.len + message->correlation_id.len +
                    len_of(message->type) + len_of(message->topic) + len_of(message->group) +
                    len_of(message->source) + len_of(message->content_type);
    if (!max || size <= max)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_ELIMIT,
                      "a message of %llu bytes does not fit into a %s: store, whose records have "
                      "at most %llu: keep a large body elsewhere, and send where it is",
                      (unsigned long long)size, store->driver->scheme, (unsigned long long)max);
}

static semel_status keyed_outbox_put(void *state, int64_t outbox, const semel_message *message,
                                     semel_error *err)
{
    keyed_unit *unit = state;
    const semel_message *copy = message_copy_into(&unit->arena, message);
    outbox_intent intent = {.act = OUTBOX_PUT};
    if (!copy || !keyed_message_body(&intent.body, &unit->arena, copy))
        return keyed_out_of_memory(err);
    intent.after = (keyed_item){.scope = outbox, .error = "", .message = *copy};
    intent.delay_ms = copy->delay_ms;
    semel_status status = check_size(unit->store, copy, intent.body, err);
    return status ? status : outbox_intend(unit, &intent, err);
}

static semel_status keyed_outbox_put_many(void *unit, int64_t outbox,
                                          const semel_message *const messages[], size_t count,
                                          semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = keyed_outbox_put(unit, outbox, messages[i], err);
    return status;
}

/* --- reading ---------------------------------------------------------------------------------- */

const keyed_item *outbox_items_find(const outbox_items *items, int64_t number)
{
    for (size_t i = 0; i < items->count; i++)
        if (items->all[i].number == number)
            return &items->all[i];
    return NULL;
}

static semel_bytes *keys_of(const int64_t numbers[], size_t count, mem_arena *arena)
{
    semel_bytes *keys = arena_alloc(arena, (count + 1) * sizeof *keys);
    for (size_t i = 0; keys && i < count; i++) {
        outbox_key key = outbox_key_number(numbers[i]);
        keys[i] = (semel_bytes){arena_copy(arena, key.bytes, key.len), key.len};
        if (!keys[i].data)
            return NULL;
    }
    return keys;
}

/* The database gives records in any order, and usually in this one. */
static const keyed_row *next_row(const keyed_rows *rows, const keyed_row **at, semel_bytes key)
{
    const keyed_row *row = *at ? *at : rows->first;
    for (size_t i = 0; i < rows->count; i++, row = row->next ? row->next : rows->first)
        if (keyed_same(row->record.key, key)) {
            *at = row->next;
            return row;
        }
    return NULL;
}

semel_status outbox_get(outbox_items *out, keyed_store *store, int64_t scope,
                        const int64_t numbers[], size_t count, int contents, mem_arena *arena,
                        semel_error *err)
{
    keyed_space space = keyed_space_of('o', scope);
    keyed_rows rows = {.arena = arena};
    const keyed_row *at = NULL;
    const semel_bytes *keys = keys_of(numbers, count, arena);
    *out = (outbox_items){arena_alloc(arena, (count + 1) * sizeof *out->all), 0};
    if (!keys || !out->all)
        return keyed_out_of_memory(err);
    semel_status status =
        keyed_get_many(&rows, store, keyed_space_bytes(&space), keys, count, contents, err);
    for (size_t i = 0; i < count && !status; i++) {
        const keyed_row *row = next_row(&rows, &at, keys[i]);
        if (row)
            status =
                keyed_item_read(&out->all[out->count++], &row->record, scope, contents, arena, err);
        if (status == SEMEL_ESTORE)
            status = SEMEL_OK;
    }
    return status;
}

semel_status outbox_places(int64_t **out, size_t *count, keyed_store *store, int64_t scope,
                           semel_bytes group, int64_t after, uint32_t limit, mem_arena *arena,
                           semel_error *err)
{
    keyed_space space = keyed_space_of('w', scope);
    outbox_key from = outbox_key_place(group, after), to = outbox_key_place(group, INT64_MAX);
    keyed_rows rows = {.arena = arena};
    semel_keyed_range range = {.space = keyed_space_bytes(&space),
                               .after = outbox_key_bytes(&from),
                               .until = outbox_key_bytes(&to),
                               .limit = limit};
    semel_status status = keyed_scan(&rows, store, &range, err);
    int64_t *numbers = status ? NULL : arena_alloc(arena, (rows.count + 1) * sizeof *numbers);
    if (status || !numbers)
        return status ? status : keyed_out_of_memory(err);
    *count = 0;
    for (const keyed_row *row = rows.first; row; row = row->next) {
        semel_bytes key = row->record.key;
        if (key.len > KEYED_NUMBER_LEN)
            numbers[(*count)++] =
                keyed_number_read((const unsigned char *)key.data + key.len - KEYED_NUMBER_LEN);
    }
    *out = numbers;
    return SEMEL_OK;
}

/* --- the table -------------------------------------------------------------------------------- */

static semel_status keyed_outbox_unsent(void *store, uint64_t *count, int64_t *oldest_ms,
                                        semel_error *err)
{
    semel_stats found = {0};
    semel_status status = keyed_check_process(store, err);
    if (!status)
        status = keyed_count_unsent(store, &found, err);
    if (status)
        return status;
    *count = found.unsent;
    *oldest_ms = found.oldest_unsent_ms;
    return SEMEL_OK;
}

const semel_store_outbox keyed_outbox = {
    .put = keyed_outbox_put,
    .put_many = keyed_outbox_put_many,
    .lease = keyed_outbox_lease,
    .settle = keyed_outbox_settle,
    .extend = keyed_outbox_extend,
    .unsent = keyed_outbox_unsent,
};
