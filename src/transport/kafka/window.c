/* A ring that grows. Settled places stay until all before them are settled, too; then the ring's
 * beginning moves over them. A place is found by halving, since offsets ascend. */
#include "transport/kafka/window.h"

#include "base/mem.h"

enum { ROOM_LEAST = 64 };

void kafka_window_init(kafka_window *window)
{
    *window = (kafka_window){.next = -1};
}

void kafka_window_free(kafka_window *window)
{
    mem_free(window->places);
    kafka_window_init(window);
}

static kafka_place *place_at(const kafka_window *window, size_t index)
{
    return &window->places[(window->first + index) & (window->room - 1)];
}

static int grow(kafka_window *window)
{
    size_t room = window->room ? 2 * window->room : ROOM_LEAST;
    kafka_place *places = mem_alloc(room * sizeof *places);
    if (!places)
        return 0;
    for (size_t i = 0; i < window->count; i++)
        places[i] = *place_at(window, i);
    mem_free(window->places);
    window->places = places;
    window->room = room;
    window->first = 0;
    return 1;
}

/* The ring's beginning moves over what is settled. */
static void pass_settled(kafka_window *window)
{
    while (window->count && !place_at(window, 0)->delivery) {
        window->first = (window->first + 1) & (window->room - 1);
        window->count--;
        window->ready_from -= window->ready_from > 0;
    }
}

int kafka_window_add(kafka_window *window, int64_t offset, void *delivery)
{
    if (window->count == window->room && !grow(window))
        return 0;
    *place_at(window, window->count++) = (kafka_place){offset, delivery, delivery != NULL};
    window->next = offset + 1;
    window->unsettled += delivery != NULL;
    window->ready += delivery != NULL;
    pass_settled(window);
    return 1;
}

void *kafka_window_take(kafka_window *window, int64_t limit)
{
    for (; window->ready && window->ready_from < window->count; window->ready_from++) {
        kafka_place *place = place_at(window, window->ready_from);
        if (!place->is_ready)
            continue;
        if (place->offset >= limit)
            return NULL;
        place->is_ready = 0;
        window->ready--;
        return place->delivery;
    }
    return NULL;
}

/* How many places are before the first one that has this offset or a later one. */
static size_t index_of(const kafka_window *window, int64_t offset)
{
    size_t low = 0, high = window->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (place_at(window, middle)->offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static kafka_place *find(const kafka_window *window, int64_t offset, size_t *index)
{
    *index = index_of(window, offset);
    kafka_place *place = *index < window->count ? place_at(window, *index) : NULL;
    return place && place->offset == offset && place->delivery ? place : NULL;
}

void kafka_window_return(kafka_window *window, int64_t offset)
{
    size_t index;
    kafka_place *place = find(window, offset, &index);
    if (!place || place->is_ready)
        return;
    place->is_ready = 1;
    window->ready++;
    if (index < window->ready_from)
        window->ready_from = index;
}

void kafka_window_settle(kafka_window *window, int64_t offset)
{
    size_t index;
    kafka_place *place = find(window, offset, &index);
    if (!place)
        return;
    window->ready -= place->is_ready != 0;
    window->unsettled--;
    place->is_ready = 0;
    place->delivery = NULL;
    pass_settled(window);
}

int64_t kafka_window_prefix(const kafka_window *window)
{
    return window->count ? place_at(window, 0)->offset : window->next;
}

void *kafka_window_first(const kafka_window *window)
{
    return window->count ? place_at(window, 0)->delivery : NULL;
}

void *kafka_window_drain(kafka_window *window)
{
    while (window->count) {
        kafka_place place = *place_at(window, 0);
        window->first = (window->first + 1) & (window->room - 1);
        window->count--;
        if (place.is_ready)
            return place.delivery;
    }
    kafka_window_free(window);
    return NULL;
}
