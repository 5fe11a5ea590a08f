/* See units.h. */
#include "program/support/units.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef struct unit {
    const char *name;
    uint64_t size;
} unit;

/* From large to small, as they are shown. */
static const unit durations[] = {{"w", 604800000}, {"d", 86400000}, {"h", 3600000},
                                 {"m", 60000},     {"s", 1000},     {"ms", 1}};
static const unit sizes[] = {{"TiB", UINT64_C(1) << 40},
                             {"GiB", UINT64_C(1) << 30},
                             {"MiB", UINT64_C(1) << 20},
                             {"KiB", UINT64_C(1) << 10},
                             {"B", 1}};

/* What people also write, and what it is called here. */
typedef struct other_name {
    const char *name;
    const char *unit;
} other_name;

static const other_name other_durations[] = {{"week", "w"},
                                             {"weeks", "w"},
                                             {"day", "d"},
                                             {"days", "d"},
                                             {"hour", "h"},
                                             {"hours", "h"},
                                             {"hr", "h"},
                                             {"hrs", "h"},
                                             {"minute", "m"},
                                             {"minutes", "m"},
                                             {"min", "m"},
                                             {"mins", "m"},
                                             {"sec", "s"},
                                             {"secs", "s"},
                                             {"second", "s"},
                                             {"seconds", "s"},
                                             {"msec", "ms"},
                                             {"millis", "ms"},
                                             {"milliseconds", "ms"},
                                             {"w", "w"},
                                             {"d", "d"},
                                             {"h", "h"},
                                             {"m", "m"},
                                             {"s", "s"},
                                             {"ms", "ms"},
                                             {NULL, NULL}};
static const other_name other_sizes[] = {
    {"k", "KiB"}, {"kb", "KiB"},  {"kib", "KiB"}, {"m", "MiB"}, {"mb", "MiB"}, {"mib", "MiB"},
    {"g", "GiB"}, {"gb", "GiB"},  {"gib", "GiB"}, {"t", "TiB"}, {"tb", "TiB"}, {"tib", "TiB"},
    {"b", "B"},   {"bytes", "B"}, {"byte", "B"},  {NULL, NULL}};

static const unit *find_unit(const unit *units, size_t count, const char *name, size_t len)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(units[i].name) == len && strncmp(units[i].name, name, len) == 0)
            return &units[i];
    return NULL;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Digits; *text is behind them. */
static uint64_t take_number(const char **text)
{
    uint64_t number = 0;
    for (; isdigit((unsigned char)**text); (*text)++)
        number = plus(times(number, 10), (uint64_t)(**text - '0'));
    return number;
}

/* One or more of number and unit, each unit smaller than the one before it. */
static units_result take_all(uint64_t *out, const char *text, const unit *units, size_t count)
{
    const unit *last = NULL;
    uint64_t sum = 0;
    do {
        if (!isdigit((unsigned char)*text))
            return UNITS_WRONG;
        uint64_t number = take_number(&text);
        size_t len = strcspn(text, "0123456789");
        if (!len)
            return last ? UNITS_WRONG : UNITS_MISSING;
        const unit *found = find_unit(units, count, text, len);
        if (!found || (last && found <= last))
            return UNITS_WRONG;
        sum = plus(sum, times(number, found->size));
        last = found;
        text += len;
    } while (*text);
    *out = sum;
    return UNITS_OK;
}

/* A number and the name of a unit as people also write it: "2 weeks", "256MB". */
static void guess(units_meant *meant, const char *text, const other_name *names)
{
    size_t digits = strspn(text, "0123456789");
    const char *word = text + digits + strspn(text + digits, " ");
    if (!digits || digits > 12)
        return;
    for (; names->name; names++)
        if (strcasecmp(word, names->name) == 0)
            (void)snprintf(meant->text, sizeof meant->text, "%.*s%s", (int)digits, text,
                           names->unit);
}

static void suggest_unit(units_meant *meant, const char *text, const char *unit_name)
{
    if (strlen(text) <= 12)
        (void)snprintf(meant->text, sizeof meant->text, "%s%s", text, unit_name);
}

units_result units_duration(uint64_t *ms, const char *text, const char *unit_name,
                            units_meant *meant)
{
    units_meant ignored = {""};
    meant = meant ? meant : &ignored;
    *meant = ignored;
    units_result result = take_all(ms, text, durations, sizeof durations / sizeof *durations);
    if (result == UNITS_MISSING)
        suggest_unit(meant, text, unit_name);
    else if (result == UNITS_WRONG)
        guess(meant, text, other_durations);
    return result;
}

units_result units_size(uint64_t *bytes, const char *text, units_meant *meant)
{
    units_meant ignored = {""};
    meant = meant ? meant : &ignored;
    *meant = ignored;
    units_result result = take_all(bytes, text, sizes, sizeof sizes / sizeof *sizes);
    if (result == UNITS_MISSING)
        suggest_unit(meant, text, "B");
    else if (result == UNITS_WRONG)
        guess(meant, text, other_sizes);
    return result;
}

/* --- showing ---------------------------------------------------------------------------------- */

/* The largest units that fit, until nothing is left. */
static units_text show(uint64_t value, const unit *units, size_t count)
{
    units_text out = {""};
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        if (value >= units[i].size) {
            used += (size_t)snprintf(out.text + used, sizeof out.text - used, "%llu%s",
                                     (unsigned long long)(value / units[i].size), units[i].name);
            value %= units[i].size;
        }
    if (!used)
        (void)snprintf(out.text, sizeof out.text, "0%s", units[count - 1].name);
    return out;
}

units_text units_show_duration(uint64_t ms)
{
    const size_t weeks = 1; /* 14d, not 2w */
    return ms ? show(ms, durations + weeks, sizeof durations / sizeof *durations - weeks)
              : (units_text){"0s"};
}

units_text units_show_size(uint64_t bytes)
{
    return show(bytes, sizes, sizeof sizes / sizeof *sizes);
}

const char *units_last(const char *duration)
{
    size_t len = strlen(duration);
    while (len && isalpha((unsigned char)duration[len - 1]))
        len--;
    return duration + len;
}
