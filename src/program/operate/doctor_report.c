/* The report: one line of all checks that found nothing wrong, then each problem with what mends
 * it, then the grades, and whether run would work. With --json one object for each finding. */
#include "program/cli.h"
#include "program/operate/doctor.h"
#include "program/operate/table.h"
#include "program/support/colour.h"
#include "program/support/show.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STATE_WIDTH = 7, CHECK_WIDTH = 10 };

typedef struct problem_count {
    unsigned long errors, warnings;
} problem_count;

static semel_severity worst(const doctor_finding *f)
{
    semel_severity severity = SEMEL_SEVERITY_OK;
    for (; f; f = f->next)
        severity = f->severity > severity ? f->severity : severity;
    return severity;
}

static problem_count count_problems(const doctor *d)
{
    problem_count count = {0};
    for (int i = 0; i < DOCTOR_CHECKS; i++)
        for (const doctor_finding *f = d->found[i]; f; f = f->next) {
            count.errors += f->severity == SEMEL_SEVERITY_ERROR;
            count.warnings += f->severity == SEMEL_SEVERITY_WARNING;
        }
    return count;
}

static const char *severity_word(semel_severity severity)
{
    return severity == SEMEL_SEVERITY_OK        ? "ok"
           : severity == SEMEL_SEVERITY_WARNING ? "warning"
                                                : "error";
}

/* --- text ------------------------------------------------------------------------------------- */

static colour_kind ink_of(semel_severity severity)
{
    return severity == SEMEL_SEVERITY_OK        ? COLOUR_GOOD
           : severity == SEMEL_SEVERITY_WARNING ? COLOUR_WARNING
                                                : COLOUR_ERROR;
}

/* A word in a column. The blanks behind it have no colour. */
static void print_word(const char *word, int width, colour_kind ink)
{
    int on = colour_on(STDOUT_FILENO) && *word;
    int blanks = width > (int)strlen(word) ? width - (int)strlen(word) : 0;
    (void)printf("%s%s%s%*s  ", colour_begin(on, ink), word, colour_end(on), blanks, "");
}

static void print_line(const char *first, colour_kind ink, const char *second, const char *text)
{
    buffer shown = {0};
    show_text(&shown, text, strlen(text), 0);
    print_word(first, STATE_WIDTH, ink);
    print_word(second, CHECK_WIDTH, COLOUR_NAME);
    (void)printf("%s\n", shown.data ? shown.data : "");
    buffer_free(&shown);
}

static void print_finding(const doctor_finding *f)
{
    print_line(severity_word(f->severity), ink_of(f->severity), doctor_check_name(f->check),
               f->text);
    if (*f->fix)
        print_line("", COLOUR_NAME, "fix", f->fix);
}

/* The checks without a problem, on one line; with -v what they found. */
static void print_ok(const doctor *d)
{
    const char *between = "";
    for (int i = 0; i < DOCTOR_CHECKS; i++)
        if (d->found[i] && worst(d->found[i]) == SEMEL_SEVERITY_OK && !d->options.verbose) {
            if (!*between)
                print_word("ok", STATE_WIDTH, COLOUR_GOOD);
            (void)printf("%s%s", between, doctor_check_name((doctor_check)i));
            between = ", ";
        }
    if (*between)
        (void)printf(" (-v for details)\n");
}

static void print_findings(const doctor *d)
{
    for (int i = 0; i < DOCTOR_CHECKS; i++)
        for (const doctor_finding *f = d->found[i]; f; f = f->next)
            if (f->severity != SEMEL_SEVERITY_OK || d->options.verbose)
                print_finding(f);
}

static void print_grades(const doctor *d)
{
    const char *between = "";
    for (int grade = SEMEL_GRADE_EXACTLY_ONCE_EFFECTS; grade >= SEMEL_GRADE_AT_LEAST_ONCE;
         grade--) {
        const char *comma = "";
        for (const doctor_grade *g = d->grades; g; g = g->next)
            if (g->grade == (semel_grade)grade) {
                if (!*comma && !*between)
                    print_word("grade", STATE_WIDTH, COLOUR_NAME);
                if (!*comma)
                    (void)printf("%s%s: ", between, semel_grade_name(g->grade));
                (void)printf("%s%s", comma, g->inbox);
                comma = ", ";
            }
        between = *comma ? "; " : between;
    }
    if (*between)
        (void)printf("\n");
    for (const doctor_grade *g = d->grades; d->options.verbose && g; g = g->next)
        if (*g->reason) {
            (void)printf("%-7s  %s: %s\n", "", g->inbox, g->reason);
        }
}

static void print_text(const doctor *d)
{
    print_ok(d);
    print_findings(d);
    print_grades(d);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static const table_column columns[] = {{NULL, "check", 0, 0},
                                       {NULL, "result", 0, 0},
                                       {NULL, "msg", 0, 0},
                                       {NULL, "fix", 0, 0},
                                       {NULL, "inbox", 0, 0},
                                       {NULL, "grade", 0, 0},
                                       {0}};

static void print_json(const doctor *d)
{
    table t = {.columns = columns, .json = 1};
    for (int i = 0; i < DOCTOR_CHECKS; i++)
        for (const doctor_finding *f = d->found[i]; f; f = f->next) {
            table_text(&t, doctor_check_name(f->check));
            table_text(&t, severity_word(f->severity));
            table_text(&t, f->text);
            table_text(&t, *f->fix ? f->fix : NULL);
            table_text(&t, NULL);
            table_text(&t, NULL);
            table_end_row(&t);
        }
    for (const doctor_grade *g = d->grades; g; g = g->next) {
        table_text(&t, "grade");
        table_text(&t, "ok");
        table_text(&t, *g->reason ? g->reason : NULL);
        table_text(&t, NULL);
        table_text(&t, g->inbox);
        table_text(&t, semel_grade_name(g->grade));
        table_end_row(&t);
    }
    table_print(&t, stdout);
}

/* --- all -------------------------------------------------------------------------------------- */

static void say_result(const doctor *d, problem_count count, int failed)
{
    (void)fflush(stdout);
    if (d->options.quiet || d->options.json)
        return;
    int on = colour_on(STDERR_FILENO);
    (void)fprintf(stderr, "%s%s%s", colour_begin(on, failed ? COLOUR_ERROR : COLOUR_GOOD),
                  failed ? "not ready to run" : "ready to run", colour_end(on));
    if (count.errors || count.warnings)
        (void)fputs(": ", stderr);
    if (count.errors)
        (void)fprintf(stderr, "%lu error%s", count.errors, count.errors == 1 ? "" : "s");
    if (count.warnings)
        (void)fprintf(stderr, "%s%lu warning%s", count.errors ? ", " : "", count.warnings,
                      count.warnings == 1 ? "" : "s");
    (void)fputc('\n', stderr);
}

int doctor_report(const doctor *d)
{
    problem_count count = count_problems(d);
    int failed = count.errors || (d->strict && count.warnings);
    if (d->options.json)
        print_json(d);
    else
        print_text(d);
    say_result(d, count, failed);
    if (d->found[DOCTOR_CONFIG] && worst(d->found[DOCTOR_CONFIG]) == SEMEL_SEVERITY_ERROR)
        return CLI_CONFIG;
    return failed ? CLI_FAILED : CLI_OK;
}
