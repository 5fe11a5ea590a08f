/* What the messages that a unit has put, settled or removed mean for the records of the outbox.
 * The invariants that this keeps are in the design note of outbox.c.
 *
 * All steps of the outbox in a unit are built together, by the first of them: a unit may settle a
 * message and put another one into the same group, and a record occurs once in an apply(). The plan
 * has a row for each message, and the rows of a group are judged together:
 *
 *     1. the rows are gathered from the intents. If it is not the first try, the messages are read
 *        again: a lease that was lost ends the unit, a version that changed, too
 *     2. the groups: what is known of them is taken for true in the first try, and read in others
 *     3. the first message of each group before and after the change. It is the only one that has
 *        an entry in r/
 *     4. the changes */
#include "store/keyed/outbox_plan.h"

#include <string.h>

/* --- rows ------------------------------------------------------------------------------------- */

static plan_row *new_row(plan *p, plan_row **first, plan_row **last)
{
    plan_row *row = arena_alloc(&p->arena, sizeof *row);
    if (!row)
        return NULL;
    memset(row, 0, sizeof *row);
    *(*last ? &(*last)->next : first) = row;
    *last = row;
    return row;
}

static plan_row *find_row(const plan *p, int64_t scope, int64_t number)
{
    plan_row *row = p->rows;
    while (row && (row->before.scope != scope || row->before.number != number))
        row = row->next;
    return row;
}

/* Of several intents for one message the first says how it was found, and the last how it is to
 * be. */
static semel_status gather_change(plan *p, const outbox_intent *intent, semel_error *err)
{
    plan_row *row = find_row(p, intent->before.scope, intent->before.number);
    if (!row) {
        row = new_row(p, &p->rows, &p->last_row);
        if (!row)
            return keyed_out_of_memory(err);
        row->before = intent->before;
        row->token = intent->token;
        row->is_there = 1;
    }
    row->act = intent->act;
    row->after = intent->after;
    row->keeps_sent |= intent->keeps_sent;
    return SEMEL_OK;
}

static semel_status refuse_changed(const plan_row *row, semel_error *err)
{
    return semel_fail(err, SEMEL_ECONFLICT,
                      "message %lld of the outbox was changed by another process meanwhile",
                      (long long)row->before.number);
}

/* As long as the lease is ours nobody but this process has changed the message: an extension, which
 * moves the end of the lease. */
static semel_status refresh_row(plan_row *row, const keyed_item *found, semel_error *err)
{
    if (!found)
        return refuse_changed(row, err);
    if (row->token ? found->token != row->token
                   : memcmp(found->version, row->before.version, sizeof found->version) != 0)
        return refuse_changed(row, err);
    memcpy(row->before.version, found->version, sizeof found->version);
    row->before.until_ms = found->until_ms;
    return SEMEL_OK;
}

static semel_status refresh_scope(plan *p, int64_t scope, semel_error *err)
{
    size_t count = 0;
    for (const plan_row *row = p->rows; row; row = row->next)
        count += row->before.scope == scope;
    int64_t *numbers = arena_alloc(&p->arena, (count + 1) * sizeof *numbers);
    outbox_items found = {NULL, 0};
    if (!numbers)
        return keyed_out_of_memory(err);
    count = 0;
    for (const plan_row *row = p->rows; row; row = row->next)
        if (row->before.scope == scope)
            numbers[count++] = row->before.number;
    semel_status status = outbox_get(&found, p->store, scope, numbers, count, 0, &p->arena, err);
    for (plan_row *row = p->rows; row && !status; row = row->next)
        if (row->before.scope == scope)
            status = refresh_row(row, outbox_items_find(&found, row->before.number), err);
    return status;
}

static int is_first_of_scope(const plan *p, const plan_row *row)
{
    const plan_row *at = p->rows;
    while (at->before.scope != row->before.scope)
        at = at->next;
    return at == row;
}

static semel_status refresh_rows(plan *p, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (const plan_row *row = p->rows; row && !status; row = row->next)
        if (is_first_of_scope(p, row))
            status = refresh_scope(p, row->before.scope, err);
    return status;
}

/* --- groups ----------------------------------------------------------------------------------- */

static plan_group *group_of(plan *p, int64_t scope, semel_bytes name)
{
    hash_state state;
    hash_begin(&state, p->store->hash);
    hash_add(&state, &scope, sizeof scope);
    hash_add(&state, name.data, name.len);
    plan_group **bucket = &p->buckets[hash_end(&state) % PLAN_BUCKETS], *at = *bucket;
    while (at && (at->scope != scope || !keyed_same(at->name, name)))
        at = at->in_bucket;
    if (at || !(at = arena_alloc(&p->arena, sizeof *at)))
        return at;
    *at = (plan_group){.in_bucket = *bucket, .scope = scope, .name = name};
    *bucket = at;
    *(p->last_group ? &p->last_group->next : &p->groups) = at;
    p->last_group = at;
    return at;
}

static semel_status gather_put(plan *p, const outbox_intent *intent, semel_error *err)
{
    semel_bytes name = outbox_group_of(&intent->after.message);
    plan_group *group = name.len ? group_of(p, intent->after.scope, name) : NULL;
    plan_row *row = NULL;
    if (group || !name.len)
        row =
            group ? new_row(p, &group->first, &group->last) : new_row(p, &p->alone, &p->last_alone);
    if (!row)
        return keyed_out_of_memory(err);
    row->act = OUTBOX_PUT;
    row->put = intent;
    row->after = intent->after;
    if (group)
        group->put++;
    return SEMEL_OK;
}

/* The changed rows go to their groups, where the new ones are behind them: a new number is larger
 * than all that were there. */
static semel_status place_changes(plan *p, semel_error *err)
{
    for (plan_row *row = p->rows, *next; row; row = next) {
        semel_bytes name = outbox_group_of(&row->before.message);
        plan_group *group = name.len ? group_of(p, row->before.scope, name) : NULL;
        next = row->next;
        if (name.len && !group)
            return keyed_out_of_memory(err);
        plan_row **first = group ? &group->first : &p->alone;
        plan_row **last = group ? &group->last : &p->last_alone;
        row->next = *first;
        *first = row;
        if (!*last)
            *last = row;
        if (group)
            group->changed++;
    }
    p->rows = p->last_row = NULL;
    return SEMEL_OK;
}

static semel_status gather(plan *p, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (const keyed_step *step = p->unit->first_step; step && !status; step = step->next) {
        const outbox_intent *intent = step->context;
        if (step->build != outbox_build)
            continue;
        status =
            intent->act == OUTBOX_PUT ? gather_put(p, intent, err) : gather_change(p, intent, err);
    }
    if (!status && !p->is_first_try && p->rows)
        status = refresh_rows(p, err);
    return status ? status : place_changes(p, err);
}

const plan_row *plan_changed_row(const plan_group *group, int64_t number)
{
    const plan_row *row = group->first;
    while (row && !(row->is_there && row->before.number == number))
        row = row->next;
    return row;
}

static int is_only_message(const plan_group *group)
{
    return group->group.there && group->group.first == group->group.last && group->changed == 1 &&
           plan_changed_row(group, group->group.first);
}

/* --- what the groups are ---------------------------------------------------------------------- */

static int is_reliable(plan *p, plan_group *group)
{
    int known = outbox_group_known(&group->group, p->store, group->scope, group->name);
    return known && group->group.there && (known == OUTBOX_GROUP_READ || is_only_message(group));
}

/* Without a guess a message is put as if the group were empty.
 *
 * What is remembered may be of a commit that is still under way in another thread. For a message
 * that leaves, the places of its group are looked up, and the record must be older than that look:
 * else a group is taken for empty although a message is about to come, and is removed with it. So
 * it must have been read, or the message is the only one and nothing is looked up. */
static void guess_groups(plan *p)
{
    for (plan_group *at = p->groups; at; at = at->next) {
        if (at->changed)
            at->is_known = is_reliable(p, at);
        else {
            (void)outbox_group_guess(&at->group, p->store, at->scope, at->name);
            at->is_known = 1;
        }
    }
}

static semel_status take_group(plan *p, plan_group *group, const keyed_row *row, semel_error *err)
{
    semel_status status = SEMEL_OK;
    group->is_known = 1;
    group->group = (outbox_group){0};
    if (row)
        status = outbox_group_read(&group->group, &row->record, err);
    if (!status)
        outbox_group_keep(p->store, group->scope, group->name, &group->group, 1);
    return status;
}

/* In another try: groups whose guess was wrong, as the database has told. Others may be as they
 * were guessed, but are read, too. */
static semel_status take_refused(plan *p, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (plan_group *at = p->groups; at && !status; at = at->next) {
        keyed_space space = keyed_space_of('g', at->scope);
        const keyed_row *row = NULL;
        if (keyed_unit_refused(&row, p->unit, keyed_space_bytes(&space), at->name))
            status = take_group(p, at, row, err);
    }
    return status;
}

static semel_status take_groups(plan *p, int64_t scope, const keyed_rows *found, semel_error *err)
{
    keyed_space space = keyed_space_of('g', scope);
    semel_status status = SEMEL_OK;
    for (plan_group *at = p->groups; at && !status; at = at->next) {
        if (at->is_known || at->scope != scope)
            continue;
        const keyed_row *row = keyed_rows_find(found, keyed_space_bytes(&space), at->name);
        status = take_group(p, at, row, err);
    }
    return status;
}

static semel_status read_scope(plan *p, int64_t scope, semel_error *err)
{
    keyed_space space = keyed_space_of('g', scope);
    keyed_rows found = {.arena = &p->arena};
    size_t count = 0;
    for (const plan_group *at = p->groups; at; at = at->next)
        count += !at->is_known && at->scope == scope;
    semel_bytes *names = arena_alloc(&p->arena, count * sizeof *names);
    if (!names)
        return keyed_out_of_memory(err);
    count = 0;
    for (const plan_group *at = p->groups; at; at = at->next)
        if (!at->is_known && at->scope == scope)
            names[count++] = at->name;
    semel_status status =
        keyed_get_many(&found, p->store, keyed_space_bytes(&space), names, count, 0, err);
    return status ? status : take_groups(p, scope, &found, err);
}

/* Before the places are read: if a group has no message behind those that leave, its record is
 * expected as it was before somebody looked. */
static semel_status read_groups(plan *p, semel_error *err)
{
    semel_status status = SEMEL_OK;
    if (p->is_first_try)
        guess_groups(p);
    else
        status = take_refused(p, err);
    for (const plan_group *at = p->groups; at && !status; at = at->next)
        if (!at->is_known)
            status = read_scope(p, at->scope, err);
    return status;
}

/* --- the first message of a group ------------------------------------------------------------- */

static int stays(const plan_group *group, int64_t number)
{
    const plan_row *row = plan_changed_row(group, number);
    return !row || row->act != OUTBOX_REMOVE;
}

static semel_status find_heads(plan *p, plan_group *group, semel_error *err)
{
    const uint32_t page = (uint32_t)group->changed + 1;
    size_t count = page;
    int64_t after = 0;
    while (!group->new_head && count == page) {
        int64_t *numbers = NULL;
        semel_status status = outbox_places(&numbers, &count, p->store, group->scope, group->name,
                                            after, page, &p->arena, err);
        if (status)
            return status;
        for (size_t i = 0; i < count && !group->new_head; i++) {
            if (!group->head)
                group->head = numbers[i];
            if (stays(group, numbers[i]))
                group->new_head = numbers[i];
            after = numbers[i];
        }
    }
    return group->head ? SEMEL_OK : refuse_changed(group->first, err);
}

static semel_status resolve_heads(plan *p, plan_group *group, semel_error *err)
{
    if (!group->changed)
        return SEMEL_OK;
    if (!is_only_message(group))
        return find_heads(p, group, err);
    group->head = group->group.first;
    group->new_head = stays(group, group->head) ? group->head : 0;
    return SEMEL_OK;
}

/* --- heads that the unit does not change ------------------------------------------------------ */

static int is_foreign(const plan_group *group, int64_t number)
{
    return group->changed && number && !plan_changed_row(group, number);
}

static semel_status take_heads(plan_group *group, const outbox_items *found, semel_error *err)
{
    const keyed_item *head = outbox_items_find(found, group->head);
    const keyed_item *new_head = outbox_items_find(found, group->new_head);
    if ((is_foreign(group, group->head) && !head) ||
        (is_foreign(group, group->new_head) && !new_head))
        return refuse_changed(group->first, err);
    if (head)
        group->head_item = *head;
    if (new_head)
        group->new_item = *new_head;
    return SEMEL_OK;
}

/* For all groups of the outbox together. */
static semel_status read_heads_of(plan *p, int64_t scope, semel_error *err)
{
    size_t count = 0;
    for (const plan_group *at = p->groups; at; at = at->next)
        count += at->scope == scope ? 2 : 0;
    int64_t *numbers = arena_alloc(&p->arena, (count + 1) * sizeof *numbers);
    outbox_items found = {NULL, 0};
    if (!numbers)
        return keyed_out_of_memory(err);
    count = 0;
    for (const plan_group *at = p->groups; at; at = at->next) {
        if (at->scope == scope && is_foreign(at, at->head))
            numbers[count++] = at->head;
        if (at->scope == scope && is_foreign(at, at->new_head) && at->new_head != at->head)
            numbers[count++] = at->new_head;
    }
    semel_status status = SEMEL_OK;
    if (count)
        status = outbox_get(&found, p->store, scope, numbers, count, 0, &p->arena, err);
    for (plan_group *at = p->groups; at && !status; at = at->next)
        if (at->scope == scope)
            status = take_heads(at, &found, err);
    return status;
}

static int is_first_group_of_scope(const plan *p, const plan_group *group)
{
    const plan_group *at = p->groups;
    while (at->scope != group->scope)
        at = at->next;
    return at == group;
}

static semel_status read_heads(plan *p, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (plan_group *at = p->groups; at && !status; at = at->next)
        status = resolve_heads(p, at, err);
    for (const plan_group *at = p->groups; at && !status; at = at->next)
        if (is_first_group_of_scope(p, at))
            status = read_heads_of(p, at->scope, err);
    return status;
}

/* --- all of it -------------------------------------------------------------------------------- */

static semel_status make_plan(plan *p, semel_error *err)
{
    semel_status status = keyed_now(p->store, &p->now_ms, &p->error_ms, err);
    if (!status)
        status = gather(p, err);
    if (!status)
        status = read_groups(p, err);
    if (!status)
        status = read_heads(p, err);
    return status ? status : outbox_emit(p, err);
}

static int is_first_step(const keyed_unit *unit, const void *context)
{
    const keyed_step *step = unit->first_step;
    while (step->build != outbox_build)
        step = step->next;
    return step->context == context;
}

semel_status outbox_build(keyed_unit *unit, void *context, semel_error *err)
{
    outbox_intent *intent = context;
    if (!is_first_step(unit, context))
        return SEMEL_OK;
    plan p = {.unit = unit, .store = unit->store, .is_first_try = !intent->builds++};
    semel_status status = make_plan(&p, err);
    arena_free(&p.arena);
    return status;
}
