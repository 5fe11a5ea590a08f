/* The broker and the database of the program, kept by a process of their own.
 *
 * dev/servers is a script, and a script that gets Ctrl-C in the middle leaves half a server; so it
 * must not be in the process group of the terminal. What it starts ends with the process that
 * called it. That is the keeper: a child, in a group of its own, which starts the servers, waits,
 * and stops them when told to. If this program is killed, so is the keeper, and the servers end by
 * themselves. */
#include "brokers.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_MS = 180000, STOP_MS = 120000 };

static soak_servers *kept; /* shared with the keeper */
static pid_t keeper, owner;

void soak_leave(void)
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0)
        process_give_up(__FILE__, __LINE__, "/dev/null");
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
}

static int keep(void *context)
{
    sigset_t told;
    int number;
    (void)context;
    soak_leave();
    sigemptyset(&told);
    sigaddset(&told, SIGTERM);
    sigprocmask(SIG_BLOCK, &told, NULL); /* it waits until the servers have started */
    server_own_start(&kept->broker, kept->broker_kind);
    if (kept->has_database)
        server_own_start(&kept->database, kept->database_kind);
    atomic_store(&kept->ready, 1);
    sigwait(&told, &number);
    server_own_stop(&kept->broker);
    if (kept->has_database)
        server_own_stop(&kept->database);
    return PROCESS_OK;
}

void soak_servers_stop(void)
{
    if (keeper <= 0 || getpid() != owner)
        return;
    kill(keeper, SIGTERM);
    if (process_wait(keeper, STOP_MS) != PROCESS_OK)
        (void)fputs("semel-soak: the servers do not stop\n", stderr);
    keeper = 0;
}

soak_servers *soak_servers_start(const soak_options *options)
{
    static const server_kind kinds[SOAK_STORES] = {[SOAK_POSTGRES] = SERVER_POSTGRES,
                                                   [SOAK_REDIS] = SERVER_REDIS,
                                                   [SOAK_DYNAMODB] = SERVER_DYNAMODB};
    int64_t deadline = process_now_ms() + START_MS;
    kept = process_share(sizeof *kept);
    kept->broker_kind = options->broker->server;
    for (unsigned store = 0; store < SOAK_STORES; store++)
        if (options->stores[store] && kinds[store]) {
            kept->has_database = 1;
            kept->database_kind = kinds[store];
        }
    owner = getpid();
    keeper = process_start(keep, NULL);
    (void)atexit(soak_servers_stop);
    while (!atomic_load(&kept->ready)) {
        if (soak_interrupted)
            return NULL;
        if (waitpid(keeper, NULL, WNOHANG) == keeper || process_now_ms() > deadline) {
            keeper = 0;
            soak_die("the servers do not start");
        }
        process_nap();
    }
    return kept;
}
