/* Durations (`7d`, `200ms`, `1h30m`) and sizes (`64KiB`) as people write them. */
#ifndef SEMEL_PROGRAM_SUPPORT_UNITS_H
#define SEMEL_PROGRAM_SUPPORT_UNITS_H

#include <stddef.h>
#include <stdint.h>

#define UNITS_DURATION "ms, s, m, h, d, w"
#define UNITS_SIZE     "B, KiB, MiB, GiB, TiB"

typedef enum units_result {
    UNITS_OK = 0,
    UNITS_MISSING, /* a number without a unit */
    UNITS_WRONG    /* something else */
} units_result;

/* What was probably meant; "" if that cannot be said. */
typedef struct units_meant {
    char text[32];
} units_meant;

/* `unit` is the one that is suggested if there is none: "s". Values saturate at UINT64_MAX. `meant`
 * may be NULL. */
units_result units_duration(uint64_t *ms, const char *text, const char *unit, units_meant *meant);
units_result units_size(uint64_t *bytes, const char *text, units_meant *meant);

typedef struct units_text {
    char text[48];
} units_text;

units_text units_show_duration(uint64_t ms);  /* 2h35m */
units_text units_show_size(uint64_t bytes);   /* 64KiB */
const char *units_last(const char *duration); /* the unit that "7d" ends with: "d" */

#endif
