/* semel-soak: end to end, while all processes and servers are killed.
 *
 *     publish.py  ->  "in"   ->  4 consumers: inbox, one row, one message to the outbox
 *     2 relays    ->  "out"  ->  2 second consumers: another store, inbox, one row
 *                            ->  the foreign consumer: writes down what it gets
 *
 * Publisher and foreign consumer use another client of the broker, and not semel. The publisher
 * sends one message in five twice, and again whatever was not confirmed when the broker died. All
 * the while processes, the broker and the database get SIGKILL, and processes are started again at
 * once (killer.c). In the end, of every message: one row of the first consumers, one row of the
 * second, at least one line of the foreign consumer, always under the same id; and no process ended
 * unless the run killed or stopped it.
 *
 * One message more is poison: the process that handles it dies. In the end it is a dead letter, and
 * the only one, however often its neighbours were killed with it.
 *
 * Order. Half of the messages go through a queue with one active consumer, whose workers keep the
 * order of a group: there the first handling of each message of a group must come in the order of
 * publishing, in the rows of the first and of the second consumers and in the lines of the foreign
 * one. The other half goes through a queue from which all consumers take at once and where a
 * message that fails is overtaken: no order to check, but much more to collide.
 *
 * soak.h shows the parts: servers.c, topology.c, supervisor.c, killer.c, roles.c, check.c; and
 * brokers.h what a broker is to it. */
#include "brokers.h"
#include "store/keyed/hold.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile sig_atomic_t soak_interrupted;
static pid_t main_process;

enum {
    KILLS_MIN = 50,
    KILLS_PER_MINUTE = 12,
    WINDOW_MIN = 400,
    WINDOW_MAX = 8000,
    HOLD_MS = 5000,
    HOLD_SHORT_MS = 1000
};

/* --- for all ---------------------------------------------------------------------------------- */

void soak_die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fputs("\nsemel-soak: ", stderr);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
    if (getpid() != main_process) /* a child, which has nothing to clear away */
        _exit(PROCESS_REQUIRED);
    exit(soak_interrupted ? 130 : 1); /* children and servers end with us */
}

void soak_print(char *out, size_t room, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(out, room, format, arguments);
    va_end(arguments);
    if (len < 0 || (size_t)len >= room)
        soak_die("no room for \"%s\"", format);
}

const char *soak_store_name(soak_store store)
{
    static const char *const names[SOAK_STORES] = {"sqlite", "postgres", "redis", "dynamodb"};
    return names[store];
}

void soak_log(const soak_run *run, const char *format, ...)
{
    char path[SCRATCH_PATH], text[SOAK_URL];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    FILE *file = fopen(scratch_file(path, &run->directory, "log"), "ae");
    if (!file)
        soak_die("cannot write to %s", path);
    (void)fprintf(file, "%8.3f %s\n", (double)(process_now_ms() - run->started_ms) / 1000, text);
    (void)fclose(file);
}

static void on_interrupt(int number)
{
    (void)number;
    soak_interrupted = 1;
}

/* --- options ---------------------------------------------------------------------------------- */

static const char help[] =
    "usage: semel-soak [option]...\n"
    "\n"
    "Messages from a publisher to a database and on to another one, while consumers, relays,\n"
    "broker and database are killed again and again. Ends with 0 if nothing was lost, nothing\n"
    "was done twice and no order was broken.\n"
    "\n"
    "  --minutes M       publish for so long, over all stores (default 10); 0: as short as it "
    "takes\n"
    "  --messages N      at least so many on each store (default 100000); with --minutes 0 "
    "exactly\n"
    "  --broker NAME     rabbitmq (default), or another one that is built in\n"
    "  --store NAME      sqlite, postgres, both of them (default: both), or redis or dynamodb\n"
    "                    (an emulator), whose effects are messages\n"
    "  --kills K         on each store (default 12 per minute and at least 50)\n"
    "  --effect KIND     of a handler: row (default), or message, as on a store without SQL\n"
    "  --spare-servers   kill processes only, not the broker and not the database\n"
    "  --seed S          what is killed, and when; what is sent twice (default: by the clock)\n"
    "  --keep            leave the databases, logs and lists, and say where; so, too, when all is "
    "not well\n";

static _Noreturn void refuse(const char *option, const char *value)
{
    (void)fprintf(stderr, "semel-soak: %s does not take \"%s\"; --help says what it takes\n",
                  option, value);
    exit(2);
}

static double read_number(const char *option, const char *text, double min, double max)
{
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !(number >= min && number <= max))
        refuse(option, text);
    return number;
}

static void read_store(soak_options *options, const char *text)
{
    int both = strcmp(text, "both") == 0;
    int known = 0;
    for (unsigned store = 0; store < SOAK_STORES; store++) {
        int is_named = strcmp(text, soak_store_name((soak_store)store)) == 0;
        options->stores[store] = is_named || (both && store <= SOAK_POSTGRES);
        known |= options->stores[store];
    }
    if (!known)
        refuse("--store", text);
}

static void read_broker(soak_options *options, const char *text)
{
    char list[SOAK_TEXT];
    options->broker = soak_broker_find(text);
    if (options->broker)
        return;
    soak_broker_list(list, sizeof list);
    (void)fprintf(stderr, "semel-soak: there is no broker \"%s\", but: %s\n", text, list);
    exit(2);
}

static void read_effect(soak_options *options, const char *text)
{
    options->by_message = strcmp(text, "message") == 0;
    if (!options->by_message && strcmp(text, "row") != 0)
        refuse("--effect", text);
}

static void read_option(soak_options *options, int choice, const char *text)
{
    switch (choice) {
    case 'm':
        options->minutes = read_number("--minutes", text, 0, 10000);
        break;
    case 'n':
        options->messages = (uint64_t)read_number("--messages", text, 1, 1e9);
        break;
    case 'b':
        read_broker(options, text);
        break;
    case 's':
        read_store(options, text);
        break;
    case 'k':
        options->kills = (unsigned)read_number("--kills", text, 0, SOAK_KILLS_MAX);
        options->kills_given = 1;
        break;
    case 'e':
        read_effect(options, text);
        break;
    case 'p':
        options->spare_servers = 1;
        break;
    case 'r':
        options->seed = (uint32_t)read_number("--seed", text, 0, UINT32_MAX);
        break;
    case 'l':
        options->keep = 1;
        break;
    default:
        (void)fputs(help, choice == 'h' ? stdout : stderr);
        exit(choice == 'h' ? 0 : 2);
    }
}

static void read_arguments(soak_options *options, int argc, char **argv)
{
    static const struct option known[] = {{"minutes", required_argument, NULL, 'm'},
                                          {"messages", required_argument, NULL, 'n'},
                                          {"store", required_argument, NULL, 's'},
                                          {"kills", required_argument, NULL, 'k'},
                                          {"effect", required_argument, NULL, 'e'},
                                          {"spare-servers", no_argument, NULL, 'p'},
                                          {"seed", required_argument, NULL, 'r'},
                                          {"keep", no_argument, NULL, 'l'},
                                          {"broker", required_argument, NULL, 'b'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int choice;
    *options = (soak_options){.minutes = 10, .messages = 100000, .stores = {1, 1}};
    options->seed = (uint32_t)process_now_ms();
    while ((choice = getopt_long(argc, argv, "h", known, NULL)) != -1)
        read_option(options, choice, optarg);
    if (optind < argc)
        refuse("semel-soak", argv[optind]);
    if (!options->broker)
        read_broker(options, "rabbitmq");
    options->by_message |= options->stores[SOAK_REDIS] || options->stores[SOAK_DYNAMODB];
}

/* --- the table -------------------------------------------------------------------------------- */

static void row(const char *name, uint64_t number)
{
    printf("  %-44s %12llu\n", name, (unsigned long long)number);
}

static void print_tally(const char *name, const soak_tally *tally, int once)
{
    printf("  %s\n", name);
    row("  effects", tally->seen);
    row(once ? "  doubled" : "  copies, which it must expect", tally->doubled);
    row("  lost", tally->lost);
    row("  out of order", tally->out_of_order);
    if (tally->unknown)
        row("  never published", tally->unknown);
    if (tally->renamed)
        row("  under another id than before", tally->renamed);
}

static void print_kills(const soak_run *run)
{
    const unsigned *killed = run->killed;
    unsigned all = 0;
    for (unsigned i = 0; i < SOAK_VICTIMS; i++)
        all += i == SOAK_VICTIM_RESTART ? 0 : killed[i];
    row("killed", all);
    row("  consumers", killed[SOAK_VICTIM_CONSUMER]);
    row("  relays", killed[SOAK_VICTIM_RELAY]);
    row("  second consumers", killed[SOAK_VICTIM_SECOND]);
    row("  the broker", killed[SOAK_VICTIM_BROKER]);
    row(run->store == SOAK_SQLITE ? "  all processes at once" : "  the database",
        killed[SOAK_VICTIM_DATABASE]);
    row("  handlers that were at work then", run->caught[0]);
    row("told to stop and started again", killed[SOAK_VICTIM_RESTART]);
    row("died of the poison", run->poisoned);
    row("  handlers that were at work then", run->caught[1]);
    row("ended otherwise", run->surprises);
}

static void print_table(const soak_run *run)
{
    const soak_counters *counters = run->counters;
    double seconds = (double)run->took_ms / 1000;
    const soak_broker *broker = run->options->broker;
    printf("%s on %s, seed %u: %s\n", soak_store_name(run->store), broker->name, run->options->seed,
           soak_run_is_good(run) ? "every effect once, all in order" : "NOT WELL");
    if (soak_missing(run))
        printf("  %s\n", soak_missing(run));
    row("published", atomic_load(&counters->published));
    row("  copies sent on purpose", atomic_load(&counters->copies));
    row("  sent again, the broker's answer being lost", atomic_load(&counters->repeated));
    row("deliveries to the consumers", atomic_load(&counters->delivered[0]));
    row("  that came again", atomic_load(&counters->again[0]));
    row("deliveries to the second consumers", atomic_load(&counters->delivered[1]));
    row("  that came again", atomic_load(&counters->again[1]));
    row("handlers that failed on purpose", atomic_load(&counters->failed));
    row("troubles waited out", atomic_load(&counters->troubles));
    row("  a server out of reach", atomic_load(&counters->outages));
    print_kills(run);
    print_tally("consumers", &run->first, 1);
    print_tally("second consumers", &run->second, 1);
    print_tally("foreign consumer", &run->foreign, 0);
    row("dead letters", run->dead);
    row("  the poison's own, which must be the only one", run->dead_poison);
    printf("  %-44s %10.1f s\n", "took", seconds);
    printf("  %-44s %10.0f /s\n", "messages", (double)atomic_load(&counters->published) / seconds);
    (void)fflush(stdout);
}

/* --- runs ------------------------------------------------------------------------------------- */

static void choose_sizes(soak_run *run)
{
    const soak_options *options = run->options;
    int stores = 0;
    for (unsigned i = 0; i < SOAK_STORES; i++)
        stores += options->stores[i];
    double minutes = options->minutes / stores;
    unsigned by_time = (unsigned)(minutes * KILLS_PER_MINUTE);
    run->length_ms = (int64_t)(minutes * 60000);
    run->kills = options->kills_given ? options->kills : by_time > KILLS_MIN ? by_time : KILLS_MIN;
    run->hold_ms = run->length_ms ? HOLD_MS : HOLD_SHORT_MS;
    if (!run->length_ms && run->servers->has_database) /* else the library's own */
        keyed_hold_ms = HOLD_SHORT_MS + (uint32_t)server_clock_ms(run->servers->database_kind);
    run->window = options->messages / 10;
    if (run->window < WINDOW_MIN)
        run->window = WINDOW_MIN;
    if (run->window > WINDOW_MAX)
        run->window = WINDOW_MAX;
}

/* 1 if all is well. */
static int run_on(soak_store store, const soak_options *options, soak_servers *servers)
{
    static soak_run run;
    run = (soak_run){.options = options, .servers = servers, .store = store};
    choose_sizes(&run);
    soak_topology_open(&run);
    soak_supervise(&run);
    if (!soak_interrupted && !run.unpublished) {
        soak_check(&run);
        print_table(&run);
    }
    int good = !soak_interrupted && soak_run_is_good(&run);
    soak_topology_close(&run, options->keep || !(good || soak_interrupted));
    return good;
}

static void obey_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_interrupt};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* For publish.py. */
static int run_client(const char *name, const char *url, const char *store)
{
    const soak_broker *broker = soak_broker_find(name);
    if (!broker || !broker->client)
        soak_die("there is no client of %s in C", name);
    return soak_client_publish(broker, url, store);
}

int main(int argc, char **argv)
{
    soak_options options;
    int good = 1;
    main_process = getpid();
    if (argc == 5 && strcmp(argv[1], "--client") == 0)
        return run_client(argv[2], argv[3], argv[4]);
    read_arguments(&options, argc, argv);
    obey_signals();
    soak_servers *servers = soak_servers_start(&options);
    for (unsigned store = 0; store < SOAK_STORES && !soak_interrupted; store++)
        if (options.stores[store])
            good &= run_on((soak_store)store, &options, servers);
    soak_servers_stop();
    if (soak_interrupted)
        (void)fputs("semel-soak: interrupted\n", stderr);
    return soak_interrupted ? 130 : !good;
}
