/* The changes that a plan of the outbox comes down to, each with what it expects. The design note
 * of outbox.c says why these expectations are enough. */
#include "store/keyed/outbox_plan.h"

#include <string.h>

/* --- one change ------------------------------------------------------------------------------- */

static semel_keyed_change *add(plan *p, char space, int64_t scope, semel_bytes key,
                               semel_keyed_kind kind)
{
    keyed_space in = keyed_space_of(space, scope);
    keyed_change *change = keyed_unit_change(p->unit, keyed_space_bytes(&in), key);
    if (!change)
        return NULL;
    change->role = KEYED_LATE;
    change->change.kind = kind;
    change->change.expect = SEMEL_EXPECT_ABSENT;
    if (kind == SEMEL_KEYED_WRITE)
        keyed_new_version(p->store, change->change.record.version);
    return &change->change;
}

static void expect_version(semel_keyed_change *change, const unsigned char *version)
{
    change->expect = SEMEL_EXPECT_VERSION;
    memcpy(change->expected_version, version, SEMEL_KEYED_VERSION_LEN);
}

static void expect_guard(semel_keyed_change *change, uint64_t guard)
{
    change->expect = SEMEL_EXPECT_GUARD;
    change->expected_guard = guard;
}

/* An entry of r/ or w/ is nothing but its key. Its guard is the number of the message, so that
 * whoever removes it can expect that it is there without having read it. */
static semel_status change_entry(plan *p, char space, const keyed_item *item, const outbox_key *key,
                                 semel_keyed_kind kind, semel_error *err)
{
    semel_keyed_change *change = add(p, space, item->scope, outbox_key_bytes(key), kind);
    if (!change)
        return keyed_out_of_memory(err);
    if (kind == SEMEL_KEYED_WRITE)
        change->record.guard = (uint64_t)item->number;
    else
        expect_guard(change, (uint64_t)item->number);
    return SEMEL_OK;
}

static semel_status change_ready(plan *p, const keyed_item *item, semel_keyed_kind kind,
                                 semel_error *err)
{
    outbox_key key = outbox_key_timed(keyed_item_wake_ms(item), item->number);
    return change_entry(p, 'r', item, &key, kind, err);
}

static semel_status change_place(plan *p, const keyed_item *item, semel_keyed_kind kind,
                                 semel_error *err)
{
    outbox_key key = outbox_key_place(outbox_group_of(&item->message), item->number);
    return change_entry(p, 'w', item, &key, kind, err);
}

/* --- messages --------------------------------------------------------------------------------- */

static semel_status write_message(plan *p, const plan_row *row, semel_error *err)
{
    outbox_key key = outbox_key_number(row->after.number);
    semel_keyed_change *change =
        add(p, 'o', row->after.scope, outbox_key_bytes(&key), SEMEL_KEYED_WRITE);
    if (!change || !keyed_item_value(&change->record.value, &p->unit->arena, &row->after))
        return keyed_out_of_memory(err);
    change->record.guard = row->after.token;
    change->record.until_ms = row->after.until_ms;
    if (row->put)
        change->record.body = row->put->body;
    else
        change->keep_body = 1;
    if (row->token)
        expect_guard(change, row->token);
    else if (row->is_there)
        expect_version(change, row->before.version);
    return SEMEL_OK;
}

static semel_status remove_message(plan *p, const plan_row *row, semel_error *err)
{
    outbox_key key = outbox_key_number(row->before.number);
    semel_keyed_change *change =
        add(p, 'o', row->before.scope, outbox_key_bytes(&key), SEMEL_KEYED_REMOVE);
    if (!change)
        return keyed_out_of_memory(err);
    if (row->token)
        expect_guard(change, row->token);
    else
        expect_version(change, row->before.version);
    return SEMEL_OK;
}

static semel_status keep_sent(plan *p, const plan_row *row, semel_error *err)
{
    keyed_item sent = row->after;
    outbox_key key = outbox_key_timed(p->now_ms, sent.number);
    sent.sent_ms = p->now_ms;
    semel_keyed_change *change = add(p, 'x', sent.scope, outbox_key_bytes(&key), SEMEL_KEYED_WRITE);
    if (!change || !keyed_item_value(&change->record.value, &p->unit->arena, &sent))
        return keyed_out_of_memory(err);
    return SEMEL_OK;
}

/* A message that the plan has anything to do with. */
static int is_in_plan(const plan *p, int64_t scope, int64_t number)
{
    for (const plan_group *at = p->groups; at; at = at->next)
        if (at->changed && at->scope == scope &&
            (at->head == number || at->new_head == number || plan_changed_row(at, number)))
            return 1;
    for (const plan_row *row = p->alone; row; row = row->next)
        if (row->is_there && row->before.scope == scope && row->before.number == number)
            return 1;
    return 0;
}

/* Two processes may make the same number. If a message with it is there, the write is refused, and
 * another number is made; if the plan expects that message for another reason, one change would
 * hide the other. */
static semel_status number_message(plan *p, plan_row *row, int64_t least, semel_error *err)
{
    keyed_item *item = &row->after;
    semel_status status;
    item->captured_ms = p->now_ms;
    /* What is not delayed is due at once, also for a process whose clock is behind ours. */
    item->due_ms =
        p->now_ms + (row->put->delay_ms ? (int64_t)row->put->delay_ms : -2 * (int64_t)p->error_ms);
    do
        status = keyed_number(p->store, least, &item->number, err);
    while (!status && is_in_plan(p, item->scope, item->number));
    return status;
}

static semel_status emit_row(plan *p, const plan_row *row, int in_group, semel_error *err)
{
    semel_status status =
        row->act == OUTBOX_REMOVE ? remove_message(p, row, err) : write_message(p, row, err);
    if (!status && row->act == OUTBOX_REMOVE && row->keeps_sent)
        status = keep_sent(p, row, err);
    if (!status && in_group && row->act == OUTBOX_REMOVE)
        status = change_place(p, &row->before, SEMEL_KEYED_REMOVE, err);
    if (!status && in_group && row->act == OUTBOX_PUT)
        status = change_place(p, &row->after, SEMEL_KEYED_WRITE, err);
    return status;
}

/* --- messages without a group ----------------------------------------------------------------- */

/* What was first is not, or is later; what is first was not, or was earlier. NULL: nothing. */
static semel_status move_ready(plan *p, const keyed_item *before, const keyed_item *after,
                               semel_error *err)
{
    semel_status status = SEMEL_OK;
    if (before && after && before->number == after->number &&
        keyed_item_wake_ms(before) == keyed_item_wake_ms(after))
        return SEMEL_OK;
    if (before)
        status = change_ready(p, before, SEMEL_KEYED_REMOVE, err);
    return status || !after ? status : change_ready(p, after, SEMEL_KEYED_WRITE, err);
}

static semel_status emit_alone(plan *p, plan_row *row, semel_error *err)
{
    semel_status status = row->act == OUTBOX_PUT ? number_message(p, row, 0, err) : SEMEL_OK;
    if (!status)
        status = emit_row(p, row, 0, err);
    return status ? status
                  : move_ready(p, row->is_there ? &row->before : NULL,
                               row->act != OUTBOX_REMOVE ? &row->after : NULL, err);
}

/* --- groups ----------------------------------------------------------------------------------- */

/* Somebody else may have given the number behind the last one to a message of another group. */
static semel_status number_group(plan *p, plan_group *group, semel_error *err)
{
    enum { STEP = 1024 };
    semel_status status = SEMEL_OK;
    int64_t previous = group->group.there ? group->group.last : 0, least = 0;
    if (previous)
        least = previous + 1 + (int64_t)seam_random_below(p->store->seam, STEP);
    for (plan_row *row = group->first; row && !status; row = row->next) {
        if (row->act != OUTBOX_PUT)
            continue;
        row->after.previous = previous;
        status = number_message(p, row, least, err);
        previous = row->after.number;
    }
    return status;
}

static const plan_row *first_put(const plan_group *group)
{
    const plan_row *row = group->first;
    while (row && row->act != OUTBOX_PUT)
        row = row->next;
    return row;
}

/* A message that the plan rests on and that this unit does not change must stay as it is. */
static semel_status check_message(plan *p, const keyed_item *item, semel_error *err)
{
    outbox_key key = outbox_key_number(item->number);
    semel_keyed_change *change =
        add(p, 'o', item->scope, outbox_key_bytes(&key), SEMEL_KEYED_CHECK);
    if (!change)
        return keyed_out_of_memory(err);
    expect_version(change, item->version);
    return SEMEL_OK;
}

/* A message that the scan of the group's places has not shown, and that may have been put meanwhile
 * all the same. */
static semel_status check_gone(plan *p, const plan_group *group, int64_t number, semel_error *err)
{
    keyed_space space = keyed_space_of('o', group->scope);
    outbox_key key = outbox_key_number(number);
    if (!number || plan_changed_row(group, number) ||
        keyed_unit_find(p->unit, keyed_space_bytes(&space), outbox_key_bytes(&key)))
        return SEMEL_OK; /* a change of it expects no less */
    return add(p, 'o', group->scope, outbox_key_bytes(&key), SEMEL_KEYED_CHECK)
               ? SEMEL_OK
               : keyed_out_of_memory(err);
}

/* What was in front of the new first message has left, or is just leaving. */
static semel_status check_front(plan *p, const plan_group *group, semel_error *err)
{
    const plan_row *row = plan_changed_row(group, group->new_head);
    if (!group->changed || group->new_head == group->head)
        return SEMEL_OK;
    if (!group->new_head)
        return check_gone(p, group, group->group.last, err);
    return check_gone(p, group, row ? row->before.previous : group->new_item.previous, err);
}

static semel_status emit_heads(plan *p, const plan_group *group, semel_error *err)
{
    const plan_row *head = plan_changed_row(group, group->head), *put = first_put(group);
    const plan_row *new_head = plan_changed_row(group, group->new_head);
    const keyed_item *before = NULL, *after = NULL;
    semel_status status = SEMEL_OK;
    if (group->head)
        before = head ? &head->before : &group->head_item;
    if (group->new_head)
        after = new_head ? &new_head->after : &group->new_item;
    else if (put)
        after = &put->after;
    if (group->head && !head)
        status = check_message(p, &group->head_item, err);
    if (!status && group->new_head && !new_head && group->new_head != group->head)
        status = check_message(p, &group->new_item, err);
    if (!status)
        status = check_front(p, group, err);
    return status ? status : move_ready(p, before, after, err);
}

static semel_status change_group(plan *p, const plan_group *group, outbox_group *now,
                                 semel_keyed_kind kind, semel_error *err)
{
    semel_keyed_change *change = add(p, 'g', group->scope, group->name, kind);
    if (!change || (kind == SEMEL_KEYED_WRITE &&
                    !outbox_group_value(&change->record.value, &p->unit->arena, now)))
        return keyed_out_of_memory(err);
    memcpy(now->version, change->record.version, sizeof now->version);
    if (group->group.there)
        expect_version(change, group->group.version);
    outbox_group_keep(p->store, group->scope, group->name, now, 0);
    return SEMEL_OK;
}

static semel_status put_into_group(plan *p, const plan_group *group, semel_error *err)
{
    int goes_on = group->group.there && !(group->changed && !group->new_head);
    outbox_group now = {.there = 1, .last = group->last->after.number};
    now.first = goes_on ? group->group.first : first_put(group)->after.number;
    return change_group(p, group, &now, SEMEL_KEYED_WRITE, err);
}

/* Nothing is left. If the record is missing, which only damage explains, it must not come. */
static semel_status empty_group(plan *p, const plan_group *group, semel_error *err)
{
    outbox_group now = {0};
    return change_group(p, group, &now, group->group.there ? SEMEL_KEYED_REMOVE : SEMEL_KEYED_CHECK,
                        err);
}

static semel_status emit_group(plan *p, plan_group *group, semel_error *err)
{
    semel_status status = number_group(p, group, err);
    for (const plan_row *row = group->first; row && !status; row = row->next)
        status = emit_row(p, row, 1, err);
    if (!status && (group->changed || !group->group.there))
        status = emit_heads(p, group, err);
    if (!status && group->put)
        return put_into_group(p, group, err);
    return status || group->new_head ? status : empty_group(p, group, err);
}

semel_status outbox_emit(plan *p, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (plan_row *row = p->alone; row && !status; row = row->next)
        status = emit_alone(p, row, err);
    for (plan_group *at = p->groups; at && !status; at = at->next)
        status = emit_group(p, at, err);
    return status;
}
