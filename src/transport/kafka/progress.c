/* "semel/1 HANDED DELIVERIES RANGES", the ranges as distances from the committed offset: "+2-5,+9".
 * Brokers keep up to 4096 bytes of metadata unless they are told otherwise. */
#include "transport/kafka/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANGE_ROOM = 48 };

static const char version[] = "semel/1 ";

/* --- reading ---------------------------------------------------------------------------------- */

/* A number of digits only; -1 if there is none. */
static int64_t read_number(const char **at)
{
    char *end;
    if (**at < '0' || **at > '9')
        return -1;
    long long number = strtoll(*at, &end, 10);
    *at = end;
    return number < INT64_MAX / 4 ? number : -1;
}

/* Ranges ascend, and the first one is behind the offset. */
static int add_range(kafka_progress *out, int64_t from, int64_t to)
{
    int64_t least = out->range_count ? out->ranges[out->range_count - 1].to + 1 : out->offset + 1;
    if (from < least || to < from || out->range_count == KAFKA_RANGES_MAX)
        return 0;
    out->ranges[out->range_count++] = (kafka_range){from, to};
    return 1;
}

static void read_ranges(kafka_progress *out, const char *at)
{
    while (*at == '+') {
        at++;
        int64_t from = read_number(&at), to = from;
        if (*at == '-') {
            at++;
            to = read_number(&at);
        }
        if (from < 0 || to < 0 || !add_range(out, out->offset + from, out->offset + to))
            return;
        at += *at == ',';
    }
}

void kafka_progress_read(kafka_progress *out, int64_t offset, const char *text, size_t len)
{
    char copy[KAFKA_PROGRESS_ROOM];
    *out = (kafka_progress){.offset = offset, .handed = offset};
    if (offset < 0 || offset > INT64_MAX / 4 || !text || len >= sizeof copy)
        return;
    memcpy(copy, text, len);
    copy[len] = 0;
    if (strncmp(copy, version, sizeof version - 1) != 0)
        return;
    const char *at = copy + sizeof version - 1;
    int64_t handed = read_number(&at);
    at += *at == ' ';
    int64_t deliveries = read_number(&at);
    at += *at == ' ';
    if (handed < offset || deliveries < 0)
        return;
    out->handed = handed;
    out->deliveries = deliveries < KAFKA_DELIVERY_MAX ? (uint32_t)deliveries : KAFKA_DELIVERY_MAX;
    read_ranges(out, at);
}

void kafka_progress_fit(kafka_progress *progress, int64_t first)
{
    if (first < progress->offset)
        *progress = (kafka_progress){.offset = -1, .handed = -1};
}

/* --- asking ----------------------------------------------------------------------------------- */

int kafka_progress_is_settled(const kafka_progress *progress, int64_t offset)
{
    for (size_t i = 0; i < progress->range_count && progress->ranges[i].from <= offset; i++)
        if (offset <= progress->ranges[i].to)
            return 1;
    return 0;
}

uint64_t kafka_progress_settled(const kafka_progress *progress)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < progress->range_count; i++)
        sum += (uint64_t)(progress->ranges[i].to - progress->ranges[i].from) + 1;
    return sum;
}

uint32_t kafka_progress_delivery(const kafka_progress *progress, int64_t offset)
{
    uint32_t before = offset >= progress->handed   ? 0
                      : offset == progress->offset ? progress->deliveries
                                                   : 1;
    return before < KAFKA_DELIVERY_MAX ? before + 1 : KAFKA_DELIVERY_MAX;
}

/* --- writing ---------------------------------------------------------------------------------- */

typedef struct range_text {
    char *out;
    size_t len;
    int64_t base; /* the prefix */
    int64_t from, to;
    int is_open;
    int is_full;
} range_text;

static void end_range(range_text *t)
{
    char one[RANGE_ROOM];
    const char *comma = t->out[t->len - 1] == ' ' ? "" : ",";
    if (!t->is_open || t->is_full)
        return;
    t->is_open = 0;
    int len = t->from == t->to ? snprintf(one, sizeof one, "%s+%" PRId64, comma, t->from - t->base)
                               : snprintf(one, sizeof one, "%s+%" PRId64 "-%" PRId64, comma,
                                          t->from - t->base, t->to - t->base);
    t->is_full = t->len + (size_t)len >= KAFKA_PROGRESS_ROOM;
    if (t->is_full)
        return;
    memcpy(t->out + t->len, one, (size_t)len + 1);
    t->len += (size_t)len;
}

/* Offsets that are not there at all belong to the range around them. */
static void add_place(range_text *t, const kafka_place *place)
{
    if (place->delivery) {
        end_range(t);
        return;
    }
    if (!t->is_open)
        t->from = place->offset;
    t->to = place->offset;
    t->is_open = 1;
}

static void add_ranges_from(range_text *t, const kafka_progress *before, int64_t next)
{
    for (size_t i = 0; !t->is_full && i < before->range_count; i++) {
        const kafka_range *range = &before->ranges[i];
        if (range->to < next)
            continue;
        t->from = range->from > next ? range->from : next;
        t->to = range->to;
        t->is_open = 1;
        end_range(t);
    }
}

void kafka_progress_write(char out[KAFKA_PROGRESS_ROOM], const kafka_window *window,
                          const kafka_progress *before, int64_t handed, uint32_t deliveries)
{
    int64_t prefix = kafka_window_prefix(window);
    int len = snprintf(out, KAFKA_PROGRESS_ROOM, "%s%" PRId64 " %" PRIu32 " ", version,
                       handed > prefix ? handed : prefix, deliveries);
    range_text t = {.out = out, .len = (size_t)len, .base = prefix};
    size_t settled = window->count - window->unsettled;
    for (size_t i = 0; settled && !t.is_full && i < window->count; i++) {
        const kafka_place *place = &window->places[(window->first + i) & (window->room - 1)];
        settled -= place->delivery == NULL;
        add_place(&t, place);
    }
    end_range(&t);
    add_ranges_from(&t, before, window->next);
}
