/* A hash table with the last message of each group so far, only for as long as it takes. */
#include "transport/nats/groups.h"

#include "base/hash.h"
#include "base/mem.h"

enum { SLOTS_LEAST = 16 };

typedef struct table {
    const semel_message *const *messages;
    size_t *slots; /* 0: free; else the index of the group's last message, and one */
    size_t mask;
} table;

/* Names of groups come from applications: a fixed key makes a batch slow at worst, and a batch is
 * short. */
static size_t *slot_of(const table *t, const char *group)
{
    static const hash_key key = {1, 2};
    size_t at = (size_t)hash_bytes(key, group, strlen(group)) & t->mask;
    while (t->slots[at] && strcmp(t->messages[t->slots[at] - 1]->group, group) != 0)
        at = (at + 1) & t->mask;
    return &t->slots[at];
}

static void link_all(jet_place *places, const table *t, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *group = t->messages[i]->group;
        places[i] = (jet_place){.next = JET_NO_NEXT};
        if (!group || !*group)
            continue;
        size_t *slot = slot_of(t, group);
        if (*slot)
            places[*slot - 1].next = i;
        places[i].follows = *slot != 0;
        *slot = i + 1;
    }
}

jet_place *jet_groups_find(const semel_message *const messages[], size_t count)
{
    size_t room = SLOTS_LEAST;
    while (room < 2 * count)
        room *= 2;
    table t = {messages, mem_alloc(room * sizeof *t.slots), room - 1};
    jet_place *places = t.slots ? mem_alloc((count + 1) * sizeof *places) : NULL;
    if (places)
        link_all(places, &t, count);
    mem_free(t.slots);
    return places;
}
