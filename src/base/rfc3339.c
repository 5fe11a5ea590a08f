/* No locale, no time zone database, no gmtime(): the civil calendar in a few lines of arithmetic,
 * after Howard Hinnant's "chrono-Compatible Low-Level Date Algorithms". The year is counted from
 * March, so that the leap day is its last; 400 years are one era of 146097 days, after which
 * everything repeats.
 *
 * A leap second (23:59:60 UTC) is the first instant of the next day, as in POSIX time. */
#include "base/rfc3339.h"

/* Of the years 0 to 9999 in UTC. An offset may lead out of them, to times that cannot be
 * written. */
#define SECOND_MIN INT64_C(-62167219200)
#define SECOND_MAX INT64_C(253402300799)

enum {
    DAYS_PER_ERA = 146097,
    DAYS_TO_1970 = 719468, /* from 0000-03-01 */
    MS_PER_DAY = 86400000
};

static int64_t days_from_civil(int year, int month, int day)
{
    int64_t march_year = month > 2 ? year : (int64_t)year - 1;
    int64_t era = (march_year >= 0 ? march_year : march_year - 399) / 400;
    int64_t year_of_era = march_year - era * 400;
    int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * DAYS_PER_ERA + day_of_era - DAYS_TO_1970;
}

static void civil_from_days(int64_t days, int64_t *year, int *month, int *day)
{
    int64_t shifted = days + DAYS_TO_1970;
    int64_t era = (shifted >= 0 ? shifted : shifted - (DAYS_PER_ERA - 1)) / DAYS_PER_ERA;
    int64_t day_of_era = shifted - era * DAYS_PER_ERA;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int march_month = (int)((5 * day_of_year + 2) / 153);
    *day = (int)(day_of_year - (153 * march_month + 2) / 5 + 1);
    *month = march_month < 10 ? march_month + 3 : march_month - 9;
    *year = year_of_era + era * 400 + (*month <= 2);
}

static int days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (month == 2 && leap);
}

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct reader {
    const char *at;
    const char *end;
    int failed; /* sticks: what is read afterwards is 0 and means nothing */
} reader;

static int take(reader *r, char wanted)
{
    if (r->failed || r->at == r->end || *r->at != wanted)
        return 0;
    r->at++;
    return 1;
}

static void expect(reader *r, char wanted)
{
    if (!take(r, wanted))
        r->failed = 1;
}

static int is_digit(const reader *r)
{
    return !r->failed && r->at < r->end && *r->at >= '0' && *r->at <= '9';
}

static int number(reader *r, int digits, int min, int max)
{
    int value = 0;
    for (int i = 0; i < digits; i++) {
        if (!is_digit(r)) {
            r->failed = 1;
            return min;
        }
        value = value * 10 + (*r->at++ - '0');
    }
    if (value < min || value > max) {
        r->failed = 1;
        return min;
    }
    return value;
}

static int64_t date(reader *r)
{
    int year = number(r, 4, 0, 9999);
    expect(r, '-');
    int month = number(r, 2, 1, 12);
    expect(r, '-');
    int day = number(r, 2, 1, days_in_month(year, month));
    return days_from_civil(year, month, day);
}

static int64_t fraction_ms(reader *r)
{
    int64_t ms = 0;
    if (!take(r, '.'))
        return 0;
    if (!is_digit(r))
        r->failed = 1;
    for (int unit = 100; is_digit(r); unit /= 10)
        ms += (*r->at++ - '0') * unit;
    return ms;
}

static int64_t offset_minutes(reader *r)
{
    if (take(r, 'Z') || take(r, 'z'))
        return 0;
    int sign = take(r, '-') ? -1 : 1;
    if (sign > 0)
        expect(r, '+');
    int hours = number(r, 2, 0, 23);
    expect(r, ':');
    return (int64_t)sign * (hours * 60 + number(r, 2, 0, 59));
}

int rfc3339_parse(int64_t *out_ms, const char *text, size_t len)
{
    if (!len)
        return 0;
    reader r = {text, text + len, 0};
    int64_t days = date(&r);
    if (!take(&r, 't'))
        expect(&r, 'T');
    int hours = number(&r, 2, 0, 23);
    expect(&r, ':');
    int minutes = number(&r, 2, 0, 59);
    expect(&r, ':');
    int seconds = number(&r, 2, 0, 60);
    int64_t ms = fraction_ms(&r);
    int64_t second = days * 86400 + (hours * 60 + minutes - offset_minutes(&r)) * 60 + seconds;
    int misplaced_leap_second = seconds == 60 && second % 86400 != 0;
    if (r.failed || r.at != r.end || misplaced_leap_second || second < SECOND_MIN ||
        second > SECOND_MAX)
        return 0;
    *out_ms = second * 1000 + ms;
    return 1;
}

/* --- writing ---------------------------------------------------------------------------------- */

static char *put(char *at, int64_t value, int digits, char after)
{
    for (int i = digits; i-- > 0; value /= 10)
        at[i] = (char)('0' + value % 10);
    at[digits] = after;
    return at + digits + 1;
}

int rfc3339_format(char out[RFC3339_TEXT + 1], int64_t ms)
{
    int64_t year;
    int month, day;
    int64_t rest = ms % MS_PER_DAY;
    int64_t days = ms / MS_PER_DAY;
    if (rest < 0) {
        rest += MS_PER_DAY;
        days--;
    }
    civil_from_days(days, &year, &month, &day);
    if (year < 0 || year > 9999)
        return 0;
    char *at = put(out, year, 4, '-');
    at = put(at, month, 2, '-');
    at = put(at, day, 2, 'T');
    at = put(at, rest / 3600000, 2, ':');
    at = put(at, rest / 60000 % 60, 2, ':');
    at = put(at, rest / 1000 % 60, 2, '.');
    at = put(at, rest % 1000, 3, 'Z');
    *at = 0;
    return 1;
}
