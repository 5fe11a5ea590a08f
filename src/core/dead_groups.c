/* Groups of dead letters that have a name and a cause in common.
 *
 * The letters are read page by page, without their bodies, and counted in a table in memory, whose
 * size is that of the groups, not of the letters. What is read while others change letters is a
 * mixture of before and after, as every list is that has pages. */
#include "base/hash.h"
#include "base/message.h"
#include "core/dead.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE_ROWS = 1000, ROOM_FIRST = 64 };

typedef struct grouping {
    mem_arena arena;
    hash_key key;
    semel_dead_group **groups; /* open addressing; `room` is a power of two */
    size_t room;
    size_t count;
    uint32_t seen; /* letters of the page */
    int64_t last_id;
} grouping;

static uint64_t hash_of(const grouping *g, uint32_t cause, semel_dead_origin origin,
                        const char *name)
{
    hash_state state;
    hash_begin(&state, g->key);
    hash_add(&state, &cause, sizeof cause);
    hash_add(&state, &origin, sizeof origin);
    hash_add(&state, name, strlen(name));
    return hash_end(&state);
}

/* Where the group is, or would be. */
static semel_dead_group **find_place(const grouping *g, uint32_t cause, semel_dead_origin origin,
                                     const char *name)
{
    size_t at = (size_t)hash_of(g, cause, origin, name) & (g->room - 1);
    for (; g->groups[at]; at = (at + 1) & (g->room - 1)) {
        const semel_dead_group *group = g->groups[at];
        if (group->cause == cause && group->origin == origin && strcmp(group->name, name) == 0)
            break;
    }
    return &g->groups[at];
}

/* So that less than half of the places are taken. 0 when out of memory. */
static int make_room(grouping *g)
{
    if (2 * (g->count + 1) <= g->room)
        return 1;
    grouping larger = *g;
    larger.room = g->room ? 2 * g->room : ROOM_FIRST;
    larger.groups = mem_alloc(larger.room * sizeof *larger.groups);
    if (!larger.groups)
        return 0;
    for (size_t i = 0; i < g->room; i++)
        if (g->groups[i])
            *find_place(&larger, g->groups[i]->cause, g->groups[i]->origin, g->groups[i]->name) =
                g->groups[i];
    mem_free(g->groups);
    *g = larger;
    return 1;
}

static semel_dead_group *new_group(grouping *g, const semel_dead *dead)
{
    char text[SEMEL_CAUSE_TEXT_SIZE];
    size_t len = semel_cause_text(text, sizeof text, dead->error);
    semel_dead_group *group = arena_alloc(&g->arena, sizeof *group);
    if (!group)
        return NULL;
    *group = (semel_dead_group){.size = sizeof *group,
                                .cause = dead->cause,
                                .origin = dead->origin,
                                .name = arena_copy(&g->arena, dead->name, strlen(dead->name)),
                                .first_ms = dead->at_ms,
                                .last_ms = dead->at_ms,
                                .first_id = dead->id,
                                .text = arena_copy(&g->arena, text, len)};
    return group->name && group->text ? group : NULL;
}

static semel_status count_letter(const semel_dead *dead, void *context, semel_error *err)
{
    grouping *g = context;
    semel_dead_group **place =
        make_room(g) ? find_place(g, dead->cause, dead->origin, dead->name) : NULL;
    if (place && !*place) {
        *place = new_group(g, dead);
        g->count += *place != NULL;
    }
    semel_dead_group *group = place ? *place : NULL;
    if (!group)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for groups of dead letters");
    group->letters++;
    group->last_id = dead->id;
    if (dead->at_ms < group->first_ms)
        group->first_ms = dead->at_ms;
    if (dead->at_ms > group->last_ms)
        group->last_ms = dead->at_ms;
    g->seen++;
    g->last_id = dead->id;
    return SEMEL_OK;
}

static semel_status count_letters(grouping *g, semel_store *store, semel_dead_filter *filter,
                                  semel_error *err)
{
    semel_status status;
    filter->limit = PAGE_ROWS;
    filter->brief = 1;
    do {
        g->seen = 0;
        status = semel_dead_list(store, filter, count_letter, g, err);
        filter->after_id = g->last_id;
    } while (!status && g->seen == PAGE_ROWS);
    return status;
}

/* The largest first; of those of one size, the one whose first letter is older. */
static int compare_groups(const void *left, const void *right)
{
    const semel_dead_group *a = *(semel_dead_group *const *)left;
    const semel_dead_group *b = *(semel_dead_group *const *)right;
    if (a->letters != b->letters)
        return a->letters > b->letters ? -1 : 1;
    return (a->first_id > b->first_id) - (a->first_id < b->first_id);
}

static void sort_groups(grouping *g)
{
    size_t count = 0;
    for (size_t i = 0; i < g->room; i++)
        if (g->groups[i])
            g->groups[count++] = g->groups[i];
    if (count)
        qsort(g->groups, count, sizeof(semel_dead_group *), compare_groups);
}

semel_status semel_dead_groups(semel_store *store, const semel_dead_filter *filter,
                               semel_dead_group_visitor *visitor, void *context, semel_error *err)
{
    grouping g = {.count = 0};
    semel_dead_filter wanted;
    semel_status status = dead_filter_read(&wanted, filter, err);
    if (status)
        return status;
    store->seam.random(store->seam.context, &g.key, sizeof g.key);
    status = count_letters(&g, store, &wanted, err);
    sort_groups(&g);
    for (size_t i = 0; !status && i < g.count; i++)
        status = visitor(g.groups[i], context, err);
    mem_free(g.groups);
    arena_free(&g.arena);
    return status;
}
