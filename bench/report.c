/* The table, for people; with --csv the same figures for programs. Progress goes to stderr, and
 * only when that is a terminal. */
#include "bench.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JUDGED_MAX = 400, TITLE_ROOM = 100 };

/* A row with an aim, for the table at the end. */
typedef struct judged {
    const char *section;
    char row[2 * TITLE_ROOM];
    spread found;
    bench_aim aim;
} judged;

static const char *section_name = "";
static char section_title[TITLE_ROOM];
static judged all_judged[JUDGED_MAX];
static size_t judged_count;
static int progress_shown;
static double began_s;

/* 1234567.8 as "1 234 568", 12.345 as "12.3". */
static const char *figure(char out[32], double value)
{
    char digits[32];
    if (isnan(value))
        return strcpy(out, "-");
    if (value < 999.5 && value > -999.5) {
        int whole = (double)(int)value == value;
        int decimals = whole ? 0 : value < 10 && value > -10 ? 2 : 1;
        snprintf(out, 32, "%.*f", decimals, value);
        return out;
    }
    int len = snprintf(digits, sizeof digits, "%.0f", value);
    size_t used = 0;
    for (int i = 0; i < len && used < 30; i++) {
        if (i && (len - i) % 3 == 0 && digits[i - 1] != '-')
            out[used++] = ' ';
        out[used++] = digits[i];
    }
    out[used] = 0;
    return out;
}

static int is_met(bench_aim aim, double value)
{
    double rounded = (double)(int64_t)(value * 100 + 0.5) / 100; /* as it is printed */
    return aim.kind == AIM_AT_LEAST ? rounded >= aim.value : rounded <= aim.value;
}

static const char *aim_text(char out[32], bench_aim aim)
{
    if (aim.kind == AIM_NONE)
        return "";
    snprintf(out, 32, "%s %.4g", aim.kind == AIM_AT_LEAST ? ">=" : "<=", aim.value);
    return out;
}

/* Another run might say otherwise. */
static int is_unsure(bench_aim aim, spread found)
{
    return found.error > 0 && fabs(found.median - aim.value) < 2 * found.error;
}

static const char *verdict(bench_aim aim, spread found)
{
    if (is_met(aim, found.median))
        return is_unsure(aim, found) ? "met?" : "met";
    return is_unsure(aim, found) ? "MISSED?" : "MISSED";
}

static const char *judge(const char *name, bench_aim aim, spread found)
{
    if (aim.kind == AIM_NONE)
        return "";
    if (judged_count == JUDGED_MAX)
        die("more than %d aims", JUDGED_MAX);
    judged *row = &all_judged[judged_count++];
    *row = (judged){.section = section_name, .found = found, .aim = aim};
    snprintf(row->row, sizeof row->row, "%s: %s", section_title, name + strspn(name, " "));
    return verdict(aim, found);
}

void report_begin(void)
{
    double load = 0;
    began_s = now_s();
    if (getloadavg(&load, 1) != 1)
        load = NAN;
    if (options.csv) {
        puts("section,row,left,right,ratio,ratio_min,ratio_max,ratio_error,unit,aim,met");
        return;
    }
    printf("semel %s (%s), SQLite %s: WAL, synchronous=FULL, cache 16 MiB, fsync on\n",
           semel_version(), semel_build_options(), sqlite3_libversion());
    printf(
        "%ld cores, load %.1f; files in %s; keys of 36 bytes (UUIDs as text), bodies of %d bytes\n",
        sysconf(_SC_NPROCESSORS_ONLN), load, options.directory, BODY_BYTES);
    printf("Contenders take turns in every round. Rates are medians over the rounds; the ratio is "
           "the\n"
           "median of the rounds' ratios, with the smallest and the largest.\n");
}

void report_section(const char *name, const char *title, const char *left, const char *right)
{
    section_name = name;
    snprintf(section_title, sizeof section_title, "%s", title);
    progress_clear();
    if (!options.csv)
        printf("\n%-45s %11s %11s  %-20s %-8s\n", title, left, right,
               *left ? "ratio (min-max)" : "", "aim");
    fflush(stdout);
}

static void csv_number(double value)
{
    if (!isnan(value))
        printf("%.6g", value);
    putchar(',');
}

static void csv_row(const char *name, double left, double right, spread ratio, const char *unit,
                    bench_aim aim, spread found)
{
    char text[32];
    printf("%s,\"%s\",", section_name, name);
    csv_number(left);
    csv_number(right);
    csv_number(ratio.median);
    csv_number(ratio.low);
    csv_number(ratio.high);
    csv_number(isnan(ratio.high) ? NAN : ratio.error);
    printf("%s,%s,%s\n", unit, aim_text(text, aim), judge(name, aim, found));
    fflush(stdout);
}

void report_row(const char *name, double left, double right, spread ratio, bench_aim aim)
{
    char a[32], b[32], c[32], text[64] = "";
    if (options.csv) {
        csv_row(name, left, right, ratio, "", aim, ratio);
        return;
    }
    if (!isnan(ratio.median) && isnan(ratio.low))
        snprintf(text, sizeof text, "%.2f", ratio.median);
    else if (!isnan(ratio.median))
        snprintf(text, sizeof text, "%.2f (%.2f-%.2f)", ratio.median, ratio.low, ratio.high);
    progress_clear();
    printf("  %-43s %11s %11s  %-20s %-8s %s\n", name, figure(a, left), figure(b, right), text,
           aim_text(c, aim), judge(name, aim, ratio));
    fflush(stdout);
}

void report_comparison(const char *name, const comparison *d, size_t which, size_t against,
                       bench_aim aim)
{
    report_row(name, comparison_rate(d, against).median, comparison_rate(d, which).median,
               comparison_ratio(d, which, against), aim);
}

void report_value(const char *name, double value, const char *unit, bench_aim aim)
{
    char a[32], c[32], text[64];
    if (options.csv) {
        csv_row(name, NAN, value, spread_unknown(NAN), unit, aim, spread_unknown(value));
        return;
    }
    snprintf(text, sizeof text, "%s", unit);
    progress_clear();
    printf("  %-43s %11s %11s  %-20s %-8s %s\n", name, "", figure(a, value), text, aim_text(c, aim),
           judge(name, aim, spread_unknown(value)));
    fflush(stdout);
}

void report_note(const char *format, ...)
{
    va_list arguments;
    if (options.csv)
        return;
    progress_clear();
    fputs("  ", stdout);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

static void print_judged(const judged *row)
{
    char found[32], error[32] = "", aim[32];
    if (row->found.error > 0)
        snprintf(error, sizeof error, "+-%.3f", row->found.error);
    printf("%-16s %-75.75s %8s %-8s %-8s %s\n", row->section, row->row,
           figure(found, row->found.median), error, aim_text(aim, row->aim),
           verdict(row->aim, row->found));
}

static void print_all_judged(void)
{
    size_t met = 0, unsure = 0;
    printf("\n%-16s %-75s %8s %-8s %s\n", "section", "row", "ratio", "error", "aim");
    for (size_t i = 0; i < judged_count; i++) {
        const judged *row = &all_judged[i];
        print_judged(row);
        met += (size_t)is_met(row->aim, row->found.median);
        unsure += (size_t)is_unsure(row->aim, row->found);
    }
    printf("\n%zu of %zu aims met", met, judged_count);
    if (unsure)
        printf("; %zu have a question mark: the aim is nearer than two standard errors", unsure);
}

void report_end(void)
{
    progress_clear();
    if (options.csv)
        return;
    if (judged_count)
        print_all_judged();
    printf("\n%.0f seconds\n", now_s() - began_s);
}

void progress(const char *what, size_t done, size_t of)
{
    static double shown_at;
    if (!isatty(STDERR_FILENO) || (progress_shown && now_s() - shown_at < 0.1))
        return;
    fprintf(stderr, "\r\033[K%s, %zu of %zu", what, done, of);
    fflush(stderr);
    progress_shown = 1;
    shown_at = now_s();
}

void progress_clear(void)
{
    if (progress_shown)
        fputs("\r\033[K", stderr);
    progress_shown = 0;
}
