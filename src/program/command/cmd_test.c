/* semel test: the tests of a configuration, on throw-away stores, with copies and kills. */
#include "program/cli.h"
#include "program/command/common.h"
#include "program/config/tree.h"
#include "program/support/arguments.h"
#include "program/support/colour.h"
#include "program/support/show.h"
#include "program/support/temporary.h"
#include "program/test/expect.h"
#include "program/test/killed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char test_help[] =
    "usage: semel test [OPTION...]\n"
    "\n"
    "Runs the tests of the configuration: each on a temporary SQLite store of its own, and again "
    "with\n"
    "the process killed at each point where it could die. sql and send work as in semel run; "
    "exec,\n"
    "http and worker handlers are stubbed and answer as `answers` says, or done.\n"
    "\n" COMMON_HELP
    "  --call-handlers     call exec, http and worker handlers instead of stubbing them\n"
    "  --no-kills          do not repeat the tests with kills\n"
    "\n"
    "Exit status: 0 all passed, 1 a test failed, 2 called wrongly, 3 the configuration is wrong.\n";

typedef struct test_options {
    const config *all;
    int call_handlers;
    int no_kills;
} test_options;

typedef struct test_result {
    buffer differences;
    buffer summary;
    uint64_t killed;
} test_result;

static semel_status run_once(test_result *result, const world_options *options, uint64_t *points,
                             semel_error *err)
{
    world *w = NULL;
    semel_status status = world_open(&w, options, err);
    if (!status)
        status = world_publish(w, err);
    if (!status)
        status = world_run(w, err);
    if (!status)
        status = expect_all(&result->differences, w, options->all, options->test, err);
    if (!status) {
        expect_summary(&result->summary, w, options->all, options->test);
        *points = world_points(w);
    }
    world_close(w);
    return status;
}

static void run_test(test_result *result, const test_options *options, const test_config *test)
{
    semel_error why = {0};
    uint64_t points = 0;
    char *directory = temporary_directory();
    world_options throw_away = {.all = options->all,
                                .test = test,
                                .directory = directory,
                                .call_handlers = options->call_handlers};
    semel_status status =
        directory ? SEMEL_OK
                  : semel_fail(&why, SEMEL_ESTORE, "no temporary directory: %s", strerror(errno));
    if (!status)
        status = run_once(result, &throw_away, &points, &why);
    if (!status && !result->differences.len && !options->no_kills && !options->call_handlers)
        status =
            killed_everywhere(&result->differences, &result->killed, &throw_away, points, &why);
    if (status)
        buffer_printf(&result->differences, "      error     %s\n", why.text);
    temporary_remove(directory);
}

/* --- what is printed -------------------------------------------------------------------------- */

/* "ok    " or "FAIL  " */
static void print_verdict(int passed)
{
    int in_colour = colour_on(STDOUT_FILENO);
    (void)printf("%s%s%s  ", colour_begin(in_colour, passed ? COLOUR_GOOD : COLOUR_ERROR),
                 passed ? "ok  " : "FAIL", colour_end(in_colour));
}

static void print_passed(const test_config *test, const test_result *result)
{
    print_verdict(1);
    (void)printf("%s: %s", test->name, result->summary.data);
    if (result->killed)
        (void)printf("; same result when killed at %llu point%s",
                     (unsigned long long)result->killed, result->killed == 1 ? "" : "s");
    (void)printf("\n");
}

static void print_failed(const config *all, const test_config *test, const test_result *result)
{
    enum { PLACE_COLUMN = 84 };
    int width = PLACE_COLUMN - 6;
    print_verdict(0);
    (void)printf("%-*s%s:%u\n%s", width, test->name, all->path, test->at->at.line,
                 result->differences.data);
}

static int run_tests(const test_options *options)
{
    const config *all = options->all;
    size_t failed = 0;
    int64_t began = steady_clock_ns();
    for (size_t i = 0; i < all->test_count; i++) {
        test_result result = {.killed = 0};
        run_test(&result, options, &all->tests[i]);
        if (result.differences.len)
            print_failed(all, &all->tests[i], &result);
        else
            print_passed(&all->tests[i], &result);
        (void)fflush(stdout);
        failed += result.differences.len > 0;
        buffer_free(&result.differences);
        buffer_free(&result.summary);
    }
    (void)printf("%zu test%s, %zu %s, %.1f s", all->test_count, all->test_count == 1 ? "" : "s",
                 failed ? failed : all->test_count, failed ? "failed" : "passed",
                 (double)(steady_clock_ns() - began) / 1e9);
    if (!failed)
        (void)printf(" (temporary SQLite store%s)",
                     options->call_handlers ? ""
                                            : "; exec, http and worker handlers stubbed, not "
                                              "called");
    (void)printf("\n");
    return failed ? CLI_FAILED : CLI_OK;
}

int cmd_test(int argc, char **argv)
{
    static common_options common;
    static argument_list rest;
    test_options options = {0};
    config *all = NULL;
    const argument_option table[] = {COMMON_OPTIONS(&common),
                                     {"--call-handlers", 0, ARGUMENT_FLAG, &options.call_handlers},
                                     {"--no-kills", 0, ARGUMENT_FLAG, &options.no_kills},
                                     {0}};
    int status = arguments_read("test", argc, argv, table, &rest);
    if (!status && rest.count)
        status = cli_usage("test", "it takes options only, and there is \"%s\"", rest.items[0]);
    if (!status)
        status = common_load(&all, &common);
    if (status)
        return status;
    options.all = all;
    if (all->test_count)
        status = run_tests(&options);
    else
        (void)fprintf(stderr, "%s has no tests\n", all->path);
    config_free(all);
    return status;
}
