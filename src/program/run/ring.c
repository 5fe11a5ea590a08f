/* See ring.h. Each place has a number that says whose turn it is: that of its position if a writer
 * may fill it, one more if the reader may empty it. A writer takes a position by a
 * compare-and-swap, fills the place and then passes it on; a writer that sleeps in between holds up
 * the reader at this place, but no other writer. */
#include "program/run/ring.h"

#include "program/support/memory.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct place {
    atomic_size_t turn;
    void *thing;
} place;

struct ring {
    size_t mask;
    atomic_size_t write_at;
    size_t read_at; /* the reader's own */
    place places[];
};

ring *ring_open(size_t places)
{
    ring *all = must_alloc(sizeof *all + places * sizeof(place));
    all->mask = places - 1;
    for (size_t i = 0; i < places; i++)
        atomic_init(&all->places[i].turn, i);
    return all;
}

void ring_close(ring *all)
{
    void *thing;
    while (all && (thing = ring_pop(all)))
        free(thing);
    free(all);
}

int ring_push(ring *all, void *thing)
{
    size_t at = atomic_load_explicit(&all->write_at, memory_order_relaxed);
    for (;;) {
        place *p = &all->places[at & all->mask];
        size_t turn = atomic_load_explicit(&p->turn, memory_order_acquire);
        if (turn == at) {
            if (atomic_compare_exchange_weak(&all->write_at, &at, at + 1)) {
                p->thing = thing;
                atomic_store_explicit(&p->turn, at + 1, memory_order_release);
                return 1;
            }
        } else if ((intptr_t)(turn - at) < 0) {
            return 0;
        } else {
            at = atomic_load_explicit(&all->write_at, memory_order_relaxed);
        }
    }
}

int ring_is_full(ring *all)
{
    size_t at = atomic_load_explicit(&all->write_at, memory_order_relaxed);
    size_t turn = atomic_load_explicit(&all->places[at & all->mask].turn, memory_order_acquire);
    return (intptr_t)(turn - at) < 0;
}

void *ring_pop(ring *all)
{
    place *p = &all->places[all->read_at & all->mask];
    if (atomic_load_explicit(&p->turn, memory_order_acquire) != all->read_at + 1)
        return NULL;
    void *thing = p->thing;
    atomic_store_explicit(&p->turn, all->read_at + all->mask + 1, memory_order_release);
    all->read_at++;
    return thing;
}
