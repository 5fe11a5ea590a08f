/* The positions of one partition from the first that is not settled on: which are ready, which are
 * out, and how far everything is settled. An offset may be committed up to there and no further.
 *
 * Offsets come in ascending order, with gaps: compaction and transactions leave some out. The owner
 * has a lock; the window does not look into the deliveries that it holds. */
#ifndef SEMEL_TRANSPORT_KAFKA_WINDOW_H
#define SEMEL_TRANSPORT_KAFKA_WINDOW_H

#include <stddef.h>
#include <stdint.h>

typedef struct kafka_place {
    int64_t offset;
    void *delivery; /* NULL: settled */
    int is_ready;   /* else it is out */
} kafka_place;

typedef struct kafka_window {
    kafka_place *places; /* a ring */
    size_t room;         /* a power of two, or 0 */
    size_t first;
    size_t count;
    size_t unsettled;
    size_t ready;
    size_t ready_from; /* no place before this one, counted from the first, is ready */
    int64_t next;      /* behind the last offset that came; -1: none came yet */
} kafka_window;

void kafka_window_init(kafka_window *window);
void kafka_window_free(kafka_window *window); /* the deliveries are the caller's */

/* Adds what has come, as ready; with delivery NULL as settled. 0: out of memory. */
int kafka_window_add(kafka_window *window, int64_t offset, void *delivery);

/* The lowest offset that is ready, if it is below `limit`, becomes out; NULL if there is none. */
void *kafka_window_take(kafka_window *window, int64_t limit);

/* What is out becomes ready again, or settled. */
void kafka_window_return(kafka_window *window, int64_t offset);
void kafka_window_settle(kafka_window *window, int64_t offset);

/* The first offset that is not settled; if all are, the one behind the last. -1: none came yet. */
int64_t kafka_window_prefix(const kafka_window *window);
void *kafka_window_first(const kafka_window *window); /* its delivery, or NULL */

/* Empties the window, one delivery that was ready after the other; NULL: it is empty. Those that
 * were out are forgotten. */
void *kafka_window_drain(kafka_window *window);

#endif
