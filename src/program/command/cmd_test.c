/* semel test: the tests of a configuration, on throw-away stores, with copies and kills. */
#include "program/cli.h"
#include "program/command/common.h"
#include "program/config/tree.h"
#include "program/handler/value_sql.h"
#include "program/operate/confirm.h"
#include "program/support/arguments.h"
#include "program/support/colour.h"
#include "program/support/show.h"
#include "program/test/expect.h"
#include "program/test/killed.h"

#include <stdio.h>
#include <string.h>
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
    "  --store URL         run them on this PostgreSQL or MariaDB server, in a schema or database\n"
    "                      semel_test_* that is created for it and dropped afterwards\n"
    "  --call-handlers     call exec, http and worker handlers instead of stubbing them\n"
    "  --no-kills          do not repeat the tests with kills\n"
    "  --json              print an object per test, then one with how many passed and failed\n"
    "\n"
    "With --store, tables without a schema or database in their name are those of the tests; a\n"
    "statement that names one goes there instead. The user needs the right to create a schema, or "
    "on\n"
    "MariaDB a database. What is left after kill -9 is removed by DROP SCHEMA semel_test_... "
    "CASCADE, or\n"
    "DROP DATABASE.\n"
    "\n"
    "Exit status: 0 all passed, 1 a test failed, 2 called wrongly, 3 the configuration is wrong, "
    "75 the\n"
    "store cannot be reached, 130 or 143 stopped.\n";

typedef struct test_options {
    const config *all;
    test_place *place;
    int call_handlers;
    int no_kills;
    int json;
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
    world_options throw_away = {.all = options->all,
                                .test = test,
                                .place = options->place,
                                .call_handlers = options->call_handlers};
    semel_status status = place_fresh(options->place, &why);
    if (!status)
        status = run_once(result, &throw_away, &points, &why);
    if (!status && !result->differences.len && !options->no_kills && !options->call_handlers)
        status = killed_everywhere(&result->differences, &result->killed, &throw_away,
                                   options->place, points, &why);
    if (status)
        buffer_printf(&result->differences, "      error     %s\n", why.text);
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

static void print_total(const test_options *options, size_t failed, int64_t took_ns)
{
    size_t count = options->all->test_count;
    (void)printf("%zu test%s, %zu %s, %.1f s", count, count == 1 ? "" : "s",
                 failed ? failed : count, failed ? "failed" : "passed", (double)took_ns / 1e9);
    if (!failed) {
        buffer where = {0};
        place_describe(&where, options->place);
        (void)printf(
            " (%s%s)", where.data,
            options->call_handlers ? "" : "; exec, http and worker handlers stubbed, not called");
        buffer_free(&where);
    }
    (void)printf("\n");
}

/* --- the same as JSON ------------------------------------------------------------------------- */

static void add_member(buffer *to, const char *name, const char *text)
{
    buffer_printf(to, ",\"%s\":", name);
    show_json(to, text, strlen(text));
}

/* Each line is one, without what indents it. */
static void add_differences(buffer *to, const buffer *lines)
{
    buffer_text(to, ",\"differences\":[");
    for (const char *at = lines->data, *end = at + lines->len; at < end;) {
        at += strspn(at, " ");
        size_t len = strcspn(at, "\n");
        buffer_text(to, to->data[to->len - 1] == '[' ? "" : ",");
        show_json(to, at, len);
        at += len + (at[len] == '\n');
    }
    buffer_text(to, "]");
}

static void print_result_json(const config *all, const test_config *test, const test_result *result)
{
    buffer line = {0};
    buffer_text(&line, "{\"name\":");
    show_json(&line, test->name, strlen(test->name));
    add_member(&line, "result", result->differences.len ? "failed" : "passed");
    add_member(&line, "file", all->path);
    buffer_printf(&line, ",\"line\":%u", test->at->at.line);
    if (result->summary.len)
        add_member(&line, "outcomes", result->summary.data);
    buffer_printf(&line, ",\"kills\":%llu", (unsigned long long)result->killed);
    if (result->differences.len)
        add_differences(&line, &result->differences);
    (void)printf("%s}\n", line.data);
    buffer_free(&line);
}

static void print_total_json(size_t count, size_t failed, int64_t took_ns)
{
    (void)printf("{\"tests\":%zu,\"passed\":%zu,\"failed\":%zu,\"took_ms\":%lld}\n", count,
                 count - failed, failed, (long long)(took_ns / 1000000));
}

/* --- all tests -------------------------------------------------------------------------------- */

static void print_result(const test_options *options, const test_config *test,
                         const test_result *result)
{
    if (options->json)
        print_result_json(options->all, test, result);
    else if (result->differences.len)
        print_failed(options->all, test, result);
    else
        print_passed(test, result);
    (void)fflush(stdout);
}

/* A test that was cut short has no result. */
static int run_tests(const test_options *options)
{
    const config *all = options->all;
    size_t failed = 0;
    int64_t began = steady_clock_ns();
    for (size_t i = 0; i < all->test_count && !interrupted(); i++) {
        test_result result = {.killed = 0};
        run_test(&result, options, &all->tests[i]);
        if (!interrupted())
            print_result(options, &all->tests[i], &result);
        failed += result.differences.len > 0;
        buffer_free(&result.differences);
        buffer_free(&result.summary);
    }
    if (interrupted())
        return CLI_SIGNALLED + interrupted();
    if (options->json)
        print_total_json(all->test_count, failed, steady_clock_ns() - began);
    else
        print_total(options, failed, steady_clock_ns() - began);
    return failed ? CLI_FAILED : CLI_OK;
}

/* --- the command ------------------------------------------------------------------------------ */

/* What was made on a server is dropped whatever became of the tests; if it cannot be, the user is
 * told how. */
static int remove_place(test_place *made, int status)
{
    semel_error why = {0};
    buffer removal = {0};
    place_removal(&removal, made);
    if (place_close(made, &why)) {
        (void)cli_failed("test", "%s\nto remove what the tests made: %s", why.text, removal.data);
        status = status ? status : CLI_FAILED;
    }
    buffer_free(&removal);
    return status;
}

/* With --store the URL of the configuration is that of the option, its substitutions done. */
static int run_in_place(test_options *options, int on_server)
{
    semel_error why = {0};
    const char *url = on_server ? options->all->store_url : NULL;
    sql_kind kind = url ? sql_kind_of(url) : SQL_KIND_POSTGRES;
    if (kind != SQL_KIND_POSTGRES && kind != SQL_KIND_MARIADB)
        return cli_usage("test", "--store is for tests on PostgreSQL or MariaDB; without it they "
                                 "have a temporary SQLite store");
    if (place_open(&options->place, "test", url, &why))
        return common_failed("test", &why);
    interruption_begin();
    int status = place_fresh(options->place, &why) ? common_failed("test", &why) : CLI_OK;
    if (!status)
        status = run_tests(options);
    status = status == CLI_TEMPORARY ? status : remove_place(options->place, status);
    interruption_end();
    return status;
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
                                     {"--json", 0, ARGUMENT_FLAG, &options.json},
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
        status = run_in_place(&options, common.store_url != NULL);
    else
        (void)fprintf(stderr, "%s has no tests\n", all->path);
    config_free(all);
    return status;
}
