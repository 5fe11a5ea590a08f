/* semel demo: a payment provider, two shops, and many kills. This file is the command: its options,
 * the course of it, and the cleaning up.
 *
 *     demo_plan        what is due and when it is delivered, from the seed
 *     demo_supervisor  the provider's side of one shop: deliveries, redeliveries, kills
 *     demo_receiver    the provider's books: what is due, and which events came
 *     demo_naive       the one shop       (a process of its own: `semel demo-worker naive`)
 *     demo_semel       the other shop     (`semel demo-worker semel`)
 *     demo_check       what the ledgers say at the end, against what is due
 *     demo_dir         the directory of it all
 *     demo_wire        what provider and shops send each other
 *     demo_show, demo_table, demo_screen    what is seen of it */
#include "program/cli.h"
#include "program/demo/demo_check.h"
#include "program/demo/demo_dir.h"
#include "program/demo/demo_show.h"
#include "program/demo/demo_supervisor.h"
#include "program/demo/demo_table.h"
#include "program/support/colour.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

const char demo_help[] =
    "usage: semel demo [--charges N] [--kills N] [--seed N] [--keep DIR] [--color WHEN]\n"
    "\n"
    "A payment provider sends charges, 30 % of them a second time, to two shops: a naive one,\n"
    "as most people write it, and one on semel, both on SQLite. Both are killed with SIGKILL\n"
    "again and again and started again. At the end stands what each of them charged.\n"
    "In both a charge is half a millisecond of work besides the database, and an event is on\n"
    "its way to the provider for another half.\n"
    "\n"
    "  --charges N   how many charges are due: 1 to 100000, default 3000, or what a\n"
    "                slow disk can do in a good half minute\n"
    "  --kills N     how often each shop is killed: 0 to 10000, default 60\n"
    "  --seed N      the same charges, copies and order of kills again; the exact moments of\n"
    "                the kills depend on the machine as well\n"
    "  --keep DIR    keep the databases there, to look at; DIR must be new or empty\n"
    "  --color WHEN  auto, always or never\n"
    "\n"
    "Exit status 0 if the shop on semel made exactly the charges that were due, each once, and\n"
    "announced each once; else 1.\n";

enum { CHARGES_MAX = 100000, KILLS_MAX = 10000 };

/* How many charges there are by default: fewer where the disk is so slow that it would take longer
 * than people watch. */
enum {
    CHARGES_DEFAULT = 3000,
    CHARGES_LEAST = 1000,
    PATIENCE_US = 45 * 1000000,
    WITHOUT_COMMITS_US = 1500 /* of one charge in the slower shop, which commits twice */
};

typedef struct demo {
    uint32_t charges; /* 0: not given */
    uint32_t kills;
    uint64_t seed;
    const char *keep;

    demo_dir directory;
    plan plan;
    receiver receiver;
    supervisor supervisors[SHOPS];
    show show;
    verdict verdicts[SHOPS];
} demo;

/* --- the command line ------------------------------------------------------------------------- */

static int read_number(uint64_t *out, const char *option, const char *text, uint64_t min,
                       uint64_t max)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || number < min || number > max)
        return cli_usage("demo", "--%s takes a number from %llu to %llu, not \"%s\"", option,
                         (unsigned long long)min, (unsigned long long)max, text);
    *out = number;
    return CLI_OK;
}

static int read_option(demo *out, int option, const char *text)
{
    uint64_t number = 0;
    int wrong = CLI_OK;
    switch (option) {
    case 'c':
        wrong = read_number(&number, "charges", text, 1, CHARGES_MAX);
        out->charges = (uint32_t)number;
        return wrong;
    case 'k':
        wrong = read_number(&number, "kills", text, 0, KILLS_MAX);
        out->kills = (uint32_t)number;
        return wrong;
    case 's':
        return read_number(&out->seed, "seed", text, 0, UINT64_MAX);
    case 'd':
        out->keep = text;
        return *text ? CLI_OK : cli_usage("demo", "--keep needs the name of a directory");
    case 'o':
        return colour_choose(text)
                   ? CLI_OK
                   : cli_usage("demo", "--color is auto, always or never, not \"%s\"", text);
    default:
        return CLI_USAGE;
    }
}

static int read_options(demo *out, int argc, char **argv)
{
    static const struct option options[] = {
        {"charges", required_argument, NULL, 'c'}, {"kills", required_argument, NULL, 'k'},
        {"seed", required_argument, NULL, 's'},    {"keep", required_argument, NULL, 'd'},
        {"color", required_argument, NULL, 'o'},   {NULL, 0, NULL, 0}};
    int option, wrong = CLI_OK;
    opterr = 0;
    while (!wrong && (option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        if (option == ':')
            return cli_usage("demo", "%s needs a value", argv[optind - 1]);
        if (option == '?')
            return cli_usage("demo", "there is no option %s", argv[optind - 1]);
        wrong = read_option(out, option, optarg);
    }
    if (!wrong && optind < argc)
        return cli_usage("demo", "it takes options only, and there is \"%s\"", argv[optind]);
    return wrong;
}

/* --- signals ---------------------------------------------------------------------------------- */

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
    caught = number;
}

/* All that a person or a shell may end the demo with. They are let through only while it waits. */
static void catch_signals(sigset_t *while_waiting)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t all;
    sigemptyset(&all);
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction before;
        if (sigaction(numbers[i], NULL, &before) != 0 || before.sa_handler == SIG_IGN)
            continue; /* as under nohup: the caller wants it so */
        sigaddset(&all, numbers[i]);
        (void)sigaction(numbers[i], &action, NULL);
    }
    (void)sigprocmask(SIG_BLOCK, &all, while_waiting);
}

/* Ends as the signal would have, now that all is cleaned up: the shell wants to know. */
static void raise_caught(const sigset_t *mask)
{
    (void)signal(caught, SIG_DFL);
    (void)raise(caught);
    (void)sigprocmask(SIG_SETMASK, mask, NULL);
}

/* --- the course of it ------------------------------------------------------------------------- */

static int is_over(const demo *self)
{
    int running = 0;
    for (uint32_t shop = 0; shop < SHOPS; shop++) {
        if (self->supervisors[shop].state == SUPERVISOR_FAILED)
            return 1;
        running += self->supervisors[shop].state != SUPERVISOR_DONE;
    }
    return !running;
}

static void wait_for_something(const demo *self, int64_t until_us, const sigset_t *mask)
{
    struct pollfd files[2 * SHOPS];
    nfds_t count = 0;
    for (uint32_t shop = 0; shop < SHOPS; shop++) {
        const supervisor *sup = &self->supervisors[shop];
        if (sup->state == SUPERVISOR_DONE)
            continue;
        files[count++] = (struct pollfd){.fd = sup->process.deliveries, .events = POLLIN};
        files[count++] = (struct pollfd){.fd = sup->process.events, .events = POLLIN};
        int64_t wake = supervisor_wake_us(sup);
        until_us = wake < until_us ? wake : until_us;
    }
    int64_t left = until_us - now_us();
    left = left > 0 ? left : 0;
    struct timespec limit = {left / 1000000, left % 1000000 * 1000};
    (void)ppoll(files, count, &limit, mask);
}

static int run_shops(demo *self, const sigset_t *mask)
{
    for (uint32_t shop = 0; shop < SHOPS; shop++)
        supervisor_open(&self->supervisors[shop], shop, &self->plan, &self->receiver,
                        self->seed + shop + 1);
    show_begin(&self->show, self->supervisors);
    while (!caught && !is_over(self)) {
        wait_for_something(self, show_update(&self->show), mask);
        for (uint32_t shop = 0; shop < SHOPS; shop++)
            supervisor_step(&self->supervisors[shop]);
    }
    show_end(&self->show);
    int failed = CLI_OK;
    for (uint32_t shop = 0; shop < SHOPS; shop++) {
        supervisor_close(&self->supervisors[shop]);
        if (self->supervisors[shop].state == SUPERVISOR_FAILED)
            failed = cli_failed("demo", "%s: %s", shop_names[shop], self->supervisors[shop].error);
    }
    return failed;
}

static int check_shops(demo *self)
{
    char error[512];
    for (uint32_t shop = 0; shop < SHOPS; shop++)
        if (check_shop(&self->verdicts[shop], PROVIDER_DATABASE, shop_names[shop],
                       self->supervisors[shop].database, error, sizeof error))
            return cli_failed("demo", "%s", error);
    if (check_store(&self->verdicts[1], self->supervisors[1].database, error, sizeof error))
        return cli_failed("demo", "%s", error);
    return CLI_OK;
}

static uint32_t choose_charges(void)
{
    long commit_us = demo_dir_commit_us();
    long affordable =
        commit_us < 0 ? CHARGES_DEFAULT : PATIENCE_US / (2 * commit_us + WITHOUT_COMMITS_US);
    if (affordable >= CHARGES_DEFAULT)
        return CHARGES_DEFAULT;
    uint32_t charges = (uint32_t)(affordable < CHARGES_LEAST ? CHARGES_LEAST : affordable);
    charges -= charges % 100;
    (void)fprintf(stderr, "A commit takes %.1f ms here, so there are %u charges instead of %d.\n\n",
                  (double)commit_us / 1000, charges, CHARGES_DEFAULT);
    return charges;
}

static int demo_report(demo *self)
{
    const screen out = screen_look(STDOUT_FILENO), *err = &self->show.screen;
    int failed = check_shops(self);
    if (failed)
        return failed;
    (void)fputc('\n', stderr);
    demo_table_print(&out, self->supervisors, self->verdicts);
    (void)putchar('\n');
    table_conclude(&out, self->supervisors, self->verdicts);
    (void)fflush(stdout);
    (void)fprintf(stderr,
                  "%s\nBoth shops on SQLite %s, WAL, synchronous=full.\n"
                  "The same plan again: semel demo --charges %u --kills %u --seed %llu%s\n",
                  screen_ink(err, INK_DIM), sqlite3_libversion(), self->charges, self->kills,
                  (unsigned long long)self->seed, screen_ink(err, INK_PLAIN));
    return verdict_is_exact(&self->verdicts[1]) ? CLI_OK : CLI_FAILED;
}

static int demo_run(demo *self, const sigset_t *mask)
{
    semel_error err = {0};
    if (!self->charges)
        self->charges = choose_charges();
    if (plan_make(&self->plan, self->charges, self->kills, self->seed) != 0)
        return cli_failed("demo", "out of memory");
    if (receiver_open(&self->receiver, &self->plan, &err))
        return cli_failed("demo", "the provider: %s", err.text);
    int failed = run_shops(self, mask);
    return failed || caught ? CLI_FAILED : demo_report(self);
}

/* What shows a mistake of semel is not thrown away. */
static void clean_up(demo *self, int failed)
{
    receiver_close(&self->receiver);
    plan_free(&self->plan);
    (void)fflush(stdout);
    if (failed && !caught && self->verdicts[1].due)
        self->directory.temporary = 0;
    if (!self->directory.temporary)
        (void)fprintf(stderr, "The databases are in %s\n", self->directory.path);
    demo_dir_close(&self->directory);
}

int cmd_demo(int argc, char **argv)
{
    demo self = {.kills = 60};
    sigset_t mask;
    if (getrandom(&self.seed, sizeof self.seed, 0) < 0)
        self.seed = (uint64_t)now_us();
    self.seed %= 1000000;
    int wrong = read_options(&self, argc, argv);
    if (wrong)
        return wrong;
    catch_signals(&mask);
    if (demo_dir_open(&self.directory, self.keep) != 0)
        return cli_failed("demo", "cannot use %s: %s",
                          self.keep ? self.keep : "a temporary directory", strerror(errno));
    int failed = demo_run(&self, &mask);
    clean_up(&self, failed);
    if (caught)
        raise_caught(&mask);
    return failed;
}
