/* See consumer_batch.h. Nothing of it is stored: a process that dies starts with one again. */
#include "core/consumer_batch.h"

enum { PATIENCE_MAX = 63, SINGLE_WEIGHT = 8 };

batch_limit batch_limit_fixed(uint32_t number)
{
    return (batch_limit){.now = number, .most = number, .fixed = 1, .single_ms = -1};
}

batch_limit batch_limit_adaptive(uint32_t most)
{
    return (batch_limit){.now = 1, .most = most, .single_ms = -1};
}

void batch_limit_reset(batch_limit *limit)
{
    if (limit->fixed)
        return;
    limit->now = 1;
    limit->quick = 0;
    limit->untried = 0;
}

/* A shorter one is believed at once, a longer one slowly: it may have waited for something. */
static void note_single(batch_limit *limit, int64_t whole_ms)
{
    if (limit->single_ms < 0 || whole_ms < limit->single_ms)
        limit->single_ms = whole_ms;
    else
        limit->single_ms += (whole_ms - limit->single_ms + SINGLE_WEIGHT - 1) / SINGLE_WEIGHT;
}

/* What the batch adds to a transaction. */
static int64_t added_ms(const batch_limit *limit, const batch_seen *seen)
{
    int64_t longer = limit->single_ms < 0 ? 0 : seen->whole_ms - limit->single_ms;
    return seen->taken > 1 && longer > seen->handlers_ms ? longer : seen->handlers_ms;
}

/* As many as the budget has time for, going by those that were handled. */
static void shrink(batch_limit *limit, uint32_t handled, int64_t took_ms)
{
    int64_t fits = (int64_t)handled * BATCH_BUDGET_MS / took_ms;
    limit->now = fits < 1 ? 1 : fits < (int64_t)limit->now ? (uint32_t)fits : limit->now;
    limit->patience = limit->patience < PATIENCE_MAX ? 2 * limit->patience + 1 : PATIENCE_MAX;
    limit->quick = 0;
    limit->untried = 0;
}

/* Patience is lost when a larger batch goes well, not when it is tried. */
static void grow(batch_limit *limit)
{
    if (limit->untried)
        limit->patience /= 2;
    limit->untried = 0;
    if (limit->quick++ < limit->patience)
        return;
    limit->quick = 0;
    limit->untried = 1;
    limit->now = limit->now < limit->most / 2 ? 2 * limit->now : limit->most;
}

void batch_limit_note(batch_limit *limit, const batch_seen *seen)
{
    if (limit->fixed)
        return;
    if (seen->taken == 1)
        note_single(limit, seen->whole_ms);
    int64_t took_ms = added_ms(limit, seen);
    if (took_ms > BATCH_BUDGET_MS)
        shrink(limit, seen->handled, took_ms);
    else if (!seen->troubled && seen->taken >= limit->now && 2 * took_ms <= BATCH_BUDGET_MS)
        grow(limit);
    if (seen->troubled)
        batch_limit_reset(limit);
}

uint32_t batch_limit_share(const batch_limit *limit, uint32_t ready, uint32_t workers)
{
    uint32_t share = workers > 1 ? (ready + workers - 1) / workers : ready;
    if (limit->fixed || share >= limit->now)
        return limit->now;
    return share ? share : 1;
}
