/* What a consumer of Kafka leaves behind when it commits, as the next one finds it, and what that
 * one leaves behind: a text that anyone may have written, then written and read again.
 *
 *     1042                            the committed offset
 *     semel/1 1050 2 +2-5,+9          the metadata
 *     nn+nt0s0nt                      what the partition's new owner does:
 *         n  a record comes, unless it is settled     +  ... that one is not there
 *         t  the first that is ready is handed out
 *         s, r and a digit                            settled, returned: of those that are out
 *
 *  - A text says nothing about what is before its offset, nor overflows: ranges ascend behind it,
 *    and their sum is the number of positions in them.
 *  - Deliveries are counted from 1 to the limit.
 *  - Of what came, nothing is settled for the next owner that was not settled here, or in the text
 *    that was found; and all that was, as far as there was room.
 *  - What was handed out is not a first delivery afterwards. */
#include "pieces.h"
#include "transport/kafka/progress.h"

enum { RECORDS_MAX = 400, LARGEST = 9 };

#define OFFSET_MAX (INT64_MAX / 4)

typedef struct owner {
    kafka_progress before;
    kafka_window window;
    int64_t next;   /* offset */
    int64_t handed; /* behind the last that was */
    struct {
        int64_t offset;
        int settled, handed;
    } came[RECORDS_MAX];
    size_t count;
} owner;

/* --- the text --------------------------------------------------------------------------------- */

static void check_ranges(const kafka_progress *p)
{
    uint64_t sum = 0;
    int64_t behind = p->offset;
    HOLDS(p->range_count <= KAFKA_RANGES_MAX);
    for (size_t i = 0; i < p->range_count; i++) {
        const kafka_range *range = &p->ranges[i];
        HOLDS(range->from > behind && range->to >= range->from);
        HOLDS(kafka_progress_is_settled(p, range->from) && kafka_progress_is_settled(p, range->to));
        sum += (uint64_t)(range->to - range->from) + 1;
        behind = range->to;
    }
    HOLDS(kafka_progress_settled(p) == sum);
    HOLDS(!kafka_progress_is_settled(p, p->offset));
    HOLDS(behind == INT64_MAX || !kafka_progress_is_settled(p, behind + 1));
}

static void check_progress(const kafka_progress *p, int64_t offset)
{
    HOLDS(p->offset == offset && p->handed >= offset);
    HOLDS(p->deliveries <= KAFKA_DELIVERY_MAX);
    HOLDS(kafka_progress_delivery(p, p->handed) == 1);
    for (int64_t i = 0; i < LARGEST && i < INT64_MAX - offset; i++) {
        uint32_t delivery = kafka_progress_delivery(p, offset + i);
        HOLDS(delivery >= 1 && delivery <= KAFKA_DELIVERY_MAX);
    }
    check_ranges(p);
}

/* --- an owner --------------------------------------------------------------------------------- */

/* A delivery is the place in `came`, from 1 on: the window asks only whether there is one. */
static void *delivery_of(size_t index)
{
    return (void *)(uintptr_t)(index + 1);
}

static size_t index_of(const void *delivery)
{
    return (size_t)(uintptr_t)delivery - 1;
}

static void come(owner *o)
{
    size_t i = o->count;
    if (i == RECORDS_MAX)
        return;
    int settled = kafka_progress_is_settled(&o->before, o->next);
    o->came[o->count++].offset = o->next;
    o->came[i].settled = settled;
    o->came[i].handed = 0;
    HOLDS(kafka_window_add(&o->window, o->next++, settled ? NULL : delivery_of(i)));
}

static void take(owner *o)
{
    void *delivery = kafka_window_take(&o->window, INT64_MAX);
    if (!delivery)
        return;
    size_t i = index_of(delivery);
    HOLDS(i < o->count && !o->came[i].settled);
    o->came[i].handed = 1;
    if (o->handed <= o->came[i].offset)
        o->handed = o->came[i].offset + 1;
}

/* The nth of those that are handed out and not settled. */
static void end(owner *o, int nth, int settled)
{
    for (size_t i = 0; i < o->count; i++) {
        if (!o->came[i].handed || o->came[i].settled || nth--)
            continue;
        o->came[i].settled = settled;
        if (settled)
            kafka_window_settle(&o->window, o->came[i].offset);
        else
            kafka_window_return(&o->window, o->came[i].offset);
        return;
    }
}

static void act(owner *o, piece script)
{
    for (size_t i = 0; i < script.len; i++) {
        char what = script.at[i], which = script.at[i + 1];
        int nth = which >= '0' && which <= '9' ? which - '0' : 0;
        if (what == 'n')
            come(o);
        else if (what == '+')
            o->next++;
        else if (what == 't')
            take(o);
        else if (what == 's' || what == 'r')
            end(o, nth, what == 's');
    }
}

/* --- what it leaves behind -------------------------------------------------------------------- */

static void check_claims(const owner *o, const kafka_progress *after)
{
    int64_t last = after->range_count ? after->ranges[after->range_count - 1].to : after->offset;
    for (size_t i = 0; i < o->count; i++) {
        int64_t offset = o->came[i].offset;
        int claimed = offset < after->offset || kafka_progress_is_settled(after, offset);
        HOLDS(!claimed || o->came[i].settled);
        HOLDS(claimed || !o->came[i].settled || offset > last);
        HOLDS(!o->came[i].handed || claimed || kafka_progress_delivery(after, offset) > 1);
    }
}

static void check_commit(owner *o)
{
    char text[KAFKA_PROGRESS_ROOM];
    static kafka_progress after;
    const void *first = kafka_window_first(&o->window);
    int64_t prefix = kafka_window_prefix(&o->window);
    uint32_t deliveries = first ? kafka_progress_delivery(&o->before, prefix) : 0;
    if (prefix < 0)
        return;
    memset(text, 'x', sizeof text);
    kafka_progress_write(text, &o->window, &o->before, o->handed, deliveries);
    size_t len = strnlen(text, sizeof text);
    HOLDS(len < sizeof text && strpbrk(text, "\r\nx") == NULL);
    char *exact = exact_copy(text, len);
    kafka_progress_read(&after, prefix, exact, len);
    free(exact);
    check_progress(&after, prefix);
    HOLDS_FOR(text, after.handed == (o->handed > prefix ? o->handed : prefix));
    HOLDS_FOR(text, after.deliveries == deliveries);
    check_claims(o, &after);
}

/* --- all of it -------------------------------------------------------------------------------- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static owner o;
    piece rest = pieces_of(data, size), all = rest;
    int64_t offset = strtoll(take_until(&rest, '\n').at, NULL, 10);
    piece metadata = take_until(&rest, '\n');
    char *exact = exact_copy(metadata.at, metadata.len);
    o.count = 0;
    kafka_progress_read(&o.before, offset, exact, metadata.len);
    free(exact);
    if (offset >= 0) {
        check_progress(&o.before, offset);
        if (offset < OFFSET_MAX - (int64_t)size) { /* no step goes further than by one */
            kafka_window_init(&o.window);
            o.next = offset;
            o.handed = offset;
            act(&o, rest);
            check_commit(&o);
            kafka_window_free(&o.window);
        }
    } else {
        HOLDS(!o.before.range_count);
    }
    free(all.at);
    return 0;
}
