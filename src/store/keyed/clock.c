/* The clock of a database, as its answers tell it. See semel/sys/keyed.h. */
#include "store/keyed/keyed.h"

enum { DRIFT_PPM = 200, US_PER_MS = 1000 };

/* Two clocks that were set alike differ by this much after so many microseconds. */
static int64_t drift_us(int64_t since_us)
{
    return since_us > 0 ? since_us / (1000000 / DRIFT_PPM) + 1 : 0;
}

void semel_keyed_clock_learn(semel_keyed_clock *clock, int64_t sent_us, int64_t heard_us,
                             int64_t from_us, int64_t to_us)
{
    int64_t low = from_us - heard_us, high = to_us - sent_us;
    if (clock->known) {
        int64_t drift = drift_us(heard_us - clock->at_us);
        int64_t known_low = clock->low_us - drift, known_high = clock->high_us + drift;
        if (known_low <= high && low <= known_high) { /* else the database's clock was set */
            low = low > known_low ? low : known_low;
            high = high < known_high ? high : known_high;
        }
    }
    clock->low_us = low;
    clock->high_us = high;
    clock->at_us = heard_us;
    clock->known = 1;
}

int semel_keyed_clock_read(semel_keyed_clock *clock, int64_t steady_us, int64_t *out_ms,
                           uint32_t *error_ms)
{
    if (!clock->known)
        return 0;
    int64_t drift = drift_us(steady_us - clock->at_us);
    int64_t half_us = (clock->high_us - clock->low_us) / 2 + drift;
    int64_t now_ms = (steady_us + clock->low_us + (clock->high_us - clock->low_us) / 2) / US_PER_MS;
    int64_t error = (half_us + US_PER_MS - 1) / US_PER_MS;
    if (now_ms < clock->latest_ms) {
        error += clock->latest_ms - now_ms;
        now_ms = clock->latest_ms;
    }
    clock->latest_ms = now_ms;
    *out_ms = now_ms;
    *error_ms = error > UINT32_MAX ? UINT32_MAX : (uint32_t)error;
    return 1;
}
