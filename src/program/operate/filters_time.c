/* A time as a person types it: filters.h. */
#include "program/operate/filters.h"

#include "program/support/units.h"

#include <string.h>
#include <time.h>

enum { MS_PER_S = 1000, MINUTE_S = 60, HOUR_S = 3600 };

/* What was typed, as far as it was typed. */
typedef struct typed_time {
    struct tm at;
    int ms;
    int has_date, has_time, has_zone;
    int zone_s; /* east of Greenwich */
} typed_time;

/* Exactly that many digits, up to `most`; moves *at behind them. */
static int take_number(int *out, const char **at, int digits, int most)
{
    int number = 0;
    for (int i = 0; i < digits; i++) {
        if (**at < '0' || **at > '9')
            return 0;
        number = number * 10 + (*(*at)++ - '0');
    }
    *out = number;
    return number <= most;
}

static int take_character(const char **at, char c)
{
    if (**at != c)
        return 0;
    ++*at;
    return 1;
}

static int days_of(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : days[month - 1];
}

static int take_date(typed_time *out, const char **at)
{
    int year, month, day;
    if (!take_number(&year, at, 4, 9999) || !take_character(at, '-') ||
        !take_number(&month, at, 2, 12) || !take_character(at, '-') ||
        !take_number(&day, at, 2, 31) || year < 1970 || !month || !day ||
        day > days_of(year, month))
        return 0;
    out->at.tm_year = year - 1900;
    out->at.tm_mon = month - 1;
    out->at.tm_mday = day;
    out->has_date = 1;
    return 1;
}

/* Behind the seconds: .5, .402; what is finer than a millisecond is cut. */
static int take_fraction(typed_time *out, const char **at)
{
    int scale = 100;
    if (!take_character(at, '.'))
        return 1;
    if (**at < '0' || **at > '9')
        return 0;
    for (; **at >= '0' && **at <= '9'; ++*at, scale /= 10)
        out->ms += scale * (**at - '0');
    return 1;
}

static int take_clock(typed_time *out, const char **at)
{
    if (!take_number(&out->at.tm_hour, at, 2, 23) || !take_character(at, ':') ||
        !take_number(&out->at.tm_min, at, 2, 59))
        return 0;
    out->has_time = 1;
    return !take_character(at, ':') ||
           (take_number(&out->at.tm_sec, at, 2, 59) && take_fraction(out, at));
}

/* Z, +01:00 or nothing. */
static int take_zone(typed_time *out, const char **at)
{
    int hours, minutes, sign = **at == '-' ? -1 : 1;
    if (take_character(at, 'Z')) {
        out->has_zone = 1;
        return 1;
    }
    if (!take_character(at, '+') && !take_character(at, '-'))
        return 1;
    if (!take_number(&hours, at, 2, 23) || !take_character(at, ':') ||
        !take_number(&minutes, at, 2, 59))
        return 0;
    out->has_zone = 1;
    out->zone_s = sign * (hours * HOUR_S + minutes * MINUTE_S);
    return 1;
}

static int take_all(typed_time *out, const char *text)
{
    const char *at = text;
    if (strlen(text) > 5 && text[4] == '-') {
        if (!take_date(out, &at))
            return 0;
        if (!*at)
            return 1;
        if (!take_character(&at, ' ') && !take_character(&at, 'T'))
            return 0;
    }
    return take_clock(out, &at) && (!out->has_date || take_zone(out, &at)) && !*at;
}

static int64_t in_ms(const typed_time *typed, int utc)
{
    struct tm at = typed->at;
    at.tm_isdst = -1;
    time_t seconds = typed->has_zone || utc ? timegm(&at) : mktime(&at);
    return ((int64_t)seconds - typed->zone_s) * MS_PER_S + typed->ms;
}

/* A time of the day is the last one: shortly after midnight, 23:50 was yesterday. */
static int64_t last_of_day(typed_time *typed, int64_t now_ms, int utc)
{
    time_t now = (time_t)(now_ms / MS_PER_S);
    struct tm today = {0};
    (void)(utc ? gmtime_r(&now, &today) : localtime_r(&now, &today));
    typed->at.tm_year = today.tm_year;
    typed->at.tm_mon = today.tm_mon;
    typed->at.tm_mday = today.tm_mday;
    int64_t at_ms = in_ms(typed, utc);
    typed->at.tm_mday--;
    return at_ms > now_ms ? in_ms(typed, utc) : at_ms;
}

int filters_time(int64_t *out_ms, const char *text, int64_t now_ms, int utc)
{
    typed_time typed = {0};
    uint64_t ago = 0;
    if (units_duration(&ago, text, "s", NULL) == UNITS_OK) {
        *out_ms = ago >= (uint64_t)now_ms ? 1 : now_ms - (int64_t)ago;
        return 1;
    }
    if (!take_all(&typed, text))
        return 0;
    *out_ms = typed.has_date ? in_ms(&typed, utc) : last_of_day(&typed, now_ms, utc);
    return 1;
}
