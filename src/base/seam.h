/* The system's clock, sleep and randomness behind semel_seam, and the calls through one. */
#ifndef SEMEL_BASE_SEAM_H
#define SEMEL_BASE_SEAM_H

#include <semel/store.h>

/* A complete seam: the given one's members where it has them, the system's elsewhere. */
void seam_complete(semel_seam *out, const semel_seam *given);

static inline int64_t seam_wall_ms(const semel_seam *seam)
{
    return seam->wall_ms(seam->context);
}

static inline int64_t seam_steady_ms(const semel_seam *seam)
{
    return seam->steady_ms(seam->context);
}

static inline void seam_sleep_ms(const semel_seam *seam, uint32_t ms)
{
    seam->sleep_ms(seam->context, ms);
}

/* SEMEL_OK, or the failure that a test ordered for this point. */
semel_status seam_fault_slow(const semel_seam *seam, const char *point, semel_error *err);

static inline semel_status seam_fault(const semel_seam *seam, const char *point, semel_error *err)
{
    return seam->fault ? seam_fault_slow(seam, point, err) : SEMEL_OK;
}

/* A random number, and one from 0 to below `bound`. */
uint64_t seam_random(const semel_seam *seam);
uint64_t seam_random_below(const semel_seam *seam, uint64_t bound);

/* Exponential backoff with jitter: for failure number `failures` (from 1), between half and all of
 * base_ms * 2^(failures-1), never over max_ms. */
uint32_t seam_backoff_ms(const semel_seam *seam, uint32_t base_ms, uint32_t max_ms,
                         uint32_t failures);
uint32_t seam_backoff_most_ms(uint32_t base_ms, uint32_t max_ms, uint32_t failures); /* all of it */

#endif
