/* SIGKILL at random, and now and then SIGTERM. The seed decides which process gets it, and when: a
 * list of victims is made before the run, with every kind in it several times, and each is due at a
 * random share of the run. A process is killed, or told to stop in the middle of its work, and the
 * supervisor starts it again; a server is crashed, stays down for a while, and is started again,
 * while the killing of others goes on. Processes of SQLite's are killed all at once, which is what
 * a crash of that database is. */
#include "soak.h"

#include "support/fixture/shop.h"

#include <stdlib.h>
#include <sys/wait.h>

enum {
    SERVER_PART = 8, /* one kill in so many is of the broker, and one of the database */
    DOWN_MS_MAX = 3000,
    LURK_MS_MAX = 300,
    SCRIPT_MS_MAX = 120000
};

typedef struct death {
    soak_victim victim;
    double share; /* of the run, when it is due */
} death;

typedef enum outage_phase {
    OUTAGE_NONE,
    OUTAGE_CRASHING,
    OUTAGE_DOWN,
    OUTAGE_RESTARTING
} outage_phase;

/* Of one server. */
typedef struct outage {
    const char *name;
    server_own *server;
    outage_phase phase;
    pid_t script;
    int64_t until_ms; /* down, or the deadline of the script */
} outage;

struct soak_killer {
    soak_run *run;
    uint32_t seed;
    death deaths[SOAK_KILLS_MAX];
    unsigned next;
    outage broker, database;
};

/* --- the plan --------------------------------------------------------------------------------- */

static soak_victim victim_of(const soak_run *run, unsigned number, unsigned servers)
{
    static const soak_victim processes[] = {SOAK_VICTIM_CONSUMER, SOAK_VICTIM_RELAY,
                                            SOAK_VICTIM_RESTART, SOAK_VICTIM_CONSUMER,
                                            SOAK_VICTIM_SECOND};
    if (number < servers)
        return SOAK_VICTIM_DATABASE;
    if (number < 2 * servers && !run->options->spare_servers)
        return SOAK_VICTIM_BROKER;
    return processes[number % (sizeof processes / sizeof *processes)];
}

static int by_share(const void *left, const void *right)
{
    double a = ((const death *)left)->share, b = ((const death *)right)->share;
    return (a > b) - (a < b);
}

static void plan(soak_killer *killer)
{
    soak_run *run = killer->run;
    unsigned servers = run->kills / SERVER_PART;
    if (run->options->spare_servers && run->store != SOAK_SQLITE)
        servers = 0;
    for (unsigned i = 0; i < run->kills; i++)
        killer->deaths[i] =
            (death){.victim = victim_of(run, i, servers),
                    .share = 0.02 + 0.94 * shop_random(&killer->seed, 10000) / 10000};
    qsort(killer->deaths, run->kills, sizeof *killer->deaths, by_share);
}

soak_killer *soak_killer_open(soak_run *run)
{
    soak_killer *killer = calloc(1, sizeof *killer);
    if (!killer)
        soak_die("no memory for a killer");
    killer->run = run;
    killer->seed = run->options->seed * 2 + (uint32_t)run->store + 1;
    killer->broker = (outage){.name = "the broker", .server = &run->servers->broker};
    killer->database = (outage){.name = "the database", .server = &run->servers->database};
    plan(killer);
    return killer;
}

/* --- servers ---------------------------------------------------------------------------------- */

static int crash_server(void *context)
{
    soak_leave();
    server_own_crash(context);
    return PROCESS_OK;
}

static int restart_server(void *context)
{
    soak_leave();
    server_own_restart(context);
    return PROCESS_OK;
}

static void outage_script(soak_killer *killer, outage *o, outage_phase phase)
{
    int crashing = phase == OUTAGE_CRASHING;
    soak_log(killer->run, "%s %s", crashing ? "crash" : "restart", o->name);
    o->phase = phase;
    o->script = process_start(crashing ? crash_server : restart_server, o->server);
    o->until_ms = process_now_ms() + SCRIPT_MS_MAX;
}

static int outage_script_is_over(outage *o)
{
    int status = 0;
    pid_t got = waitpid(o->script, &status, WNOHANG);
    if (got == 0 && process_now_ms() < o->until_ms)
        return 0;
    if (got != o->script || status != 0)
        soak_die("%s cannot be crashed or restarted", o->name);
    return 1;
}

static void outage_step(soak_killer *killer, outage *o)
{
    if (o->phase == OUTAGE_CRASHING && outage_script_is_over(o)) {
        o->phase = OUTAGE_DOWN;
        o->until_ms = process_now_ms() + shop_random(&killer->seed, DOWN_MS_MAX);
    } else if (o->phase == OUTAGE_DOWN && process_now_ms() >= o->until_ms) {
        outage_script(killer, o, OUTAGE_RESTARTING);
    } else if (o->phase == OUTAGE_RESTARTING && outage_script_is_over(o)) {
        o->phase = OUTAGE_NONE;
        soak_log(killer->run, "%s is up", o->name);
    }
}

/* Nothing is left down, for the looks at what has become of the messages. A script is never left
 * half way. */
static void outage_end(soak_killer *killer, outage *o)
{
    while (o->phase != OUTAGE_NONE && !(soak_interrupted && o->phase == OUTAGE_DOWN)) {
        outage_step(killer, o);
        process_nap();
    }
}

void soak_killer_close(soak_killer *killer)
{
    outage_end(killer, &killer->broker);
    outage_end(killer, &killer->database);
    free(killer);
}

/* 0: it is down already, so wait. */
static int crash(soak_killer *killer, outage *o)
{
    if (o->phase != OUTAGE_NONE)
        return 0;
    outage_script(killer, o, OUTAGE_CRASHING);
    return 1;
}

/* --- processes -------------------------------------------------------------------------------- */

/* 0: there is no process in that role at this moment. */
static int tell_slot(soak_slot *slot, int signal_number)
{
    if (slot->pid <= 0 || slot->told)
        return 0;
    slot->told = signal_number;
    slot->told_ms = process_now_ms();
    kill(slot->pid, signal_number);
    soak_log(slot->run, "%s %s %u (%d)",
             signal_number == SIGKILL ? "killed" : "told to stop:", soak_role_names[slot->role],
             slot->number, (int)slot->pid);
    return 1;
}

/* Every other victim is met in the middle of a handler, if it has anything to do. */
static void lurk(const soak_killer *killer, const soak_slot *slot)
{
    int64_t until = process_now_ms() + LURK_MS_MAX;
    if (killer->next % 2 || slot->role == SOAK_RELAY)
        return;
    while (!atomic_load(&killer->run->counters->at_work[slot->index]) && process_now_ms() < until)
        process_nap();
}

static int tell_one_of(soak_killer *killer, soak_role from, soak_role to, int signal_number)
{
    unsigned roles = (unsigned)(to - from) + 1;
    unsigned slot =
        (unsigned)from * SOAK_SLOTS_EACH + shop_random(&killer->seed, roles * SOAK_SLOTS_EACH);
    lurk(killer, &killer->run->slots[slot]);
    return tell_slot(&killer->run->slots[slot], signal_number);
}

static int kill_all(soak_killer *killer)
{
    int killed = 0;
    for (unsigned i = 0; i < SOAK_SLOTS; i++)
        killed += tell_slot(&killer->run->slots[i], SIGKILL);
    return killed > 0;
}

/* --- the turn --------------------------------------------------------------------------------- */

static int kill_victim(soak_killer *killer, soak_victim victim)
{
    switch (victim) {
    case SOAK_VICTIM_CONSUMER:
        return tell_one_of(killer, SOAK_ORDERED, SOAK_FREE, SIGKILL);
    case SOAK_VICTIM_RELAY:
        return tell_one_of(killer, SOAK_RELAY, SOAK_RELAY, SIGKILL);
    case SOAK_VICTIM_SECOND:
        return tell_one_of(killer, SOAK_SECOND, SOAK_SECOND, SIGKILL);
    case SOAK_VICTIM_RESTART:
        return tell_one_of(killer, SOAK_ORDERED, SOAK_SECOND, SIGTERM);
    case SOAK_VICTIM_BROKER:
        return crash(killer, &killer->broker);
    default:
        return killer->run->store == SOAK_SQLITE ? kill_all(killer)
                                                 : crash(killer, &killer->database);
    }
}

/* One at a time: a victim that is due and cannot be killed now holds up the others. */
void soak_killer_step(soak_killer *killer, double share)
{
    outage_step(killer, &killer->broker);
    outage_step(killer, &killer->database);
    if (killer->next == killer->run->kills || killer->deaths[killer->next].share > share)
        return;
    soak_victim victim = killer->deaths[killer->next].victim;
    if (!kill_victim(killer, victim))
        return;
    killer->run->killed[victim]++;
    killer->next++;
}

int soak_killer_done(const soak_killer *killer)
{
    return killer->next == killer->run->kills && killer->broker.phase == OUTAGE_NONE &&
           killer->database.phase == OUTAGE_NONE;
}

const char *soak_killer_outages(const soak_killer *killer)
{
    int broker = killer->broker.phase != OUTAGE_NONE,
        database = killer->database.phase != OUTAGE_NONE;
    if (broker && database)
        return "broker and database are down";
    return broker ? "the broker is down" : database ? "the database is down" : "";
}
