/* semel bench: a quick measurement on the user's own store, in a place of its own there. */
#include "program/bench/workload.h"
#include "program/cli.h"
#include "program/config/store_url.h"
#include "program/operate/confirm.h"
#include "program/operate/table.h"
#include "program/support/show.h"
#include "program/test/place.h"

#include <semel/semel.h>
#include <stdio.h>

const char bench_help[] =
    "usage: semel bench [--store URL] [--seconds N] [OPTION...]\n"
    "\n"
    "Measures the store of the configuration, or of --store, with one connection: messages a "
    "second\n"
    "that are received one by one and in batches, duplicates, and messages that a relay sends to "
    "a\n"
    "queue in the store. Beside it, taking turns with it, the same two rows written and committed "
    "by\n"
    "hand (raw); OF RAW is the rate as a part of that. In batches a time is that of a batch.\n"
    "\n"
    "It works in a file beside that of SQLite, in a schema of PostgreSQL or a database of MariaDB\n"
    "named semel_bench_*, which is created for it and removed afterwards; your tables are not\n"
    "touched, but the server is busy meanwhile.\n"
    "\n" COMMON_HELP "  --store URL         use this store; passwords as ${NAME} or ${file:PATH}\n"
    "  --seconds N         in all, about; default 12\n"
    "  --json              print JSON objects, one per line\n"
    "\n"
    "Exit status: 0 measured, 1 failed, 2 called wrongly, 3 the configuration is wrong, 75 the "
    "store\n"
    "cannot be reached, 130 or 143 stopped.\n";

enum { SECONDS_DEFAULT = 12, ROUNDS = 5 };

typedef struct bench {
    tool tool;
    test_place *made;
    measurement results[WORKLOAD_PARTS];
    int64_t slice_ns;
} bench;

/* --- measuring -------------------------------------------------------------------------------- */

/* Everything in turn, several times: what slows the machine down for a while slows all of it. */
static semel_status measure_all(bench *b, workload *w, semel_error *err)
{
    progress shown;
    semel_status status = SEMEL_OK;
    progress_begin(&shown, &b->tool, ROUNDS * WORKLOAD_PARTS);
    for (size_t i = 0; !status && i < ROUNDS * WORKLOAD_PARTS && !interrupted(); i++) {
        const workload_part *part = &workload_parts[i % WORKLOAD_PARTS];
        progress_show(&shown, i, part->name);
        status = measure_slice(&b->results[i % WORKLOAD_PARTS], &part->what, w, b->slice_ns, err);
    }
    progress_end(&shown);
    return status;
}

static semel_status measure_store(bench *b, semel_error *err)
{
    semel_store *store = NULL;
    workload *w = NULL;
    semel_store_options options = {.size = sizeof options};
    semel_status status = semel_store_open(&store, place_url(b->made), &options, err);
    if (!status)
        status = semel_store_migrate(store, err);
    if (!status)
        status = workload_open(&w, store, err);
    if (!status)
        status = measure_all(b, w, err);
    workload_close(w);
    semel_store_close(store);
    return status;
}

/* --- what is printed -------------------------------------------------------------------------- */

static void add_time(table *t, int64_t ns)
{
    enum { NS_PER_US = 1000, NS_PER_MS = 1000000 };
    buffer people = {0}, json = {0};
    if (ns < NS_PER_MS)
        buffer_printf(&people, "%lld us", (long long)(ns / NS_PER_US));
    else
        show_duration(&people, ns);
    buffer_printf(&json, "%lld", (long long)(ns / NS_PER_US));
    table_cell(t, people.data, json.data);
    buffer_free(&people);
    buffer_free(&json);
}

static void add_ratio(table *t, const bench *b, size_t part)
{
    char text[32];
    int of = workload_parts[part].raw;
    double whole = of < 0 ? 0 : measure_rate(&b->results[of]);
    (void)snprintf(text, sizeof text, "%.2f",
                   whole > 0 ? measure_rate(&b->results[part]) / whole : 0);
    if (whole > 0)
        table_cell(t, text, text);
    else
        table_text(t, NULL);
}

static void print_results(bench *b)
{
    static const table_column columns[] = {{"MEASURED", NULL, 0, 0},
                                           {NULL, "measured", 0, 0},
                                           {"MESSAGES/S", "messages_per_s", 1, 0},
                                           {"P50", "p50_us", 1, 0},
                                           {"P99", "p99_us", 1, 0},
                                           {"OF RAW", "of_raw", 1, 0},
                                           {NULL, "messages", 1, 0},
                                           {0}};
    table t = {.json = b->tool.options->json, .columns = columns};
    for (size_t i = 0; i < WORKLOAD_PARTS; i++) {
        measurement *m = &b->results[i];
        table_text(&t, workload_parts[i].name);
        table_text(&t, workload_parts[i].word);
        table_number(&t, (int64_t)measure_rate(m));
        add_time(&t, measure_percentile(m, 50));
        add_time(&t, measure_percentile(m, 99));
        add_ratio(&t, b, i);
        table_number(&t, (int64_t)m->messages);
        table_end_row(&t);
    }
    table_print(&t, stdout);
}

/* --- the command ------------------------------------------------------------------------------ */

static int find_store(bench *b, const char **url)
{
    const common_options *common = &b->tool.options->common;
    if (common->store_url && !common->path) {
        *url = store_url_read(&b->tool.memory, "--store", common->store_url);
        return *url ? CLI_OK : CLI_USAGE;
    }
    int status = common_load(&b->tool.all, common);
    *url = status ? NULL : b->tool.all->store_url;
    return status;
}

static int measure_and_print(bench *b)
{
    semel_error why = {0};
    buffer where = {0};
    place_describe(&where, b->made);
    tool_say(&b->tool, "measuring in a %s", where.data);
    buffer_free(&where);
    semel_status status = place_fresh(b->made, &why);
    if (!status)
        status = measure_store(b, &why);
    if (status)
        return common_failed("bench", &why);
    if (interrupted())
        return CLI_SIGNALLED + interrupted();
    print_results(b);
    return CLI_OK;
}

/* Whatever became of it, what was made is removed. */
static int bench_store(bench *b, const char *url)
{
    semel_error why = {0};
    buffer removal = {0};
    if (place_open(&b->made, "bench", url, &why))
        return common_failed("bench", &why);
    interruption_begin();
    place_removal(&removal, b->made);
    int status = measure_and_print(b);
    if (place_close(b->made, &why) && status != CLI_TEMPORARY) {
        (void)cli_failed("bench", "%s\nto remove what it made: %s", why.text, removal.data);
        status = status ? status : CLI_FAILED;
    }
    interruption_end();
    buffer_free(&removal);
    return status;
}

int cmd_bench(int argc, char **argv)
{
    static tool_options options;
    static argument_list rest;
    static bench b;
    uint32_t seconds = SECONDS_DEFAULT;
    const char *url = NULL;
    const argument_option known[] = {
        TOOL_OPTIONS(&options), {"--seconds", 0, ARGUMENT_COUNT, &seconds}, {0}};
    b.tool = (tool){.command = "bench", .options = &options};
    int status = arguments_read("bench", argc, argv, known, &rest);
    if (!status && rest.count)
        status = cli_usage("bench", "it takes options only, and there is \"%s\"", rest.items[0]);
    b.slice_ns = (int64_t)seconds * 1000000000 / (ROUNDS * WORKLOAD_PARTS);
    if (!status)
        status = find_store(&b, &url);
    if (!status)
        status = bench_store(&b, url);
    for (size_t i = 0; i < WORKLOAD_PARTS; i++)
        measure_free(&b.results[i]);
    tool_close(&b.tool);
    return status;
}
