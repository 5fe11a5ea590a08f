/* What a consumer leaves behind with the offset that it commits, for the next owner of the
 * partition: how far messages were handed out, how often the first of them was, and which behind it
 * are settled already. It travels as the metadata of the commit, a short text.
 *
 * Kafka counts no deliveries. Without this a message that kills its process would look like a new
 * one each time, and would do so for ever. */
#ifndef SEMEL_TRANSPORT_KAFKA_PROGRESS_H
#define SEMEL_TRANSPORT_KAFKA_PROGRESS_H

#include "transport/kafka/window.h"

enum { KAFKA_RANGES_MAX = 256, KAFKA_PROGRESS_ROOM = 2048, KAFKA_DELIVERY_MAX = 1000 };

typedef struct kafka_range {
    int64_t from, to; /* the first and the last */
} kafka_range;

typedef struct kafka_progress {
    int64_t offset;      /* committed: everything before it is settled; -1: nothing is known */
    int64_t handed;      /* from here on nothing was handed out */
    uint32_t deliveries; /* of the message at `offset`, if it is before `handed` */
    size_t range_count;  /* settled behind the offset, in ascending order */
    kafka_range ranges[KAFKA_RANGES_MAX];
} kafka_progress;

/* Of a text that another consumer may have written: what makes no sense is left out. */
void kafka_progress_read(kafka_progress *out, int64_t offset, const char *text, size_t len);

/* The first record that has come, of those from `offset` on. If its position is a lower one, the
 * log has gone back: what is known was said of other records, and is forgotten. */
void kafka_progress_fit(kafka_progress *progress, int64_t first);

/* 1 if this position is settled already. */
int kafka_progress_is_settled(const kafka_progress *progress, int64_t offset);

/* How many positions behind the offset are settled. */
uint64_t kafka_progress_settled(const kafka_progress *progress);

/* The number of the delivery that this position has next: 1 if it was not handed out before. */
uint32_t kafka_progress_delivery(const kafka_progress *progress, int64_t offset);

/* The text for a commit of the window's prefix, with the ranges of `before` that the window has not
 * come to. As many ranges as there is room for: what is left out comes again. */
void kafka_progress_write(char out[KAFKA_PROGRESS_ROOM], const kafka_window *window,
                          const kafka_progress *before, int64_t handed, uint32_t deliveries);

#endif
