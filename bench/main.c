/* semel-bench: what semel costs, against the same work by hand, in the same run.
 *
 * A section is a function and a line in the list below; each prints its rows as it goes. */
#include "broker.h"
#include "run.h"
#include "server.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

bench_options options;

static const struct section {
    const char *name;
    const char *about;
    void (*run)(void);
} sections[] = {
    {"limits", "how often the disk can be waited for", section_limits},
    {"receive", "SQLite, one message in a transaction, against a raw loop", section_receive},
    {"batch", "SQLite, batches of 10, 100 and 1000, against a raw loop", section_batch},
    {"duplicate", "SQLite, a copy against the first one", section_duplicate},
    {"claim", "SQLite, claim mode", section_claim},
    {"sqlite-threads", "SQLite, 4, 16 and 64 threads, against one", section_sqlite_threads},
    {"memory", "the memory store against a bare hash set", section_memory},
    {"heap", "allocations of the receive path", section_heap},
    {"keyed", "the keyed layer on a database in memory, against the memory store", section_keyed},
    {"observer", "the memory store with and without an observer", section_observer},
    {"outbox", "putting messages into the outbox, against a raw loop", section_outbox},
    {"relay", "outbox to memory transport, by preset", section_relay},
    {"positions", "positions instead of keys, on SQLite and PostgreSQL", section_positions},
    {"growth", "cost at ten thousand and at ten million markers", section_growth},
    {"server-receive", "servers, one message in a transaction, by 1, 4, 8 connections",
     section_server_receive},
    {"server-batch", "servers, batches of 10, 100 and 1000", section_server_batch},
    {"server-duplicate", "servers, a copy against the first one", section_server_duplicate},
    {"server-mix", "servers, copies among new messages, by share and in runs", section_server_mix},
    {"sql-receive", "servers, receiving by semel's SQL function, against an INSERT by hand",
     section_sql_receive},
    {"server-outbox", "servers, putting messages into the outbox", section_server_outbox},
    {"server-relay", "servers, outbox to memory transport, by 1 and 4 relays",
     section_server_relay},
    {"groups", "all stores, a relay's pass while 100, 10 000 and 100 000 groups wait",
     section_groups},
    {"handoff", "all stores, from outbox and queue into an inbox of the same store",
     section_handoff},
    {"server-sweep", "servers, retention, and receiving meanwhile", section_server_sweep},
    {"lists", "servers, listing and searching a million markers and dead letters", section_lists},
    {"retry", "SQLite and servers, dead letters retried in bulk, against fresh messages",
     section_retry},
    {"details", "SQLite and servers, with type and time of receipt kept, and without",
     section_details},
    {"retention", "all stores, consuming while retention runs by itself", section_retention},
    {"defaults", "all stores, a consumer with default options against fixed batches",
     section_defaults},
    {"run-sql", "semel run with a sql handler, against the library", section_run_sql},
    {"run-worker", "semel run with 4 warm workers, against claim mode and a loop over pipes",
     section_run_worker},
    {"run-http", "semel run with http, against claim mode and a loop of libcurl", section_run_http},
    {"gateway", "the idempotent proxy, against claim mode, a plain proxy and the upstream",
     section_gateway},
    {"history", "semel run, first messages and copies, with the history and without",
     section_history},
    {"run-start", "semel run, start, memory and size", section_run_start},
    {"tracing", "semel run with tracing, against one without", section_tracing},
    {"run-metrics", "semel run with its metrics scraped, against none", section_run_metrics},
#ifdef SEMEL_WITH_REDIS
    {"redis", "Redis, queued, claim and copies, against scripts by hand, pipelined and not",
     section_redis},
#endif
    {"broker-publish", "all brokers, confirmed publishing, 1 to 1000 outstanding",
     section_broker_publish},
    {"broker-relay", "outbox to all brokers, from PostgreSQL and SQLite", section_broker_relay},
    {"broker-consume", "all brokers to inbox, on PostgreSQL and SQLite", section_broker_consume},
};

enum { SECTIONS = sizeof sections / sizeof *sections };

size_t choose(size_t full, size_t brief)
{
    return options.full ? full : brief;
}

size_t choose_rounds(size_t most, size_t few)
{
    return options.quick ? few : most;
}

static void print_help(void)
{
    puts(
        "usage: semel-bench [--quick | --full] [--large] [--only NAME]... [--broker NAME]...\n"
        "                   [--csv] [--dir DIRECTORY] [--SERVER URL]...\n"
        "\n"
        "  --quick         few rounds, whatever they say\n"
        "  --full          all rounds, longer ones, ten million markers: about forty minutes.\n"
        "                  Else a measurement ends when its ratios have settled\n"
        "  --large         ten million markers in server-sweep: minutes more\n"
        "  --only NAME     this section; may be given several times\n"
        "  --broker NAME   of the brokers this one: the name of its server\n"
        "  --csv           figures for programs\n"
        "  --dir DIR       where to make the scratch directory, on a real disk (default: $TMPDIR,\n"
        "                  or /var/tmp); a full run needs 4 GB there, and leaves nothing behind\n"
        "  --postgres URL  this server, in a database where it may make and drop schemas named\n"
        "                  bench_...; \"off\": none. Default: one is started for the run\n"
        "  --mariadb URL   the same, with tables named bench_...\n"
        "  --rabbitmq URL  this broker, with exchanges and queues named bench_...; \"off\": none\n"
        "  --redis URL     this server, with keys that begin with {bench_...\n"
        "                  Other brokers that are built in have such an option, too. Kafka is\n"
        "                  measured only with --kafka URL, or --broker kafka, which starts it\n"
        "\n"
        "sections:");
    for (size_t i = 0; i < SECTIONS; i++)
        printf("  %-16s %s\n", sections[i].name, sections[i].about);
}

static size_t section_number(const char *name)
{
    size_t i = 0;
    while (i < SECTIONS && strcmp(sections[i].name, name) != 0)
        i++;
    if (i == SECTIONS)
        die("there is no section \"%s\"; --help lists them", name);
    return i;
}

static void read_option(int choice, const char *name, const char *value)
{
    switch (choice) {
    case 'q':
        options.quick = 1;
        break;
    case 'f':
        options.full = 1;
        break;
    case 'c':
        options.csv = 1;
        break;
    case 'd':
        options.directory = value;
        break;
    case 'l':
        options.large = 1;
        break;
    case 'b':
        broker_choose(value);
        break;
    case 's':
        server_given(name, value);
        break;
    default:
        print_help();
        exit(choice == 'h' ? 0 : 2);
    }
}

/* Which sections are to run, by number. */
static void read_arguments(int argc, char **argv, int wanted[SECTIONS])
{
    enum { OWN = 8 };
    struct option known[OWN + SERVER_OPTIONS_MAX + 1] = {
        {"quick", no_argument, NULL, 'q'},      {"full", no_argument, NULL, 'f'},
        {"only", required_argument, NULL, 'o'}, {"csv", no_argument, NULL, 'c'},
        {"dir", required_argument, NULL, 'd'},  {"large", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},       {"broker", required_argument, NULL, 'b'}};
    int choice, place = 0, some = 0;
    (void)server_options(known + OWN, 's');
    while ((choice = getopt_long(argc, argv, "h", known, &place)) != -1) {
        if (choice == 'o')
            some = wanted[section_number(optarg)] = 1;
        else
            read_option(choice, known[place].name, optarg);
    }
    if (optind < argc)
        die("\"%s\" is not understood; --help says what is", argv[optind]);
    if (options.quick && options.full)
        die("--quick and --full exclude each other");
    for (size_t i = 0; i < SECTIONS && !some; i++)
        wanted[i] = 1;
}

int main(int argc, char **argv)
{
    int wanted[SECTIONS] = {0};
    const char *tmpdir = getenv("TMPDIR");
    if (argc == 2 && strcmp(argv[1], ECHO_ARGUMENT) == 0)
        return echo_main();
    if (argc == 7 && strcmp(argv[1], LIBRARY_ARGUMENT) == 0)
        return library_main(argv + 2);
    options.directory = tmpdir && *tmpdir ? tmpdir : "/var/tmp";
    read_arguments(argc, argv, wanted);
    scratch_make();
    fsync_count_begin();
    report_begin();
    for (size_t i = 0; i < SECTIONS; i++)
        if (wanted[i]) {
            double start = now_s();
            sections[i].run();
            report_note("%s: %.0f s", sections[i].name, now_s() - start);
        }
    report_end();
    return 0;
}
